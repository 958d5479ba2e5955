"""StableHLO as HLO text, which `hlo-opt` reads: of MLIR text, MLIR bytecode, or an artifact of `jax.export`."""
from .. import stablehlo
from . import compiler


def hlo(file):
    """{"text"}: the module in a file, in XLA's own words and with every constant in full."""
    with open(file, "rb") as opened:
        return {"text": text(opened.read())}


def text(data):
    """The HLO text of a module of StableHLO."""
    from ..jax_internals import xla_client
    options = compiler.hlo().HloPrintOptions()
    options.print_large_constants = True
    proto, devices = stablehlo.converted(data)
    header, rest = xla_client.XlaComputation(proto).get_hlo_module().to_string(options).split("\n", 1)
    return f"{header}, num_partitions={devices}\n{rest}" if devices > 1 else f"{header}\n{rest}"
