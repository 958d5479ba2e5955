"""Stress roll and tie with random Python loops that JAX unrolls, XLA:CPU as the judge.

    random_loops.py --tool hlo-opt [--count K] [--seed S] [--minutes M]

Each program draws the work of a step, what the step reads (slices, gathers, arrays of its own, constants), how the steps
meet (sum, maximum, integer xor, stack, tuple, a state handed on), its order (forwards, backwards, two levels), a first or
last step that differs, and perhaps a gradient. Rewritten programs must give the same bits on tame, negative and wild
data; where the report says hlo-exact, 1e-5 of the scale. NaN payloads may differ, numbers may not.

Exit code 0 when everything passed, 1 otherwise; the last line counts.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import child  # noqa: E402
import random_jobs  # noqa: E402
import xla  # noqa: E402

CASES = 3
WAYS = {"default": [], "roll": ["--passes=roll"], "tie": ["--passes=tie"]}

WORK = {
    "product": "jnp.tanh(v @ w) @ w.T",
    "twice": "jnp.tanh(jnp.tanh(v @ w) @ w.T @ w) @ w.T",
    "sorted": "jnp.sort(jnp.sin(v), axis=0) * {c}",
    "kernel": "jnp.sort(jnp.sin(v[:, None, 0] - v[None, :, 0]), axis=0) @ v",
    "scaled": "jnp.exp(-v * v) * {c} + jnp.cumsum(v, axis=0)",
    "mean": "(v - v.mean(0)) @ (w @ w.T)",
    "scattered": "jnp.zeros_like(v).at[jnp.abs(i[:{rows}]) % {rows}].add(v * {c})",
}
READS = {
    "slice": "xs[{k}]",
    "backwards": "xs[{steps} - 1 - {k}]",
    "pick": "xs[i[{k}]]",
    "block": "xs.reshape(-1, {width})[{k}:{k} + {rows}]",
    "levels": "xs[{k} // 3] * xs[{k} % 3]",
    "own": "many[{k}]",
}
MEETS = ("sum", "from_zero", "maximum", "xor", "stack", "reversed_stack", "concatenate", "tuple", "state", "scalar", "two")


def draw(rng):
    """Source of one program: `build` returns the function and the shapes of its arguments."""
    sizes = {"steps": rng.randint(3, 9), "rows": rng.choice([4, 6, 9]), "width": rng.choice([4, 5, 8])}
    sizes["c"] = rng.choice(["2.5", "float(k)", "float(k + 1)", "(0.5 if k % 2 else 1.5)"])
    meet, gradient = rng.choice(MEETS), rng.random() < 0.2
    work, read = rng.choice(sorted(WORK)), rng.choice(sorted(READS))
    odd = rng.choice(["", "", "", "first", "last"])
    lines = [f"def step(k, i, xs, w, many):",
             f"    v = {READS[read].format(k='k', **sizes)}",
             f"    return {WORK[work].format(**sizes)}",
             f"def f(i, xs, w, *many):",
             f"    parts = [step(k, i, xs, w, many) for k in range({sizes['steps']})]"]
    if odd:
        at = 0 if odd == "first" else -1
        lines.append(f"    parts[{at}] = jnp.cos(parts[{at}])")
    lines += meeting(meet, sizes)
    lines.append("g = jax.grad(lambda xs, i, w, *many: sum(jnp.sum(a.astype(jnp.float32)) for a in jax.tree.leaves(f(i, xs, w, *many))))"
                 if gradient and meet != "xor" else "g = lambda xs, i, w, *many: f(i, xs, w, *many)")
    return "\n".join(lines), sizes


def meeting(meet, sizes):
    """Lines that join the parts."""
    fold = "    total = {start}\n    for part in {parts}:\n        total = {join}\n    return total"
    forms = {
        "sum": fold.format(start="parts[0]", parts="parts[1:]", join="total + part"),
        "from_zero": fold.format(start="jnp.zeros_like(parts[0])", parts="parts", join="part + total"),
        "maximum": fold.format(start="parts[0]", parts="parts[1:]", join="jnp.maximum(total, part)"),
        "xor": fold.format(start="0", parts="parts", join="total ^ jax.lax.bitcast_convert_type(part, jnp.int32)"),
        "stack": "    return jnp.stack(parts)",
        "reversed_stack": "    return jnp.stack(parts[::-1], axis=1)",
        "concatenate": "    return jnp.concatenate([xs[0], *parts], axis=0)",
        "tuple": "    return tuple(parts)",
        "state": fold.format(start="xs[0]", parts="parts", join="jnp.tanh(total @ (w @ w.T)) + part"),
        "scalar": fold.format(start="0.0", parts="parts", join="total + jnp.sum(part ** 2)"),
        "two": "    a, b = 0.0, jnp.zeros_like(parts[0])\n    for part in parts:\n        a, b = a + jnp.max(part), b + part\n"
               "    return a, b",
    }
    return forms[meet].split("\n")


def lower(source, sizes, file):
    """In a child: trace the program and write its HLO."""
    with tempfile.TemporaryDirectory() as folder:
        jax = xla.start(folder)
        import jax.numpy as jnp
        space = {"jax": jax, "jnp": jnp}
        exec(compile(source, "random-loop", "exec"), space)  # noqa: S102 - our own generator wrote it
        shape = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)  # noqa: E731
        steps, rows, width = sizes["steps"], sizes["rows"], sizes["width"]
        many = [shape(rows, width)] * steps
        jax.jit(space["g"], keep_unused=True).lower(
            shape(steps, rows, width), jax.ShapeDtypeStruct((max(steps, rows),), jnp.int32),
            shape(width, width), *many).compile()
        random_jobs.write(file, xla.dumped(folder, "before_optimizations.txt"))
        return {}


def rewrite(tool, before, folder):
    """Runs the tool in every way; files and grades of the results that differ from the input."""
    found = {}
    for way, arguments in WAYS.items():
        after, report = os.path.join(folder, f"{way}.hlo"), os.path.join(folder, f"{way}.json")
        done = subprocess.run([tool, "--quiet", "--verify-each", "--min-saving=1", *arguments, before, "-o", after, "--report", report],
                              capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"{way}: exit code {done.returncode}: {done.stderr[-500:]}")
        with open(report, encoding="utf-8") as file:
            rewrites = json.load(file)["rewrites"]
        if rewrites:
            grades = {rewrite["grade"] for rewrite in rewrites}
            found[way] = (after, grades == {"bitwise"}, {rewrite["pass"] for rewrite in rewrites})
    return found


def check(tool, seed, counts):
    """One program; raises AssertionError when something is wrong."""
    source, sizes = draw(random.Random(seed))
    with tempfile.TemporaryDirectory() as folder:
        before = os.path.join(folder, "before.hlo")
        lowered = child.run(lower, (source, sizes, before), time_limit=120.0)
        if "error" in lowered:
            counts["invalid"] += 1
            return
        found = rewrite(tool, before, folder)
        counts["programs"] += 1
        if not found:
            return
        answer = child.run(random_jobs.judge, (before, [after for after, _, _ in found.values()], CASES, seed), time_limit=300.0)
        if "error" in answer:
            raise AssertionError(answer["error"])
        for (way, (_, bitwise, passes)), result in zip(found.items(), answer["answers"]):
            for name in passes:
                counts[name] = counts.get(name, 0) + 1
            counts["compared"] += 1
            equal = result["numbers_equal"] if bitwise else result["max_rel_error"] <= 1e-5
            if not equal:
                raise AssertionError(f"{way}: {result}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0, help="stop after that time; 0: never")
    options = parser.parse_args()
    xla.import_quietly()
    counts, failed, start = {"programs": 0, "invalid": 0, "compared": 0}, 0, time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        if options.minutes and time.monotonic() - start > 60 * options.minutes:
            break
        try:
            check(options.tool, seed, counts)
        except AssertionError as error:
            failed += 1
            print(f"seed {seed}: {error}\n{draw(random.Random(seed))[0]}\n", flush=True)
    print(f"{failed} failed; {counts}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
