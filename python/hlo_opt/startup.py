"""`HLO_OPT=...` in the environment: every program of a process is rewritten without a changed line.

JAX calls `initialize` before it makes its first device (entry point `jax_plugins`). `HLO_OPT=1` takes the defaults, `HLO_OPT=0` or nothing does nothing,
`HLO_OPT=budget=12GiB,exactness=reassociate` sets options of `hlo_opt.Options` and of `hlo_opt.install`.
"""
from __future__ import annotations

import os
import re
from dataclasses import fields
from typing import Any

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES = ("budget", "chunk_bytes", "min_saving", "host_memory", "at_least")


def initialize() -> None:
    """Called by JAX; looks at the environment."""
    text = os.environ.get("HLO_OPT", "").strip()
    if text not in ("", "0"):
        start([] if text == "1" else text.split(","))


def start(settings: list[str]) -> None:
    """Installs under settings `NAME=VALUE`. Raises ValueError for one that is not known."""
    from .jax_install import install
    from .jax_options import Options
    values = dict(_setting(text) for text in settings)
    own = {name: values.pop(name) for name in ("at_least", "summary") if name in values}
    install(Options(**values), **own)


def _setting(text: str) -> tuple[str, Any]:
    from .jax_options import Options
    name, _, value = text.strip().removeprefix("--").partition("=")
    name = name.replace("-", "_")
    known = [*(field.name for field in fields(Options)), "at_least", "summary"]
    if name not in known or not value:
        raise ValueError(f"hlo-opt: `{text}` is no setting; known are {', '.join(f'{known}=...' for known in known)}")
    if name in _SIZES:
        return name, size(value)
    if name == "summary":
        return name, value not in ("0", "false", "no")
    return name, tuple(value.split("+")) if name == "assume" else value.replace("+", ",") if name == "passes" else value


def size(text: str) -> int:
    """Bytes of a size as the command line takes it: `12GiB`, `80GB`, `1048576`. Raises ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if found is None or found[2].upper() not in _UNITS:
        raise ValueError(f"hlo-opt: `{text}` is no size such as 12GiB, 80GB or 1048576")
    return int(float(found[1]) * _UNITS[found[2].upper()])
