"""Training steps and kernels over eight devices, as people write them: `PROGRAMS[name](small)` gives a function, its arguments as shapes with shardings,
and keywords of jit. Every program is also there at a size that a test can run."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def mesh(**axes):
    kinds = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=kinds)


def array(over, shape, *cut, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(over, P(*cut)))


@program
def language_loss(small):
    """A head of a language model in bf16, data parallel, with the loss that optax has."""
    over, (tokens, width, words) = mesh(d=8), (1024, 64, 512) if small else (65536, 1024, 32000)

    def loss(weights, states, labels):
        logits = (states @ weights.astype(jnp.bfloat16)).astype(jnp.float32)
        picked = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)

    states = array(over, (tokens, width), "d", dtype=jnp.bfloat16)
    return jax.value_and_grad(loss), (array(over, (width, words)), states, array(over, (tokens,), "d", dtype=jnp.int32)), {}


@program
def contrastive(small):
    """Pairs of pictures and texts: every device compares its own rows with those of all."""
    over, (rows, width) = mesh(d=8), (512, 32) if small else (32768, 512)

    def loss(pictures, texts):
        unit = [side / jnp.linalg.norm(side, axis=-1, keepdims=True) for side in (pictures, texts)]
        likeness = unit[0] @ unit[1].T * 20
        pairs = jnp.sum(unit[0] * unit[1], -1) * 20
        return jnp.mean(jax.nn.logsumexp(likeness, 1) - pairs)

    sides = array(over, (rows, width), "d")
    return jax.value_and_grad(loss, (0, 1)), (sides, sides), dict(out_shardings=(NamedSharding(over, P()), (sides.sharding,) * 2))


@program
def clusters(small):
    """A step of k-means: points on all devices, the middles on each."""
    over, (points, width, middles) = mesh(d=8), (4096, 8, 64) if small else (1 << 21, 32, 1024)

    def step(points, middles):
        distances = jnp.sum((points[:, None, :] - middles[None, :, :]) ** 2, -1)
        nearest = jnp.argmin(distances, 1)
        sums = jax.ops.segment_sum(points, nearest, middles.shape[0])
        counts = jax.ops.segment_sum(jnp.ones(points.shape[0]), nearest, middles.shape[0])
        return sums / jnp.maximum(counts, 1)[:, None]

    return step, (array(over, (points, width), "d"), array(over, (middles, width))), {}


@program
def block_of_two_axes(small):
    """Attention and a perceptron, examples cut along one axis and heads along the other."""
    over, (examples, length, heads, size, wide) = mesh(data=2, model=4), (4, 128, 4, 16, 256) if small else (8, 2048, 16, 64, 4096)
    width = heads * size

    def loss(weights, states):
        parts = jnp.einsum("btd,ndhe->nbhte", states, weights["qkv"])
        scores = jnp.einsum("bhqe,bhke->bhqk", parts[0], parts[1]) / np.sqrt(size)
        mixed = jnp.einsum("bhqk,bhke->bhqe", jax.nn.softmax(scores, -1), parts[2])
        states = states + jnp.einsum("bhqe,hed->bqd", mixed, weights["out"])
        return jnp.mean((states + jax.nn.gelu(states @ weights["up"]) @ weights["down"]) ** 2)

    weights = {"qkv": array(over, (3, width, heads, size), None, None, "model"), "out": array(over, (heads, size, width), "model"),
               "up": array(over, (width, wide), None, "model"), "down": array(over, (wide, width), "model")}
    cut = jax.tree.map(lambda leaf: leaf.sharding, weights)
    return jax.value_and_grad(loss), (weights, array(over, (examples, length, width), "data")), dict(out_shardings=(NamedSharding(over, P()), cut))


@program
def divided_optimizer(small):
    """Two layers whose Adam states are cut over the devices, with donated state."""
    over, (rows, width, wide) = mesh(d=8), (256, 64, 256) if small else (65536, 1024, 4096)

    def step(weights, means, squares, batch):
        def loss(weights):
            return jnp.mean((jnp.tanh(batch @ weights["up"]) @ weights["down"] - batch) ** 2)

        value, gradients = jax.value_and_grad(loss)(weights)
        means = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, means, gradients)
        squares = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new * new, squares, gradients)
        weights = jax.tree.map(lambda w, m, s: w - 1e-3 * m / (jnp.sqrt(s) + 1e-8), weights, means, squares)
        return value, weights, means, squares

    weights = {"up": array(over, (width, wide)), "down": array(over, (wide, width))}
    states = {"up": array(over, (width, wide), "d"), "down": array(over, (wide, width), "d")}
    where = [jax.tree.map(lambda leaf: leaf.sharding, tree) for tree in (weights, states, states)]
    given = dict(donate_argnums=(0, 1, 2), out_shardings=(NamedSharding(over, P()), *where))
    return step, (weights, states, states, array(over, (rows, width), "d")), given


@program
def experts(small):
    """Tokens go to the devices of their experts and back by two all-to-alls inside `shard_map`."""
    over, (tokens, width, wide) = mesh(d=8), (512, 32, 64) if small else (131072, 512, 2048)

    def local(states, up, down):
        sent = lax.all_to_all(states.reshape(8, -1, width), "d", 0, 0)
        made = jax.nn.gelu(sent.reshape(-1, width) @ up[0]) @ down[0]
        back = lax.all_to_all(made.reshape(8, -1, width), "d", 0, 0)
        return jnp.mean(back ** 2)[None]

    whole = jax.shard_map(local, mesh=over, in_specs=(P("d"), P("d"), P("d")), out_specs=P("d"))
    args = array(over, (tokens, width), "d"), array(over, (8, width, wide), "d"), array(over, (8, wide, width), "d")
    return jax.value_and_grad(lambda *args: whole(*args).mean(), (0, 1, 2)), args, {}


@program
def attention_in_a_ring(small):
    """Keys and values go round the devices; each holds the scores of its own queries with one part of them at a time."""
    over, (length, heads, size) = mesh(d=8), (256, 2, 16) if small else (16384, 8, 64)
    following = [(device, (device + 1) % 8) for device in range(8)]

    def local(q, k, v):
        def turn(carry, _):
            k, v, best, weight, mixed = carry
            scores = jnp.einsum("qhe,khe->hqk", q, k) / np.sqrt(size)
            new = jnp.maximum(best, scores.max(-1))
            part, old = jnp.exp(scores - new[..., None]), jnp.exp(best - new)
            weight = weight * old + part.sum(-1)
            mixed = mixed * old[..., None] + jnp.einsum("hqk,khe->hqe", part, v)
            return (lax.ppermute(k, "d", following), lax.ppermute(v, "d", following), new, weight, mixed), None

        varying = lambda *shape: lax.pcast(jnp.zeros(shape), ("d",), to="varying")  # noqa: E731
        rows = q.shape[0]
        first = k, v, varying(heads, rows) - 1e9, varying(heads, rows), varying(heads, rows, size)
        _, _, _, weight, mixed = lax.scan(turn, first, None, length=8)[0]
        return (mixed / weight[..., None]).transpose(1, 0, 2)

    ring = jax.shard_map(local, mesh=over, in_specs=(P("d"),) * 3, out_specs=P("d"))
    args = (array(over, (length, heads, size), "d"),) * 3
    return jax.value_and_grad(lambda *args: jnp.mean(ring(*args) ** 2), (0, 1, 2)), args, {}
