"""Instructions executed per byte of input, by valgrind's callgrind: a measure that other programs on the machine do not disturb.

    cargo build --release -p hlo-ir --example speed
    benches/instructions.py target/release/examples/speed [FILE] [--megabytes 2]

Counts parsing, verifying and printing apart, what they call included. Without a file: the synthetic module of tests/referee/large_module.py.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/referee"))

import large_module  # noqa: E402

PARTS = {"parse": "hlo_ir::text::parse", "verify": "hlo_ir::verify::verify", "print": "hlo_ir::text::print::print"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tool", help="the example program `speed` of hlo-ir")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--megabytes", type=float, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.file or os.path.join(folder, "synthetic.hlo")
        if not options.file:
            with open(file, "w", encoding="utf-8") as out:
                out.writelines(large_module.module(options.megabytes * 1e6))
        size = os.path.getsize(file)
        profile = os.path.join(folder, "profile")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", options.tool, file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = subprocess.run(["callgrind_annotate", "--inclusive=yes", profile], check=True, text=True, stdout=subprocess.PIPE).stdout
    print(f"{os.path.basename(file)}: {size} bytes")
    for part, function in PARTS.items():
        found = re.search(rf"^\s*([\d,]+) .*:{re.escape(function)} \[", lines, re.MULTILINE)
        if not found:
            sys.exit(f"{function} is not in the profile")
        count = int(found.group(1).replace(",", ""))
        print(f"{part:<8}{count:>14} instructions{count / size:>8.1f} a byte")


if __name__ == "__main__":
    main()
