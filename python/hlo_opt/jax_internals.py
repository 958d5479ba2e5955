"""What this package takes of JAX that JAX does not promise, all of it here.

`from .jax_internals import ir` brings a private module when it is asked for, and imports no other. ATTRIBUTES names what is read of private objects elsewhere in the
package. `python/tests/test_internals.py` asks JAX 0.8, 0.9 and 0.10 for all of them, and holds every other file to this one.
"""
from __future__ import annotations

import importlib
from typing import Any

# Where a name is found.
NAMES = {
    # Programs, and the compiler in front of which they are taken (jax_hook.py).
    "pxla": ("jax._src.interpreters", "pxla"),
    "compilation_cache": ("jax._src", "compilation_cache"),
    # MLIR: modules, and the dialects that are written.
    "mlir": ("jax._src.interpreters", "mlir"),
    "ir": ("jax._src.lib.mlir", "ir"),
    "func": ("jax._src.lib.mlir.dialects", "func"),
    "hlo": ("jax._src.lib.mlir.dialects", "hlo"),
    "source_info_util": ("jax._src", "source_info_util"),
    "sdy": ("jax._src.lib.mlir.dialects", "sdy"),
    # XLA: computations, and what converts StableHLO.
    "xla_client": ("jax._src.lib", "xla_client"),
    "export_files": ("jax._src.export", "_export"),
    "parse_flatten_op_sharding": ("jax._src.sharding_impls", "parse_flatten_op_sharding"),
}

# What is read of these, dotted, and of the objects that JAX makes of a program.
ATTRIBUTES = (
    "pxla.MeshComputation.compile", "compilation_cache.is_cache_used", "mlir.make_ir_context", "xla_client.XlaComputation",
    "xla_client._xla.mlir.mlir_module_to_xla_computation", "xla_client._xla.mlir.deserialize_portable_artifact", "export_files._module_to_bytecode",
)
OF_PROGRAMS = ("_hlo", "_name", "_platforms", "_device_list", "_executable", "_compiler_options_kvs")


def __getattr__(name: str) -> Any:
    """The private module or name; ImportError or AttributeError if this JAX has none."""
    if name not in NAMES:
        raise AttributeError(name)
    module, attribute = NAMES[name]
    found = importlib.import_module(module)
    return getattr(found, attribute) if hasattr(found, attribute) else importlib.import_module(f"{module}.{attribute}")
