"""Times on CPU that `passes/src/run_time/scalar.rs` and `pages.rs` count: functions that no vector unit runs, and memory that a run asks the system for.

    python tests/referee/scalar_times.py

Prints nanoseconds for a number (of a sort for a comparison) of arrays of 4.2 million, the best of seven runs, and milliseconds of an array that is made anew and in
the memory of an argument. Needs jax alone; a quiet machine.
"""
import math
import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
sys.dont_write_bytecode = True

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

COUNT = 1 << 22
MIB = 1 << 20


def best(function, *arguments, donated=False):
    """Seconds of a run, the best of seven."""
    compiled = jax.jit(function, donate_argnums=0 if donated else ())
    result = compiled(*arguments)
    seconds = []
    for _ in range(7):
        jax.block_until_ready(result)
        arguments = (result, *arguments[1:]) if donated else arguments
        if not donated:
            del result
        start = time.perf_counter()
        result = jax.block_until_ready(compiled(*arguments))
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def functions():
    """Name, function, arguments and the numbers that are computed."""
    drawn = np.random.RandomState(0)
    x = jnp.asarray(drawn.uniform(0.1, 3, COUNT).astype(np.float32))
    square, small, large = x.reshape(4096, -1), jnp.ones(1 << 18), jnp.ones(COUNT)
    near, far = (jnp.asarray(drawn.randint(0, size, COUNT)) for size in (1 << 18, COUNT))
    cube, places = jnp.ones((64, 64, 64)), jnp.asarray(drawn.randint(0, 64, (COUNT, 3)))
    yield from (("add", lambda x: x + 1, (x,), COUNT), ("exp", jnp.exp, (x,), COUNT), ("tanh", jnp.tanh, (x,), COUNT))
    yield from (("sin", jnp.sin, (x,), COUNT), ("cos", jnp.cos, (x,), COUNT), ("tan", jnp.tan, (x,), COUNT), ("cbrt", jnp.cbrt, (x,), COUNT))
    yield from (("atan2", lambda x: jnp.arctan2(x, x), (x,), COUNT), ("power", lambda x: x ** 1.3, (x,), COUNT), ("remainder", lambda x: x % 0.7, (x,), COUNT))
    yield from (("lookup in 1 MiB", lambda t, i: t[i], (small, near), COUNT), ("lookup in 16 MiB", lambda t, i: t[i], (large, far), COUNT))
    line = jnp.asarray(drawn.uniform(0, 1, (COUNT, 3)).astype(np.float32))
    # Multiplied, added, multiplied, held in bounds by two operations, converted, and wrapped by three: nine for each of three columns.
    yield "lookup by three computed", lambda t, x: t[tuple(jnp.clip((x + 0.5 * x) * 64, 0, 63).astype(jnp.int32).T)], (cube, line), COUNT
    yield "lookup by three columns", lambda t, i: t[i[:, 0], i[:, 1], i[:, 2]], (cube, places), COUNT
    yield "scatter into 1 MiB", lambda t, i, x: t.at[i].add(x), (small, near, x), COUNT
    yield "scatter by three columns", lambda t, i, x: t.at[i[:, 0], i[:, 1], i[:, 2]].add(x), (cube, places, x), COUNT
    yield "comparison of a sort", jnp.sort, (x,), COUNT * math.log2(COUNT)
    yield "comparison of a sort of rows", lambda x: jnp.sort(x, 1), (square,), COUNT * math.log2(1024)
    yield from (("running sum of rows", lambda x: jnp.cumsum(x, 1), (square,), COUNT), ("running sum", jnp.cumsum, (x,), COUNT))
    yield "window of three by three", lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3, 3), (1, 1), "SAME"), (square,), COUNT
    yield from (("argmax of rows", lambda x: jnp.argmax(x, 1), (square,), COUNT), ("argmax of columns", lambda x: jnp.argmax(x, 0), (square,), COUNT))
    yield "random word", lambda x: jax.random.bits(jax.random.key(0), (COUNT,)), (x,), COUNT


def main():
    for name, function, arguments, numbers in functions():
        print(f"{name:28} {best(function, *arguments) / numbers * 1e9:6.2f} ns", flush=True)
    for mib in (16, 64, 1024):
        count = mib * MIB // 4
        anew = best(lambda x: jnp.full((count,), 1.0, jnp.float32) * x, 2.0)
        again = best(lambda array, x: array * 0 + x, jnp.zeros(count), 2.0, donated=True)
        print(f"{mib:5} MiB {anew * 1e3:8.2f} ms anew {again * 1e3:8.2f} ms in the memory of an argument", flush=True)


if __name__ == "__main__":
    main()
