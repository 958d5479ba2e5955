"""Measures what prices a program for a machine, through XLA on whatever device JAX finds, and prints the description that `hlo-opt --machine FILE` reads.

    python -m hlo_opt.xla calibrate > machine.toml

Times are the best of several runs, of programs that XLA compiled. What is measured:

- `bytes_per_second`: an elementwise operation over an array far larger than caches, bytes read and written.
- `operations_per_second.TYPE`: a product of square matrices; a multiplication and an addition are two operations.
- `few_rows`: rows at which a product of a few rows and a large matrix takes twice what its operations would, beyond reading the matrix.
- `kernel_seconds`: one more kernel in a loop, what it computes aside: the line through two sizes, at size zero.
- `iteration_seconds`: an iteration of a loop beside its kernels.
- `cache_bytes`: the largest operand, of powers of two, that a loop reads again in two thirds of the time of a far larger one.

`--largest SIZE` limits the arrays, which otherwise take a quarter of the memory at most. With small ones the command takes seconds and measures caches: enough to
see that it works.

The file needs jax only, so that it can be run on a machine where nothing else of this project is.
"""
import functools
import math
import sys
import time

import jax
import jax.numpy as jnp

ROUNDS = 5
LOOPS = 256
SMALL = 1 << 15  # elements: work that hardly counts beside starting it
LARGE_BYTES = 1 << 28
ROWS = 32
SIDES = 1024, 8192  # of square matrices: the smallest that are tried, and the largest
CACHES = 20, 29  # powers of two of the smallest cache, and of an array that fits none


def seconds(function, *arguments):
    """The best time of a compiled function, which is run once before."""
    compiled = jax.jit(function).lower(*arguments).compile()
    jax.block_until_ready(compiled(*arguments))
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        best = min(best, time.perf_counter() - start)
    return best


def looped(body, count=LOOPS):
    """A function that runs `body` so often, which is compiled once."""
    return lambda value: jax.lax.fori_loop(0, count, lambda _, value: body(value), value)


def empty_call():
    """What calling any program takes."""
    return seconds(lambda x: x + 1, jnp.zeros(()))


def bandwidth(largest):
    """Bytes a second of an elementwise loop in place, over an array that takes some milliseconds."""
    size = min(LARGE_BYTES, largest)
    while True:
        array = jnp.ones(size // 4)
        nine, one = (seconds(looped(lambda x: x * 0.5 + 1, count), array) for count in (9, 1))
        spent = max((nine - one) / 8, 1e-9)
        if spent > 2e-3 or 2 * size > largest:
            return 2 * size / spent
        size *= 2


def product(kind, size, rows, call):
    left, right = jnp.ones((rows, size), kind), jnp.ones((size, size), kind)
    return max(seconds(jnp.matmul, left, right) - call, 1e-9)


def size_of_products(call, largest):
    """Matrices whose product takes long enough to be measured."""
    smallest, most = (min(side, math.isqrt(largest // 4)) for side in SIDES)
    size = smallest
    while 2 * size <= most and product(jnp.float32, size, size, call) < 5e-3:
        size *= 2
    return size


def operations(kind, size, call):
    return 2 * size**3 / product(kind, size, size, call)


def few_rows(size, speed, rate, call):
    ideal = 2 * ROWS * size**2 / rate
    reading = 4 * size**2 / speed
    spent = max(product(jnp.float32, size, ROWS, call) - reading, ideal)
    return ROWS * (spent / ideal - 1)


def kernel_and_iteration(call, device):
    """Seconds of a kernel and of an iteration: loops whose body is one kernel, and those of which it is nine."""
    def step(x):
        # XLA:CPU looks through barriers; there a sum is a kernel of its own.
        return x * 0.5 + x.sum() if device.platform == "cpu" else jax.lax.optimization_barrier(x * 0.5 + 1)

    def body(count):
        return lambda x: functools.reduce(lambda x, _: step(x), range(count), x)

    def at_zero(count):
        small, double = (seconds(looped(body(count)), jnp.ones(size)) - call for size in (SMALL, 2 * SMALL))
        return max(2 * small - double, small / 2) / LOOPS
    one, nine = at_zero(1), at_zero(9)
    kernel = max((nine - one) / 8, 1e-9)
    return kernel, max(one - kernel, 1e-9)


def cache(largest):
    """Bytes that stay: the largest operand that a loop reads again in two thirds of the time that the largest of all takes for each byte."""
    def rate(power):
        array = jnp.ones((1 << power) // 4)
        def often(count):
            return seconds(lambda x: jax.lax.fori_loop(0, count, lambda i, s: s + (x * (s + i)).sum(), 0.0), array)
        return (1 << power) / max((often(72) - often(8)) / 64, 1e-9)
    least, most = (min(power, largest.bit_length() - 1) for power in CACHES)
    slowest = rate(most)
    return 1 << max((power for power in range(least, most) if rate(power) > 1.5 * slowest), default=least)


def memory(device):
    stats = getattr(device, "memory_stats", lambda: None)() or {}
    if "bytes_limit" in stats:
        return stats["bytes_limit"]
    with open("/proc/meminfo", encoding="ascii") as lines:
        return int(lines.readline().split()[1]) * 1024


def describe(largest=None):
    """The lines of the description, measured with arrays of so many bytes at most."""
    device = jax.devices()[0]
    largest = largest or memory(device) // 4
    call = empty_call()
    speed = bandwidth(largest)
    size = size_of_products(call, largest)
    kinds = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}
    rates = {name: operations(kind, size, call) for name, kind in kinds.items()}
    kernel, iteration = kernel_and_iteration(call, device)
    yield f'name = "{device.device_kind}"'
    yield f'target = "{dict(cpu="cpu", gpu="gpu", cuda="gpu", tpu="tpu").get(device.platform, device.platform)}"'
    yield f"memory_bytes = {memory(device)}"
    yield f"bytes_per_second = {speed:.3g}"
    yield f"cache_bytes = {cache(largest)}"
    yield f"kernel_seconds = {kernel:.3g}"
    yield f"iteration_seconds = {iteration:.3g}"
    yield f"few_rows = {few_rows(size, speed, rates['f32'], call):.0f}"
    yield ""
    yield "[operations_per_second]"
    yield from (f"{name} = {rate:.3g}" for name, rate in rates.items())


def main(largest=None):
    for line in describe(largest):
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
