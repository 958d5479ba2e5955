"""`python -m hlo_opt.xla`: what XLA says, and that it catches wrong rewrites."""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import pytest

import hlo_opt

CORPUS = pathlib.Path(__file__).resolve().parents[2] / "corpus"
FOUNDING = ["s32", "s16", "u8"]


def ask(*arguments):
    done = subprocess.run([sys.executable, "-m", "hlo_opt.xla", *map(str, arguments)], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def pair(tmp_path):
    return founding("s32", tmp_path)


def founding(name, tmp_path):
    """A founding program at a reduced size and its rewritten form, as files."""
    before = (CORPUS / "founding" / f"{name}.before.hlo").read_text().replace("8589934592", "1000003")
    found = hlo_opt.optimize(before, min_saving=1, chunk_bytes=1 << 16)
    assert found.report.rewrites[0].pass_name == "chunk"
    files = tmp_path / "before.hlo", tmp_path / "after.hlo"
    files[0].write_text(before)
    files[1].write_text(found.text)
    return files


def shifted_index(text):
    return re.sub(r"(%block_start\S* = s\d+\[\] multiply\(%block_number\S*), (%block_constant\S*)\)", r"\1, %block_constant.1)", text, count=1)


def skipped_block(text):
    """One round less: the loop's bound is the constant that its condition compares with."""
    bound = re.search(r"(%\S+ = s\d+\[\] constant\()(\d+)(\)\s+ROOT %more_blocks)", text)
    return text.replace(bound[0], f"{bound[1]}{int(bound[2]) - 1}{bound[3]}") if bound else text


SWAPPED = {"add": "maximum", "multiply": "add", "maximum": "minimum", "minimum": "maximum"}


def swapped_combiner(text):
    """Another combination of the old value and the update."""
    combiner = r"(ROOT %\S+ = \w+\[\]) (add|multiply|maximum|minimum)\("
    return re.sub(combiner, lambda found: f"{found[1]} {SWAPPED[found[2]]}(", text)


@pytest.mark.parametrize("name", FOUNDING)
def test_the_founding_family_is_equal_to_its_rewritten_form(name, tmp_path):
    code, said, error = ask("compare", *founding(name, tmp_path))
    assert code == 0 and said.startswith("equal: 3 data sets, the same bits"), said + error


@pytest.mark.parametrize("fault", [shifted_index, skipped_block, swapped_combiner])
@pytest.mark.parametrize("name", FOUNDING)
def test_a_planted_wrong_rewrite_is_caught_at_the_weakest_grade(name, fault, tmp_path):
    before, after = founding(name, tmp_path)
    wrong = fault(after.read_text())
    assert wrong != after.read_text(), "the fault found no place"
    after.write_text(wrong)
    code, said, error = ask("compare", before, after, "--grade", "reassociate", "--cases", 2)
    assert code == 3 and said.startswith("different: result 0["), said + error


# Scatters of many kinds: combiners, index types, several tables, loops and branches around them.
OTHERS = ["bincount", "computed-index", "donated", "embedding", "grad-sin", "in-cond", "index-s8", "max", "mul", "scaled-updates", "soa",
          "two-tables", "value-and-grad", "vmap-slice"]


def test_planted_wrong_rewrites_are_caught_in_every_program(tmp_path):
    requests = []
    for name in OTHERS:
        before = CORPUS / "chunk-small" / f"fires-{name}.before.hlo"
        # One loop each, in which the faults find their places: a second one would save less than this.
        right = hlo_opt.optimize(before.read_text(), passes="chunk", min_saving=512, chunk_bytes=256).text
        for fault in (None, shifted_index, skipped_block, swapped_combiner):
            after = tmp_path / f"{name}-{fault.__name__ if fault else 'right'}.hlo"
            after.write_text(fault(right) if fault else right)
            assert not fault or after.read_text() != right, f"{after.name}: the fault found no place"
            requests.append({"cmd": "same", "before": str(before), "after": str(after), "cases": 2, "id": bool(fault)})
    referee = CORPUS.parent / "tests" / "referee" / "referee.py"
    asked = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([sys.executable, referee, "batch"], input=asked, capture_output=True, text=True, timeout=1200, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(requests) == 4 * len(OTHERS)
    # Caught means more than another last bit: outside of what the weakest grade allows.
    wrong = [answer for answer in answers if "error" in answer or answer["tolerated"] == answer["id"]]
    assert not wrong, wrong


def test_peaks_are_xlas_own(pair):
    code, said, _ = ask("peak", "--json", *pair)
    before, after = map(json.loads, said.splitlines())
    assert code == 0 and after["total_bytes"] < before["total_bytes"]
    assert "temporaries" in ask("peak", pair[0])[1]


def test_full_size_modules_are_compiled_but_not_run():
    file = CORPUS / "founding" / "s32.before.hlo"
    code, said, _ = ask("peak", file)
    assert code == 0 and "240526557204 B" in said
    code, _, error = ask("compare", file, file)
    assert code == 1 and "compare the program at a reduced size" in error


def test_elided_constants_are_refused(tmp_path):
    file = tmp_path / "elided.hlo"
    file.write_text("HloModule m\nENTRY %e (x: f32[8]) -> f32[8] {\n  %x = f32[8] parameter(0)\n  %c = f32[8] constant({...})\n"
                    "  ROOT %y = f32[8] add(%x, %c)\n}\n")
    code, _, error = ask("compare", file, file)
    assert code == 1 and "--xla_dump_large_constants=true" in error


def test_limits_and_bad_files_are_errors(pair, tmp_path):
    code, _, error = ask("peak", pair[0], "--time-limit", 0.01)
    assert code == 1 and "time limit" in error
    code, _, error = ask("compare", *pair, "--memory-limit", "1MiB")
    assert code == 1 and error.startswith("error: ")
    code, _, error = ask("peak", tmp_path / "none.hlo")
    assert code == 1 and "none.hlo" in error
    assert ask("peak")[0] == 2 and ask("compare", *pair, "--grade", "roughly")[0] == 2


def test_run_times_are_compared_on_demand(pair):
    assert re.search(r"run time [\d.]+ ms before, [\d.]+ ms after", ask("compare", *pair, "--bench")[1])


def test_programs_are_dumped(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys, jax, jax.numpy as jnp\nprint(jax.jit(lambda x: (x @ x).sum())(jnp.ones((256, 256))), sys.argv[1])\n")
    code, said, error = ask("dump", "--out", tmp_path / "kept", "--module", "lambda", program, "argument")
    assert code == 0 and "argument" in error, error
    file = re.search(r"(\S+before_optimizations.txt)", said)[1]
    assert hlo_opt.analyze(pathlib.Path(file).read_text()).floor == 4 * 256 * 256 + 4
    program.write_text("raise SystemExit(7)")
    code, _, error = ask("dump", "--out", tmp_path / "kept", program)
    assert code == 1 and "exit code 7" in error


@pytest.mark.parametrize(("target", "package"), [("tpu", "libtpu"), ("gpu", "jax_cuda12_plugin")])
def test_compilers_for_other_devices(pair, target, package):
    code, said, error = ask("peak", "--target", target, *pair)
    if importlib.util.find_spec(package) is None:
        assert code == 1 and f"[{target}]" in error and "pip install" in error
    else:
        totals = [int(figure) for figure in re.findall(r"\((\d+) B\)", said)]
        # The pair was rewritten for CPU, so that another compiler may need a counter more.
        assert code == 0 and len(totals) == 2 and totals[1] < 1.01 * totals[0], said + error


DIVIDED = CORPUS.parent / "memory" / "tests" / "partitioned"


@pytest.mark.parametrize("name", ["two_dots", "loop"])
def test_xla_divides_a_program_among_devices(name, tmp_path):
    whole, one = DIVIDED / f"{name}.hlo", tmp_path / "one.hlo"
    code, said, error = ask("partition", whole, "-o", one)
    assert code == 0 and said.startswith(str(one)), said + error
    figures = [json.loads(line) for line in ask("peak", "--json", whole, one)[1].splitlines()]
    # What a device runs is that program, divided: XLA says the same of both.
    assert figures[0]["devices"] > 1 == figures[1]["devices"] and figures[0]["total_bytes"] == figures[1]["total_bytes"], figures
    memory = hlo_opt.analyze(one.read_text())
    assert memory.total_bytes == figures[0]["total_bytes"] and not any("whole program" in caveat for caveat in memory.caveats)
    assert f"for each of {figures[0]['devices']} devices" in ask("peak", whole)[1]


def test_stablehlo_of_several_devices_is_divided_too(tmp_path):
    import jax
    mesh = jax.sharding.AbstractMesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.ShapeDtypeStruct((64, 32), "float32", sharding=jax.NamedSharding(mesh, jax.P("d")))
    step = jax.jit(lambda x: (x - x.mean(0)) @ x.T, out_shardings=jax.NamedSharding(mesh, jax.P("d")))
    whole, one = tmp_path / "step.mlir", tmp_path / "one.hlo"
    whole.write_text(step.trace(rows).lower(lowering_platforms=("cpu",)).as_text())
    assert "num_partitions=8" in ask("hlo", whole)[1].split("\n")[0]
    code, said, error = ask("partition", whole, "-o", one)
    assert code == 0 and "f32[8,32]" in one.read_text() and " all-reduce(" in one.read_text(), said + error


def test_only_a_program_of_several_devices_can_be_divided(tmp_path):
    one, called = tmp_path / "one.hlo", tmp_path / "called.hlo"
    assert ask("partition", DIVIDED / "two_dots.hlo", "-o", one)[0] == 0
    called.write_text((DIVIDED / "two_dots.hlo").read_text().replace('"xla.sdy.FuncResultSharding"', '"CustomSPMDPartitioning"'))
    assert ask("partition", DIVIDED / "two_dots.hlo", "-o", tmp_path)[::2] == (1, f"error: [Errno 21] Is a directory: '{tmp_path}'\n")
    for file, why in [(one, "what one device runs already"), (CORPUS / "founding" / "s32.before.hlo", "program of one device"), (called, "only the process that traced")]:
        code, said, error = ask("partition", file, "-o", tmp_path / "none.hlo")
        assert code == 1 and why in error and not (tmp_path / "none.hlo").exists(), error


def test_stablehlo_becomes_text_that_the_tool_reads(tmp_path):
    import jax
    from jax import export
    step, shape = jax.jit(lambda x: jax.numpy.sin(x) @ x), jax.ShapeDtypeStruct((8, 8), "float32")
    for name, content in [("step.mlir", step.lower(shape).as_text().encode()), ("step.bc", export.export(step)(shape).mlir_module_serialized)]:
        file = tmp_path / name
        file.write_bytes(content)
        code, said, error = ask("hlo", file)
        assert code == 0 and " sine(" in said, said + error
        assert hlo_opt.analyze(said).total_bytes > 0
    code, said, error = ask("hlo", CORPUS / "founding" / "s32.before.hlo")
    assert code == 1 and not said and "error: " in error, said + error
