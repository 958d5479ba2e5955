"""Stacks of a loop that nothing reads but a loop behind it, row by row, and such that are read in another way too."""
import jax
import jax.numpy as jnp

from programs.catalog import shape, twins

BIG = dict(steps=64, rows=8192, width=1024)
SMALL = dict(steps=5, rows=3, width=4)


@twins("host-offload", "fires-layers", big=BIG, small=SMALL, also="")
@twins("host-offload", "keeps-returned", big=BIG, small=SMALL, also="stack")
@twins("host-offload", "keeps-read-whole", big=BIG, small=SMALL, also="largest")
def states_of_layers(also, steps, rows, width):
    def net(w, x):
        def forward(state, _):
            state = jnp.tanh(state @ w)
            return state, state

        last, states = jax.lax.scan(forward, x, None, length=steps)
        back, _ = jax.lax.scan(lambda grad, state: (jnp.tanh(grad @ w.T) * state, None), last, states, reverse=True)
        if also == "stack":
            return back, states
        return (back, jnp.max(states, 0)) if also == "largest" else back

    return net, (shape((width, width)), shape((rows, width)))
