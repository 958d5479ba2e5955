"""Arguments of the tool with which it treats small programs like large ones: small savings count, and no run keeps memory of those before it."""
from __future__ import annotations

import pathlib

MACHINE = pathlib.Path(__file__).resolve().parents[1] / "machines" / "no_malloc_cache.toml"


def as_large(arguments=()):
    """The arguments to add to others; what is for another target than the CPU is not kept from run to run anyway."""
    elsewhere = any(argument.startswith("--target") and "cpu" not in argument for argument in arguments)
    return ["--min-saving=1", *([] if elsewhere else ["--machine", str(MACHINE)])]
