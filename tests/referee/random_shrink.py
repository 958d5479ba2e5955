"""Make a failing random JAX program smaller while it keeps failing the same way."""
import dataclasses
import os
import re
import tempfile

import child
import random_check
import xla


def shrink(program, fails, attempts=60):
    """The smallest program found for which `fails(program)` holds; greedy, at most `attempts` trials."""
    left = [attempts]

    def still(candidate):
        left[0] -= 1
        return left[0] >= 0 and fails(candidate)

    changed = True
    while changed and left[0] > 0:
        changed = False
        for candidate in candidates(program):
            if left[0] <= 0:
                break
            if still(candidate):
                program, changed = candidate, True
                break
    return program


def candidates(program):
    """Smaller programs, the boldest first."""
    if len(program.results) > 1:
        for name in program.results:
            yield dataclasses.replace(program, results=[name]).pruned()
        for name in program.results:
            yield dataclasses.replace(program, results=[other for other in program.results if other != name]).pruned()
    if program.donated:
        yield dataclasses.replace(program, donated=[])
    for rows in (1, 2, 3, 5, 7, 16, 31, 64):
        if rows < program.rows:
            yield dataclasses.replace(program, rows=rows)
    yield from cuts(program)


def cuts(program):
    """One step becomes an argument: everything before it that nothing else needs falls away."""
    shapes = shapes_of(program)
    for name, _ in reversed(program.steps):
        if name in shapes and name not in program.results:
            fresh = f"a{max([int(a[1:]) for a in program.args], default=0) + 1}"
            steps = [(other, [substitute(line, name, fresh) for line in lines])
                     for other, lines in program.steps if other != name]
            args = {**program.args, fresh: shapes[name]}
            yield dataclasses.replace(program, args=args, steps=steps).pruned()


def substitute(line, old, new):
    return re.sub(rf"\b{old}\b", new, line)


def shapes_of(program):
    """Shape and type of every step that is one array; found by tracing in a child."""
    names = [name for name, _ in program.steps]
    source = dataclasses.replace(program, results=names, donated=[]).source()
    found = child.run(_trace, (source,), time_limit=60.0)
    if "error" in found:
        return {}
    return {name: (tuple(str(size) for size in dims), dtype)
            for name, (dims, dtype) in zip(names, found["shapes"]) if dtype}


def _trace(source):
    jax = xla.start()
    space = {}
    exec(compile(source, "random-program", "exec"), space)  # noqa: S102 - our own generator wrote it
    jax.config.update("jax_enable_x64", space["X64"])
    function, shapes, _ = space["build"]()
    traced = jax.eval_shape(function, *shapes)
    return {"shapes": [(list(t.shape), t.dtype.name) if hasattr(t, "shape") else ([], "") for t in traced]}


def same_failure(tool, config, problem, seed):
    """A predicate: does a program still fail with this kind of problem in this configuration."""
    kind = problem.split(":")[0]

    def fails(program):
        with tempfile.TemporaryDirectory() as folder:
            before = os.path.join(folder, "before.hlo")
            if "error" in random_check.lower([(program, program.rows, before)])[0]:
                return False
            outcome = random_check.apply(tool, config, before, os.path.join(folder, "after.hlo"))
            if not outcome.problem or outcome.problem.startswith(("second", "not-idem")):
                random_check.judge([(before, [outcome], seed)])
            return outcome.problem.split(":")[0] == kind

    return fails
