"""How much memory the process takes while XLA:CPU runs a module for the first time, beyond its arguments: what XLA's own figures leave out shows here.

    resident.py FILE     JSON: {"file": FILE, "growth_bytes": N}

Linux only, where the kernel keeps the largest resident set of a process and lets it be reset.
"""
import json
import re
import sys

sys.dont_write_bytecode = True

import xla  # noqa: E402,F401: puts the package on the path
from hlo_opt.xla import cases, compiler  # noqa: E402
from hlo_opt.xla.jobs import Runner, read  # noqa: E402


def main(file):
    text = read(file)
    runner = Runner(compiler.start(None, 1), text, file)
    data = cases.inputs(runner.shapes, text, 0, 0)
    buffers = [runner.jax.device_put(array, runner.device) for array in data]
    for buffer in buffers:
        buffer.block_until_ready()
    reset_peak()
    before = status("VmRSS")
    for shards in runner.executable.execute_sharded(buffers).disassemble_into_single_device_arrays():
        shards[0].block_until_ready()
    print(json.dumps({"file": file, "growth_bytes": status("VmHWM") - before}))


def reset_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as control:
        control.write("5")


def status(field):
    with open("/proc/self/status", encoding="ascii") as lines:
        return int(re.search(rf"{field}:\s+(\d+) kB", lines.read()).group(1)) << 10


if __name__ == "__main__":
    main(sys.argv[1])
