"""hlo_opt.install: what a process compiles through JAX is rewritten without a changed line, and nothing else changes."""
import dataclasses
import functools
import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_opt
from hlo_opt import startup
from programs import EAGER, anew, arguments, gradient, raw, same


@pytest.fixture
def installed():
    """Everything is rewritten while a test runs."""
    before = len(hlo_opt.reports())
    hlo_opt.install(EAGER, at_least=1 << 10, summary=False)
    yield lambda: {report.name: report for report in hlo_opt.reports()[before:]}
    hlo_opt.uninstall()


def named(name):
    """The founding gradient as a function of its own under a name."""
    function = anew(gradient)
    function.__name__ = name
    return function


def test_programs_of_jax_jit_are_rewritten(installed):
    x, idx = arguments(1 << 14)
    found = jax.jit(named("first"))(x, idx)
    report = installed()["first"]
    assert report.kept == "rewritten" and report.after.total < report.before.total
    hlo_opt.uninstall()
    same(found, jax.jit(named("second"))(x, idx))
    assert "second" not in installed()


def test_nested_programs_methods_and_ahead_of_time(installed):
    x, idx = arguments(1 << 14)

    class Model:
        @functools.partial(jax.jit, static_argnums=0)
        def method(self, x, idx):
            return jax.jit(named("inner"))(x, idx) * 2

    Model().method(x, idx)
    compiled = jax.jit(named("ahead")).lower(x, idx).compile()
    assert compiled.memory_analysis().temp_size_in_bytes == installed()["ahead"].after.temporaries
    assert installed()["method"].kept == "rewritten" and "inner" not in installed()


def test_programs_over_several_devices(installed):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    x, idx = arguments(1 << 16)
    idx = jax.device_put(idx, jax.NamedSharding(mesh, jax.P("d")))
    found = jax.jit(named("cut"))(jax.device_put(x, jax.NamedSharding(mesh, jax.P())), idx)
    assert installed()["cut"].kept == "rewritten"
    np.testing.assert_array_equal(found, jax.jit(named("whole"))(*arguments(1 << 16)))
    before = installed()
    jax.pmap(named("mapped"), in_axes=(None, 0))(x, idx.reshape(4, -1, 3))
    # JAX has a name of its own for it.
    assert [report.kept for name, report in installed().items() if name not in before].count("rewritten") == 1


def test_small_programs_are_not_looked_at(monkeypatch):
    from hlo_opt import jax_plan
    monkeypatch.setattr(jax_plan, "decide", lambda *_: pytest.fail("a small program was looked at"))
    hlo_opt.install(EAGER, at_least=1 << 20)
    try:
        # 4 KiB come in, and some times as much is made on the way, complex numbers and a loop among them.
        jax.jit(lambda x: jax.lax.scan(lambda c, _: (c * 2, None), (x + 1).astype(complex), None, 3)[0])(jnp.ones(1 << 10)).block_until_ready()
    finally:
        hlo_opt.uninstall()


@pytest.mark.parametrize(("function", "expected"), [
    (lambda x: x + 1, 2 * 4096 + 4096), (lambda x: x.astype(jnp.complex64), 4096 + 2 * 8192), (lambda x: x > 0, 4096 + 2 * 1024)])
def test_values_are_counted(function, expected):
    """Arguments, results of the function, and what its operations make; a constant more at most."""
    from hlo_opt.jax_lowering import Lowering
    lowering = Lowering(jax.jit(function).lower(jnp.ones(1024, jnp.float32))._lowering)
    assert lowering.holds(expected) and not lowering.holds(3 * expected)


def test_a_block_of_code(capfd):
    x, idx = arguments(1 << 14)
    with hlo_opt.optimizing(EAGER) as reports:
        found = jax.jit(named("inside"))(x, idx)
        other = threading.Thread(target=lambda: jax.jit(named("elsewhere"))(x, idx))
        other.start()
        other.join()
    same(found, jax.jit(named("outside"))(x, idx))
    assert [report.name for report in reports if report.kept == "rewritten"] == ["inside"]


def test_the_options_of_a_function_go_first(installed):
    x, idx = arguments(1 << 14)
    f = hlo_opt.jit(named("own"), options=dataclasses.replace(EAGER, judge="model"))
    f(x, idx)
    assert f.memory_report().kept == "rewritten" and not f.memory_report().judged and "own" not in installed()


def test_what_fails_in_the_tool_harms_no_program(installed, monkeypatch):
    from hlo_opt import jax_plan
    monkeypatch.setattr(jax_plan, "decide", lambda *_: 1 / 0)
    x, idx = arguments(1 << 14)
    with pytest.warns(hlo_opt.FallbackWarning, match="runs as it is: ZeroDivisionError"):
        found = jax.jit(named("unlucky"))(x, idx)
    same(found, jax.jit(gradient)(x, idx))


SCRIPT = """
import sys
import jax
from programs import arguments, gradient, raw
def step(x, idx):
    return gradient(x, idx)
found = jax.jit(step)(*arguments(1 << 16))
print(sys.argv[1:], raw(found)[:64].hex())
"""


def ran(*command, **environment):
    """What a script prints and says beside it, run by a command."""
    environment = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_script_is_run_and_the_environment_is_heard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    plain, silent = ran(str(script), "a", "--b")
    want = raw(jax.jit(gradient)(*arguments(1 << 16)))[:64].hex()
    assert plain == f"['a', '--b'] {want}\n" and "hlo-opt" not in silent
    settings = {"min_saving": "1KiB", "chunk_bytes": "16KiB", "at_least": "1KiB"}
    out, said = ran("-m", "hlo_opt", "run", *[f"--{name.replace('_', '-')}={value}" for name, value in settings.items()], str(script), "a", "--b")
    assert out == plain and "1 rewritten\n  step on cpu: peak " in said, said
    out, said = ran(str(script), "a", "--b", HLO_OPT=",".join(f"{name}={value}" for name, value in settings.items()))
    assert out == plain and "1 rewritten\n  step on cpu: peak " in said, said
    assert ran(str(script), "a", "--b", HLO_OPT="0") == (plain, silent)


def test_wrong_settings_are_named():
    for wrong in ("--budget=much", "--colour=red", "--budget"):
        done = subprocess.run([sys.executable, "-m", "hlo_opt", "run", wrong, "script.py"], capture_output=True, text=True)
        assert done.returncode == 2 and wrong.partition("=")[2] in done.stderr and "hlo-opt" in done.stderr, done.stderr
    done = subprocess.run([sys.executable, "-m", "hlo_opt", "run"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("usage:")


def test_settings_are_options():
    name, value = startup._setting("--min-saving=1.5MiB")
    assert (name, value) == ("min_saving", 3 << 19)
    assert startup._setting("host-memory=2TiB") == ("host_memory", 2 << 40)
    assert startup._setting("budget=80GB") == ("budget", 80 * 10**9) and startup._setting("summary=0") == ("summary", False)
    assert startup._setting("passes=chunk+tie") == ("passes", "chunk,tie") and startup._setting("assume=indices-in-bounds") == ("assume", ("indices-in-bounds",))
