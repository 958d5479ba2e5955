"""Runs programs of JAX libraries under `hlo_opt.install()` without a changed line, and prints a table: results, bytes by XLA, seconds, fallbacks.

    python tests/referee/libraries.py [NAMES] > docs/measured/libraries.md

NAMES is a pattern. Each program (library_programs.py) runs three times in processes of their own: as it is, with everything installed, and with every saving
taken however small. Needs the installed package and the libraries of `tests/referee/libraries.txt` in one environment.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import library_programs  # noqa: E402
import stamp  # noqa: E402

LIMIT = 600
# Results of any grade agree within this share of the largest number, unless a program makes differences grow from step to step.
AGREE = 1e-4
HEADER = """# Programs of JAX libraries under `hlo_opt.install()`

Training steps, solvers and samplers as users of {count} libraries write them (`tests/referee/library_programs.py`), none of which knows hlo_opt. Each runs some
steps as it is, and after `hlo_opt.install()`. Bytes are XLA:CPU's for the largest program that it compiles, seconds those of the whole run. Results
are the largest difference over the largest number, `same` where all bits are equal. The second column of results is of a run in which every saving is taken, however
small (`at_least=0`, `min_saving=1`, blocks of 64 KiB), with the weakest grade of what was rewritten there. Made by

    python tests/referee/libraries.py > docs/measured/libraries.md

with jax {jax}.
"""
HEAD = """| Library | Program | as it is, MiB | installed, MiB | seconds | programs rewritten | results | with every saving | fallbacks |
|---|---|---|---|---|---|---|---|---|"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="?", default=".", metavar="NAMES")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one(*options.one)
    chosen = {name: library for name, (library, _) in library_programs.PROGRAMS.items() if re.search(options.names, name)}
    print(HEADER.format(jax=importlib.metadata.version("jax"), count=len(set(chosen.values()))))
    table = stamp.Table(HEAD)
    failed = 0
    for name, library in chosen.items():
        cells, is_good = row(name)
        failed += not is_good
        table.row(f"| {library} | {name.replace('_', ' ')} | {' | '.join(cells)} |")
    table.end()
    print(f"\n{len(chosen)} programs, {failed} of which failed or gave other results.")
    return 1 if failed else 0


def one(name, how, folder):
    """Runs a program in this process; leaves its results and what was said of its programs in the folder."""
    import numpy as np

    import hlo_opt
    if how == "installed":
        hlo_opt.install(summary=False)
    if how == "eager":
        hlo_opt.install(hlo_opt.Options(min_saving=1, chunk_bytes=1 << 16), at_least=0, summary=False)
    begin = time.monotonic()
    results = library_programs.PROGRAMS[name][1]()
    results = [np.asarray(result) for result in results]
    seconds = time.monotonic() - begin
    np.savez(os.path.join(folder, how), *results)
    programs = [dict(name=report.name, kept=report.kept, reason=report.reason, before=report.before_bytes, after=report.after_bytes,
                     grades=[done.grade for done in report.model.rewrites] if report.kept == "rewritten" else []) for report in hlo_opt.reports()]
    pathlib.Path(folder, f"{how}.json").write_text(json.dumps({"seconds": seconds, "programs": programs}))


def row(name):
    """The cells of a program, and whether all is well."""
    with tempfile.TemporaryDirectory() as folder:
        for how in ("plain", "installed", "eager"):
            command = [sys.executable, __file__, "--one", name, how, folder]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
            except subprocess.TimeoutExpired:
                return [f"{how}: no answer in {LIMIT} s"] + [""] * 6, False
            if done.returncode:
                return [f"{how}: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}"] + [""] * 6, False
        plain, installed, eager = (json.loads(pathlib.Path(folder, f"{how}.json").read_text()) for how in ("plain", "installed", "eager"))
        differences = [difference(folder, how) for how in ("installed", "eager")]
    largest = max(installed["programs"], key=lambda program: program["before"] or 0, default=None)
    sizes = [f"{largest[key] / 2**20:,.1f}" if largest and largest[key] else "small" for key in ("before", "after")]
    rewritten = [[program for program in run["programs"] if program["kept"] == "rewritten"] for run in (installed, eager)]
    order = ("bitwise", "hlo-exact", "reassociate")
    grades = [grade for program in rewritten[1] for grade in program["grades"]]
    weakest = max(grades, key=order.index, default="nothing rewritten")
    fallbacks = sorted({program["reason"] for run in (installed, eager) for program in run["programs"] if program["kept"] == "fallback"})
    cells = [*sizes, f"{plain['seconds']:.1f} -> {installed['seconds']:.1f}", f"{len(rewritten[0])}, {len(rewritten[1])}", said(differences[0]),
             f"{said(differences[1])} ({weakest})", "; ".join(fallbacks) or "none"]
    return cells, max(differences) <= AGREE


def difference(folder, how):
    """The largest difference between the results of two runs, over their largest number; NaN counts as equal to itself."""
    import numpy as np
    with np.load(os.path.join(folder, "plain.npz")) as plain, np.load(os.path.join(folder, f"{how}.npz")) as other:
        worst = 0.0
        for key in plain.files:
            a, b = plain[key].astype(np.float64), other[key].astype(np.float64)
            if not np.array_equal(a, b, equal_nan=True):
                worst = max(worst, float(np.nanmax(np.abs(a - b)) / max(np.nanmax(np.abs(a)), 1e-30)))
    return worst


def said(value):
    return f"{value:.0e}" if value else "same"


if __name__ == "__main__":
    sys.exit(main())
