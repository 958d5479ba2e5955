"""Operations of products and convolutions of an optimized module, those of libraries included: two for each multiplication and its addition."""
from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from .optimized import Array, Instruction

_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_LABELS = re.compile(r"dim_labels=([^\s,_]+)_([^\s,]+?)->([^\s,]+)")
_WINDOW = re.compile(r"\bwindow=\{([^}]*)\}")


@dataclass(frozen=True)
class Product:
    """The type whose rate counts, operations, and the rows of the smaller side."""

    kind: str
    flops: float
    rows: float


def target(found: Instruction) -> str:
    """The routine that a custom call names."""
    match = _TARGET.search(found.attributes)
    return match[1] if match else ""


def product(found: Instruction, operands: list[Array]) -> Product | None:
    """The product that an instruction is, or None. `operands` are the arrays of its operands in a row."""
    if len(operands) < 2 or not found.arrays:
        return None
    first, second, result = operands[0], operands[1], found.arrays[0]
    if found.opcode in ("dot", "scaled-dot", "ragged-dot"):
        return dot(first, second, result, found.numbers("lhs_contracting_dims"))
    if found.opcode == "convolution":
        return convolution(found.attributes, first, second, result, first.kind)
    called = target(found) if found.opcode == "custom-call" else ""
    if called.startswith("__cublas"):
        return dot(first, second, result, gemm_dimensions(found.attributes))
    if called.startswith("__cudnn$convBackwardInput"):
        return convolution(found.attributes, result, second, first, first.kind)
    if called.startswith("__cudnn$convBackwardFilter"):
        return convolution(found.attributes, first, result, second, first.kind)
    if called.startswith("__cudnn$conv"):
        return convolution(found.attributes, first, second, result, first.kind)
    return None


def dot(first: Array, second: Array, result: Array, contracted: list[int]) -> Product:
    length = math.prod(first.dims[place] for place in contracted if place < len(first.dims))
    # Batch dimensions count twice among the elements of both sides, and once in the result: they cancel.
    sides = [array.elements / max(length, 1) for array in (first, second)]
    batch = max(1.0, sides[0] * sides[1] / max(result.elements, 1))
    return Product(first.kind, 2.0 * result.elements * length, max(1.0, min(sides) / batch))


def gemm_dimensions(attributes: str) -> list[int]:
    """The dimensions of the first operand that a cuBLAS call sums over, as its JSON says."""
    found = re.search(r'"lhs_contracting_dimensions":(\[[^\]]*\])', attributes)
    return [int(number) for number in json.loads(found[1])] if found else []


def convolution(attributes: str, image: Array, kernel: Array, result: Array, kind: str) -> Product | None:
    """Multiplications of a convolution with positions inside of the image only, as XLA's cost analysis counts them."""
    labels = _LABELS.search(attributes)
    if not labels:
        return None
    image_labels, kernel_labels, result_labels = labels.groups()
    window = window_of(attributes)
    count = 2.0 * size(result, result_labels, "b") * size(result, result_labels, "f") * size(kernel, kernel_labels, "i")
    for number, place in enumerate(sorted(set(result_labels) - {"b", "f"})):
        count *= pairs(size(image, image_labels, place), size(kernel, kernel_labels, place), size(result, result_labels, place), window, number)
    rows = result.elements / max(size(result, result_labels, "f"), 1)
    return Product(kind, count, max(1.0, min(rows, size(result, result_labels, "f"))))


def size(array: Array, labels: str, label: str) -> int:
    place = labels.find(label)
    return array.dims[place] if 0 <= place < len(array.dims) else 1


def window_of(attributes: str) -> dict[str, list[str]]:
    """Sizes, strides, padding and dilations of a window, as texts by dimension."""
    found = _WINDOW.search(attributes)
    return dict((key, value.split("x")) for key, _, value in (part.partition("=") for part in found[1].split())) if found else {}


def pairs(image: int, kernel: int, result: int, window: dict[str, list[str]], dimension: int) -> int:
    """Pairs of a position of the result and one of the kernel that meet a number of the image, in one dimension."""
    def value(key: str, default: str) -> str:
        values = window.get(key, [])
        return values[dimension] if dimension < len(values) else default
    stride, base, dilation = (int(value(key, "1")) for key in ("stride", "lhs_dilate", "rhs_dilate"))
    before = int(value("pad", "0_0").split("_")[0])
    last = (image - 1) * base
    if base == 1:
        # Of each position of the kernel, the results that reach the image lie in a row.
        return sum(max(0, min(result - 1, (last + before - at) // stride) - max(0, -((at - before) // stride)) + 1)
                   for at in range(0, kernel * dilation, dilation))
    return sum(0 <= (place := out * stride + at - before) <= last and place % base == 0
               for out in range(result) for at in range(0, kernel * dilation, dilation))


def window_size(found: Instruction) -> int:
    """Positions of the window of an instruction."""
    return math.prod(int(length) for length in window_of(found.attributes).get("size", ["1"]))
