"""Programs of which a rewrite makes a loop that one of the passes for speed should then change (fires-*), or leave as it is (keeps-*)."""
import jax
import jax.numpy as jnp

from programs.catalog import shape, twins

CUBE = (64, 64, 64)


@twins("column-slices", "fires-bytes", big=dict(rows=1 << 24), small=dict(rows=200), dtype="uint8")
@twins("column-slices", "keeps-rounded", big=dict(rows=1 << 24), small=dict(rows=200), dtype="float32")
def counted_by_columns(rows, dtype):
    """Three columns of a block; what is computed of floats depends on the kernel that it stands in."""
    def count(table, places):
        at = (places * 7.3).astype(jnp.int32) if dtype == "float32" else places
        return table.at[at[:, 0], at[:, 1], at[:, 2]].add(2.5)

    return count, (shape(CUBE), shape((rows, 3), dtype))


@twins("materialize-slices", "fires-unravelled", big=dict(rows=1 << 24), small=dict(rows=200), joined=True)
@twins("materialize-slices", "keeps-one-place", big=dict(rows=1 << 24), small=dict(rows=200), joined=False)
def counted_by_number(rows, joined):
    """Three indices out of one integer, which stand side by side in one array; or one, which a kernel computes at one place."""
    def count(table, places):
        if joined:
            return table.at[jnp.unravel_index(places, CUBE)].add(2.5)
        return table.reshape(-1).at[places * places % table.size].add(jnp.sin(places * 0.1))

    return count, (shape(CUBE), shape((rows,), "int32"))


@twins("materialize-trig", "fires-normed-waves", big=dict(rows=1 << 15, width=1024), small=dict(rows=24, width=12), wave=jnp.sin)
@twins("materialize-trig", "keeps-tanh", big=dict(rows=1 << 15, width=1024), small=dict(rows=24, width=12), wave=jnp.tanh)
def normed_waves(rows, width, wave):
    """The gradient needs one cosine of each number for several sums; XLA makes a tanh once by itself."""
    def loss(x, scale, offset):
        normed = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return jnp.sum(wave(normed * scale + offset))

    return jax.grad(loss, (0, 1, 2)), (shape((rows, width)), shape((width,)), shape((width,)))


@twins("parallel-updates", "fires-gathered", big=dict(rows=1 << 24), small=dict(rows=200), gathered=True)
@twins("parallel-updates", "keeps-moved", big=dict(rows=1 << 24), small=dict(rows=200), gathered=False)
def written_by_blocks(rows, gathered):
    """What is gathered leaves the program block by block; or the sum of indices does, which takes no work."""
    def read(table, places):
        at = places[:, 0], places[:, 1], places[:, 2]
        out = table.at[at].get(mode="fill", fill_value=0.0) if gathered else places[:, 0] + places[:, 1]
        return out, table.at[at].add(2.5)

    return read, (shape(CUBE), shape((rows, 3), "int32"))


@twins("degenerate-dims", "fires-mixture", big=dict(rows=2000, width=8), small=dict(rows=24, width=3))
def mixture(rows, width):
    """The loop runs over coordinates one by one, so that each block has a dimension of one element."""
    def loss(x, centers):
        return -jnp.sum(jax.nn.logsumexp(-jnp.sum((x[:, None] - centers[None]) ** 2, -1), 1))

    return jax.grad(loss, (0, 1)), (shape((rows, width)), shape((rows, width)))


@twins("degenerate-dims", "keeps-rows", big=dict(rows=1 << 15, width=1024), small=dict(rows=24, width=12))
def normed(rows, width):
    """The loop runs over several rows at a time."""
    def loss(x, scale):
        normed = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return jnp.sum(jnp.exp(normed * scale))

    return jax.grad(loss, (0, 1)), (shape((rows, width)), shape((width,)))


@twins("weighted-sums", "fires-clipped", big=dict(rows=2048, width=128), small=dict(rows=24, width=6), clipped=True)
@twins("weighted-sums", "keeps-no-weights", big=dict(rows=2048, width=128), small=dict(rows=24, width=6), clipped=False)
def gradients_of_examples(rows, width, clipped):
    """Gradients of single examples, clipped and summed; or the sines of them, which have no weights."""
    def of_one(w, x, y):
        gradient = jax.grad(lambda w: jnp.sum((jnp.tanh(x @ w) - y) ** 2))(w)
        return gradient / jnp.maximum(1.0, jnp.linalg.norm(gradient)) if clipped else jnp.sin(gradient)

    def mean(w, x, y):
        return jnp.mean(jax.vmap(of_one, (None, 0, 0))(w, x, y), 0)

    return mean, (shape((width, width)), shape((rows, width)), shape((rows, width)))


@twins("swap-dot-operands", "fires-microbatch", big=dict(copies=8, rows=1 << 13, width=512), small=dict(copies=4, rows=40, width=12))
def microbatches(copies, rows, width):
    """Gradients of weights, added up: the loop sums in another order anyway."""
    def loss(w, x):
        return jnp.sum(jnp.tanh(jnp.tanh(x @ w) @ w) ** 2)

    def gradient(w, xs):
        total = jnp.zeros_like(w)
        for k in range(copies):
            total += jax.grad(loss)(w, xs[k])
        return total

    return gradient, (shape((width, width)), shape((copies, rows, width)))


@twins("swap-dot-operands", "keeps-every-bit", big=dict(copies=64, width=1024, columns=256), small=dict(copies=5, width=12, columns=5))
def largest(copies, width, columns):
    """The loop keeps every bit, and with swapped operands sums could be added up in another order."""
    def of_all(w, xs):
        product = lambda x: jax.lax.dot_general(w, x, (((0,), (0,)), ((), ())))
        found = product(xs[0])
        for k in range(1, copies):
            found = jnp.maximum(found, product(xs[k]))
        return found

    return of_all, (shape((width, width)), shape((copies, width, columns)))


@twins("materialize-gathers", "fires-interpolated", big=dict(size=256, places=1 << 24), small=dict(size=6, places=200))
def interpolated(size, places):
    """The gradient of a volume read between eight numbers, each of which is needed at several places of one kernel."""
    def loss(volume, where):
        return jnp.sum(jax.scipy.ndimage.map_coordinates(volume, where, order=1, mode="constant") ** 2)

    return jax.grad(loss, (0, 1)), (shape((size, size, size)), shape((3, places)))


@twins("materialize-gathers", "keeps-one-place", big=dict(rows=1 << 24), small=dict(rows=200))
def gathered_once(rows):
    """What is gathered is needed at one place of the kernel that reads it."""
    def count(table, weights, places):
        return table.at[places[:, 0], places[:, 1], places[:, 2]].add(jnp.sin(weights[places[:, 0]]))

    return count, (shape(CUBE), shape((64,)), shape((rows, 3), "uint8"))
