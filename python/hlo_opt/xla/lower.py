"""StableHLO as HLO text, which `hlo-opt` reads: of MLIR text, MLIR bytecode, or an artifact of `jax.export`."""
from . import compiler

BYTECODE = b"ML\xefR"


def hlo(file):
    """{"text"}: the module in a file, in XLA's own words and with every constant in full."""
    from jaxlib import _jax
    with open(file, "rb") as opened:
        data = opened.read()
    made = _jax.mlir.mlir_module_to_xla_computation(mlir_module=stablehlo(data), use_tuple_args=False, return_tuple=False)
    options = compiler.hlo().HloPrintOptions()
    options.print_large_constants = True
    return {"text": made.get_hlo_module().to_string(options)}


def stablehlo(data):
    """Text or bytecode. An artifact of `jax.export` has the bytecode inside."""
    if data.startswith(BYTECODE):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        from jax import export
        return export.deserialize(bytearray(data)).mlir_module_serialized
