"""A serialized HloModuleProto as older XLA reads it, such as that of PyTorch/XLA 2.9: small numbers of instructions, and names that end in a number.

XLA numbers the instructions of each computation since 2025 and counts the computation in the upper half. Older builders put the numbers of a module's
instructions and computations into one table, and look for the last `.` of every name.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Fields of HloModuleProto, HloComputationProto and HloInstructionProto (xla/service/hlo.proto).
_ENTRY_NAME, _COMPUTATIONS, _SCHEDULE = 2, 3, 7
_COMPUTATION_NAME, _INSTRUCTIONS, _ROOT = 1, 2, 6
_NAME, _ID, _OPERANDS, _CONTROL = 1, 35, 36, 37
# Above the numbers of computations, which stay.
_FIRST = 1 << 24


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _written(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(data: bytes) -> Iterator[tuple[int, Any, bytes]]:
    """The fields of a message: number, value, and the field as it stands."""
    at = 0
    while at < len(data):
        begin = at
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            value, at = None, at + (8 if tag & 7 == 1 else 4)
        yield tag >> 3, value, data[begin:at]


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _written(number << 3) + _written(value)
    return _written(number << 3 | 2) + _written(len(value)) + value


def _ids(value: int | bytes) -> list[int]:
    """Numbers of a repeated field, packed or not."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        one, at = _varint(value, at)
        found.append(one)
    return found


def numbered(proto: bytes) -> bytes:
    """The same module for an older XLA. Raises ValueError for a module with a schedule, which is no program to give to a framework."""
    if any(field == _SCHEDULE for field, _, _ in fields(proto)):
        raise ValueError("the module is scheduled: take the one before optimizations")
    instructions = [inner for field, computation, _ in fields(proto) if field == _COMPUTATIONS
                    for number, inner, _ in fields(computation) if number == _INSTRUCTIONS]
    own = [next((value for field, value, _ in fields(inner) if field == _ID), 0) for inner in instructions]
    numbers = {number: _FIRST + at for at, number in enumerate(own)}
    changes = {_COMPUTATIONS: lambda value: _computation(value, numbers), _ENTRY_NAME: _name}
    return b"".join(_field(field, changes[field](value)) if field in changes else raw for field, value, raw in fields(proto))


def _name(value: bytes) -> bytes:
    return value if b"." in value else value + b".0"


def _computation(data: bytes, numbers: dict[int, int]) -> bytes:
    out, root = [], 0
    for field, value, raw in fields(data):
        if field == _INSTRUCTIONS:
            out.append(_field(field, _instruction(value, numbers)))
        elif field == _COMPUTATION_NAME:
            out.append(_field(field, _name(value)))
        elif field == _ROOT:
            root = value
        else:
            out.append(raw)
    return b"".join([*out, _field(_ROOT, numbers[root])])


def _instruction(data: bytes, numbers: dict[int, int]) -> bytes:
    out, own = [], 0
    for field, value, raw in fields(data):
        if field == _NAME:
            out.append(_field(field, _name(value)))
        elif field == _ID:
            own = value
        elif field in (_OPERANDS, _CONTROL):
            out.append(_field(field, b"".join(_written(numbers[one]) for one in _ids(value))))
        else:
            out.append(raw)
    return b"".join([*out, _field(_ID, numbers[own])])
