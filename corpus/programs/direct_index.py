"""Scatters that could read the original index buffer: where that is proven right, and where it is not.

fires-*   no index can be negative and the columns are the whole buffer in order: read it directly.
proven-*  the same, but the buffer is computed: sound, though it may save nothing.
keeps-*   reading it directly would be wrong for some input, or is not possible.
"""
import jax
import jax.numpy as jnp
from jax import lax

from programs.catalog import shape, twins

BIG = dict(rows=1 << 30, dims=(128, 128, 128))
SMALL = dict(rows=5003, dims=(8, 16, 4))


def both(name, **common):
    return twins("direct-index", name, big=BIG, small=SMALL, **common)


@both("fires-u8", dtype="uint8")
@both("fires-u16", dtype="uint16")
@both("fires-u32", dtype="uint32")
@both("keeps-range-unknown", dtype="int32")
@both("keeps-range-unknown-s16", dtype="int16")
@both("keeps-range-unknown-s8", dtype="int8")
def columns(rows, dims, dtype):
    if dtype == "int8":
        dims = tuple(min(d, 64) for d in dims)

    def loss(x, i):
        return jnp.sum(x[i[:, 0], i[:, 1], i[:, 2]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3), dtype))


@both("fires-permuted-u8", dtype="uint8")
@both("keeps-permuted", dtype="int32")
def permuted_columns(rows, dims, dtype):
    def loss(x, i):
        return jnp.sum(x[i[:, 2], i[:, 0], i[:, 1]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3), dtype))


@both("fires-embedding-u16")
def rows_of_a_matrix(rows, dims):
    def loss(x, i):
        return jnp.sum(x[i] * 2.5)

    return jax.grad(loss), (shape((dims[0] * dims[1], 2)), shape((rows // 2,), "uint16"))


@both("proven-clip", form="clip")
@both("proven-remainder", form="remainder")
@both("proven-abs", form="abs")
@both("proven-mask", form="mask")
@both("keeps-clip-below-zero", form="clip-below-zero")
@both("keeps-signed-remainder", form="signed-remainder")
def computed_columns(rows, dims, form):
    limit = min(dims)
    forms = {
        "clip": lambda i: jnp.clip(i, 0, limit - 1),
        "remainder": lambda i: i % limit,
        "abs": jnp.abs,
        "mask": lambda i: i & (limit - 1),
        "clip-below-zero": lambda i: jnp.clip(i, -1, limit - 1),
        "signed-remainder": lambda i: lax.rem(i, jnp.full_like(i, limit)),
    }

    def loss(x, i):
        j = forms[form](i)
        return jnp.sum(x[j[:, 0], j[:, 1], j[:, 2]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3), "int32"))


@both("keeps-minus-one", form="minus-one")
@both("keeps-signed-view", form="signed-view")
def shifted_unsigned(rows, dims, form):
    # An unsigned source whose values become negative on their way to the scatter.
    forms = {
        "minus-one": lambda i: i.astype(jnp.int32) - 1,
        "signed-view": lambda i: lax.bitcast_convert_type(i, jnp.int8),
    }
    if form == "signed-view":
        dims = tuple(min(d, 64) for d in dims)

    def loss(x, i):
        j = forms[form](i)
        return jnp.sum(x[j[:, 0], j[:, 1], j[:, 2]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3), "uint8"))


@both("proven-iota")
def iota_columns(rows, dims):
    def loss(x):
        i = lax.broadcasted_iota(jnp.int32, (rows, 3), 0)
        return jnp.sum(x[i[:, 0], i[:, 1], i[:, 2]] * 2.5)

    return jax.grad(loss), (shape(dims),)


@both("proven-argsort")
def argsort_columns(rows, dims):
    def loss(x, keys):
        i = jnp.argsort(keys, axis=-1)
        return jnp.sum(x[i[:, 0], i[:, 1], i[:, 2]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3)))


@both("proven-argmax")
def argmax_column(rows, dims):
    def loss(x, keys):
        return jnp.sum(x[jnp.argmax(keys, axis=-1)] * 2.5)

    return jax.grad(loss), (shape((4,)), shape((rows, 4)))


@both("keeps-two-of-four")
def two_of_four_columns(rows, dims):
    def loss(x, i):
        return jnp.sum(x[i[:, 1], i[:, 2]] * 2.5)

    return jax.grad(loss), (shape(dims[:2]), shape((rows, 4), "uint8"))


@both("keeps-soa")
def component_rows(rows, dims):
    def loss(x, i):
        return jnp.sum(x[i[0], i[1], i[2]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((3, rows), "uint8"))


@both("keeps-repeated-column")
def repeated_column(rows, dims):
    def loss(x, i):
        return jnp.sum(x[i[:, 0], i[:, 1], i[:, 1]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3), "uint8"))


@both("keeps-clip-mode")
def clamped_after_packing(rows, dims):
    # Out-of-range indices land in the last element instead of being dropped.
    def update(x, i):
        return x.at[i[:, 0], i[:, 1], i[:, 2]].add(2.5, mode="clip")

    return update, (shape(dims), shape((rows, 3), "int32"))


@both("keeps-vmap-slice")
def mapped_dynamic_slice(rows, dims):
    def loss(x, i):
        pick = jax.vmap(lambda at: lax.dynamic_slice(x, at, (1, 1, 1))[0, 0, 0])
        return jnp.sum(pick(i) * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3), "uint8"))
