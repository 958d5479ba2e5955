"""`python -m hlo_opt.xla advise`: flags of XLA, ranked by what the compiler itself says under each."""
import json
import os
import subprocess
import sys

import pytest

from hlo_opt.xla import advise, settings, words

MEMORY_OPTIMIZED = "xla_cpu_enable_concurrency_optimized_scheduler"
# Eight products of which one at a time need be alive: XLA:CPU's default order keeps all of them.
PROGRAM = """
import jax, jax.numpy as jnp
def branches(x, w):
    return sum(jnp.sum((jnp.tanh(x @ w[k]) @ w[k]) ** 2) for k in range(8))
shapes = jax.ShapeDtypeStruct((256, 256), jnp.float32), jax.ShapeDtypeStruct((8, 256, 256), jnp.float32)
"""
LOWER = PROGRAM + """
import sys
lowered = jax.jit(branches).lower(*shapes)
open(sys.argv[1], "w").write(lowered.compiler_ir("hlo").as_hlo_text())
print(lowered.compile().memory_analysis().temp_size_in_bytes)
"""
# The settings are replaced by few, so that the test is quick.
FEW = """
import json, sys
from hlo_opt.xla import advise, compiler, settings
few = [settings.Setting(tuple(pairs.items())) for pairs in json.loads(sys.argv[2])]
settings.of = lambda target, text: few
settings.without = lambda passes: []
compiler.import_quietly()
print(json.dumps(advise.advise(advise.Asked(sys.argv[1], time_limit=float(sys.argv[3])))))
"""


def run(code, *arguments, flags=""):
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=True,
                          env={**os.environ, "XLA_FLAGS": flags})
    return done.stdout


def advised(file, few, limit=300.0):
    return json.loads(run(FEW, file, json.dumps(few), limit))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    file = tmp_path_factory.mktemp("advise") / "branches.hlo"
    run(LOWER, file)
    return file


def test_rows_say_what_the_flag_set_by_hand_gives(program, tmp_path):
    few = [{MEMORY_OPTIMIZED: "false"}, {"xla_disable_hlo_passes": "cse"}]
    by_hand = [int(run(LOWER, tmp_path / "again.hlo", flags=" ".join(f"--{name}={value}" for name, value in flags.items()))) for flags in [{}, *few]]
    rows = [row for row in advised(program, few)["rows"] if not row["rewritten"]]
    assert rows[0]["setting"] == {} and rows[0]["temp_bytes"] == by_hand[0]
    assert [(row["setting"], row["temp_bytes"]) for row in rows[1:]] == sorted(zip(few, by_hand[1:]), key=lambda pair: pair[1])
    assert by_hand[1] < by_hand[0] < by_hand[2]


def test_what_gives_no_module_is_a_row(program):
    found = advised(program, [{"xla_cpu_never_heard_of": "true"}, {"xla_cpu_multi_thread_eigen": "never"}, {MEMORY_OPTIMIZED: "false"}, {MEMORY_OPTIMIZED: "true"}])
    notes = {json.dumps(row["setting"]): row["note"] for row in found["rows"] if "error" in row}
    assert notes == {'{"xla_cpu_never_heard_of": "true"}': "unknown to this jaxlib",
                     '{"xla_cpu_multi_thread_eigen": "never"}': "this jaxlib does not take the value"}
    assert found["without_effect"] == [{MEMORY_OPTIMIZED: "true"}] and found["advice"]["setting"] == {MEMORY_OPTIMIZED: "false"}
    said = words.advice(found)
    assert f'XLA_FLAGS="--{MEMORY_OPTIMIZED}=false"' in said and f"without effect: {MEMORY_OPTIMIZED}=true" in said


def test_the_limit_of_time_is_an_error_of_the_module(program):
    assert "time limit" in advised(program, [], 0.01)["error"]


def test_bad_files_and_missing_compilers_are_errors(tmp_path):
    done = subprocess.run([sys.executable, "-m", "hlo_opt.xla", "advise", tmp_path / "none.hlo"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1 and "none.hlo" in done.stderr
    done = subprocess.run([sys.executable, "-m", "hlo_opt.xla", "time", tmp_path / "none.hlo"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1 and "none.hlo" in done.stderr


def trial(total, seconds, setting, rewritten=False, results=False):
    return {"setting": setting, "rewritten": rewritten, "note": "", "results_may_differ": results, "total_bytes": total, "temp_bytes": total, "seconds": seconds}


def test_settings_that_cost_time_or_change_results_are_left_to_the_reader():
    adviser = advise.Adviser(advise.Asked("file"))
    adviser.reference = trial(100, 1.0, {})
    adviser.rows = [adviser.reference, trial(10, 9.0, {"slow": "1"}), trial(20, 1.0, {"rounds": "1"}, results=True), trial(50, 1.2, {"right": "1"})]
    assert adviser.best(False)["setting"] == {"right": "1"} and adviser.best(True) is None
    adviser.asked.budget = 30
    assert adviser.best(False)["setting"] == {"slow": "1"}
    adviser.asked.budget = 100
    assert adviser.best(False)["setting"] == {}


def test_settings_are_put_together_as_long_as_they_help(monkeypatch):
    bytes_of = {"": 100, "a": 80, "b": 90, "c": 95, "ab": 70, "abc": 75}
    monkeypatch.setattr(advise.Adviser, "row", lambda self, setting, *_: trial(bytes_of["".join(name for name, _ in setting.values)], 1.0, setting.dictionary))
    adviser = advise.Adviser(advise.Asked("file"))
    adviser.reference = adviser.row(advise.UNCHANGED)
    tried = adviser.tried([settings.Setting(((name, "1"),)) for name in "abc"])
    adviser.together(tried, adviser.reference)
    assert [row["setting"] for row in adviser.rows[3:]] == [{"a": "1", "b": "1"}]


def test_a_setting_under_which_the_module_fits_the_device_is_advised():
    adviser = advise.Adviser(advise.Asked("file", "tpu"))
    refused = {"setting": {}, "rewritten": False, "note": "compiler error: Ran out of memory", "results_may_differ": False, "error": "Ran out of memory"}
    adviser.reference, adviser.rows = refused, [refused, trial(90, 1.0, {"a": "1"}), trial(80, 1.0, {}, rewritten=True)]
    found = {"file": "file", "target": "tpu", "rewrite": None, **advise.sorted_out(adviser)}
    assert [row.get("total_bytes") for row in found["rows"]] == [None, 80, 90]
    assert found["advice"]["setting"] == {"a": "1"} and found["advice_rewritten"]["total_bytes"] == 80
    assert "compiler_options={'a': '1'}" in words.advice(found)


def test_disabled_passes_are_joined():
    fusion, cse = settings.without(["fusion", "cse", "copy-insertion"])
    assert fusion.results and not cse.results
    assert str(cse.with_(fusion)) == "xla_disable_hlo_passes=cse,fusion" and cse.with_(fusion).results


def test_collectives_are_asked_for_where_there_are_some():
    def names(text):
        return {str(setting) for setting in settings.of("gpu", text)}
    more = names("all-reduce(") - names("add(")
    assert "xla_gpu_all_reduce_combine_threshold_bytes=0" in more


def test_jit_has_an_adviser(monkeypatch):
    import jax

    import hlo_opt
    asked = []
    monkeypatch.setattr(advise, "of_text", lambda text, target: asked.append((text, target)) or [{"setting": {}}])
    step = hlo_opt.jit(lambda x: x + 1)
    assert step.advise(jax.ShapeDtypeStruct((8,), "float32")) == [{"setting": {}}]
    assert asked[0][1] == "cpu" and "ENTRY" in asked[0][0]
