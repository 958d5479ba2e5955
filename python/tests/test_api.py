"""What jax.jit takes, does and refuses, hlo_opt.jit does too."""
import copy
import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import pytest
from jax import export

import hlo_opt
from programs import EAGER, anew


def plain(x):
    return jnp.sin(x) + 1


def steps(x):
    yield x


class WithStatic:
    @staticmethod
    def double(x):
        return x * 2


CASES = {
    "exported": lambda jit: export.export(jit(plain))(jnp.ones(3)).call(jnp.ones(3)),
    "a jaxpr": lambda jit: str(jax.make_jaxpr(jit(plain))(1.0)),
    "a stage": lambda jit: (isinstance(jit(plain), jax.stages.Wrapped), isinstance(jit(plain).lower(1.0), jax.stages.Lowered)),
    "costs": lambda jit: sorted(jit(plain).lower(1.0).cost_analysis()),
    "a copy": lambda jit: copy.deepcopy(jit(plain))(1.0),
    "a weak reference": lambda jit: weakref.ref(jit(plain)) is not None,
    "a cache": lambda jit: type(jit(plain)._cache_size()),
    "a generator": lambda jit: jit(steps),
    "a static method": lambda jit: jit(WithStatic.__dict__["double"]),
    "no function": lambda jit: jit(3),
    "too few arguments": lambda jit: jit(plain, static_argnums=3)(1.0),
    "an unknown argument": lambda jit: jit(plain, colour="red"),
    "inline": lambda jit: jit(plain, inline=True)(1.0),
    "options of the compiler": lambda jit: jit(plain, compiler_options={"xla_embed_ir_in_executable": True})(1.0),
    "wrong options of the compiler": lambda jit: jit(plain, compiler_options={"xla_no_such_flag": True})(1.0),
    "options of the compiler ahead of time": lambda jit: jit(plain).lower(1.0).compile(compiler_options={"xla_embed_ir_in_executable": True})(1.0),
    "a device": lambda jit: jit(plain, device=jax.devices()[1])(1.0).devices(),
    "a backend": lambda jit: jit(plain, backend="cpu")(1.0),
    "another platform": lambda jit: "stablehlo" in jit(plain).trace(1.0).lower(lowering_platforms=("tpu",)).as_text(),
    "in jit": lambda jit: jax.jit(jit(plain))(1.0),
    "in a scan": lambda jit: jax.lax.scan(jit(lambda c, x: (c + x, c)), 0.0, jnp.ones(3)),
    "in a checkpoint": lambda jit: jax.grad(jax.checkpoint(jit(plain)))(1.0),
    "of a derivative of its own": lambda jit: jax.grad(jit(jax.nn.relu))(1.0),
    "shapes": lambda jit: jax.eval_shape(jit(plain), jax.ShapeDtypeStruct((3,), jnp.float32)),
    "attributes": lambda jit: jit(with_attribute).note,
}


def with_attribute(x):
    return x


with_attribute.note = "kept"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_the_same_comes_of_both(name):
    def outcome(jit):
        try:
            return str(CASES[name](jit))
        except Exception as error:  # noqa: BLE001 - errors are compared too
            return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"

    assert outcome(hlo_opt.jit) == outcome(jax.jit)


def test_a_function_that_is_jitted_again_compiles_nothing_again(monkeypatch):
    from jax._src import compiler
    compiled = []
    compile_or_get_cached = compiler.compile_or_get_cached
    monkeypatch.setattr(compiler, "compile_or_get_cached", lambda *args, **given: compiled.append(args) or compile_or_get_cached(*args, **given))
    function, x = anew(plain), jnp.ones(3)
    x.block_until_ready()
    for options in (None, EAGER):
        compiled.clear()
        found = [hlo_opt.jit(function, options=options)(x) for _ in range(5)]
        assert len(compiled) == 1, "one program, of which nothing is rewritten"
    compiled.clear()
    hlo_opt.jit(function, donate_argnums=0)(x + 1)
    assert len(compiled) >= 1 and len(found) == 5, "another program"


def test_nothing_is_kept_alive():
    weights, x = jnp.ones(1 << 16), jnp.ones(1 << 16)
    dead = weakref.ref(weights), weakref.ref(x)
    f = hlo_opt.jit(functools.partial(lambda weights, x: x + weights, weights))
    g = hlo_opt.jit(lambda x, weights=weights: x * weights)
    gc.disable()
    try:
        f(x), g(x)
        del x
        assert dead[1]() is None
        del f, g, weights
        assert dead[0]() is None
    finally:
        gc.enable()
