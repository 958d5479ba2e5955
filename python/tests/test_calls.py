"""The library's calls: results, errors with their place, pickles, threads, processes."""
import concurrent.futures
import multiprocessing
import pathlib
import pickle
import sys
import threading
import time

import pytest

import hlo_opt

CORPUS = pathlib.Path(__file__).resolve().parents[2] / "corpus"
FOUNDING = (CORPUS / "founding" / "s32.before.hlo").read_text()
SMALL = sorted(path.read_text() for path in (CORPUS / "founding-small").glob("*.before.hlo"))


def test_the_founding_program_reaches_its_floor():
    found = hlo_opt.optimize(FOUNDING)
    assert found.report.before.total_bytes == 240_526_557_204
    assert found.report.after.total_bytes < 1.001 * found.report.after.floor
    assert [rewrite.pass_name for rewrite in found.report.rewrites] == ["chunk", "column-slices"]
    assert found.report.rewrites[0].source == "repro.py:4"
    assert hlo_opt.analyze(found.text).total_bytes == found.report.after.total_bytes


def test_protos_and_texts_are_the_same_module():
    plain = hlo_opt.optimize(FOUNDING, passes="")
    assert plain.report.rewrites == ()
    from_proto = hlo_opt.optimize(plain.proto)
    from_text = hlo_opt.optimize(FOUNDING)
    assert from_proto.report.after.total_bytes == from_text.report.after.total_bytes
    assert hlo_opt.analyze(from_text.proto) == hlo_opt.analyze(from_text.text)


def test_options_reach_the_tool():
    assert hlo_opt.optimize(FOUNDING, passes=["direct-index"]).report.rewrites == ()
    promised = hlo_opt.optimize(FOUNDING, passes=["direct-index"], assume=["indices-in-bounds"])
    assert [rewrite.grade for rewrite in promised.report.rewrites] == ["assume"]
    assert hlo_opt.optimize(FOUNDING, min_saving=1 << 40).report.rewrites == ()
    layers = (CORPUS / "host-offload" / "fires-layers.before.hlo").read_text()
    keywords = {"target": "gpu", "exactness": "bitwise", "objective": "memory"}
    moved = hlo_opt.optimize(layers, host_memory=2 << 30, **keywords).report
    assert ([rewrite.pass_name for rewrite in moved.rewrites], moved.after.host) == (["host-offload"], 2 << 30)
    assert hlo_opt.optimize(layers, host_memory=1 << 30, **keywords).report.after.host == 0
    points = [hlo_opt.memory_curve(layers, target="gpu", exactness="bitwise", host_memory=host) for host in (0, 2 << 30)]
    assert points[1][-1].total_bytes < points[0][-1].total_bytes


@pytest.mark.parametrize("options", [{"target": "npu"}, {"exactness": "roughly"}, {"assume": ["luck"]},
                                     {"passes": "no-such-pass"}, {"chunk_bytes": 0}])
def test_an_option_that_makes_no_sense_is_a_value_error(options):
    with pytest.raises(ValueError, match="|".join(map(str, [*options.values(), "luck", "chunk_bytes"])).replace("[", ".")):
        hlo_opt.optimize(FOUNDING, **options)


def test_errors_say_where():
    with pytest.raises(hlo_opt.HloError) as caught:
        hlo_opt.optimize("HloModule x\nENTRY m {\n  ROOT x = f32[8] paramet(0)\n}")
    assert (caught.value.line, caught.value.column) == (3, 19)
    assert "did you mean `parameter`" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems and str(again) == str(caught.value)


def test_bytes_that_are_nothing_are_an_error():
    for data in (b"\xff\xfe", b"\x0a\x04abc", b""):
        with pytest.raises(hlo_opt.HloError):
            hlo_opt.optimize(data)


def test_results_pickle():
    found = hlo_opt.optimize(FOUNDING)
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_report_is_the_command_lines(tmp_path):
    import subprocess
    source, report = tmp_path / "in.hlo", tmp_path / "report.json"
    source.write_text(FOUNDING)
    subprocess.run([sys.executable, "-m", "hlo_opt", "-q", source, "-o", tmp_path / "out.hlo", "--report", report], check=True)
    found = hlo_opt.optimize(FOUNDING)
    assert hlo_opt.Report.from_json(report.read_text()) == found.report
    assert (tmp_path / "out.hlo").read_text() == found.text


def test_the_command_is_installed_and_passes_its_exit_code_on():
    import shutil
    import subprocess
    command = shutil.which("hlo-opt", path=str(pathlib.Path(sys.executable).parent))
    assert command, "pip installed no hlo-opt command"
    assert subprocess.run([command, "--check", "-q", CORPUS / "founding" / "s32.before.hlo"]).returncode == 5
    assert subprocess.run([command, "--no-such-flag"], capture_output=True).returncode == 2


def test_processes_and_threads_give_the_same():
    alone = [hlo_opt.optimize(text) for text in SMALL]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(hlo_opt.optimize, SMALL)) == alone
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as pool:
        assert list(pool.map(hlo_opt.optimize, SMALL)) == alone


def test_other_threads_run_meanwhile():
    # Long enough for the interpreter to hand over many times if the lock is free, and not at all if it is held.
    slow = FOUNDING
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    spans = []
    for _ in range(20):
        begin = time.perf_counter()
        hlo_opt.optimize(slow)
        spans.append((begin, time.perf_counter()))
    stop.set()
    thread.join()
    inside = sum(any(begin < at < end for begin, end in spans) for at in ticks)
    assert inside > len(spans) / 2, f"{inside} ticks while {len(spans)} calls ran"


def test_importing_the_package_imports_neither_jax_nor_the_extension():
    import subprocess
    code = "import hlo_opt, sys; print('jax' in sys.modules, 'hlo_opt._native' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == ["False", "False"]


def test_every_public_name_is_there_and_documented():
    for name in hlo_opt.__all__:
        value = getattr(hlo_opt, name)
        assert name == "__version__" or value.__doc__, name
