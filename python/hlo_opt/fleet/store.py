"""Results on disk, one for each content and settings, so that an interrupted run goes on where it was."""
from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from .dumps import Dump
from .work import Result, Task

# A new form of the stored results makes the old ones unknown.
_FORM = b"1"


class Store:
    """The folder of a run: `reports/KEY.html` to look at, `results/KEY.json` and `results/KEY.sarif` to go on from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reports, self.results = folder / "reports", folder / "results"
        self.reports.mkdir(parents=True, exist_ok=True)
        self.results.mkdir(exist_ok=True)

    def read(self, task: Task) -> Result | None:
        """What an earlier run found, unless something of it is missing."""
        try:
            data = json.loads((self.results / f"{task.key}.json").read_text(encoding="utf-8"))
            if data["report"] is not None and not (self.reports / f"{task.key}.html").exists():
                return None
            is_wanted = task.with_sarif and data["report"] is not None
            sarif = (self.results / f"{task.key}.sarif").read_text(encoding="utf-8") if is_wanted else None
        except (OSError, ValueError, KeyError):
            return None
        return Result(task.key, None, data["report"], data["is_over_budget"], sarif, data["kind"], data["message"])

    def write(self, result: Result) -> None:
        """Keeps a result, its data last. What another run may not find again, such as a limit of time, is not kept."""
        if result.kind not in (None, "input"):
            return
        if result.page is not None:
            write(self.reports / f"{result.key}.html", result.page)
        if result.sarif is not None:
            write(self.results / f"{result.key}.sarif", result.sarif)
        data = {name: getattr(result, name) for name in ("report", "is_over_budget", "kind", "message")}
        write(self.results / f"{result.key}.json", json.dumps(data))


def write(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def build() -> bytes:
    """What tells builds of the tool apart."""
    from hlo_opt import _native
    return _FORM + hashlib.sha256(Path(_native.__file__).read_bytes()).digest()


def key(dump: Dump, settings: list[str], machine: bytes, of_build: bytes) -> str:
    """The name of a result: a digest of the files of a dump, the settings and the build. Raises OSError for a file that cannot be read."""
    digest = hashlib.sha256(of_build)
    for part in (*(setting.encode() for setting in settings), b"", machine):
        digest.update(len(part).to_bytes(8, "little") + part)
    for path in dump.files:
        with path.open("rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:24]
