"""Compare the estimates with XLA:CPU's own totals over sets of programs and write a scoreboard.

    scoreboard.py --cache DIR [--shared DIR] [--sets a,b] [--tool hlo-opt] [--snapshot FILE] [--estimator PROGRAM]

XLA compiles every program once, from shapes, in a child process; its dumps stay in the cache, so later runs only estimate.
Sets that need programs outside the repository (`--shared`) are left out, and said to be, when the folder is missing.
The estimator is `cargo build --release -p hlo-memory --example scoreboard`.

The board has one row per program: XLA's total, ours from the scheduled module, ours predicted from the module before
optimizations, and the error of the prediction. Exit code 1 when a scheduled total differs from XLA's.
"""
import argparse
import collections
import os
import subprocess
import sys

sys.dont_write_bytecode = True

import board_rewritten  # noqa: E402
import board_rows  # noqa: E402
import board_sets  # noqa: E402

REPOSITORY = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ESTIMATOR = os.path.join(REPOSITORY, "target", "release", "examples", "scoreboard")


def main():
    options = arguments()
    wanted = options.sets.split(",") if options.sets else None
    jobs = board_sets.jobs(options.shared, wanted)
    if not options.no_compile:
        board_sets.compile_all(jobs, options.cache, options.parallel)
    rows = board_rows.collect(jobs, options.cache, os.path.join(REPOSITORY, "corpus"), wanted)
    if options.tool:
        job = board_rewritten.prepare(rows, options.tool, options.cache, options.parallel)
        board_sets.compile_one(job, options.cache)
    if wanted is None or "rewritten" in wanted:
        rows += board_rewritten.collect(options.cache)
    estimate(rows, options.estimator)
    text = "\n".join(board(rows)) + "\n"
    if options.snapshot:
        with open(options.snapshot, "w", encoding="utf-8") as out:
            out.write(text)
    print(text if not options.snapshot else "\n".join(summary(rows)))
    sys.exit(any(row.scheduled != str(row.xla) for row in rows if row.after))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", required=True, help="where XLA's dumps are kept")
    parser.add_argument("--shared", help="folder with assignment.py, patterns.py and r01..r24")
    parser.add_argument("--sets", help=f"comma-separated: {', '.join(board_sets.NAMES)}, corpus; all when absent")
    parser.add_argument("--snapshot", help="write the board there and print the summary only")
    parser.add_argument("--tool", help="the optimizer: what it makes of the programs becomes one more set")
    parser.add_argument("--estimator", default=ESTIMATOR)
    parser.add_argument("--parallel", type=int, default=2, help="compilations at a time")
    parser.add_argument("--no-compile", action="store_true", help="only what the cache holds")
    return parser.parse_args()


def estimate(rows, program):
    """Fill in our totals."""
    lines = "".join(f"{row.before or '-'}\t{row.after or '-'}\n" for row in rows)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    answers = done.stdout.splitlines()
    if len(answers) != len(rows):
        raise ValueError(f"the estimator answered {len(answers)} of {len(rows)} rows")
    for row, answer in zip(rows, answers):
        row.predicted, row.scheduled = answer.split("\t")


def board(rows):
    yield from summary(rows)
    yield ""
    yield f"{'error':>10} {'XLA':>16} {'predicted':>16} {'scheduled':>16}  program"
    for row in sorted(rows, key=lambda row: (-abs(row.error), row.name)):
        scheduled = "=" if row.scheduled == str(row.xla) else row.scheduled
        predicted = "=" if row.predicted == str(row.xla) else row.predicted
        yield f"{row.error:>+10.2%} {row.xla:>16} {predicted:>16} {scheduled:>16}  {row.name}"


def summary(rows):
    """Exact shares and quantiles per set and over all, and the direction of change over pairs."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row.name.split("/")[0]].append(row)
    yield f"{'set':12} {'programs':>8} {'scheduled exact':>16} {'predicted exact':>18} {'p90':>8} {'p99':>8} {'max':>9}"
    for name, group in [*sorted(groups.items()), ("all", rows)]:
        yield line(name, group)
    pairs = [pair for pair in board_rows.pairs(rows) if pair[0].xla != pair[1].xla]
    right = sum(direction(*pair) for pair in pairs)
    if pairs:
        yield f"direction of change right for {right} of {len(pairs)} pairs of original and rewritten programs"
        for before, after in pairs:
            if not direction(before, after):
                yield f"    wrong: {after.name}: XLA {before.xla} -> {after.xla}, predicted {before.predicted} -> {after.predicted}"


def line(name, rows):
    errors = sorted(abs(row.error) for row in rows if row.before)
    scheduled = [row for row in rows if row.after]
    same = sum(row.scheduled == str(row.xla) for row in scheduled)
    exact = sum(row.predicted == str(row.xla) for row in rows if row.before)
    share = exact / max(1, len(errors))
    return (f"{name:12} {len(rows):>8} {f'{same} of {len(scheduled)}':>16} {f'{exact} ({share:.1%})':>18} "
            f"{quantile(errors, .9):>8.2%} {quantile(errors, .99):>8.2%} {quantile(errors, 1):>9.2%}")


def quantile(errors, share):
    return errors[min(len(errors) - 1, int(len(errors) * share))] if errors else 0.0


def direction(before, after):
    """Whether the prediction moves the way XLA's total does; a change below a thousandth has no direction."""
    ours, xla = change(before.predicted, after.predicted), change(before.xla, after.xla)
    return ours is not None and (abs(xla) < 1e-3 and abs(ours) < 1e-2 or ours * xla > 0)


def change(before, after):
    try:
        return (int(after) - int(before)) / max(1, int(before))
    except ValueError:
        return None


if __name__ == "__main__":
    main()
