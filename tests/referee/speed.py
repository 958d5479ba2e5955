"""XLA's text parser and printer and ours on the same files in the same run: CPU seconds, their ratio, and our memory.

    cargo build --release -p hlo-ir --example speed
    speed.py target/release/examples/speed [FILE...] [--megabytes 50] [--rounds 5]

Without files: a module made by large_module.py, and the three largest dumps of ../shared/external-hlo where that folder exists. XLA and we take
turns, each in a process of its own; the best round of each counts, which is the one that other programs disturbed least. Reading a file and
converting it to a string are not part of any time. XLA prints as for a dump file, from a module that it just parsed.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import child  # noqa: E402
import large_module  # noqa: E402
import xla  # noqa: E402

REPEATED_BYTES = 40e6
HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    options = arguments()
    xla.import_quietly()
    with tempfile.TemporaryDirectory() as folder:
        files = options.files or [made(folder, options.megabytes), *largest(3)]
        print(f"{'file':<44}{'MB':>7}{'instr':>9}{'XLA parse':>11}{'ours':>8}{'ratio':>7}{'XLA print':>11}{'ours':>8}{'ratio':>7}"
              f"{'verify':>8}{'peak/input':>12}")
        for file in files:
            print(row(file, options.tool, options.rounds), flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tool", help="the example program `speed` of hlo-ir")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--megabytes", type=float, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def made(folder, megabytes):
    path = os.path.join(folder, f"synthetic-{megabytes:g}MB.hlo")
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(large_module.module(megabytes * 1e6))
    return path


def largest(count):
    """The largest dumps of other people, if they lie beside the repository."""
    for up in ("../..", "../../..", "../../../..", "../../../../.."):
        place = os.path.join(HERE, up, "shared/external-hlo")
        if os.path.isdir(place):
            files = glob.glob(os.path.join(place, "*", "*.hlo"))
            return sorted(files, key=os.path.getsize, reverse=True)[:count]
    print("no dumps of other people beside the repository: only the synthetic module is measured")
    return []


def row(file, tool, rounds):
    theirs, ours = {"parse": [], "print": []}, {"parse": [], "print": [], "verify": []}
    # The kernel counts our time in steps of some milliseconds: a small file is read so often that a step does not matter.
    repeats = max(1, int(REPEATED_BYTES / os.path.getsize(file)))
    for _ in range(rounds):
        found = child.run(time_xla, (file, repeats), time_limit=600)
        if "error" in found:
            return f"{os.path.basename(file)}: {found['error']}"
        own = json.loads(subprocess.run([tool, file, str(repeats)], stdout=subprocess.PIPE, check=True, text=True).stdout)
        for what, times in theirs.items():
            times.append(found[what])
        for what, times in ours.items():
            times.append(sum(own[what]) / repeats)
    theirs, ours = ({what: min(times) for what, times in side.items()} for side in (theirs, ours))
    size = own["bytes"]
    return (f"{os.path.basename(file)[-43:]:<44}{size / 1e6:>7.2f}{own['instructions']:>9}"
            f"{theirs['parse']:>11.3f}{ours['parse']:>8.3f}{theirs['parse'] / ours['parse']:>7.1f}"
            f"{theirs['print']:>11.3f}{ours['print']:>8.3f}{theirs['print'] / ours['print']:>7.1f}"
            f"{ours['verify']:>8.3f}{own['peaks'][0] / size:>6.1f}{own['peaks'][2] / size:>6.1f}")


def time_xla(file, repeats):
    """Runs in a child: CPU seconds of XLA's parser and printer, on average."""
    from jaxlib import _hlo
    with open(file, encoding="utf-8") as source:
        text = source.read()
    times = {"parse": 0.0, "print": 0.0}
    for _ in range(repeats):
        start = time.process_time()
        module = _hlo.hlo_module_from_text(text)
        parsed = time.process_time()
        module.to_string()
        times["parse"] += (parsed - start) / repeats
        times["print"] += (time.process_time() - parsed) / repeats
    return times


if __name__ == "__main__":
    main()
