"""Compilers for devices that this machine need not have: XLA:TPU and XLA:GPU compile from shapes and say how many bytes they need."""
import importlib.util
import os
import re

import numpy as np

from . import compiler

# Slices of TPU v5e by their chips, as Google's documentation lists them. No chip is used, so another process may use the library.
TPU_SLICES = {4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
TPU_ENVIRONMENT = {"TPU_WORKER_HOSTNAMES": "localhost", "TPU_SKIP_MDS_QUERY": "1",
                   "JAX_PLATFORMS": "cpu", "TPU_MIN_LOG_LEVEL": "3", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}

# NVIDIA H100 SXM: the figures of its data sheet that XLA's cost models ask for.
H100 = """
gpu_device_info {
  cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES }
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448 shared_memory_per_core: 233472
  l2_cache_size: 52428800 device_memory_size: 84978434048 memory_bandwidth: 3352320000000
}
platform_name: "CUDA"
device_description_str: "NVIDIA H100 80GB HBM3"
"""


# What XLA:GPU says of a product for which it would have to measure tiles on a device; its library multiplies without.
NO_TILES = "Couldn't find output tile sizes"


class Missing(RuntimeError):
    """The compiler is not installed; the message says how to install it."""


class DoesNotFit(ValueError):
    """The device is too small for the program, and its compiler says so."""


def byte_counts(text, target):
    """Argument, output, alias and temp bytes of a module by the target's compiler; their total."""
    return counted(executable(text, target), target)


def executable(text, target, options=None):
    """The compiled module, with options of XLA by name (`compiler_options` of jax.jit). A program for several devices is divided, and each runs the executable."""
    if target not in DEVICES:
        raise ValueError(f"unknown target {target!r}; known are cpu, tpu, gpu")
    text = compiler.of_one_device(text)
    devices = DEVICES[target](compiler.partitions_of(text))
    try:
        try:
            return compiled(text, devices, options)
        except Exception as error:
            if NO_TILES not in str(error):
                raise
        return compiled(text, devices, {**(options or {}), "xla_gpu_enable_triton_gemm": False})
    except Exception as error:
        raise refusal(error, target) from error


def counted(executable, target):
    """The bytes of an executable for the target."""
    stats = executable.get_compiled_memory_stats()
    arguments, outputs, aliased = stats.argument_size_in_bytes, stats.output_size_in_bytes, stats.alias_size_in_bytes
    temporary = temporaries(stats, target)
    return {"total_bytes": arguments + outputs - aliased + temporary, "argument_bytes": arguments,
            "output_bytes": outputs, "alias_bytes": aliased, "temp_bytes": temporary}


def temporaries(stats, target):
    """Bytes of temporaries by the figures that an executable of the target has, jaxlib's CompiledMemoryStats."""
    if target != "tpu":
        return stats.temp_size_in_bytes
    # XLA:TPU counts heap space that is idle later on; its peak, of which buffers in VMEM are a part, is the other bound.
    interface = stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    return max(0, min(stats.temp_size_in_bytes, stats.peak_memory_in_bytes - interface))


def out_of_memory(error):
    """What the compiler says if a program does not fit the device (XLA:TPU compiles no such program); else None."""
    short = re.search(r"RESOURCE_EXHAUSTED: ([^\n]*)", str(error))
    return short[1] if short else None


def refusal(error, target):
    """What stands between a module and a device, in one sentence where the reason is known."""
    text = str(error)
    if "X{64|128}" in text and "indices exceed" in text:
        return ValueError("XLA:TPU takes start indices of 32 bits only: an array is sliced beyond row 2147483647. It compiles once the rows "
                          "are reshaped to [blocks, rows of a block] and the block number is the start")
    short = out_of_memory(error)
    return DoesNotFit(f"XLA:{target.upper()}: {short}") if short else error


def need(package, extra, target):
    if importlib.util.find_spec(package) is None:
        raise Missing(f"--target {target} needs XLA's {target.upper()} compiler: pip install 'hlo-opt[{extra}]' "
                      f"(from a clone: pip install '.[{extra}]'); no {target.upper()} is needed")


def tpu_devices(count=1):
    """The first chips of the smallest slice that has so many."""
    need("libtpu", "tpu", "tpu")
    chips = next((chips for chips in TPU_SLICES if chips >= count), None)
    if chips is None:
        raise ValueError(f"a program of {count} devices: no slice of TPU v5e has so many")
    os.environ.update(TPU_ENVIRONMENT)
    os.environ["TPU_ACCELERATOR_TYPE"] = f"v5litepod-{chips}"
    from jax.experimental import topologies
    return tuple(topologies.get_topology_desc(platform="tpu", topology_name=f"v5e:{TPU_SLICES[chips]}").devices[:count])


def gpu_devices(count=1):
    """GPUs of one host."""
    need("jax_cuda12_plugin", "gpu", "gpu")
    # Autotuning would run kernels, for which there is no device.
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"
    from jax.experimental import topologies
    return tuple(topologies.get_topology_desc(platform="cuda", topology_name="", topology=f"1x1x{count}", target_config=H100).devices)


DEVICES = {"tpu": tpu_devices, "gpu": gpu_devices}


def compiled(text, devices, options=None):
    """The executable of a module for some devices, of one or of all of which it is the program."""
    from ..jax_internals import ir, mlir, xla_client
    program = compiler.computation(compiler.parse(text))
    asked, given = compiler.compile_options(text, devices, options)
    if len(devices) > 1:
        placed = xla_client.DeviceAssignment.create(np.arange(len(devices)).reshape(1, -1))
        given.device_assignment = given.executable_build_options.device_assignment = placed
    with mlir.make_ir_context():
        # A TPU has tiled layouts of its own: the text of another compiler says nothing of them.
        text = compiler.lowered(program, row_major=devices[0].platform == "tpu")
        return devices[0].client.compile(ir.Module.parse(text), asked, given)
