"""Recurrences one behind the other, whose stacks XLA makes before the first of them begins, and one that starts from inputs."""
import jax
import jax.numpy as jnp

from programs.catalog import shape, twins

BIG = dict(steps=1 << 14, width=2048)
SMALL = dict(steps=7, width=5)


@twins("loop-starts", "fires-recurrences", big=BIG, small=SMALL, layers=3)
@twins("loop-starts", "keeps-inputs", big=BIG, small=SMALL, layers=1)
def recurrences_in_a_row(layers, steps, width):
    # Each layer needs all steps of the one before, and none but those: one stack at a time is enough.
    def layer(x, w):
        def step(x, _):
            y = jnp.tanh(w @ x)
            return y, y

        _, ys = jax.lax.scan(step, x, None, length=steps)
        return jnp.max(ys, 0)

    def net(x, *ws):
        for w in ws:
            x = layer(x, w)
        return x

    return net, (shape((width,)), *[shape((width, width)) for _ in range(layers)])
