"""Annotations of programs that several devices share: Shardy's, and those of the partitioner before it.

Where a program was lowered for Shardy, a call in front of a result says how that is divided (`xla.sdy.FuncResultSharding`). The root of the HLO text has the
older annotation besides, of all results, also of those that may lie anywhere. XLA takes a module whose results have the older kind alone for one that knows no
other (`hasGspmdAttrsOrOps`, xla/service/spmd/shardy/utils.cc): its older partitioner then meets Shardy's calls, and refuses them.
"""
from __future__ import annotations

from . import main_function

_OLDER = "mhlo.sharding"
_OF_RESULT = "@xla.sdy.FuncResultSharding"


def of_shardy(mlir: str) -> str:
    """`mlir`, a module of StableHLO, without the older annotations of its results if it has Shardy's."""
    if _OF_RESULT not in mlir:
        return mlir
    return main_function.described(
        mlir, main_function.RESULTS, lambda _, had: {name: value for name, value in had.items() if name != _OLDER})
