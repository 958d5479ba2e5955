"""The gradient of an embedding lookup: updates and a normalised copy of every index stand in memory before the first is added.

    pip install . && python examples/embedding.py
"""
import jax
import jax.numpy as jnp
from pictures import shape, show


def loss(table, tokens):
    return jnp.sum(jnp.take(table, tokens, axis=0) ** 2)


if __name__ == "__main__":
    show("embedding", jax.grad(loss),
         small=(shape(128, 16), shape(1 << 15, dtype="int32")),
         full=(shape(32000, 64), shape(1 << 26, dtype="int32")))
