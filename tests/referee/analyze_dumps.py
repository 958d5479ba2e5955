"""`hlo-opt --analyze` over every dump of some folders: processor time, size of the report, and what was said where there is none.

    cargo build --release
    analyze_dumps.py target/release/hlo-opt FOLDER...        [--slowest 10] [--limit SECONDS]

A file of several modules is analyzed module by module (`--split-input-file`). A file that XLA's own parser refuses, one that
`tests/referee/illegal.json` lists with a reason, and one with dimensions of no known bound may be refused; everything else must have a report
within the limit of processor time.
Exit code 0: all have; 1: not, and which.
"""
import argparse
import collections
import os
import re
import resource
import subprocess
import sys

sys.dont_write_bytecode = True

import child  # noqa: E402
import dumps  # noqa: E402
import xla  # noqa: E402

SEPARATOR = re.compile(r"(?m)^// -----")
Result = collections.namedtuple("Result", "file seconds megabytes code first")


def main():
    options = arguments()
    results = [analyze(options.tool, file) for place in options.folders for file in files(place)]
    if not results:
        sys.exit("no dumps found: nothing was checked")
    for result in sorted(results, key=lambda result: -result.seconds)[: options.slowest]:
        print(f"{result.seconds:6.2f} s {result.megabytes:6.2f} MB  {os.path.basename(result.file)}  {result.first}")
    slow = [result for result in results if result.seconds > options.limit]
    refused = [result for result in results if result.code]
    xla.import_quietly()
    wrong = [result for result in refused if "is unbounded" not in result.first and not excused(result.file)]
    for result in slow + wrong:
        print(f"FAIL {result.file}: {result.seconds:.2f} s, exit code {result.code}: {result.first}")
    print(f"{len(results)} files, {len(results) - len(refused)} with a report, {len(refused) - len(wrong)} refused for a reason, "
          f"{len(wrong)} refused without one, {len(slow)} slower than {options.limit} s; "
          f"{sum(result.seconds for result in results):.1f} s of processor time in all")
    sys.exit(1 if slow or wrong else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tool", help="hlo-opt")
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--slowest", type=int, default=10, help="list so many of the slowest files")
    parser.add_argument("--limit", type=float, default=5, help="most seconds of processor time per file")
    return parser.parse_args()


def files(place):
    found = (os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names)
    return sorted(path for path in found if path.endswith((".hlo", ".txt")))


def analyze(tool, file):
    command = [tool, "--quiet", "--analyze", file]
    with open(file, encoding="utf-8", errors="replace") as text:
        if SEPARATOR.search(text.read()):
            command.append("--split-input-file")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = done.stderr if done.returncode else done.stdout
    return Result(file, seconds, os.path.getsize(file) / 1e6, done.returncode, (said.strip().splitlines() or [""])[0])


def excused(file):
    """Whether XLA itself refuses (a piece of) the file, or it is known to be no legal program."""
    name = os.path.basename(file)
    if any(name.endswith(label.split("#")[0]) for label in dumps.JUSTIFIED):
        return True
    with open(file, encoding="utf-8", errors="replace") as text:
        pieces = dumps.SEPARATOR.split(text.read())
    return any("error" in child.run(lambda text=piece: xla.parse(text) and {}, ()) for piece in pieces)


if __name__ == "__main__":
    main()
