"""Broadcasts that stretch dimensions of size 1, as one operation of StableHLO, as JAX writes them: XLA then does with HLO text what it does with JAX's own.

On the way to HLO, XLA makes three instructions of such a broadcast (broadcast, reshape, broadcast: `AddBroadcastSequence` in
xla/hlo/builder/xla_builder.cc). Taken back as three operations they do not survive: they are folded before XLA compiles, which then finds other
things to simplify, and one of those changes results: whether a softmax divides or multiplies by an inverse depends on it.
"""
from __future__ import annotations

import re

# The first of the three adds dimensions of size 1, or nothing.
_FIRST = re.compile(r"stablehlo\.broadcast_in_dim [^\n]*-> tensor<(\d+x)*1x")


def stretched(text: str) -> str:
    """The same module of StableHLO with one operation for each three; the text as it is where there are none."""
    if "stablehlo.reshape" not in text or not _FIRST.search(text):
        return text
    from ..jax_internals import ir, mlir
    with mlir.make_ir_context() as context:
        # A fork has none of the threads of the process it comes from, which share one pool of them.
        context.enable_multithreading(False)
        module = ir.Module.parse(text)
        found = []

        def visit(operation):
            if (first := _first_of(operation)) is not None:
                found.append((operation, first))
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        for last, first in found:
            _replace(last, first)
        return module.operation.get_asm(enable_debug_info=True) if found else text


def _replace(last, first) -> None:
    """Also removes the two before `last`, unless they have other users."""
    from ..jax_internals import hlo, ir
    with ir.InsertionPoint(last), last.location:
        whole = hlo.broadcast_in_dim(last.result.type, first.operands[0], first.attributes["broadcast_dimensions"])
    reshape = last.operands[0].owner
    last.result.replace_all_uses_with(whole)
    last.erase()
    for unused in (reshape, first):
        if not list(unused.results[0].uses):
            unused.erase()


def _first_of(last):
    """The first of the three operations of which `last` is the third; None if they do anything else than to stretch dimensions of size 1."""
    reshape = _producer(last, "stablehlo.broadcast_in_dim", "stablehlo.reshape")
    first = reshape and _producer(reshape, "stablehlo.reshape", "stablehlo.broadcast_in_dim")
    if not first:
        return None
    before, after = _shape(first), _shape(last)
    if len(before) != len(after):
        return None
    kept = [dimension for dimension, size in enumerate(after) if before[dimension] == size]
    stretches = all(size == 1 for dimension, size in enumerate(before) if dimension not in kept)
    same_order = kept == list(last.attributes["broadcast_dimensions"]) and _shape(reshape) == [after[dimension] for dimension in kept]
    return first if stretches and same_order else None


def _producer(operation, name, wanted):
    """What makes the operand of an operation called `name`, if that is called `wanted`; arguments of functions are made by none."""
    if operation.name != name:
        return None
    value = operation.operands[0].owner
    return value if getattr(value, "name", None) == wanted else None


def _shape(operation) -> list[int]:
    from ..jax_internals import ir
    return list(ir.RankedTensorType(operation.results[0].type).shape)
