"""The rows of the scoreboard: programs in the cache and in the corpus, with XLA's totals."""
import dataclasses
import glob
import json
import os
import re

import board_sets

REPORT = ".cpu_after_optimizations-memory-usage-report.txt"
TOTAL = re.compile(r"Total bytes: (\d+)")


@dataclasses.dataclass
class Row:
    """One program: its modules before and after optimizations, XLA's total, ours."""

    name: str
    before: str
    after: str
    xla: int
    predicted: str = ""
    scheduled: str = ""
    origin: str = ""  # the program this one was rewritten from

    @property
    def error(self):
        """Share by which the prediction is too high; infinite when there is none."""
        if not self.before:
            return 0.0
        return int(self.predicted) / max(1, self.xla) - 1 if self.predicted.isdigit() else float("inf")


def collect(jobs, cache, corpus, wanted):
    """All rows, sorted by name; of programs with the same text only the first."""
    rows = [row for job in jobs for row in of_job(job, cache)]
    if wanted is None or "corpus" in wanted:
        rows += of_corpus(corpus)
    seen, kept = set(), []
    for row in sorted(rows, key=lambda row: row.name):
        key = (row.name.split("/")[0], content(row.before), row.name.count("rewritten"))
        if key not in seen:
            seen.add(key)
            kept.append(row)
    return kept


def content(path):
    """The program's text without the module's own name."""
    with open(path, encoding="utf-8") as source:
        return source.read().split(",", 1)[-1]


def of_job(job, cache):
    folder = board_sets.folder_of(cache, job)
    labels = {}
    if os.path.exists(os.path.join(folder, "labels.json")):
        with open(os.path.join(folder, "labels.json"), encoding="utf-8") as source:
            labels = json.load(source)
    for report in sorted(glob.glob(os.path.join(glob.escape(folder), "**", "*" + REPORT), recursive=True)):
        stem = report.removesuffix(REPORT)
        module = os.path.basename(stem)
        found = labels.get(os.path.basename(report).removesuffix("-memory-usage-report.txt"))
        if job.set == "recipes" and not found:
            continue
        parts = [job.set] if job.name.endswith("/all") else [job.name]
        if os.path.dirname(stem) != folder:
            parts.append(os.path.basename(os.path.dirname(stem)))
        label = found or module.split(".", 1)[1]
        with open(report, encoding="utf-8") as source:
            total = sum(int(number) for number in TOTAL.findall(source.read()))
        name = "/".join([*parts, label])
        yield Row(name, stem + ".before_optimizations.txt", stem + ".cpu_after_optimizations.txt", total)


def of_folder(folder, name):
    """The row of a folder with the dumps of one module."""
    for report in sorted(glob.glob(os.path.join(glob.escape(folder), "*" + REPORT)))[-1:]:
        stem = report.removesuffix(REPORT)
        with open(report, encoding="utf-8") as source:
            total = sum(int(number) for number in TOTAL.findall(source.read()))
        yield Row(name, stem + ".before_optimizations.txt", stem + ".cpu_after_optimizations.txt", total)


def of_corpus(corpus):
    for path in sorted(glob.glob(os.path.join(corpus, "*", "*.before.hlo"))):
        stem = path.removesuffix(".before.hlo")
        with open(stem + ".xla.json", encoding="utf-8") as source:
            total = json.load(source)["total_bytes"]
        after = stem + ".after.hlo"
        yield Row("corpus/" + os.path.relpath(stem, corpus), path, after if os.path.exists(after) else "", total)


def pairs(rows):
    """(original, rewritten) programs."""
    by_name = {row.name: row for row in rows}
    for row in rows:
        if row.origin in by_name:
            yield by_name[row.origin], row
        other = row.name.removesuffix(" [rewritten]") + " [as written]"
        if row.name.endswith(" [rewritten]") and other in by_name:
            yield by_name[other], row
