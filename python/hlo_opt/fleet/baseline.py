"""Two runs compared: which dumps need more memory than before, and by how much."""
from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..startup import size

FIGURES = ("peak_bytes", "reachable_bytes")


@dataclass(frozen=True)
class Allowance:
    """How much more than before is no regression."""

    percent: float = 0.0
    bytes: int = 0

    @classmethod
    def of(cls, text: str) -> Allowance:
        """Reads `1%`, `10MiB` or `10485760`. Raises ValueError."""
        if found := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text):
            return cls(percent=float(found[1]))
        return cls(bytes=size(text))

    def has(self, old: int, new: int) -> bool:
        """Whether the new figure is within the allowance."""
        return new - old <= max(self.bytes, old * self.percent / 100)


def read(folder: Path) -> list[dict[str, Any]]:
    """The rows of an earlier run. Raises ValueError if there is no table."""
    path = folder / "table.json" if folder.is_dir() else folder
    try:
        return json.loads(path.read_text(encoding="utf-8"))["dumps"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"`{folder}` is no result of an earlier run: {error}") from None


def changes(old: list[dict], new: list[dict], allowed: Allowance, figures: tuple[str, ...] = FIGURES) -> list[dict[str, Any]]:
    """What is different, regressions first. Dumps are paired by label, so XLA's numbers of modules may differ."""
    before, after = ({one["label"]: one for one in rows} for rows in (old, new))
    found = []
    for label in sorted(before.keys() | after.keys()):
        found += _of_dump(label, before.get(label), after.get(label), allowed, figures)
    return sorted(found, key=lambda change: not change["is_regression"])


def _of_dump(label: str, old: dict | None, new: dict | None, allowed: Allowance, figures: tuple[str, ...]) -> list[dict[str, Any]]:
    def change(kind: str, is_regression: bool, figure: str | None = None) -> dict[str, Any]:
        values = {"old": old[figure], "new": new[figure]} if figure else {"old": None, "new": None}
        return {"label": label, "kind": kind, "figure": figure, **values, "is_regression": is_regression}

    if old is None or new is None:
        return [change("new" if old is None else "gone", False)]
    if "error" in (old["status"], new["status"]):
        # A dump that could be read and now cannot may hide anything.
        broke = old["status"] != "error"
        return [change("broken", True)] if broke else [] if new["status"] == "error" else [change("read again", False)]
    different = [figure for figure in figures if old[figure] != new[figure]]
    return [change("more" if new[figure] > old[figure] else "less", not allowed.has(old[figure], new[figure]), figure) for figure in different]


def sentence(change: dict[str, Any]) -> str:
    """A change in one line."""
    from .table import size as said
    if change["figure"] is None:
        return f"{change['label']}: {change['kind']}"
    old, new = change["old"], change["new"]
    share = f", {100 * (new - old) / old:+.2f} %" if old else ""
    return f"{change['label']}: {change['figure'].removesuffix('_bytes')} {said(old)} -> {said(new)}{share}"
