"""Programs of public memory issues as cases: a function with the shapes of the issue, and the same program at a size that can be run.

A program file calls `measure(name, f, *shapes)` and `pair(name, f, g, *shapes)` of a module named `_measure`, or has a dictionary PROGS of
functions that give (f, shapes), or of (f, shapes, keywords of jax.jit). It is read twice: as it is, and with every large number in its text
made small. Equal numbers stay equal, and numbers that divide each other mostly do; where the small program makes no sense, there is none.
"""
import ast
import contextlib
import os
import runpy
import sys
import types
from dataclasses import dataclass, field

ROWS = 1 << 16
SCALE = {"HLO_N": str(ROWS)}
# Most operations on floats that a reduced program may take.
WORK = 1e11
# Most bytes of its arguments.
MOST = 1 << 30


@dataclass
class Case:
    """One program. `function` and `shapes` are of the size of the issue; `small` makes another function and its shapes, or is None."""
    program: str
    name: str
    function: object
    shapes: tuple
    given: dict = field(default_factory=dict)
    keywords: dict = field(default_factory=dict)
    small: object = None


def files(folder, wanted):
    """Program files in a folder that tell what they hold."""
    import re
    for path in sorted(folder.glob("*.py")):
        if (re.match(r"r\d+_", path.name) or path.name in ("patterns.py", "assignment.py")) and re.search(wanted, path.name):
            yield path


def cases(path, flags=""):
    """All programs of a file, one by one; of `patterns.py` those that ask for these flags of XLA."""
    if path.name == "patterns.py":
        yield from of_patterns(path, flags)
    elif path.name == "assignment.py":
        yield from of_assignment(path)
    else:
        yield from of_issue(path)


def flags_of(path):
    """Flags of XLA that programs of a file ask for, each once; flags are read once per process."""
    if path.name != "patterns.py":
        return [""]
    return sorted({flags for _, flags, _, _ in runpy.run_path(str(path))["PROGS"].values()})


def of_patterns(path, wanted):
    """The number of rows is read from the environment when the file is loaded; programs that stay large without rows are read once more, small."""
    import jax
    read, text = [], path.read_text()
    for environment, written in (({}, text), (SCALE, text), (SCALE, reduced(text))):
        os.environ.pop("HLO_N", None)
        os.environ.update(environment)
        read.append(read_as(path, written)["PROGS"])
    for name, (make, flags, x64, _) in read[0].items():
        if flags == wanted:
            jax.config.update("jax_enable_x64", x64)
            function, shapes = make()
            yield Case("patterns", name, function, tuple(shapes), small=lambda name=name: affordable(read[1][name][0], read[2][name][0]))


def affordable(make, smaller):
    """The first of two sizes of a program, or the second where the first would take minutes to run or more memory than `random_data` gives."""
    import jax
    function, shapes = make()
    try:
        cost = (function if hasattr(function, "lower") else jax.jit(function)).lower(*shapes).cost_analysis()["flops"]
    except Exception:  # noqa: BLE001: a program that is partitioned has no such figure
        cost = 0
    return (function, shapes) if cost < WORK and bytes_of(shapes) <= MOST else smaller()


def bytes_of(shapes):
    import jax
    import numpy as np
    return sum(np.prod(leaf.shape, dtype=float) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def of_assignment(path):
    arguments, sys.argv = sys.argv, ["assignment", os.devnull]
    try:
        read = [read_as(path, text) for text in (path.read_text(), reduced(path.read_text()))]
    finally:
        sys.argv = arguments
    for name, (function, shapes, given) in read[0]["PROGS"].items():
        yield Case("assignment", name, function, tuple(shapes), given, small=lambda name=name: read[1]["PROGS"][name][:2])


def read_as(path, text):
    """The names that a file defines when it holds `text`."""
    module = types.ModuleType("program")
    module.__file__ = str(path)
    # What programs say of themselves is no part of a table.
    with contextlib.redirect_stdout(sys.stderr):
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102: programs are what this is for
    return module.__dict__


def of_issue(path):
    sys.path.insert(0, str(path.parent))
    text = path.read_text()
    whole = recorded(path, text)
    try:
        small = recorded(path, reduced(text))
    except Exception:  # noqa: BLE001: sizes that only make sense as they are
        small = []
    for place, case in enumerate(whole):
        if case.name.startswith("(tiny"):
            continue
        if place < len(small) and small[place].name == case.name:
            case.small = lambda other=small[place]: (other.function, other.shapes)
        yield case


def recorded(path, text):
    """What a program hands to `measure` and `pair`, in order."""
    found, program = [], path.stem.split("_")[0]

    def measure(name, function, *shapes, donate=(), static=(), top=0, min_mib=0, **keywords):  # noqa: ARG001: the programs' own signature
        given = {key: value for key, value in {"donate_argnums": donate, "static_argnums": static}.items() if value != ()}
        found.append(Case(program, name, function, shapes, given, keywords))
        return 1, 1, Silent()

    def pair(name, before, after, *shapes, donate=(), small=None, top=0):  # noqa: ARG001
        measure(name, before, *shapes, donate=donate)

    harness = runpy.run_path(str(path.parent / "_measure.py"))
    module = types.ModuleType("_measure")
    module.__dict__.update({name: value for name, value in harness.items() if not name.startswith("__")})
    module.measure, module.pair = measure, pair
    sys.modules["_measure"] = module
    read_as(path, text)
    return found


class Silent:
    """Stands for a compiled program, for programs that look at its text."""

    def as_text(self):
        return ""


def reduced(text):
    return ast.unparse(Small().visit(ast.parse(text)))


class Small(ast.NodeTransformer):
    """Makes large numbers small: a power of two shrinks in its exponent, others lose factors of two, then of five and three."""

    def visit_BinOp(self, node):  # noqa: N802: the name that ast asks for
        left, right = node.left, node.right
        constant = isinstance(left, ast.Constant) and isinstance(right, ast.Constant)
        if constant and isinstance(node.op, ast.LShift) and left.value == 1 and isinstance(right.value, int):
            exponent = 14 if right.value >= 20 else min(right.value, 8)
            return ast.BinOp(left, node.op, ast.Constant(exponent))
        return self.generic_visit(node)

    def visit_Constant(self, node):  # noqa: N802
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            return ast.copy_location(ast.Constant(shrunk(node.value)), node)
        return node


def shrunk(value):
    most = 1 << 14 if value >= 1 << 20 else 128
    for factor in (2, 5, 3):
        while value > most and value % factor == 0:
            value //= factor
    return value if value <= 1 << 15 else most


def random_data(shapes, seed=0):
    """Random arguments; integers reach below zero and beyond 128, the size of many tables. None if they need more than a GiB."""
    import jax
    import numpy as np
    rng = np.random.default_rng(seed)

    def array(leaf):
        if np.issubdtype(leaf.dtype, np.integer):
            info = np.iinfo(leaf.dtype)
            return np.asarray(rng.integers(max(-130, info.min), min(130, info.max), leaf.shape), leaf.dtype)
        if leaf.dtype == bool:
            return rng.integers(0, 2, leaf.shape).astype(bool)
        return np.asarray(rng.standard_normal(leaf.shape), leaf.dtype)

    if bytes_of(shapes) > MOST:
        return None
    return jax.tree.map(array, shapes)
