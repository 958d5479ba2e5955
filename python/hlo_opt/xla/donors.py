"""Donated arguments that no output takes over by name (`buffer_donor`), which XLA's own way back to StableHLO loses."""
from __future__ import annotations

import re

_DONORS = re.compile(r"^HloModule [^\n]*?buffer_donor=\{ ((?:\(\d+, \{[\d, ]*\}\)(?:, )?)+) \}")
_WHOLE = re.compile(r"\((\d+), \{\}\)")


def donated(mlir: str, program) -> str:
    """`mlir`, the StableHLO of a computation, with its donated arguments marked as JAX marks them."""
    found = _DONORS.match(program.as_hlo_text())
    numbers = [int(number) for number in _WHOLE.findall(found[1])] if found else []
    if not numbers:
        return mlir
    from ..jax_internals import ir, mlir as jax_mlir
    with jax_mlir.make_ir_context() as context:
        # A fork has none of the threads of the process it comes from, which share one pool of them.
        context.enable_multithreading(False)
        module = ir.Module.parse(mlir)
        main = ir.SymbolTable(module.operation)["main"]
        known = list(main.arg_attrs) if "arg_attrs" in main.attributes else [ir.DictAttr.get({})] * len(main.type.inputs)
        for number in numbers:
            of_argument = {named.name: named.attr for named in ir.DictAttr(known[number])}
            known[number] = ir.DictAttr.get({**of_argument, "jax.buffer_donor": ir.BoolAttr.get(True)})
        main.arg_attrs = ir.ArrayAttr.get(known)
        return module.operation.get_asm(enable_debug_info=True)
