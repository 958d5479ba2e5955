"""The gradient of a three-component gather: index arithmetic that needs more memory than the data.

    pip install . && python examples/founding.py
"""
import jax
from pictures import shape, show


def loss(x, index):
    return x[index[:, 0], index[:, 1], index[:, 2]].sum() * 2.5


if __name__ == "__main__":
    table = shape(128, 128, 128)
    show("founding", jax.grad(loss), small=(table, shape(1 << 18, 3, dtype="int32")), full=(table, shape(8589934592, 3, dtype="int32")))
