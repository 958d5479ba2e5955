"""What the optimizer makes of the programs of the scoreboard, as a set of its own: how predictions hold for rewritten programs."""
import concurrent.futures
import hashlib
import json
import os
import subprocess
import tempfile

import board_rows
import board_sets
from as_large import as_large

SOURCES = ("patterns", "recipes", "corpus", "random")
TOOL_LIMIT = 120
JOB = "rewritten/all"


def prepare(rows, tool, cache, parallel):
    """Rewrite every program of the sources; returns the job that compiles what came out."""
    folder = os.path.join(cache, JOB)
    os.makedirs(os.path.join(folder, "texts"), exist_ok=True)
    chosen = [row for row in rows if row.before and row.name.split("/")[0] in SOURCES]
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        names = list(pool.map(lambda row: rewrite(row, tool, folder), chosen))
    origins = {name: row.name for name, row in zip(names, chosen) if name}
    with open(os.path.join(folder, "origins.json"), "w", encoding="utf-8") as out:
        json.dump(origins, out, indent=1)
    return board_sets.Job(JOB, ["texts"])


def rewrite(row, tool, folder):
    """Name of the rewritten text, or nothing if the tool leaves the program alone."""
    with tempfile.TemporaryDirectory() as scratch:
        result, report = os.path.join(scratch, "out.hlo"), os.path.join(scratch, "out.json")
        command = [tool, "-q", *as_large(), row.before, "-o", result, "--report", report]
        try:
            done = subprocess.run(command, capture_output=True, timeout=TOOL_LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return ""
        if done.returncode or not os.path.exists(result):
            return ""
        with open(report, encoding="utf-8") as source:
            if not json.load(source)["rewrites"]:
                return ""
        with open(result, encoding="utf-8") as source:
            text = source.read()
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = os.path.join(folder, "texts", name + ".hlo")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
    return name


def collect(cache):
    """Rows of the rewritten programs that XLA compiled."""
    folder = os.path.join(cache, JOB)
    if not os.path.exists(os.path.join(folder, "origins.json")):
        return
    with open(os.path.join(folder, "origins.json"), encoding="utf-8") as source:
        origins = json.load(source)
    for name, origin in origins.items():
        for row in board_rows.of_folder(os.path.join(folder, name), "rewritten/" + origin):
            row.origin = origin
            yield row
