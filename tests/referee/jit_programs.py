"""Sends JAX programs through hlo_opt.jit as they are, and prints a table: bytes by XLA, and results beside those of jax.jit.

    python tests/referee/jit_programs.py FOLDER [PATTERN] > table.md

FOLDER holds programs that call `measure(name, f, *shapes)` and `pair(name, f, g, *shapes, small=...)` of a module named `_measure`, and a
`patterns.py` with a dictionary PROGS of functions that give (f, shapes). Bytes are those of the program's own shapes, for which nothing is
allocated; results are compared on the small data that the program brings (`pair`), or on random data at a reduced size (HLO_N in patterns.py).
Needs the installed package.
"""
import os
import pathlib
import re
import runpy
import subprocess
import sys
import types
import warnings

LIMIT = 400
ROWS = 1 << 16


def main():
    folder, wanted = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "."
    print("| Program | XLA's peak | | floor | what runs | results |\n|---|---|---|---|---|---|")
    for path in sorted(folder.glob("*.py")):
        if (re.match(r"r\d+_", path.name) or path.name == "patterns.py") and re.search(wanted, path.name):
            child(path)


def child(path):
    done = subprocess.run([sys.executable, __file__, "--one", str(path)], capture_output=True, text=True, timeout=LIMIT * 20, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        print(f"| {path.stem} | | | | ended: {last[:120].replace('|', '/')} | |", flush=True)


def one(path):
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(path.parent))
    if path.name == "patterns.py":
        patterns(path)
        return
    harness = runpy.run_path(str(path.parent / "_measure.py"))
    module = types.ModuleType("_measure")
    module.__dict__.update({name: value for name, value in harness.items() if not name.startswith("__")})
    module.measure, module.pair = measured, paired
    sys.modules["_measure"] = module
    global program
    program = path.stem.split("_")[0]
    runpy.run_path(str(path), run_name="__main__")


program = ""


def measured(name, function, *shapes, donate=(), static=(), **keywords):
    keywords = {key: value for key, value in keywords.items() if key not in ("top", "min_mib")}
    found = row(name, function, shapes, None, donate_argnums=donate, static_argnums=static, **({"keywords": keywords} if keywords else {}))
    return *found, None


def paired(name, before, after, *shapes, donate=(), small=None, top=2):  # noqa: ARG001 - the programs' own signature
    row(name, before, shapes, small, donate_argnums=donate)


def patterns(path):
    """Bytes at the program's size, results at a reduced one: the size is read when the file is loaded."""
    sizes = []
    for rows in (None, ROWS):
        os.environ.pop("HLO_N", None)
        if rows:
            os.environ["HLO_N"] = str(rows)
        sizes.append(runpy.run_path(str(path))["PROGS"])
    global program
    for name, (make, _, x64, _) in sizes[0].items():
        import jax
        jax.config.update("jax_enable_x64", x64)
        program = "patterns"
        function, shapes = make()
        reduced, small = sizes[1][name][0]()
        row(name, function, shapes, lambda small=small: random_arguments(small), reduced=reduced)


def random_arguments(shapes):
    """Random data; integers reach below zero and beyond 128, the size of the tables there."""
    import jax
    import numpy as np
    rng = np.random.default_rng(0)

    def array(leaf):
        if np.issubdtype(leaf.dtype, np.integer):
            info = np.iinfo(leaf.dtype)
            return np.asarray(rng.integers(max(-130, info.min), min(130, info.max), leaf.shape), leaf.dtype)
        return np.asarray(rng.standard_normal(leaf.shape), leaf.dtype)

    if sum(np.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes)) > 1 << 30:
        return None
    return jax.tree.map(array, shapes)


def row(name, function, shapes, small, reduced=None, keywords=None, **given):
    """One line of the table; what goes wrong is part of it."""
    import hlo_opt
    given = {key: value for key, value in given.items() if value not in ((), None)}
    tiny = "(tiny)" in name
    try:
        report = hlo_opt.jit(function, **given).memory_report(*shapes, **(keywords or {}))
        before, after, floor, kept = report.before_bytes, report.after_bytes, report.floor_bytes, report.kept
        kept = {"fallback": f"jax.jit: {report.reason}", "original": f"original: {report.reason or 'nothing to rewrite'}"}.get(kept, kept)
    except Exception as error:  # noqa: BLE001 - one program must not end the table
        before = after = floor = None
        kept = failure(error)
    try:
        results = compared(reduced or function, small, given)
    except Exception as error:  # noqa: BLE001
        results = failure(error)
    sizes = ["" if count is None or tiny else human(count) for count in (before, after, floor)]
    count = lambda number: 0 if number is None else number  # noqa: E731
    print(f"| {program} {name.replace('|', '/')} | {' | '.join(sizes)} | {kept[:110].replace('|', '/')} | {results} |", flush=True)
    return count(before), count(floor)


def failure(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}".replace("|", "/")


def compared(function, small, given):
    """Both jits on the same data, with every saving taken however small."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import hlo_opt
    from hlo_opt.xla import compare
    data = small() if small else None
    if data is None:
        return "no data"
    copy = lambda: jax.tree.map(lambda x: jnp.array(x, copy=True), tuple(data))  # noqa: E731
    options = hlo_opt.Options(min_saving=1, chunk_bytes=1 << 14)
    mine = hlo_opt.jit(function, options=options, **given)
    left = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function, **given)(*copy()))]
    right = [np.asarray(leaf) for leaf in jax.tree.leaves(mine(*copy()))]
    found = compare.compare(left, right)
    grades = sorted({done.grade for report in mine._reports if report.kept == "rewritten" for done in report.model.rewrites})
    how = f" ({', '.join(grades)})" if grades else " (not rewritten)"
    if found["bitwise"]:
        return "same bits" + how
    return f"{'within tolerance' if found['tolerated'] else 'DIFFERENT'}, {found['max_rel_error']:.2g}{how}"


def human(count):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.2f} {unit}"
    return f"{count} B"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(pathlib.Path(sys.argv[2]))
    else:
        main()
