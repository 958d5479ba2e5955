"""One dump in one child process: this runs in a thread of this process or on a Dask worker, and needs no file but those it is given."""
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.S)
# Exit codes of the command with which a report is written.
_DONE, _OVER_BUDGET = 0, 4
_KINDS = {1: "input", 2: "usage", 3: "internal"}


@dataclass(frozen=True)
class Task:
    """What to run: files by name (a path, or the bytes where no file system is shared), the one to read, and the settings."""

    key: str
    files: tuple[tuple[str, str | bytes], ...]
    given: str
    settings: tuple[str, ...]
    limit: float
    with_sarif: bool = False


@dataclass(frozen=True)
class Result:
    """What came of it: the report's page and data, or what kind of error with which sentence (`time` is one that another run may not have)."""

    key: str
    page: str | None = None
    report: dict | None = None
    is_over_budget: bool = False
    sarif: str | None = None
    kind: str | None = None
    message: str | None = None


def look(task: Task) -> Result:
    """Runs the tool on a dump. Whatever goes wrong is a result."""
    try:
        with tempfile.TemporaryDirectory(prefix="hlo-opt-fleet-") as folder:
            return _look(task, Path(folder))
    except subprocess.TimeoutExpired:
        return Result(task.key, kind="time", message=f"no answer within {task.limit:g} s")
    except OSError as error:
        return Result(task.key, kind="input", message=f"{error.strerror or error}")


def _look(task: Task, folder: Path) -> Result:
    inside = folder / "dump"
    inside.mkdir()
    for name, content in task.files:
        if isinstance(content, bytes):
            (inside / name).write_bytes(content)
        else:
            _link(inside / name, content)
    code, said = _run(task, folder, "report.html")
    if code not in (_DONE, _OVER_BUDGET):
        return Result(task.key, kind=_KINDS.get(code, "crash"), message=_sentence(said, code))
    page = (folder / "report.html").read_text(encoding="utf-8")
    if task.with_sarif:
        _run(task, folder, "report.sarif")
    sarif = (folder / "report.sarif").read_text(encoding="utf-8").replace(f"file://{folder}/", "") if task.with_sarif else None
    return Result(task.key, page, json.loads(_DATA.search(page)[1]), code == _OVER_BUDGET, sarif)


def _link(place: Path, content: str) -> None:
    """The file at another place; a copy where the system has no links."""
    try:
        place.symlink_to(content)
    except (OSError, NotImplementedError):
        shutil.copyfile(content, place)


def _run(task: Task, folder: Path, report: str) -> tuple[int, str]:
    """The exit code of the command and what it said; a command without an answer in time is ended with all that it started."""
    command = [sys.executable, "-P", "-m", "hlo_opt", "--quiet", "--error-format=json", *task.settings, "--report", report,
               "--output", "rewritten.hlo", task.given]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, errors="replace", start_new_session=True)
    running.add(process)
    try:
        _, said = process.communicate(timeout=task.limit)
    except BaseException:
        end(process)
        raise
    finally:
        running.discard(process)
    return process.returncode, said


# The commands that run now, so that an interrupted run leaves none behind.
running: set[subprocess.Popen] = set()


def end(process: subprocess.Popen) -> None:
    """Ends a command and what it started."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.kill()
    process.wait()


def _sentence(said: str, code: int) -> str:
    """The first error, in one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("level") == "error":
            place = f"line {found['line']}: " if found.get("line") else ""
            return place + found["message"].replace("`dump/", "`")
    if code < 0:
        return f"the command was ended by signal {-code}"
    said_first = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[-1] if lines else "")
    return said_first or f"the command ended with exit code {code}"
