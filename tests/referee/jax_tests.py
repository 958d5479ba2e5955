"""Runs a sample of JAX's own tests twice, as they are and with every program that they compile rewritten, and lists the failures that are new.

    git clone --depth 1 -b jax-v0.10.2 <the repository of JAX> SOURCES
    python tests/referee/jax_tests.py SOURCES [--each 30] [--files REGEX] [--seed 1] [--settings at_least=0,...] [--keep FOLDER]

SOURCES are the sources of the JAX that is installed, of which only `tests/` is used; they are no part of this repository. Needs the installed package and
the packages of `tests/referee/jax_tests.txt` in one environment. Of each file of tests the sample has at most `--each`, chosen by a digest of name and seed.
Settings are those of `HLO_OPT` (docs/python.md). A test that ends its process or has no answer in time counts as a failure, and the next one goes on in a new
process. Results are kept in a folder (`--keep`), so that an interrupted run goes on where it was. Exit code 1 if a failure is new.
"""
import argparse
import collections
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# Files whose tests compile programs; the others are about tracing, logging, profiling, packaging and devices that are not here, or need a part of JAX that its
# wheel lacks (state).
FILES = (
    "ann|aot|api|array|batching|buffer_callback|checkify|cholesky_update|control_deps|core|custom_.*|debug_info|debug_nans|debugging_primitives|eigh|error_check"
    "|experimental_rnn|export|fft|fused|generated_fun|hijax|image|jaxpr_effects|jet|key_reuse|lax.*|layout|linalg.*|lobpcg|memories|multi_device|mutable_array|nn|ode"
    "|optimizers|pjit|pmap|polynomial|python_callback|qdwh|ragged_collective|random.*|scaled_dot|scipy_.*|shape_poly|shard_alike|shard_map|sparse.*|sparsify|stack"
    "|stateful_rng|stax|svd|unary_ops_accuracy|x64_context|xla_metadata")
SETTINGS = "at_least=0,min_saving=1,chunk_bytes=4096,judge=model,summary=0"
# A test of a sample that takes longer is taken for one that hangs.
LIMIT = 300


# What pytest calls in the processes that run the tests (`-p jax_tests`).

def pytest_configure():
    """Installs the tool, if it is this run's turn."""
    settings = os.environ.get("JAX_TESTS_SETTINGS")
    if settings:
        from hlo_opt import startup
        startup.start(settings.split(","))
        # Some tests make errors of all warnings. That a program is left as it is, or does not fit a budget, is none.
        for name, module in list(sys.modules.items()):
            if name.startswith("hlo_opt.") and hasattr(module, "warn"):
                module.warn = lambda *_: None


def pytest_collection_modifyitems(items):
    """Draws the sample, and leaves out what an earlier process did."""
    seed, each, done = os.environ["JAX_TESTS_SEED"], int(os.environ["JAX_TESTS_EACH"]), outcomes(os.environ["JAX_TESTS_LOG"])
    items.sort(key=lambda item: hashlib.sha256(f"{seed} {item.name}".encode()).digest())
    items[:] = [item for item in items[:each] if item.name not in done]


def pytest_runtest_logstart(nodeid):
    note({"begin": nodeid.split("::")[-1]})


def pytest_runtest_logreport(report):
    """The outcome of a test: that of its call, or of what failed or skipped before it."""
    if report.when == "call" or report.outcome != "passed":
        text = "" if report.outcome == "passed" else str(report.longrepr)[-3000:]
        note({"test": report.nodeid.split("::")[-1], "outcome": report.outcome, "text": text, "seconds": round(report.duration, 1)})


def pytest_sessionfinish():
    """Says how many programs were looked at, and what became of them."""
    if os.environ.get("JAX_TESTS_SETTINGS"):
        import hlo_opt
        reports = hlo_opt.reports()
        note({"kept": dict(collections.Counter(report.kept for report in reports)),
              "reasons": dict(collections.Counter(report.reason for report in reports if report.kept == "fallback"))})


def note(line):
    with open(os.environ["JAX_TESTS_LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


# The run.

def main():
    options = arguments()
    for package in ("jax", "hlo_opt", "pytest", "absl", "hypothesis"):
        if importlib.util.find_spec(package) is None:
            sys.exit(f"jax_tests: {sys.executable} has no package `{package}`: install the wheel and the packages of tests/referee/jax_tests.txt")
    tests = options.sources / "tests"
    names = [name for name in sorted(path.name for path in tests.glob("*_test.py")) if re.fullmatch(options.files, name.removesuffix("_test.py"))]
    if not names:
        sys.exit(f"jax_tests: `{tests}` has no tests that match: is this a folder of JAX's sources?")
    with tempfile.TemporaryDirectory() as temporary:
        keep = options.keep or pathlib.Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        rows = []
        for name in names:
            rows.append(row(options, tests / name, keep))
            print(line(*rows[-1]), flush=True)
    return verdict(rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sources", type=pathlib.Path, metavar="SOURCES")
    parser.add_argument("--each", type=int, default=30, help="at most so many tests of a file")
    parser.add_argument("--files", default=FILES, metavar="REGEX", help="names of files, without _test.py")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--settings", default=SETTINGS)
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    return parser.parse_args()


def row(options, file, keep):
    """The name of a file of tests, and what both runs of it said."""
    logs = [run(options, file, keep / f"{file.stem}.{how}.jsonl", settings) for how, settings in (("plain", ""), ("rewritten", options.settings))]
    return file.stem, outcomes(logs[0]), outcomes(logs[1]), totals(logs[1])


def run(options, file, log, settings):
    """Runs the sample of a file until every test has an outcome; gives the log."""
    while not ended(log):
        before = len(outcomes(log))
        code = process(options, file, log, settings)
        lines = entries(log)
        if code in (0, 1, 5):
            add(log, {"ended": code})
        elif lines and "begin" in lines[-1]:
            how = "without an answer" if code is None else f"ended its process ({code})"
            add(log, {"test": lines[-1]["begin"], "outcome": "failed", "text": how})
        elif len(outcomes(log)) == before:
            add(log, {"ended": code})
            print(f"jax_tests: {file.name} cannot be run ({code})", file=sys.stderr)
    return log


def process(options, file, log, settings):
    """The exit code of a process of pytest; None if a test of it had no answer in time."""
    here = str(pathlib.Path(__file__).resolve().parent)
    environment = os.environ | {
        "JAX_TESTS_SETTINGS": settings, "JAX_TESTS_SEED": options.seed, "JAX_TESTS_EACH": str(options.each), "JAX_TESTS_LOG": str(log.resolve()),
        "JAX_PLATFORMS": "cpu", "JAX_ENABLE_CHECKS": "0", "JAX_SKIP_SLOW_TESTS": "1", "PYTHONDONTWRITEBYTECODE": "1",
        # Behind the package and what the tests import: no file here may stand for one of theirs.
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), here])),
    }
    environment.pop("HLO_OPT", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "jax_tests", "-p", "no:cacheprovider", str(file.resolve())]
    with subprocess.Popen(command, cwd=options.sources, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        began = time.time()
        while True:
            try:
                return child.wait(timeout=1)
            except subprocess.TimeoutExpired:
                if time.time() - max(began, log.stat().st_mtime if log.exists() else 0) > LIMIT:
                    child.kill()
                    child.wait()
                    return None


def entries(log):
    path = pathlib.Path(log)
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def outcomes(log):
    """Outcome and text by the name of the test; of a test that passed and then failed to clean up, the failure."""
    return {entry["test"]: (entry["outcome"], entry["text"]) for entry in entries(log) if "test" in entry}


def totals(log):
    kept, reasons = collections.Counter(), collections.Counter()
    for entry in entries(log):
        kept.update(entry.get("kept", {}))
        reasons.update(entry.get("reasons", {}))
    return kept, reasons


def ended(log):
    return any("ended" in entry for entry in entries(log))


def add(log, entry):
    with open(log, "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def new_failures(plain, rewritten):
    """Tests that fail only when rewritten, or are skipped only then."""
    return [name for name, (outcome, _) in plain.items() if outcome == "passed" and rewritten.get(name, ("missing", ""))[0] != "passed"]


def line(name, plain, rewritten, counted):
    kept, _ = counted
    count = collections.Counter(outcome for outcome, _ in plain.values())
    return (f"{name:40} {count['passed']:4} passed, {count['failed']:3} failed, {count['skipped']:3} skipped; {sum(kept.values()):5} programs, "
            f"{kept['rewritten']:4} rewritten, {kept['fallback']:3} fallbacks; {len(new_failures(plain, rewritten))} new failures")


def verdict(rows):
    """Prints new failures with what was said, and sums; gives the exit code."""
    new = [(name, test, rewritten.get(test, ("missing", "no outcome"))) for name, plain, rewritten, _ in rows for test in new_failures(plain, rewritten)]
    for name, test, (outcome, text) in new:
        print(f"\nNEW {name}::{test}: {outcome}\n{text}")
    kept, reasons = collections.Counter(), collections.Counter()
    for *_, counted in rows:
        kept.update(counted[0])
        reasons.update(counted[1])
    count = collections.Counter(outcome for _, plain, _, _ in rows for outcome, _ in plain.values())
    for reason, times in reasons.most_common():
        print(f"fallback, {times} times: {reason}")
    print(f"\n{len(rows)} files, {sum(count.values())} tests: {count['passed']} pass as they are, {count['failed']} fail, {count['skipped']} are skipped. "
          f"{sum(kept.values())} programs: {', '.join(f'{times} {how}' for how, times in sorted(kept.items()))}. {len(new)} new failures.")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
