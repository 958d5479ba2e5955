"""The referee's jobs as requests: a dictionary in, a dictionary out, each carried out in a child process with limits."""
import json

from . import accuracy, child, jobs, lower, partition, trial

TIME_LIMIT = 300.0
# Runs on data are meant for small modules: without a limit a full-size one would drown the machine.
RUN_MEMORY = 24 << 30

# For each command: the job, its required keys, its optional ones, its memory limit.
COMMANDS = {
    "peak": (jobs.peak, ("file",), ("dump", "target"), None),
    "time": (trial.time, ("file",), ("target", "machine"), None),
    "partition": (partition.partition, ("file",), ("target",), None),
    "hlo": (lower.hlo, ("file",), (), None),
    "same": (jobs.same, ("before", "after"), ("cases", "seed"), RUN_MEMORY),
    "accuracy": (accuracy.accuracy, ("before", "after"), ("seed",), RUN_MEMORY),
    "roundtrip": (jobs.roundtrip, ("a", "b"), (), None),
    "bench": (jobs.bench, ("before", "after"), ("reps", "seed"), RUN_MEMORY),
}
RENAMED = {"cases": "count"}


def answer(request):
    """Carry out one request; every failure is an answer that names the files it is about."""
    if not isinstance(request, dict) or request.get("cmd") not in COMMANDS:
        return {"error": f"unknown command; known are {', '.join(COMMANDS)}"}
    job, required, optional, memory = COMMANDS[request["cmd"]]
    missing = [key for key in required if key not in request]
    strange = set(request) - {"cmd", "id", "time_limit", "memory_limit", *required, *optional}
    if missing or strange:
        return {"error": f"{request['cmd']}: missing {missing}, unknown {sorted(strange)}"}
    named = {key: request[key] for key in required}
    extra = {RENAMED.get(key, key): request[key] for key in optional if key in request}
    limit = float(request.get("time_limit", TIME_LIMIT))
    memory = request.get("memory_limit", memory)
    found = child.run(lambda: job(**named, **extra), (), time_limit=limit, memory_limit=memory)
    found = {**named, **found} if "error" in found else found
    # An "id" comes back as it was, for callers that want to match answers.
    return {"id": request["id"], **found} if "id" in request else found


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


def reply(found):
    print(json.dumps(found, allow_nan=False), flush=True)
    return "error" in found
