"""The command on files of StableHLO: they are read through HLO, and `-o FILE.mlir` is written as StableHLO with the interface of the input."""
from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable

_OUTPUT = ("-o", "--output")


def run(arguments: list[str], command: Callable[[list[str]], int]) -> int:
    """Runs the command on the arguments, files of StableHLO among them replaced by HLO text, and gives its exit code.

    A file that is no legal StableHLO is left to the command, which says what it is."""
    with tempfile.TemporaryDirectory(prefix="hlo-opt-") as folder:
        source, given = None, list(arguments)
        for at, text in enumerate(given):
            if not text.startswith("-") and (data := _stablehlo(text)) is not None:
                with contextlib.suppress(Exception):
                    given[at], source = _as_hlo(data, text, folder), data
        wanted = _output(given)
        if wanted is None:
            return command(given)
        at, prefix, path = wanted
        made = os.path.join(folder, "made.hlo")
        given[at] = prefix + made
        code = command(given)
        if os.path.exists(made):
            _write(made, source, path)
        return code


def _stablehlo(path: str) -> bytes | None:
    """The bytes of a file of StableHLO; JAX is imported only for what may be one."""
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
            if start.lstrip().startswith(b"HloModule"):
                return None
            data = start + file.read()
    except OSError:
        return None
    from . import stablehlo
    return data if stablehlo.is_stablehlo(data) else None


def _as_hlo(data: bytes, path: str, folder: str) -> str:
    """A file with the HLO text of a module of StableHLO."""
    from .xla import lower
    text = lower.text(data)
    made = os.path.join(folder, os.path.splitext(os.path.basename(path))[0] + ".hlo")
    with open(made, "w", encoding="utf-8") as file:
        file.write(text)
    return made


def _output(arguments: list[str]) -> tuple[int, str, str] | None:
    """Where the arguments name an output of StableHLO: the place, what stands there before the path, and the path."""
    for at, text in enumerate(arguments):
        if text in _OUTPUT and at + 1 < len(arguments):
            found = at + 1, "", arguments[at + 1]
        elif text.startswith("--output="):
            found = at, "--output=", text.removeprefix("--output=")
        elif text.startswith("-o") and len(text) > 2:
            found = at, "-o", text[2:]
        else:
            continue
        return found if found[2].endswith(".mlir") else None
    return None


def _write(made: str, source: bytes | None, path: str) -> None:
    """Writes the HLO text in a file as StableHLO."""
    from .jax_internals import xla_client

    from . import stablehlo
    from .xla import compiler
    with open(made, encoding="utf-8") as file:
        proto = compiler.parse(file.read()).as_serialized_hlo_module_proto()
    text = stablehlo.rewritten(source, proto) if source else compiler.stablehlo(xla_client.XlaComputation(proto))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
