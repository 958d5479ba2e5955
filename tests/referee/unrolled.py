"""A Python loop of a thousand steps: how long hlo-opt takes to roll it, and how long XLA takes to compile both forms, in one run.

    unrolled.py --tool FILE [--steps N] [--most-seconds S] [--least-ratio R]

Processor seconds, since other work on the machine does not count there; seconds by the clock beside them. The tool's figure is that of a whole
run: read, find, roll, verify, write. Exit code 1: the loop is not found, or a figure is outside its bound.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import child  # noqa: E402
import jobs  # noqa: E402
import xla  # noqa: E402


def program(steps):
    """About 30 instructions a step."""
    import jax
    import jax.numpy as jnp

    def step(v, w, k):
        h = jnp.tanh(v @ w)
        h = h - h.mean(-1, keepdims=True)
        return jnp.sum(jnp.where(h > 0, h, jnp.exp(h * 0.5) - 1.0) * (k + 0.5))

    def total(xs, w):
        accum = 0.0
        for k in range(steps):
            accum += step(xs[k], w, k)
        return accum

    return total, (jax.ShapeDtypeStruct((steps, 64, 128), jnp.float32), jax.ShapeDtypeStruct((128, 128), jnp.float32))


def lower(steps, file):
    jax = xla.start()
    function, arguments = program(steps)
    options = xla.hlo().HloPrintOptions()
    options.print_large_constants = True
    text = jax.jit(function).lower(*arguments).compiler_ir("hlo").as_hlo_module().to_string(options)
    pathlib.Path(file).write_text(text, encoding="utf-8")
    return {"instructions": sum(" = " in line for line in text.splitlines())}


def compile_times(file):
    """In a child: seconds that XLA:CPU needs for the module, of the processor and by the clock, and its temporaries."""
    jax = xla.start()
    text = jobs.read(file)
    xla.compile_text(jax, "HloModule warm\nENTRY %e (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}\n")
    busy, wall = time.process_time(), time.perf_counter()
    executable = xla.compile_text(jax, text)[0]
    times = time.process_time() - busy, time.perf_counter() - wall
    return {"busy": times[0], "wall": times[1], "temp_bytes": executable.get_compiled_memory_stats().temp_size_in_bytes}


def rolled(tool, before, after, report):
    """Processor and clock seconds of one run of the tool; its report."""
    used, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # Rolling gains little memory here: what counts is the size of the program.
    subprocess.run([tool, "--quiet", "--passes=roll", "--min-saving=1", before, "-o", after, "--report", report], check=True)
    wall = time.perf_counter() - wall
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(report, encoding="utf-8") as file:
        return now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, wall, json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", required=True)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--most-seconds", type=float, default=2.0)
    parser.add_argument("--least-ratio", type=float, default=20.0)
    options = parser.parse_args()
    xla.import_quietly()
    with tempfile.TemporaryDirectory() as folder:
        before, after = os.path.join(folder, "before.hlo"), os.path.join(folder, "after.hlo")
        size = child.run(lower, (options.steps, before), time_limit=600.0)
        busy, wall, report = rolled(options.tool, before, after, os.path.join(folder, "report.json"))
        with open(after, encoding="utf-8") as file:
            left = sum(" = " in line for line in file)
        sides = [child.run(compile_times, (file,), time_limit=3000.0) for file in (before, after)]
        same = child.run(jobs.same, (before, after, 2), time_limit=3000.0)
    for answer in (size, *sides, same):
        if "error" in answer:
            sys.exit(answer["error"])
    notes = [rewrite["note"] for rewrite in report["rewrites"]]
    ratio = sides[0]["busy"] / sides[1]["busy"]
    print(f"{size['instructions']} instructions -> {left}; hlo-opt {busy:.2f} s of the processor ({wall:.2f} s by the clock): {notes}")
    print(f"XLA compiles in {sides[0]['busy']:.2f} s -> {sides[1]['busy']:.2f} s of the processor ({sides[0]['wall']:.2f} -> "
          f"{sides[1]['wall']:.2f} s by the clock): {ratio:.1f} times as fast; temporaries {sides[0]['temp_bytes']} -> {sides[1]['temp_bytes']}")
    print(f"results: bitwise {same['bitwise']}, largest relative error {same['max_rel_error']:.1e}; grades "
          f"{[rewrite['grade'] for rewrite in report['rewrites']]}")
    equal = same["bitwise"] or same["tolerated"]
    sys.exit(not (notes and equal and busy < options.most_seconds and ratio >= options.least_ratio))


if __name__ == "__main__":
    main()
