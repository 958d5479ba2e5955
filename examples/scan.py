"""The gradient of a scan over layers: the backward pass reads stacks of what follows from one another.

    pip install . && python examples/scan.py
"""
import jax
from jax import lax
from pictures import shape, show


def loss(weights, x):
    return lax.scan(lambda x, w: (jax.nn.gelu(x @ w) + x, None), x, weights)[0].sum()


if __name__ == "__main__":
    show("scan", jax.grad(loss), small=(shape(4, 32, 32), shape(256, 32)), full=(shape(24, 1024, 1024), shape(32768, 1024)))
