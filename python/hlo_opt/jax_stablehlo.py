"""A module of HLO as StableHLO, written the way JAX writes it, so that XLA does with it what it does with JAX's own.

XLA turns a broadcast that stretches dimensions of size 1 into three instructions (broadcast, reshape, broadcast: `AddBroadcastSequence` in
xla/hlo/builder/xla_builder.cc). Read back as three operations they do not survive: XLA folds them before it compiles, and then finds other things to
simplify, of which one changes results: whether a softmax divides or multiplies by an inverse depends on it. So they become one operation again.
"""
from __future__ import annotations

from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import hlo

from .xla import compiler


def module_of(proto: bytes) -> ir.Module:
    """The StableHLO of a serialized HloModuleProto."""
    text = compiler.stablehlo(xla_client.XlaComputation(proto))
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        _stretch(module)
        return module


def _stretch(module: ir.Module) -> None:
    """Makes one operation of each three that stretch dimensions of size 1. The two that are left over are dead, which XLA sees."""
    found = []

    def visit(operation):
        if operation.name == "stablehlo.broadcast_in_dim" and (source := _stretched(operation)) is not None:
            found.append((operation, source))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for last, first in found:
        with ir.InsertionPoint(last), last.location:
            whole = hlo.broadcast_in_dim(last.result.type, first.operands[0], first.attributes["broadcast_dimensions"])
        last.result.replace_all_uses_with(whole)
        last.erase()


def _stretched(last: ir.Operation) -> ir.Operation | None:
    """The first of three operations of which `last` is the third; None if they do anything else than to stretch dimensions of size 1."""
    reshape = last.operands[0].owner
    if not isinstance(reshape, ir.Operation | ir.OpView) or reshape.name != "stablehlo.reshape":
        return None
    first = reshape.operands[0].owner
    if not isinstance(first, ir.Operation | ir.OpView) or first.name != "stablehlo.broadcast_in_dim":
        return None
    before, after = _shape(first), _shape(last)
    if len(before) != len(after):
        return None
    kept = [dimension for dimension, size in enumerate(after) if before[dimension] == size]
    stretches = all(size == 1 for dimension, size in enumerate(before) if dimension not in kept)
    same_order = kept == list(last.attributes["broadcast_dimensions"]) and _shape(reshape) == [after[dimension] for dimension in kept]
    return first if stretches and same_order else None


def _shape(operation) -> list[int]:
    return list(ir.RankedTensorType(operation.results[0].type).shape)
