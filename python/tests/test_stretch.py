"""Broadcasts that stretch dimensions of size 1 come back from HLO as JAX wrote them; others stay."""
import re

import jax
import jax.numpy as jnp
import pytest

from hlo_opt.xla import compiler, stretch


def stretches(text):
    """Types of the broadcasts that stretch a dimension of size 1."""
    return sorted(re.findall(r"broadcast_in_dim .*: \((tensor<(?:\d+x)*1x.*>)\) -> (tensor<.*>)", re.sub(r" loc\(.*", "", text)))


def round_trip(function, *shapes):
    """JAX's own StableHLO, and what comes back from HLO."""
    lowered = jax.jit(function).lower(*(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes))
    module = lowered.compiler_ir("hlo").as_hlo_module()
    return lowered.as_text(), compiler.stablehlo(compiler.computation(compiler.parse(module.to_string())))


@pytest.mark.parametrize(("function", "shapes"), [
    (lambda x: jax.nn.softmax(x, -1), [(6, 5)]),
    (jax.grad(lambda x: jnp.sum(jax.nn.softmax(x @ x.T, -1) ** 2)), [(6, 5)]),
    (lambda x, y: x[:, None, :] * y[None, :, :], [(6, 5), (7, 5)]),
    (lambda x, y: x - y, [(6, 5, 4), (1, 5, 1)]),
    (lambda x, y: x + y[None, :, None], [(6, 5, 4), (5,)]),
])
def test_come_back_as_jax_wrote_them(function, shapes):
    own, back = round_trip(function, *shapes)
    assert stretches(own), "the program has none"
    assert stretches(own) == stretches(back)


CHAIN = """
func.func @main(%arg0: tensor<1x4xf32>) -> tensor<3x4x4xf32> {{
  %0 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<1x4xf32>) -> tensor<1x1x4xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x1x4xf32>) -> tensor<4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [{dimension}] : (tensor<4xf32>) -> tensor<3x4x4xf32>
  return %2 : tensor<3x4x4xf32>
}}
"""


def test_another_dimension_stays():
    assert "%arg0, dims = [1, 2] : (tensor<1x4xf32>) -> tensor<3x4x4xf32>" in stretch.stretched(CHAIN.format(dimension=2))
    other = CHAIN.format(dimension=1)
    assert stretch.stretched(other) == other
