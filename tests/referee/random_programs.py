"""Stress the optimizer with random programs, XLA:CPU as the judge: rewritten programs must compile and give the same results.

    random_programs.py --tool hlo-opt [--count K] [--seed S] [--raw-share F] [--large-every L] [--book FILE] [--keep DIR] [--args "..."]

Every program is lowered at a small size and rewritten in several configurations with limits so small that the passes fire.
Checked: exit code 0; XLA compiles the result; results equal (bit for bit, or within 1e-5 of the scale, 4 roundings of shorter floats, where the report
names a weaker grade) on tame, negative, wild and random data; a second run changes nothing. Every L-th program is also
lowered with millions of rows and rewritten with the standard options: XLA must not need more memory than before.

A batch of programs shares a process for tracing and one for judging; only programs that were rewritten are compiled.
Failing programs are kept in DIR, made smaller when that is easy. A long run (two to three programs a second on one core):

    cargo build --release
    python tests/referee/random_programs.py --tool target/release/hlo-opt --count 20000 --seed 1 --single-share 0.75 --large-every 16

A later build is judged on the same programs in a part of the time with the `--book` of that run: XLA is asked where the outcome is another.

Exit code 0 when everything passed, 1 otherwise, also when nothing could be judged; the last line counts.
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

import random_book  # noqa: E402
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
    random_check.book = random_book.Book(options.book)
    run = Run(options)
    start = time.monotonic()
    end = options.seed + options.count
    for first in range(options.seed, end, options.batch):
        if options.minutes and time.monotonic() - start > 60 * options.minutes:
            break
        last = min(first + options.batch, end)
        run.batch(range(first, last))
        if options.count > options.batch:
            print(f"seeds below {last}: {run.passed} passed, {run.failed} failed, {run.any} rewritten, {run.compared} results compared; "
                  f"{time.monotonic() - start:.0f} s", flush=True)
    run.summary()
    sys.exit(1 if run.failed or not run.passed else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", required=True, help="the optimizer to test")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program; the next ones count up")
    parser.add_argument("--raw-share", type=float, default=0.25, help="share of programs that are HLO text, not JAX")
    parser.add_argument("--single-share", type=float, default=0, help="share of programs with one scatter at most")
    parser.add_argument("--batch", type=int, default=50, help="programs that share a process")
    parser.add_argument("--large-every", type=int, default=4, help="weigh every L-th program at full size; 0: none")
    parser.add_argument("--minutes", type=float, default=0, help="stop after that time; 0: never")
    parser.add_argument("--args", default="", help="more options for the tool")
    parser.add_argument("--notes", action="store_true", help="print what is worth a look but no failure")
    parser.add_argument("--no-shrink", action="store_true", help="keep failing programs as they are")
    parser.add_argument("--book", help="a file of XLA's answers: what another run has asked is not asked again, and the file grows")
    parser.add_argument("--keep", default=os.path.join("target", "random-programs"), help="where failing programs go")
    return parser.parse_args()


class Drawn:
    """One program, with the files it leaves in `folder` and what became of it."""

    def __init__(self, seed, draw, program, folder):
        self.seed, self.draw, self.program, self.folder = seed, draw, program, folder
        self.rng, self.outcomes = random.Random(f"configurations {seed}"), []

    @staticmethod
    def path(folder, seed, name):
        return os.path.join(folder, f"{seed}.{name}.hlo")

    def file(self, name):
        return self.path(self.folder, self.seed, name)


class Run:
    """Counts and failures of one run."""

    def __init__(self, options):
        self.options = options
        self.known = random_check.known_passes(options.tool)
        self.passed, self.failed, self.invalid = 0, 0, 0
        self.fired, self.applied, self.missed = collections.Counter(), collections.Counter(), collections.Counter()
        self.problems, self.any, self.judged = collections.Counter(), 0, 0
        self.compared, self.failing = 0, set()
        self.large, self.large_fired, self.estimates = 0, 0, []
        self.notes = collections.Counter()

    def batch(self, seeds):
        """Draw, run and judge some programs."""
        with tempfile.TemporaryDirectory() as folder:
            programs = self.draw(seeds, folder)
            for one in programs:
                for config in random_check.configs(one.rng, one.program.plain, shlex.split(self.options.args), self.known):
                    after = one.file(config.name)
                    one.outcomes.append(random_check.apply(self.options.tool, config, one.file("before"), after))
            compared, failing = random_check.judge([(one.file("before"), one.outcomes, one.seed) for one in programs])
            self.compared += compared
            self.failing |= failing
            self.weigh([one for one in programs if self.options.large_every and one.seed % self.options.large_every == 0])
            for one in programs:
                self.note(one)

    def note(self, one):
        """Count what became of a program, and keep it if it failed."""
        self.count(one.outcomes)
        bad = [outcome for outcome in one.outcomes if outcome.problem]
        self.failed += bool(bad)
        # What XLA does not run, or not the same way twice, was not judged.
        self.passed += not bad and one.file("before") not in self.failing
        for outcome in bad:
            self.keep(one, outcome)
        for outcome in one.outcomes:
            if outcome.note and self.options.notes:
                print(f"note: seed {one.seed} {outcome.config.name} {' '.join(outcome.config.args)}: {outcome.note}", flush=True)
                self.copy(outcome, f"note-{one.seed}-{outcome.config.name}")

    def draw(self, seeds, folder):
        """The first valid program of each seed; a seed of which every draw is invalid has none."""
        items, found = [], []
        for seed in seeds:
            rng = random.Random(f"kind {seed}")
            raw = rng.random() < self.options.raw_share
            most = 1 if rng.random() < self.options.single_share else (random_raw if raw else random_jax).MOST
            names = [seed * 1000 + draw for draw in range(DRAWS)]
            items.append((names, raw, most, Drawn.path(folder, seed, "before")))
        for seed, (names, raw, most, _), answer in zip(seeds, items, random_check.in_children(random_jobs.drawn, items)):
            refused = answer.get("refused", [answer.get("error", "")])
            self.invalid += len(refused)
            if os.environ.get("RANDOM_PROGRAMS_SAY_INVALID"):
                print(*(f"invalid {seed}: {text.splitlines()[0][:300]}" for text in refused), sep="\n", file=sys.stderr)
            if answer.get("place") is not None:
                program = (random_raw if raw else random_jax).program(names[answer["place"]], most)
                found.append(Drawn(seed, answer["place"], program, folder))
        return found

    def weigh(self, programs):
        """The programs with millions of rows through the standard run; XLA's totals before and after."""
        config = random_check.Config("large", shlex.split(self.options.args))
        work = [(one.program, one.rng.choice(LARGE_ROWS), one.file("large.before")) for one in programs]
        rewritten = []
        for one, lowered in zip(programs, random_check.lower(work)):
            if "error" in lowered:
                continue
            outcome = random_check.apply(self.options.tool, config, one.file("large.before"), one.file("large"))
            one.outcomes.append(outcome)
            self.large += 1
            if outcome.rewrites and not outcome.problem.startswith(("exit", "no-output", "tool-time")):
                rewritten.append(outcome)
        before, after = (random_check.asked(random_jobs.weigh, [(file,) for file in files])
                         for files in ([o.before for o in rewritten], [o.after for o in rewritten]))
        for outcome, first, second in zip(rewritten, before, after):
            if "error" in first:
                continue
            self.large_fired += 1
            if "error" in second:
                outcome.problem = "large-xla: " + second["error"]
            else:
                self.compare_totals(outcome, first["total"], second["total"])

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

    def keep(self, one, outcome):
        """Write a failing program, made smaller, with its reason."""
        config, problem, program, seed, draw = outcome.config, outcome.problem, one.program, one.seed, one.draw
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
            random_check.lower([(small, small.rows, os.path.join(folder, "small.before.hlo"))])
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
        print(f"results compared: {self.compared}; programs that fail by themselves: {len(self.failing)}")
        print(f"answers of XLA from the book: {random_check.book.found}")
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
