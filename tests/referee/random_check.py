"""One random program through one tool: run it in several configurations and let XLA judge every result."""
import dataclasses
import json
import os
import subprocess

import child
import random_jobs
from random_source import Program

TOOL_LIMIT, XLA_LIMIT = 60.0, 180.0
MEMORY = 12 << 30
# Largest error over the scale of an array that a rewrite may cause which promises the same operations, not the same bits.
SCALE_ERROR = 1e-5
CASES = 4


@dataclasses.dataclass
class Config:
    """One way to call the tool. `promise`: only data within bounds counts."""

    name: str
    args: list
    promise: bool = False


@dataclasses.dataclass
class Outcome:
    """What one configuration did to one program."""

    config: Config
    before: str
    after: str
    rewrites: list
    remarks: list
    problem: str = ""  # empty: passed
    note: str = ""  # worth a look, but no failure
    estimate: tuple = ()  # the tool's totals before and after
    measured: tuple = ()  # XLA's


def known_passes(tool):
    """Names of the tool's passes; empty when it does not tell (then every configuration is run)."""
    done = subprocess.run([tool, "--list-passes"], capture_output=True, text=True, timeout=TOOL_LIMIT)
    return {line.split()[0] for line in done.stdout.splitlines() if line.strip()} if not done.returncode else set()


def configs(rng, plain, extra, known):
    """The configurations of one program; sizes are small so that small programs are rewritten."""
    block = rng.choice(("1", "16", "64", "100", "256", "1000", "1000", "4096", "16384"))
    small = ["--min-saving", "1", "--chunk-bytes", block, "--verify-each", *extra]
    strict = rng.choice(([], [], ["--exactness", "bitwise"]))
    found = [Config("chunk", ["--passes=chunk", *small, *strict]),
             Config("direct-index", ["--passes=direct-index", *small]),
             Config("default", [*small, *strict])]
    if plain:
        found.append(Config("assume", ["--passes=direct-index", "--assume=indices-in-bounds", *small], promise=True))
    wanted = [(config, config.args[0].removeprefix("--passes=")) for config in found]
    return [config for config, name in wanted if not known or name.startswith("-") or name in known]


def lower(program, rows, file):
    """Write the program's HLO; returns XLA's total, or a dictionary with an error."""
    job = random_jobs.lower_source if isinstance(program, Program) else random_jobs.lower_text
    return child.run(job, (program.source(rows), file), time_limit=XLA_LIMIT, memory_limit=MEMORY)


def apply(tool, config, before, after):
    """Run the tool twice: on the program and on its own output."""
    outcome = Outcome(config, before, after, [], [])
    outcome.problem = run_tool(tool, config.args, before, after, outcome)
    if outcome.problem:
        return outcome
    again = after.removesuffix(".hlo") + ".again.hlo"
    second = Outcome(config, after, again, [], [])
    trouble = run_tool(tool, config.args, after, again, second)
    if trouble:
        outcome.problem = "second-run: " + trouble
    elif text(after) != text(again):
        outcome.problem = f"not-idempotent: the second run made {len(second.rewrites)} more rewrites"
    return outcome


def run_tool(tool, args, before, after, outcome):
    """Call the tool; fills in its report and returns what went wrong."""
    report = after.removesuffix(".hlo") + ".report.json"
    for file in (after, report):
        if os.path.exists(file):
            os.remove(file)
    command = [tool, *args, before, "-o", after, "--report", report]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_LIMIT)
    except subprocess.TimeoutExpired:
        return f"tool-time: more than {TOOL_LIMIT:g} s"
    if done.returncode:
        return f"exit-{done.returncode}: {(done.stderr.strip().splitlines() or ['nothing said'])[0]}"
    if not os.path.exists(after):
        return "no-output: exit code 0 but no module"
    if os.path.exists(report):
        with open(report, encoding="utf-8") as source:
            found = json.load(source)
        outcome.rewrites, outcome.remarks = found.get("rewrites", []), found.get("remarks", [])
        outcome.estimate = tuple(found.get(side, {}).get("total_bytes", 0) for side in ("before", "after"))
    return ""


def judge(before, outcomes, seed):
    """Let XLA run every distinct result beside the program; fills in the problems."""
    waiting = [o for o in outcomes if not o.problem.startswith(("exit", "no-output", "tool-time"))]
    distinct = {}
    for outcome in waiting:
        if text(outcome.after) != text(before):
            distinct.setdefault(text(outcome.after), []).append(outcome)
    groups = list(distinct.values())
    if not groups:
        return
    answers = compared(before, [group[0].after for group in groups], seed)
    if answers is None:
        # One of them brings XLA down: find out which. Programs that do it by themselves prove nothing.
        if compared(before, [], seed) is None:
            return
        for group in groups:
            single = child.run(random_jobs.judge, (before, [group[0].after], CASES, seed), time_limit=XLA_LIMIT,
                               memory_limit=MEMORY)
            for outcome in group:
                settle(outcome, single.get("answers", [single])[0], single.get("total", 0))
        return
    for group, answer in zip(groups, answers["answers"]):
        for outcome in group:
            settle(outcome, answer, answers["total"])


def compared(before, afters, seed):
    found = child.run(random_jobs.judge, (before, afters, CASES, seed), time_limit=XLA_LIMIT, memory_limit=MEMORY)
    return None if "error" in found else found


def settle(outcome, answer, total):
    """The verdict on one result; a verdict of the tool runs stays when XLA has nothing worse to say."""
    if "time limit" in answer.get("error", ""):
        # A machine with other work on it is slow; a rewrite that makes a program hang is found by the next run too.
        outcome.note = "xla-time: " + answer["error"]
        return
    if "error" in answer:
        outcome.problem = "xla: " + answer["error"]
        return
    outcome.measured = (total, answer["total"])
    if answer["total"] > total and outcome.rewrites:
        outcome.note = f"small-rise: XLA's total went from {total} to {answer['total']}; the tool says {outcome.estimate}"
    seen = answer["cases"][:1] if outcome.config.promise else answer["cases"]
    error = max((case["max_rel_error"] for case in seen), default=0.0)
    bitwise = all(case["bitwise"] for case in seen)
    exact = all(rewrite["grade"] == "bitwise" for rewrite in outcome.rewrites)
    if bitwise or (not exact and error <= SCALE_ERROR):
        return
    kind = "nan" if answer["numbers_equal"] else "bits" if error <= SCALE_ERROR else "values"
    if error == 0.0:
        # Which of two NaNs an operation passes on is no part of HLO; XLA picks by shape and fusion.
        outcome.note = f"nan-payload: {json.dumps(answer['first_difference'])}"
        return
    grades = sorted({rewrite["grade"] for rewrite in outcome.rewrites})
    outcome.problem = f"{kind}: grade {grades}, error {error:.3g}, {json.dumps(answer['first_difference'])}"


def text(file):
    with open(file, encoding="utf-8") as source:
        return source.read()
