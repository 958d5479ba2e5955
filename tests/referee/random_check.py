"""Random programs through one tool: run it in several configurations and let XLA judge every result."""
import dataclasses
import json
import os
import resource
import subprocess

import random_batch
import random_book
import random_jobs
from random_source import Program

# Seconds of processor time; by the clock, a machine with other work on it may take this many times as long.
TOOL_LIMIT, XLA_LIMIT = 60.0, 180.0
PATIENCE = 20.0
MEMORY = 12 << 30
# Largest error over the scale of an array that a rewrite may cause which promises the same operations, not the same bits.
SCALE_ERROR = 1e-5
CASES = 4

# Where XLA's answers are kept for another run.
book = random_book.Book()


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


def lower(work):
    """Write the HLO of each (program, rows, file); returns a dictionary for each, with an error where it cannot be lowered."""
    return in_children(random_jobs.lower, [(program.source(rows), not isinstance(program, Program), file) for program, rows, file in work])


def in_children(job, items):
    """The answers of a job of `random_jobs` for many items, with this driver's limits."""
    return random_batch.each(job, items, seconds=XLA_LIMIT, memory_limit=MEMORY)


def asked(job, items):
    """What XLA says; from the book where it has said it before."""
    return book.ask(job, items, in_children)


def apply(tool, config, before, after):
    """Run the tool twice: on the program and on its own output."""
    outcome = Outcome(config, before, after, [], [])
    outcome.problem = run_tool(tool, config.args, before, after, outcome)
    # A text that did not change is not worth a second run: it would be the first one again.
    if outcome.problem or text(after) == text(before):
        return outcome
    again = after.removesuffix(".hlo") + ".again.hlo"
    second = Outcome(config, after, again, [], [])
    trouble = run_tool(tool, config.args, after, again, second)
    if trouble:
        outcome.problem = "second-run: " + trouble
    elif text(after) != text(again):
        more = f"the second run made {len(second.rewrites)} more rewrites"
        # The search is bounded, and begins anew where the first one ended; what it makes of its own result has to be worth it all the same.
        if second.estimate and second.estimate[1] < outcome.estimate[1]:
            outcome.note = f"found-more: {more}"
        else:
            outcome.problem = f"not-idempotent: {more}"
    return outcome


def run_tool(tool, args, before, after, outcome):
    """Call the tool; fills in its report and returns what went wrong."""
    report = after.removesuffix(".hlo") + ".report.json"
    for file in (after, report):
        if os.path.exists(file):
            os.remove(file)
    command = [tool, *args, before, "-o", after, "--report", report]
    start = time_of_children()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * TOOL_LIMIT)
    except subprocess.TimeoutExpired:
        return f"tool-time: more than {PATIENCE * TOOL_LIMIT:g} s by the clock"
    if time_of_children() - start > TOOL_LIMIT:
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


def time_of_children():
    """Processor time of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def judge(work):
    """Let XLA run every distinct result beside its program; `work`: (file before, outcomes, seed) of every program. Fills in the problems.
    Returns how many results were compared, and the files of programs that could not be judged because they fail by themselves."""
    waiting = [(before, outcomes, seed) for before, all_outcomes, seed in work if (outcomes := distinct(before, all_outcomes))]
    items = [(before, [group[0].after for group in groups], CASES, seed) for before, groups, seed in waiting]
    compared, failing = 0, set()
    for item, (_, groups, _), answer in zip(items, waiting, asked(random_jobs.judge, items)):
        if "error" in answer:
            # One of them brings XLA down: find out which. Programs that do it by themselves prove nothing.
            if "error" in in_children(random_jobs.judge, [(item[0], [], CASES, item[3])])[0]:
                failing.add(item[0])
                continue
            answer = one_by_one(*item)
        compared += sum("error" not in found for found in answer["answers"])
        for group, found in zip(groups, answer["answers"]):
            for outcome in group:
                settle(outcome, found, answer["total"])
                exact = all(rewrite["grade"] == "bitwise" for rewrite in outcome.rewrites)
                integers = all(case["integers_equal"] for case in found.get("cases", []))
                if outcome.problem.startswith(("nan:", "values:")) and not (exact and integers):
                    ask_again(outcome, item)
                if outcome.problem.startswith("values:") and not exact and integers and not outcome.config.promise:
                    ask_for_the_truth(outcome, item)
    return compared, failing


def ask_again(outcome, item):
    """A second opinion without the library that XLA:CPU leaves large reductions to: its maxima drop NaN, those of XLA's own kernels keep it, and which
    of them computes a value depends on its size. It also reduces sums of short integers as if they did not wrap (`(a + b).min()` of `u8`, jaxlib 0.10.2).
    What is the same without the library differs by nothing that a rewrite could keep."""
    before, _, count, seed = item
    first, outcome.problem = outcome.problem, ""
    second = asked(random_jobs.judge_without_library, [(before, [outcome.after], count, seed)])[0]
    if "error" in second:
        outcome.problem = first
        return
    settle(outcome, second["answers"][0], second["total"])
    if outcome.problem:
        outcome.problem = first
    else:
        outcome.note = f"library: {first}"


def ask_for_the_truth(outcome, item):
    """A program that magnifies rounding (a gradient that cancels to zero) is judged by its distance from double precision: docs/grades.md."""
    before, _, count, seed = item
    if all(asked(random_jobs.judge_by_truth, [(before, outcome.after, count, seed)])[0].get("near", [False])):
        outcome.note, outcome.problem = f"rounding: {outcome.problem}", ""


def distinct(before, outcomes):
    """The outcomes that have a module, by its text; those that changed nothing need no judge."""
    groups = {}
    for outcome in outcomes:
        if outcome.problem.startswith(("exit", "no-output", "tool-time")):
            continue
        made = text(outcome.after)
        if made != text(before):
            groups.setdefault(made, []).append(outcome)
    return list(groups.values())


def one_by_one(before, afters, count, seed):
    """The same answers, each found in a run of its own."""
    singles = asked(random_jobs.judge, [(before, [after], count, seed) for after in afters])
    return {"answers": [single if "error" in single else single["answers"][0] for single in singles],
            "total": max(single.get("total", 0) for single in singles)}


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
    seen = [answer["promised"]] if outcome.config.promise else answer["cases"]
    error = max((case["max_rel_error"] for case in seen), default=0.0)
    bitwise, integers, payload = (all(case[fact] for case in seen) for fact in ("bitwise", "integers_equal", "nan_payload_only"))
    exact = all(rewrite["grade"] == "bitwise" for rewrite in outcome.rewrites)
    near = error <= SCALE_ERROR or all(case["tolerated"] for case in seen)
    if bitwise or (not exact and near and integers):
        return
    kind = "sign" if error == 0.0 else "nan" if answer["numbers_equal"] else "bits" if error <= SCALE_ERROR else "values"
    if payload:
        # Which of two NaNs an operation passes on is no part of HLO; XLA picks by shape and fusion.
        outcome.note = f"nan-payload: {json.dumps(answer['first_difference'])}"
        return
    grades = sorted({rewrite["grade"] for rewrite in outcome.rewrites})
    outcome.problem = f"{kind}: grade {grades}, error {error:.3g}, {json.dumps(answer['first_difference'])}"


def text(file):
    with open(file, encoding="utf-8") as source:
        return source.read()
