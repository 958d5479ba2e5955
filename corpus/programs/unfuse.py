"""Programs whose compiled form holds everything that XLA:CPU makes of programs, and some whose compiled form cannot be turned back.

What matters is NAME.after.hlo, the scheduled module: it is the input of the pass, and NAME.before.hlo is what it must compute.
"""
import jax
import jax.numpy as jnp
from jax import lax

from programs.catalog import program, shape


@program("unfuse", "fires-fusions")
def two_results_of_one_fusion():
    def run(x):
        y = jnp.tanh(x) * 2 + jnp.sin(x)
        return y, y.sum(0), jnp.argmax(y, 1)

    return run, (shape((24, 40)),)


@program("unfuse", "fires-transposes")
def attention_heads():
    """Products whose operands XLA reads in other orders: copies, bitcasts that transpose."""
    def run(q, k, v):
        scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k), -1)
        return jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(q.shape[0], q.shape[1], -1)

    return run, (shape((2, 12, 4, 8)),) * 3


@program("unfuse", "fires-loop", donate=(0,))
def a_loop_that_updates_in_place():
    def run(state, w):
        def step(i, state):
            row = jnp.tanh(state[i] @ w)
            return state.at[i].set(row + state[i])

        return lax.fori_loop(0, state.shape[0], step, state)

    return run, (shape((16, 8)), shape((8, 8)))


@program("unfuse", "fires-scan-gradient")
def gradient_of_a_scan():
    def run(x, w):
        return lax.scan(lambda x, w: (jax.nn.gelu(x @ w) + x, None), x, w)[0].sum()

    return jax.grad(run, (0, 1)), (shape((8, 16)), shape((5, 16, 16)))


@program("unfuse", "fires-small-loop")
def a_loop_in_a_call():
    """XLA:CPU hands loops over few bytes to one call."""
    return lambda x: lax.fori_loop(0, 10, lambda i, x: x + jnp.sin(x), x), (shape((8,)),)


@program("unfuse", "fires-conditional")
def branches():
    return lambda p, x: lax.cond(p, lambda x: jnp.sin(x).sum(0), lambda x: x.max(0), x), (shape((), "bool"), shape((12, 20)))


@program("unfuse", "fires-gather-scatter")
def indices():
    def run(table, i, u):
        return jnp.take(table, i, axis=0) * 2, table.at[i].add(u), lax.dynamic_slice(table, (i[0], i[1]), (4, 4))

    return run, (shape((30, 6)), shape((50,), "int32"), shape((50, 6)))


@program("unfuse", "fires-sort")
def sorted_rows():
    return lambda x: (jnp.argsort(x, 1), jnp.cumsum(x, 0), jnp.median(x)), (shape((20, 30)),)


@program("unfuse", "fires-bits")
def bits_of_words():
    """Bitcasts between elements of different sizes, and a stream of random bits."""
    def run(x):
        noise = jax.random.bits(jax.random.key(0), x.shape)
        return lax.bitcast_convert_type(x, jnp.uint8), lax.bitcast_convert_type(x, jnp.uint32) ^ noise

    return run, (shape((16, 10)),)


@program("unfuse", "fires-bf16")
def low_precision():
    return lambda x, y: jax.nn.gelu(x @ y) + x, (shape((16, 16), "bfloat16"),) * 2


@program("unfuse", "fires-windows")
def convolution_and_pooling():
    def run(x, k):
        y = lax.conv_general_dilated(x, k, (1, 1), "SAME")
        return lax.reduce_window(y, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"), jnp.fft.rfft(y)

    return run, (shape((2, 3, 16, 16)), shape((4, 3, 3, 3)))


@program("unfuse", "fires-foreign-call")
def factorisation():
    """LAPACK through XLA's foreign function interface: the call stays, with the layouts it asks for."""
    return lambda x, b: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(x @ x.T + 40 * jnp.eye(12)), True), b), (shape((12, 12)), shape((12, 3)))


@program("unfuse", "keeps-custom-call")
def a_call_of_the_compilers_own():
    return lambda x: lax.top_k(x, 5), (shape((16, 32)),)


@program("unfuse", "keeps-partitioned", devices=2)
def two_devices():
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    mesh = Mesh(jax.devices()[:2], ("d",))
    rows = jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=NamedSharding(mesh, PartitionSpec("d")))
    return lambda x: (x @ x.T).sum(), (rows,)
