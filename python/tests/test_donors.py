"""Donated arguments that no output takes over by name stay donated on the way back from HLO, whatever else is known of the arguments."""
import jax
import pytest

from hlo_opt.xla import compiler, donors

DONOR = """HloModule m, {}entry_computation_layout={{(f32[1048576]{{0}}, f32[1048576]{{0}})->f32[1048576]{{0}}}}

ENTRY e {{
  p = f32[1048576]{{0}} parameter(0)
  q = f32[1048576]{{0}} parameter(1)
  ROOT s = f32[1048576]{{0}} subtract(p, q)
}}
"""


def aliased(header):
    executable, *_ = compiler.compile_text(jax, DONOR.format(header))
    return executable.get_compiled_memory_stats().alias_size_in_bytes


@pytest.mark.parametrize("number", [0, 1])
def test_a_donor_gives_its_memory(number):
    assert aliased("") == 0
    assert aliased(f"buffer_donor={{ ({number}, {{}}) }}, ") == 4 << 20
    assert aliased("buffer_donor={ (0, {}), (1, {}) }, ") == 4 << 20
    assert aliased(f"input_output_alias={{ {{}}: ({number}, {{}}, may-alias) }}, ") == 4 << 20


def test_an_output_goes_where_it_is_said_to():
    both = "input_output_alias={ {}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }, "
    program = compiler.computation(compiler.parse(DONOR.format(both)))
    assert donors.donated(compiler.stablehlo(program), program).count("jax.buffer_donor") == 1
    assert aliased(both) == 4 << 20


def test_others_are_as_they_were():
    program = compiler.computation(compiler.parse(DONOR.format("")))
    text = compiler.stablehlo(program)
    assert donors.donated(text, program) is text
