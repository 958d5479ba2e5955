"""Python loops that JAX unrolled: copies that roll should turn back into one loop (fires-*) or must leave alone (keeps-*)."""
import jax
import jax.numpy as jnp

from programs.catalog import program, shape, twins


def loop(name, **sizes):
    """Decorator: a loop at full size and small."""
    return twins("roll", name, big=sizes["big"], small=sizes["small"], donate=sizes.get("donate", ()))


@loop("fires-seed", big=dict(copies=16, table=64, rows=1024, inner=4096), small=dict(copies=4, table=6, rows=16, inner=24))
def expensive_function(copies, table, rows, inner):
    def expensive(v, w):
        h = jnp.tanh(v @ w)
        h = jnp.tanh(h @ w.T)
        return jnp.sum(h ** 2)

    def total(inds, inputs, w):
        accum = 0.0
        for i in range(copies):
            accum += expensive(inputs[inds[i]], w)
        return accum

    return total, (shape((copies,), "int32"), shape((table, rows, rows)), shape((rows, inner)))


@program("roll", "fires-seed-pmap", devices=4, copies=16, table=64, rows=1024, inner=4096)
def mapped_over_devices(copies, table, rows, inner):
    def expensive(v, w):
        h = jnp.tanh(v @ w)
        h = jnp.tanh(h @ w.T)
        return jnp.sum(h ** 2)

    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices()[:4], ("d",))
    split, whole = PartitionSpec("d"), PartitionSpec()

    def total(inds, inputs, w):
        accum = 0.0
        for i in range(copies):
            accum += expensive(inputs[inds[0, i]], w)
        return accum[None]

    def placed(dims, dtype, spec):
        return jax.ShapeDtypeStruct(dims, dtype, sharding=NamedSharding(mesh, spec))

    mapped = jax.shard_map(total, mesh=mesh, in_specs=(split, whole, whole), out_specs=split, check_vma=False)
    return mapped, (placed((4, copies), jnp.int32, split), placed((table, rows, rows), jnp.float32, whole),
                    placed((rows, inner), jnp.float32, whole))


@loop("fires-hht", big=dict(copies=8, rows=2048), small=dict(copies=4, rows=24))
def sum_of_products(copies, rows):
    def total(xs):
        return sum(h @ h.T for h in [jnp.tanh(xs[k]) for k in range(copies)])

    return total, (shape((copies, rows, rows)),)


@loop("fires-microbatch", big=dict(copies=8, rows=1 << 13, width=512), small=dict(copies=4, rows=40, width=12))
def microbatches(copies, rows, width):
    def loss(w, x):
        h = jnp.tanh(jnp.tanh(x @ w) @ w)
        return jnp.sum(h ** 2)

    def gradient(w, xs):
        total = jnp.zeros_like(w)
        for k in range(copies):
            total += jax.grad(loss)(w, xs[k])
        return total

    return gradient, (shape((width, width)), shape((copies, rows, width)))


@loop("fires-gradient", big=dict(copies=8, rows=1 << 13, width=512), small=dict(copies=5, rows=40, width=12))
def gradient_of_sum(copies, rows, width):
    def loss(w, x):
        h = jnp.tanh(jnp.tanh(x @ w) @ w)
        return jnp.sum(h ** 2)

    # The backward pass visits the copies from the last to the first and adds two terms for each.
    def total(w, xs):
        return sum(loss(w, xs[k]) for k in range(copies))

    return jax.grad(total), (shape((width, width)), shape((copies, rows, width)))


@loop("fires-value-and-gradient", big=dict(copies=8, rows=1 << 13, width=512), small=dict(copies=4, rows=40, width=12))
def value_and_gradients(copies, rows, width):
    def step(parameters, x):
        w, b = parameters
        return jnp.sum(jnp.tanh(x @ w + b) ** 2)

    def gradient(w, b, xs):
        value, dw, db = 0.0, jnp.zeros_like(w), jnp.zeros_like(b)
        for k in range(copies):
            v, (one, other) = jax.value_and_grad(step)((w, b), xs[k])
            value, dw, db = value + v, dw + one, db + other
        return value, dw, db

    return gradient, (shape((width, width)), shape((width,)), shape((copies, rows, width)))


@loop("fires-outputs", big=dict(copies=8, table=64, rows=2048), small=dict(copies=4, table=6, rows=24))
def stacked_outputs(copies, table, rows):
    def kernel(v):
        # XLA fuses everything around a sort, but not the sort.
        return jnp.sort(jnp.sin(v[:, None] - v[None, :]), axis=0).sum(1)

    def each(inds, xs):
        return jnp.stack([kernel(xs[inds[k]]) for k in range(copies)])

    return each, (shape((copies,), "int32"), shape((table, rows)))


@loop("fires-reversed-outputs", big=dict(copies=8, rows=2048), small=dict(copies=4, rows=24))
def outputs_in_reverse(copies, rows):
    def kernel(v):
        # XLA fuses everything around a sort, but not the sort.
        return jnp.sort(jnp.sin(v[:, None] - v[None, :]), axis=0).sum(1)

    def each(xs):
        return jnp.concatenate([kernel(xs[k]) for k in reversed(range(copies))])

    return each, (shape((copies, rows)),)


@loop("fires-tuple", big=dict(copies=8, rows=2048), small=dict(copies=4, rows=24))
def separate_outputs(copies, rows):
    def kernel(v):
        # XLA fuses everything around a sort, but not the sort.
        return jnp.sort(jnp.sin(v[:, None] - v[None, :]), axis=0).sum(1)

    def each(xs):
        return tuple(kernel(xs[k]) for k in range(copies))

    return each, (shape((copies, rows)),)


@loop("fires-peeled", big=dict(copies=8, rows=2048), small=dict(copies=6, rows=24))
def first_and_last_differ(copies, rows):
    # JAX drops the multiplication by one; the last step has a twist of its own.
    def total(xs):
        accum = jnp.zeros((rows, rows))
        for k in range(copies):
            h = jnp.tanh(xs[k] * float(k + 1))
            accum += (h if k < copies - 1 else jnp.sin(h)) @ h.T
        return accum

    return total, (shape((copies, rows, rows)),)


@loop("fires-nested", big=dict(steps=10, rows=1024), small=dict(steps=3, rows=16))
def two_levels(steps, rows):
    def kernel(v):
        # XLA fuses everything around a sort, but not the sort.
        return jnp.sort(jnp.sin(v[:, None] - v[None, :]), axis=0).sum(1)

    def total(xs, w):
        accum = jnp.zeros((rows,))
        for i in range(steps):
            for j in range(steps):
                accum += kernel(xs[i] * w[j])
        return accum

    return total, (shape((steps, rows)), shape((steps, rows)))


@loop("fires-in-scan", big=dict(steps=6, copies=8, rows=1024), small=dict(steps=3, copies=4, rows=16))
def scan_of_unrolled_copies(steps, copies, rows):
    def kernel(v):
        # XLA fuses everything around a sort, but not the sort.
        return jnp.sort(jnp.sin(v[:, None] - v[None, :]), axis=0).sum(1)

    # The body of the scan is unrolled, and the scan stacks what the copies hand out.
    def each(x, xs):
        def step(shift, row):
            parts = jnp.stack([kernel(xs[k] * row + shift) for k in range(copies)])
            return shift + 1.0, parts

        return jax.lax.scan(step, x, xs[:steps])

    return each, (shape((rows,)), shape((max(steps, copies), rows)))


@loop("keeps-no-gain", big=dict(steps=8, rows=2048), small=dict(steps=6, rows=24))
def state_from_step_to_step(steps, rows):
    def kernel(v):
        # XLA fuses everything around a sort, but not the sort.
        return jnp.sort(jnp.sin(v[:, None] - v[None, :]), axis=0).sum(1)

    # Each step needs the one before, so XLA never holds two of them: a loop gains nothing.
    def last(x, xs):
        for k in range(steps):
            x = jnp.tanh(kernel(x + xs[k]) + x)
        return x

    return last, (shape((rows,)), shape((steps, rows)))


@loop("fires-maximum", big=dict(copies=8, rows=2048), small=dict(copies=4, rows=24))
def running_maximum(copies, rows):
    def kernel(v):
        # XLA fuses everything around a sort, but not the sort.
        return jnp.sort(jnp.sin(v[:, None] - v[None, :]), axis=0).sum(1)

    def largest(xs):
        top = kernel(xs[0])
        for k in range(1, copies):
            top = jnp.maximum(top, kernel(xs[k]))
        return top

    return largest, (shape((copies, rows)),)


@loop("fires-integers", big=dict(copies=8, rows=1 << 21), small=dict(copies=5, rows=100))
def integer_chain(copies, rows):
    def mixed(xs):
        total = jnp.zeros((rows,), jnp.int32)
        for k in range(copies):
            total ^= jnp.sort(xs[k] * (3 * k + 1) + k * k)
        return total

    return mixed, (shape((copies, rows), "int32"),)


@loop("fires-donated", donate=(0,), big=dict(copies=8, rows=2048), small=dict(copies=4, rows=24))
def donated_sum(copies, rows):
    def update(accum, xs):
        for k in range(copies):
            h = jnp.tanh(xs[k])
            accum = accum + h @ h.T
        return accum

    return update, (shape((rows, rows)), shape((copies, rows, rows)))


@loop("keeps-residuals", big=dict(layers=8, rows=1 << 12, width=512), small=dict(layers=4, rows=40, width=12))
def layers(layers, rows, width):
    # The backward pass reads what every layer computed: a loop would store it in stacks, forwards and widened.
    def total(ws, x):
        for k in range(layers):
            x = jnp.tanh(x @ ws[k])
        return jnp.sum(x)

    return jax.grad(total), (shape((layers, width, width)), shape((rows, width)))


@loop("keeps-separate-arrays", big=dict(copies=4, rows=1024), small=dict(copies=4, rows=24))
def arrays_of_their_own(copies, rows):
    def total(*xs):
        return sum(jnp.tanh(x) @ jnp.tanh(x).T for x in xs)

    return total, tuple(shape((rows, rows)) for _ in range(copies))


@loop("keeps-two-copies", big=dict(rows=2048), small=dict(rows=24))
def only_two(rows):
    def total(xs):
        return jnp.tanh(xs[0]) @ xs[0].T + jnp.tanh(xs[1]) @ xs[1].T

    return total, (shape((2, rows, rows)),)


@program("roll", "keeps-sharded", devices=4, copies=8, rows=2048)
def values_across_devices(copies, rows):
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices()[:4], ("d",))

    def total(xs):
        return sum(jnp.tanh(xs[k]) @ xs[k].T for k in range(copies))

    stack = jax.ShapeDtypeStruct((copies, rows, rows), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec(None, "d")))
    return total, (stack,)
