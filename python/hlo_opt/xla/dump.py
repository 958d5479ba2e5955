"""Runs a program of the user with XLA's dumps switched on and lists the modules it compiled, largest first."""
import os
import re
import resource
import subprocess
import sys

BEFORE, REPORT = ".before_optimizations.txt", "memory-usage-report.txt"


def run(script, arguments, folder, pattern, time_limit, memory_limit):
    """{"modules": [{"file", "total_bytes"}]}; {"error"} if the program fails. What it prints goes to standard error."""
    if not os.path.isfile(script):
        return {"script": script, "error": f"there is no program {script}"}
    os.makedirs(folder, exist_ok=True)
    flags = f"--xla_dump_to={os.path.abspath(folder)} --xla_dump_hlo_as_text --xla_dump_large_constants=true"
    environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
    limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))) if memory_limit else None
    try:
        done = subprocess.run([sys.executable, script, *arguments], env=environment, timeout=time_limit, stdout=sys.stderr, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return {"script": script, "error": f"time limit of {time_limit:g} s passed"}
    if done.returncode:
        return {"script": script, "error": f"the program ended with exit code {done.returncode}"}
    return {"script": script, "modules": modules(folder, pattern)}


def modules(folder, pattern):
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(BEFORE) and re.search(pattern, name):
            found.append({"file": os.path.join(folder, name), "total_bytes": total(folder, name.removesuffix(BEFORE))})
    return sorted(found, key=lambda entry: -entry["total_bytes"])


def total(folder, stem):
    """What XLA's report of this module says; 0 for a target that writes none."""
    for name in sorted(os.listdir(folder)):
        if name.startswith(stem + ".") and name.endswith(REPORT):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                match = re.search(r"Total bytes: (\d+)", file.read())
            if match:
                return int(match[1])
    return 0
