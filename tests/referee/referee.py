"""The XLA referee: what XLA:CPU itself says about HLO modules, as JSON lines on standard output.

    referee.py peak FILE... [--dump DIR]            bytes by XLA's own buffer assignment
    referee.py same BEFORE AFTER [--cases N] [--seed S]   both on the same data, compared bit for bit
    referee.py roundtrip A B                        do both texts parse to the same module
    referee.py bench BEFORE AFTER [--reps N]        interleaved run times
    referee.py batch                                JSON commands on standard input, answers in order

Exit code 0: every job was carried out (also when results differ); 1: some answer has an "error".
"""
import argparse
import json
import sys

sys.dont_write_bytecode = True

import child  # noqa: E402
import jobs  # noqa: E402
import xla  # noqa: E402

TIME_LIMIT = 300.0
# Runs on data are meant for small modules: without a limit a full-size one would drown the machine.
RUN_MEMORY = 24 << 30

# For each command of the batch protocol: the job, its required keys, its optional ones, its memory limit.
COMMANDS = {
    "peak": (jobs.peak, ("file",), ("dump",), None),
    "same": (jobs.same, ("before", "after"), ("cases", "seed"), RUN_MEMORY),
    "roundtrip": (jobs.roundtrip, ("a", "b"), (), None),
    "bench": (jobs.bench, ("before", "after"), ("reps", "seed"), RUN_MEMORY),
}
RENAMED = {"cases": "count"}


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
    bench.add_argument("--reps", type=int, default=7)
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


def batch(lines):
    """Answer each request line with one line, in order, until standard input ends."""
    for line in lines:
        if line.strip():
            try:
                request = json.loads(line)
            except ValueError as error:
                reply({"error": f"request is not JSON: {error}"})
                continue
            reply(answer(request))
    return 0


def answer(request):
    """Carry out one request; every failure is an answer that names the files it is about."""
    if not isinstance(request, dict) or request.get("cmd") not in COMMANDS:
        return {"error": f"unknown command; known are {', '.join(COMMANDS)}"}
    job, required, optional, memory = COMMANDS[request["cmd"]]
    missing = [key for key in required if key not in request]
    strange = set(request) - {"cmd", "id", "time_limit", *required, *optional}
    if missing or strange:
        return {"error": f"{request['cmd']}: missing {missing}, unknown {sorted(strange)}"}
    named = {key: request[key] for key in required}
    extra = {RENAMED.get(key, key): request[key] for key in optional if key in request}
    limit = float(request.get("time_limit", TIME_LIMIT))
    found = child.run(lambda: job(**named, **extra), (), time_limit=limit, memory_limit=memory)
    found = {**named, **found} if "error" in found else found
    # An "id" comes back as it was, for callers that want to match answers.
    return {"id": request["id"], **found} if "id" in request else found


def reply(found):
    print(json.dumps(found, allow_nan=False), flush=True)
    return "error" in found


if __name__ == "__main__":
    main()
