"""Run one job for many items in a child process that lives as long as it can: starting XLA and tracing for the first time cost more than
most programs do. A child that dies (a crash, a hang) is replaced by one that begins with the item it died of; an item that kills a child
of its own has its death as answer."""
import json
import os
import signal
import tempfile

import child

# By the clock, an item may take this many times its processor time: the machine may have other work.
PATIENCE = 5
# The parent's own limit for a child, above the alarms of its items.
REST = 60.0


def each(job, items, *, seconds, memory_limit=None):
    """[job(*item) for item in items], each a dictionary; {"error": text} for an item that fails, dies, or takes
    more than `seconds` of processor time."""
    answers = []
    while len(answers) < len(items):
        found, error = _as_many_as_live(job, items[len(answers):], seconds, memory_limit)
        answers += found or [{"error": error}]
    return answers


def _as_many_as_live(job, items, seconds, memory_limit):
    """The answers up to the item that the child died of, and what it died of."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "answers")
        ended = child.run(_answer, (job, items, file, seconds), time_limit=REST + PATIENCE * seconds * len(items), memory_limit=memory_limit)
        if not os.path.exists(file):
            return [], ended.get("error", "the child wrote no answers")
        with open(file, encoding="utf-8") as lines:
            # A child that dies while it writes leaves half a line.
            found = [json.loads(line) for line in lines if line.endswith("\n")]
    error = ended.get("error", "")
    for name in ("SIGALRM", "SIGPROF"):
        error = error.replace(f"died of {name}", f"passed the time limit of {seconds:g} s")
    return found, error


def _answer(job, items, file, seconds):
    """In the child: an answer a line, written at once."""
    with open(file, "w", encoding="utf-8") as out:
        for item in items:
            # The default action of both alarms ends the process, also inside XLA.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.alarm(int(PATIENCE * seconds))
            try:
                answer = job(*item)
            except Exception as error:  # noqa: BLE001 - one item must not hide the others
                answer = {"error": f"{type(error).__name__}: {error}"}
            out.write(json.dumps(answer) + "\n")
            out.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return {}
