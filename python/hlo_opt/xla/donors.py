"""Donated arguments that no output takes over by name (`buffer_donor`), which XLA's own way back to StableHLO loses."""
from __future__ import annotations

import re

from . import main_function

_DONORS = re.compile(r"^HloModule [^\n]*?buffer_donor=\{ ((?:\(\d+, \{[\d, ]*\}\)(?:, )?)+) \}")
_WHOLE = re.compile(r"\((\d+), \{\}\)")


def donated(mlir: str, program) -> str:
    """`mlir`, the StableHLO of a computation, with its donated arguments marked as JAX marks them."""
    found = _DONORS.match(program.as_hlo_text())
    numbers = {int(number) for number in _WHOLE.findall(found[1])} if found else set()
    if not numbers:
        return mlir
    from ..jax_internals import ir
    return main_function.described(
        mlir, main_function.ARGUMENTS, lambda number, had: {**had, "jax.buffer_donor": ir.BoolAttr.get(True)} if number in numbers else had)
