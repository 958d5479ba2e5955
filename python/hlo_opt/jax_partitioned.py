"""Programs over several devices: the module that each device runs out of the compiler, and a rewritten one back into JAX's program.

XLA partitions a program itself, and says what each device runs in a dump of its partitioner. That module, with its collectives, is
rewritten like the program of one device. It goes back as the body of a manual computation over all axes of the mesh: the program keeps its
signature, its shardings and its donated arguments, and the partitioner finds nothing left to do.

Like jax_lowering, this file touches JAX's insides: what a compiled computation knows of its shardings, and JAX's form of a sharding in a module.
"""
from __future__ import annotations

import contextlib
import copy
import os
import tempfile
import threading
from dataclasses import dataclass
from typing import Any

import jax

from . import _native, mlir_functions
from .xla import compiler, machines, partition, roofline

_DUMPED = {"xla_dump_hlo_as_proto": True, "xla_dump_hlo_pass_re": f".*{partition.PARTITIONER}"}


class PartitionUnavailable(Exception):
    """What each device runs cannot be had, or not handed back; the message says why."""


@dataclass(frozen=True)
class Partitioned:
    """What each device runs, as a serialized HloModuleProto of a program for one device, and the executable that it comes from."""

    proto: bytes
    executable: Any


def partitioned(inner) -> Partitioned:
    """Compiles a lowered computation of JAX, and takes from the compiler what each device runs. Raises what compiling raises, and PartitionUnavailable."""
    with tempfile.TemporaryDirectory(prefix="hlo-opt-") as folder, _compiling_anew():
        executable = inner.compile({"xla_dump_to": folder, **_DUMPED})
        found = [file for file in os.listdir(folder) if partition.BEHIND.search(file)]
        if len(found) != 1:
            raise PartitionUnavailable(f"the compiler dumped {len(found)} modules from behind its partitioner, where one was expected")
        with open(os.path.join(folder, found[0]), "rb") as file:
            alone = _native.one_device(file.read(), is_certain=True)
    if alone is None:
        raise PartitionUnavailable("it is not known which devices some collective is for, or one device does something alone")
    _refuse_placed((*executable._in_shardings, *executable._out_shardings))
    return Partitioned(alone, executable)


_anew = threading.Lock()


@contextlib.contextmanager
def _compiling_anew():
    """A while in which JAX takes no executable from its cache on disk: one from there was compiled before, and nothing is dumped."""
    from .jax_internals import compilation_cache
    with _anew:
        asked = compilation_cache.is_cache_used
        compilation_cache.is_cache_used = lambda *_: False
        try:
            yield
        finally:
            compilation_cache.is_cache_used = asked


def handed_back(inner, source: Partitioned, proto: bytes):
    """JAX's program with the body `proto`, a module of one device with the interface of `source.proto`; an MLIR module."""
    from .jax_internals import ir, xla_client
    body = compiler.stablehlo(xla_client.XlaComputation(proto))
    with inner._hlo.context as context, ir.Location.unknown(context):
        whole = ir.Module.parse(inner._hlo.operation.get_asm(enable_debug_info=True))
        main = mlir_functions.emptied(whole)
        if main is None:
            raise PartitionUnavailable("the program has no main function")
        device = mlir_functions.merged(whole, ir.Module.parse(body))
        shardings = source.executable._in_shardings, source.executable._out_shardings
        make = _manual if jax.config.jax_use_shardy_partitioner else _manual_for_gspmd
        make(main, device, *shardings, inner._device_list)
        whole.operation.verify()
    return whole


def _refuse_placed(shardings) -> None:
    """Arrays outside of the memory that programs use by default stay where they are: a manual computation does not say so."""
    for sharding in shardings:
        kind = getattr(sharding, "memory_kind", None)
        usual = next(iter(sharding.device_set)).default_memory().kind
        if kind not in (None, usual):
            raise PartitionUnavailable(f"an array lies in memory of kind {kind!r}")


def _manual(main, device, ins, outs, devices) -> None:
    """The body of `main` as Shardy writes it: one manual computation, which calls what a device runs."""
    from .jax_internals import func, ir, sdy
    mesh = _mesh((*ins, *outs), devices)
    listed = [sdy.TensorShardingPerValueAttr.get([_sdy(sharding, mesh, kind) for sharding, kind in zip(shardings, kinds, strict=True)])
              for shardings, kinds in ((ins, main.type.inputs), (outs, main.type.results))]
    axes = sdy.ManualAxesAttr.get(ir.ArrayAttr.get([ir.StringAttr.get(axis) for axis in mesh.axis_names]))
    with ir.InsertionPoint(main.entry_block):
        manual = sdy.ManualComputationOp(main.type.results, list(main.entry_block.arguments), *listed, axes)
        block = manual.body.blocks.append(*device.type.inputs)
        with ir.InsertionPoint(block):
            sdy.ReturnOp(mlir_functions.call(device, list(block.arguments)))
        func.ReturnOp(list(manual.results))


def _mesh(shardings, devices):
    """The mesh with the most axes, as which shardings over others can be written too; one of a single axis where no sharding names a mesh."""
    meshes = [sharding.mesh for sharding in shardings if isinstance(sharding, jax.NamedSharding)]
    return max(meshes, key=lambda mesh: len(mesh.axis_names), default=None) or jax.sharding.Mesh(devices, ("devices",))


def _sdy(sharding, mesh, kind):
    """A sharding of a value of an MLIR type, as Shardy writes it."""
    from .jax_internals import ir
    rank = ir.RankedTensorType(kind).rank
    # Where JAX has the axes of each dimension, and the order of devices that differs from the mesh's own.
    array = _named(sharding, mesh, rank)._to_sdy_sharding(rank)
    if getattr(array, "unreduced_axes", None):
        raise PartitionUnavailable(f"parts of a sum that is yet to be made: {sharding}")
    names = ", ".join(f'"{name}"={size}' for name, size in mesh.shape.items())
    devices = f", device_ids=[{', '.join(map(str, array.logical_device_ids))}]" if array.logical_device_ids else ""
    dimensions = ", ".join("{" + ", ".join(f'"{axis}"' for axis in dimension.axes) + "}" for dimension in array.dim_shardings)
    return ir.Attribute.parse(f"#sdy.sharding<mesh<[{names}]{devices}>, [{dimensions}]>")


def _named(sharding, mesh, rank: int) -> jax.NamedSharding:
    """The same sharding over a mesh."""
    from .jax_internals import parse_flatten_op_sharding
    if isinstance(sharding, jax.NamedSharding) and sharding.mesh == mesh:
        return sharding
    try:
        return jax.NamedSharding(mesh, parse_flatten_op_sharding(sharding._to_xla_hlo_sharding(rank), mesh)[0])
    except Exception as error:  # noqa: BLE001 - JAX has no error of its own for shardings that do not fit a mesh
        raise PartitionUnavailable(f"a sharding that is none over the mesh of the program: {sharding}") from error


def _manual_for_gspmd(main, device, ins, outs, _) -> None:
    """The body of `main` as the older partitioner reads it: values change from whole to local shapes and back in calls that it knows."""
    from .jax_internals import func, ir
    _mark_partition_ids(main.operation.parent)
    with ir.InsertionPoint(main.entry_block):
        local = [_crossed(_annotated(value, _xla(sharding, value.type)), "SPMDFullToShardShape", kind, _MANUAL)
                 for value, sharding, kind in zip(main.entry_block.arguments, ins, device.type.inputs, strict=True)]
        found = mlir_functions.call(device, local)
        func.ReturnOp([_crossed(_annotated(value, _MANUAL), "SPMDShardToFullShape", kind, _xla(sharding, kind))
                       for value, sharding, kind in zip(found, outs, main.type.results, strict=True)])


_MANUAL = "{manual}"


def _xla(sharding, kind) -> str:
    """A sharding of a value of an MLIR type, as XLA writes it."""
    from .jax_internals import ir
    return str(sharding._to_xla_hlo_sharding(ir.RankedTensorType(kind).rank))


def _annotated(value, sharding: str):
    return _crossed(value, "Sharding", value.type, sharding)


def _crossed(value, target: str, kind, sharding: str):
    from .jax_internals import hlo, ir
    call = hlo.CustomCallOp([kind], [value], target)
    call.attributes["mhlo.sharding"] = ir.StringAttr.get(sharding)
    return call.result


def _mark_partition_ids(module) -> None:
    """The older partitioner wants to be told that the number of a partition is meant as it stands."""
    from .jax_internals import ir

    def visit(operation):
        if operation.name == "stablehlo.partition_id":
            operation.attributes["mhlo.sharding"] = ir.StringAttr.get(_MANUAL)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


@dataclass(frozen=True)
class Work:
    """What a device does in one run, by the module that the compiler made: floating-point operations, collectives, and the bytes that they send.

    What stands in a loop counts as often as the loop runs, once if nobody knows how often that is."""

    flops: int
    collectives: int
    collective_bytes: int


def work(computation, target: str) -> Work:
    """Of a compiled computation of JAX."""
    text = computation.compile().xla_extension_executable().hlo_modules()[0].to_string()
    found = roofline.estimate(text, machines.of(target))
    return Work(found["flops"], found["collectives"], found["collective_bytes"])


# A device that does the work of others too does at least twice its own: no axis of a mesh that cuts anything has fewer devices than two. A training step that
# computes all of its forward pass again does four thirds, so that most forms which only rematerialize pass.
MOST_FLOPS = 2


def objection(before: Work, after: Work) -> str | None:
    """What a rewritten form does more of than the original that is no price to pay for memory: any collective, or the work of other devices."""
    if after.collectives > before.collectives:
        return f"{after.collectives} collectives where {before.collectives} were"
    if after.collective_bytes > before.collective_bytes:
        return f"{after.collective_bytes} bytes sent by collectives where {before.collective_bytes} were"
    if after.flops >= before.flops * MOST_FLOPS > 0:
        return f"{after.flops} floating-point operations on a device where {before.flops} were"
    return None


def rewritten(inner, source: Partitioned, proto: bytes):
    """A computation like `inner` in which each device runs `proto`."""
    made = copy.copy(inner)
    made._hlo = handed_back(inner, source, proto)
    made._executable = None
    return made
