"""Values that every device computes alike and of which it uses its own part: own-slice should compute that part only (fires-*)."""
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from programs.catalog import program

DEVICES = 4


def on_devices(body, *arrays):
    """`body` on four devices that all get the whole arrays, and the arrays' shapes."""
    mesh = Mesh(jax.devices()[:DEVICES], ("d",))
    whole = PartitionSpec()
    mapped = jax.shard_map(body, mesh=mesh, in_specs=tuple(whole for _ in arrays), out_specs=PartitionSpec("d"), check_vma=False)
    sharding = NamedSharding(mesh, whole)
    return mapped, tuple(jax.ShapeDtypeStruct(dims, jnp.dtype(dtype), sharding=sharding) for dims, dtype in arrays)


@program("own-slice", "fires-sorted-rows", devices=DEVICES, rows=1 << 13, width=1 << 11)
@program("own-slice-small", "fires-sorted-rows", devices=DEVICES, rows=24, width=10)
def sorted_rows(rows, width):
    own = rows // DEVICES

    def body(x, w):
        ordered = jax.lax.sort(jnp.sin(x[:, None] * w[None, :]), dimension=1)
        return jax.lax.dynamic_slice_in_dim(ordered, jax.lax.axis_index("d") * own, own) * 2.0

    return on_devices(body, ((rows,), "float32"), ((width,), "float32"))


@program("own-slice", "fires-projected", devices=DEVICES, rows=1 << 13, width=1 << 11, inner=256)
@program("own-slice-small", "fires-projected", devices=DEVICES, rows=24, width=10, inner=6)
def projected(rows, width, inner):
    own = rows // DEVICES

    def body(x, w):
        return jnp.cumsum(jax.lax.dynamic_slice_in_dim(jnp.tanh(x @ w), jax.lax.axis_index("d") * own, own), axis=1)

    return on_devices(body, ((rows, inner), "float32"), ((inner, width), "float32"))


@program("own-slice", "fires-counted", devices=DEVICES, rows=1 << 22, bins=1 << 10)
@program("own-slice-small", "fires-counted", devices=DEVICES, rows=40, bins=16)
def counted(rows, bins):
    own = rows // DEVICES

    # Integers, an iota along the sliced dimension, a reshape behind which two rows stand for one.
    def body(x):
        key = (x.reshape(rows, 2) * 3 + jnp.arange(rows, dtype=jnp.int32)[:, None]) & (bins - 1)
        ordered = jax.lax.sort(jnp.stack([key, key ^ 5], axis=1), dimension=2)
        return jax.lax.dynamic_slice_in_dim(ordered, jax.lax.axis_index("d") * own, own)

    return on_devices(body, ((2 * rows,), "int32"))


@program("own-slice", "keeps-sorted-columns", devices=DEVICES, rows=1 << 12, width=1 << 11)
@program("own-slice-small", "keeps-sorted-columns", devices=DEVICES, rows=24, width=10)
def sorted_columns(rows, width):
    # The order within a column needs every row.
    own = rows // DEVICES

    def body(x, w):
        ordered = jax.lax.sort(jnp.sin(x[:, None] * w[None, :]), dimension=0)
        return jax.lax.dynamic_slice_in_dim(ordered, jax.lax.axis_index("d") * own, own)

    return on_devices(body, ((rows,), "float32"), ((width,), "float32"))


@program("own-slice", "keeps-read-whole", devices=DEVICES, rows=1 << 12, width=1 << 11)
@program("own-slice-small", "keeps-read-whole", devices=DEVICES, rows=24, width=10)
def read_whole(rows, width):
    # Every device needs all of the rows for the sum as well.
    own = rows // DEVICES

    def body(x, w):
        ordered = jax.lax.sort(jnp.sin(x[:, None] * w[None, :]), dimension=1)
        return jax.lax.dynamic_slice_in_dim(ordered, jax.lax.axis_index("d") * own, own) / jnp.sum(ordered, axis=0)

    return on_devices(body, ((rows,), "float32"), ((width,), "float32"))
