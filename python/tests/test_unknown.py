"""Products of which the upper half is wanted come back from HLO as JAX wrote them, and compute the same."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_opt
from hlo_opt.xla import compiler, unknown


def products(a, b):
    return jax.lax.mulhi(a, b) + a


def computation(dtype):
    shape = jax.ShapeDtypeStruct((1000,), dtype)
    module = jax.jit(products).lower(shape, shape).compiler_ir("hlo").as_hlo_module()
    return compiler.computation(compiler.parse(module.to_string()))


@pytest.mark.parametrize("dtype", [jnp.uint32, jnp.int32])
def test_upper_halves_come_back(dtype):
    text = compiler.stablehlo(computation(dtype))
    assert text.count("chlo.mulhi") == 1 and "mhlo.unknown" not in text


def in_a_loop(a, b):
    """Upper halves in the branches of a loop, of vectors and of numbers."""
    def step(k, c):
        return jax.lax.cond(c[0] > 7, lambda c: jax.lax.mulhi(c, b) + k.astype(c.dtype), lambda c: c + jax.lax.mulhi(c[0], b[0]), c)

    return jax.lax.fori_loop(0, 3, step, a)


@pytest.mark.parametrize("dtype", [jnp.uint32, jnp.int32, jnp.int16, jnp.uint8])
def test_upper_halves_in_loops_and_branches_come_back(dtype):
    shape = jax.ShapeDtypeStruct((1000,), dtype)
    module = jax.jit(in_a_loop).lower(shape, shape).compiler_ir("hlo").as_hlo_module()
    text = compiler.stablehlo(compiler.computation(compiler.parse(module.to_string())))
    # Each branch stands in the conditional and once more as a function of its own.
    assert text.count("chlo.mulhi") == 4 and "mhlo.unknown" not in text


def test_what_may_be_something_else_stays():
    program = computation(jnp.uint32)
    two = '"mhlo.unknown"(%0, %1) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>\n' * 2
    assert unknown.spelled(two, program) == two
    float_ = '"mhlo.unknown"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'
    assert unknown.spelled(float_, program) == float_
    twice = f'"func.func"() <{{sym_name = "main"}}>\n{two}'
    assert unknown.spelled(twice, program) == twice


def test_philox_is_rewritten_with_equal_results(recwarn):
    def drop(key, x):
        kept = jax.random.bernoulli(key, 0.5, (x.size, 1))
        return (jnp.sin(x[:, None] * x[None]) * kept).sum(1)

    key, x = jax.random.key(7, impl="philox4x32"), np.linspace(-1, 1, 4096, dtype=np.float32)
    rewritten = hlo_opt.jit(drop)
    np.testing.assert_allclose(rewritten(key, x), jax.jit(drop)(key, x), rtol=1e-5, atol=1e-4)
    assert not [warning for warning in recwarn if "fall" in str(warning.message)]
    assert rewritten.memory_report(key, x).after.total < 40 << 20
