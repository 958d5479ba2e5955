"""Attributes of arguments and results of a StableHLO module's main function, by which XLA's clients know more of them than their types."""
from __future__ import annotations

ARGUMENTS, RESULTS = "arg_attrs", "res_attrs"


def described(mlir: str, which: str, change) -> str:
    """`mlir`, where each argument or result has the attributes that `change` makes of its number and of those that it had, by name."""
    from ..jax_internals import ir, mlir as jax_mlir
    with jax_mlir.make_ir_context() as context:
        # A fork has none of the threads of the process it comes from, which share one pool of them.
        context.enable_multithreading(False)
        module = ir.Module.parse(mlir)
        main = ir.SymbolTable(module.operation)["main"]
        count = len(main.type.inputs if which == ARGUMENTS else main.type.results)
        known = main.attributes[which] if which in main.attributes else [ir.DictAttr.get({})] * count
        named = [{entry.name: entry.attr for entry in ir.DictAttr(given)} for given in known]
        main.attributes[which] = ir.ArrayAttr.get([ir.DictAttr.get(change(number, had)) for number, had in enumerate(named)])
        return module.operation.get_asm(enable_debug_info=True)
