"""Functions of one MLIR module into another, in place of what its `main` did: the module keeps its interface and runs something else.

All of it needs a context and a location of MLIR (`ir.Location.unknown(context)`) around it.
"""
from __future__ import annotations

_PROGRAM = "rewritten"


def _name(function) -> str:
    from .jax_internals import ir
    return ir.StringAttr(function.attributes["sym_name"]).value


def _functions(module) -> list:
    return [operation for operation in module.body.operations if operation.operation.name == "func.func"]


def emptied(module):
    """Its function `main` without a body, None if it has none; all others go."""
    main = None
    for function in _functions(module):
        if _name(function) == "main":
            main = function
        else:
            function.erase()
    for operation in reversed(list(main.entry_block.operations) if main else []):
        operation.erase()
    return main


def merged(whole, part):
    """Moves the functions of `part` into `whole`, under names of their own; gives the one that was its `main`."""
    from .jax_internals import ir
    main = None
    for function in _functions(part):
        name = _name(function)
        new = _PROGRAM if name == "main" else f"{_PROGRAM}.{name}"
        ir.SymbolTable.replace_all_symbol_uses(name, new, part.operation)
        ir.SymbolTable.set_symbol_name(function.operation, new)
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        for given in ("arg_attrs", "res_attrs"):
            if given in function.attributes:
                del function.attributes[given]
        main = function if name == "main" else main
        function.operation.detach_from_parent()
        whole.body.append(function.operation)
    return main


def call(function, values) -> list:
    """The results of a call of a function that was merged."""
    from .jax_internals import func, ir
    return list(func.CallOp(function.type.results, ir.FlatSymbolRefAttr.get(_PROGRAM), values).results)
