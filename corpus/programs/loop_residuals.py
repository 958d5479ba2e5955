"""Programs whose loops stack what could be computed again where it is read, and some where that must stay."""
import jax
import jax.numpy as jnp
from jax import lax

from programs.catalog import shape, twins

BIG = dict(layers=24, rows=32768, width=1024)
SMALL = dict(layers=4, rows=8, width=16)


def residuals(name, **common):
    """Decorator: a stack of layers, at both sizes."""
    return twins("loop-residuals", name, big=BIG, small=SMALL, **common)


def arguments(layers, rows, width, dtype="float32"):
    return shape((layers, width, width), dtype), shape((rows, width), dtype)


@residuals("fires-gelu", activation="gelu")
@residuals("fires-silu", activation="silu")
@residuals("fires-gelu-bf16", activation="gelu", dtype="bfloat16")
@residuals("keeps-relu", activation="relu")
def layers_with_residuals(activation, **sizes):
    function = getattr(jax.nn, activation)

    def run(w, x):
        return lax.scan(lambda x, w: (function(x @ w) + x, None), x, w)[0].sum()

    return jax.grad(run), arguments(**sizes)


@residuals("keeps-returned")
def the_stacks_are_results_too(layers, rows, width):
    """The function that is kept is a result of the program, so nothing would be saved."""
    def run(w, x):
        def step(x, w):
            h = x @ w
            return h + x, (h, jnp.tanh(h))

        _, (h, t) = lax.scan(step, x, w)

        def back(total, row):
            return total + row[0] * row[1], None

        return lax.scan(back, x, (h, t))[0], t

    return run, arguments(layers, rows, width)


@residuals("fires-row-sums", product=False)
@residuals("keeps-product", product=True)
def a_costly_function(product, layers, rows, width):
    """What is stacked needs a reduction of what is kept: its sums are stacked instead. Or a product, which stays."""
    def run(w, x):
        def step(x, w):
            h = x @ w
            return h + x, (h, h @ w if product else jnp.broadcast_to(h.sum(1, keepdims=True), h.shape))

        _, (h, s) = lax.scan(step, x, w)

        def back(total, row):
            return total + row[0] * row[1], None

        return lax.scan(back, x, (h, s))[0]

    return run, arguments(layers, rows, width)


@twins("loop-residuals", "fires-index-stack", big=dict(steps=8, rows=1 << 24, dims=(128, 128, 128)),
       small=dict(steps=4, rows=61, dims=(8, 16, 4)))
def indices_normalised_in_every_step(steps, rows, dims):
    """The normalised indices are stacked; the loop that reads them does not carry the indices themselves."""
    def loss(x, indices):
        def step(total, i):
            return total + jnp.sum(x[i[:, 0], i[:, 1], i[:, 2]]), None

        return lax.scan(step, 0.0, indices)[0]

    return jax.grad(loss), (shape(dims), shape((steps, rows, 3), "int32"))


@twins("loop-residuals", "fires-rays", big=dict(steps=64, rays=1 << 22, width=64),
       small=dict(steps=4, rays=61, width=8))
def rays_through_a_cloud(steps, rays, width):
    """Indices follow from the step: the gradient makes them again, and the lookup before it takes them from memory as before."""
    def loss(cloud, start, direction):
        def step(total, t):
            at = jnp.clip((start + t * direction) * width, 0, width - 1).astype("int32")
            return total + cloud[tuple(at.T)], None

        return jnp.sum(lax.scan(step, jnp.zeros(rays), jnp.linspace(0, 1, steps))[0] ** 2)

    return jax.grad(loss), (shape((width,) * 3), shape((rays, 3)), shape((rays, 3)))


RECURRENT = dict(big=dict(steps=512, rows=256, width=512), small=dict(steps=5, rows=3, width=8))


@twins("loop-residuals", "fires-recurrent", reverse=False, **RECURRENT)
@twins("loop-residuals", "fires-recurrent-reverse", reverse=True, **RECURRENT)
def recurrent_network(reverse, steps, rows, width):
    """The state is stacked as it is before each step and behind it: the one is the other, moved by a row."""
    def loss(w, x, start):
        def step(state, x):
            state = jnp.tanh(state @ w + x)
            return state, state

        return jnp.sum(lax.scan(step, start, x, reverse=reverse)[1] ** 2)

    return jax.grad(loss), (shape((width, width)), shape((steps, rows, width)), shape((rows, width)))


@twins("loop-residuals", "fires-state", big=dict(steps=50, points=1 << 20), small=dict(steps=4, points=16))
def orbits(steps, points):
    """The midpoint rule for a pendulum: everything that the gradient asks for follows from where a step begins."""
    def loss(angle, speed):
        def step(state, _):
            angle, speed = state
            half, faster = angle + 0.05 * speed, speed - 0.05 * jnp.sin(angle)
            return (angle + 0.1 * faster, speed - 0.1 * jnp.sin(half) * jnp.exp(-faster * faster)), None

        angle, speed = lax.scan(step, (angle, speed), None, length=steps)[0]
        return jnp.sum(angle * speed)

    return jax.grad(loss, (0, 1)), (shape((points,)), shape((points,)))
