"""The flags adviser: which settings of XLA make a module smaller, alone, together, and on top of our rewrite.

Each setting is compiled in a process of its own. Bytes are the compiler's; times are estimates (roofline.py).
"""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from . import child, jobs, settings, trial
from .settings import Setting

# A setting is advised if it costs no more than this in time by the estimate, which is no better than that.
SLOWER = 1.25
# So many settings are put together, and tried on the rewritten module.
MOST_TOGETHER = 6
# A change below this share of the module is no reason to set a flag, and one below this share of the time is none.
COUNTS = 1e-2
SAME = 1e-3
# The share of the time for single settings; what is left is for settings together and for the rewritten module.
FIRST = 2 / 3
UNCHANGED = Setting(())
NOTHING = "nothing to rewrite"
# What `hlo-opt --budget` ends with where nothing fits: it writes no module then.
OVER_BUDGET = 4
_UNKNOWN = re.compile(r"Unknown flag|No such compile option")
# A program that does not fit, which XLA:TPU refuses: a setting may make it fit.
_TOO_LARGE = re.compile(r"RESOURCE_EXHAUSTED|[Rr]an out of memory")
_BAD_VALUE = re.compile(r"Flag parsing failed|Failed to parse|is not a valid")


@dataclass
class Asked:
    """What to compile: a file for a target, with limits."""

    file: str
    target: str = "cpu"
    machine: dict | None = None
    budget: int | None = None
    time_limit: float = 300.0
    memory_limit: int | None = None
    within: float = 900.0
    progress: object = None


@dataclass
class Adviser:
    """Compiles settings and keeps a row of each."""

    asked: Asked
    rows: list[dict] = field(default_factory=list)
    left: int = 0

    def __post_init__(self):
        self.start = time.monotonic()
        self.deadline = self.start + FIRST * self.asked.within
        self.passes: list[str] = []
        self.reference: dict = {}

    def row(self, setting: Setting, file: str | None = None, passes: bool = False) -> dict:
        """Compiles one setting, of the original or of the rewritten `file`."""
        asked = self.asked
        if asked.progress:
            asked.progress(f"{'rewritten, ' if file else ''}{setting or 'as it is'}")
        found = child.run(trial.trial, (file or asked.file, asked.target, setting.dictionary, asked.machine, passes),
                          time_limit=asked.time_limit, memory_limit=asked.memory_limit)
        self.passes = found.get("passes") or self.passes
        kept = {"setting": setting.dictionary, "rewritten": bool(file), "note": setting.note, "results_may_differ": setting.results}
        if "error" in found:
            kept |= {"error": found["error"], "note": why(found["error"])}
        else:
            kept |= {key: found[key] for key in ("total_bytes", "temp_bytes")} | {"seconds": found["estimate"]["seconds"]}
        return kept

    def tried(self, candidates: list[Setting], file: str | None = None) -> list[tuple[Setting, dict]]:
        """Rows of settings, as many as time allows."""
        found = []
        for number, setting in enumerate(candidates):
            if time.monotonic() > self.deadline:
                self.left += len(candidates) - number
                break
            found.append((setting, self.row(setting, file)))
        self.rows += [row for _, row in found]
        return found

    def together(self, tried: list[tuple[Setting, dict]], base: dict, file: str | None = None):
        """Puts together what helps: the best, then each next one that makes the module smaller still."""
        helping = sorted((pair for pair in tried if self.helps(pair[1], base) and not pair[0].results), key=lambda pair: order(pair[1]))
        if len(helping) < 2:
            return
        best, least = helping[0]
        for setting, _ in helping[1:MOST_TOGETHER]:
            if set(setting.dictionary) & set(best.dictionary) - {settings.DISABLED}:
                continue
            for joined, row in self.tried([best.with_(setting)], file):
                if self.helps(row, least):
                    best, least = joined, row
                else:
                    self.rows.remove(row)

    def helps(self, row: dict, base: dict) -> bool:
        """Whether a row is smaller than another, by enough to count, and not much slower than the original."""
        if "error" in row:
            return False
        return "error" in base or (saves(row, base) and self.is_quick(row))

    def is_quick(self, row: dict) -> bool:
        return row["seconds"] <= SLOWER * self.reference.get("seconds", float("inf"))

    def best(self, rewritten: bool) -> dict | None:
        """The row to advise: the fastest that fits the budget, else the smallest that is not much slower. Rows that may change results are left to the reader."""
        rows = [row for row in self.rows if row["rewritten"] == rewritten and "error" not in row and not row["results_may_differ"]]
        fitting = [row for row in rows if self.asked.budget and row["total_bytes"] <= self.asked.budget]
        if fitting:
            return min(fitting, key=lambda row: (row["seconds"], len(row["setting"]), row["total_bytes"]))
        plain = next((row for row in rows if not row["setting"]), None)
        worth = [row for row in rows if plain is None or row is plain or saves(row, plain)]
        return min((row for row in worth if self.is_quick(row)), key=order, default=plain)


def saves(row: dict, base: dict) -> bool:
    """Whether a row is smaller by enough to count."""
    return row["total_bytes"] < base["total_bytes"] * (1 - COUNTS)


def order(row: dict):
    return row["total_bytes"], row["seconds"], len(row["setting"])


def why(error: str) -> str:
    """The note of a setting that gave no module."""
    if _UNKNOWN.search(error):
        return "unknown to this jaxlib"
    if _BAD_VALUE.search(error):
        return "this jaxlib does not take the value"
    if error.startswith("time limit"):
        return error
    return "compiler error: " + error.strip().splitlines()[0][:120]


def advise(asked: Asked) -> dict:
    """Rows, the smallest first behind the unchanged setting; what had no effect; what to set, for the module as it is and rewritten."""
    adviser = Adviser(asked)
    adviser.reference = reference = adviser.row(UNCHANGED, passes=True)
    if "error" in reference and not _TOO_LARGE.search(reference["error"]):
        return {"file": asked.file, "error": reference["error"]}
    adviser.rows.append(reference)
    limits = [] if "error" in reference else settings.limits(asked.target, reference["total_bytes"], reference["temp_bytes"])
    candidates = [*limits, *settings.of(asked.target, jobs.read(asked.file)), *settings.without(adviser.passes)]
    tried = adviser.tried(candidates)
    adviser.deadline = adviser.start + asked.within
    adviser.together(tried, reference)
    rewrite = on_rewritten(adviser, tried)
    return {"file": asked.file, "target": asked.target, **rewrite, **sorted_out(adviser)}


def on_rewritten(adviser: Adviser, tried: list[tuple[Setting, dict]]) -> dict:
    """The rewritten module, with and without what helped the original."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rewritten.hlo")
        made = child.run(rewritten, (adviser.asked.file, adviser.asked.target, file, adviser.asked.budget), time_limit=adviser.asked.time_limit)
        if "error" in made:
            return {"rewrite": made["error"]}
        plain = adviser.row(UNCHANGED, file)
        adviser.rows.append(plain)
        moving = sorted((pair for pair in tried if "error" not in pair[1] and is_smaller(pair[1], adviser.reference)), key=lambda pair: order(pair[1]))
        again = adviser.tried([setting for setting, _ in moving[:MOST_TOGETHER]], file)
        adviser.together(again, plain, file)
    return {"rewrite": None}


def rewritten(file: str, target: str, output: str, budget: int | None) -> dict:
    """Writes our optimizer's form of a module, by the library or, where that is not installed, by the command."""
    try:
        from .. import calls
    except ImportError:
        return by_command(file, target, output, budget)
    found = calls.optimize(jobs.read(file), target=target, budget=budget)
    with open(output, "w", encoding="utf-8") as out:
        out.write(found.text)
    return {} if found.report.rewrites else {"error": NOTHING}


def by_command(file: str, target: str, output: str, budget: int | None) -> dict:
    tool, report = shutil.which("hlo-opt"), output + ".json"
    if not tool:
        return {"error": "hlo-opt is not installed"}
    command = [tool, file, "-o", output, "--target", target, "--report", report, *(["--budget", str(budget)] if budget else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == OVER_BUDGET:
        return {"error": "no form fits the budget by the model"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["hlo-opt failed"])[-1]}
    with open(report, encoding="utf-8") as found:
        return {} if json.load(found)["rewrites"] else {"error": NOTHING}


def is_smaller(row: dict, base: dict) -> bool:
    return "error" in base or saves(row, base)


def moves(row: dict, base: dict) -> bool:
    return "error" in base or row["total_bytes"] != base["total_bytes"]


def sorted_out(adviser: Adviser) -> dict:
    """The unchanged setting first, then rows by bytes, then those without a module; settings without effect only by name."""
    reference, others = adviser.rows[0], adviser.rows[1:]
    bases = {False: reference, True: next((row for row in others if row["rewritten"]), reference)}
    idle = [row for row in others if row["setting"] and "error" not in row and not moves(row, bases[row["rewritten"]])
            and abs(row["seconds"] - bases[row["rewritten"]]["seconds"]) <= SAME * row["seconds"]]
    shown = [row for row in others if not any(row is one for one in idle)]
    ranked = sorted((row for row in shown if "error" not in row), key=order)
    return {"rows": [reference, *ranked, *(row for row in shown if "error" in row)], "without_effect": [row["setting"] for row in idle if not row["rewritten"]],
            "not_tried": adviser.left, "advice": adviser.best(False), "advice_rewritten": adviser.best(True)}


def of_text(text: str, target: str) -> list[dict]:
    """The rows of a module's text. In a process of its own, so that the caller's devices and threads do not matter."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "module.hlo")
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        command = [sys.executable, "-m", "hlo_opt.xla", "advise", file, "--target", target, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout) if done.stdout else {"error": done.stderr.strip()}
    if "error" in found:
        raise RuntimeError(found["error"])
    return found["rows"]
