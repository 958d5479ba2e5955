"""Random scans as source: what a step computes of what it begins with and reads, what it stacks, and who reads the stacks behind it."""
import random

# Operations on `[rows, width]`; `a` and `b` are values of the step.
WORK = (
    "jnp.tanh({a})", "jnp.sin({a})", "jnp.cos({a}) * {b}", "jnp.exp(-{a} * {a})", "{a} + {b}", "{a} * {b}", "{a} - {b}", "jnp.maximum({a}, {b})",
    "jnp.where({a} > 0, {b}, -{a})", "jax.nn.gelu({a})", "jax.nn.silu({a})", "jax.nn.softmax({a}, axis=-1)", "{a} / (1 + {b} * {b})",
    "jnp.tanh({a} @ w)", "({a} @ w.T) * 0.1", "{a} - {a}.mean(axis=-1, keepdims=True)", "jnp.broadcast_to({a}.sum(axis=0), {a}.shape)",
    "{a}[::-1]", "{a} * {a}.max(axis=-1, keepdims=True)", "jnp.roll({a}, 1, axis=0)", "jax.jit(lambda u, v: jnp.tanh(u) * v)({a}, {b})",
    "jnp.cumsum({a}, axis=0) * 0.1", "jax.lax.optimization_barrier({a})", "jnp.concatenate([{a}[1:], {b}[:1]])", "jnp.sqrt({a} * {a} + 1) * {b}",
    "{a}.astype(jnp.int32).astype({a}.dtype)", "({a} > {b}).astype({a}.dtype)",
)
# A loop that writes the rows of its stacks: `start` is what it carries.
WRITES = (
    "    def write(k, all):",
    "        carry, row = step(xs[0] + 1, w, all[0], xs[k], k.astype(xs.dtype))",
    "        return carry, tuple(stack.at[k].set(one) for stack, one in zip(all[1], row))",
    "    shapes = jax.eval_shape(lambda: step(xs[0] + 1, w, start, xs[0]))[1]",
    "    empty = tuple(jnp.zeros((len(xs), *one.shape), one.dtype) for one in shapes)",
    "    end, rows = jax.lax.fori_loop(0, len(xs), write, (start, empty))",
)
PLACES = ("", "", "", "jit", "cond", "scan")


def draw(seed):
    """Source of one program, which defines `g` (arguments: i, xs, w, *many) and `DONATED`; and its sizes."""
    rng = random.Random(seed)
    sizes = {"steps": rng.choice([1, 2, 3, 4, 5, 8, 12, 13]), "rows": rng.choice([3, 4, 6]), "width": rng.choice([4, 5, 8])}
    carried = rng.choice([1, 1, 2, 3])
    # A loop over numbers of steps knows which one it is in, and writes its rows itself.
    counted = rng.random() < 0.3
    lines = ["def step(given, w, carry, read, number=0):"]
    pool = [f"c{at}" for at in range(carried)] + ["read", "given"] + counted * ["jnp.where(number < 2, read, given)", "(read + number)"]
    lines.append(f"    {''.join(f'c{at}, ' for at in range(carried))} = carry")
    for at in range(rng.choice([2, 3, 4, 6, 9])):
        a, b = (rng.choice(pool[-4:] if rng.random() < 0.6 else pool) for _ in range(2))
        lines.append(f"    v{at} = {rng.choice(WORK).format(a=a, b=b)}")
        pool.append(f"v{at}")
    next_carry = [rng.choice(pool) for _ in range(carried)]
    stacked = [rng.choice(pool) for _ in range(rng.choice([1, 1, 2, 3]))]
    lines.append(f"    return ({''.join(name + ', ' for name in next_carry)}), ({''.join(name + ', ' for name in stacked)})")
    keep = rng.choice(["", "", "", "step = jax.checkpoint(step)"])
    lines += [keep] if keep else []
    order = rng.choice(["", "", ", reverse=True", ", unroll=2"])
    lines += ["def loop(i, xs, w, *many):",
              f"    start = ({''.join(rng.choice(['xs[0], ', 'xs[-1] * 0.5, ', 'jnp.zeros_like(xs[0]), ']) for _ in range(carried))})",
              *(WRITES if counted else [f"    end, rows = jax.lax.scan(lambda c, x: step(xs[0] + 1, w, c, x), start, xs{order})"])]
    gradient = rng.random() < 0.6
    lines += ["    return end, sum(jnp.sum(row ** 2) for row in rows)"] if gradient else readers(rng)
    lines += {"": ["f = loop"], "jit": ["f = jax.jit(loop)"],
              "scan": ["f = lambda i, xs, w, *many: jax.lax.scan(lambda c, s: (c + 1.0, loop(i, xs * s.astype(xs.dtype), w, *many)), 1.0, "
                       "jnp.array([0.5, 1.5]))[1]"],
              "cond": ["f = lambda i, xs, w, *many: jax.lax.cond(i[0] > 1, loop, lambda i, xs, w, *many: loop(i, xs + 1, w, *many), i, xs, w, *many)"],
              }[rng.choice(PLACES)]
    total = "sum(jnp.sum(a.astype(jnp.float32)) for a in jax.tree.leaves(f(i, xs, w, *many)))"
    lines.append(f"g = lambda i, xs, w, *many: jax.grad(lambda xs, w: {total}, (0, 1))(xs, w)" if gradient else "g = f")
    lines.append("DONATED = ()")
    sizes["type"] = rng.choice(["float32"] * 6 + ["bfloat16", "float16"])
    return "\n".join(lines), sizes


def readers(rng):
    """Lines of loops that read the stacks, each in its order, and of what else uses them."""
    lines = ["    found = []"]
    for _ in range(rng.choice([1, 1, 2])):
        order = rng.choice(["", ", reverse=True"])
        work = rng.choice(["s + sum(r)", "jnp.tanh(s) * r[0] + r[-1]", "s - r[0] * r[-1]"])
        lines.append(f"    found.append(jax.lax.scan(lambda s, r: ({work}, None), xs[0], rows{order})[0])")
    if rng.random() < 0.3:
        lines += ["    last = xs.shape[0] - 1",
                  "    found.append(jax.lax.fori_loop(0, last, lambda k, s: s + rows[0][k] * rows[-1][last - k], xs[0]))"]
    if rng.random() < 0.2:
        lines.append("    found.append(rows[0])")
    if rng.random() < 0.2:
        lines.append("    found.append(jnp.sum(rows[-1], axis=0))")
    return [*lines, "    return end, found"]
