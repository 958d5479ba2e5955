"""The founding program: the gradient of a three-component gather, in its spellings, types and sizes."""
import jax
import jax.numpy as jnp

from programs.catalog import program, shape

ROWS = 2048**3
# No power of two divides it, and it is a prime above 2^33: blocks always leave a rest.
RAGGED_ROWS = 8589934609
CUBE = (128, 128, 128)
SLAB = (64, 128, 256)
SMALL_ROWS = (1, 7, 1000, 4099, 65536)
SMALL_CUBE = (8, 8, 8)
SMALL_SLAB = (4, 8, 16)


def small(name, **params):
    """Decorator: one reduced program per row count, so that runs on data are possible."""
    def register(build):
        for rows in SMALL_ROWS:
            program("founding-small", f"{name}-n{rows}", rows=rows, **params)(build)
        return build
    return register


@program("founding", "s32", rows=ROWS, dims=CUBE, dtype="int32")
@program("founding", "s16", rows=ROWS, dims=CUBE, dtype="int16")
@program("founding", "u8", rows=ROWS, dims=CUBE, dtype="uint8")
@program("founding", "dims_differ", rows=ROWS, dims=SLAB, dtype="int32")
@program("founding", "ragged", rows=RAGGED_ROWS, dims=CUBE, dtype="int32")
@small("s32", dims=SMALL_CUBE, dtype="int32")
@small("s16", dims=SMALL_CUBE, dtype="int16")
@small("u8", dims=SMALL_CUBE, dtype="uint8")
@small("dims_differ", dims=SMALL_SLAB, dtype="int32")
def split_columns(rows, dims, dtype):
    def loss(x, idx):
        parts = jnp.split(idx, 3, axis=-1)
        picked = x[tuple(parts)][..., 0]
        return jnp.sum(picked * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3), dtype))


@program("founding", "cols", rows=ROWS, dims=CUBE, dtype="int32")
@small("cols", dims=SMALL_CUBE, dtype="int32")
def take_columns(rows, dims, dtype):
    def loss(x, i):
        return jnp.sum(x[i[:, 0], i[:, 1], i[:, 2]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3), dtype))
