"""Reads the optimized module that a compiled executable gives back: computations, instructions, and the bytes of their arrays.

Nothing is refused. What the text has and this file does not know becomes an instruction with an opcode and shapes, which is what prices need.
"""
from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

# Bits of an element, where the name of the type does not end in them.
BITS = {"pred": 8, "token": 0, "opaque": 0, "c64": 64, "c128": 128}
_ARRAY = re.compile(r"(\w+)\[([^\]]*)\](?:\{([^{}]*)\})?")
_HEADER = re.compile(r"^(?:ENTRY )?%?([^\s(]+) \(.*\{$|^(?:ENTRY )?%?([^\s(]+) \{$")
_NAMED = re.compile(r"^\s*(ROOT )?%?([^\s=]+) = ")
_OPERAND = re.compile(r"%?([\w.\-]+)$")
_COMMENT = re.compile(r"/\*.*?\*/")
_TILE = re.compile(r"T\((\d+(?:,\d+)*)\)")
# What TPUs keep beside their processors. Reading it takes nothing from the memory's bandwidth.
NEAR = "S(1)"
HOST = "S(5)"


@dataclass(frozen=True)
class Array:
    """One array of a shape. `bytes` is what it takes in the device's memory: tiles are full, and arrays next to the processor, or in the memory of the host, take none."""

    kind: str
    dims: tuple[int, ...]
    bytes: float
    on_host: bool = False

    @property
    def elements(self) -> int:
        return math.prod(self.dims)


@dataclass
class Instruction:
    """One line of a computation. `literal` is what stands in the parentheses, `attributes` what follows them."""

    name: str
    opcode: str
    arrays: list[Array]
    operands: list[str]
    literal: str
    attributes: str
    root: bool = False

    @property
    def bytes(self) -> float:
        return sum(array.bytes for array in self.arrays)

    @property
    def elements(self) -> int:
        return self.arrays[0].elements if self.arrays else 0

    def called(self, key: str) -> str | None:
        """The computation of an attribute such as `body=%name`."""
        found = re.search(rf"\b{key}=%?([\w.\-]+)", self.attributes)
        return found[1] if found else None

    def numbers(self, key: str) -> list[int]:
        """The numbers of an attribute such as `lhs_contracting_dims={1}`."""
        found = re.search(rf"\b{key}=\{{([\d,]*)\}}", self.attributes)
        return [int(number) for number in found[1].split(",") if number] if found else []


@dataclass
class Computation:
    """Instructions in the order of the text, in which operands come before their users."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def __post_init__(self):
        self.by_name: dict[str, Instruction] = {}

    def add(self, instruction: Instruction):
        self.instructions.append(instruction)
        self.by_name[instruction.name] = instruction

    @property
    def root(self) -> Instruction | None:
        return next((found for found in reversed(self.instructions) if found.root), self.instructions[-1] if self.instructions else None)


@dataclass
class Module:
    """All computations by name; `entry` is the name of the one that runs."""

    computations: dict[str, Computation]
    entry: str


def parse(text: str, near: bool = False) -> Module:
    """The module of a text. With `near`, arrays in memory space 1 take no bytes, as on TPU."""
    computations, current, entry = {}, None, ""
    for line in text.splitlines():
        if line.startswith("}"):
            current = None
        elif current is None:
            header = _HEADER.match(line)
            if header and not line.startswith("HloModule"):
                current = computations.setdefault(header[1] or header[2], Computation(header[1] or header[2]))
                entry = current.name if line.startswith("ENTRY ") else entry
        elif (found := instruction(line, near)) is not None:
            current.add(found)
    if not entry:
        raise ValueError("the text has no ENTRY computation")
    return Module(computations, entry)


def instruction(line: str, near: bool) -> Instruction | None:
    """The instruction of a line; None for a line that is none."""
    named = _NAMED.match(line)
    if not named:
        return None
    line = _COMMENT.sub("", line)
    start = _NAMED.match(line).end()
    end = closing(line, start) + 1 if line.startswith("(", start) else start
    end = line.find(" ", end)
    opening = line.find("(", end) if end > 0 else -1
    if opening < 0:
        return None
    last = closing(line, opening)
    inside = line[opening + 1:last]
    opcode = line[end:opening].strip()
    return Instruction(named[2], opcode, arrays(line[start:end], near), [] if opcode in ("constant", "parameter") else operands(inside),
                       inside, line[last + 1:], bool(named[1]))


def closing(line: str, opening: int) -> int:
    """Where the parenthesis that opens at `opening` is closed."""
    depth = 0
    for found in re.finditer(r"[()]", line[opening:]):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return opening + found.start()
    return len(line)


def operands(inside: str) -> list[str]:
    """Names of operands, in a text that may put their shapes before them."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(inside):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append(inside[start:place])
            start = place + 1
    found = (_OPERAND.search(part.strip()) for part in [*parts, inside[start:]])
    return [match[1] for match in found if match]


def arrays(shape: str, near: bool) -> list[Array]:
    """The arrays of a shape, those of nested tuples in a row."""
    return [array(*found.groups(), near) for found in _ARRAY.finditer(shape)]


def array(kind: str, dims: str, layout: str | None, near: bool) -> Array:
    # Of a dimension with a bound (`<=8`) the bound counts.
    sizes = tuple(int(size) for size in re.findall(r"\d+", dims))
    if layout and HOST in layout:
        return Array(kind, sizes, 0, True)
    if near and layout and NEAR in layout:
        return Array(kind, sizes, 0)
    return Array(kind, sizes, math.prod(tiled(sizes, layout or "")) * bits(kind) / 8)


def tiled(sizes: tuple[int, ...], layout: str) -> list[int]:
    """Sizes as a layout stores them: the minor dimensions filled up to whole tiles."""
    tile = _TILE.search(layout)
    if not tile or not sizes:
        return list(sizes)
    minor_first = [int(number) for number in layout.split(":")[0].split(",") if number]
    filled = list(sizes)
    for dimension, size in zip(minor_first, reversed([int(number) for number in tile[1].split(",")])):
        filled[dimension] = -(-filled[dimension] // size) * size
    return filled


def bits(kind: str) -> int:
    """Bits of an element; the types of eight bits and fewer are named after them and their exponents."""
    if kind in BITS:
        return BITS[kind]
    found = re.match(r"[a-z]+(\d+)", kind)
    return int(found[1]) if found else 0
