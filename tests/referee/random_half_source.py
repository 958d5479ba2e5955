"""Random JAX programs of 16 bits: attention, normalisations and losses, as people write them."""
import random

TYPES = ("bfloat16", "bfloat16", "bfloat16", "float16")


def draw(seed):
    """The source of a function `g` and its arguments, (type, dimensions) each."""
    rng = random.Random(f"halves {seed}")
    kind = rng.choice((attention, attention, normalisation, loss, loss, perceptron))
    lines, arguments, result = kind(rng)
    dtype = rng.choice(TYPES)
    names = ", ".join(name for name, _, _ in arguments)
    source = f"def h({names}):\n" + "".join(f"    {line}\n" for line in lines) + f"    return {result}\n"
    floats = [place for place, (_, of, _) in enumerate(arguments) if of == "T"]
    how = rng.choice(("plain", "plain", "grad", "both"))
    weight = rng.choice(("jnp.sum(h(*a).astype(jnp.float32) ** 2)", "jnp.sum(jnp.sin(h(*a)).astype(jnp.float32))"))
    gradient = f"jax.grad(lambda *a: {weight}, argnums={tuple(floats[:3])})(*a)"
    body = {"plain": "h(*a)", "grad": gradient, "both": f"(h(*a), {gradient})"}[how]
    source = source.replace("DTYPE", f"jnp.{dtype}") + f"def g(*a):\n    return {body}\n"
    return source, [(dtype if of == "T" else of, dims) for _, of, dims in arguments]


def wide(rng, what):
    """An expression in the program's type, or in f32 as many do it."""
    return f"{what}.astype(jnp.float32)" if rng.random() < 0.35 else what


def softmax(rng, scores, axis=-1):
    """A softmax by the library or by hand."""
    if rng.random() < 0.4:
        return [f"w = jax.nn.softmax({scores}, axis={axis})"]
    lines = [f"e = {scores}"]
    if rng.random() < 0.85:
        lines.append(f"e = e - jnp.max(e, axis={axis}, keepdims=True)")
    lines.append("e = jnp.exp(e)")
    total = rng.choice((f"jnp.sum(e, axis={axis}, keepdims=True)", f"jnp.sum(e, axis={axis}, keepdims=True, dtype=jnp.float32).astype(e.dtype)"))
    return [*lines, f"w = e / {total}"]


def attention(rng):
    batch, heads = rng.choice((1, 2)), rng.choice((2, 3, 4))
    rows, columns, width = rng.choice((128, 192, 256)), rng.choice((128, 256, 320)), rng.choice((16, 32, 64))
    factor = rng.choice(("", f" * {width ** -0.5:.4f}", " * 2", f" / {width ** 0.5:.4f}"))
    lines = [f"s = jnp.einsum('bhqd,bhkd->bhqk', q, k){factor}"]
    mask = rng.choice(("none", "none", "where", "add", "bias", "cap"))
    if mask in ("where", "add"):
        lines.append(f"m = jnp.arange({rows})[:, None] < jnp.arange({columns})[None]")
        lines.append("s = jnp.where(m, s, -1e4)" if mask == "where" else "s = s + m.astype(s.dtype) * jnp.asarray(-1e4, s.dtype)")
    if mask == "bias":
        lines.append("s = s + b")
    if mask == "cap":
        lines.append("s = jnp.tanh(s / 4) * 4")
    lines += softmax(rng, wide(rng, "s"))
    lines.append("o = jnp.einsum('bhqk,bhkd->bhqd', w.astype(q.dtype), v)")
    arguments = [("q", "T", (batch, heads, rows, width)), ("k", "T", (batch, heads, columns, width)), ("v", "T", (batch, heads, columns, width))]
    if mask == "bias":
        arguments.append(("b", "T", (rows, columns)))
    return lines, arguments, "o"


def normalisation(rng):
    rows, width = rng.choice((256, 512, 1000)), rng.choice((256, 384, 1024))
    axis = rng.choice((-1, -1, 0))
    lines = [f"x = {wide(rng, 'x @ u' if rng.random() < 0.7 else 'x * 3')}"]
    kind = rng.choice(("layer", "rms", "softmax", "l2"))
    if kind == "layer":
        lines += [f"c = x - jnp.mean(x, axis={axis}, keepdims=True)", f"y = c * jax.lax.rsqrt(jnp.mean(c * c, axis={axis}, keepdims=True) + 1e-5)"]
    elif kind == "rms":
        lines.append(f"y = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis={axis}, keepdims=True) + 1e-5)")
    elif kind == "l2":
        lines.append(f"y = x / (jnp.sqrt(jnp.sum(x * x, axis={axis}, keepdims=True)) + 1e-3)")
    else:
        lines += [*softmax(rng, "x", axis), "y = w"]
    lines.append(rng.choice(("y = (y * s + t).astype(DTYPE)", "y = y.astype(DTYPE) * s", "y = jax.nn.gelu(y * s).astype(DTYPE)")))
    lines.append(rng.choice(("r = y", "r = y @ u", "r = y.sum(-1)", "r = jnp.max(y, -1)")))
    return lines, [("x", "T", (rows, width)), ("u", "T", (width, width)), ("s", "T", (width,)), ("t", "T", (width,))], "r"


def loss(rng):
    rows, width, words = rng.choice((128, 256, 512)), rng.choice((32, 64)), rng.choice((1000, 2048, 3000))
    lines = [f"l = {wide(rng, 'x @ u')}"]
    kind = rng.choice(("labels", "onehot", "smooth", "entropy", "square", "sigmoid"))
    if kind == "labels":
        lines.append("r = jax.nn.logsumexp(l, -1) - jnp.take_along_axis(l, i[:, None], -1)[:, 0]")
    elif kind == "onehot":
        lines.append(f"r = -jnp.sum(jax.nn.one_hot(i, {words}, dtype=l.dtype) * jax.nn.log_softmax(l, -1), -1)")
    elif kind == "smooth":
        lines += ["p = jax.nn.log_softmax(l, -1)", "r = -0.9 * jnp.take_along_axis(p, i[:, None], -1)[:, 0] - 0.1 * jnp.mean(p, -1)"]
    elif kind == "entropy":
        lines += [*softmax(rng, "l"), "r = -jnp.sum(w * jnp.log(w + 1e-3), -1)"]
    elif kind == "square":
        lines.append("r = jnp.sum(jnp.square(l - l.mean(-1, keepdims=True)), -1)")
    else:
        lines.append("r = jnp.sum(jnp.maximum(l, 0) + jnp.log1p(jnp.exp(-jnp.abs(l))), -1)")
    lines.append(rng.choice(("r = r", "r = r.mean()", "r = r * 0.5")))
    return lines, [("x", "T", (rows, width)), ("u", "T", (width, words)), ("i", "int32", (rows,))], "r"


def perceptron(rng):
    rows, width, inner = rng.choice((128, 256)), rng.choice((64, 128)), rng.choice((1024, 2048))
    act = rng.choice(("jax.nn.gelu", "jax.nn.silu", "jax.nn.relu", "jnp.tanh", "(lambda z: jnp.square(jax.nn.relu(z)))"))
    lines = [f"z = {act}({wide(rng, 'x @ u')})"]
    lines.append(rng.choice(("z = z", "z = z * (x @ m)", "z = z / (1e-3 + jnp.abs(z).sum(-1, keepdims=True))")))
    lines.append(rng.choice(("r = z.astype(x.dtype) @ v", "r = z.sum(-1)", "r = z.max(-1)")))
    arguments = [("x", "T", (rows, width)), ("u", "T", (width, inner)), ("v", "T", (inner, width)), ("m", "T", (width, inner))]
    return lines, arguments, "r"
