"""Stress the optimizer with random programs of 16 bits, double precision as the judge.

    random_halves.py --tool hlo-opt [--count K] [--seed S] [--minutes M] [--batch B]

Each program draws attention, a normalisation, a loss or a perceptron of `bf16` or `f16` (types of softmaxes and sums, masks, gradients). It is rewritten in
blocks of the default size and of another. On data of the scales 0.1, 0.3 and 1 the error of a rewritten form against double precision may be twice the original's, or one unit in
the last place of the result (of 16 bits where the result has few numbers; 1e-5 where it has 32 bits); with NaN and infinities among the data every NaN and infinity must come out where it
came out before. (A NaN more is counted as `kept-nan`: the library of XLA:CPU drops some that its own loops keep.)

Exit code 0 when everything passed, 1 otherwise, also when no program was rewritten; the last line counts.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import random_batch  # noqa: E402
from as_large import as_large  # noqa: E402
import random_half_source  # noqa: E402
import random_jobs  # noqa: E402
import random_run  # noqa: E402
import xla  # noqa: E402
from hlo_opt.xla import accuracy  # noqa: E402

# Seconds for one program.
LIMIT = 660.0
WAYS = {"default": [], "small": ["--chunk-bytes=64KiB"], "large": ["--chunk-bytes=512KiB"], "budget": ["--exactness=reassociate", "--chunk-bytes=256KiB"]}
# Only the grades up to hlo-exact promise anything against the original; sums that are split only have to keep what is no number.
PROMISED = ("bitwise", "hlo-exact")


def file_of(folder, seed, way="before"):
    return os.path.join(folder, f"{seed}.{way}.hlo")


def lower(seed, folder):
    """In a child: trace one program and write its HLO."""
    jax = xla.start()
    import jax.numpy as jnp
    source, arguments = random_half_source.draw(seed)
    space = {"jax": jax, "jnp": jnp}
    exec(compile(source, "random-half", "exec"), space)  # noqa: S102 - our own generator wrote it
    shapes = [jax.ShapeDtypeStruct(dims, jnp.dtype(dtype)) for dtype, dims in arguments]
    traced = jax.jit(space["g"], keep_unused=True).lower(*shapes)
    random_jobs.write(file_of(folder, seed), random_jobs.in_full(traced.compiler_ir("hlo").as_hlo_module()))
    return {}


def rewrite(tool, seed, folder):
    """Runs the tool by default and in one other way; file -> (promised, ways), equal results once."""
    found, texts = {}, {}
    other = random.Random(f"way {seed}").choice(list(WAYS)[1:])
    for way in ("default", other):
        arguments = WAYS[way]
        after, report = file_of(folder, seed, way), os.path.join(folder, f"{seed}.{way}.json")
        done = subprocess.run([tool, "--quiet", "--verify-each", *as_large(arguments), *arguments, file_of(folder, seed), "-o", after, "--report", report],
                              capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"{way}: exit code {done.returncode}: {done.stderr[-500:]}")
        with open(report, encoding="utf-8") as file:
            rewrites = json.load(file)["rewrites"]
        if not rewrites:
            continue
        with open(after, encoding="utf-8") as file:
            same = texts.setdefault(file.read(), after)
        promised = all(rewrite["grade"] in PROMISED for rewrite in rewrites)
        before = found.get(same, (True, []))
        found[same] = (before[0] and promised, [*before[1], way])
    return found


def judge(seed, file, folder):
    """In a child: one rewritten form against double precision."""
    return accuracy.accuracy(file_of(folder, seed), file, seed)


def wrong(found, promised):
    """What is wrong with one rewritten form, if anything is."""
    if "error" in found:
        return found["error"]
    worse = [row for row in found["rows"] if promised and not row["holds"]]
    if worse:
        return "; ".join(f"scale {row['scale']}: {row['type']}[{row['elements']}] off by {row['new']:.3g}, before {row['own']:.3g}" for row in worse)
    return f"{found['lost']} NaN or infinities lost" if found["lost"] else ""


def check(tool, seeds, counts, fail):
    """One batch of programs; `fail(seed, text)` for each that is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        answers = random_batch.each(lower, [(seed, folder) for seed in seeds], seconds=LIMIT)
        lowered = [seed for seed, answer in zip(seeds, answers) if "error" not in answer]
        counts["invalid"] += len(seeds) - len(lowered)
        counts["programs"] += len(lowered)
        work = []
        for seed in lowered:
            try:
                forms = rewrite(tool, seed, folder)
            except AssertionError as error:
                fail(seed, str(error))
                continue
            counts["rewritten"] += bool(forms)
            work += [(seed, file, how) for file, how in forms.items()]
        found = random_batch.each(judge, [(seed, file, folder) for seed, file, _ in work], seconds=LIMIT)
        for (seed, _, (promised, ways)), answer in zip(work, found):
            counts["compared"] += 1
            counts["kept-nan"] += answer.get("gained", 0) > 0
            text = wrong(answer, promised)
            if text:
                fail(seed, f"{ways}: {text}")


def main():
    parser = random_run.parser(__doc__, batch=10)
    options = parser.parse_args()
    batch = lambda seeds, counts, fail: check(options.tool, seeds, counts, fail)  # noqa: E731
    failed, counts = random_run.run(options, batch, lambda seed: random_half_source.draw(seed)[0])
    sys.exit(1 if failed or not counts["rewritten"] else 0)


if __name__ == "__main__":
    main()
