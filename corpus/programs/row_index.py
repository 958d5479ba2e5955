"""Reads and updates of one element of each row, found by counting the rows: row-index should say so where a loop over rows then gains."""
import jax
import jax.numpy as jnp

from programs.catalog import shape, twins


@twins("row-index", "fires-cross-entropy", big=dict(rows=1 << 14, classes=1 << 13, width=64), small=dict(rows=24, classes=10, width=6))
def cross_entropy(rows, classes, width):
    """The scores of all rows are kept once, for the gradient of the weights; without the batch their gradient is kept beside them."""
    def loss(x, w, labels):
        return -jax.nn.log_softmax(x @ w)[jnp.arange(rows), labels].mean()

    return jax.grad(loss, argnums=(0, 1)), (shape((rows, width)), shape((width, classes)), shape((rows,), "int32"))


@twins("row-index", "fires-chosen", big=dict(rows=1 << 15, classes=1 << 12), small=dict(rows=24, classes=10))
def chosen(rows, classes):
    """Three components, of which the first counts the rows."""
    def read(x, y, left, right):
        table = jnp.sort(jnp.sin(x[:, None, None] + y[None, :, None] * jnp.arange(2.0)), axis=1)
        return table[jnp.arange(rows), left, right]

    return read, (shape((rows,)), shape((classes,)), shape((rows,), "int32"), shape((rows,), "int32"))


@twins("row-index", "keeps-shifted", big=dict(rows=1 << 14, classes=1 << 12), small=dict(rows=24, classes=10))
def shifted(rows, classes):
    """Each row reads the next one."""
    def read(x, y, labels):
        table = jnp.sort(jnp.sin(x[:, None] + y[None, :]), axis=1)
        return table[jnp.arange(1, rows + 1), labels]

    return read, (shape((rows,)), shape((classes,)), shape((rows,), "int32"))


@twins("row-index", "keeps-some-rows", big=dict(rows=1 << 14, classes=1 << 12), small=dict(rows=24, classes=10))
def some_rows(rows, classes):
    """Only the first half of the rows is read, so there is no row of the index for each row of the table."""
    def read(x, y, labels):
        table = jnp.sort(jnp.sin(x[:, None] + y[None, :]), axis=1)
        return table[jnp.arange(rows // 2), labels]

    return read, (shape((rows,)), shape((classes,)), shape((rows // 2,), "int32"))
