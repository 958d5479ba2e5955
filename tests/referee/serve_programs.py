"""Loops that people run besides training steps: generation of text, epochs over data on the device, reinforcement learning, sampling, search.

Some stand beside a form by hand (`..._by_hand`) that holds nothing twice.

    serve_programs.py FOLDER [NAME ...]

writes them as text before optimization, as `step_programs.py` does.
"""
import jax
import jax.numpy as jnp
from jax import lax, random

import step_programs
from step_programs import KEY, array, bf16, convolve, dense, f32, linear, s32

PROGRAMS = {}
LAYERS, WIDTH, HEADS, WORDS = 24, 2048, 16, 32000


def program(*donated):
    """Registers a function that gives a program and the shapes of its arguments, of which some are donated."""
    def register(function):
        PROGRAMS[function.__name__] = (function, donated)
        return function
    return register


def language_model():
    square, wide = array(LAYERS, WIDTH, WIDTH, of=bf16), array(LAYERS, WIDTH, 4 * WIDTH, of=bf16)
    tall = array(LAYERS, 4 * WIDTH, WIDTH, of=bf16)
    return {"words": array(WORDS, WIDTH, of=bf16), "layers": {"q": square, "k": square, "v": square, "o": square, "up": wide, "down": tall}}


def normalized(x):
    return (x.astype(f32) * lax.rsqrt((x.astype(f32) ** 2).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)


def layer_of(w, x, keys, values, at):
    """One layer behind one more word of each text, and its keys and values with those of that word."""
    texts, length, width = keys.shape[0], keys.shape[1], WIDTH // HEADS
    h = normalized(x)
    add = lambda cache, new: lax.dynamic_update_slice(cache, new.reshape(texts, 1, HEADS, width), (0, at, 0, 0))  # noqa: E731
    keys, values = add(keys, h @ w["k"]), add(values, h @ w["v"])
    scores = jnp.einsum("bhd,bshd->bhs", (h @ w["q"]).reshape(texts, HEADS, width), keys).astype(f32) / width**.5
    scores = jnp.where(jnp.arange(length) <= at, scores, -1e30)
    seen = jnp.einsum("bhs,bshd->bhd", jax.nn.softmax(scores).astype(bf16), values)
    x = x + seen.reshape(texts, WIDTH) @ w["o"]
    return x + jax.nn.gelu(normalized(x) @ w["up"]) @ w["down"], keys, values


def next_words(model, words, keys, values, at):
    """Logits behind one more word of each text, and the cache of all layers with it: a scan over layers reads the cache and gives it back."""
    def layer(x, part):
        x, keys, values = layer_of(part[0], x, *part[1:], at)
        return x, (keys, values)

    x, (keys, values) = lax.scan(layer, model["words"][words], (model["layers"], keys, values))
    return normalized(x) @ model["words"].T, keys, values


def next_words_by_hand(model, words, keys, values, at):
    """The same, where the scan carries the cache of all layers."""
    def layer(state, part):
        x, keys, values = state
        w, number = part
        x, key, value = layer_of(w, x, keys[number], values[number], at)
        return (x, keys.at[number].set(key), values.at[number].set(value)), None

    state = model["words"][words], keys, values
    (x, keys, values), _ = lax.scan(layer, state, (model["layers"], jnp.arange(LAYERS)))
    return normalized(x) @ model["words"].T, keys, values


def decoding(next_words):
    def run(model, words, key):
        cache = jnp.zeros((LAYERS, words.shape[0], 2048, HEADS, WIDTH // HEADS), bf16)

        def word(state, at):
            words, keys, values, key = state
            logits, keys, values = next_words(model, words, keys, values, at)
            key, now = random.split(key)
            words = random.categorical(now, logits.astype(f32))
            return (words, keys, values, key), words

        return lax.scan(word, (words, cache, cache, key), jnp.arange(512))[1]

    return run, (language_model(), array(16, of=s32), KEY)


@program()
def decode():
    """512 words for each of 16 texts of up to 2,048."""
    return decoding(next_words)


@program()
def decode_by_hand():
    return decoding(next_words_by_hand)


@program(1, 2)
def beam():
    """Beam search: the cache follows the four best of each text."""
    def run(model, keys, values, words, score):
        texts, beams = score.shape

        def word(state, at):
            words, score, keys, values = state
            logits, keys, values = next_words(model, words.reshape(-1), keys, values, at)
            logs = score[..., None] + jax.nn.log_softmax(logits.astype(f32)).reshape(texts, beams, WORDS)
            score, best = lax.top_k(logs.reshape(texts, -1), beams)
            of = (best // WORDS + jnp.arange(texts)[:, None] * beams).reshape(-1)
            return (best % WORDS, score, keys[:, of], values[:, of]), (best % WORDS, best // WORDS)

        (_, score, keys, values), path = lax.scan(word, (words, score, keys, values), jnp.arange(128, 256))
        return path, score, keys, values

    cache = array(LAYERS, 32, 1024, HEADS, WIDTH // HEADS, of=bf16)
    return run, (language_model(), cache, cache, array(8, 4, of=s32), array(8, 4))


def descend(loss, weights, momentum, *batch):
    """A step with momentum."""
    value, slope = jax.value_and_grad(loss)(weights, *batch)
    momentum = jax.tree.map(lambda m, g: .9 * m + g, momentum, slope)
    return (jax.tree.map(lambda p, m: p - .01 * m, weights, momentum), momentum), value


@program(0, 1)
def epochs():
    """Ten epochs over 50,000 images on the device, each in an order of its own, half of the images mirrored."""
    weights = {"c": [array(3, 3, 3, 64), array(3, 3, 64, 128)], "f": linear(8192, 10)}

    def loss(weights, x, y):
        for kernel in weights["c"]:
            x = jax.nn.relu(convolve(x, kernel, 2))
        return -(jax.nn.log_softmax(dense(x.reshape(x.shape[0], -1), weights["f"])) * y).sum(-1).mean()

    def run(weights, momentum, images, labels, key):
        def epoch(state, key):
            order, mirror = random.split(key)
            order = random.permutation(order, images.shape[0])
            x, y = images[order], jax.nn.one_hot(labels[order], 10)
            mirror = random.bernoulli(mirror, .5, (x.shape[0], 1, 1, 1))
            x = jnp.where(mirror, x[:, :, ::-1], x).astype(f32) / 127.5 - 1
            batches = x.reshape(100, -1, 32, 32, 3), y.reshape(100, -1, 10)
            return lax.scan(lambda state, batch: descend(loss, *state, *batch), state, batches)
        return lax.scan(epoch, (weights, momentum), random.split(key, 10))

    return run, (weights, weights, array(50000, 32, 32, 3, of=jnp.uint8), array(50000, of=s32), KEY)


@program(0, 1)
def policy():
    """A policy in 4,096 simulated worlds of 256 steps, then four epochs of 32 batches, as PureJaxRL does it."""
    weights = {"a": linear(64, 256), "b": linear(256, 256), "pi": linear(256, 8), "v": linear(256, 1)}

    def act(weights, seen):
        x = jnp.tanh(dense(jnp.tanh(dense(seen, weights["a"])), weights["b"]))
        return jax.nn.log_softmax(dense(x, weights["pi"])), dense(x, weights["v"])[..., 0]

    def pick(logs, action):
        return jnp.take_along_axis(logs, action[:, None], 1)[:, 0]

    def loss(weights, seen, action, old, advantage, gain):
        logs, value = act(weights, seen)
        ratio = jnp.exp(pick(logs, action) - old)
        clipped = -jnp.minimum(ratio * advantage, jnp.clip(ratio, .8, 1.2) * advantage).mean()
        return clipped + .25 * ((value - gain) ** 2).mean() + .01 * (jnp.exp(logs) * logs).sum(-1).mean()

    def run(weights, momentum, worlds, key):
        world, turn = random.normal(random.key(0), (64, 64)) * .1, random.normal(random.key(1), (8, 64))

        def live(seen, key):
            logs, value = act(weights, seen)
            action = random.categorical(key, logs)
            after = jnp.tanh(seen @ world + turn[action])
            return after, (seen, action, pick(logs, action), value, -(after**2).mean(-1))

        def back(state, now):
            advantage, after = state
            value, reward = now
            advantage = reward + .99 * after - value + .94 * advantage
            return (advantage, value), advantage

        worlds, (seen, action, old, value, reward) = lax.scan(live, worlds, random.split(key, 256))
        _, advantage = lax.scan(back, (0 * value[0], act(weights, worlds)[1]), (value, reward), reverse=True)
        data = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (seen, action, old, advantage, advantage + value))

        def epoch(state, key):
            order = random.permutation(key, data[0].shape[0])
            batches = jax.tree.map(lambda x: jnp.take(x, order, axis=0).reshape(32, -1, *x.shape[1:]), data)
            return lax.scan(lambda state, batch: descend(loss, *state, *batch), state, batches)

        (weights, momentum), losses = lax.scan(epoch, (weights, momentum), random.split(key, 4))
        return weights, momentum, worlds, losses

    return run, (weights, weights, array(4096, 64), KEY)


TABLES = array(26, 1000000, 64), array(26, 1000000, 64), array(65536, 26, 64), array(65536, 26, of=s32)


def adagrad(table, squares, slope):
    squares = squares + slope * slope
    return table - .01 * slope * lax.rsqrt(squares + 1e-8), squares


@program(0, 1)
def tables():
    """Adagrad for the tables of a recommendation model."""
    def run(tables, squares, slopes, rows):
        gathered = jax.vmap(lambda table, at, slope: jnp.zeros_like(table).at[at].add(slope), (0, 1, 1))
        return adagrad(tables, squares, gathered(tables, rows, jnp.tanh(slopes)))

    return run, TABLES


@program(0, 1)
def tables_by_hand():
    """Table by table, each in its place."""
    def run(tables, squares, slopes, rows):
        slopes = jnp.tanh(slopes)

        def one(number, state):
            tables, squares = state
            slope = jnp.zeros_like(tables[number]).at[rows[:, number]].add(slopes[:, number])
            table, square = adagrad(tables[number], squares[number], slope)
            return tables.at[number].set(table), squares.at[number].set(square)

        return lax.fori_loop(0, 26, one, (tables, squares))

    return run, TABLES


@program()
def chains():
    """64 chains of Hamiltonian Monte Carlo for a logistic regression, and percentiles of their 500 samples."""
    def run(x, y, start, key):
        def log_density(w):
            z = x @ w
            return (y * z - jnp.logaddexp(0, z)).sum() - .5 * (w**2).sum()
        density, slope = jax.vmap(log_density), jax.vmap(jax.grad(log_density))

        def sample(w, key):
            speed, chance = random.split(key)
            p = random.normal(speed, w.shape)

            def leap(state, _):
                w, p = state
                p = p + .005 * slope(w)
                w = w + .01 * p
                return (w, p + .005 * slope(w)), None

            (there, q), _ = lax.scan(leap, (w, p), None, length=10)
            gain = density(there) - density(w) - .5 * ((q**2).sum(-1) - (p**2).sum(-1))
            w = jnp.where((jnp.log(random.uniform(chance, gain.shape)) < gain)[:, None], there, w)
            return w, w

        _, samples = lax.scan(sample, start, random.split(key, 500))
        return samples.mean(0), samples.std(0), jnp.percentile(samples, jnp.array([5., 50., 95.]), axis=0)

    return run, (array(100000, 256), array(100000), array(64, 256), KEY)


@program()
def documents():
    """The hundred best of four million documents for each of 1,024 questions."""
    def run(questions, documents):
        return lax.top_k((questions @ documents.T).astype(f32), 100)

    return run, (array(1024, 768, of=bf16), array(4000000, 768, of=bf16))


if __name__ == "__main__":
    step_programs.write(PROGRAMS)
