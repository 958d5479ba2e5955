"""The XLA referee: what XLA:CPU itself says about HLO modules, as JSON lines on standard output.

    referee.py peak FILE... [--dump DIR]            bytes by XLA's own buffer assignment
    referee.py same BEFORE AFTER [--cases N] [--seed S]   both on the same data, compared bit for bit
    referee.py roundtrip A B                        do both texts parse to the same module
    referee.py bench BEFORE AFTER [--reps N]        interleaved run times
    referee.py batch                                JSON commands on standard input, answers in order

Exit code 0: every job was carried out (also when results differ); 1: some answer has an "error".
"""
import argparse
import sys

sys.dont_write_bytecode = True

import xla  # noqa: E402
from hlo_opt.xla.service import answer, batch, reply  # noqa: E402


def main():
    options = arguments()
    xla.import_quietly()
    if options.command == "batch":
        sys.exit(batch(sys.stdin))
    failed = False
    for request in requests(options):
        failed |= reply(answer(request))
    sys.exit(1 if failed else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    peak = commands.add_parser("peak")
    peak.add_argument("files", nargs="+", metavar="FILE")
    peak.add_argument("--dump", metavar="DIR", help="keep the scheduled after-optimization text there")
    same = commands.add_parser("same")
    bench = commands.add_parser("bench")
    for pair in (same, bench):
        pair.add_argument("before")
        pair.add_argument("after")
        pair.add_argument("--seed", type=int, default=0)
    same.add_argument("--cases", type=int, default=3)
    bench.add_argument("--reps", type=int, help="7 to 101 for two seconds unless told")
    roundtrip = commands.add_parser("roundtrip")
    roundtrip.add_argument("a")
    roundtrip.add_argument("b")
    commands.add_parser("batch")
    return parser.parse_args()


def requests(options):
    """The command line as batch requests, so that both ways in run the same code."""
    values = {key: value for key, value in vars(options).items() if value is not None}
    command = values.pop("command")
    files = values.pop("files", None)
    if files is None:
        return [{"cmd": command, **values}]
    return [{"cmd": command, "file": file, **values} for file in files]


if __name__ == "__main__":
    main()
