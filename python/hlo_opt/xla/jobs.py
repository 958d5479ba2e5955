"""The referee's jobs. Each one runs in its own child process and returns a JSON-ready dictionary."""
import os
import statistics
import tempfile
import time

import numpy as np

from . import cases
from . import compare
from . import compiler as xla
from . import targets
from . import truth

# Run times are measured for so long, within so many runs of each program.
BENCH_SECONDS, BENCH_REPS = 2.0, (7, 101)


def peak(file, dump=None, target="cpu"):
    """The compiler's own byte counts of one module, from shapes: nothing of its size is allocated."""
    text = read(file)
    if target != "cpu":
        return {"file": file, "target": target, "devices": xla.devices_of(text), **targets.byte_counts(text, target)}
    with tempfile.TemporaryDirectory() as dump_dir:
        partitions = xla.partitions_of(text)
        jax = xla.start(dump_dir, partitions)
        executable, _, _ = xla.compile_text(jax, text, partitions)
        answer = {"file": file, "devices": xla.devices_of(text), **xla.byte_counts(executable, dump_dir)}
        if dump:
            answer["dump"] = keep_dump(dump_dir, file, dump)
        return answer


def keep_dump(dump_dir, file, folder):
    """Copy the scheduled after-optimization text next to nothing else, named after the input."""
    os.makedirs(folder, exist_ok=True)
    stem = os.path.basename(file).removesuffix(".hlo").removesuffix(".before")
    target = os.path.join(folder, stem + ".after.hlo")
    with open(target, "w", encoding="utf-8") as out:
        out.write(xla.dumped(dump_dir, "cpu_after_optimizations.txt"))
    return target


def same(before, after, count=3, seed=0):
    """Run two modules on the same data and compare every result. Where they differ by more than the grades allow, double precision judges."""
    runners, text = pair(before, after)
    answer = {"before": before, "after": after, "cases": 0, "bitwise": True, "max_rel_error": 0.0,
              "differing_bytes": 0, "nan_payload_only": False, "first_difference": None, "tolerated": True,
              "as_near_the_truth": True, "own_error": 0.0, "tamed": 0, "undecided": False}
    worst, judge = 0.0, None
    for case in range(count):
        data = cases.inputs(runners[0].shapes, text, case, seed)
        left, right = (runner.results(data) for runner in runners)
        found = compare.compare(left, right)
        worst = max(worst, found["max_rel_error"])
        answer["cases"] += 1
        tolerated = answer["tolerated"] and found["tolerated"]
        if not found["tolerated"]:
            judge = judge or Judge(runners, text, before)
            answer["tamed"] += judge.weigh(data, left, right, found)
        if not found["bitwise"] and answer["bitwise"]:
            found["first_difference"]["case"] = case
            answer.update(found)
        answer["tolerated"] = tolerated
    answer["max_rel_error"] = worst
    if judge:
        verdict = judge.verdict
        answer["as_near_the_truth"], answer["own_error"], answer["undecided"] = verdict.near, verdict.noise, verdict.undecided
    return answer


class Judge:
    """Double precision, asked where two modules differ by more than their grade allows."""

    def __init__(self, runners, text, file):
        self.runners, self.wide = runners, doubled(runners[0].jax, text, file)
        self.verdict = truth.Verdict()

    def weigh(self, data, left, right, found):
        """Judges one data set by its results. True if the original was noise on it and tamer data of the same shapes were taken instead."""
        if self.wide is None or found["max_rel_error"] >= compare.NOT_COMPARABLE:
            self.verdict.refuse()
            return False
        if self.verdict.weigh(truth.results(self.wide, data), left, right):
            return False
        data = [cases.tamed(array) for array in data]
        left, right = (runner.results(data) for runner in self.runners)
        comparable = compare.compare(left, right)["max_rel_error"] < compare.NOT_COMPARABLE
        if not comparable:
            self.verdict.refuse()
        elif not self.verdict.weigh(truth.results(self.wide, data), left, right):
            self.verdict.refuse(undecided=True)
        return True


def bench(before, after, reps=None, seed=0):
    """Interleaved timings of two modules in one process: seconds, medians and their ratio.

    Without a number of runs, as many as take `BENCH_SECONDS`, within `BENCH_REPS`: medians of seven runs of a millisecond vary by half.
    """
    runners, text = pair(before, after)
    data = cases.inputs(runners[0].shapes, text, 0, seed)
    times = ([], [])
    for runner in runners:
        runner.timed(data)  # the first run pays for page faults
    once = sum(runner.timed(data) for runner in runners)
    reps = reps or int(min(max(BENCH_SECONDS / once, BENCH_REPS[0]), BENCH_REPS[1]))
    for rep in range(reps):
        for side in ((0, 1), (1, 0))[rep % 2]:
            times[side].append(runners[side].timed(data))
    medians = [statistics.median(side) for side in times]
    return {"before": before, "after": after, "reps": reps, "before_seconds": medians[0],
            "after_seconds": medians[1], "ratio": medians[0] / medians[1],
            "before_range": [min(times[0]), max(times[0])], "after_range": [min(times[1]), max(times[1])]}


def roundtrip(a, b):
    """XLA parses both modules and prints both the same way: equal, or the first line that is not."""
    texts = []
    for file in (a, b):
        text = read(file)
        xla.refuse_elided(text, file)
        try:
            texts.append(xla.plain_text(xla.parse(text)).splitlines())
        except Exception as error:  # noqa: BLE001 - say which of the two files XLA refuses
            return {"a": a, "b": b, "error": f"{file}: {error}"}
    answer = {"a": a, "b": b, "equal": texts[0] == texts[1], "first_difference": None}
    for number in range(max(map(len, texts))):
        lines = [text[number] if number < len(text) else None for text in texts]
        if lines[0] != lines[1]:
            answer["first_difference"] = {"line": number + 1, "a": lines[0], "b": lines[1]}
            break
    return answer


class Runner:
    """One compiled module that can be run many times, each time on fresh buffers."""

    def __init__(self, jax, text, file):
        self.jax = jax
        self.executable, shape, self.device = xla.compile_text(jax, text, row_major=True)
        self.shapes = list(shape.parameter_shapes())
        if any(parameter.is_tuple() for parameter in self.shapes):
            raise ValueError(f"{file} has tuple parameters")
        refuse_giants(self.executable, file)

    def launch(self, data):
        # Copies: a donated buffer is overwritten, and device_put may share memory with numpy.
        buffers = [self.jax.device_put(np.array(array, copy=True), self.device) for array in data]
        for buffer in buffers:
            buffer.block_until_ready()
        start = time.perf_counter()
        arrays = self.executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        results = [shards[0] for shards in arrays]
        for result in results:
            result.block_until_ready()
        return results, time.perf_counter() - start

    def results(self, data):
        return [np.array(result) for result in self.launch(data)[0]]

    def timed(self, data):
        return self.launch(data)[1]


def doubled(jax, text, file):
    """The module in double precision, or None where it has no such form (it reads the bits of floats, say)."""
    try:
        return Runner(jax, truth.doubled(text), file)
    except Exception:  # noqa: BLE001: whatever XLA has against it, there is no truth to compare with
        return None


def refuse_giants(executable, file):
    """A program that this machine cannot hold: better a sentence than a machine that swaps."""
    stats = executable.get_compiled_memory_stats()
    # The arguments exist twice: as numpy made them and as XLA takes them.
    needed = 2 * stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > have:
        raise ValueError(f"running {file} takes {needed / 2**30:.1f} GiB and this machine has {have / 2**30:.1f} GiB: "
                         "compare the program at a reduced size")


def pair(before, after):
    """Compile two modules that take the same parameters; returns both runners and the first text."""
    texts = []
    for file in (before, after):
        texts.append(read(file))
        xla.refuse_elided(texts[-1], file)
        xla.refuse_callbacks(texts[-1], file)
        xla.refuse_collectives(texts[-1], file)
    jax = xla.start()
    # 64-bit parameters would lose half their bits on their way to the device.
    jax.config.update("jax_enable_x64", True)
    runners = [Runner(jax, text, file) for text, file in zip(texts, (before, after))]
    described = [[str(shape) for shape in runner.shapes] for runner in runners]
    if described[0] != described[1]:
        raise ValueError(f"the modules take different parameters: {described[0]} and {described[1]}")
    return runners, texts[0]


def read(file):
    if os.path.isdir(file):
        raise IsADirectoryError(f"{file} is a directory")
    with open(file, encoding="utf-8") as source:
        return source.read()
