"""Training steps of layers without a loop: rematerialize should compute again what is cheap (fires-*) or leave it (keeps-*)."""
import jax
import jax.numpy as jnp

from programs.catalog import shape, twins


@twins("rematerialize", "fires-gelu-layers", big=dict(layers=6, rows=1 << 13, width=256, hidden=1024), small=dict(layers=5, rows=48, width=8, hidden=32))
def gelu_layers(layers, rows, width, hidden):
    # Of each layer a gradient keeps the product, its square, the hyperbolic tangent and what multiplies it; all but the product follow from that.
    def loss(ws, x):
        for inner, outer in ws:
            x = x + jax.nn.gelu(x @ inner) @ outer
        return jnp.sum(x * x)

    ws = [(shape((width, hidden)), shape((hidden, width)))] * layers
    return jax.grad(loss), (ws, shape((rows, width)))


@twins("rematerialize", "fires-convolutions", big=dict(layers=5, examples=16, size=64, width=32), small=dict(layers=5, examples=2, size=6, width=4))
def convolutions(layers, examples, size, width):
    # Normalised over the batch, so that no loop over examples computes the same.
    def norm(x, scale):
        mean = x.mean((0, 1, 2))
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean((0, 1, 2)) + 1e-5) * scale

    def loss(ws, x):
        for kernel, scale in ws:
            h = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = x + jax.nn.silu(norm(h, scale))
        return jnp.sum(x * x)

    return jax.grad(loss), ([(shape((3, 3, width, width)), shape((width,)))] * layers, shape((examples, size, size, width)))


@twins("rematerialize", "fires-normalised", big=dict(layers=6, rows=1 << 13, width=512), small=dict(layers=5, rows=48, width=8))
def normalised(layers, rows, width):
    # Means and variances are small and stay; the rows that they normalise do not.
    def norm(x, scale):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale

    def loss(ws, x):
        for w, scale in ws:
            x = x + jax.nn.silu(norm(x, scale) @ w)
        return jnp.sum(x * x)

    return jax.grad(loss), ([(shape((width, width)), shape((width,)))] * layers, shape((rows, width)))


@twins("rematerialize", "keeps-products", big=dict(layers=6, rows=1 << 13, width=512), small=dict(layers=5, rows=48, width=8))
def products(layers, rows, width):
    # What a layer ends with is all that its gradient needs; only the product could be computed again, which takes time.
    def loss(ws, x):
        for w in ws:
            x = jnp.tanh(x @ w)
        return jnp.sum(x * x)

    return jax.grad(loss), ([shape((width, width))] * layers, shape((rows, width)))


@twins("rematerialize", "keeps-results", big=dict(layers=6, rows=1 << 13, width=512), small=dict(layers=5, rows=48, width=8))
def results(layers, rows, width):
    # The activations are results too.
    def loss(ws, x):
        seen = []
        for w in ws:
            h = x @ w
            x = jax.nn.sigmoid(h)
            seen.append((h, x))
        return jnp.sum(x * x), seen

    return jax.grad(loss, has_aux=True), ([shape((width, width))] * layers, shape((rows, width)))
