"""Random Python loops as source: what a step works on, what it reads, how the steps meet, in which order and at how many levels."""
import random

WORK = {
    "product": "jnp.tanh(v @ w) @ w.T",
    "twice": "jnp.tanh(jnp.tanh(v @ w) @ w.T @ w) @ w.T",
    "sorted": "jnp.sort(jnp.sin(v), axis=0) * {c}",
    "kernel": "jnp.sort(jnp.sin(v[:, None, 0] - v[None, :, 0]), axis=0) @ v",
    "scaled": "jnp.exp(-v * v) * {c} + jnp.cumsum(v, axis=0)",
    "mean": "(v - v.mean(0)) @ (w @ w.T)",
    "scattered": "jnp.zeros_like(v).at[jnp.abs(i[:{rows}]) % {rows}].add(v * {c})",
}
READS = {
    "slice": "xs[{k}]",
    "backwards": "xs[{steps} - 1 - {k}]",
    "pick": "xs[i[{k}]]",
    "block": "xs.reshape(-1, {width})[{k}:{k} + {rows}]",
    "levels": "xs[{k} // 3] * xs[{k} % 3]",
    "own": "many[{k}]",
}
MEETS = ("sum", "from_zero", "maximum", "xor", "stack", "reversed_stack", "concatenate", "tuple", "state", "scalar", "two", "donated", "levels")
# Where the loop stands: the program itself, a scan that stacks what it returns, a branch, a nested function.
PLACES = ("", "", "", "", "scan", "cond", "jit")


def draw(seed):
    """Source of one program, which defines `g` (arguments: i, xs, w, *many) and `DONATED`; and its sizes."""
    rng = random.Random(seed)
    # Mostly few steps: compiling them is what a program costs.
    sizes = {"steps": rng.choice([3, 3, 3, 4, 4, 5, 6, 9]), "rows": rng.choice([4, 6, 9]), "width": rng.choice([4, 5, 8])}
    sizes["c"] = rng.choice(["2.5", "float(k)", "float(k + 1)", "(0.5 if k % 2 else 1.5)"])
    meet, gradient = rng.choice(MEETS), rng.random() < 0.2
    work, read = rng.choice(sorted(WORK)), rng.choice(sorted(READS))
    odd = rng.choice(["", "", "", "first", "last"])
    place = rng.choice(PLACES)
    steps = sizes["steps"]
    lines = ["def step(k, i, xs, w, many):",
             f"    v = {READS[read].format(k='k', **sizes)}",
             f"    return {WORK[work].format(**sizes)}",
             "def loop(i, xs, w, *many):",
             f"    parts = [step(k, i, xs, w, many) for k in range({steps})]"]
    if odd:
        at = 0 if odd == "first" else -1
        lines.append(f"    parts[{at}] = jnp.cos(parts[{at}])")
    lines += meeting(meet)
    lines += placed(place)
    total = "sum(jnp.sum(a.astype(jnp.float32)) for a in jax.tree.leaves(f(i, xs, w, *many)))"
    if gradient and meet != "xor":
        lines += [f"g = lambda i, xs, w, *many: jax.grad(lambda xs, w: {total}, (0, 1))(xs, w)"]
    else:
        lines += ["g = f"]
    lines.append(f"DONATED = {(1,) if meet == 'donated' else ()}")
    # XLA:CPU keeps short floats in 32 bits between operations, so where they are rounded depends on what stands in memory.
    sizes["type"] = rng.choice(["float32"] * 6 + ["bfloat16", "float16"]) if meet != "xor" else "float32"
    return "\n".join(lines), sizes


def meeting(meet):
    """Lines that join the parts."""
    fold = "    total = {start}\n    for part in {parts}:\n        total = {join}\n    return total"
    forms = {
        "sum": fold.format(start="parts[0]", parts="parts[1:]", join="total + part"),
        "from_zero": fold.format(start="jnp.zeros_like(parts[0])", parts="parts", join="part + total"),
        "maximum": fold.format(start="parts[0]", parts="parts[1:]", join="jnp.maximum(total, part)"),
        # No grade covers the payload of a NaN, which the bits would show.
        "xor": fold.format(start="0", parts="parts", join="total ^ jax.lax.bitcast_convert_type(jnp.where(part == part, part, 0), jnp.int32)"),
        "stack": "    return jnp.stack(parts)",
        "reversed_stack": "    return jnp.stack(parts[::-1], axis=1)",
        "concatenate": "    return jnp.concatenate([xs[0], *parts], axis=0)",
        "tuple": "    return tuple(parts)",
        "state": fold.format(start="xs[0]", parts="parts", join="jnp.tanh(total @ (w @ w.T)) + part"),
        "scalar": fold.format(start="0.0", parts="parts", join="total + jnp.sum(part ** 2)"),
        "two": "    a, b = 0.0, jnp.zeros_like(parts[0])\n    for part in parts:\n        a, b = a + jnp.max(part), b + part\n"
               "    return a, b",
        # The accumulator is an argument that the caller gives away: it must be updated where it lies.
        "donated": "    total = xs\n    for part in parts:\n        total = total + part[None]\n    return total",
        "levels": "    total = 0.0\n    for j in range(3):\n        for part in parts:\n"
                  "            total = total + jnp.sum(jnp.sort(part * xs[j], axis=0))\n    return total",
    }
    return forms[meet].split("\n")


def placed(place):
    """Lines that define `f`: the loop, or something around it."""
    forms = {
        "": "f = loop",
        "jit": "f = jax.jit(loop)",
        "scan": "f = lambda i, xs, w, *many: jax.lax.scan("
                "lambda c, s: (c + 1.0, loop(i, xs * s, w * c, *many)), 1.0, jnp.array([0.5, 1.5, 2.0]))[1]",
        "cond": "f = lambda i, xs, w, *many: jax.lax.cond(i[0] > 1, loop, lambda i, xs, w, *many: loop(i, xs + 1.0, w, *many), i, xs, w, *many)",
    }
    return forms[place].split("\n")
