"""Layouts of arguments and results that are not row-major, which XLA's own way back to StableHLO loses: its clients then count copies between layouts
that the program does not make, or leave out some that it makes."""
from __future__ import annotations

from . import main_function

# What JAX writes for `Layout`; read by `GetArgLayoutModes` and `GetOutputLayoutModes` (xla/pjrt/layout_mode.cc).
_MODE = "mhlo.layout_mode"


def laid_out(mlir: str, program) -> str:
    """`mlir`, the StableHLO of a computation, with the layouts that its arguments and results have there."""
    shape = program.program_shape()
    results = shape.result_shape()
    for which, shapes in ((main_function.ARGUMENTS, shape.parameter_shapes()),
                          (main_function.RESULTS, results.tuple_shapes() if results.is_tuple() else [results])):
        modes = {number: mode for number, one in enumerate(shapes) if (mode := _mode(one))}
        if modes:
            mlir = main_function.described(mlir, which, _adder(modes))
    return mlir


def _mode(shape):
    """How the layout of an array is written, unless it is row-major."""
    order = shape.layout().minor_to_major() if shape.is_array() else ()
    return "{" + ",".join(map(str, order)) + "}" if list(order) != sorted(order, reverse=True) else None


def _adder(modes):
    from ..jax_internals import ir
    return lambda number, had: {**had, _MODE: ir.StringAttr.get(modes[number])} if number in modes else had
