"""Arguments and results lie as the text says on the way back from HLO; those that a program is run with are row-major."""
import jax
import numpy as np

from hlo_opt.xla import compiler, jobs, layouts

TURNED = """HloModule m, entry_computation_layout={{(f32[1024,512]{argument})->f32[1024,512]{result}}}

ENTRY e {{
  p = f32[1024,512]{argument} parameter(0)
  ROOT s = f32[1024,512]{result} exponential(p)
}}
"""
ROWS, COLUMNS = "{1,0}", "{0,1}"


def compiled(argument, result):
    text = TURNED.format(argument=argument, result=result)
    return compiler.compile_text(jax, text)[0].hlo_modules()[0].to_string().split("\n", 1)[0]


def test_arrays_lie_as_the_text_says():
    for argument in (ROWS, COLUMNS):
        for result in (ROWS, COLUMNS):
            assert f"(f32[1024,512]{argument})->f32[1024,512]{result}" in compiled(argument, result)


def test_each_of_several_results_has_its_own():
    text = """HloModule m, entry_computation_layout={(f32[8,4]{0,1}, f32[8,4]{1,0})->(f32[8,4]{1,0}, f32[8,4]{0,1})}

ENTRY e {
  p = f32[8,4]{0,1} parameter(0)
  q = f32[8,4]{1,0} parameter(1)
  s = f32[8,4]{1,0} exponential(p)
  u = f32[8,4]{0,1} exponential(q)
  ROOT t = (f32[8,4]{1,0}, f32[8,4]{0,1}) tuple(s, u)
}
"""
    executable, *_ = compiler.compile_text(jax, text)
    assert "{(f32[8,4]{0,1}, f32[8,4]{1,0})->(f32[8,4]{1,0}, f32[8,4]{0,1})}" in executable.hlo_modules()[0].to_string()


def test_row_major_programs_are_as_they_were():
    program = compiler.computation(compiler.parse(TURNED.format(argument=ROWS, result=ROWS)))
    text = compiler.stablehlo(program)
    assert layouts.laid_out(text, program) is text


def test_a_run_takes_what_numpy_has(tmp_path):
    file = tmp_path / "turned.hlo"
    file.write_text(TURNED.format(argument=COLUMNS, result=COLUMNS))
    data = np.arange(1024 * 512, dtype=np.float32).reshape(1024, 512) / 2**19
    (result,) = jobs.Runner(jax, file.read_text(), str(file)).results([data])
    np.testing.assert_allclose(result, np.exp(data), rtol=1e-6)
