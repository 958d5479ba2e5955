"""A Python loop that tracing unrolls: sixteen copies of the same work, each with temporaries of its own.

    pip install . && python examples/loops.py
"""
import jax.numpy as jnp
from pictures import shape, show

STEPS = 16


def expensive(x, w):
    h = jnp.tanh(jnp.tanh(x @ w) @ w.T)
    return jnp.sum(h**2)


def total(picks, inputs, w):
    found = 0.0
    for step in range(STEPS):
        found += expensive(inputs[picks[step]], w)
    return found


if __name__ == "__main__":
    show("loops", total,
         small=(shape(STEPS, dtype="int32"), shape(8, 64, 64), shape(64, 128)),
         full=(shape(STEPS, dtype="int32"), shape(64, 1024, 1024), shape(1024, 4096)))
