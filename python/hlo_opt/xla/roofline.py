"""Estimates how long an optimized module runs: each kernel takes what its bytes or its operations take, whichever is longer, and its start.
Copies between the memories of the device and its host take what the link takes, as if nothing ran beside them.

`estimate` takes the text that a compiled executable gives back. Loops count as often as they run, branches as their dearest. What the estimate leaves
out: caches, kernels that run beside each other, how well a library or the compiler uses the machine for the shapes at hand. It compares two forms of one program
for one machine; it does not replace a measurement.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import optimized, products, trips
from .kernels import FREE, Kernels, Work
from .optimized import Computation, Instruction

_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_COLLECTIVES = re.compile(r"^(all-reduce|all-gather|all-to-all|ragged-all-to-all|reduce-scatter|collective-permute|collective-broadcast|send|recv)(-start)?$")
# Custom calls that only tell the compiler something.
_MARKS = {"AllocateBuffer", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "AssumeGatherIndicesInBound", "GatherScatterIndicesBitpacked"}


@dataclass
class Total:
    """Sums over a computation. `unknown` are loops whose rounds nobody knows, counted once; `unpriced` are library calls priced by their bytes alone."""

    seconds: float = 0.0
    kernels: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0
    collectives: float = 0.0
    collective_bytes: float = 0.0
    unknown: set[str] = field(default_factory=set)
    unpriced: set[str] = field(default_factory=set)

    def add(self, other: Total, times: float = 1.0):
        for name in ("seconds", "kernels", "flops", "bytes", "collectives", "collective_bytes"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        self.unknown |= other.unknown
        self.unpriced |= other.unpriced


def estimate(text: str, machine: dict) -> dict:
    """Seconds, kernels, FLOPs and bytes of one run of an optimized module on a machine (`machines.of`, `machines.read`).

    `unknown_loops` are the loops whose number of rounds the text does not tell, each counted as one round; `unpriced` the library calls
    whose operations are unknown, so that their bytes alone count; `collectives` is how many run,
    `collective_bytes` what their operands hold, wherever those stand; they are priced as if they went to memory."""
    module = optimized.parse(text, near=machine["target"] == "tpu")
    total = Prices(module, machine).computation(module.entry)
    return {"machine": machine["name"], "seconds": total.seconds, "kernels": round(total.kernels), "flops": round(total.flops), "bytes": round(total.bytes),
            "collectives": round(total.collectives), "collective_bytes": round(total.collective_bytes), "unknown_loops": sorted(total.unknown), "unpriced": sorted(total.unpriced)}


class Prices:
    """Prices the computations of a module, each once."""

    def __init__(self, module: optimized.Module, machine: dict):
        self.module, self.machine = module, machine
        self.kernels = Kernels(module)
        self._totals: dict[str, Total] = {}

    def computation(self, name: str | None) -> Total:
        if name not in self._totals:
            total, found = Total(), self.module.computations.get(name or "")
            for instruction in found.instructions if found else []:
                total.add(self.instruction(instruction, found))
            self._totals[name] = total
        return self._totals[name]

    def instruction(self, found: Instruction, around: Computation) -> Total:
        if found.opcode in FREE or found.opcode.endswith(("-done", "-update")):
            return Total()
        if found.opcode == "while":
            return self.loop(found, around)
        if found.opcode == "conditional":
            return max((self.computation(name) for name in branches(found)), key=lambda total: total.seconds, default=Total())
        if found.opcode in ("call", "async-start"):
            return self.computation(found.called("to_apply") or found.called("calls"))
        if found.opcode == "custom-call" and products.target(found) in _MARKS:
            return Total()
        if (moved := moved_bytes(found, around)) is not None:
            return Total(moved / self.machine["link_bytes_per_second"] + self.machine["kernel_seconds"], 1)
        return self.kernel(found, around)

    def loop(self, found: Instruction, around: Computation) -> Total:
        rounds = trips.count(found, around, self.module)
        total = Total(unknown={found.name} if rounds is None else set())
        for key in ("condition", "body"):
            total.add(self.computation(found.called(key)), 1 if rounds is None else rounds)
        total.seconds += self.machine["iteration_seconds"] * (1 if rounds is None else rounds)
        return total

    def kernel(self, found: Instruction, around: Computation) -> Total:
        if found.opcode.endswith("-start") and not found.called("calls"):
            work = Work(started_bytes(found, around))
        else:
            work = self.kernels.work(found, around.by_name)
        total = Total(self.seconds(work), 1, work.flops, work.bytes)
        if _COLLECTIVES.match(found.opcode):
            total.collectives, total.collective_bytes = 1, sent_bytes(found, around)
        if found.opcode == "custom-call" and not work.products:
            total.unpriced.add(products.target(found) or found.name)
        return total

    def seconds(self, work: Work) -> float:
        machine = self.machine
        computing = work.arithmetic / machine["arithmetic_per_second"] + work.transcendentals / machine["transcendentals_per_second"]
        for kind, flops in work.products.items():
            # With `few_rows` rows a product takes twice what its operations would.
            computing += (flops + work.by_rows[kind] * machine["few_rows"]) / rate(machine, kind)
        return max(work.bytes / machine["bytes_per_second"], computing) + machine["kernel_seconds"]


def rate(machine: dict, kind: str) -> float:
    """Operations a second of products of a type, as passes/src/machine.rs assigns them."""
    rates = machine["operations_per_second"]
    if kind in ("f64", "c64", "c128"):
        return rates["f64"]
    return rates["bf16"] if re.match(r"b?f\d", kind) and optimized.bits(kind) <= 16 else rates["f32"]


def branches(found: Instruction) -> list[str]:
    listed = _BRANCHES.search(found.attributes)
    if listed:
        return [name.strip().lstrip("%") for name in listed[1].split(",")]
    return [name for key in ("true_computation", "false_computation") if (name := found.called(key))]


def moved_bytes(found: Instruction, around: Computation) -> float | None:
    """Bytes that an instruction copies between the memories of the device and its host; None of one that copies none. What is not on the host is what is copied, beside indices."""
    given = [array for name in found.operands if name in around.by_name for array in around.by_name[name].arrays]
    if not any(array.on_host for array in [*given, *found.arrays]):
        return None
    return max((array.bytes for array in [*given, *found.arrays]), default=0.0)


def sent_bytes(found: Instruction, around: Computation) -> float:
    """Bytes of the elements of the operands of a collective, also of those next to the processor, without padding."""
    operands = [array for name in found.operands if name in around.by_name for array in around.by_name[name].arrays]
    return sum(array.elements * optimized.bits(array.kind) / 8 for array in operands)


def started_bytes(found: Instruction, around: Computation) -> float:
    """Bytes of an operation that runs beside others: its operands and its results, without the operands that its shape repeats."""
    operands = [array for name in found.operands if name in around.by_name for array in around.by_name[name].arrays]
    results = found.arrays
    if found.opcode == "copy-start":
        # The shape names the copy, the original and a token.
        results = found.arrays[:1]
    elif len(results) > len(operands):
        results = results[len(operands):]
    return sum(array.bytes for array in [*operands, *results])
