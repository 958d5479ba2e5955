"""Python loops that JAX unrolls and weights that wait in a queue: each at full size, where XLA only compiles, and reduced, to be run.

A program is `name -> Program`; its `build` takes the sizes and returns the function and the shapes of its arguments. `temp` and `peak` are
the most MiB that XLA:CPU may need after the rewrite, None where nothing is promised; `other` limits temporaries on other targets.
"""
import dataclasses
import pathlib
import sys
import typing

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "corpus"))

from programs.roll import microbatches, sum_of_products  # noqa: E402
from programs.tie import gathered_weights  # noqa: E402


@dataclasses.dataclass
class Program:
    """A loop; `big` and `small` are the sizes given to `build`."""

    build: typing.Callable
    big: dict
    small: dict
    devices: int = 1
    temp: float | None = None
    peak: float | None = None
    other: dict = dataclasses.field(default_factory=dict)
    # What floats of the reduced program are multiplied with: networks magnify rounding until `tanh` is saturated everywhere.
    scale: float = 1.0


def shape(*dims, dtype="float32"):
    return jax.ShapeDtypeStruct(dims, jnp.dtype(dtype))


def expensive(v, w):
    h = jnp.tanh(v @ w)
    h = jnp.tanh(h @ w.T)
    return jnp.sum(h ** 2)


def seed_loop(inds, inputs, w):
    accum = 0.0
    for i in range(inds.shape[0]):
        accum += expensive(inputs[inds[i]], w)
    return accum


def seed_arguments(copies, table, rows, inner):
    return (4, copies), (table, rows, rows), (rows, inner)


def seed_mapped(**sizes):
    """The second founding program as `shard_map`: indices split, inputs and weights on every device."""
    mesh = Mesh(jax.devices()[:4], ("d",))
    split, whole = PartitionSpec("d"), PartitionSpec()

    def body(i, x, w):
        return seed_loop(i[0], x, w)[None]

    def placed(dims, dtype, spec):
        return jax.ShapeDtypeStruct(dims, dtype, sharding=NamedSharding(mesh, spec))

    i, x, w = seed_arguments(**sizes)
    mapped = jax.shard_map(body, mesh=mesh, in_specs=(split, whole, whole), out_specs=split, check_vma=False)
    return jax.jit(mapped), (placed(i, jnp.int32, split), placed(x, jnp.float32, whole), placed(w, jnp.float32, whole))


def seed_pmap(**sizes):
    """The same as the issue has it: `pmap` with `in_axes=(0, None, None)`."""
    i, x, w = seed_arguments(**sizes)
    return jax.pmap(seed_loop, in_axes=(0, None, None)), (shape(*i, dtype="int32"), shape(*x), shape(*w))


def seed_single(**sizes):
    """What one device runs."""
    i, x, w = seed_arguments(**sizes)
    return seed_loop, (shape(i[1], dtype="int32"), shape(*x), shape(*w))


def rows_pmap(steps, table, width):
    """Cheap steps: squares of picked rows."""

    def total(inds, inputs):
        accum = 0.0
        for i in range(inds.shape[0]):
            accum += jnp.sum(inputs[inds[i]] ** 2)
        return accum

    return jax.pmap(total, in_axes=(0, None), out_axes=0), (shape(4, steps, dtype="int32"), shape(table, width))


def histograms(columns, bins, rows):
    """Every pair of columns has a histogram: openxla/xla#35719."""

    def counts(*data):
        found = []
        for i in range(columns):
            for j in range(columns):
                found.append(jnp.bincount(data[i].astype(jnp.int32) * bins + data[j], length=bins * bins))
        return tuple(found)

    return counts, tuple(shape(rows, dtype="uint8") for _ in range(columns))


def checkpointed(layers, rows, width):
    def block(x, ws):
        for w in ws:
            x = jnp.tanh(x @ w)
        return x

    def loss(x, *ws):
        for k in range(0, layers, 4):
            x = jax.checkpoint(block)(x, ws[k:k + 4])
        return jnp.sum(x)

    return jax.grad(loss, tuple(range(1, layers + 1))), (shape(rows, width), *[shape(width, width)] * layers)


def narrow_weights(layers, width, dtype):
    def net(x, *ws):
        for w in ws:
            x = jnp.tanh(x @ (w.astype(jnp.float32) * 0.01 if dtype == "int8" else w))
        return x

    first = "float32" if dtype == "int8" else dtype
    return net, (shape(8, width, dtype=first), *[shape(width, width, dtype=dtype)] * layers)


def layers_gradient(layers, rows, width):
    """Every step reads the one before and leaves residuals: a loop would stack them."""

    def loss(ws, x):
        for k in range(layers):
            x = jnp.tanh(x @ ws[k])
        return jnp.sum(x)

    return jax.grad(loss), (shape(layers, width, width), shape(rows, width))


def kernels(copies, width, table):
    def work(v):
        k = jnp.exp(-jnp.abs(v[:, None] - v[None, :]))
        return jnp.sum(k @ k)

    def total(inds, inputs):
        accum = 0.0
        for k in range(copies):
            accum += work(inputs[inds[k]])
        return accum

    return total, (shape(copies, dtype="int32"), shape(table, width))


def stacked(copies, width, table):
    def each(inds, inputs):
        rows = []
        for k in range(copies):
            v = inputs[inds[k]]
            m = jnp.exp(-jnp.abs(v[:, None] - v[None, :]))
            rows.append((m @ m).sum(1))
        return jnp.stack(rows)

    return each, (shape(copies, dtype="int32"), shape(table, width))


def loop_gradient(copies, rows, width):
    def total(w, xs):
        accum = 0.0
        for k in range(copies):
            h = jnp.tanh(jnp.tanh(xs[k] @ w) @ w)
            accum += jnp.sum(h ** 2)
        return accum

    return jax.grad(total), (shape(width, width), shape(copies, rows, width))


SEED = {"copies": 16, "table": 64, "rows": 1024, "inner": 4096}
SEED_SMALL = {"copies": 16, "table": 24, "rows": 256, "inner": 1024}
PROGRAMS = {
    "seed2": Program(seed_mapped, SEED, SEED_SMALL, devices=4, temp=4.5),
    "seed2-pmap": Program(seed_pmap, SEED, SEED_SMALL, devices=4, temp=4.5),
    "seed2-one-device": Program(seed_single, SEED, SEED_SMALL, temp=4.5, other={"gpu": 28.0, "tpu": 0.6}),
    "o_seed2_pmap": Program(rows_pmap, {"steps": 8, "table": 32, "width": 1 << 24},
                            {"steps": 8, "table": 32, "width": 1 << 18}, devices=4, temp=64 * 1.05),
    "o_unrolled_sum_hht": Program(sum_of_products, {"copies": 8, "rows": 1 << 13}, {"copies": 8, "rows": 768}, temp=512 * 1.05),
    "o_unrolled_microbatch": Program(microbatches, {"copies": 8, "rows": 1 << 16, "width": 1024},
                                     {"copies": 8, "rows": 4096, "width": 256}, temp=1028 * 1.05),
    "o_unrolled_expensive": Program(kernels, {"copies": 8, "width": 1 << 14, "table": 64},
                                    {"copies": 8, "width": 256, "table": 64}, temp=2048 * 1.05),
    "o_unrolled_outputs": Program(stacked, {"copies": 8, "width": 1 << 13, "table": 64},
                                  {"copies": 8, "width": 256, "table": 64}, temp=512 * 1.05),
    "o_unrolled_grad": Program(loop_gradient, {"copies": 8, "rows": 1 << 15, "width": 1024},
                               {"copies": 8, "rows": 4096, "width": 256}),
    "r02": Program(histograms, {"columns": 10, "bins": 40, "rows": 100_000_000}, {"columns": 10, "bins": 40, "rows": 400_000}, peak=1.70 * 1024),
    "r07": Program(checkpointed, {"layers": 16, "rows": 65536, "width": 1024}, {"layers": 16, "rows": 4096, "width": 256}, peak=2.45 * 1024),
    "r16-bf16": Program(narrow_weights, {"layers": 32, "width": 4096, "dtype": "bfloat16"},
                        {"layers": 16, "width": 1024, "dtype": "bfloat16"}, peak=1.10 * 1024),
    "r16-int8": Program(narrow_weights, {"layers": 32, "width": 4096, "dtype": "int8"},
                        {"layers": 16, "width": 1024, "dtype": "int8"}, peak=0.58 * 1024),
    "r22": Program(gathered_weights, {"layers": 16, "width": 4096, "rows": 8192}, {"layers": 8, "width": 512, "rows": 1024},
                   devices=8, peak=0.25 * 1024, scale=2.0**-8),
    "o_unrolled_layers": Program(layers_gradient, {"layers": 8, "rows": 1 << 15, "width": 1024},
                                 {"layers": 8, "rows": 1024, "width": 96}),
}
