"""Index scatters whose row-sized producers the chunk pass should restrict to blocks (fires-*)."""
import jax
import jax.numpy as jnp
from jax import lax

from programs.catalog import shape, twins

ROWS = 1 << 30
SMALL_ROWS = 5003
CUBE = (128, 128, 128)
SMALL_CUBE = (8, 16, 4)


def table(name, **common):
    """Decorator: three index columns into a cube, at both sizes."""
    return twins("chunk", f"fires-{name}", big=dict(rows=ROWS, dims=CUBE),
                 small=dict(rows=SMALL_ROWS, dims=SMALL_CUBE), **common)


def vector(name, rows=ROWS, size=1 << 20, **common):
    """Decorator: one index column into a vector, at both sizes."""
    return twins("chunk", f"fires-{name}", big=dict(rows=rows, size=size),
                 small=dict(rows=SMALL_ROWS, size=37), **common)


@twins("chunk", "fires-embedding", big=dict(rows=1 << 28, words=32000, width=64),
       small=dict(rows=1009, words=50, width=6))
def embedding_gradient(rows, words, width):
    def loss(x, i):
        return jnp.sum(x[i] * x[i])

    return jax.grad(loss), (shape((words, width)), shape((rows,), "int32"))


@vector("bincount")
def bincount(rows, size):
    def count(i):
        return jnp.zeros(size, jnp.int32).at[i].add(1)

    return count, (shape((rows,), "int32"),)


@vector("index-u16", dtype="uint16", size=60000)
@vector("index-u32", dtype="uint32")
@vector("index-s8", dtype="int8", size=100)
def narrow_vector(rows, size, dtype):
    def loss(x, i):
        return jnp.sum(x[i] * 2.5)

    return jax.grad(loss), (shape((size,)), shape((rows,), dtype))


@table("set", method="set")
@table("max", method="max")
@table("min", method="min")
@table("mul", method="multiply")
@table("donated", method="add", donate=(0,))
def given_updates(rows, dims, method):
    def update(x, i, u):
        return getattr(x.at[i[:, 0], i[:, 1], i[:, 2]], method)(u)

    return update, (shape(dims), shape((rows, 3), "int32"), shape((rows,)))


@table("scaled-updates")
def scaled_updates(rows, dims):
    def update(x, i, u):
        return x.at[i[:, 0], i[:, 1], i[:, 2]].add(u * 2.5 + 1.0)

    return update, (shape(dims), shape((rows, 3), "int32"), shape((rows,)))


@table("grad-sin")
def gradient_of_sine(rows, dims):
    def loss(x, i):
        return jnp.sum(jnp.sin(x[i[:, 0], i[:, 1], i[:, 2]]))

    return jax.grad(loss), (shape(dims), shape((rows, 3), "int32"))


@table("two-tables")
def two_tables(rows, dims):
    def loss(tables, i):
        x, y = tables
        at = i[:, 0], i[:, 1], i[:, 2]
        return jnp.sum(x[at] * 2.5) + jnp.sum(y[at] * 0.5)

    return jax.grad(loss), ((shape(dims), shape(dims)), shape((rows, 3), "int32"))


@table("vmap-slice")
def mapped_dynamic_slice(rows, dims):
    def loss(x, i):
        pick = jax.vmap(lambda at: lax.dynamic_slice(x, at, (1, 1, 1))[0, 0, 0])
        return jnp.sum(pick(i) * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows, 3), "int32"))


@table("vmap-window")
def mapped_window(rows, dims):
    def loss(x, i):
        pick = jax.vmap(lambda at: lax.dynamic_slice(x, (at[0], at[1], 0), (2, 2, 1)))
        return jnp.sum(pick(i) * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows // 4, 2), "int32"))


@twins("chunk", "fires-iota-column", big=dict(rows=1 << 28, width=4), small=dict(rows=5003, width=4))
def iota_column(rows, width):
    def loss(x, i):
        return jnp.sum(x[jnp.arange(rows), i] * 2.5)

    return jax.grad(loss), (shape((rows, width)), shape((rows,), "int32"))


@table("bf16", dtype="bfloat16")
@table("f16", dtype="float16")
def half_table(rows, dims, dtype):
    def loss(x, i):
        return jnp.sum(x[i[:, 0], i[:, 1], i[:, 2]] * 2.5)

    return jax.grad(loss), (shape(dims, dtype), shape((rows, 3), "int32"))


@table("in-cond")
def in_branch(rows, dims):
    def update(flag, x, i):
        add = lambda: x.at[i[:, 0], i[:, 1], i[:, 2]].add(2.5)  # noqa: E731
        return lax.cond(flag, add, lambda: x * 2.0)

    return update, (shape((), "bool"), shape(dims), shape((rows, 3), "int32"))


@table("in-fori")
def in_loop(rows, dims):
    # Every step shifts the indices, so that the normalised index cannot leave the loop.
    def update(x, i):
        def step(k, x):
            j = i + k
            return x.at[j[:, 0], j[:, 1], j[:, 2]].add(2.5)

        return lax.fori_loop(0, 3, step, x)

    return update, (shape(dims), shape((rows, 3), "int32"))


@table("nested-jit")
def behind_call(rows, dims):
    def update(x, i):
        pick = jax.jit(lambda x, i: x[i[:, 0], i[:, 1], i[:, 2]])
        return jnp.sum(pick(x, i) * 2.5)

    return jax.grad(update), (shape(dims), shape((rows, 3), "int32"))


@table("value-and-grad")
def value_and_gradient(rows, dims):
    def loss(x, i):
        return jnp.sum(x[i[:, 0], i[:, 1], i[:, 2]] * 2.5)

    return jax.value_and_grad(loss), (shape(dims), shape((rows, 3), "int32"))


@table("soa")
def component_rows(rows, dims):
    def loss(x, i):
        return jnp.sum(x[i[0], i[1], i[2]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((3, rows), "int32"))


@table("two-batch-dims")
def two_batch_dims(rows, dims):
    def loss(x, i):
        return jnp.sum(x[i[..., 0], i[..., 1], i[..., 2]] * 2.5)

    return jax.grad(loss), (shape(dims), shape((rows // 4, 4, 3), "int32"))


@table("computed-index")
def computed_index(rows, dims):
    def update(x, points):
        i = jnp.floor(points * 8.0).astype(jnp.int32)
        return x.at[i[:, 0], i[:, 1], i[:, 2]].add(1.0)

    return update, (shape(dims), shape((rows, 3)))


@table("mode-drop", mode="drop")
@table("mode-clip", mode="clip")
def scatter_mode(rows, dims, mode):
    def update(x, i):
        return x.at[i[:, 0], i[:, 1], i[:, 2]].add(2.5, mode=mode)

    return update, (shape(dims), shape((rows, 3), "int32"))


@vector("scatter-then-gather")
def scatter_then_gather(rows, size):
    def update(x, i):
        y = x.at[i].add(1.0)
        return y[i]

    return update, (shape((size,)), shape((rows,), "int32"))


@twins("chunk", "fires-beam", big=dict(beams=256, words=32000), small=dict(beams=24, words=40))
def beam_search(beams, words):
    """Scores of all continuations are computed and written only to be sorted, in another shape."""
    def step(scores, ends):
        all_scores = (ends[:, :, None] + scores).reshape(beams, -1)
        return jax.lax.top_k(all_scores, 8)

    return step, (shape((beams, 8, words)), shape((beams, 8)))


@twins("chunk", "fires-quantized-bag", big=dict(words=1 << 16, bags=1 << 16, width=256), small=dict(words=64, bags=24, width=8))
def quantized_bag(words, bags, width):
    """Narrow numbers that a library widens while it adds them up: what is picked stands in memory, what is widened does not."""
    def bag(table, picked):
        return (table[picked].astype(jnp.float32) * 0.01).sum(1)

    return bag, (shape((words, width), "int8"), shape((bags, 16), "int32"))


@vector("deviation")
def deviation_of_segments(rows, size):
    """Two loops that save something only together: one for the mean, and one for the squares of what differs from it."""
    def deviation(values, segment):
        count = jax.ops.segment_sum(jnp.ones_like(values), segment, size)
        mean = jax.ops.segment_sum(values, segment, size) / count
        return jnp.sqrt(jax.ops.segment_sum((values - mean[segment]) ** 2, segment, size) / count)

    return deviation, (shape((rows,)), shape((rows,), "int32"))


@twins("chunk", "fires-policy", big=dict(states=1 << 16, actions=4096), small=dict(states=64, actions=24))
def policy_gradient(states, actions):
    """Between the scores and their gradient, a number of each row goes through a `clip`, a call that holds nothing large."""
    def loss(scores, taken, before, advantage):
        chances = jnp.take_along_axis(jax.nn.log_softmax(scores), taken[:, None], 1)[:, 0]
        ratio = jnp.exp(chances - before)
        return -jnp.mean(jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage))

    row = shape((states,))
    return jax.grad(loss), (shape((states, actions)), shape((states,), "int32"), row, row)
