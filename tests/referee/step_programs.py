"""Training steps of many kinds, in plain JAX at the size that people train: nothing was built or tuned on them.

    step_programs.py FOLDER [NAME ...]

writes them as text before optimization, lowered without data. What a device's compiler says about one, and what becomes of it:

    hlo-opt FOLDER/vit.hlo --target gpu -o after.hlo
    python -m hlo_opt.xla time after.hlo --target gpu
"""
import functools
import pathlib
import sys

import jax
import jax.numpy as jnp
from jax import lax, random

f32, bf16, s32 = jnp.float32, jnp.bfloat16, jnp.int32
PROGRAMS = {}


def program(donated=(0, 1, 2)):
    """Registers a function that gives a step and the shapes of its arguments, of which some are donated."""
    def register(function):
        PROGRAMS[function.__name__] = (function, donated)
        return function
    return register


def array(*shape, of=f32):
    return jax.ShapeDtypeStruct(shape, of)


KEY = array(2, of=jnp.uint32)


def with_adam(loss, weights, *data):
    """A step of Adam, and its arguments: weights, both moments, the number of the step and the data."""
    def step(weights, first, second, count, *data):
        value, slope = jax.value_and_grad(loss)(weights, *data)
        first = jax.tree.map(lambda m, g: .9 * m + .1 * g, first, slope)
        second = jax.tree.map(lambda v, g: .999 * v + .001 * g * g, second, slope)
        update = lambda p, m, v: p - 1e-3 * (m / (1 - .9**count)) / (jnp.sqrt(v / (1 - .999**count)) + 1e-8)  # noqa: E731
        return value, jax.tree.map(update, weights, first, second), first, second, count + 1
    return step, (weights, weights, weights, array(), *data)


def linear(inputs, outputs):
    return {"w": array(inputs, outputs), "b": array(outputs)}


def dense(x, layer):
    return x @ layer["w"].astype(x.dtype) + layer["b"].astype(x.dtype)


def scales(width):
    return {"g": array(width), "b": array(width)}


def normalize(x, g, b):
    x = x.astype(f32)
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean)**2).mean(-1, keepdims=True)
    return ((x - mean) * lax.rsqrt(variance + 1e-5) * g + b).astype(bf16)


def attend(q, k, v, bias=None):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(f32) * (q.shape[-1]**-.5)
    if bias is not None:
        scores = scores + bias
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1).astype(q.dtype), v)


def heads(x, count):
    return x.reshape(*x.shape[:2], count, -1)


def layer_of(width, crosses=False):
    """Weights of a layer of a transformer, one that looks at another sequence too or not."""
    layer = {"n1": scales(width), "qkv": linear(width, 3 * width), "o": linear(width, width), "n2": scales(width)}
    layer |= {"f1": linear(width, 4 * width), "f2": linear(4 * width, width)}
    if crosses:
        layer |= {"n3": scales(width), "cq": linear(width, width), "ckv": linear(width, 2 * width), "co": linear(width, width)}
    return layer


def transform(layer, x, count, bias=None, other=None, modulation=None):
    """A layer of a transformer, with another sequence that it looks at, and shifts and scales that depend on a condition (DiT)."""
    y = normalize(x, **layer["n1"])
    if modulation is not None:
        y = y * (1 + modulation[0][:, None]) + modulation[1][:, None]
    q, k, v = jnp.split(dense(y, layer["qkv"]), 3, -1)
    a = dense(attend(heads(q, count), heads(k, count), heads(v, count), bias).reshape(x.shape), layer["o"])
    x = x + (a if modulation is None else a * modulation[2][:, None])
    if other is not None:
        y = normalize(x, **layer["n3"])
        q = dense(y, layer["cq"])
        k, v = jnp.split(dense(other, layer["ckv"]), 2, -1)
        x = x + dense(attend(heads(q, count), heads(k, count), heads(v, count)).reshape(x.shape), layer["co"])
    y = normalize(x, **layer["n2"])
    if modulation is not None:
        y = y * (1 + modulation[3][:, None]) + modulation[4][:, None]
    y = dense(jax.nn.gelu(dense(y, layer["f1"])), layer["f2"])
    return x + (y if modulation is None else y * modulation[5][:, None])


def perceive(layer, x):
    """The part of a layer behind attention."""
    return x + dense(jax.nn.gelu(dense(normalize(x, **layer["n2"]), layer["f1"])), layer["f2"])


def causal(length):
    return jnp.where(jnp.tril(jnp.ones((length, length), bool)), 0., -1e9)


def cross_entropy(logits, labels):
    logits = logits.astype(f32)
    return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]).mean()


def convolve(x, w, stride=1, groups=1, padding="SAME"):
    names = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w.astype(x.dtype), (stride, stride), padding, dimension_numbers=names, feature_group_count=groups)


@program()
def vit():
    """ViT-B/16 of 256 images."""
    weights = {"e": linear(768, 768), "pos": array(196, 768), "L": [layer_of(768) for _ in range(12)], "n": scales(768), "h": linear(768, 1000)}

    def loss(weights, images, labels):
        x = images.reshape(-1, 14, 16, 14, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 196, 768).astype(bf16)
        x = dense(x, weights["e"]) + weights["pos"].astype(bf16)
        for layer in weights["L"]:
            x = transform(layer, x, 12)
        return cross_entropy(dense(normalize(x, **weights["n"]).mean(1), weights["h"]), labels)
    return with_adam(loss, weights, array(256, 224, 224, 3), array(256, of=s32))


@program()
def clip():
    """Two towers and a contrastive loss."""
    tower = lambda embedding: {"e": embedding, "L": [layer_of(512) for _ in range(6)], "n": scales(512), "h": linear(512, 512)}  # noqa: E731
    weights = {"i": tower(linear(768, 512)), "t": tower(array(49408, 512)), "s": array()}

    def loss(weights, patches, words):
        x = dense(patches.astype(bf16), weights["i"]["e"])
        for layer in weights["i"]["L"]:
            x = transform(layer, x, 8)
        y = weights["t"]["e"].astype(bf16)[words]
        for layer in weights["t"]["L"]:
            y = transform(layer, y, 8, causal(words.shape[1]))
        x = dense(normalize(x, **weights["i"]["n"]).mean(1), weights["i"]["h"]).astype(f32)
        y = dense(normalize(y, **weights["t"]["n"])[:, -1], weights["t"]["h"]).astype(f32)
        x, y = (z / jnp.linalg.norm(z, axis=-1, keepdims=True) for z in (x, y))
        scores = x @ y.T * jnp.exp(weights["s"])
        order = jnp.arange(scores.shape[0])
        return (cross_entropy(scores, order) + cross_entropy(scores.T, order)) / 2
    return with_adam(loss, weights, array(1024, 49, 768), array(1024, 77, of=s32))


@program()
def dit():
    """A diffusion transformer whose layers are modulated by the time."""
    layers = [layer_of(768) | {"m": linear(768, 6 * 768)} for _ in range(12)]
    weights = {"e": linear(32, 768), "c": linear(256, 768), "L": layers, "n": scales(768), "h": linear(768, 32)}

    def loss(weights, x, time, key):
        noise = random.normal(random.split(key)[0], x.shape)
        a = jnp.cos(time)[:, None, None]
        noisy = a * x + jnp.sqrt(1 - a * a) * noise
        waves = time[:, None] * jnp.exp(-jnp.arange(128) / 128 * 9.2)
        condition = jax.nn.silu(dense(jnp.concatenate([jnp.sin(waves), jnp.cos(waves)], -1).astype(bf16), weights["c"]))
        y = dense(noisy.astype(bf16), weights["e"])
        for layer in weights["L"]:
            y = transform(layer, y, 12, modulation=jnp.split(dense(condition, layer["m"]), 6, -1))
        return ((dense(normalize(y, **weights["n"]), weights["h"]).astype(f32) - noise)**2).mean()
    return with_adam(loss, weights, array(128, 256, 32), array(128), KEY)


@program()
def t5():
    """An encoder and a decoder with relative positions."""
    weights = {"e": array(32128, 768), "rb": array(32, 12), "n": scales(768), "n2": scales(768)}
    weights |= {"E": [layer_of(768) for _ in range(6)], "D": [layer_of(768, crosses=True) for _ in range(6)]}

    def loss(weights, words, answer):
        embedding = weights["e"].astype(bf16)

        def positions(length, is_causal):
            apart = jnp.arange(length)[None] - jnp.arange(length)[:, None]
            bias = weights["rb"][jnp.clip(jnp.abs(apart), 0, 31)].transpose(2, 0, 1)
            return jnp.where(apart > 0, -1e9, bias) if is_causal else bias
        x, bias = embedding[words], positions(words.shape[1], False)
        for layer in weights["E"]:
            x = transform(layer, x, 12, bias)
        x = normalize(x, **weights["n"])
        y, bias = embedding[answer[:, :-1]], positions(answer.shape[1] - 1, True)
        for layer in weights["D"]:
            y = transform(layer, y, 12, bias, x)
        return cross_entropy(normalize(y, **weights["n2"]) @ embedding.T, answer[:, 1:])
    return with_adam(loss, weights, array(32, 512, of=s32), array(32, 257, of=s32))


@program()
def bert():
    """Masked words, with dropout of scores and results."""
    weights = {"e": array(30522, 768), "pos": array(512, 768), "L": [layer_of(768) for _ in range(6)], "n": scales(768)}

    def drop(key, x):
        return jnp.where(random.bernoulli(key, .9, x.shape), x / .9, 0).astype(x.dtype)

    def loss(weights, words, is_word, labels, places, key):
        embedding = weights["e"].astype(bf16)
        x = embedding[words] + weights["pos"].astype(bf16)
        bias, keys = jnp.where(is_word, 0., -1e9)[:, None, None], random.split(key, 12)
        for number, layer in enumerate(weights["L"]):
            q, k, v = (heads(z, 12) for z in jnp.split(dense(normalize(x, **layer["n1"]), layer["qkv"]), 3, -1))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(f32) / 8 + bias
            shares = drop(keys[2 * number], jax.nn.softmax(scores, -1).astype(bf16))
            a = dense(jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(x.shape), layer["o"])
            x = perceive(layer, x + drop(keys[2 * number + 1], a))
        x = jnp.take_along_axis(normalize(x, **weights["n"]), places[..., None], 1)
        return cross_entropy(x @ embedding.T, labels)
    data = array(64, 512, of=s32), array(64, 512, of=jnp.bool_), array(64, 77, of=s32), array(64, 77, of=s32), KEY
    return with_adam(loss, weights, *data)


@program()
def conformer():
    """Attention and convolutions over sound, and the loss of CTC."""
    layers = [layer_of(512) | {"n3": scales(512), "p": linear(512, 1024), "dw": array(31, 1, 512), "q": linear(512, 512)} for _ in range(8)]
    weights = {"e": linear(320, 512), "L": layers, "h": linear(512, 1024)}

    def loss(weights, sound, labels):
        batch, length, _ = sound.shape
        x = dense(sound.reshape(batch, length // 4, 320).astype(bf16), weights["e"])
        for layer in weights["L"]:
            x = transform(layer, x, 8)
            a, gate = jnp.split(dense(normalize(x, **layer["n3"]), layer["p"]), 2, -1)
            kernel, names = layer["dw"].astype(bf16), ("NHC", "HIO", "NHC")
            a = lax.conv_general_dilated(a * jax.nn.sigmoid(gate), kernel, (1,), "SAME", dimension_numbers=names, feature_group_count=512)
            x = x + dense(jax.nn.silu(a), layer["q"])
        logs = jax.nn.log_softmax(dense(x, weights["h"]).astype(f32))
        states = 2 * labels.shape[1] + 1
        symbols = jnp.zeros((batch, states), s32).at[:, 1::2].set(labels)
        emitted = jnp.take_along_axis(logs, jnp.broadcast_to(symbols[:, None], (batch, logs.shape[1], states)), 2).transpose(1, 0, 2)
        may_skip = jnp.concatenate([jnp.zeros((batch, 2), bool), (symbols[:, 2:] != symbols[:, :-2]) & (symbols[:, 2:] != 0)], 1)

        def forward(alpha, now):
            one = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=-1e5)[:, :-1]
            two = jnp.where(may_skip, jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=-1e5)[:, :-2], -1e5)
            return jnp.logaddexp(jnp.logaddexp(alpha, one), two) + now, None
        alpha, _ = lax.scan(forward, jnp.full((batch, states), -1e5).at[:, :2].set(emitted[0, :, :2]), emitted[1:])
        return -jnp.logaddexp(alpha[:, -1], alpha[:, -2]).mean()
    return with_adam(loss, weights, array(64, 1600, 80), array(64, 100, of=s32))


@program()
def retnet():
    """Retention in chunks of 128 words."""
    weights = [layer_of(1024) for _ in range(8)], array(32000, 1024)

    def retain(q, k, v):
        batch, length, count, width = q.shape
        chunk, place = 128, jnp.arange(128)
        q, k, v = (z.reshape(batch, length // chunk, chunk, count, width).transpose(1, 0, 3, 2, 4) for z in (q, k, v))
        decay = 1 - 2.**(-5 - jnp.arange(count))
        within = jnp.where(place[:, None] >= place, decay[:, None, None]**(place[:, None] - place), 0).astype(bf16)

        def step(state, now):
            q, k, v = now
            new = jnp.einsum("bhqk,bhqv->bhkv", k * (decay[:, None]**(chunk - place))[..., None].astype(bf16), v)
            y = (jnp.einsum("bhqk,bhck->bhqc", q, k) * within) @ v
            far = q * (decay[:, None]**(place + 1))[..., None].astype(bf16)
            y = y + jnp.einsum("bhqk,bhkv->bhqv", far, state.astype(bf16))
            return state * (decay**chunk)[:, None, None] + new.astype(f32), y
        _, y = lax.scan(step, jnp.zeros((batch, count, width, width), f32), (q, k, v))
        return y.transpose(1, 0, 3, 2, 4).reshape(batch, length, count * width)

    def loss(weights, words):
        layers, embedding = weights[0], weights[1].astype(bf16)
        x = embedding[words[:, :-1]]
        for layer in layers:
            q, k, v = (heads(z, 8) for z in jnp.split(dense(normalize(x, **layer["n1"]), layer["qkv"]), 3, -1))
            x = perceive(layer, x + dense(retain(q, k, v), layer["o"]))
        return cross_entropy(x @ embedding.T, words[:, 1:])
    return with_adam(loss, weights, array(8, 2049, of=s32))


@program()
def convnext():
    """Depthwise convolutions, normalizations and perceptrons over images."""
    widths = (96, 192, 384, 768)
    block = lambda width: {"k": array(7, 7, 1, width), "n": scales(width), "f": linear(width, 4 * width), "g": linear(4 * width, width)}  # noqa: E731
    stages = [{"d": array(2, 2, widths[i - 1], width) if i else None, "b": [block(width) for _ in range(3)]} for i, width in enumerate(widths)]
    weights = {"s": array(4, 4, 3, 96), "st": stages, "h": linear(768, 1000)}

    def loss(weights, images, labels):
        x = convolve(images.astype(bf16), weights["s"], 4, padding="VALID")
        for stage in weights["st"]:
            if stage["d"] is not None:
                x = convolve(x, stage["d"], 2, padding="VALID")
            for block in stage["b"]:
                y = normalize(convolve(x, block["k"], 1, x.shape[-1]), **block["n"])
                x = x + dense(jax.nn.gelu(dense(y, block["f"])), block["g"])
        return cross_entropy(dense(x.mean((1, 2)), weights["h"]), labels)
    return with_adam(loss, weights, array(128, 224, 224, 3), array(128, of=s32))


@program()
def distill():
    """A small language model that learns from a larger one, over 50,304 words."""
    model = lambda width, layers: {"e": array(50304, width), "L": [layer_of(width) for _ in range(layers)], "n": scales(width)}  # noqa: E731

    def logits(weights, words, count):
        embedding = weights["e"].astype(bf16)
        x = embedding[words]
        for layer in weights["L"]:
            x = transform(layer, x, count, causal(words.shape[1]))
        return (normalize(x, **weights["n"]) @ embedding.T).astype(f32)

    def loss(weights, teacher, words, labels):
        own = jax.nn.log_softmax(logits(weights, words, 8) / 2)
        wanted = jax.nn.log_softmax(lax.stop_gradient(logits(teacher, words, 16)) / 2)
        divergence = (jnp.exp(wanted) * (wanted - own)).sum(-1).mean() * 4
        return divergence + cross_entropy(logits(weights, words, 8), labels)
    return with_adam(loss, model(512, 4), model(1024, 6), array(16, 1024, of=s32), array(16, 1024, of=s32))


@program()
def maml():
    """Gradients through five steps of gradient descent, for 16 tasks at once."""
    weights = [[{"w": array(3, 3, i, 64), "b": array(64)} for i in (3, 64, 64, 64)], linear(576, 5)]

    def classify(weights, x):
        for layer in weights[0]:
            x = convolve(x, layer["w"]) + layer["b"]
            x = jax.nn.relu((x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-3))
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return dense(x.reshape(x.shape[0], -1), weights[1])

    def task(weights, seen, labels, asked, answers):
        own = weights
        for _ in range(5):
            slope = jax.grad(lambda own: cross_entropy(classify(own, seen), labels))(own)
            own = jax.tree.map(lambda w, g: w - .01 * g, own, slope)
        return cross_entropy(classify(own, asked), answers)

    def loss(weights, *data):
        return jax.vmap(functools.partial(task, weights))(*data).mean()
    data = array(16, 25, 48, 48, 3), array(16, 25, of=s32), array(16, 75, 48, 48, 3), array(16, 75, of=s32)
    return with_adam(loss, weights, *data)


@program()
def wgan():
    """A critic whose gradient is held near one."""
    weights = {"c": [array(4, 4, i, o) for i, o in ((3, 64), (64, 128), (128, 256), (256, 512))], "h": linear(8192, 1)}

    def critic(weights, x):
        for kernel in weights["c"]:
            x = jax.nn.leaky_relu(convolve(x, kernel, 2), .2)
        return dense(x.reshape(x.shape[0], -1), weights["h"])[:, 0]

    def loss(weights, real, fake, share):
        mixed = share[:, None, None, None] * real + (1 - share[:, None, None, None]) * fake
        slope = jax.grad(lambda x: critic(weights, x).sum())(mixed)
        length = jnp.sqrt((slope**2).sum((1, 2, 3)) + 1e-12)
        return critic(weights, fake).mean() - critic(weights, real).mean() + 10 * ((length - 1)**2).mean()
    return with_adam(loss, weights, array(512, 64, 64, 3), array(512, 64, 64, 3), array(512))


@program(donated=(0, 1))
def ppo():
    """Advantages by a scan, and four epochs of four batches in scans."""
    weights = {"c": [array(8, 8, 4, 32), array(4, 4, 32, 64), array(3, 3, 64, 64)], "f": linear(7744, 512), "pi": linear(512, 18), "v": linear(512, 1)}

    def act(weights, seen):
        x = seen.astype(bf16) / 255
        for kernel, stride in zip(weights["c"], (4, 2, 1)):
            x = jax.nn.relu(convolve(x, kernel, stride))
        x = jax.nn.relu(dense(x.reshape(x.shape[0], -1), weights["f"]))
        return dense(x, weights["pi"]).astype(f32), dense(x, weights["v"])[:, 0].astype(f32)

    def loss(weights, seen, actions, old, advantage, gain):
        logits, value = act(weights, seen)
        logs = jax.nn.log_softmax(logits)
        ratio = jnp.exp(jnp.take_along_axis(logs, actions[:, None], 1)[:, 0] - old)
        clipped = -jnp.minimum(ratio * advantage, jnp.clip(ratio, .8, 1.2) * advantage).mean()
        return clipped + .5 * ((value - gain)**2).mean() + .01 * (jnp.exp(logs) * logs).sum(-1).mean()

    def step(weights, momentum, seen, actions, rewards, ends, key):
        times, games = actions.shape
        flat = seen.reshape(times * games, *seen.shape[2:])
        logits, value = act(weights, flat)
        old = jnp.take_along_axis(jax.nn.log_softmax(logits), actions.reshape(-1)[:, None], 1)[:, 0]
        value = value.reshape(times, games)

        def back(sum, now):
            reward, end, own, after = now
            sum = reward + .99 * after * (1 - end) - own + .99 * .95 * (1 - end) * sum
            return sum, sum
        after = jnp.concatenate([value[1:], value[-1:]])
        _, advantage = lax.scan(back, jnp.zeros(games), (rewards, ends, value, after), reverse=True)
        data = flat, actions.reshape(-1), old, advantage.reshape(-1), (advantage + value).reshape(-1)

        def epoch(state, key):
            order = random.permutation(key, times * games)
            batches = jax.tree.map(lambda x: x[order].reshape(4, -1, *x.shape[1:]), data)

            def update(state, batch):
                weights, momentum = state
                momentum = jax.tree.map(lambda m, g: .9 * m + g, momentum, jax.grad(loss)(weights, *batch))
                return (jax.tree.map(lambda p, m: p - 1e-3 * m, weights, momentum), momentum), None
            return lax.scan(update, state, batches)[0], None
        return lax.scan(epoch, (weights, momentum), random.split(key, 4))[0]
    data = array(128, 256, 84, 84, 4, of=jnp.uint8), array(128, 256, of=s32), array(128, 256), array(128, 256), KEY
    return step, (weights, weights, *data)


@program()
def sinkhorn():
    """Optimal transport between 8,192 points, through twenty rounds."""
    def loss(weights, x, y):
        x = jnp.tanh(x @ weights["w"] + weights["b"])
        cost, soft = (x**2).sum(-1)[:, None] + (y**2).sum(-1)[None] - 2 * x @ y.T, .05

        def turn(state, _):
            f, g = state
            g = -soft * jax.nn.logsumexp((f[:, None] - cost) / soft, 0)
            return (-soft * jax.nn.logsumexp((g[None] - cost) / soft, 1), g), None
        (f, g), _ = lax.scan(turn, (jnp.zeros(x.shape[0]), jnp.zeros(y.shape[0])), None, length=20)
        return (jnp.exp((f[:, None] + g[None] - cost) / soft) * cost).sum()
    return with_adam(loss, linear(64, 64), array(8192, 64), array(8192, 64))


@program()
def pinn():
    """A network for a differential equation: second derivatives at 65,536 points."""
    weights = [linear(3, 256), *(linear(256, 256) for _ in range(6)), linear(256, 1)]

    def value(weights, at):
        for layer in weights[:-1]:
            at = jnp.tanh(dense(at, layer))
        return dense(at, weights[-1])[0]

    def loss(weights, inside, border, known):
        def residual(at):
            second, first = jax.hessian(value, 1)(weights, at), jax.grad(value, 1)(weights, at)
            return first[0] - .1 * (second[1, 1] + second[2, 2]) + value(weights, at) * first[1]
        apart = jax.vmap(functools.partial(value, weights))(border) - known
        return (jax.vmap(residual)(inside)**2).mean() + (apart**2).mean()
    return with_adam(loss, weights, array(65536, 3), array(8192, 3), array(8192))


@program()
def flow():
    """Twelve coupling layers of a normalizing flow."""
    weights = [{"a": linear(392, 512), "b": linear(512, 512), "c": linear(512, 784)} for _ in range(12)]

    def loss(weights, x):
        logs = 0.
        for number, layer in enumerate(weights):
            kept, changed = jnp.split(x, 2, -1)[::-1 if number % 2 else 1]
            hidden = jax.nn.relu(dense(jax.nn.relu(dense(kept, layer["a"])), layer["b"]))
            scale, shift = jnp.split(dense(hidden, layer["c"]), 2, -1)
            scale = jnp.tanh(scale)
            changed = changed * jnp.exp(scale) + shift
            logs = logs + scale.sum(-1)
            x = jnp.concatenate([changed, kept] if number % 2 else [kept, changed], -1)
        return (.5 * (x**2).sum(-1) - logs).mean()
    return with_adam(loss, weights, array(65536, 784))


@program(donated=(0, 1))
def dlrm():
    """26 tables of a million rows, products of their rows, and Adagrad."""
    weights = {"t": array(26, 1000000, 64), "bot": [linear(13, 512), linear(512, 64)]}
    weights |= {"top": [linear(415, 1024), linear(1024, 512), linear(512, 1)]}

    def loss(weights, numbers, rows, clicks):
        x = numbers
        for layer in weights["bot"]:
            x = jax.nn.relu(dense(x, layer))
        looked_up = jax.vmap(lambda table, at: table[at], (0, 1), 1)(weights["t"], rows)
        looked_up = jnp.concatenate([x[:, None], looked_up], 1)
        products = jnp.einsum("bid,bjd->bij", looked_up, looked_up)
        i, j = jnp.triu_indices(27, 1)
        y = jnp.concatenate([x, products[:, i, j]], -1)
        for layer in weights["top"][:-1]:
            y = jax.nn.relu(dense(y, layer))
        score = dense(y, weights["top"][-1])[:, 0]
        return (jnp.maximum(score, 0) - score * clicks + jnp.log1p(jnp.exp(-jnp.abs(score)))).mean()

    def step(weights, squares, *data):
        slope = jax.grad(loss)(weights, *data)
        squares = jax.tree.map(lambda a, g: a + g * g, squares, slope)
        return jax.tree.map(lambda p, a, g: p - .01 * g * lax.rsqrt(a + 1e-8), weights, squares, slope), squares
    return step, (weights, weights, array(65536, 13), array(65536, 26, of=s32), array(65536))


@program()
def crf():
    """An LSTM in both directions and a random field over its tags."""
    weights = {"e": array(50000, 256), "f": linear(512, 1024), "b": linear(512, 1024), "h": linear(512, 32), "t": array(32, 32)}

    def lstm(layer, x, is_reversed):
        def cell(state, x):
            hidden, memory = state
            i, f, g, o = jnp.split(dense(jnp.concatenate([x, hidden], -1), layer), 4, -1)
            memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
            return (hidden, memory), hidden
        zero = jnp.zeros((x.shape[1], 256))
        return lax.scan(cell, (zero, zero), x, reverse=is_reversed)[1]

    def loss(weights, words, tags):
        x = weights["e"][words]
        scores = dense(jnp.concatenate([lstm(weights["f"], x, False), lstm(weights["b"], x, True)], -1), weights["h"])

        def forward(alpha, now):
            return jax.nn.logsumexp(alpha[:, :, None] + weights["t"][None], 1) + now, None
        alpha, _ = lax.scan(forward, scores[0], scores[1:])
        own = jnp.take_along_axis(scores, tags[..., None], -1)[..., 0].sum(0) + weights["t"][tags[:-1], tags[1:]].sum(0)
        return (jax.nn.logsumexp(alpha, -1) - own).mean()
    return with_adam(loss, weights, array(256, 512, of=s32), array(256, 512, of=s32))


@program()
def pointnet():
    """Edges to the twenty nearest neighbors, among points and among what is made of them."""
    weights = [linear(6, 64), linear(128, 128), linear(128, 256), linear(256, 1024)], linear(1024, 40)

    def edges(x, layer):
        squares = (x**2).sum(-1)
        apart = squares[:, :, None] + squares[:, None] - 2 * x @ x.transpose(0, 2, 1)
        near = jax.vmap(lambda x, at: x[at])(x, lax.top_k(-apart, 20)[1])
        own = jnp.broadcast_to(x[:, :, None], near.shape)
        return jax.nn.leaky_relu(dense(jnp.concatenate([near - x[:, :, None], own], -1), layer)).max(2)

    def loss(weights, points, labels):
        layers, last = weights
        x = edges(edges(points, layers[0]), layers[1])
        x = jax.nn.leaky_relu(dense(jax.nn.leaky_relu(dense(x, layers[2])), layers[3])).max(1)
        return cross_entropy(dense(x, last), labels)
    return with_adam(loss, weights, array(64, 2048, 3), array(64, of=s32))


def write(programs):
    """Writes the programs that the command line names, or all, into its folder."""
    folder, *names = sys.argv[1:]
    for name in names or programs:
        build, donated = programs[name]
        step, shapes = build()
        lowered = jax.jit(step, donate_argnums=donated).lower(*shapes)
        pathlib.Path(folder, f"{name}.hlo").write_text(lowered.compiler_ir("hlo").as_hlo_text(), encoding="utf-8")


if __name__ == "__main__":
    write(PROGRAMS)
