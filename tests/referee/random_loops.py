"""Stress roll and tie with random Python loops that JAX unrolls, and loop-residuals with random scans, XLA:CPU as the judge.

    random_loops.py --tool hlo-opt [--scans] [--count K] [--seed S] [--minutes M] [--batch B]

Each program draws the work of a step, what the step reads (slices, gathers, arrays of its own, constants), how the steps
meet (sum, maximum, integer xor, stack, tuple, a state handed on, a donated argument), its order (forwards, backwards, two levels), a first
or last step that differs, what stands around it (a scan, a branch, a function), and perhaps a gradient. With `--scans` it draws what a step computes, hands
on and stacks, the order of its rows, and a gradient or the loops that read the stacks. Rewritten programs must give the
same numbers on tame, negative and wild data (payloads of NaN may differ); where the report says hlo-exact, within 1e-5 of the scale, or as
near the results in double precision as the original, on tame and negative data.

A batch of programs shares one process for tracing and one for judging; one that dies is replaced.
Exit code 0 when everything passed, 1 otherwise, also when no program could be traced; the last line counts.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import random_batch  # noqa: E402
from as_large import as_large  # noqa: E402
import random_jobs  # noqa: E402
import random_run  # noqa: E402
import random_loop_judge  # noqa: E402
import xla  # noqa: E402
import random_loop_source  # noqa: E402
import random_scan_source  # noqa: E402

# A budget as small as can be reached.
SMALLEST = "--budget"
# Seconds for one program.
LIMIT = 660.0
# What the tool says where no form fits a budget.
MISSED = 4
WAYS = {
    "loops": {"default": [], "roll": ["--passes=roll"], "tie": ["--passes=tie"]},
    "scans": {"default": [], "residuals": ["--passes=loop-residuals"], "wide": ["--passes=loop-residuals", "--target=tpu"],
              "checkpoints": ["--passes=loop-checkpoints", SMALLEST], "smallest": [SMALLEST]},
}
DRAW = {"loops": random_loop_source.draw, "scans": random_scan_source.draw}


def file_of(folder, seed, way="before"):
    return os.path.join(folder, f"{seed}.{way}.hlo")


def lower(kind, seed, folder):
    """In a child: trace one program and write its HLO; fails where JAX refuses it."""
    jax = xla.start()
    import jax.numpy as jnp
    source, sizes = DRAW[kind](seed)
    shape = lambda *dims: jax.ShapeDtypeStruct(dims, sizes["type"])  # noqa: E731
    space = {"jax": jax, "jnp": jnp}
    exec(compile(source, "random-loop", "exec"), space)  # noqa: S102 - our own generator wrote it
    steps, rows, width = sizes["steps"], sizes["rows"], sizes["width"]
    arguments = (jax.ShapeDtypeStruct((max(steps, rows),), jnp.int32), shape(steps, rows, width), shape(width, width),
                 *[shape(rows, width)] * steps)
    traced = jax.jit(space["g"], keep_unused=True, donate_argnums=space["DONATED"]).lower(*arguments)
    random_jobs.write(file_of(folder, seed), random_jobs.in_full(traced.compiler_ir("hlo").as_hlo_module()))
    return {}


def rewrite(tool, kind, seed, folder):
    """Runs the tool in every way; file -> (grade is bitwise, passes, ways), equal results once."""
    found, texts = {}, {}
    for way, arguments in WAYS[kind].items():
        after, report = file_of(folder, seed, way), os.path.join(folder, f"{seed}.{way}.json")
        run = lambda *more: subprocess.run([tool, "--quiet", "--verify-each", *as_large(more), *more, file_of(folder, seed), "-o", after, "--report", report],  # noqa: E731,B023
                                           capture_output=True, text=True)
        plain = [argument for argument in arguments if argument != SMALLEST]
        done = run(*plain, *["--budget=1"] * (plain != arguments))
        if done.returncode == MISSED:
            with open(report, encoding="utf-8") as file:
                done = run(*plain, f"--budget={json.load(file)['after']['total_bytes']}")
        if done.returncode:
            raise AssertionError(f"{way}: exit code {done.returncode}: {done.stderr[-500:]}")
        with open(report, encoding="utf-8") as file:
            rewrites = json.load(file)["rewrites"]
        if not rewrites:
            continue
        with open(after, encoding="utf-8") as file:
            same = texts.setdefault(file.read(), after)
        bitwise = all(rewrite["grade"] == "bitwise" for rewrite in rewrites)
        before = found.get(same, (True, set(), []))
        found[same] = (before[0] and bitwise, before[1] | {rewrite["pass"] for rewrite in rewrites}, [*before[2], way])
    return found


def judge(seed, files, folder):
    """In a child: compare every rewritten form of one program with the original."""
    return {"wrong": random_loop_judge.judge(file_of(folder, seed), files, seed)}


def check(tool, kind, seeds, counts, fail):
    """One batch of programs; `fail(seed, text)` for each that is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        answers = random_batch.each(lower, [(kind, seed, folder) for seed in seeds], seconds=LIMIT)
        lowered = [seed for seed, answer in zip(seeds, answers) if "error" not in answer]
        counts["invalid"] += len(seeds) - len(lowered)
        counts["programs"] += len(lowered)
        found = {}
        for seed in lowered:
            try:
                found[seed] = rewrite(tool, kind, seed, folder)
            except AssertionError as error:
                fail(seed, str(error))
        work = [(seed, [(file, how[0]) for file, how in files.items()], folder) for seed, files in found.items() if files]
        counts["rewritten"] += len(work)
        for (seed, _, _), answer in zip(work, random_batch.each(judge, work, seconds=LIMIT)):
            if "error" in answer:
                fail(seed, answer["error"])
                continue
            for (bitwise, passes, ways), wrong in zip(found[seed].values(), answer["wrong"]):
                counts.update(passes)
                counts["compared"] += 1
                counts["bitwise"] += bitwise
                if wrong:
                    fail(seed, f"{ways}: {wrong}")


def main():
    parser = random_run.parser(__doc__, batch=25)
    parser.add_argument("--scans", action="store_const", const="scans", default="loops", dest="kind", help="scans instead of unrolled loops")
    options = parser.parse_args()
    batch = lambda seeds, counts, fail: check(options.tool, options.kind, seeds, counts, fail)  # noqa: E731
    failed, counts = random_run.run(options, batch, lambda seed: DRAW[options.kind](seed)[0])
    sys.exit(1 if failed or not counts["programs"] else 0)


if __name__ == "__main__":
    main()
