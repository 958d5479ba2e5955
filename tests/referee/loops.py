"""The table of unrolled loops: XLA's bytes before and after hlo-opt, per device and for all, equality, run time, and what is said to the user.

    loops.py --tool FILE [--only REGEX] [--target cpu|tpu|gpu] [--bytes-only] [--reps N] [--out DIR] [--write docs/measured/loops.md]

Bytes are the compiler's own, at full size, compiled from shapes one program at a time. Equality and run time are those of the reduced
programs on data, on as many devices as the program has; ratios are original / rewritten, so above 1 the rewritten program is faster:
`wall` by the clock, `busy` by processor time, medians of runs that take turns. Exit code 1: a target is missed, results differ by more than
the grade allows, or a program got worse.
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

import child  # noqa: E402
from as_large import as_large  # noqa: E402
import jobs  # noqa: E402
import partitioned  # noqa: E402
import stamp  # noqa: E402
import xla  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CASES = 3
MOST_ERROR = {"bitwise": 0.0, "hlo-exact": 1e-5}
HEAD = """| Program | Devices | XLA's bytes per device, MiB (temporaries) | after | wanted | on all devices, MiB | Rewrites | Equal on data | Run time, original / rewritten: wall, processor |
|---|---|---|---|---|---|---|---|---|"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", required=True, help="the hlo-opt binary")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--target", default="cpu", choices=("cpu", "tpu", "gpu"))
    parser.add_argument("--bytes-only", action="store_true", help="run nothing on data")
    parser.add_argument("--reps", type=int, default=15)
    parser.add_argument("--out", metavar="DIR", help="keep the modules there")
    parser.add_argument("--write", metavar="FILE", help="put the rows between the marks `loops:begin TARGET` and `loops:end TARGET` of FILE")
    options = parser.parse_args()
    xla.import_quietly()
    from loop_programs import PROGRAMS

    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(options.out or folder)
        out.mkdir(parents=True, exist_ok=True)
        rows, bad = [HEAD], False
        print(HEAD)
        for name, program in PROGRAMS.items():
            # The compilers of other targets make the program of one device.
            if re.search(options.only, name) and (options.target == "cpu" or program.devices == 1):
                line, remarks, wrong = row(options, out, name, program)
                bad |= wrong
                rows.append(line)
                print(line, *remarks, sep="\n  ", flush=True)
        if options.write:
            write(pathlib.Path(options.write), options.target, rows)
    sys.exit(1 if bad else 0)


def row(options, out, name, program):
    """The table's row of one program, the remarks on what every device holds, and whether something is wrong."""
    target = options.target
    before = child.run(lower, (name, str(out / f"{name}.before.hlo"), True, program.devices), time_limit=900.0)
    after_file, report = optimized(options.tool, out / f"{name}.before.hlo", target)
    if target != "cpu":
        before = child.run(jobs.peak, (str(out / f"{name}.before.hlo"), None, target), time_limit=1800.0)
    after = child.run(jobs.peak, (after_file, None, target), time_limit=1800.0) if report["rewrites"] else before
    if "error" in before or "error" in after:
        return f"| {name} | {program.devices} | {before.get('error') or after.get('error')} |", [], True
    limit, figure = wanted(program, target)
    missed = limit is not None and after[figure] > limit * 2**20
    worse = after["total_bytes"] > before["total_bytes"]
    data, wrong = ("", ""), False
    if target == "cpu" and not options.bytes_only and report["rewrites"]:
        data, wrong = on_data(options, out, name, program)
    grades = ", ".join(dict.fromkeys(f"{rewrite['pass']} ({rewrite['grade']})" for rewrite in report["rewrites"])) or "untouched"
    cells = [name, program.devices, bytes_of(before), bytes_of(after), f"{'temporaries' if figure == 'temp_bytes' else 'total'} {limit:.1f}" if limit else "-",
             f"{program.devices * before['total_bytes'] / 2**20:,.1f} → {program.devices * after['total_bytes'] / 2**20:,.1f}", grades, *data]
    note = "" if report["rewrites"] else f" — {why(report)}"
    cells[6] += note
    flag = " **missed**" if missed else " **worse**" if worse else ""
    cells[3] += flag
    copies = [remark["message"] for remark in report["remarks"] if remark["code"] == "replicated"]
    return f"| {' | '.join(map(str, cells))} |", copies, missed or worse or wrong


def wanted(program, target):
    """The most MiB after the rewrite, and the figure that it limits."""
    if target in program.other:
        return program.other[target], "temp_bytes"
    if target == "cpu" and program.temp is not None:
        return program.temp, "temp_bytes"
    return (program.peak if target == "cpu" else None), "total_bytes"


def why(report):
    """The first reason of roll or tie."""
    said = [remark for remark in report["remarks"] if remark["pass"] in ("roll", "tie")]
    return f"{said[0]['pass']}: {said[0]['message']} [{said[0]['code']}]" if said else "nothing found"


def bytes_of(figures):
    return f"{figures['total_bytes'] / 2**20:,.1f} ({figures['temp_bytes'] / 2**20:,.1f})"


def lower(name, file, full, devices):
    """In a child: the dump of one program from before optimizations, and XLA:CPU's bytes for it."""
    with tempfile.TemporaryDirectory() as folder:
        jax = xla.start(folder, devices)
        from loop_programs import PROGRAMS

        program = PROGRAMS[name]
        function, arguments = program.build(**(program.big if full else program.small))
        function = function if hasattr(function, "lower") else jax.jit(function)
        compiled = function.lower(*arguments).compile()
        counts = xla.byte_counts(compiled.runtime_executable(), folder)
        pathlib.Path(file).write_text(xla.dumped(folder, "before_optimizations.txt"), encoding="utf-8")
        return counts


def optimized(tool, before, target, *more):
    """The rewritten module and the report."""
    after, report = str(before).replace(".before.", ".after."), str(before).replace(".before.hlo", ".json")
    command = [tool, str(before), "-o", after, "--report", report, "--target", target, "--quiet", *more]
    subprocess.run(command, check=True)
    return after, json.loads(pathlib.Path(report).read_text(encoding="utf-8"))


def on_data(options, out, name, program):
    """Cells on equality and run time of the reduced program, and whether results differ by more than the grade allows."""
    before = out / f"{name}.small.before.hlo"
    lowered = child.run(lower, (name, str(before), False, program.devices), time_limit=900.0)
    if "error" in lowered:
        return (lowered["error"], ""), True
    after, report = optimized(options.tool, before, "cpu", *as_large())
    if not report["rewrites"]:
        return ("reduced program untouched", ""), True
    found = child.run(partitioned.judge, (str(before), after, CASES, options.reps, program.scale), time_limit=1800.0)
    if "error" in found:
        return (found["error"], ""), True
    grades = {rewrite["grade"] for rewrite in report["rewrites"]}
    allowed = max(MOST_ERROR.get(grade, 1e-4) for grade in grades)
    equal = found["numbers_equal"] or found["max_rel_error"] <= allowed
    said = "same bits" if found["bitwise"] else "same numbers" if found["numbers_equal"] else f"within {found['max_rel_error']:.0e}"
    return (said if equal else f"**differs** by {found['max_rel_error']:.0e}", f"{found['wall_ratio']:.2f}, {found['busy_ratio']:.2f}"), not equal


def write(file, target, rows):
    """Puts the rows between the marks of the target."""
    text = file.read_text(encoding="utf-8")
    begin, end = f"<!-- loops:begin {target} -->", f"<!-- loops:end {target} -->"
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    file.write_text(head + begin + "\n" + "\n".join(rows) + "\n\n" + stamp.stamp("\n".join(rows).splitlines()) + "\n" + end + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
