"""Runs modules on the GPU or TPU that JAX finds: seconds, the compiler's temporaries, the allocator's peak, and whether results agree.

    device_times.py [--rounds 5] [--limit SECONDS] BEFORE.hlo,AFTER.txt[,AFTER.txt...] ...

Each module runs in a process of its own on the same data, made on the device. The first of each group is what the others are compared with. It needs jax only, so
that it can be run on a machine where nothing else of this project is; one JSON object a line.
"""
import argparse
import json
import os
import subprocess
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.97")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--most", type=int, default=1000, help="integers are below this")
    parser.add_argument("groups", nargs="+", metavar="BEFORE,AFTER[,AFTER...]")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run(options.groups[0], options.rounds, options.most)), flush=True)
        return
    for group in options.groups:
        report(group.split(","), options)


def report(files, options):
    """One line for each module, beside the first."""
    first = None
    for file in files:
        found = in_child(file, options)
        first = first or found
        found["file"] = os.path.basename(file)
        if "seconds" in found and "seconds" in first:
            found["speed"] = round(first["seconds"] / found["seconds"], 3)
            found["difference"] = difference(first["sums"], found["sums"])
        print(json.dumps({key: value for key, value in found.items() if key != "sums"}), flush=True)


def in_child(file, options):
    command = [sys.executable, os.path.abspath(__file__), "--child", "--rounds", str(options.rounds), "--most", str(options.most), file]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no end within {options.limit} s"}
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        return {"error": next((line for line in lines if "RESOURCE_EXHAUSTED" in line or "Error" in line), lines[-1] if lines else "")[:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def difference(ours, theirs):
    """The largest difference of sums and of sums of squares of results, as a share of what they are."""
    pairs = [(a, b) for one, other in zip(ours, theirs) for a, b in zip(one, other)]
    return max((abs(a - b) / max(abs(a), 1e-30) for a, b in pairs), default=0.0)


def run(file, rounds, most):
    import jax
    executable, shapes, device = compiled(jax, file)
    stats = executable.get_compiled_memory_stats()
    start = time.perf_counter()
    found = {"temp": stats.temp_size_in_bytes, "arguments": stats.argument_size_in_bytes, "results": stats.output_size_in_bytes,
             "alias": stats.alias_size_in_bytes, "device": device.device_kind}
    donates = stats.alias_size_in_bytes > 0
    times, results = [], None
    inputs = None
    for _ in range(rounds + 1):
        results = None
        if inputs is None or donates:
            inputs = None
            inputs = [made(jax, number, shape, most) for number, shape in enumerate(shapes)]
            jax.block_until_ready(inputs)
        start = time.perf_counter()
        results = executable.execute_sharded(inputs).disassemble_into_single_device_arrays()
        jax.block_until_ready(results)
        times.append(time.perf_counter() - start)
    found["seconds"] = min(times[1:])
    found["peak"] = (device.memory_stats() or {}).get("peak_bytes_in_use")
    found["sums"] = [sums(jax, result[0]) for result in results]
    return found


def compiled(jax, file):
    from jax._src.lib import xla_client
    try:
        from jaxlib import _hlo as home
    except ImportError:
        from jaxlib import _jax as home
    from jaxlib import _jax
    with open(file, encoding="utf-8") as text:
        module = home.hlo_module_from_text(text.read())
    program = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    device = jax.devices()[0]
    stablehlo = _jax.mlir.xla_computation_to_mlir_module(program)
    options = xla_client.CompileOptions()
    executable = device.client.compile_and_load(stablehlo, xla_client.DeviceList((device,)), options)
    return executable, program.program_shape().parameter_shapes(), device


def made(jax, number, shape, most):
    """Data of a shape, the same for the same number of a parameter: floats from -0.1 to 0.1, integers from zero."""
    import jax.numpy as jnp
    kind, dims = shape.numpy_dtype(), shape.dimensions()

    def fill():
        seed = jnp.full(dims, (number * 7919 + 12345) & 0xFFFF, jnp.uint32)
        for axis, size in enumerate(dims):
            step = jnp.uint32((2654435761 * (axis + 1) + 97) & 0xFFFFFFFF)
            seed = (seed ^ (jax.lax.broadcasted_iota(jnp.uint32, dims, axis) * step)) * jnp.uint32(2246822519)
            seed = seed ^ (seed >> 13)
        if kind == bool:
            return seed % 2 == 0
        if jnp.issubdtype(kind, jnp.floating):
            return ((seed >> 8).astype(jnp.float32) / 2**24 * 0.2 - 0.1).astype(kind)
        return (seed % jnp.uint32(most)).astype(kind)
    return jax.jit(fill)()


def sums(jax, array):
    import jax.numpy as jnp
    wide = array.astype(jnp.float32)
    return [float(jnp.abs(wide).sum()), float((wide * wide).sum())]


if __name__ == "__main__":
    main()
