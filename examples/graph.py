"""Message passing over the edges of a graph: one message per edge stands in memory before the first is added to its node.

    pip install . && python examples/graph.py
"""
import jax.numpy as jnp
from pictures import shape, show

NODES, EDGES = 131072, 4194304


def messages(nodes, source, target, weights):
    sent = jnp.tanh(nodes[source] @ weights - nodes[target])
    return jnp.zeros_like(nodes).at[target].add(sent)


if __name__ == "__main__":
    edges = shape(EDGES, dtype="int32")
    few = shape(1 << 15, dtype="int32")
    show("graph", messages,
         small=(shape(128, 32), few, few, shape(32, 32)),
         full=(shape(NODES, 64), edges, edges, shape(64, 64)))
