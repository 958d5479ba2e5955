"""Programs that compute all of a loop's input before the loop, though the loop reads it row by row, and some where that must stay."""
import jax
import jax.numpy as jnp
from jax import lax

from programs.catalog import shape, twins

BIG = dict(steps=64, rows=1 << 20)
SMALL = dict(steps=6, rows=40)


def inputs(name, **common):
    """Decorator: a loop over rows, at both sizes."""
    return twins("loop-inputs", name, big=BIG, small=SMALL, **common)


@twins("loop-inputs", "fires-layers", big=dict(layers=24, rows=4096, width=2048), small=dict(layers=4, rows=8, width=16))
def layers_are_not_the_first_dimension(layers, rows, width):
    """Weights of all layers with the layers in the middle, as flax keeps them: a loop over layers transposes all of them first."""
    def run(x, w):
        return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, jnp.moveaxis(w, 1, 0))[0]

    return run, (shape((rows, width)), shape((width, layers, width)))


@twins("loop-inputs", "fires-several", big=dict(layers=24, rows=2048, width=1024), small=dict(layers=4, rows=8, width=16))
def several_inputs_of_one_loop(layers, rows, width):
    """Both weights of a layer, and its scale out of bytes, in a loop over layers that runs twice: one change for all of them."""
    def run(x, w, v, scale):
        weights = jnp.moveaxis(w, 1, 0), jnp.moveaxis(v, 1, 0), scale.astype("float32") * 0.5
        layer = lambda x, part: (jnp.tanh(x @ part[0]) @ part[1] * part[2], None)
        return lax.scan(lambda x, _: (lax.scan(layer, x, weights)[0], None), x, None, length=2)[0]

    weight = shape((width, layers, width))
    return run, (shape((rows, width)), weight, weight, shape((layers, rows, width), "int8"))


@inputs("fires-widened", dtype="int8")
@inputs("fires-two-arrays", dtype="float32", second=True)
def sums_of_rows(steps, rows, dtype, second=False):
    """Bytes made wide; a sum of two arrays, of which each row is large and taken once."""
    def run(total, x, y):
        wide = x + y if second else x.astype("float32") * 0.5
        return lax.scan(lambda total, row: (total * 0.9 + row, None), total, wide)[0]

    return run, (shape((rows,)), shape((steps, rows), dtype), shape((steps, rows)))


@inputs("fires-one-hot", classes=64)
def one_hot_rows(steps, rows, classes):
    """One-hot rows of labels: the loop reads the labels."""
    rows //= 16

    def run(total, labels):
        return lax.scan(lambda total, row: (total * 0.9 + row, None), total, jax.nn.one_hot(labels, classes))[0]

    return run, (shape((rows, classes)), shape((steps, rows), "int32"))


@inputs("fires-shifted")
def neighbours(steps, rows):
    """Every step but the first, with its number: the rows begin at 1."""
    def run(total, x):
        keys = x[1:] ^ jnp.arange(steps - 1, dtype="int32")[:, None]
        return lax.scan(lambda total, key: (total * 31 + key, None), total, keys)[0]

    return run, (shape((rows,), "int32"), shape((steps, rows), "int32"))


@twins("loop-inputs", "fires-same-index", big=dict(rows=1 << 24, dims=(128, 128, 128)), small=dict(rows=97, dims=(4, 8, 5)))
def the_same_indices_in_every_step(rows, dims):
    """A block loop inside a loop: both hand the normalised indices on."""
    def loss(x, i):
        def step(c, _):
            return c + jnp.sum(jnp.sin(c * x[i[:, 0], i[:, 1], i[:, 2]])), None

        return lax.scan(step, 1.0, None, length=4)[0]

    return jax.grad(loss), (shape(dims), shape((rows, 3), "int32"))


@inputs("fires-costly")
@twins("loop-inputs", "keeps-short-rows", big=dict(steps=1 << 12, rows=1 << 15), small=dict(steps=6, rows=40))
def a_polynomial(steps, rows):
    """An exponential is computed once in either place; kernels for short rows would take longer to start."""
    def run(total, x):
        return lax.scan(lambda total, row: (total * 0.9 + row, None), total, jnp.exp(x))[0]

    return run, (shape((rows,)), shape((steps, rows)))


@twins("loop-inputs", "fires-shuffled", big=dict(examples=1 << 16, size=84, batches=16), small=dict(examples=12, size=4, batches=3))
def an_epoch_in_random_order(examples, size, batches):
    """Images in the order of a random permutation, in batches, as a loop over an epoch takes them."""
    def run(total, images, order):
        shuffled = jnp.take(images, order, axis=0).reshape(batches, -1, size, size)

        def step(total, batch):
            return total * 3 + batch.astype("int32").sum(0), None

        return lax.scan(step, total, shuffled)[0]

    return run, (shape((size, size), "int32"), shape((examples, size, size), "uint8"), shape((examples,), "int32"))


@inputs("keeps-read-whole")
def more_than_rows(steps, rows):
    """Every step reads a row and the largest of all."""
    def run(total, x):
        wide = x.astype("int32") * 3

        def step(total, i):
            return total + wide[i] * wide.max(), None

        return lax.scan(step, total, jnp.arange(steps))[0]

    return run, (shape((rows,), "int32"), shape((steps, rows), "int8"))


@inputs("keeps-rounded")
def short_floats(steps, rows):
    """Products of bf16 are rounded in memory, and need not be in a fusion."""
    def run(total, x):
        scaled = (x * jnp.bfloat16(0.3)).astype("float32")
        return lax.scan(lambda total, row: (total * 0.9 + row, None), total, scaled)[0]

    return run, (shape((rows,)), shape((steps, rows), "bfloat16"))


@twins("loop-inputs", "keeps-few-rows", big=dict(steps=1 << 13, rows=32, width=512), small=dict(steps=6, rows=3, width=16))
@twins("loop-inputs", "fires-projected", big=dict(steps=512, rows=256, width=512), small=dict(steps=6, rows=8, width=16))
def inputs_of_a_recurrent_network(steps, rows, width):
    """The inputs of all steps are multiplied with their weights before the loop, as libraries do; products of few rows would take much longer."""
    def run(x, w, u, start):
        step = lambda state, row: (jnp.tanh(state @ u + row), None)
        return lax.scan(step, start, x @ w)[0]

    weight = shape((width, width))
    return run, (shape((steps, rows, width)), weight, weight, shape((rows, width)))

