"""Our live-range model of scheduled XLA:TPU and XLA:GPU texts against the compilers' own figures.

    other_targets.py RECORDS.jsonl... --text DIR [--tool target/release/hlo-opt] [--least MIB] [--markdown]

The compilers run nowhere near the tests: they need no device, but wheels of several GB. `../shared/programs/targets.py run {tpu,gpu} OUT.jsonl REGEX
--text DIR` compiles its programs at sizes of real use, one JSON line per program with the compiler's argument, output, alias, temporary and
peak bytes, and writes the scheduled texts; this script reads both.

Temporaries are compared, which is where models differ. XLA:GPU's figure is used as it is. XLA:TPU's `temp_size_in_bytes` counts space that is
idle and its peak counts on-chip buffers, so the smaller of the two is taken. Programs whose
temporaries are below `--least` in both figures are counted apart: they agree that there is nothing.
"""
import argparse
import collections
import gzip
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import stamp  # noqa: E402

REPOSITORY = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
HEAD = """| Target | Programs | Arguments equal | With temporaries of 1 MiB | within 0.1 % | 1 % | 5 % | 20 % | over by more | under by more |
|---|---|---|---|---|---|---|---|---|---|"""
BOUNDS = (0.001, 0.01, 0.05, 0.20)
MIB = 1 << 20
Row = collections.namedtuple("Row", "target name compiler ours arguments")


def main():
    options = arguments()
    rows = []
    for path in options.records:
        with open(path, encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        rows += filter(None, (row(record, options) for record in records if "temp" in record))
    if not rows:
        sys.exit("no records with texts: nothing was compared")
    if options.markdown:
        options.table = stamp.Table(HEAD)
    for target in sorted({row.target for row in rows}):
        show(target, [row for row in rows if row.target == target], options)
    if options.markdown:
        options.table.end()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", nargs="+")
    parser.add_argument("--text", required=True, help="folder with PLATFORM.NAME.FORM.txt.gz")
    parser.add_argument("--tool", default=os.path.join(REPOSITORY, "target", "release", "hlo-opt"))
    parser.add_argument("--least", type=float, default=1, help="MiB of temporaries from which programs are compared")
    parser.add_argument("--markdown", action="store_true", help="the summary as a Markdown table")
    return parser.parse_args()


def row(record, options):
    name = f"{record['plat']}.{record['name']}.{record['form']}"
    text = os.path.join(options.text, name + ".txt.gz")
    if not os.path.exists(text):
        return None
    figures = analyze(text, record["plat"], options.tool)
    return Row(record["plat"], name, temporaries(record), figures["temporaries"], (record["arg"], figures["arguments"]))


def temporaries(record):
    if record["plat"] != "tpu" or "peak" not in record:
        return record["temp"]
    at_peak = record["peak"] - record["arg"] - record["out"] + record["alias"]
    return max(0, min(record["temp"], at_peak))


def analyze(text, target, tool):
    with tempfile.TemporaryDirectory() as folder:
        plain, report = os.path.join(folder, "module.hlo"), os.path.join(folder, "report.json")
        with gzip.open(text, "rb") as source, open(plain, "wb") as out:
            out.write(source.read())
        command = [tool, "--quiet", "--analyze", "--target", target, "--report", report, plain]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(report, encoding="utf-8") as source:
            return json.load(source)["before"]


def show(target, rows, options):
    large = [row for row in rows if max(row.compiler, row.ours) >= options.least * MIB]
    off = sorted(large, key=lambda row: -error(row))
    same_arguments = sum(theirs == ours for theirs, ours in (row.arguments for row in rows))
    within = [sum(error(row) <= bound for row in large) for bound in BOUNDS]
    over = sum(row.ours > row.compiler * (1 + BOUNDS[-1]) for row in large)
    under = sum(row.ours < row.compiler * (1 - BOUNDS[-1]) for row in large)
    if options.markdown:
        options.table.row(f"| {target} | {len(rows)} | {same_arguments} | {len(large)} | {' | '.join(map(str, within))} | {over} | {under} |")
        return
    print(f"{target}: {len(rows)} programs, argument bytes equal in {same_arguments}; {len(large)} with temporaries; "
          + ", ".join(f"{count} within {bound:.1%}" for bound, count in zip(BOUNDS, within))
          + f"; more than {BOUNDS[-1]:.0%} over {over}, under {under}")
    for row in off:
        if error(row) > BOUNDS[1]:
            print(f"  {row.name}: compiler {row.compiler / MIB:.2f} MiB, ours {row.ours / MIB:.2f} MiB")


def error(row):
    return abs(row.ours - row.compiler) / max(row.compiler, 1)


if __name__ == "__main__":
    main()
