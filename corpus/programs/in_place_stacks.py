"""Loops that read rows of one array and write rows of another, which could be the same memory, and some where it could not."""
import jax
import jax.numpy as jnp
from jax import lax

from programs.catalog import shape, twins

BIG = dict(layers=16, batch=8, tokens=2048, width=512)
SMALL = dict(layers=3, batch=2, tokens=6, width=8)


@twins("in-place-stacks", "fires-cache", big=BIG, small=SMALL)
def a_cache_of_all_layers(layers, batch, tokens, width):
    """Tokens one after the other: a scan over layers reads their keys and values so far, and gives them back with those of the new token."""
    def run(x, weights, cache):
        def token(state, at):
            x, cache = state

            def layer(x, part):
                w, old = part
                new = lax.dynamic_update_slice(old, (x @ w)[:, None], (0, at, 0))
                seen = jnp.where(jnp.arange(tokens) <= at, jnp.einsum("bd,btd->bt", x, new), -1e30)
                return jnp.tanh(x + jnp.einsum("bt,btd->bd", jax.nn.softmax(seen), new)), new

            x, cache = lax.scan(layer, x, (weights, cache))
            return (x, cache), None

        return lax.scan(token, (x, cache * 0.5), jnp.arange(tokens // 2))[0][0]

    return run, (shape((batch, width)), shape((layers, width, width)), shape((layers, batch, tokens, width)))


@twins("in-place-stacks", "fires-donated", big=dict(layers=64, width=2048), small=dict(layers=4, width=9), donate=(0,))
@twins("in-place-stacks", "keeps-argument", big=dict(layers=64, width=2048), small=dict(layers=4, width=9))
def weights_layer_by_layer(layers, width):
    """A step for the weights of each layer, behind a norm of its gradient; the weights are donated, or the program that calls it keeps them."""
    def run(weights, slopes):
        def layer(norm, part):
            weight, slope = part
            size = jnp.sqrt((slope * slope).sum())
            return norm + size, weight - 0.01 * slope / (1 + size)

        return lax.scan(layer, 0.0, (weights, slopes))[::-1]

    return run, (shape((layers, width, width)),) * 2


@twins("in-place-stacks", "keeps-read-later", big=dict(steps=64, rows=1 << 20), small=dict(steps=5, rows=40))
def the_rows_are_needed_again(steps, rows):
    """Sums so far of computed rows, beside which the rows themselves are results."""
    def run(total, x):
        wide = jnp.sort(x, axis=0)

        def step(total, row):
            total = total * 0.9 + row
            return total, total

        return lax.scan(step, total, wide)[1], wide

    return run, (shape((rows,)), shape((steps, rows)))


@twins("in-place-stacks", "keeps-other-rows", big=dict(steps=64, rows=1 << 20), small=dict(steps=5, rows=40))
def rows_in_reverse(steps, rows):
    """Step `t` reads the row that is `t` before the last, and writes row `t`."""
    def run(total, x):
        wide = jnp.sort(x, axis=0)

        def step(total, t):
            total = total * 0.9 + wide[steps - 1 - t]
            return total, total

        return lax.scan(step, total, jnp.arange(steps))[1]

    return run, (shape((rows,)), shape((steps, rows)))
