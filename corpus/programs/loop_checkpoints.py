"""Loops whose steps should be run again from checkpoints (fires-*), and some that should not (keeps-*)."""
import jax
import jax.numpy as jnp
from jax import lax

from programs.catalog import shape, twins


@twins("loop-checkpoints", "fires-oscillators", big=dict(count=1 << 20, steps=256), small=dict(count=16, steps=24))
@twins("loop-checkpoints", "fires-prime-steps", big=dict(count=1 << 20, steps=251), small=dict(count=16, steps=23))
@twins("loop-checkpoints", "fires-reverse", big=dict(count=1 << 20, steps=256), small=dict(count=16, steps=24), reverse=True)
def oscillators(count, steps, reverse=False):
    # A step takes less time than its stacks. What remains behind loop-residuals is the place, once for each step.
    def last(place, speed, stiffness):
        def step(state, _):
            place, speed = state
            speed = speed - 0.01 * (stiffness * place + place ** 3)
            return (place + 0.01 * speed, speed), None

        place, _ = lax.scan(step, (place, speed), None, length=steps, reverse=reverse)[0]
        return jnp.sum(place * place)

    return jax.grad(last, argnums=(0, 1, 2)), (shape((count,)),) * 3


@twins("loop-checkpoints", "fires-sums", big=dict(count=1 << 20, steps=128), small=dict(count=64, steps=12))
def running_sums(count, steps):
    # What a step begins with is small, what it keeps is not: blocks have one step.
    def last(state, signals):
        def step(state, signal):
            sums = jnp.cumsum(jnp.sin(signal) * state[0])
            return state + 1e-3 * jnp.mean(sums * sums), None

        return jnp.sum(lax.scan(step, state, signals)[0])

    return jax.grad(last), (shape((4,)), shape((steps, count)))


@twins("loop-checkpoints", "keeps-returned", big=dict(count=1 << 20, steps=64), small=dict(count=16, steps=12))
def returned(count, steps):
    # Every state is a result too.
    def states(state):
        return lax.scan(lambda state, _: (state * jnp.cos(state),) * 2, state, None, length=steps)[1]

    def value_and_gradient(state):
        values, back = jax.vjp(states, state)
        return values, back(values)

    return value_and_gradient, (shape((count,)),)


@twins("loop-checkpoints", "keeps-order", big=dict(count=1 << 20, steps=64), small=dict(count=16, steps=12))
def read_in_the_same_order(count, steps):
    # The second loop begins with the first row, so that the first block is needed first.
    def run(state):
        states = lax.scan(lambda state, _: (jnp.sin(state) * 2, jnp.cos(state)), state, None, length=steps)[1]
        return lax.scan(lambda total, row: (jnp.tanh(total * row), None), state, states)[0]

    return run, (shape((count,)),)
