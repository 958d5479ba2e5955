"""A program of a framework as written and rewritten: bytes by the reports that the XLA inside the framework writes, and results."""
import json
import os
import pathlib
import re
import subprocess
import sys

TOTAL = re.compile(r"^Total bytes(?: used)?: (\d+)", re.M)


def into(folder):
    """Before the framework is imported: has its XLA write what it compiles."""
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_large_constants=true"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()


def listed(folder):
    """The reports of memory in the folder now."""
    return set(pathlib.Path(folder).glob("*memory-usage-report.txt"))


def of(report):
    return int(TOTAL.search(report.read_text())[1])


def largest(reports):
    """The most bytes of a program that one of the reports is about."""
    return max(map(of, reports))


def analyzed(folder, report):
    """What the command makes of the dump of the program that a report is about: peak as written, and of the best form found."""
    module = re.sub(r"\.[^.]*after_optimizations-memory-usage-report\.txt$", "", report.name)
    command = [sys.executable, "-m", "hlo_opt", "-q", str(folder), "--module", f"^{re.escape(module)}$",
               "-o", str(folder / "rewritten.hlo"), "--report", str(folder / "report.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the dump is not read: {done.stderr}")
    data = json.loads((folder / "report.json").read_text())
    return [data["before"]["total_bytes"], data["after"]["total_bytes"]]


def compared(folder, version, before, plain, given, run):
    """A program's bytes as written, and for two grades bytes and results when `run` runs what the tool makes of `given`."""
    import hlo_opt
    forms = []
    for exactness in ("hlo-exact", "reassociate"):
        found = hlo_opt.optimize(given, exactness=exactness)
        earlier = listed(folder)
        results = run(found)
        # A form that is the one before is not compiled again.
        new = listed(folder) - earlier
        forms.append({"bytes": largest(new) if new else forms[-1]["bytes"], "difference": max(difference(one, other) for one, other in zip(plain, results, strict=True)),
                      "rewrites": [done.grade for done in found.report.rewrites],
                      "model": [found.report.before.total_bytes, found.report.after.total_bytes]})
    return {"version": version, "before": of(before), "forms": forms, "dump": analyzed(folder, before)}


def difference(one, other):
    """The largest difference over the largest number; of arrays of other shapes or types, all of it."""
    import numpy as np
    if one.shape != other.shape or one.dtype != other.dtype or not np.isfinite(other).all():
        return float("inf")
    return float(np.abs(one - other).max() / max(np.abs(one).max(), 1e-30))
