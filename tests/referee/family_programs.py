"""JAX programs of the families that blocks help: each at full size, where only XLA's bytes are asked for, and reduced, to be run.

A program is `name -> (function, shapes at full size, reduced shapes, exactness, hand-written form or None)`; a shape is (dims, type).
`BUDGETS` has the `--budget` of those that are to fit one: at full size, and reduced.
"""
import jax
import jax.numpy as jnp
from jax import lax


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8.0
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jax.nn.softmax(jnp.where(mask, scores, -1e30), -1) @ v


attention_gradient = jax.grad(lambda q, k, v: attention(q, k, v).sum(), (0, 1, 2))


def one_head(q, k, v):
    return jax.nn.softmax(q @ k.T / 8.0, -1) @ v


def cross_entropy(x, w, y):
    scores = x @ w
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores), y[:, None], 1)
    return -picked.mean()


def kernel_sum(x, y, w):
    distance = jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, -1)
    return jnp.sum(w[None, :] * jnp.exp(-0.5 * distance), 1)


def nearest(x, y):
    return jnp.min(jnp.sqrt(jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, -1)), 1)


def assign(x, y):
    return jnp.argmin(jnp.sum(x**2, -1)[:, None] + jnp.sum(y**2, -1)[None] - 2 * x @ y.T, 1)


def clipped(w, x, y):
    gradient = jax.grad(lambda w: jnp.sum((jnp.tanh(x @ w) - y) ** 2))(w)
    return gradient / jnp.maximum(1.0, jnp.linalg.norm(gradient))


def per_example(w, x, y):
    return jnp.mean(jax.vmap(clipped, (None, 0, 0))(w, x, y), 0)


def network(x, w1, w2):
    return jnp.sum(jnp.tanh(jax.nn.gelu(x @ w1) @ w2) ** 2)


def perceptron(x, *weights):
    for w in weights:
        x = jax.nn.gelu(x @ w)
    return jnp.sum(x**2)


def neighbours(x, nearby, w):
    own = jnp.broadcast_to(x[:, None], (*nearby.shape, x.shape[1]))
    return jax.nn.relu(jnp.concatenate([own, x[nearby] - x[:, None]], -1) @ w).max(1)


def bilateral(image, sharpness):
    """Every pixel as a mean of the 25 around it, the alike ones counting more."""
    total, weights = 0.0, 0.0
    for shift in [(row, column) for row in range(-2, 3) for column in range(-2, 3)]:
        moved = jnp.roll(image, shift, (1, 2))
        weight = jnp.exp(-jnp.sum((moved - image) ** 2, -1, keepdims=True) * sharpness)
        total, weights = total + weight * moved, weights + weight
    return total / weights


def messages(x, source, target, w):
    sent = jnp.tanh(x[source] @ w - x[target])
    return jnp.zeros_like(x).at[target].add(sent)


def bag(table, tokens):
    return table[tokens].mean(1)


def contrastive(a, b):
    """The loss of pairs among all pairs, along rows and along columns."""
    pairs, same = a @ b.T, jnp.sum(a * b, 1)
    return jnp.sum(jax.nn.logsumexp(pairs, 1) - same) + jnp.sum(jax.nn.logsumexp(pairs, 0) - same)


def sinkhorn(a, b):
    pairs = a @ b.T
    u = -jax.nn.logsumexp(pairs, 1)
    v = -jax.nn.logsumexp(pairs + u[:, None], 0)
    return -jax.nn.logsumexp(pairs + v[None, :], 1), v


def attraction(x):
    """The energy of all pairs of points: its gradient sums the same pairs along rows and along columns."""
    distance = jnp.sqrt(jnp.sum((x[:, None] - x[None]) ** 2, -1) + 1e-3)
    return jnp.sum(jnp.exp(-(distance**2)) * (1 - jnp.eye(len(x))))


def mixture(x, centers):
    return -jnp.sum(jax.nn.logsumexp(-jnp.sum((x[:, None] - centers[None]) ** 2, -1), 1))


def layer(x, w):
    y = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return jax.nn.gelu(y * w)


def histogram(x):
    return jnp.histogram(x, bins=100, range=(-3.0, 3.0))[0]


def pooled(x):
    windows = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jnp.sum(windows**2)


def dropout(key, x):
    return jnp.where(jax.random.bernoulli(jax.random.wrap_key_data(key), 0.9, x.shape), x / 0.9, 0.0)


def rotated(x):
    """Rotary positions of `[batch, place, head, number]`."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] / 10000 ** (jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    left, right = x[..., :half], x[..., half:]
    return jnp.concatenate([left * cos - right * sin, left * sin + right * cos], -1)


def rotary(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", rotated(q), rotated(k)) / q.shape[-1] ** 0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(causal, scores, -1e30), -1), v)


def cross_attention(x, memory, wq, wk, wv):
    q, k, v = x @ wq, memory @ wk, memory @ wv
    heads = lambda y: y.reshape(*y.shape[:2], -1, 64)
    scores = jnp.einsum("bqhd,bkhd->bhqk", heads(q), heads(k)) / 8.0
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), heads(v)).reshape(x.shape)


def block(x, wq, wk, wv, wo, w1, w2):
    """A transformer block with norms before attention and feed-forward network."""
    norm = lambda y: (y - y.mean(-1, keepdims=True)) * lax.rsqrt(y.var(-1, keepdims=True) + 1e-5)
    heads = lambda y: y.reshape(*y.shape[:2], -1, 64).transpose(0, 2, 1, 3)
    y = norm(x)
    mixed = attention(heads(y @ wq), heads(y @ wk), heads(y @ wv))
    x = x + mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ wo
    return x + jax.nn.gelu(norm(x) @ w1) @ w2


def heads_layer(x, wq, wk, wv, wo):
    """Causal attention of heads of 64 numbers, with its weights."""
    heads = lambda y: y.reshape(*y.shape[:2], -1, 64).transpose(0, 2, 1, 3)
    mixed = attention(heads(x @ wq), heads(x @ wk), heads(x @ wv))
    return mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ wo


def language_model(table, *rest):
    """Loss of the next word after two blocks; weights are scaled as they are when training begins."""
    *layers, words = rest
    words = words % table.shape[0]
    x = table[words[:, :-1]]
    for at in range(2):
        x = block(x, *(0.02 * weights[at] for weights in layers))
    scores = jax.nn.log_softmax(0.02 * x @ table.T)
    return -jnp.take_along_axis(scores, words[:, 1:, None], 2).mean()


def message_network(x, sources, targets, w1, w2, u):
    """Mean square of what nodes hold after a round of messages, each from a network of two layers."""
    m = jax.nn.relu(jnp.concatenate([x[sources], x[targets]], 1) @ w1)
    received = jnp.zeros((x.shape[0], w2.shape[1])).at[targets].add(jax.nn.relu(m @ w2))
    return ((x + jnp.tanh(jnp.concatenate([x, received], 1) @ u)) ** 2).mean()


def warping_cost(x, y):
    """Cost of the best way through all distances, a row after the other."""
    def step(best, row):
        return jnp.minimum(best, jnp.concatenate([jnp.full((1,), 1e9), best[:-1]])) + row, None

    return lax.scan(step, jnp.zeros(y.shape[0]), ((x[:, None] - y[None]) ** 2).sum(-1))[0]


def memory_cells(w, u, b, x):
    """A layer of long short-term memory."""
    def step(state, row):
        hidden, cell = state
        put, keep, show, new = jnp.split(row @ w + hidden @ u + b, 4, -1)
        cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(put) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(show) * jnp.tanh(cell)
        return (hidden, cell), hidden

    empty = jnp.zeros((x.shape[1], u.shape[0]))
    return jnp.sum(lax.scan(step, (empty, empty), x)[1] ** 2)


def tied_model(w, v, words, text, labels):
    """One block between a vocabulary and its own scores."""
    hidden = words[text]
    hidden = hidden + jax.nn.gelu(hidden @ w) @ v
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(hidden @ words.T), labels[..., None], -1))


def projected(w, u, start, x):
    """A recurrent network whose inputs are multiplied with their weights beforehand."""
    return lax.scan(lambda state, row: (jnp.tanh(state @ u + row), None), start, x @ w)[0]


def rays(cloud, start, direction):
    """What 64 steps along each ray look up, summed and squared."""
    def step(total, t):
        at = jnp.clip((start + t * direction) * 64, 0, 63).astype(jnp.int32)
        return total + cloud[tuple(at.T)], None
    return jnp.sum(lax.scan(step, jnp.zeros(len(start)), jnp.linspace(0, 1, 64))[0] ** 2)


def normed_waves(x, scale, offset):
    """Sines of normalized rows."""
    normed = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return jnp.sum(jnp.sin(normed * scale + offset))


def batch_norm(x, scale, offset):
    """Features normalized over a batch, under a `tanh`."""
    mean = x.mean((0, 1, 2))
    variance = ((x - mean) ** 2).mean((0, 1, 2))
    return jnp.sum(jnp.tanh((x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset))


def deviation(x, segment):
    count = jax.ops.segment_sum(jnp.ones_like(x), segment, 4096)
    mean = jax.ops.segment_sum(x, segment, 4096) / count
    return jnp.sqrt(jax.ops.segment_sum((x - mean[segment]) ** 2, segment, 4096) / count)


def hidden_states(moves, start, seen):
    """How likely what was seen is, by the forward algorithm on logarithms."""
    def step(state, seen):
        return jax.nn.logsumexp(state[:, :, None] + moves[None], axis=1) + seen, None

    return jnp.sum(jax.nn.logsumexp(lax.scan(step, start, seen)[0], axis=1))


def orbits(points):
    """Fifty steps of the classical Runge-Kutta method for Lorenz's attractor."""
    def speed(points):
        x, y, z = points
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def step(points, _):
        first = speed(points)
        second = speed(points + 0.005 * first)
        third = speed(points + 0.005 * second)
        last = speed(points + 0.01 * third)
        return points + 0.01 / 6 * (first + 2 * second + 2 * third + last), None

    return jnp.sum(lax.scan(step, points, None, length=50)[0] ** 2)


def backward_scan(x, start):
    """A recurrence from the last row to the first."""
    def step(state, row):
        return jnp.log1p(jnp.exp(state)) * jax.nn.sigmoid(row), state**2

    return jnp.sum(lax.scan(step, start, x, reverse=True)[1])


def normed_layers(weights, x):
    """Layers under a `scan`, each behind a normalization; weights are scaled as they are when training begins."""
    def normed(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def layer(x, weights):
        first, second = weights
        return x + jax.nn.gelu(normed(x) @ (0.05 * first)) @ (0.05 * second), None

    return jnp.mean(lax.scan(layer, x, weights)[0] ** 2)


def frames(kernel, images):
    pixels = images.astype(jnp.float32) / 255.0
    dims = ("NHWC", "HWIO", "NHWC")
    return jnp.sum(jax.nn.relu(lax.conv_general_dilated(pixels, kernel, (4, 4), "VALID", dimension_numbers=dims)) ** 2)


def sampled(volume, places):
    return jnp.sum(jax.scipy.ndimage.map_coordinates(volume, places, order=1, mode="constant") ** 2)


def sines(places, first, second, last):
    """A network that tells colours of places, with sines between its layers."""
    return jnp.sum((jnp.sin(jnp.sin(places @ first) @ second) @ last) ** 2)


def warped(image, flow, target):
    """Squared error of an image whose every place is read, between four neighbours, from where the flow points."""
    count, height, width, _ = image.shape
    rows, columns = jnp.meshgrid(jnp.arange(height, dtype=F32), jnp.arange(width, dtype=F32), indexing="ij")
    y, x = rows + flow[..., 0], columns + flow[..., 1]
    top, left = jnp.floor(y), jnp.floor(x)
    down, right = (y - top)[..., None], (x - left)[..., None]
    top, left = top.astype(int), left.astype(int)
    images = jnp.arange(count)[:, None, None]
    at = lambda i, j: image[images, jnp.clip(i, 0, height - 1), jnp.clip(j, 0, width - 1)]
    above = at(top, left) * (1 - down) * (1 - right) + at(top, left + 1) * (1 - down) * right
    below = at(top + 1, left) * down * (1 - right) + at(top + 1, left + 1) * down * right
    return jnp.sum((above + below - target) ** 2)


def by_rows(function, count):
    """A hand-written form: `function` on blocks of the first argument's rows."""

    def blocks(x, *rest):
        parts = lax.map(lambda part: function(part, *rest), x.reshape(count, -1, *x.shape[1:]))
        return parts.reshape(x.shape[0], *parts.shape[2:])

    return blocks


F32, BF16, S32, U32, U8 = "float32", "bfloat16", "int32", "uint32", "uint8"
PROGRAMS = {
    "attention": (attention, [((2, 8, 4096, 64), F32)] * 3, [((1, 4, 1024, 64), F32)] * 3, "hlo-exact", None),
    "attention-gradient": (
        attention_gradient, [((2, 8, 4096, 64), F32)] * 3, [((1, 4, 1024, 64), F32)] * 3, "hlo-exact", None),
    "one-head-gradient": (
        jax.grad(lambda q, k, v: one_head(q, k, v).sum(), (0, 1, 2)),
        [((16384, 64), F32)] * 3, [((2048, 64), F32)] * 3, "reassociate", None),
    "cross-entropy-gradient": (
        jax.value_and_grad(cross_entropy, (0, 1)),
        [((8192, 1024), F32), ((1024, 128256), F32), ((8192,), S32)],
        [((1024, 64), F32), ((64, 16384), F32), ((1024,), S32)], "reassociate", None),
    "kernel-gradient": (
        jax.grad(lambda x, y, w: kernel_sum(x, y, w).sum(), (0, 1, 2)),
        [((100_000, 3), F32), ((100_000, 3), F32), ((100_000,), F32)],
        [((4096, 3), F32), ((2048, 3), F32), ((2048,), F32)], "hlo-exact", None),
    "nearest-gradient": (
        jax.grad(lambda x, y: nearest(x, y).sum()), [((100_000, 3), F32)] * 2,
        [((4096, 3), F32), ((2048, 3), F32)], "hlo-exact",
        by_rows(jax.grad(lambda x, y: nearest(x, y).sum()), 1000)),
    "assignment": (
        assign, [((65536, 64), F32)] * 2, [((8192, 64), F32), ((4096, 64), F32)], "hlo-exact", by_rows(assign, 256)),
    "set-and-sum": (
        lambda x, i: jax.vmap(lambda i: x.at[i].set(7.0).sum())(i),
        [((100_000,), F32), ((100_000,), S32)], [((4096,), F32), ((8192,), S32)], "hlo-exact", None),
    "per-example-gradient": (
        per_example, [((1024, 1024), F32), ((4096, 1024), F32), ((4096, 1024), F32)],
        [((128, 128), F32), ((2048, 128), F32), ((2048, 128), F32)], "reassociate", None),
    "network-gradient": (
        jax.grad(network, (1, 2)), [((262144, 512), F32), ((512, 2048), F32), ((2048, 512), F32)],
        [((32768, 64), F32), ((64, 512), F32), ((512, 64), F32)], "reassociate", None),
    "graph-layer": (
        messages, [((131072, 64), F32), ((4194304,), S32), ((4194304,), S32), ((64, 64), F32)],
        [((4096, 32), F32), ((262144,), S32), ((262144,), S32), ((32, 32), F32)], "hlo-exact", None),
    "graph-gradient": (
        jax.grad(lambda x, s, t, w: jnp.sum(messages(x, s, t, w) ** 2), (0, 3)),
        [((131072, 64), F32), ((4194304,), S32), ((4194304,), S32), ((64, 64), F32)],
        [((4096, 32), F32), ((262144,), S32), ((262144,), S32), ((32, 32), F32)], "reassociate", None),
    "message-network-gradient": (
        jax.grad(message_network, (3, 4, 5)),
        [((131072, 64), F32), ((1048576,), S32), ((1048576,), S32), ((128, 64), F32), ((64, 64), F32), ((128, 64), F32)],
        [((32768, 64), F32), ((262144,), S32), ((262144,), S32), ((128, 64), F32), ((64, 64), F32), ((128, 64), F32)], "reassociate", None),
    "warping-cost": (warping_cost, [((16384, 32), F32)] * 2, [((8192, 64), F32)] * 2, "hlo-exact", None),
    "neighbours": (
        neighbours, [((262144, 32), F32), ((262144, 16), S32), ((64, 64), F32)],
        [((32768, 32), F32), ((32768, 16), S32), ((64, 64), F32)], "hlo-exact", None),
    "bilateral": (
        bilateral, [((4, 2048, 2048, 3), F32), ((), F32)], [((2, 512, 512, 3), F32), ((), F32)], "hlo-exact", None),
    "embedding-bag": (
        bag, [((32000, 256), F32), ((65536, 16), S32)], [((4096, 64), F32), ((32768, 16), S32)], "hlo-exact", None),
    "embedding-bag-gradient": (
        jax.grad(lambda t, i: jnp.sum(bag(t, i) ** 2)),
        [((32000, 256), F32), ((65536, 16), S32)], [((4096, 64), F32), ((32768, 16), S32)], "hlo-exact", None),
    "cross-entropy-bf16-gradient": (
        jax.value_and_grad(cross_entropy, (0, 1)),
        [((8192, 1024), BF16), ((1024, 128256), BF16), ((8192,), S32)],
        [((1024, 64), BF16), ((64, 16384), BF16), ((1024,), S32)], "reassociate", None),
    "rotary": (rotary, [((2, 4096, 8, 64), F32)] * 3, [((1, 1024, 4, 64), F32)] * 3, "hlo-exact", None),
    "cross-attention": (
        cross_attention, [((2, 4096, 512), F32), ((2, 4096, 512), F32), *[((512, 512), F32)] * 3],
        [((1, 1024, 256), F32), ((1, 1024, 256), F32), *[((256, 256), F32)] * 3], "hlo-exact", None),
    "block": (
        block, [((2, 4096, 512), F32), *[((512, 512), F32)] * 4, ((512, 2048), F32), ((2048, 512), F32)],
        [((1, 1024, 256), F32), *[((256, 256), F32)] * 4, ((256, 1024), F32), ((1024, 256), F32)], "hlo-exact", None),
    "block-gradient": (
        jax.grad(lambda *a: jnp.sum(block(*a) ** 2), tuple(range(7))),
        [((2, 4096, 512), F32), *[((512, 512), F32)] * 4, ((512, 2048), F32), ((2048, 512), F32)],
        [((1, 1024, 256), F32), *[((256, 256), F32)] * 4, ((256, 1024), F32), ((1024, 256), F32)],
        "reassociate", None),
    "attention-layer-gradient": (
        jax.grad(lambda *a: jnp.sum(heads_layer(*a) ** 2), tuple(range(5))),
        [((2, 4096, 512), F32), *[((512, 512), F32)] * 4], [((1, 1024, 512), F32), *[((512, 512), F32)] * 4], "hlo-exact", None),
    "language-model-gradient": (
        jax.value_and_grad(language_model, tuple(range(7))),
        [((32768, 512), F32), *[((2, 512, 512), F32)] * 4, ((2, 512, 2048), F32), ((2, 2048, 512), F32), ((8, 2049), S32)],
        [((8192, 256), F32), *[((2, 256, 256), F32)] * 4, ((2, 256, 1024), F32), ((2, 1024, 256), F32), ((4, 513), S32)],
        "hlo-exact", None),
    "short-block": (
        block, [((16, 2048, 256), F32), *[((256, 256), F32)] * 4, ((256, 1024), F32), ((1024, 256), F32)],
        [((4, 512, 256), F32), *[((256, 256), F32)] * 4, ((256, 1024), F32), ((1024, 256), F32)], "hlo-exact", None),
    "perceptron-gradient": (
        jax.grad(perceptron, (1, 2, 3)), [((131072, 256), F32), ((256, 1024), F32), ((1024, 1024), F32), ((1024, 64), F32)],
        [((16384, 256), F32), ((256, 1024), F32), ((1024, 1024), F32), ((1024, 64), F32)], "hlo-exact", None),
    "attraction-gradient": (
        jax.grad(attraction), [((20000, 3), F32)], [((6000, 3), F32)], "hlo-exact", None),
    "mixture-gradient": (
        jax.grad(mixture, (0, 1)), [((20000, 8), F32), ((20000, 8), F32)], [((2000, 8), F32), ((2000, 8), F32)], "hlo-exact", None),
    "convolution-gradient": (
        jax.grad(frames), [((8, 8, 4, 32), F32), ((8192, 84, 84, 4), U8)],
        [((8, 8, 4, 32), F32), ((256, 84, 84, 4), U8)], "reassociate", None),
    "map-coordinates-gradient": (
        jax.grad(sampled, (0, 1)), [((256, 256, 256), F32), ((3, 16777216), F32)],
        [((64, 64, 64), F32), ((3, 262144), F32)], "hlo-exact", None),
    "warp-gradient": (
        jax.grad(warped, 1), [((1, 4096, 4096, 3), F32), ((1, 4096, 4096, 2), F32), ((1, 4096, 4096, 3), F32)],
        [((1, 1024, 1024, 3), F32), ((1, 1024, 1024, 2), F32), ((1, 1024, 1024, 3), F32)], "hlo-exact", None),
    "sines-gradient": (
        jax.grad(sines, (1, 2, 3)), [((4194304, 2), F32), ((2, 64), F32), ((64, 64), F32), ((64, 3), F32)],
        [((65536, 2), F32), ((2, 64), F32), ((64, 64), F32), ((64, 3), F32)], "hlo-exact", None),
    "hidden-states-gradient": (
        jax.grad(hidden_states), [((64, 64), F32), ((256, 64), F32), ((64, 256, 64), F32)],
        [((32, 32), F32), ((128, 32), F32), ((64, 128, 32), F32)], "hlo-exact", None),
    "orbits-gradient": (jax.grad(orbits), [((3, 4194304), F32)], [((3, 262144), F32)], "hlo-exact", None),
    "backward-scan-gradient": (
        jax.grad(backward_scan), [((64, 4194304), F32), ((4194304,), F32)], [((64, 131072), F32), ((131072,), F32)],
        "hlo-exact", None),
    "normed-layers-gradient": (
        jax.grad(lambda a, b, x: normed_layers((a, b), x), (0, 1)), [((24, 512, 2048), F32), ((24, 2048, 512), F32), ((8192, 512), F32)],
        [((8, 256, 1024), F32), ((8, 1024, 256), F32), ((2048, 256), F32)], "hlo-exact", None),
    "memory-cells-gradient": (
        jax.grad(memory_cells, (0, 1, 2)), [((256, 2048), F32), ((512, 2048), F32), ((2048,), F32), ((256, 256, 256), F32)],
        [((64, 256), F32), ((64, 256), F32), ((256,), F32), ((128, 256, 64), F32)], "hlo-exact", None),
    "tied-model-gradient": (
        jax.grad(tied_model, (0, 1, 2)), [((512, 2048), F32), ((2048, 512), F32), ((32000, 512), F32), ((16, 1024), S32), ((16, 1024), S32)],
        [((128, 512), F32), ((512, 128), F32), ((8192, 128), F32), ((4, 256), S32), ((4, 256), S32)], "hlo-exact", None),
    "projected": (
        projected, [((512, 1024), F32), ((1024, 1024), F32), ((256, 1024), F32), ((1024, 256, 512), F32)],
        [((128, 256), F32), ((256, 256), F32), ((256, 256), F32), ((128, 256, 128), F32)], "hlo-exact", None),
    "deviation": (deviation, [((67108864,), F32), ((67108864,), S32)], [((2097152,), F32), ((2097152,), S32)], "hlo-exact", None),
    "rays-gradient": (
        jax.grad(rays), [((64, 64, 64), F32), ((4194304, 3), F32), ((4194304, 3), F32)],
        [((64, 64, 64), F32), ((65536, 3), F32), ((65536, 3), F32)], "hlo-exact", None),
    "normed-waves-gradient": (
        jax.grad(normed_waves, (0, 1, 2)), [((131072, 1024), F32), ((1024,), F32), ((1024,), F32)],
        [((32768, 1024), F32), ((1024,), F32), ((1024,), F32)], "hlo-exact", None),
    "batch-norm-gradient": (
        jax.grad(batch_norm, (0, 1, 2)), [((256, 112, 112, 64), F32), ((64,), F32), ((64,), F32)],
        [((50, 100, 100, 64), F32), ((64,), F32), ((64,), F32)], "hlo-exact", None),
    "layer": (layer, [((65536, 2048), F32), ((2048,), F32)], [((16384, 512), F32), ((512,), F32)], "hlo-exact", None),
    "histogram": (histogram, [((268435456,), F32)], [((4194304,), F32)], "hlo-exact", None),
    "pooling-gradient": (
        jax.grad(pooled), [((64, 256, 256, 64), F32)], [((32, 64, 64, 64), F32)], "hlo-exact", None),
    "dropout": (
        dropout, [((2,), U32), ((16384, 16384), F32)], [((2,), U32), ((2048, 2048), F32)], "hlo-exact", None),
    "sorted-rows": (
        lambda x: jnp.sort(x, 1)[:, :8], [((16384, 2048), F32)], [((4096, 1024), F32)], "hlo-exact", None),
    "spectrum": (
        lambda x: jnp.sum(jnp.abs(jnp.fft.fft2(x)) ** 2, (1, 2)),
        [((256, 512, 512), F32)], [((256, 128, 128), F32)], "hlo-exact", None),
    "gather": (lambda x, i: x[i], [((1048576, 64), F32), ((4194304,), S32)], [((4096, 64), F32), ((65536,), S32)],
               "hlo-exact", None),
    "product": (lambda x, w: jnp.sum(jax.nn.gelu(x @ w), 1), [((65536, 1024), F32), ((1024, 64), F32)],
                [((16384, 256), F32), ((256, 64), F32)], "hlo-exact", None),
    "contrastive": (contrastive, [((16384, 64), F32)] * 2, [((2048, 64), F32)] * 2, "reassociate", None),
    "contrastive-gradient": (
        jax.grad(contrastive, (0, 1)), [((16384, 64), F32)] * 2, [((2048, 64), F32)] * 2, "reassociate", None),
    "sinkhorn": (sinkhorn, [((16384, 64), F32)] * 2, [((2048, 64), F32)] * 2, "reassociate", None),
}
BUDGETS = {"contrastive": ("32MiB", "8MiB"), "contrastive-gradient": ("32MiB", "8MiB"), "sinkhorn": ("32MiB", "8MiB")}
