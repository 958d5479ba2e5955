"""Programs that a rewrite helps, at sizes a test can run, and how to compare results."""
import jax
import jax.numpy as jnp
import numpy as np

import hlo_opt

# Everything counts: the programs here are small.
EAGER = hlo_opt.Options(min_saving=1, chunk_bytes=1 << 14, exactness="bitwise")


def loss(x, idx):
    return x[idx[:, 0], idx[:, 1], idx[:, 2]].sum()


gradient = jax.grad(loss)


def arguments(rows=1 << 16, side=32, seed=0, dtype=np.int32):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((side,) * 3).astype(np.float32)
    # Negative and out-of-range indices too: JAX defines what they mean.
    idx = rng.integers(-side - 3, side + 3, (rows, 3)).astype(dtype)
    return jnp.asarray(x), jnp.asarray(idx)


def scattered(table, rows, ids):
    """Adds rows into a table; `rows` are computed, so that there is something to save."""
    return table.at[ids].add(jnp.tanh(rows) * 2)


def same(left, right):
    """Equal pytrees: structure, types, weak types, devices, bits."""
    a, tree_a = jax.tree.flatten(left)
    b, tree_b = jax.tree.flatten(right)
    assert tree_a == tree_b, (tree_a, tree_b)
    for one, other in zip(a, b):
        assert (one.shape, one.dtype, weak(one)) == (other.shape, other.dtype, weak(other))
        assert one.sharding == other.sharding and one.committed == other.committed
        assert raw(one) == raw(other)


def weak(array):
    return getattr(array, "weak_type", False)


def raw(array):
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array).tobytes()


def anew(function):
    """A function that is none of those jitted before, so that nothing is known of its programs."""
    return lambda *args: function(*args)


def rewritten(report):
    assert report.kept == "rewritten", str(report)
    assert report.after.total < report.before.total
    return report
