"""Programs whose temporaries XLA:CPU makes long before they are needed: tie should make them wait (fires-*) or leave them (keeps-*)."""
import jax
import jax.numpy as jnp

from programs.catalog import program, shape, twins


@twins("tie", "fires-bf16-weights", big=dict(layers=8, width=2048), small=dict(layers=4, width=24), dtype="bfloat16")
@twins("tie", "fires-f16-weights", big=dict(layers=8, width=2048), small=dict(layers=4, width=24), dtype="float16")
@twins("tie", "keeps-f32-weights", big=dict(layers=8, width=2048), small=dict(layers=4, width=24), dtype="float32")
def weights(layers, width, dtype):
    # XLA:CPU widens every half-precision weight before the first product; f32 weights it reads where they stand.
    def net(x, *ws):
        for w in ws:
            x = jnp.tanh(x @ w)
        return x

    return net, (shape((8, width), dtype), *[shape((width, width), dtype) for _ in range(layers)])


@twins("tie", "fires-int8-weights", big=dict(layers=8, width=2048), small=dict(layers=4, width=24))
def quantized_weights(layers, width):
    def net(x, *ws):
        for w in ws:
            x = jnp.tanh(x @ (w.astype(jnp.float32) * 0.01))
        return x

    return net, (shape((8, width)), *[shape((width, width), "int8") for _ in range(layers)])


@twins("tie", "fires-remat", big=dict(layers=8, rows=1 << 13, width=512), small=dict(layers=8, rows=40, width=12))
def checkpointed_blocks(layers, rows, width):
    def block(x, ws):
        for w in ws:
            x = jnp.tanh(x @ w)
        return x

    def loss(x, *ws):
        for k in range(0, layers, 2):
            x = jax.checkpoint(block)(x, ws[k:k + 2])
        return jnp.sum(x)

    arguments = (shape((rows, width)), *[shape((width, width)) for _ in range(layers)])
    return jax.grad(loss, tuple(range(1, layers + 1))), arguments


@twins("tie", "fires-sorts", big=dict(pieces=6, rows=1 << 22), small=dict(pieces=4, rows=60))
def independent_sorts(pieces, rows):
    # Each piece reads an array of its own, so that a loop would have to stack them.
    def medians(*xs):
        return tuple(jnp.sort(jnp.sin(x))[rows // 2] for x in xs)

    return medians, tuple(shape((rows,)) for _ in range(pieces))


@program("tie", "fires-gathered-weights", devices=8, layers=4, width=2048, rows=4096)
def gathered_weights(layers, width, rows):
    # Every device gathers all weights before the first product.
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices()[:8], ("d",))

    def split(*dims):
        return jax.ShapeDtypeStruct(dims, jnp.float32, sharding=NamedSharding(mesh, PartitionSpec("d")))

    def net(x, *ws):
        for w in ws:
            x = jnp.tanh(x @ w)
        return jnp.sum(x)

    return net, (split(rows, width), *[split(width, width) for _ in range(layers)])
