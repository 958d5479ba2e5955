"""The rows of a fleet: one for each dump, one for each source line over all dumps; as JSON, CSV and text."""
from __future__ import annotations

import csv
import io
import json
from typing import Any

from .dumps import Dump
from .work import Result

_ORDER = ("bitwise", "hlo-exact", "reassociate", "assume")
_COLUMNS = ("name", "status", "target", "peak_bytes", "floor_bytes", "reachable_bytes", "model", "rewrites", "grade", "owner", "owner_bytes", "error")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def row(dump: Dump, result: Result) -> dict[str, Any]:
    """What one dump needs, could need, and who owns it; or why nobody knows."""
    base = {"name": dump.name, "label": dump.label, "key": result.key, "status": "ok", "error": None}
    if result.report is None:
        return base | {"status": "error", "error": f"{result.kind}: {result.message}"} | dict.fromkeys(_COLUMNS[2:-1])
    before, after, rewrites = (result.report[key] for key in ("before", "after", "rewrites"))
    groups = before["details"]["by_source"]
    owner = next((group for group in groups if not group["key"].startswith("(")), groups[0] if groups else None)
    return base | {
        "status": "over budget" if result.is_over_budget else "ok", "module": result.report["module"], "target": result.report["target"],
        "peak_bytes": before["total_bytes"], "floor_bytes": before["floor"], "reachable_bytes": after["total_bytes"], "model": before["model"],
        "rewrites": len(rewrites), "grade": max((done["grade"] for done in rewrites), key=_ORDER.index, default=None),
        "owner": owner and owner["key"], "owner_bytes": owner and owner["bytes"],
        "lines": [{"line": group["key"], "bytes": group["bytes"]} for group in groups],
        "saved": _saved(rewrites),
    }


def _saved(rewrites: list[dict]) -> dict[str, int]:
    """Bytes saved at each source line."""
    sums: dict[str, int] = {}
    for done in rewrites:
        if done["saved_bytes"]:
            sums[done["source"] or "(no source line)"] = sums.get(done["source"] or "(no source line)", 0) + done["saved_bytes"]
    return sums


def owners(rows: list[dict]) -> list[dict[str, Any]]:
    """Source lines over all dumps: how much they hold at the peaks, in how many dumps, where most, and what rewrites of theirs save."""
    found: dict[str, dict[str, Any]] = {}

    def of(line: str) -> dict[str, Any]:
        return found.setdefault(line, {"line": line, "dumps": 0, "bytes": 0, "most_bytes": 0, "most_in": None, "saved_bytes": 0})

    for one in rows:
        for held in one.get("lines", ()):
            sums = of(held["line"])
            sums["dumps"] += 1
            sums["bytes"] += held["bytes"]
            if held["bytes"] > sums["most_bytes"]:
                sums |= {"most_bytes": held["bytes"], "most_in": one["name"]}
        for line, saved in one.get("saved", {}).items():
            of(line)["saved_bytes"] += saved
    return sorted(found.values(), key=lambda sums: (-sums["bytes"], -sums["saved_bytes"], sums["line"]))


def as_json(tool: str, settings: list[str], rows: list[dict], changes: list[dict] | None) -> str:
    """The whole table; `changes` are those since the baseline."""
    table = {"version": 1, "tool": tool, "settings": settings, "dumps": rows, "owners": owners(rows)}
    return json.dumps(table | ({} if changes is None else {"changes": changes}), indent=1) + "\n"


def as_csv(rows: list[dict]) -> str:
    """One line for each dump."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_text(rows: list[dict]) -> str:
    """Columns for a terminal, the largest peak first; broken dumps last."""
    lines = [("peak", "reachable", "floor", "dump", "owner")]
    for one in sorted(rows, key=lambda one: (one["status"] == "error", -(one["peak_bytes"] or 0), one["name"])):
        sizes = ("", "", "") if one["status"] == "error" else tuple(size(one[key]) for key in ("peak_bytes", "reachable_bytes", "floor_bytes"))
        owner = one["error"] if one["status"] == "error" else f"{one['owner'] or ''} {size(one['owner_bytes'] or 0)}"
        lines.append((*sizes, one["name"] + (" (over budget)" if one["status"] == "over budget" else ""), owner))
    wide = [max(len(line[at]) for line in lines) for at in range(4)]
    return "".join(f"{a:>{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}  {d:<{wide[3]}}  {e}".rstrip() + "\n" for a, b, c, d, e in lines)


def size(count: int) -> str:
    """Bytes for people, as the command writes them."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.2f} {_UNITS[unit]}"
