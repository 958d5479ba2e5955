"""Stress the optimizer with random programs, XLA:CPU as the judge: rewritten programs must compile and give the same results.

    random_programs.py --tool hlo-opt [--count K] [--seed S] [--raw-share F] [--large-every L] [--keep DIR] [--args "..."]

Every program is lowered at a small size and rewritten in several configurations with limits so small that the passes fire.
Checked: exit code 0; XLA compiles the result; results equal (bit for bit, or within 1e-5 of the scale where the report
names a weaker grade) on tame, negative, wild and random data; a second run changes nothing. Every L-th program is also
lowered with millions of rows and rewritten with the standard options: XLA must not need more memory than before.

Failing programs are kept in DIR, made smaller when that is easy. A long run (about two seconds a program on one core):

    cargo build --release
    python tests/referee/random_programs.py --tool target/release/hlo-opt --count 2000 --seed 1

Exit code 0 when everything passed, 1 otherwise; the last line counts.
"""
import argparse
import collections
import json
import os
import random
import shlex
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import child  # noqa: E402
import random_check  # noqa: E402
import random_jax  # noqa: E402
import random_jobs  # noqa: E402
import random_raw  # noqa: E402
import random_shrink  # noqa: E402
import xla  # noqa: E402
from random_source import Program  # noqa: E402

# How many programs may be invalid in a row before another is drawn.
DRAWS = 20
LARGE_ROWS = (1 << 22, 4194301, 5_000_000)
# Estimates further off than this share are noted.
ESTIMATE_ERROR = 0.01
# A rise of XLA's total below this share of it is measured but no failure: the loop's own state.
SLACK = 0.001


def main():
    options = arguments()
    xla.import_quietly()
    os.makedirs(options.keep, exist_ok=True)
    run = Run(options)
    start = time.monotonic()
    for number in range(options.seed, options.seed + options.count):
        if options.minutes and time.monotonic() - start > 60 * options.minutes:
            break
        run.one(number)
    run.summary()
    sys.exit(1 if run.failed else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", required=True, help="the optimizer to test")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program; the next ones count up")
    parser.add_argument("--raw-share", type=float, default=0.25, help="share of programs that are HLO text, not JAX")
    parser.add_argument("--large-every", type=int, default=4, help="weigh every L-th program at full size; 0: none")
    parser.add_argument("--minutes", type=float, default=0, help="stop after that time; 0: never")
    parser.add_argument("--args", default="", help="more options for the tool")
    parser.add_argument("--notes", action="store_true", help="print what is worth a look but no failure")
    parser.add_argument("--no-shrink", action="store_true", help="keep failing programs as they are")
    parser.add_argument("--keep", default=os.path.join("target", "random-programs"), help="where failing programs go")
    return parser.parse_args()


class Run:
    """Counts and failures of one run."""

    def __init__(self, options):
        self.options = options
        self.known = random_check.known_passes(options.tool)
        self.passed, self.failed, self.invalid = 0, 0, 0
        self.fired, self.applied, self.missed = collections.Counter(), collections.Counter(), collections.Counter()
        self.problems, self.any, self.judged = collections.Counter(), 0, 0
        self.large, self.large_fired, self.estimates = 0, 0, []
        self.notes = collections.Counter()

    def one(self, seed):
        """Draw, run and judge one program."""
        with tempfile.TemporaryDirectory() as folder:
            before = os.path.join(folder, "before.hlo")
            program, draw = self.draw(seed, before)
            if program is None:
                return
            rng = random.Random(f"configurations {seed}")
            outcomes = []
            for config in random_check.configs(rng, program.plain, shlex.split(self.options.args), self.known):
                after = os.path.join(folder, f"{config.name}.hlo")
                outcomes.append(random_check.apply(self.options.tool, config, before, after))
            random_check.judge(before, outcomes, seed)
            if self.options.large_every and seed % self.options.large_every == 0:
                outcomes += self.weighed(program, rng, folder)
            self.count(outcomes)
            bad = [outcome for outcome in outcomes if outcome.problem]
            self.failed += bool(bad)
            self.passed += not bad
            for outcome in bad:
                self.keep(program, draw, outcome, seed)
            for outcome in outcomes:
                if outcome.note and self.options.notes:
                    print(f"note: seed {seed} {outcome.config.name} {' '.join(outcome.config.args)}: {outcome.note}", flush=True)
                    self.copy(outcome, f"note-{seed}-{outcome.config.name}")

    def draw(self, seed, before):
        """The first valid program of a seed; (None, 0) when every draw is invalid."""
        for draw in range(DRAWS):
            name = seed * 1000 + draw
            raw = random.Random(f"kind {seed}").random() < self.options.raw_share
            program = random_raw.program(name) if raw else random_jax.program(name)
            found = random_check.lower(program, program.rows, before)
            if "error" not in found:
                return program, draw
            self.invalid += 1
            if os.environ.get("RANDOM_PROGRAMS_SAY_INVALID"):
                print(f"invalid {name}: {found['error'].splitlines()[0][:300]}", file=sys.stderr)
        return None, 0

    def weighed(self, program, rng, folder):
        """The program with millions of rows through the standard run; XLA's totals before and after."""
        before, after = os.path.join(folder, "large.before.hlo"), os.path.join(folder, "large.hlo")
        lowered = random_check.lower(program, rng.choice(LARGE_ROWS), before)
        if "error" in lowered:
            return []
        config = random_check.Config("large", shlex.split(self.options.args))
        outcome = random_check.apply(self.options.tool, config, before, after)
        self.large += 1
        if outcome.rewrites and not outcome.problem.startswith(("exit", "no-output", "tool-time")):
            self.large_fired += 1
            found = child.run(random_jobs.weigh, (after,), time_limit=random_check.XLA_LIMIT,
                              memory_limit=random_check.MEMORY)
            if "error" in found:
                outcome.problem = "large-xla: " + found["error"]
            else:
                self.compare_totals(outcome, lowered["total"], found["total"])
        return [outcome]

    def compare_totals(self, outcome, before, after):
        outcome.measured = (before, after)
        if after > before * (1 + SLACK):
            outcome.problem = f"more-memory: XLA needs {after} after {before}; the tool says {outcome.estimate}"
        if outcome.estimate:
            ratios = outcome.estimate[0] / max(1, before), outcome.estimate[1] / max(1, after)
            self.estimates.append(ratios)
            if max(abs(ratio - 1) for ratio in ratios) > ESTIMATE_ERROR:
                outcome.note = f"estimate: {ratios[0]:.3f} and {ratios[1]:.3f} of XLA's {before} and {after}"

    def count(self, outcomes):
        self.judged += 1
        self.any += any(outcome.rewrites for outcome in outcomes)
        for outcome in outcomes:
            if outcome.note:
                self.notes[outcome.note.split(":")[0]] += 1
            self.fired[outcome.config.name] += bool(outcome.rewrites)
            self.applied.update({rewrite["pass"] for rewrite in outcome.rewrites})
            self.missed.update({remark["code"] for remark in outcome.remarks if remark["kind"] == "missed"})

    def keep(self, program, draw, outcome, seed):
        """Write a failing program, made smaller, with its reason."""
        config, problem = outcome.config, outcome.problem
        self.problems[f"{config.name}: {problem.split(':')[0]}"] += 1
        print(f"seed {seed} draw {draw} {config.name} {' '.join(config.args)}\n    {problem[:400]}", flush=True)
        folder = self.copy(outcome, f"{seed}-{config.name}")
        small = program
        if isinstance(program, Program):
            if not self.options.no_shrink and config.name != "large":
                fails = random_shrink.same_failure(self.options.tool, config, problem, seed)
                small = random_shrink.shrink(program, fails)
            random_jobs.write(os.path.join(folder, "program.py"), small.source())
        if small is not program:
            random_check.lower(small, small.rows, os.path.join(folder, "small.before.hlo"))
        facts = {"seed": seed, "config": config.name, "args": config.args, "problem": problem, "small_rows": small.rows,
                 "rewrites": outcome.rewrites, "measured": outcome.measured, "estimate": outcome.estimate}
        random_jobs.write(os.path.join(folder, "reason.json"), json.dumps(facts, indent=1) + "\n")

    def copy(self, outcome, name):
        """Keep the modules of an outcome; returns their folder."""
        folder = os.path.join(self.options.keep, name)
        os.makedirs(folder, exist_ok=True)
        for file, kept in ((outcome.before, "before.hlo"), (outcome.after, "after.hlo")):
            if os.path.exists(file):
                shutil.copy(file, os.path.join(folder, kept))
        return folder

    def summary(self):
        """What fired, what failed; the last line counts."""
        share = 100 * self.any / max(1, self.judged)
        print(f"passes of the tool: {', '.join(sorted(self.known)) or 'not told'}")
        print(f"rewritten: {self.any} of {self.judged} programs ({share:.0f} %); by configuration {dict(self.fired)}; "
              f"by pass {dict(self.applied)}")
        print(f"missed chances: {dict(self.missed.most_common())}")
        print(f"invalid draws: {self.invalid}")
        print(f"large: {self.large} weighed, {self.large_fired} rewritten{self.estimate_text()}")
        print(f"notes: {dict(self.notes.most_common())}")
        if self.problems:
            print(f"problems: {dict(self.problems.most_common())}")
        print(f"{self.passed} passed, {self.failed} failed")

    def estimate_text(self):
        if not self.estimates:
            return ""
        sides = [sorted(pair[side] for pair in self.estimates) for side in (0, 1)]
        return "; estimate over XLA's total: " + ", ".join(
            f"{name} {side[0]:.3f}..{side[len(side) // 2]:.3f}..{side[-1]:.3f}" for name, side in zip(("before", "after"), sides))


if __name__ == "__main__":
    main()
