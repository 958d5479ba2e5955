"""Which elementwise functions XLA:CPU rounds by how many numbers a kernel has.

    functions.py [--types f32,f64,...] [--only REGEX] [--seed S]

Every function is computed of the same numbers at once and block by block in a loop, in several sizes; a line says how many results differ in a bit (NaN is NaN).
What differs here is what `is_sensitive` in passes/src/flow/exactness.rs has to name. Takes a minute and a half.
"""
import argparse
import re
import sys

sys.dont_write_bytecode = True

import numpy as np  # noqa: E402

import xla  # noqa: E402, F401 - makes the package importable
from hlo_opt.xla import compiler, jobs  # noqa: E402

FUNCTIONS = ("erf", "tan", "cbrt", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "sine", "cosine", "sqrt", "rsqrt",
             "power", "atan2", "multiply", "divide", "add")
BINARY = ("power", "atan2", "multiply", "divide", "add")
REAL = ("erf", "cbrt", "atan2")
TYPES = ("f32", "f64", "f16", "bf16", "c64")
# Dimensions and rows of a block: blocks of few numbers, of odd numbers, of one vector, of a cache and of one number.
SIZES = (((7, 100), 1), ((100, 7), 4), ((999,), 333), ((14, 5), 1), ((65536, 16), 4096), ((100000,), 1000))


def main():
    options = arguments()
    jax = compiler.start()
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(options.seed)
    for element in options.types.split(","):
        for function in FUNCTIONS:
            if re.search(options.only, function) and not (element == "c64" and function in REAL):
                counts = [differing(jax, rng, function, element, *size) for size in SIZES]
                print(f"{element:5} {function:22} {', '.join(filter(None, counts)) or 'equal'}", flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def differing(jax, rng, function, element, dims, rows):
    """How many results of how many differ; empty if none does."""
    operands = 2 if function in BINARY else 1
    texts = (at_once(function, element, dims, operands), by_blocks(function, element, dims, rows, operands))
    runners = [jobs.Runner(jax, text, function) for text in texts]
    data = [numbers(rng, shape) for shape in runners[0].shapes]
    left, right = (runner.results(data)[0] for runner in runners)
    bits = [np.ascontiguousarray(side).reshape(-1).view(np.uint8).reshape(left.size, -1) for side in (left, right)]
    # What a NaN looks like no operation of HLO promises.
    count = int(((bits[0] != bits[1]).any(axis=1) & ~(np.isnan(left) & np.isnan(right)).reshape(-1)).sum())
    return f"{count:,} of {left.size:,} ({array('', dims)} by {rows})" if count else ""


def numbers(rng, shape):
    """Positive and negative numbers of all sizes up to some tens; of positive ones alone logarithms and roots are no NaN."""
    dtype, dims = np.dtype(shape.numpy_dtype()), tuple(shape.dimensions())
    drawn = rng.normal(size=dims) * rng.choice([0.1, 1, 10], size=dims)
    drawn = np.where(rng.random(dims) < 0.75, np.abs(drawn), drawn)
    if np.issubdtype(dtype, np.complexfloating):
        drawn = drawn + 1j * rng.normal(size=dims)
    return drawn.astype(dtype)


def array(element, dims):
    return f"{element}[{','.join(map(str, dims))}]"


def applied(function, shape, names):
    return f"{shape} {function}({', '.join(names)})"


def at_once(function, element, dims, operands):
    shape = array(element, dims)
    names = [f"%x{k}" for k in range(operands)]
    lines = [f"  {name} = {shape} parameter({k})" for k, name in enumerate(names)]
    return "\n".join(["HloModule whole", "", "ENTRY %main {", *lines, f"  ROOT %r = {applied(function, shape, names)}", "}", ""])


def by_blocks(function, element, dims, rows, operands):
    shape, block = array(element, dims), array(element, (rows, *dims[1:]))
    names = [f"%x{k}" for k in range(operands)]
    state = f"(s32[], {shape}{''.join(', ' + shape for _ in names)})"
    carried = [f"  {name} = {shape} get-tuple-element(%s), index={k + 2}" for k, name in enumerate(names)]
    start = ", ".join(["%k"] + ["%none"] * (len(dims) - 1))
    sizes = f"dynamic_slice_sizes={{{','.join(map(str, (rows, *dims[1:])))}}}"
    blocks = [f"  {name}.block = {block} dynamic-slice({name}, {start}), {sizes}" for name in names]
    given = [f"  {name} = {shape} parameter({k})" for k, name in enumerate(names)]
    zero = "(0, 0)" if element.startswith("c") else "0"
    return "\n".join([
        "HloModule blocks", "",
        f"%body (s: {state}) -> {state} {{", f"  %s = {state} parameter(0)", "  %k = s32[] get-tuple-element(%s), index=0",
        f"  %out = {shape} get-tuple-element(%s), index=1", *carried, "  %none = s32[] constant(0)", *blocks,
        f"  %f = {applied(function, block, [name + '.block' for name in names])}",
        f"  %next = {shape} dynamic-update-slice(%out, %f, {start})", f"  %step = s32[] constant({rows})", "  %l = s32[] add(%k, %step)",
        f"  ROOT %t = {state} tuple(%l, %next, {', '.join(names)})", "}", "",
        f"%more (s: {state}) -> pred[] {{", f"  %s = {state} parameter(0)", "  %k = s32[] get-tuple-element(%s), index=0",
        f"  %n = s32[] constant({dims[0]})", "  ROOT %c = pred[] compare(%k, %n), direction=LT", "}", "",
        "ENTRY %main {", *given, "  %i = s32[] constant(0)", f"  %zero = {element}[] constant({zero})",
        f"  %zeros = {shape} broadcast(%zero), dimensions={{}}", f"  %s = {state} tuple(%i, %zeros, {', '.join(names)})",
        f"  %w = {state} while(%s), condition=%more, body=%body", f"  ROOT %r = {shape} get-tuple-element(%w), index=1", "}", ""])


if __name__ == "__main__":
    main()
