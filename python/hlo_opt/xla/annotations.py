"""Annotations of programs that several devices share: Shardy's, and those of the partitioner before it.

Where a program was lowered for Shardy, a call in front of a result says how that is divided (`xla.sdy.FuncResultSharding`). The root of the HLO text has the
older annotation besides, of all results, also of those that may lie anywhere. XLA takes a module whose results have the older kind alone for one that knows no
other (`hasGspmdAttrsOrOps`, xla/service/spmd/shardy/utils.cc): its older partitioner then meets Shardy's calls, and refuses them.
"""
from __future__ import annotations

_OLDER = "mhlo.sharding"
_RESULTS = "res_attrs"
_OF_RESULT = "@xla.sdy.FuncResultSharding"


def of_shardy(mlir: str) -> str:
    """`mlir`, a module of StableHLO, without the older annotations of its results if it has Shardy's."""
    if _OF_RESULT not in mlir:
        return mlir
    from ..jax_internals import ir, mlir as jax_mlir
    with jax_mlir.make_ir_context() as context:
        # A fork has none of the threads of the process it comes from, which share one pool of them.
        context.enable_multithreading(False)
        module = ir.Module.parse(mlir)
        main = ir.SymbolTable(module.operation)["main"]
        if _RESULTS not in main.attributes:
            return mlir
        kept = [{entry.name: entry.attr for entry in ir.DictAttr(given) if entry.name != _OLDER} for given in main.attributes[_RESULTS]]
        main.attributes[_RESULTS] = ir.ArrayAttr.get([ir.DictAttr.get(named) for named in kept])
        return module.operation.get_asm(enable_debug_info=True)
