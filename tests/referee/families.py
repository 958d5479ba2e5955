"""The table of program families: XLA's bytes before and after hlo-opt and of a hand-written form, equality and run time.

    families.py --tool FILE [--only REGEX] [--bytes-only] [--markdown] [--out DIR]

Bytes are XLA:CPU's own, at full size, compiled from shapes. Equality and run time are those of the reduced programs on data: `ratio` is
original / rewritten, interleaved in one run, so above 1 the rewritten program is faster. Every program goes through the default pipeline
at the exactness of its row, and with its budget if it has one. Exit code 1: some program got worse, or differs by more than its grade allows.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import stamp  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = "{:24} {:>10} {:>10} {:>10} {:>10}  {:11} {:>9} {:>6}"
HEAD = """| Family (`tests/referee/family_programs.py`), MiB by XLA | Before | After | Floor | Grade | Run time, original / rewritten |
|---|---|---|---|---|---|"""
MOST_ERROR = {"bitwise": 0.0, "hlo-exact": 1e-5, "reassociate": 1e-4}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", required=True, help="the hlo-opt binary")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--bytes-only", action="store_true", help="run nothing on data")
    parser.add_argument("--markdown", action="store_true", help="as docs/measured/families.md has it")
    parser.add_argument("--out", metavar="DIR", help="keep the modules there")
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(options.out or folder)
        out.mkdir(parents=True, exist_ok=True)
        sys.exit(table(options, out))


def table(options, out):
    from family_programs import PROGRAMS

    if options.markdown:
        options.table = stamp.Table(HEAD)
    else:
        print(COLUMNS.format("program", "before", "after", "by hand", "floor", "grade", "error", "ratio"), "(MiB)")
    bad = 0
    for name, program in PROGRAMS.items():
        if re.search(options.only, name):
            bad |= row(options, out, name, program)
    if options.markdown:
        options.table.end()
    return bad


def row(options, out, name, program):
    function, full, reduced, exactness, by_hand = program
    before = lowered(out / f"{name}.before.hlo", function, full)
    after, grades = optimized(options.tool, before, exactness, *budget(name, 0))
    figures = [referee("peak", path) for path in (before, after)]
    hand = referee("peak", lowered(out / f"{name}.hand.hlo", by_hand, full)) if by_hand else {}
    worst = max(grades, key=list(MOST_ERROR).index, default="-")
    error, ratio, wrong = ("", "", False) if options.bytes_only else on_data(options, out, name, program)
    floor = sum(figures[0][key] for key in ("argument_bytes", "output_bytes")) - figures[0]["alias_bytes"]
    totals = [figure.get("total_bytes") for figure in figures]
    if options.markdown:
        shown = f"{name} (`--budget`)" if budget(name, 0) else name
        cells = [shown, *("-" if total is None else f"{total / 2**20:,.1f}" for total in (*totals, floor)), worst if grades else "untouched", ratio or "-"]
        options.table.row(f"| {' | '.join(cells)} |")
    else:
        cells = [*map(mib, (*totals, hand.get("total_bytes"))), mib(floor), worst, error, ratio]
        print(COLUMNS.format(name, *cells), flush=True)
    return wrong or figures[1]["total_bytes"] > figures[0]["total_bytes"]


def on_data(options, out, name, program):
    """Error and run-time ratio of the reduced program, and whether they are worse than its grade allows."""
    function, _, reduced, exactness, _ = program
    before = lowered(out / f"{name}.reduced.hlo", function, reduced)
    after, grades = optimized(options.tool, before, exactness, *budget(name, 1))
    if not grades:
        return "kept", "", False
    same, bench = referee("same", before, after, "--cases", "2"), referee("bench", before, after)
    error = same.get("max_rel_error")
    allowed = max(MOST_ERROR[grade] for grade in grades)
    # Programs that magnify rounding are judged by their distance from double precision (docs/grades.md).
    near = allowed > 0 and same.get("as_near_the_truth", False)
    wrong = error is None or (error > allowed and not near)
    return same.get("error", f"{error:.0e}" if error else "0"), f"{bench['ratio']:.2f}" if "ratio" in bench else "-", wrong


def lowered(path, function, shapes):
    import jax

    arguments = [jax.ShapeDtypeStruct(dims, element) for dims, element in shapes]
    path.write_text(jax.jit(function).lower(*arguments).as_text("hlo"))
    return path


def budget(name, size):
    """What the tool is told for the budget of a program; `size`: 0 at full size, 1 reduced."""
    from family_programs import BUDGETS

    return ["--budget", BUDGETS[name][size]] if name in BUDGETS else []


def optimized(tool, before, exactness, *more):
    """The rewritten module and the grades of the rewrites."""
    after, report = before.with_suffix(".after.hlo"), before.with_suffix(".json")
    command = [tool, before, "-o", after, "--report", report, "--exactness", exactness, "--quiet", *more]
    subprocess.run([str(part) for part in command], check=True)
    return after, {rewrite["grade"] for rewrite in json.loads(report.read_text())["rewrites"]}


def referee(command, *arguments):
    parts = [sys.executable, HERE / "referee.py", command, *arguments]
    done = subprocess.run([str(part) for part in parts], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"error": done.stderr[-200:]}


def mib(total):
    return "-" if total is None else f"{total / 2**20:.1f}"


if __name__ == "__main__":
    main()
