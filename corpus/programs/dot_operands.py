"""Gradients of weights, of which XLA:CPU copies the large operand: dot-operands should change it with the small one where a loop then gains."""
import jax
import jax.numpy as jnp

from programs.catalog import shape, twins

BIG = dict(texts=8, length=1 << 10, classes=32000, width=256)
SMALL = dict(texts=3, length=8, classes=40, width=6)


@twins("dot-operands", "fires-tied", big=BIG, small=SMALL)
def tied_weights(texts, length, classes, width):
    """A vocabulary that is read and written with the same weights: the gradient of the scores of all texts would stand twice."""
    def loss(weights, words, labels):
        hidden = jnp.tanh(weights[words])
        scores = jax.nn.log_softmax(hidden @ weights.T)
        return -jnp.take_along_axis(scores, labels[..., None], -1).mean()

    return jax.grad(loss), (shape((classes, width)), shape((texts, length), "int32"), shape((texts, length), "int32"))


@twins("dot-operands", "keeps-wide", big=dict(tokens=1 << 13, classes=1 << 12, width=1 << 11), small=dict(tokens=24, classes=10, width=6))
def wide_hidden_states(tokens, classes, width):
    """What would be transposed instead is half as large."""
    def loss(weights, hidden):
        return jnp.sum(jnp.exp(jnp.sin(hidden @ weights.T)))

    return jax.grad(loss), (shape((classes, width)), shape((tokens, width)))
