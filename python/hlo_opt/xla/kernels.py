"""What one kernel of an optimized module does: bytes that it reads and writes, and operations, by what its result is made of.

A fused computation is read from its roots to its parameters. Each instruction is needed in part: a slice needs the part of its operand that it
takes, a gather the rows that it reads, an update in place nothing of the array that it writes into. An instruction outside of fusions is a
kernel of its own, and is read in the same way.
"""
from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from . import products
from .optimized import Instruction, Module

# No bytes are moved for these, and no kernel is started.
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "opt-barrier", "optimization-barrier",
        "partition-id", "replica-id", "domain", "get-dimension-size"}
# They pass on what they get: an update behind them is still in place.
_VIEWS = {"bitcast", "reshape", "tuple", "get-tuple-element"}
_SLICES = {"slice", "dynamic-slice", "gather"}
# Data is moved, nothing is computed.
_MOVES = {*FREE, *_SLICES, "broadcast", "iota", "reshape", "transpose", "copy", "pad", "concatenate", "dynamic-update-slice", "reverse", "scatter",
          "fusion", "dot", "convolution", "custom-call"}
_TRANSCENDENTAL = {"exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "sine", "cosine", "tan", "atan2", "erf",
                   "power", "cbrt", "sqrt", "rsqrt", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"}


@dataclass
class Work:
    """Bytes from and to memory, and operations: of products by the type of their elements, transcendental ones, all others."""

    bytes: float = 0.0
    products: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    # Operations of products of a few rows, which machines may do slower: by type, multiplied by one over the rows.
    by_rows: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    arithmetic: float = 0.0
    transcendentals: float = 0.0

    @property
    def flops(self) -> float:
        return sum(self.products.values()) + self.arithmetic + self.transcendentals

    def add(self, other: Work, part: float = 1.0):
        """Adds the operations of a part of other work; its bytes are those of a kernel, and stay there."""
        for mine, theirs in ((self.products, other.products), (self.by_rows, other.by_rows)):
            for kind, count in theirs.items():
                mine[kind] += part * count
        self.arithmetic += part * other.arithmetic
        self.transcendentals += part * other.transcendentals


@dataclass
class Body:
    """What computing some instructions needs: the part of each array from outside, bytes written, operations."""

    needed: dict[str, float]
    written: float
    work: Work


class Kernels:
    """The kernels of a module. Fused computations are read once."""

    def __init__(self, module: Module):
        self.module = module
        self._bodies: dict[str, tuple[list[str], Body]] = {}

    def work(self, kernel: Instruction, outside: dict[str, Instruction]) -> Work:
        """What an instruction outside of fusions does; `outside` has the arrays around it."""
        body = Reading([kernel], kernel, outside, self).body()
        found = Work(body.written)
        found.add(body.work)
        found.bytes += sum(part * outside[name].bytes for name, part in body.needed.items() if name in outside)
        return found

    def fused(self, name: str) -> tuple[list[str], Body]:
        """The parameters of a fused computation in their order, and what it needs of them."""
        if name not in self._bodies:
            computation = self.module.computations[name]
            inner = {found.name: found for found in computation.instructions if found.opcode == "parameter"}
            order = sorted(inner, key=lambda parameter: int(inner[parameter].literal))
            rest = [found for found in computation.instructions if found.opcode != "parameter"]
            self._bodies[name] = order, Reading(rest, computation.root, inner, self).body()
        return self._bodies[name]


class Reading:
    """Reads instructions from the last to the first."""

    def __init__(self, instructions: list[Instruction], root: Instruction, outside: dict[str, Instruction], kernels: Kernels):
        self.inside = {found.name: found for found in instructions}
        self.outside, self.kernels = outside, kernels
        self.roots = self._behind_views(root)
        # The part of an array that users read element by element, who share what they read, and the parts that others take.
        self.shared: dict[str, float] = defaultdict(float)
        self.taken: dict[str, float] = defaultdict(float)
        self.work, self.written = Work(), 0.0

    def body(self) -> Body:
        for root in self.roots:
            self.shared[root] = 1.0
        for found in reversed(list(self.inside.values())):
            self._read(found, found.name in self.roots)
        # A root that comes from outside is copied.
        self.written += sum(self._find(root).bytes for root in self.roots if root not in self.inside and self._find(root))
        return Body({name: self._part(name) for name in [*self.shared, *self.taken] if name not in self.inside}, self.written, self.work)

    def _behind_views(self, root: Instruction) -> list[str]:
        """The instructions that make the results, views left out."""
        if root.opcode not in _VIEWS or root.name not in self.inside:
            return [root.name]
        return [name for operand in root.operands if (made := self._find(operand)) for name in self._behind_views(made)]

    def _find(self, name: str) -> Instruction | None:
        return self.inside.get(name) or self.outside.get(name)

    def _part(self, name: str) -> float:
        return min(1.0, self.shared.get(name, 0.0) + self.taken.get(name, 0.0))

    def _read(self, found: Instruction, is_root: bool):
        part = self._part(found.name)
        if not part:
            return
        updates = self._updates(found)
        in_place = is_root and bool(updates) and all(self._is_outside(name) for name in found.operands[:len(updates)])
        if in_place:
            self.written += sum(update.bytes for update in updates)
        elif is_root:
            fused = self._fused(found)
            self.written += fused[1].written if fused else found.bytes
        self.work.add(self._operations(found), part)
        self._pass_on(found, part, updates, in_place)

    def _fused(self, found: Instruction) -> tuple[list[str], Body] | None:
        """What a fusion computes; None of other instructions."""
        called = found.called("calls") if found.opcode in ("fusion", "fusion-start") else None
        return self.kernels.fused(called) if called in self.kernels.module.computations else None

    def _updates(self, found: Instruction) -> list[Instruction]:
        """What an instruction writes into its first operands, one for each."""
        if found.opcode == "dynamic-update-slice":
            names = found.operands[1:2]
        elif found.opcode == "scatter":
            names = found.operands[len(found.operands) // 2 + 1:]
        else:
            return []
        return [update for name in names if (update := self._find(name))]

    def _is_outside(self, name: str) -> bool:
        """Whether an array comes from outside as it is, so that an update can be made where it lies."""
        found = self.inside.get(name)
        if found is None:
            return True
        return found.opcode in _VIEWS and bool(found.operands) and self._is_outside(found.operands[0])

    def _pass_on(self, found: Instruction, part: float, updates: list[Instruction], in_place: bool):
        """Tells the operands which part of them is needed."""
        if (fused := self._fused(found)) is not None:
            parameters, body = fused
            for parameter, operand in zip(parameters, found.operands):
                self.taken[operand] += part * body.needed.get(parameter, 0.0)
            return
        for place, operand in enumerate(found.operands):
            whole = self._find(operand)
            if place < len(updates) and in_place:
                # A scatter combines rows with what is there; both are as large as the updates.
                reads = updates[place].elements if found.opcode == "scatter" else 0
                self.taken[operand] += reads / max(whole.elements, 1) if whole else 0.0
            elif place == 0 and found.opcode in _SLICES:
                self.taken[operand] += part * found.elements / max(whole.elements, 1) if whole else 0.0
            elif place and found.opcode == "dynamic-slice" or place > 1 and found.opcode == "dynamic-update-slice" or found.opcode == "broadcast":
                self.shared[operand] = 1.0
            else:
                self.shared[operand] = max(self.shared[operand], part)

    def _operations(self, found: Instruction) -> Work:
        """Operations of one instruction."""
        work = Work()
        operands = [array for name in found.operands if (made := self._find(name)) for array in made.arrays]
        if (fused := self._fused(found)) is not None:
            work.add(fused[1].work)
        elif (product := products.product(found, operands)) is not None:
            work.products[product.kind] += product.flops
            work.by_rows[product.kind] += product.flops / product.rows
        elif found.opcode in _TRANSCENDENTAL:
            work.transcendentals += found.elements
        elif found.opcode in ("reduce", "scatter"):
            summed = operands[len(operands) // 2 + 1:] if found.opcode == "scatter" else operands[:max(1, len(operands) // 2)]
            work.arithmetic += sum(array.elements for array in summed)
        elif found.opcode in ("reduce-window", "select-and-scatter"):
            work.arithmetic += max([found.elements, *(array.elements for array in operands)]) * products.window_size(found)
        elif found.opcode == "sort":
            rows = max((array.elements for array in operands[:1]), default=1)
            work.arithmetic += rows * max(1.0, math.log2(max(rows, 2)))
        elif found.opcode not in _MOVES:
            work.arithmetic += found.elements
        return work
