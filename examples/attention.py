"""The gradient of plain attention: scores and probabilities of all heads stand in memory at once.

    pip install . && python examples/attention.py
"""
import jax
import jax.numpy as jnp
from pictures import shape, show


def loss(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8.0
    return jnp.sum(jax.nn.softmax(scores, -1) @ v)


if __name__ == "__main__":
    show("attention", jax.grad(loss, (0, 1, 2)), small=(shape(1, 4, 512, 64),) * 3, full=(shape(2, 8, 4096, 64),) * 3)
