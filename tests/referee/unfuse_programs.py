"""Compiles JAX programs, takes what XLA made of them apart again, and lets XLA run both forms on data.

    cargo build --release
    python tests/referee/unfuse_programs.py target/release/hlo-opt FOLDER... [--keep DIR] [--files PATTERN]

FOLDER holds programs of public issues (user_programs.py says in which form), which are compiled at a reduced size, or modules NAME.after.hlo
with NAME.before.hlo beside them. Printed is every module that is refused, with its reason, that XLA does not take, or whose results differ;
then the counts. A program that is itself far from its results in double precision tells nothing (`noise`). Exit code 1: there are modules of the last two kinds.
"""
import argparse
import collections
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import user_programs  # noqa: E402
import xla  # noqa: E402, F401: finds the package in the sources

from hlo_opt.xla import service, truth  # noqa: E402

LIMIT = 4000


def main():
    options = arguments()
    counts, bad = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        modules = [module for place in options.folders for module in found(pathlib.Path(place), folder, options.files)]
        import hlo_opt.xla.compiler as compiler
        compiler.import_quietly()
        for name, before, after in modules:
            outcome, detail = judged(options.tool, before, after, folder / f"{name}.plain.hlo")
            counts[outcome] += 1
            bad += outcome in ("not taken by XLA", "DIFFERENT")
            if outcome not in ("same bits", "within tolerance"):
                print(f"{name}: {outcome}: {detail}", flush=True)
    if not counts:
        sys.exit("no modules found: nothing was checked")
    print(f"{sum(counts.values())} modules: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    sys.exit(bad > 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tool", help="the command hlo-opt")
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--keep", metavar="DIR", help="keep all modules there")
    parser.add_argument("--files", default=".", metavar="PATTERN", help="program files to take")
    return parser.parse_args()


def found(place, keep, pattern):
    """(name, before, after) of every module of a folder."""
    pairs = sorted(place.glob("*.after.hlo"))
    if pairs:
        return [(f"{place.name}-{after.name.removesuffix('.after.hlo')}", pathlib.Path(str(after).replace(".after.", ".before.")), after)
                for after in pairs]
    for path in user_programs.files(place, pattern):
        for flags in user_programs.flags_of(path):
            child(path, flags, keep)
    afters = sorted(keep.glob("*.after.hlo"))
    return [(after.name.removesuffix(".after.hlo"), keep / after.name.replace(".after.", ".before."), after) for after in afters]


def child(path, flags, keep):
    """Compiles the programs of one file in a process of its own."""
    command = [sys.executable, __file__, "--one", str(path), flags, str(keep)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        print(f"{path.name} {flags}: ended: {(done.stderr.strip().splitlines() or ['?'])[-1][:160]}", flush=True)


def one(path, flags, keep):
    dumps = tempfile.mkdtemp(prefix="hlo-dumps-")
    os.environ["XLA_FLAGS"] = f"--xla_dump_to={dumps} --xla_dump_hlo_as_text --xla_dump_large_constants=true {flags}"
    os.environ["JAX_PLATFORMS"], os.environ["TF_CPP_MIN_LOG_LEVEL"] = "cpu", "3"
    for case in user_programs.cases(path, flags):
        name = re.sub(r"\W+", "-", f"{case.program}-{case.name}").strip("-")
        try:
            compiled(case, dumps, keep / name)
        except Exception as error:  # noqa: BLE001: one program must not end the list
            print(f"{name}: has no reduced size: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)
    shutil.rmtree(dumps)


def compiled(case, dumps, target):
    import jax
    function, shapes = case.small() if case.small else (case.function, case.shapes)
    jitted = function if hasattr(function, "lower") else jax.jit(function, **case.given)
    jitted.lower(*shapes, **case.keywords).compile()
    for ending, source in (("before", "before_optimizations.txt"), ("after", "cpu_after_optimizations.txt")):
        newest = max(glob.glob(f"{dumps}/*{source}"), key=os.path.getmtime)
        shutil.copy(newest, f"{target}.{ending}.hlo")
    for entry in glob.glob(f"{dumps}/*"):
        (shutil.rmtree if os.path.isdir(entry) else os.remove)(entry)


def judged(tool, before, after, plain):
    """What became of one module, and a sentence about it."""
    report = plain.with_suffix(".json")
    command = [tool, "-q", "--passes=unfuse", "--report", report, "-o", plain, after]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        return "failed", done.stderr.strip()
    told = json.loads(report.read_text())
    if not told["rewrites"]:
        remark = next(remark for remark in told["remarks"] if remark["pass"] == "unfuse")
        return f"refused as {remark['code']}", remark["message"]
    answer = service.answer({"cmd": "same", "before": str(before), "after": str(plain), "cases": 3, "time_limit": LIMIT})
    if "error" in answer:
        peak = service.answer({"cmd": "peak", "file": str(plain)})
        return ("not taken by XLA" if "error" in peak else "taken by XLA but not run"), answer["error"]
    if answer["bitwise"]:
        return "same bits", ""
    if not answer["tolerated"] and answer["own_error"] > truth.MEANINGLESS:
        return "noise", f"the program itself is {answer['own_error']:.2g} off its double-precision results on this data"
    near = answer["tolerated"] or answer["as_near_the_truth"]
    return ("within tolerance" if near else "DIFFERENT"), json.dumps(answer)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(pathlib.Path(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4]))
    else:
        main()
