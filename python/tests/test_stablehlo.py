"""StableHLO of every form goes in and comes out, with the same interface and the same results."""
import io
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir

import hlo_opt
from programs import arguments, gradient, same

OPTIONS = dict(min_saving=1, chunk_bytes=1 << 14, exactness="bitwise")


def lowered(**given):
    return jax.jit(lambda x, idx: {"gradient": gradient(x, idx), "sum": x.sum()}, **given).lower(*arguments(1 << 14))


def signature(text):
    """The line of `main`, without locations."""
    with mlir.make_ir_context():
        lines = ir.Module.parse(text).operation.get_asm(enable_debug_info=False).splitlines()
    return next(line for line in lines if "@main(" in line)


def run(text, *arrays):
    """The results of StableHLO text, compiled as it is."""
    from jax._src.lib import xla_client
    device = jax.devices()[0]
    executable = device.client.compile_and_load(text, xla_client.DeviceList((device,)), xla_client.CompileOptions())
    return [np.asarray(result) for result in executable.execute([jax.device_put(array, device) for array in arrays])]


def test_text_comes_back_with_its_interface():
    text = lowered(donate_argnums=0).as_text()
    found = hlo_opt.optimize(text, **OPTIONS)
    assert found.report.rewrites and found.exported is None

    assert signature(found.stablehlo) == signature(text) and "result_info" in signature(text)
    assert "tf.aliasing_output" in signature(text) or "jax.buffer_donor" in signature(text)
    for one, other in zip(*(run(module, *arguments(1 << 14)) for module in (found.stablehlo, text)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert hlo_opt.analyze(found.stablehlo).total_bytes < hlo_opt.analyze(text).total_bytes


def test_bytecode_and_comments_are_told():
    text = lowered().as_text()
    module = lowered().compiler_ir("stablehlo")
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    figures = {hlo_opt.analyze(form).total_bytes for form in (text, text.encode(), "// a comment\n" + text, lowered().compiler_ir("hlo").as_hlo_text(True))}
    figures.add(hlo_opt.analyze(written.getvalue()).total_bytes)
    assert len(figures) == 1
    assert hlo_opt.optimize(text, passes="").stablehlo is not None
    again = hlo_opt.optimize(written.getvalue(), **OPTIONS)
    assert again.report.rewrites and signature(again.stablehlo) == signature(text)


def test_exported_functions_come_back_as_exported_functions():
    x, idx = arguments(1 << 14)
    function = jax.jit(lambda x, idx: {"gradient": gradient(x, idx), "sum": x.sum()})
    given = export.export(function)(x, idx)
    for form in (given, given.serialize()):
        found = hlo_opt.optimize(form, **OPTIONS)
        assert found.report.rewrites and found.exported.in_avals == given.in_avals
        same(found.exported.call(x, idx), given.call(x, idx))
        again = export.deserialize(found.exported.serialize())
        same(jax.jit(again.call)(x, idx), jax.jit(given.call)(x, idx))
        assert hlo_opt.analyze(again).total_bytes < hlo_opt.analyze(given).total_bytes
    small = export.export(jax.jit(lambda x: x + 1))(jnp.ones(3))
    assert hlo_opt.optimize(small).exported is small


def test_what_is_no_single_program_is_refused():
    symbolic = export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct(export.symbolic_shape("n"), jnp.float32))
    both = export.export(jax.jit(lambda x: x * 2), platforms=("cpu", "tpu"))(jnp.ones(3))
    for wrong in (symbolic, both):
        with pytest.raises(ValueError, match="several devices, several platforms or symbolic shapes"):
            hlo_opt.optimize(wrong)
    with pytest.raises((ValueError, RuntimeError)):
        hlo_opt.optimize("module @m { func.func @main( }")


def test_programs_for_several_devices_stay_such():
    """Shardings of the older partitioner say nothing without the number of partitions, which only StableHLO has."""
    text = """module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%x: tensor<64x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"}) -> tensor<64x8xf32> {
        %y = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[4,1]<=[4]}"} : (tensor<64x8xf32>) -> tensor<64x8xf32>
        %z = stablehlo.add %y, %y : tensor<64x8xf32>
        return %z : tensor<64x8xf32>
      }
    }"""
    for given, devices in ((text, "over 4 devices"), (text.replace("= 4 : i32", "= 1 : i32"), "names one partition")):
        found = hlo_opt.optimize(given, **OPTIONS)
        assert any(devices in caveat for caveat in found.report.before.caveats), found.report.before.caveats
        assert ("sharding-remover" in {rewrite.pass_name for rewrite in found.report.rewrites}) <= (devices == "names one partition")
        assert "@Sharding" in found.stablehlo or devices != "over 4 devices"


def test_the_command_reads_and_writes_files(tmp_path):
    text, given, made, plain = lowered().as_text(), tmp_path / "step.mlir", tmp_path / "after.mlir", tmp_path / "after.hlo"
    given.write_text(text)
    artifact = tmp_path / "step.bin"
    artifact.write_bytes(export.export(jax.jit(gradient))(*arguments(1 << 14)).serialize())

    def command(*options, code=0):
        done = subprocess.run([sys.executable, "-m", "hlo_opt", *map(str, options)], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    small = ("--chunk-bytes=16KiB", "--min-saving=0")
    assert "chunk" in command(given, *small, "-o", made)
    assert signature(made.read_text()) == signature(text)
    for one, other in zip(*(run(module, *arguments(1 << 14)) for module in (made.read_text(), text)), strict=True):
        np.testing.assert_array_equal(one, other)
    command(given, *small, f"--output={plain}")
    assert plain.read_text().startswith("HloModule")
    command(plain, "--passes=", f"-o{made}")
    assert "stablehlo." in made.read_text()
    for file in (given, artifact):
        assert "peak of" in command(file, "--analyze")
    given.write_text("module @m { func.func @main( }")
    assert "is no HLO: it is MLIR text" in command(given, "--analyze", code=1)
