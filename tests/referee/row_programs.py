"""Attention, losses and normalizations, whose rows XLA:GPU may keep in one kernel: programs for `device_rewrites.py --lower`, and through it for `rough_models.py`.

    device_rewrites.py gpu FOLDER --lower row_programs.py
"""
import math

import jax
import jax.numpy as jnp

F32, BF16, S32 = jnp.float32, jnp.bfloat16, jnp.int32


def setup(_):
    """Nothing has to be prepared for a target."""


def build():
    """For each program: its name, a description, donated arguments, and what makes its shapes and forms."""
    return [(name, name, (), lambda shapes=shapes, function=function: (shapes, {"before": function})) for name, function, shapes in programs()]


def array(dims, dtype=F32):
    return jax.ShapeDtypeStruct(dims, dtype)


def one_head(q, k, v, w):
    shares = jax.nn.softmax(q @ k.T / math.sqrt(q.shape[-1]), axis=-1)
    return jnp.sum((shares @ v) * w)


def heads(q, k, v):
    shares = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8, axis=-1)
    return jnp.sum(jnp.einsum("bhqk,bkhd->bqhd", shares, v) ** 2)


def rms(x, gain):
    wide = x.astype(F32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype) * gain


def layer_norm(x, gain, bias):
    wide = x.astype(F32)
    mean, variance = wide.mean(-1, keepdims=True), jnp.var(wide, -1, keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(variance + 1e-6)).astype(x.dtype) * gain + bias


def attention(x, query, key, value, out, count=8):
    batch, length, width = x.shape
    q, k, v = ((x @ weights).reshape(batch, length, count, width // count) for weights in (query, key, value))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(F32) / 8
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e30)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1).astype(x.dtype), v)
    return mixed.reshape(batch, length, width) @ out


def cross_entropy(x, weights, labels):
    scores = (x @ weights).astype(F32)
    return jnp.mean(jax.nn.logsumexp(scores, -1) - jnp.take_along_axis(scores, labels[:, None], 1)[:, 0])


def perceptrons(layers, x):
    for up, down in layers:
        x = x + jax.nn.gelu(rms(x, jnp.ones(x.shape[-1], x.dtype)) @ up) @ down
    return jnp.sum(x.astype(F32) ** 2)


def blocks(layers, x):
    for query, key, value, out, first, up, down, second in layers:
        x = x + attention(rms(x, first), query, key, value, out)
        x = x + jax.nn.gelu(rms(x, second) @ up) @ down
    return jnp.mean(x.astype(F32) ** 2)


def weighted(function):
    """The sum of a result by weights, which stand last."""
    return lambda *arguments: jnp.sum((function(*arguments[:-1]) * arguments[-1]).astype(F32))


def shares(x):
    return jax.nn.softmax(x, -1)


def programs():
    tokens, gain, square = array((65536, 1024), BF16), array((1024,), BF16), array((512, 512), BF16)
    up, down, width = array((512, 2048), BF16), array((2048, 512), BF16), array((512,), BF16)
    for length in (4096, 8192, 16384):
        for size in (64, 96, 128):
            yield f"head_{length}_{size}_grad", jax.grad(one_head, (0, 1, 2)), [array((length, size))] * 4
    for dtype in (F32, BF16):
        yield f"heads_{jnp.dtype(dtype).name}_grad", jax.grad(heads, (0, 1, 2)), [array((4, 2048, 12, 64), dtype)] * 3
    sequences = [array((4, 2048, 512), BF16), *[square] * 4]
    yield "causal_attention", attention, sequences
    yield "causal_attention_grad", jax.grad(lambda *a: jnp.sum(attention(*a).astype(F32) ** 2), (0, 1, 2, 3, 4)), sequences
    yield "softmax", shares, [array((8192, 4096))]
    yield "softmax_grad", jax.grad(weighted(shares)), [array((8192, 4096))] * 2
    yield "softmax_of_long_rows", shares, [array((64, 1 << 21))]
    yield "layer_norm", layer_norm, [tokens, gain, gain]
    yield "layer_norm_grad", jax.grad(weighted(layer_norm), (0, 1, 2)), [tokens, gain, gain, tokens]
    yield "rms_norm_grad", jax.grad(weighted(rms), (0, 1)), [tokens, gain, tokens]
    yield "unit_rows", lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True), [array((65536, 1024))]
    yield "unit_columns", lambda x: (x - x.mean(0)) / x.std(0), [array((65536, 1024))]
    yield "cross_entropy_grad", jax.grad(cross_entropy, (0, 1)), [array((8192, 512), BF16), array((512, 32768), BF16), array((8192,), S32)]
    yield "perceptrons_grad", jax.grad(perceptrons), [[(up, down)] * 4, array((16384, 512), BF16)]
    yield "blocks_grad", jax.grad(blocks), [[(square, square, square, square, width, up, down, width)] * 3, array((4, 1024, 512), BF16)]
