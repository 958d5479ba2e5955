"""hlo_opt.jit for devices that this machine does not have: the target is that of the lowering, and its compiler judges where it is installed."""
import dataclasses
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_opt
from hlo_opt.xla import targets
from programs import EAGER, anew, arguments, gradient, rewritten, same

SHAPES = jax.ShapeDtypeStruct((128,) * 3, jnp.float32), jax.ShapeDtypeStruct((1 << 24, 3), jnp.int32)
COMPILERS = {"tpu": ("libtpu", targets.tpu_devices), "gpu": ("jax_cuda12_plugin", targets.gpu_devices)}
# Not installed by the tests: wheels of several GB that only those install who compile for the device.
INSTALLED = [target for target, (package, _) in COMPILERS.items() if importlib.util.find_spec(package)]


def attention(q, k, v):
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k), axis=-1), v)


HEADS = [jax.ShapeDtypeStruct((8, 4096, 64), jnp.float32)] * 3


@pytest.mark.parametrize(("platform", "target"), [("cpu", "cpu"), ("tpu", "tpu"), ("cuda", "gpu"), ("rocm", "gpu")])
def test_the_target_is_that_of_the_lowering(platform, target):
    lowered = jax.jit(jax.grad(lambda q, k, v: (attention(q, k, v) ** 2).sum())).trace(*HEADS).lower(lowering_platforms=(platform,))
    wrapped = hlo_opt.wrap_lowered(lowered, options=hlo_opt.Options(judge="model"))
    report = wrapped.memory_report()
    assert (report.target, report.model.target, report.kept) == (target, target, "rewritten"), wrapped.explain()
    before, after = (memory.total_bytes + memory.hidden for memory in (report.model.before, report.model.after))
    assert after < before / 2
    # The rewritten program is handed on as any lowered program is.
    assert "while(" in wrapped.as_text("hlo") and "while(" not in lowered.as_text("hlo")


def test_several_platforms_and_unknown_ones_fall_back(monkeypatch):
    both = jax.jit(gradient).trace(*SHAPES).lower(lowering_platforms=("tpu", "cpu"))
    with pytest.warns(hlo_opt.FallbackWarning, match="several platforms: tpu, cpu"):
        assert hlo_opt.wrap_lowered(both).memory_report().kept == "fallback"
    f = hlo_opt.jit(anew(gradient), options=EAGER)
    monkeypatch.setattr("hlo_opt.jax_lowering.TARGETS", ("gpu", "tpu"))
    with pytest.warns(hlo_opt.FallbackWarning, match="no memory model of platform 'cpu'"):
        same(f(*arguments(1 << 12)), jax.jit(gradient)(*arguments(1 << 12)))


@pytest.fixture
def small_device(monkeypatch):
    """A compiler that refuses programs for which `fits` is false, as XLA:TPU does."""
    from hlo_opt import jax_plan
    measured, asked = jax_plan.measured, []

    def limited(computation, target, fits=lambda number: False):
        asked.append(computation)
        if not fits(len(asked)):
            raise jax_plan.OutOfMemory("Ran out of memory in memory space hbm. Used 16.51G of 15.75G hbm.")
        return measured(computation, target)

    jax_plan._verdicts.clear()
    yield lambda fits: monkeypatch.setattr(jax_plan, "measured", lambda *of: limited(*of, fits=fits))
    jax_plan._verdicts.clear()


# The original is asked about first.
BOTH = dataclasses.replace(EAGER, judge="both")


def test_a_program_that_fits_the_device_only_when_rewritten_is_rewritten(small_device):
    small_device(lambda number: number > 1)
    x, idx = arguments(1 << 16)
    f = hlo_opt.jit(anew(gradient), options=BOTH)
    same(f(x, idx), jax.jit(gradient)(x, idx))
    report = f.memory_report()
    assert report.kept == "rewritten" and report.before is None and report.after_bytes == report.after.total
    assert "as written it does not compile: Ran out of memory" in f.explain()
    # Remembered, as other verdicts are.
    again = hlo_opt.jit(anew(gradient), options=BOTH)
    same(again(x, idx), f(x, idx))
    assert again.memory_report().after == report.after and not again.memory_report().attempts


def test_a_program_that_never_fits_stays_what_it_was(small_device):
    small_device(lambda number: False)
    x, idx = arguments(1 << 16)
    f = hlo_opt.jit(anew(gradient), options=BOTH)
    same(f(x, idx), jax.jit(gradient)(x, idx))
    report = f.memory_report()
    assert report.kept == "original" and "neither form compiles" in str(report)


def test_a_rewrite_that_does_not_fit_is_dropped(small_device):
    small_device(lambda number: number == 1)
    x, idx = arguments(1 << 16)
    f = hlo_opt.jit(anew(gradient), options=BOTH)
    same(f(x, idx), jax.jit(gradient)(x, idx))
    assert f.memory_report().kept == "original" and "no better" in str(f.memory_report())


def placed(target, function, **given):
    """`function` under both jits for the device of a compiler that needs none."""
    where = jax.sharding.SingleDeviceSharding(COMPILERS[target][1]()[0])
    return [kind(function, in_shardings=where, out_shardings=where, **given) for kind in (hlo_opt.jit, jax.jit)]


@pytest.mark.skipif(not INSTALLED, reason="no compiler of another device is installed: pip install '.[tpu]'")
@pytest.mark.parametrize("target", INSTALLED)
def test_the_compiler_of_the_device_judges(target):
    mine, theirs = placed(target, jax.grad(lambda q, k, v: (attention(q, k, v) ** 2).sum()), donate_argnums=0)
    report = rewritten(mine.memory_report(*HEADS))
    assert report.after.aliased == report.before.aliased >= 4 * HEADS[0].size
    assert report.judged and report.target == report.model.target == target
    original, compiled = theirs.lower(*HEADS).compile(), mine.lower(*HEADS).compile()
    assert targets.temporaries(original.memory_analysis(), target) == report.before.temporaries
    assert targets.temporaries(compiled.memory_analysis(), target) == report.after.temporaries < report.before.temporaries / 2
    # Arrays come and go as under jax.jit: in the layouts that the compiler chose for the original.
    assert compiled.input_formats == original.input_formats and compiled.output_formats == original.output_formats


@pytest.mark.skipif("tpu" not in INSTALLED, reason="needs XLA:TPU: pip install '.[tpu]'")
def test_what_xla_tpu_refuses_is_rewritten_until_it_fits():
    shapes = SHAPES[0], jax.ShapeDtypeStruct((1 << 29, 3), jnp.int32)
    mine, theirs = placed("tpu", gradient)
    with pytest.raises(Exception, match="RESOURCE_EXHAUSTED"):
        theirs.lower(*shapes).compile()
    report = mine.memory_report(*shapes)
    assert report.kept == "rewritten" and report.before is None and "Ran out of memory" in report.refusal
    assert report.after.total < 1.01 * report.after.floor


@pytest.mark.skipif("tpu" not in INSTALLED, reason="needs XLA:TPU: pip install '.[tpu]'")
def test_a_program_over_four_chips():
    mesh = jax.sharding.Mesh(np.array(targets.tpu_devices(4)), ("d",))
    local = jax.shard_map(lambda x, idx: jax.lax.psum(jax.grad(lambda x: jnp.sin(x[idx[:, 0], idx[:, 1], idx[:, 2]]).sum())(x), "d"),
                          mesh=mesh, in_specs=(jax.P(), jax.P("d")), out_specs=jax.P(), check_vma=False)
    shapes = [jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=jax.NamedSharding(mesh, spec))
              for shape, spec in zip(SHAPES, (jax.P(), jax.P("d")))]
    report = hlo_opt.jit(local).memory_report(*shapes)
    # What a chip runs was taken from the compiler, rewritten, and handed back to it: its figures are there, and none is worse.
    assert report.kept != "fallback" and report.attempts and report.after.total <= report.before.total, report


def test_products_whose_tiles_need_a_device_are_compiled_without_triton(monkeypatch):
    asked = []

    def compiled(text, devices, options):
        asked.append(options)
        if len(asked) == 1:
            raise RuntimeError("INTERNAL: Couldn't find output tile sizes that satisfy all constraints")
        return "executable"

    monkeypatch.setitem(targets.DEVICES, "gpu", lambda count: None)
    monkeypatch.setattr(targets, "compiled", compiled)
    assert targets.executable("HloModule m", "gpu", {"memory_fitting_level": 3}) == "executable"
    assert asked[1] == {"memory_fitting_level": 3, "xla_gpu_enable_triton_gemm": False}
    # Any other error is one.
    monkeypatch.setattr(targets, "compiled", lambda *_: (_ for _ in ()).throw(RuntimeError("RESOURCE_EXHAUSTED: 20 of 16 GiB")))
    with pytest.raises(targets.DoesNotFit, match="20 of 16 GiB"):
        targets.executable("HloModule m", "gpu")
