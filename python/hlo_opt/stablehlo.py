"""StableHLO in and out: MLIR text, MLIR bytecode and what `jax.export` makes. They become HLO, and come back with the interface that they had."""
from __future__ import annotations

import dataclasses
import re
from typing import Any

from . import mlir_functions
from .xla import compiler

BYTECODE = b"ML\xefR"
# Whom bytecode names as its producer where it is a portable artifact, which only StableHLO reads.
_PORTABLE = b"StableHLO_v"
# How MLIR text begins, behind comments and aliases of attributes and locations; a module of HLO begins with `HloModule`.
_TEXT = re.compile(r"\s*(?://[^\n]*\n\s*|[#!][^\n]*\n\s*)*(?:builtin\.)?module\b[^=]")


def is_stablehlo(module: Any) -> bool:
    """Whether a module is given as StableHLO: text, bytecode, an artifact of `jax.export`, or an `Exported`."""
    if isinstance(module, str):
        return _TEXT.match(module) is not None
    if isinstance(module, (bytes, bytearray)):
        return module.startswith(BYTECODE) or _is_artifact(bytes(module)) or _is_text(bytes(module[:65536]))
    return hasattr(module, "mlir_module_serialized")


def _is_text(start: bytes) -> bool:
    return _TEXT.match(start.decode(errors="replace")) is not None


def _is_artifact(data: bytes) -> bool:
    """A flat buffer of `jax.export`, which begins with the offset of its root and holds bytecode. (A message of HLO would begin with a tag.)"""
    return BYTECODE in data and int.from_bytes(data[:4], "little") < len(data)


def exported(module: Any) -> Any:
    """The `Exported` behind an artifact of `jax.export`, or itself; None for plain StableHLO."""
    if isinstance(module, (bytes, bytearray)) and not module.startswith(BYTECODE) and _is_artifact(bytes(module)):
        from jax import export
        return export.deserialize(bytearray(module))
    return module if hasattr(module, "mlir_module_serialized") else None


def proto(module: Any) -> bytes:
    """The module as a serialized HloModuleProto that says for how many devices it is. Raises what `converted` does."""
    made, partitions = converted(module)
    return made + partitions_field(partitions)


def converted(module: Any) -> tuple[bytes, int]:
    """The module as a serialized HloModuleProto as XLA converts it, and for how many devices it is. Raises ValueError for an `Exported` that is not one program of one device yet."""
    from .jax_internals import xla_client
    given = exported(module)
    if given is not None:
        if given.nr_devices > 1 or len(given.platforms) > 1 or given.uses_global_constants:
            raise ValueError(f"`{given.fun_name}` was exported for several devices, several platforms or symbolic shapes: hlo-opt needs one of each")
        module = given.mlir_module_serialized
    text = bytes(module) if isinstance(module, (bytes, bytearray)) and module.startswith(BYTECODE) else _plain(module)
    made = xla_client._xla.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)
    return made.as_serialized_hlo_module_proto(), _partitions(module)


def _partitions(module: Any) -> int:
    """For how many devices StableHLO says that it is; XLA's converter to HLO leaves it out."""
    from .jax_internals import ir, mlir
    with mlir.make_ir_context():
        attributes = _parsed(module).operation.attributes
        return ir.IntegerAttr(attributes["mhlo.num_partitions"]).value if "mhlo.num_partitions" in attributes else 1


def partitions_field(partitions: int) -> bytes:
    """What to append to a serialized HloModuleProto that is to say for how many devices it is: of the field `device_assignment` the counts of replicas and of
    computations (partitions)."""
    if partitions == 1:
        return b""
    counts = b"\x08\x01\x10" + _varint(partitions)
    return b"\x7a" + _varint(len(counts)) + counts


_PROGRAM_SHAPE = 4  # xla/service/hlo.proto, HloModuleProto


def without_interface(module: bytes) -> bytes:
    """A serialized HloModuleProto that does not say which layouts arguments and results have: they have the default ones. XLA itself reads none without."""
    from .xla.older_proto import fields
    return b"".join(field for number, _, field in fields(module) if number != _PROGRAM_SHAPE)


def _varint(value: int) -> bytes:
    """A number as protocol buffers write it."""
    return (bytes([value & 127 | 128]) + _varint(value >> 7)) if value > 127 else bytes([value])


def _plain(module: Any) -> str:
    return module if isinstance(module, str) else bytes(module).decode()


def rewritten(module: Any, proto: bytes | None) -> str:
    """The text of `module` with the body `proto`, a rewritten form of it: the attributes of arguments and results are the original's. Without a body, its text."""
    from .jax_internals import func, ir, mlir, xla_client
    with mlir.make_ir_context() as context, ir.Location.unknown(context):
        whole = _parsed(module)
        if proto is None:
            return whole.operation.get_asm(enable_debug_info=True)
        body = compiler.stablehlo(xla_client.XlaComputation(proto))
        main = mlir_functions.emptied(whole)
        if main is None:
            raise ValueError("the module has no function `main`")
        inner = mlir_functions.merged(whole, ir.Module.parse(body))
        with ir.InsertionPoint(main.entry_block):
            func.ReturnOp(mlir_functions.call(inner, list(main.entry_block.arguments)))
        whole.operation.verify()
        return whole.operation.get_asm(enable_debug_info=True)


def _parsed(module: Any):
    """The MLIR module, in the context in use."""
    from .jax_internals import ir, xla_client
    given = exported(module)
    if given is not None:
        module = given.mlir_module_serialized
    if isinstance(module, (bytes, bytearray)) and module.startswith(BYTECODE):
        if _PORTABLE not in module[:64]:
            return ir.Module.parse(bytes(module))
        found = xla_client._xla.mlir.deserialize_portable_artifact(bytes(module))
        return found if isinstance(found, ir.Module) else ir.Module.parse(found)
    return ir.Module.parse(_plain(module))


def export_again(given: Any, text: str) -> Any:
    """An `Exported` like `given` that runs the module `text`."""
    from .jax_internals import export_files, ir, mlir
    with mlir.make_ir_context():
        return dataclasses.replace(given, mlir_module_serialized=export_files._module_to_bytecode(ir.Module.parse(text)), _get_vjp=None)
