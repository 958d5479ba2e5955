"""Modules for older XLA: other numbers and names, the same program."""
import jax
import pytest
from jax._src.lib import xla_client

import hlo_opt
from hlo_opt.xla import compiler, older_proto
from programs import arguments, gradient


@pytest.fixture(scope="module")
def proto():
    text = jax.jit(gradient).lower(*arguments(1 << 14)).compiler_ir("hlo").as_hlo_text()
    found = hlo_opt.optimize(text, min_saving=1, chunk_bytes=1 << 14)
    assert found.report.rewrites and "while(" in found.text
    return found.proto


def instructions(data):
    for field, computation, _ in older_proto.fields(data):
        if field == 3:
            for number, instruction, _ in older_proto.fields(computation):
                if number == 2:
                    yield {key: value for key, value, _ in older_proto.fields(instruction)}


def canonical(data):
    """The module as XLA prints it, with numbers in the order of the text for names."""
    module = xla_client.XlaComputation(data).get_hlo_module()
    return module.to_string(compiler.hlo().HloPrintOptions.canonical())


def test_the_program_stays(proto):
    assert canonical(older_proto.numbered(proto)) == canonical(proto)
    assert len(canonical(proto).splitlines()) > 40


def test_numbers_are_small_and_unlike_those_of_computations(proto):
    numbers = [instruction[35] for instruction in instructions(older_proto.numbered(proto))]
    assert len(set(numbers)) == len(numbers) == len(list(instructions(proto)))
    assert min(numbers) >= 1 << 24 and max(numbers) < 1 << 31
    assert max(instruction.get(35, 0) for instruction in instructions(proto)) > 1 << 31, "nothing to change: drop older_proto"


def test_every_name_ends_in_a_number(proto):
    assert all(b"." in instruction[1] for instruction in instructions(older_proto.numbered(proto)))
    assert not all(b"." in instruction[1] for instruction in instructions(proto))


def test_a_scheduled_module_is_refused():
    scheduled = jax.jit(gradient).lower(*arguments(1 << 14)).compile().runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    with pytest.raises(ValueError, match="scheduled"):
        older_proto.numbered(scheduled)
