"""What hlo_opt.jit cannot help with runs as under jax.jit, with a warning that names the reason."""
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_opt
from programs import EAGER, arguments, gradient, same


def falls_back(function, *args, reason, **given):
    f, g = hlo_opt.jit(function, options=EAGER, **given), jax.jit(function, **given)
    with pytest.warns(hlo_opt.FallbackWarning, match=reason) as caught:
        same(f(*args), g(*args))
    assert caught[0].filename == __file__, caught[0]
    same(f(*args), g(*args))
    assert len(f._reports) == 1 and f.memory_report().kept == "fallback" and "jax.jit" in f.explain()


def test_callbacks_into_python():
    def called(x, idx):
        y = jax.pure_callback(lambda a: np.sin(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return gradient(y, idx) * y

    falls_back(called, *arguments(1 << 12), reason="calls back into Python")


def test_debug_prints(capfd):
    def printed(x, idx):
        jax.debug.print("sum {}", x.sum())
        return gradient(x, idx)

    falls_back(printed, *arguments(1 << 12), reason="side effects|calls back")
    jax.effects_barrier()
    assert capfd.readouterr().out.count("sum") == 4


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
    falls_back(both, x, idx, reason="custom partitioning")


def test_mutable_arrays():
    ref = jax.new_ref(jnp.zeros((32, 32, 32))) if hasattr(jax, "new_ref") else jax.array_ref(jnp.zeros((32, 32, 32)))

    def changed(x, idx):
        ref[...] += gradient(x, idx)
        return x.sum()

    falls_back(changed, *arguments(1 << 12), reason="mutable arrays|side effects")


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


def test_an_unknown_jax_is_left_alone(monkeypatch):
    from hlo_opt import jax_lowering
    monkeypatch.setattr(jax_lowering, "VERSIONS", ((9, 9),))
    x, idx = arguments(1 << 12)
    with pytest.warns(hlo_opt.FallbackWarning, match="is not supported"):
        f = hlo_opt.jit(gradient, options=EAGER)
    same(f(x, idx), jax.jit(gradient)(x, idx))
    with pytest.raises(ValueError, match="is not supported"):
        hlo_opt.wrap_lowered(jax.jit(gradient).lower(x, idx))


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
