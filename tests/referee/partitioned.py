"""Runs modules of several devices on one machine's processor: the same data for both, results device by device, interleaved times.

    partitioned.py BEFORE AFTER [--cases N] [--reps N]       prints one JSON object

The referee's ordinary jobs run modules of one device; these take any number, up to the devices that XLA:CPU is told to pretend.
"""
import argparse
import json
import os
import statistics
import sys
import time

import numpy as np

sys.dont_write_bytecode = True

import cases  # noqa: E402
import child  # noqa: E402
import compare  # noqa: E402
import jobs  # noqa: E402
import random_loop_judge  # noqa: E402
import xla  # noqa: E402


class Runner:
    """One compiled module; every argument lies across the devices as the module wants it."""

    def __init__(self, jax, text, partitions):
        self.jax = jax
        self.executable, shape, _ = xla.compile_text(jax, text, partitions, row_major=True)
        self.shapes = list(shape.parameter_shapes())
        devices = jax.devices()[:partitions]
        if partitions == 1:
            self.places = devices * len(self.shapes)
            return
        from jax._src.lib import xla_client
        from jax._src.sharding_impls import GSPMDSharding
        wanted = self.executable.get_parameter_shardings()
        if wanted is None:
            raise ValueError("XLA says nothing about how the arguments lie across the devices")
        self.places = [GSPMDSharding(devices, xla_client.HloSharding.from_proto(sharding)) for sharding in wanted]

    def launch(self, data):
        """Results of every device, one after the other; wall and processor seconds of the run."""
        buffers = [self.jax.device_put(np.array(array, copy=True), place) for array, place in zip(data, self.places)]
        self.jax.block_until_ready(buffers)
        wall, busy = time.perf_counter(), time.process_time()
        outputs = self.executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        for shards in outputs:
            self.jax.block_until_ready(shards)
        times = time.perf_counter() - wall, time.process_time() - busy
        return [np.array(shard) for shards in outputs for shard in shards], times


def pair(before, after):
    texts = [jobs.read(file) for file in (before, after)]
    partitions = max(map(xla.partitions_of, texts))
    jax = xla.start(devices=partitions)
    # 64-bit parameters would lose half their bits on their way to the devices.
    jax.config.update("jax_enable_x64", True)
    return [Runner(jax, text, partitions) for text in texts], texts[0]


def judge(before, after, count, reps, scale=1.0, seed=0):
    """Equality on `count` data sets, then interleaved times on the first: medians of both sides and their ratios."""
    runners, text = pair(before, after)
    answer = {"bitwise": True, "numbers_equal": True, "max_rel_error": 0.0}
    for case in range(count):
        data = scaled(cases.inputs(runners[0].shapes, text, case, seed), scale)
        left, right = (runner.launch(data)[0] for runner in runners)
        found = compare.compare(left, right)
        answer["bitwise"] &= found["bitwise"]
        answer["max_rel_error"] = max(answer["max_rel_error"], found["max_rel_error"])
        answer["numbers_equal"] &= all(map(random_loop_judge.numbers_equal, left, right))
    data = scaled(cases.inputs(runners[0].shapes, text, 0, seed), scale)
    times = ([], [])
    for rep in range(reps):
        for side in ((0, 1), (1, 0))[rep % 2]:
            times[side].append(runners[side].launch(data)[1])
    for kind, name in enumerate(("wall", "busy")):
        medians = [statistics.median(run[kind] for run in side) for side in times]
        answer[name] = medians
        answer[f"{name}_ratio"] = medians[0] / max(medians[1], 1e-9)
    answer["load"] = os.getloadavg()[0]
    return answer


def scaled(data, scale):
    """The data with smaller floats."""
    return [np.asarray(array * scale).astype(array.dtype) if scale != 1.0 and is_float(array) else array for array in data]


def is_float(array):
    return np.issubdtype(array.dtype, np.inexact) or "float" in array.dtype.name


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--cases", type=int, default=4)
    parser.add_argument("--reps", type=int, default=1)
    options = parser.parse_args()
    xla.import_quietly()
    found = child.run(judge, (options.before, options.after, options.cases, options.reps), time_limit=600.0)
    print(json.dumps(found))
    sys.exit(1 if "error" in found else 0)


if __name__ == "__main__":
    main()
