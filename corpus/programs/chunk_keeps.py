"""Programs that the chunk pass must leave alone, or rewrite only with special care (keeps-*)."""
import jax
import jax.numpy as jnp
from jax import lax

from programs.catalog import program, raw_twins, shape, twins

ROWS = 1 << 30
SMALL_ROWS = 5003
CUBE = (128, 128, 128)
SMALL_CUBE = (8, 16, 4)


def table(name, **common):
    """Decorator: three index columns into a cube, at both sizes."""
    return twins("chunk", f"keeps-{name}", big=dict(rows=ROWS, dims=CUBE),
                 small=dict(rows=SMALL_ROWS, dims=SMALL_CUBE), **common)


def vector(name, **common):
    """Decorator: one index column into a vector, at both sizes."""
    return twins("chunk", f"keeps-{name}", big=dict(rows=ROWS, size=1 << 20),
                 small=dict(rows=SMALL_ROWS, size=37), **common)


@twins("chunk", "keeps-small", big=dict(rows=1000), small=dict(rows=61))
def smaller_than_a_block(rows):
    def loss(x, i):
        return jnp.sum(x[i[:, 0], i[:, 1], i[:, 2]] * 2.5)

    return jax.grad(loss), (shape(SMALL_CUBE), shape((rows, 3), "int32"))


@vector("segment-sum")
def already_at_floor(rows, size):
    def total(u, i):
        return jax.ops.segment_sum(u, i, num_segments=size)

    return total, (shape((rows,)), shape((rows,), "int32"))


@table("forward-gather")
def forward_gather(rows, dims):
    def pick(x, i):
        return x[i[:, 0], i[:, 1], i[:, 2]]

    return pick, (shape(dims), shape((rows, 3), "int32"))


@table("unique-indices")
def unique_indices(rows, dims):
    def update(x, i):
        return x.at[i[:, 0], i[:, 1], i[:, 2]].add(2.5, unique_indices=True)

    return update, (shape(dims), shape((rows, 3), "int32"))


@table("shared-concat")
def shared_concatenation(rows, dims):
    # The gathered values leave the program, so the concatenation has two users of full size.
    def update(x, i):
        at = i[:, 0], i[:, 1], i[:, 2]
        return x.at[at].get(mode="fill", fill_value=0.0), x.at[at].add(2.5)

    return update, (shape(dims), shape((rows, 3), "int32"))


@table("while-body")
def in_while_body(rows, dims):
    # The indices do not change from step to step: XLA hoists their normalisation out of the loop.
    def update(x, i):
        def step(_, x):
            return x.at[i[:, 0], i[:, 1], i[:, 2]].add(2.5)

        return lax.fori_loop(0, 3, step, x)

    return update, (shape(dims), shape((rows, 3), "int32"))


@table("called")
def in_called_computation(rows, dims):
    # Two call sites of one computation: a rewrite for one of them is a rewrite for both.
    def update(x, i, j):
        def add(x, i):
            return x.at[i[:, 0], i[:, 1], i[:, 2]].add(2.5)

        shared = jax.jit(add)
        return shared(shared(x, i), j)

    return update, (shape(dims), shape((rows, 3), "int32"), shape((rows, 3), "int32"))


@program("chunk", "keeps-sharded", devices=4, rows=ROWS, dims=CUBE)
def sharded_index(rows, dims):
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices()[:4], ("rows",))
    sharding = NamedSharding(mesh, PartitionSpec("rows"))

    def loss(x, i):
        return jnp.sum(x[i[:, 0], i[:, 1], i[:, 2]] * 2.5)

    index = jax.ShapeDtypeStruct((rows, 3), jnp.int32, sharding=sharding)
    return jax.grad(loss), (shape(dims), index)


@vector("self-read")
def reads_its_own_table(rows, size):
    # The updates depend on the table as it was before the scatter.
    def update(x, i):
        return x.at[i].add(x[i[::-1]])

    return update, (shape((size,)), shape((rows,), "int32"))


BIG = {"ROWS": ROWS, "SIZE": 1 << 20}
SMALL = {"ROWS": SMALL_ROWS, "SIZE": 37}
raw_twins("chunk", "keeps-mixed-combiner", "mixed_combiner.hlo", big=BIG, small=SMALL)
raw_twins("chunk", "keeps-extra-combiner", "extra_combiner.hlo", big=BIG, small=SMALL)
raw_twins("chunk", "fires-two-operands", "two_operands.hlo", big=BIG, small=SMALL)
