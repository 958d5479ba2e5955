"""Which dumps lie below a folder: every module of XLA dump folders, and every other file that holds a module."""
from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# What XLA writes of a module at the stages that the tool picks from; `src/folder/names.rs` has the same names.
_STAGE = re.compile(
    r"(?P<module>.+?)(\.before_optimizations|(?<=[._])after_optimizations|\.snapshot\.-?\d+|\.hlo_(unoptimized_)?snapshot"
    r"|\.\d{4,9}\..*\.after_[^.]*spmd-partitioning(\..*)?)(\.txt|\.hlo\.pb|\.pb)(\.gz|\.zst)?")
_PASS = re.compile(r"(?P<module>.+?)\.\d{4,9}\..*after_.*(\.txt|\.hlo\.pb)(\.gz|\.zst)?")
_TARGET = re.compile(r"([._](cpu|gpu|tpu))?[._]*$")
_CHIP = re.compile(r"\.(sm_|gfx)[^/]*?$")
_MODULE_FILE = re.compile(r".+\.(hlo|mlir|mlirbc|pb|hlo\.txt|stablehlo|jax_export)(\.gz|\.zst)?")
_NUMBER = re.compile(r"module_\d+\.")


@dataclass(frozen=True)
class Dump:
    """A module to look at: its name below the folder, the name that it keeps when other modules are added, and its files."""

    name: str
    label: str
    files: tuple[Path, ...]

    @property
    def is_folder(self) -> bool:
        """Whether the tool is given the files as a dump folder, to pick the stage by itself."""
        return _STAGE.fullmatch(self.files[0].name) is not None or _PASS.fullmatch(self.files[0].name) is not None


def find(folder: Path, left_out: Path) -> list[Dump]:
    """The dumps below a folder in the order of their names; nothing of `left_out`, where an earlier run wrote."""
    found: dict[str, list[Path]] = {}
    for place, below, names in os.walk(folder):
        modules = _modules(Path(place), names)
        # What XLA writes in a folder of a module's name is the same module once more.
        below[:] = sorted(name for name in below if name not in modules and Path(place, name).resolve() != left_out)
        base = "" if Path(place) == folder else Path(place).relative_to(folder).as_posix() + "/"
        found |= {base + name: files for name, files in modules.items()}
    seen: Counter[str] = Counter()
    return [Dump(name, _label(name, seen), tuple(found[name])) for name in sorted(found)]


def _modules(place: Path, names: list[str]) -> dict[str, list[Path]]:
    """The modules of one folder with their files."""
    staged, passes, other = {}, {}, {}
    for name in sorted(names):
        if match := _STAGE.fullmatch(name):
            staged.setdefault(_without_target(match["module"]), []).append(place / name)
        elif match := _PASS.fullmatch(name):
            passes.setdefault(match["module"], []).append(place / name)
        elif _MODULE_FILE.fullmatch(name) or name.endswith(".txt") and _is_text(place / name):
            other[name] = [place / name]
    # A module with a stage of its own needs none of the texts between passes, of which there may be hundreds.
    return {**other, **passes, **staged}


def _without_target(stem: str) -> str:
    """`module_0003.jit_f` of `module_0003.jit_f.cpu_` and of `module_0003.jit_f.sm_9.0_gpu_`."""
    return _CHIP.sub("", _TARGET.sub("", stem)) if stem[-1] in "._" else stem


def _is_text(path: Path) -> bool:
    """Whether a text that is not named as a dump holds a module; XLA writes other texts beside its modules."""
    try:
        with path.open("rb") as file:
            return b"HloModule" in file.read(4096)
    except OSError:
        return False


def _label(name: str, seen: Counter[str]) -> str:
    """The name without XLA's number, which changes with every program that is compiled earlier; equal names are counted."""
    plain = _NUMBER.sub("", name)
    seen[plain] += 1
    return plain if seen[plain] == 1 else f"{plain}#{seen[plain]}"
