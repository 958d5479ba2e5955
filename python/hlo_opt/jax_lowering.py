"""JAX's insides: a lowered program's HLO out, rewritten HLO in. Only jax_hook (where programs are compiled) and jax_partitioned know more of them.

The tests run with `VERSIONS` of JAX. Of a newer one jax_hook tries once whether all this works there; an older one is left alone.
"""
from __future__ import annotations

import copy
import math
import re
from dataclasses import dataclass

import jax

from . import jax_partitioned, stablehlo
from .xla import compiler, targets

VERSIONS = ((0, 8), (0, 9), (0, 10))
TARGETS = ("cpu", "gpu", "tpu")

# Custom calls whose meaning lies outside the module: partitioning decided in Python, memory spaces.
_FOREIGN = {b"CustomSPMDPartitioning": "custom partitioning", b"annotate_device_placement": "memory placement of arrays"}


def unsupported() -> str | None:
    """Why this version of JAX cannot be served; None if it can, or if only trying tells."""
    if version() < VERSIONS[0]:
        return f"jax {jax.__version__} is not supported (the oldest that is: {'.'.join(map(str, VERSIONS[0]))})"
    return None


def version() -> tuple[int, ...]:
    """The minor version of JAX."""
    return tuple(jax.__version_info__[:2])


def exclude_from_tracebacks(*files: str) -> None:
    """Keeps this package's frames out of the source lines that JAX writes into modules: those are the user's."""
    from .jax_internals import source_info_util
    for file in files:
        source_info_util.register_exclusion(file)


exclude_from_tracebacks(__file__)


@dataclass(frozen=True)
class Bytes:
    """What the compiler allocates for a program, in bytes. `total` is arguments + outputs - aliased (donated) + temporaries."""

    arguments: int
    outputs: int
    aliased: int
    temporaries: int

    @property
    def total(self) -> int:
        return self.floor + self.temporaries

    @property
    def floor(self) -> int:
        """Arguments + outputs - donated arguments: no program with this interface can need less."""
        return self.arguments + self.outputs - self.aliased


class OutOfMemory(Exception):
    """A program that the compiler refuses because it does not fit the device; the message is the compiler's."""


class Lowering:
    """A lowered program, which is a `MeshComputation` of JAX."""

    def __init__(self, inner):
        self.inner = inner
        self._partitioned: jax_partitioned.Partitioned | None = None

    @property
    def name(self) -> str:
        """The function's name: JAX has it as `jit(NAME)`, as `jit_NAME` in a module."""
        found = re.fullmatch(r"jit(?:\((.*)\)|_(.*))", self.inner._name)
        return (found[1] or found[2]) if found else self.inner._name

    @property
    def target(self) -> str:
        """The compiler of this lowering by the name that hlo-opt has for it: "cpu", "gpu", "tpu", or what JAX calls another platform."""
        platform = self.inner._platforms[0]
        return {"cuda": "gpu", "rocm": "gpu"}.get(platform, platform)

    @property
    def compiler_version(self) -> str:
        """The compiler with its version: two of one version give equal figures."""
        return self.inner.compile_args["backend"].platform_version

    @property
    def devices(self) -> int:
        """For how many devices the program is."""
        return self.inner.compile_args["num_devices"]

    @property
    def device_kind(self) -> str:
        """The device that is compiled for, such as `TPU v5 lite`."""
        return next((device.device_kind for device in self.inner._device_list or ()), "")

    def refusal(self) -> str | None:
        """Why this program must stay as it is; None if it may be rewritten."""
        args = self.inner.compile_args
        if len(self.inner._platforms) != 1:
            return f"the program is lowered for several platforms: {', '.join(self.inner._platforms)}"
        if self.target not in TARGETS:
            return f"there is no memory model of platform {self.target!r} (known are {', '.join(TARGETS)})"
        if getattr(args["shape_poly_state"], "uses_dim_vars", False):
            return "the program has symbolic shapes"
        if any(self._is_foreign(layout) for layout in (*args["in_layouts"], *args["out_layouts"])):
            return "arguments or results have layouts of their own"
        return None

    def _is_foreign(self, layout) -> bool:
        """Whether a layout is not the one that arrays have by default. Mutable arrays come with theirs, which on CPU has the last dimension innermost."""
        if layout is None:
            return False
        order = getattr(layout, "major_to_minor", None)
        return self.target != "cpu" or order is None or tuple(order) != tuple(range(len(order))) or bool(layout.tiling)

    def holds(self, at_least: int) -> bool:
        """Whether all values of the program (arguments, constants, results of operations) take so many bytes together."""
        return _values_exceed(self.inner._hlo.operation, at_least - 1)

    def proto(self) -> bytes:
        """The module as JAX hands it to XLA, as a serialized HloModuleProto."""
        module = self.inner.hlo().as_serialized_hlo_module_proto()
        return module + stablehlo.partitions_field(self.devices)

    def program(self) -> bytes:
        """The module that is rewritten: of a program over several devices what each of them runs, which only compiling tells.

        Raises what compiling raises, and `jax_partitioned.PartitionUnavailable`."""
        if self.devices == 1:
            return self.proto()
        if self._partitioned is None:
            self._partitioned = jax_partitioned.partitioned(self.inner)
            # JAX need not compile the original again.
            self.inner._executable = self._partitioned.executable
        return self._partitioned.proto

    def searched(self) -> bytes:
        """The same as it is searched: arguments and results have the layouts of arrays, whatever the conversion to HLO made of them. `refusal` has seen to it that
        no others are asked for."""
        program = self.program()
        return stablehlo.without_interface(program) if self.devices == 1 else program

    def form(self) -> str:
        """The program in JAX's words without source lines: equal for equal programs, wherever they stand. Large constants are in hexadecimal, which is soon written."""
        return self.inner._hlo.operation.get_asm(enable_debug_info=False)

    def text(self) -> str:
        """The module without metadata, every constant in full: equal for equal programs, wherever they stand."""
        options = compiler.hlo().HloPrintOptions()
        options.print_metadata = False
        options.print_large_constants = True
        return self.inner.hlo().get_hlo_module().to_string(options)

    def rewritten(self, proto: bytes):
        """A computation like this one that runs the module `proto` instead, a rewritten form of `program`."""
        if self._partitioned is not None:
            return jax_partitioned.rewritten(self.inner, self._partitioned, proto)
        made = copy.copy(self.inner)
        made._hlo = _stablehlo(proto)
        made._executable = None
        return made

    def plant(self, other) -> None:
        """From now on JAX runs the computation `other` wherever it would have run this one."""
        self.inner._hlo = other._hlo
        self.inner._executable = other._executable

    def private(self) -> Lowering:
        """A copy that can be changed without JAX noticing."""
        return Lowering(copy.copy(self.inner))


# An array in the text of an MLIR type: its dimensions, whether its elements are pairs, and their bits.
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(complex<)?[a-z]+(\d+)")


def _values_exceed(module, most: int) -> bool:
    """Whether the values of an MLIR module take more than `most` bytes."""
    total, waiting, sizes = 0, [module], {}
    while waiting and total <= most:
        operation = waiting.pop()
        types = [operation.attributes["function_type"]] if operation.name == "func.func" else [result.type for result in operation.results]
        for kind in types:
            if kind not in sizes:
                sizes[kind] = sum(map(_bytes, _TENSOR.findall(str(kind))))
            total += sizes[kind]
        waiting += [inner.operation for region in operation.regions for block in region for inner in block]
    return total > most


def _bytes(found: tuple[str, str, str]) -> int:
    """Bytes of an array that `_TENSOR` found."""
    dimensions, is_complex, bits = found
    return math.prod(map(int, dimensions.split("x")[:-1])) * max(int(bits), 8) // 8 * (2 if is_complex else 1)


def foreign(proto: bytes) -> str | None:
    """What in a serialized module means something that only JAX knows."""
    return next((f"the program uses {meaning}" for name, meaning in _FOREIGN.items() if name in proto), None)


def measured(computation, target: str) -> Bytes:
    """Compiles a computation (JAX keeps the result) and gives the compiler's own figures.

    Raises OutOfMemory if the compiler refuses the program because the device is too small for it."""
    try:
        stats = computation.compile().xla_extension_executable().get_compiled_memory_stats()
    except Exception as error:
        reason = targets.out_of_memory(error)
        if reason is None:
            raise
        raise OutOfMemory(reason) from error
    return Bytes(stats.argument_size_in_bytes, stats.output_size_in_bytes, stats.alias_size_in_bytes, targets.temporaries(stats, target))


def _stablehlo(proto: bytes):
    from .jax_internals import ir, mlir, xla_client
    text = compiler.stablehlo(xla_client.XlaComputation(proto))
    with mlir.make_ir_context():
        return ir.Module.parse(text)
