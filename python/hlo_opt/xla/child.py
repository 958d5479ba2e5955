"""Run one function in a forked child with limits, and turn every way it can end into a dictionary.

XLA aborts the process on some malformed modules and reads XLA_FLAGS only once, so each module gets a
process of its own. The parent has imported jax but never starts a backend: a fork then costs milliseconds.
"""
import json
import os
import resource
import select
import signal
import tempfile
import time

# Lines of a dying child's standard error that are worth passing on.
STDERR_TAIL = 12


def run(function, args, *, time_limit=300.0, memory_limit=None):
    """Return function(*args), a dictionary, computed in a child; {"error": text} when it fails."""
    with tempfile.TemporaryFile() as stderr:
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            _child(function, args, write_end, stderr, memory_limit)
        os.close(write_end)
        answer, timed_out = _collect(read_end, pid, time_limit)
        _, status = os.waitpid(pid, 0)
        if answer is not None and not timed_out:
            return answer
        return {"error": _cause(status, timed_out, time_limit, _tail(stderr))}


def _child(function, args, write_end, stderr, memory_limit):
    """Never returns: the forked copy of the parent must not run the parent's code."""
    try:
        os.dup2(stderr.fileno(), 2)
        if memory_limit:
            resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            answer = function(*args)
        except Exception as error:  # noqa: BLE001 - any failure becomes an answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        with os.fdopen(write_end, "w") as pipe:
            json.dump(answer, pipe)
    finally:
        # Skip interpreter shutdown: XLA's threads may still be running.
        os._exit(0)


def _collect(read_end, pid, time_limit):
    """Read the child's answer until end of file or the limit; a child over the limit is killed."""
    deadline = time.monotonic() + time_limit
    data = b""
    with os.fdopen(read_end, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                return None, True
            piece = pipe.read(1 << 16)
            if not piece:
                break
            data += piece
    try:
        return json.loads(data), False
    except ValueError:
        return None, False


def _tail(stderr):
    """What a dying child said: the failed check if there is one (the stack below it is long), else the end."""
    stderr.seek(0)
    lines = stderr.read().decode("utf-8", "replace").splitlines()
    fatal = [line for line in lines if "Check failed" in line or line.startswith("F")]
    return "\n".join(fatal[:1] or lines[-STDERR_TAIL:])


def _cause(status, timed_out, time_limit, tail):
    if timed_out:
        return f"time limit of {time_limit:g} s passed"
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"the compiler process died of {name}: {tail}".rstrip(": ")
    return f"the compiler process ended without an answer: {tail}".rstrip(": ")
