"""What hlo_opt.jit cannot help with runs as under jax.jit, with a warning that names the reason."""
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_opt
from programs import EAGER, anew, arguments, gradient, rewritten, same


def falls_back(function, *args, reason, **given):
    f, g = hlo_opt.jit(function, options=EAGER, **given), jax.jit(function, **given)
    with pytest.warns(hlo_opt.FallbackWarning, match=reason) as caught:
        same(f(*args), g(*args))
    assert caught[0].filename == __file__, caught[0]
    same(f(*args), g(*args))
    assert len(f.reports) == 1 and f.memory_report().kept == "fallback" and "jax.jit" in f.explain()


def test_custom_partitioning():
    from jax.experimental.custom_partitioning import custom_partitioning

    @custom_partitioning
    def double(x):
        return x * 2

    double.def_partition(
        partition=lambda mesh, args, result: (mesh, lambda x: x * 2, result.sharding, (args[0].sharding,)),
        infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding, sharding_rule="i j k -> i j k")
    def both(x, idx):
        return gradient(x, idx) * double(x)

    x, idx = arguments(1 << 12)
    # On one device JAX writes the plain function into the module, so there is nothing foreign in it.
    same(hlo_opt.jit(both, options=EAGER)(x, idx), jax.jit(both)(x, idx))
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x, idx = (jax.device_put(array, jax.NamedSharding(mesh, jax.P("x"))) for array in (x, idx))
    falls_back(anew(both), x, idx, reason="custom partitioning")


def test_layouts_of_the_user():
    from jax.experimental.layout import Format, Layout
    x, idx = arguments(1 << 12)
    turned = jax.device_put(x, Format(Layout((2, 1, 0)), x.sharding))
    falls_back(lambda x, idx: gradient(x, idx) * x, turned, idx, reason="layouts of their own", in_shardings=(turned.format, None))


def test_a_target_without_a_memory_model(monkeypatch):
    x, idx = arguments(1 << 12)
    f = hlo_opt.jit(gradient, options=hlo_opt.Options(target="tpu"))
    try:
        hlo_opt.analyze("HloModule m\nENTRY e {\n  ROOT x = f32[8] parameter(0)\n}", target="tpu")
    except hlo_opt.EstimateError:
        with pytest.warns(hlo_opt.FallbackWarning, match="memory model"):
            same(f(x, idx), jax.jit(gradient)(x, idx))
    else:
        same(f(x, idx), jax.jit(gradient)(x, idx))


def test_an_older_jax_is_left_alone(monkeypatch):
    from hlo_opt import jax_lowering
    monkeypatch.setattr(jax_lowering, "VERSIONS", ((9, 9),))
    x, idx = arguments(1 << 12)
    with pytest.warns(hlo_opt.FallbackWarning, match="is not supported"):
        f = hlo_opt.jit(anew(gradient), options=EAGER)
    same(f(x, idx), jax.jit(gradient)(x, idx))
    with pytest.raises(ValueError, match="is not supported"):
        hlo_opt.wrap_lowered(jax.jit(gradient).lower(x, idx))
    for installed in (hlo_opt.install, lambda: hlo_opt.optimizing().__enter__()):
        with pytest.warns(hlo_opt.FallbackWarning, match="does nothing: jax .* is not supported"):
            installed()


@pytest.fixture
def newer(monkeypatch):
    """A JAX that the tests have not seen."""
    from hlo_opt import jax_hook, jax_lowering
    monkeypatch.setattr(jax_lowering, "VERSIONS", ((0, 1),))
    jax_hook._works.cache_clear()
    yield
    jax_hook._works.cache_clear()


def test_a_newer_jax_is_tried_once(newer, monkeypatch):
    x, idx = arguments(1 << 14)
    f = hlo_opt.jit(anew(gradient), options=EAGER)
    same(f(x, idx), jax.jit(gradient)(x, idx))
    rewritten(f.memory_report())


@pytest.mark.parametrize("broken", ["program", "rewritten", "plant"])
def test_a_newer_jax_in_which_something_moved_is_left_alone(newer, monkeypatch, broken):
    from hlo_opt import jax_lowering

    def moved(*_):
        raise AttributeError("no attribute '_hlo'")

    monkeypatch.setattr(jax_lowering.Lowering, broken, moved)
    x, idx = arguments(1 << 12)
    f, g = (hlo_opt.jit(anew(gradient), options=EAGER) for _ in range(2))
    with pytest.warns(hlo_opt.FallbackWarning, match="does nothing, because jax .* does not work as expected: AttributeError") as caught:
        same(f(x, idx), jax.jit(gradient)(x, idx))
        same(g(x, idx), f(x, idx))
    assert len(caught) == 1 and not f.reports


def test_without_jit_and_with_nan_checks():
    code = ("import jax, jax.numpy as jnp, hlo_opt\n"
            "from programs import EAGER, arguments, gradient, same\n"
            "f = hlo_opt.jit(gradient, options=EAGER)\n"
            "with jax.disable_jit(): same(f(*arguments(64)), gradient(*arguments(64)))\n"
            "jax.config.update('jax_debug_nans', True)\n"
            "same(f(*arguments(1 << 12)), jax.jit(gradient)(*arguments(1 << 12)))\n"
            "try: hlo_opt.jit(lambda x: jnp.log(x))(-1.0)\n"
            "except FloatingPointError: print('caught')\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=os.path.dirname(__file__), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["caught"], done.stderr
