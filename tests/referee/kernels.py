"""Where the run time of modules goes: milliseconds of each kernel of XLA:CPU, from its own profiler.

    kernels.py FILE... [--top N] [--seed S]

Names are those of the scheduled module that `referee.py peak FILE --dump DIR` keeps. Kernels that run side by side count each, so that their sum
can be more than the run takes.
"""
import argparse
import collections
import glob
import gzip
import json
import sys
import tempfile

sys.dont_write_bytecode = True

import xla  # noqa: E402, F401 - makes the package importable
from hlo_opt.xla import cases, compiler, jobs  # noqa: E402


def main():
    options = arguments()
    jax = compiler.start()
    jax.config.update("jax_enable_x64", True)
    for file in options.files:
        seconds, kernels = profiled(jax, file, options.seed)
        print(f"{file}: {seconds * 1e3:.1f} ms")
        for name, (spent, count) in sorted(kernels.items(), key=lambda row: -row[1][0])[:options.top]:
            print(f"{spent / 1e3:>12.2f} ms {count:>7} x  {name}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--top", type=int, default=12, help="most kernels of a module")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def profiled(jax, file, seed):
    """Seconds of one run on random data, and microseconds and number of runs of each kernel."""
    text = jobs.read(file)
    runner = jobs.Runner(jax, text, file)
    data = cases.inputs(runner.shapes, text, 0, seed)
    runner.timed(data)  # the first run pays for page faults
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            seconds = runner.timed(data)
        trace = glob.glob(folder + "/**/*.trace.json.gz", recursive=True)[0]
        with gzip.open(trace) as source:
            events = json.load(source)["traceEvents"]
    kernels = collections.defaultdict(lambda: (0, 0))
    for event in events:
        if "hlo_op" in event.get("args", {}):
            spent, count = kernels[event["name"]]
            kernels[event["name"]] = (spent + event["dur"], count + 1)
    return seconds, kernels


if __name__ == "__main__":
    main()
