"""The sets of programs of the scoreboard: which child processes make XLA compile them, and their dumps in the cache."""
import concurrent.futures
import dataclasses
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CHILD = os.path.join(HERE, "board_child.py")
# Seeds of assignment.py's random programs, a hundred each: square shapes (mode 0) and odd ones (mode 1).
FUZZ = [(seed, mode) for seed in (101, 102, 103, 104) for mode in (0, 1)] + [(105, 0), (105, 1), (106, 0)]
# Seeds of this repository's own random programs: first seed, count.
RANDOM = [(first, 50) for first in range(0, 300, 50)]
TIME_LIMIT = 4000
NAMES = ("assignment", "fuzz", "big", "collectives", "patterns", "recipes", "random")


@dataclasses.dataclass
class Job:
    """One child process; its dumps go to a folder of the same name below the cache."""

    name: str
    arguments: list

    @property
    def set(self):
        return self.name.split("/")[0]


def jobs(shared, wanted=None):
    """All jobs of the wanted sets."""
    found = []
    if shared and os.path.isdir(shared):
        found += shared_jobs(shared)
    else:
        print("no folder of shared programs: their sets are left out", file=sys.stderr)
    found += [Job(f"random/{first}", ["random", str(first), str(count)]) for first, count in RANDOM]
    return [job for job in found if wanted is None or job.set in wanted]


def shared_jobs(shared):
    script = os.path.join(shared, "assignment.py")
    yield Job("assignment/all", ["script", script, "FOLDER"])
    yield Job("big/all", ["script", script, "FOLDER", "--big"])
    yield Job("collectives/all", ["script", script, "FOLDER", "--collectives"])
    yield Job("patterns/all", ["patterns", os.path.join(shared, "patterns.py")])
    for path in sorted(glob.glob(os.path.join(shared, "r[0-9][0-9]_*.py"))):
        yield Job(f"recipes/{os.path.basename(path)[:3]}", ["recipes", path])
    for seed, mode in FUZZ:
        yield Job(f"fuzz/{mode}-{seed}", ["script", script, "FOLDER", "--fuzz", "100", str(seed), str(mode)])


def compile_all(jobs, cache, parallel):
    """Run the jobs whose folders are not whole yet."""
    waiting = [job for job in jobs if not os.path.exists(done_mark(cache, job))]
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        for job, trouble in zip(waiting, pool.map(lambda job: run(job, cache), waiting)):
            print(f"compiled {job.name}{trouble}", file=sys.stderr, flush=True)


def folder_of(cache, job):
    return os.path.join(cache, job.name)


def done_mark(cache, job):
    return os.path.join(folder_of(cache, job), "done")


def run(job, cache):
    """One child with an empty folder; says what went wrong."""
    shutil.rmtree(folder_of(cache, job), ignore_errors=True)
    os.makedirs(folder_of(cache, job))
    return compile_one(job, cache)


def compile_one(job, cache):
    """One child; says what went wrong."""
    folder = folder_of(cache, job)
    arguments = [folder if argument == "FOLDER" else argument for argument in job.arguments]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", "BOARD_FOLDER": folder}
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        try:
            code = subprocess.run([sys.executable, CHILD, *arguments], stdout=log, stderr=log, env=environment,
                                  timeout=TIME_LIMIT, check=False).returncode
        except subprocess.TimeoutExpired:
            return f": more than {TIME_LIMIT} s"
    # Only these dumps are read later; a program of many passes leaves many others.
    for path in glob.glob(os.path.join(folder, "**", "module_*"), recursive=True):
        if not path.endswith(("before_optimizations.txt", "cpu_after_optimizations.txt", "assignment.txt",
                              "usage-report.txt", "live-range.txt")) and os.path.isfile(path):
            os.remove(path)
    with open(done_mark(cache, job), "w", encoding="utf-8") as out:
        out.write(f"{code}\n")
    return f": exit code {code}, see {folder}/log" if code else ""
