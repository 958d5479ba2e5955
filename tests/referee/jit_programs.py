"""Sends JAX programs through hlo_opt.jit as they are, and prints a table: bytes by XLA, and results beside those of jax.jit.

    python tests/referee/jit_programs.py FOLDER [PATTERN [NAMES]] > docs/measured/jit-programs.md

FOLDER holds programs of public issues (user_programs.py says in which form); PATTERN picks files and NAMES programs. Bytes are those of the
program's own shapes, for which nothing is allocated; results are compared on random data at a reduced size. Needs the installed package.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import stamp  # noqa: E402
import user_programs  # noqa: E402

# For one program, both sizes.
LIMIT = 600
# Before what a child answers: programs print too.
ANSWER = "answer: "
HEADER = """# JAX programs of public issues under `hlo_opt.jit`

What memory issues of JAX and XLA report, as small programs, sent through `hlo_opt.jit` unchanged by `tests/referee/jit_programs.py` (jax {jax}).
Bytes are XLA:CPU's for the full size, compiled from shapes; results are those of the same program at a reduced size on random data
(indices out of bounds included) beside `jax.jit`, with every saving taken however small, and the grades of what was rewritten there (the reduced
program may have other chances than the full one). `noise`: on such data `jax.jit` itself is far from the results in double precision. Every
program has a process of its own and {limit} minutes.
"""
HEAD = """| Program | jax.jit | hlo_opt.jit | floor | what runs | results |
|---|---|---|---|---|---|"""


def main():
    import importlib.metadata
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", nargs="?", default=r"^(r\d|patterns)", metavar="PATTERN")
    parser.add_argument("names", nargs="?", default=".", metavar="NAMES")
    options = parser.parse_args()
    print(HEADER.format(jax=importlib.metadata.version("jax"), limit=LIMIT // 60))
    table = stamp.Table(HEAD)
    rows = []
    for path in user_programs.files(options.folder, options.files):
        for flags in user_programs.flags_of(path):
            answers, ended = ask("--names", path, flags)
            for place, name in enumerate(answers[0] if answers else [f"{path.stem}: {ended}"]):
                if re.search(options.names, name):
                    rows.append(cells(name, *ask("--one", path, flags, str(place))))
                    table.row(f"| {' | '.join(rows[-1])} |")
    table.end()
    print(summary(rows))


def ask(job, path, flags, *place):
    """What a process of its own answers, piece by piece, and why it did not come to its end ("" if it did)."""
    environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(), "JAX_PLATFORMS": "cpu",
                   "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, __file__, job, str(path), flags, *place]
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        try:
            code = subprocess.run(command, stdout=said, stderr=errors, timeout=LIMIT, check=False, env=environment).returncode
            ended = f"ended: {last_line(errors)}" if code else ""
        except subprocess.TimeoutExpired:
            ended = f"stopped after {LIMIT // 60} minutes"
        said.seek(0)
        return [json.loads(text[len(ANSWER):]) for text in said if text.startswith(ANSWER)], ended


def last_line(file):
    file.seek(0)
    return (file.read().strip().splitlines() or ["?"])[-1][:120]


def cells(name, answers, ended):
    """One line of the table; what goes wrong is part of it."""
    sizes, kept = answers[0] if answers else (["", "", ""], ended)
    results = answers[1] if len(answers) > 1 else ended if answers else ""
    return [str(cell).replace("|", "/") for cell in (name, *sizes, kept[:110], results)]


def summary(rows):
    """How many programs went which way."""
    ran = collections.Counter(row[4].split(":")[0] for row in rows)
    came = collections.Counter(row[5].split(",")[0].split(" (")[0].split(":")[0] for row in rows)
    told = (", ".join(f"{count} {what or 'nothing'}" for what, count in counts.most_common()) for counts in (ran, came))
    return f"\n{len(rows)} programs. What runs: {next(told)}. Results: {next(told)}."


def answer(found):
    print(ANSWER + json.dumps(found), flush=True)


def names(path, flags):
    answer([f"{case.program} {case.name}" for case in user_programs.cases(path, flags)])


def one(path, flags, place):
    """Figures and results of one program, each as soon as it is known: the process may be stopped."""
    warnings.simplefilter("ignore")
    case = next(case for number, case in enumerate(user_programs.cases(path, flags)) if number == place)
    answer(figures(case))
    try:
        results = compared(case)
    except Exception as error:  # noqa: BLE001: one program must not end the table
        results = failure(error)
    answer(results)


def figures(case):
    """Bytes of jax.jit, of hlo_opt.jit, of the floor, and what runs."""
    import hlo_opt
    try:
        report = hlo_opt.jit(case.function, **case.given).memory_report(*case.shapes, **case.keywords)
    except Exception as error:  # noqa: BLE001
        return ["", "", ""], failure(error)
    kept = {"fallback": f"jax.jit: {report.reason}", "original": f"original: {report.reason or 'nothing to rewrite'}"}
    if report.before is None:
        total, floor = compiled(case)
        sizes = [human(total), human(total), human(floor)]
    else:
        sizes = [human(count) for count in (report.before_bytes, report.after_bytes, report.floor_bytes)]
    return sizes, kept.get(report.kept, report.kept)


def compiled(case):
    """XLA's bytes of a program that runs as it is, and its floor: nobody had to judge it."""
    import jax
    as_it_is = hasattr(case.function, "lower") and not case.given
    plain = case.function if as_it_is else jax.jit(case.function, **case.given)
    stats = plain.lower(*case.shapes, **case.keywords).compile().memory_analysis()
    floor = stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    return floor + stats.temp_size_in_bytes, floor


def failure(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}".replace("|", "/")


def compared(case):
    """Both jits on the same data, with every saving taken however small."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import hlo_opt
    from hlo_opt.xla import compare
    if case.small is None:
        return "no reduced size"
    function, shapes = case.small()
    data = user_programs.random_data(shapes)
    if data is None:
        return "no data: too large"
    copy = lambda: jax.tree.map(lambda x: jnp.array(x, copy=True), tuple(data))  # noqa: E731
    options = hlo_opt.Options(min_saving=1, chunk_bytes=1 << 14)
    mine = hlo_opt.jit(function, options=options, **case.given)
    theirs = function if hasattr(function, "lower") else jax.jit(function, **case.given)
    left, right = ([np.asarray(leaf) for leaf in jax.tree.leaves(run(*copy(), **case.keywords))] for run in (theirs, mine))
    found = compare.compare(left, right)
    grades = sorted({done.grade for report in mine.reports if report.kept == "rewritten" for done in report.model.rewrites})
    fallen = any(report.kept == "fallback" for report in mine.reports)
    how = f" ({', '.join(grades)})" if grades else " (jax.jit)" if fallen else " (not rewritten)"
    if found["bitwise"]:
        return "same bits" + how
    if grades == ["bitwise"]:
        return f"OTHER BITS, {found['max_rel_error']:.2g}{how}"
    if found["tolerated"]:
        return f"within tolerance, {found['max_rel_error']:.2g}{how}"
    return beside_the_truth(function, case, data, (left, right)) + how


def beside_the_truth(function, case, data, sides):
    """How far both are from the results in double precision: a program that magnifies rounding differs by more than the tolerance."""
    import jax
    import numpy as np

    from hlo_opt.xla import truth
    x64, widened = jax.config.jax_enable_x64, lambda leaf: leaf.astype(np.float64) if leaf.dtype == np.float32 else leaf
    jax.config.update("jax_enable_x64", True)
    try:
        true = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function, **case.given)(*jax.tree.map(widened, tuple(data)), **case.keywords))]
    finally:
        jax.config.update("jax_enable_x64", x64)
    own, new = (truth.own_error(true, side) for side in sides)
    verdict = "as near double precision" if truth.as_near(true, *sides) else "noise" if own > truth.MEANINGLESS else "DIFFERENT"
    return f"{verdict}: {new:.2g} off, jax.jit {own:.2g}"


def human(count):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.2f} {unit}"
    return f"{count} B"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--names"]:
        names(pathlib.Path(sys.argv[2]), sys.argv[3])
    elif sys.argv[1:2] == ["--one"]:
        one(pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        main()
