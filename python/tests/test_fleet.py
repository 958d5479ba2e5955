"""`hlo-opt fleet`: one row for each dump, whatever is in it; the same on threads and on Dask workers; interrupted runs go on; two runs are compared."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from hlo_opt.fleet import baseline, command, dumps, store, work

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests/browser/fleet_page.py"
# A product with a kernel matrix, which is never needed whole.
MODULE = """HloModule {name}

ENTRY %main (x: f32[{n},64], v: f32[{n},64]) -> f32[{n},64] {{
  %x = f32[{n},64] parameter(0)
  %v = f32[{n},64] parameter(1)
  %kernel = f32[{n},{n}] dot(%x, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}, metadata={{op_name="dot" source_file="/src/model.py" source_line={line}}}
  %exp = f32[{n},{n}] exponential(%kernel), metadata={{op_name="exp" source_file="/src/model.py" source_line={line}}}
  ROOT %product = f32[{n},64] dot(%exp, %v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def module(name="m", n=512, line=7):
    return MODULE.format(name=name, n=n, line=line)


@pytest.fixture
def folder(tmp_path):
    """Dumps as they lie about: an XLA dump folder with reports beside the modules, single files, a broken one, and files that are no dumps."""
    place = tmp_path / "in"
    (place / "run/passes").mkdir(parents=True)
    for number, name, n in ((3, "jit_step", 1024), (17, "jit_eval", 640)):
        stem = place / "run" / f"module_{number:04}.{name}"
        stem.with_name(stem.name + ".before_optimizations.txt").write_text(module(name, n))
        stem.with_name(stem.name + ".cpu_after_optimizations-buffer-assignment.txt").write_text("BufferAssignment:\n")
    (place / "run/passes/module_0001.jit_f.0007.simplification.after_algsimp.before_cse.txt").write_text(module("jit_f", 448))
    (place / "single.hlo").write_text(module("single", 768, line=11))
    (place / "notes.txt").write_text("nothing")
    (place / "broken.hlo").write_text("HloModule m\n\nENTRY %main {\n  ROOT %x = f32[8] add(%y")
    return place


SETTINGS = ["--min-saving=1", "--chunk-bytes=64KiB"]
NAMES = ["broken.hlo", "run/module_0003.jit_step", "run/module_0017.jit_eval", "run/passes/module_0001.jit_f", "single.hlo"]


def fleet(folder, out, *more):
    return command.main([str(folder), "-o", str(out), *SETTINGS, *map(str, more)])


def rows(out):
    return {row["name"]: row for row in json.loads((out / "table.json").read_text())["dumps"]}


def contents(out):
    return {path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_every_dump_is_a_row_and_a_broken_one_stops_nothing(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert fleet(folder, out) == command.DONE
    found = rows(out)
    assert list(found) == NAMES
    broken = found.pop("broken.hlo")
    assert broken["status"] == "error" and broken["error"].startswith("input: line 4: ") and broken["peak_bytes"] is None
    for row in found.values():
        assert row["floor_bytes"] <= row["reachable_bytes"] < row["peak_bytes"] and row["rewrites"] and row["status"] == "ok", row
        assert (out / "reports" / f"{row['key']}.html").is_file()
    step = found["run/module_0003.jit_step"]
    assert (step["module"], step["owner"]) == ("jit_step", "/src/model.py:7")
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[-4:-2] == ["run/module_0003.jit_step", "/src/model.py:7"] and "5 dumps, 1 broken" in said.err
    lines = (out / "table.csv").read_text().splitlines()
    assert lines[0].startswith("name,status,target,peak_bytes") and len(lines) == 6

    assert fleet(folder, tmp_path / "strict", "--strict") == command.FAILED
    assert fleet(tmp_path / "in/run/nothing", out) == command.USAGE
    assert fleet(folder, out, "--target=abacus") == command.USAGE and "abacus" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert fleet(tmp_path / "empty", out) == command.FAILED


def test_source_lines_are_summed_over_all_dumps(folder, tmp_path):
    fleet(folder, tmp_path / "out")
    owners = {sums["line"]: sums for sums in json.loads((tmp_path / "out/table.json").read_text())["owners"]}
    of_line = [held["bytes"] for row in rows(tmp_path / "out").values() for held in row.get("lines", ()) if held["line"] == "/src/model.py:7"]
    assert len(of_line) == 3
    sums = owners["/src/model.py:7"]
    assert (sums["dumps"], sums["bytes"], sums["most_bytes"]) == (3, sum(of_line), max(of_line)) and sums["saved_bytes"] > 0
    assert sums["most_in"] == "run/module_0003.jit_step" and owners["/src/model.py:11"]["dumps"] == 1


def test_the_same_files_again_and_on_dask_workers(folder, tmp_path):
    assert fleet(folder, tmp_path / "one", "--jobs=1") == fleet(folder, tmp_path / "two", "--jobs=2") == command.DONE
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert fleet(folder, tmp_path / "three", "--dask=local", "--jobs=2") == command.DONE
    assert contents(tmp_path / "three") == contents(tmp_path / "one")


def test_a_cluster_is_named_by_its_address(folder, tmp_path, capsys):
    import distributed
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        assert fleet(folder, tmp_path / "out", f"--dask={cluster.scheduler_address}") == command.DONE
    assert list(rows(tmp_path / "out")) == NAMES
    assert fleet(folder, tmp_path / "none", "--dask=nowhere://x") == command.USAGE
    assert "no Dask scheduler" in capsys.readouterr().err


def test_without_dask_the_extra_is_named(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert fleet(folder, tmp_path / "out", "--dask=local") == command.USAGE
    assert "pip install distributed" in capsys.readouterr().err


def test_only_what_changed_is_run_again(folder, tmp_path, monkeypatch):
    ran = []
    look = work.look
    monkeypatch.setattr(work, "look", lambda task: ran.append(task.given) or look(task))
    out = tmp_path / "out"
    fleet(folder, out)
    first = contents(out)
    assert len(ran) == 5
    ran.clear()
    fleet(folder, out)
    assert ran == [] and contents(out) == first
    (folder / "single.hlo").write_text(module("single", 704))
    (out / "reports" / f"{rows(out)['run/module_0003.jit_step']['key']}.html").unlink()
    fleet(folder, out)
    assert sorted(ran) == ["dump", "dump/single.hlo"]
    ran.clear()
    fleet(folder, out, "--exactness=bitwise")
    assert len(ran) == 5, "other settings are other results"
    monkeypatch.setattr(store, "build", lambda: b"another")
    fleet(folder, out)
    assert len(ran) == 10, "another build finds other results"


def test_an_interrupted_run_goes_on(folder, tmp_path):
    """Ctrl-C while a dump is slow: what is done is kept, no child is left, and the next run makes the rest."""
    out, slow = tmp_path / "out", tmp_path / "slow"
    slow.mkdir()
    # In place of the command: never ends for one of the dumps.
    (slow / "sitecustomize.py").write_text(
        "import sys, time, pathlib\n"
        f"if sys.argv[0] == '-m' and sys.orig_argv[-1] == 'dump/single.hlo':\n    pathlib.Path({str(slow / 'began')!r}).touch()\n    time.sleep(600)\n")
    path = os.pathsep.join(filter(None, [str(slow), os.environ.get("PYTHONPATH")]))
    arguments = [sys.executable, "-m", "hlo_opt", "fleet", str(folder), "-o", str(out), *SETTINGS, "--jobs=2"]
    process = subprocess.Popen(arguments, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.PIPE, text=True, cwd=tmp_path, preexec_fn=hear_interrupts)
    wait_for(lambda: (slow / "began").exists() and len(list((out / "results").glob("*.json"))) == 4)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "goes on" in said and not (out / "index.html").exists()
    assert fleet(folder, out) == command.DONE
    fleet(folder, tmp_path / "whole")
    assert contents(out) == contents(tmp_path / "whole")


def hear_interrupts():
    """Shells start what runs in the background deaf to Ctrl-C, and its children with it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(happened):
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def test_a_limit_of_time_is_a_row_that_is_tried_again(folder, tmp_path):
    fleet(folder, tmp_path / "out", "--limit=0.001")
    found = rows(tmp_path / "out")
    assert {row["error"] for row in found.values()} == {"time: no answer within 0.001 s"}
    fleet(folder, tmp_path / "out")
    assert [row["status"] for row in rows(tmp_path / "out").values()].count("ok") == 4


def test_a_baseline_fails_on_more_bytes_or_percent(folder, tmp_path, capsys):
    old, new = tmp_path / "old", tmp_path / "new"
    fleet(folder, old)
    assert fleet(folder, new, f"--baseline={old}") == command.DONE
    # Other programs before it change XLA's number; the module itself has grown by a sixteenth on each side.
    (folder / "run/module_0003.jit_step.before_optimizations.txt").unlink()
    (folder / "run/module_0004.jit_step.before_optimizations.txt").write_text(module("jit_step", 1088))
    (folder / "run/module_0009.jit_new.before_optimizations.txt").write_text(module("jit_new", 448))
    (folder / "run/module_0017.jit_eval.before_optimizations.txt").write_text("HloModule m\n\nENTRY %main {")
    (folder / "single.hlo").unlink()
    assert fleet(folder, new, f"--baseline={old}", "--max-regression=1%") == command.REGRESSED
    said = capsys.readouterr().err
    assert "regression: run/jit_step: peak " in said and "regression: run/jit_eval: broken" in said
    assert re.search(r"regression: run/jit_step: peak \d\.\d\d MiB -> \d\.\d\d MiB, \+1[12]\.\d\d %", said), said
    changes = json.loads((new / "table.json").read_text())["changes"]
    assert {(change["label"], change["kind"]) for change in changes if not change["is_regression"]} == {("run/jit_new", "new"), ("single.hlo", "gone")}
    (folder / "run/module_0017.jit_eval.before_optimizations.txt").write_text(module("jit_eval", 640))
    assert fleet(folder, new, f"--baseline={old}", "--max-regression=20%") == command.DONE
    assert fleet(folder, new, f"--baseline={old}", "--max-regression=16MiB") == command.DONE
    assert fleet(folder, new, f"--baseline={old}", "--max-regression=1KiB") == command.REGRESSED
    assert fleet(folder, new, f"--baseline={tmp_path / 'nothing'}") == command.USAGE
    with pytest.raises(SystemExit) as wrong:
        fleet(folder, new, "--max-regression=much")
    assert wrong.value.code == command.USAGE


def test_allowances():
    assert baseline.Allowance.of("1.5%").has(1000, 1015) and not baseline.Allowance.of("1.5%").has(1000, 1016)
    assert baseline.Allowance.of("1KiB").has(0, 1024) and not baseline.Allowance.of("1KiB").has(0, 1025)
    assert baseline.Allowance().has(5, 5) and baseline.Allowance().has(5, 4) and not baseline.Allowance().has(5, 6)


def test_results_among_the_dumps_are_no_dumps(folder):
    assert fleet(folder, folder / "out") == fleet(folder, folder / "out") == command.DONE
    assert list(rows(folder / "out")) == NAMES


def test_a_budget_has_its_own_exit_code(folder, tmp_path):
    assert fleet(folder, tmp_path / "out", "--budget=1KiB") == command.OVER_BUDGET
    assert [row["status"] for row in rows(tmp_path / "out").values()] == ["error"] + ["over budget"] * 4
    assert fleet(folder, tmp_path / "out", "--budget=1GiB") == command.DONE


def test_a_machine_file_travels_with_the_dumps(folder, tmp_path, capsys):
    machine = tmp_path / "server.toml"
    shutil.copy(ROOT / "tests/machines/server.toml", machine)
    assert fleet(folder, tmp_path / "out", f"--machine={machine}") == command.DONE
    machine.write_text("garbage")
    assert fleet(folder, tmp_path / "out", f"--machine={machine}") == command.USAGE and "server.toml" in capsys.readouterr().err


def test_sarif_has_the_remarks_of_all_dumps_once(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder / "single.hlo").write_text(module("single", 768, line=11).replace("/src/model.py", str(tmp_path / "own model.py")))
    shutil.copy(folder / "single.hlo", folder / "copy.hlo")
    assert fleet(folder, tmp_path / "out", f"--sarif={tmp_path / 'memory.sarif'}") == command.DONE
    (run,) = json.loads((tmp_path / "memory.sarif").read_text())["runs"]
    lines = [result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in run["results"] if result["ruleId"] == "chunk"]
    assert {7, 11} <= set(lines) and lines.count(11) == 1
    places = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"] if result["locations"]}
    assert places == {"file:///src/model.py", "own%20model.py"}
    assert {result["ruleId"] for result in run["results"]} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}


def test_names_say_what_is_a_dump(tmp_path):
    for name in ("module_0001.jit_f.sm_9.0a_gpu_after_optimizations.txt.gz", "module_0001.jit_f.before_optimizations.hlo.pb", "a.mlir", "b.pb",
                 "module_0001.jit_f.sm_9.0a_gpu_after_optimizations-buffer-assignment.txt", "module_0002.jit_f.hlo_snapshot.pb", "module_0001.jit_f.ir-no-opt.ll",
                 "module_0001.jit_f.0001.spmd-partitioner.after_spmd-partitioning.before_x.txt", "module_0001.jit_f.0002.x.after_y.before_z.txt"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "module_0001.jit_f").mkdir()
    (tmp_path / "module_0001.jit_f/module.mlir").write_bytes(b"x")
    found = dumps.find(tmp_path, tmp_path / "out")
    assert [(dump.name, dump.label, len(dump.files)) for dump in found] == [
        ("a.mlir", "a.mlir", 1), ("b.pb", "b.pb", 1), ("module_0001.jit_f", "jit_f", 3), ("module_0002.jit_f", "jit_f#2", 1)]


HOSTILE = "<_script><script>alert(1)<_script>.hlo"


def test_the_page_holds_what_was_found_as_data(folder, tmp_path):
    """Without a browser: the table is there, nothing of a dump's making becomes markup, and what links lead to is there."""
    (folder / HOSTILE).write_text("HloModule <b>")
    fleet(folder, tmp_path / "out")
    text = (tmp_path / "out/index.html").read_text()
    data, *others = re.findall(r"<script[^>]*>(.*?)</script>", text, re.S)
    assert len(others) == 1 and "<" not in data
    found = json.loads(data)
    assert found == json.loads((tmp_path / "out/table.json").read_text())
    assert HOSTILE in {row["name"] for row in found["dumps"]}
    keys = [row["key"] for row in found["dumps"] if row["status"] != "error"]
    assert len(keys) == 4 and all((tmp_path / f"out/reports/{key}.html").is_file() for key in keys)


@pytest.mark.skipif(shutil.which("chromedriver") is None, reason="browsers come from no package index; what the page holds is tested without one")
def test_the_page_in_a_browser(folder, tmp_path):
    (folder / HOSTILE).write_text("HloModule <b>")
    fleet(folder, tmp_path / "old")
    fleet(folder, tmp_path / "out", f"--baseline={tmp_path / 'old'}")
    done = subprocess.run([sys.executable, str(PAGE), str(tmp_path / "out/index.html")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
