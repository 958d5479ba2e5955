"""HLO text into XLA and back: parse, print, compile with dumps, read the compiler's own byte counts.

Everything here runs in a child process (see child.py); the first call of `start` fixes XLA's flags.
"""
import glob
import importlib.util
import os
import re

from . import annotations
from . import donors
from . import layouts
from . import stretch
from . import unknown

# Few threads: the referee shares its machine, and XLA writes the thread count into scheduled modules.
THREADS = 2
# A collective of several devices.
COLLECTIVE = re.compile(r"replica_groups=\{\{\d+,|source_target_pairs=\{\{")
ELIDED = re.compile(r"constant\(\{\.\.\.\}\)")


def import_quietly():
    """Import jax, on the CPU only, without starting a backend, so that children can be forked."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["NPROC"] = str(THREADS)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    import jax
    from ..jax_internals import xla_client  # noqa: F401 - loads jaxlib before the fork
    return jax


def start(dump_dir=None, devices=1, flags=()):
    """Set the flags that XLA reads once per process, then return the jax module."""
    flags = list(flags)
    if dump_dir:
        flags += [f"--xla_dump_to={dump_dir}", "--xla_dump_hlo_as_text", "--xla_dump_large_constants=true"]
    if devices > 1:
        flags.append(f"--xla_force_host_platform_device_count={devices}")
    os.environ["XLA_FLAGS"] = " ".join(flags)
    return import_quietly()


def hlo():
    """Where jaxlib keeps its HLO classes: a module of its own since 0.10."""
    try:
        from jaxlib import _hlo as home
    except ImportError:
        from jaxlib import _jax as home
    return home


def parse(text):
    return hlo().hlo_module_from_text(text)


def plain_text(module):
    """Print a module so that two equal modules give equal text: no metadata, every constant in full."""
    options = hlo().HloPrintOptions()
    options.print_metadata = False
    options.print_large_constants = True
    return module.to_string(options)


def computation(module):
    from ..jax_internals import xla_client
    return xla_client.XlaComputation(module.as_serialized_hlo_module_proto())


def load_kernels(text):
    """LAPACK's routines, which a program calls by name: JAX loads them while it traces such a call, a text has nobody who does."""
    if "lapack_" in text:
        from jaxlib import lapack
        lapack._lapack.initialize()


def refuse_callbacks(text, name):
    """A callback is a number that means something only in the process that traced the program."""
    if "python_cpu_callback" in text or "python_gpu_callback" in text:
        raise ValueError(f"{name} calls back into Python: it runs only in the process that made it")


# Options that are no flags of XLA, with their homes among the build options.
EFFORTS = {"exec_time_optimization_effort": float, "memory_fitting_effort": float, "optimization_level": int, "memory_fitting_level": int}


def set_options(compile_options, options):
    """Sets what `compiler_options` of jax.jit would set: efforts and levels, and flags of XLA by their names."""
    build = compile_options.executable_build_options
    for name, value in options.items():
        if name in EFFORTS:
            setattr(build, name, EFFORTS[name](value))
    flags = [(name, str(value)) for name, value in options.items() if name not in EFFORTS]
    if flags:
        compile_options.env_option_overrides = flags


def compile_text(jax, text, partitions=1, options=None, row_major=False):
    """Compile a before-optimizations module; returns (executable, program shape, device). To run it, all arguments and results are row-major."""
    load_kernels(text)
    text = of_one_device(text)
    partitions = min(partitions, partitions_of(text))
    program = computation(parse(text))
    devices = tuple(jax.devices()[:partitions])
    executable = devices[0].client.compile_and_load(lowered(program, row_major), *compile_options(text, devices, options))
    return executable, program.program_shape(), devices[0]


def compile_options(text, devices, options=None):
    """What XLA's clients ask for beside a module: the devices, and options for the program of one or of all of them."""
    from ..jax_internals import xla_client
    given, partitions = xla_client.CompileOptions(), len(devices)
    given.num_replicas, given.num_partitions = 1, partitions
    if partitions > 1:
        refuse_custom_partitioning(text)
        build = given.executable_build_options
        build.num_partitions = partitions
        build.use_spmd_partitioning = True
        # Annotations of Shardy mean nothing to the older partitioner.
        build.use_shardy_partitioner = "xla.sdy" in text
    set_options(given, options or {})
    return xla_client.DeviceList(devices), given


def lowered(program, row_major=False):
    """The text of StableHLO that XLA's clients take, with all that the program says of donated arguments, of devices and of layouts; with row-major arguments and
    results instead, which is how numpy has them, on demand."""
    text = donors.donated(stablehlo(program), program)
    return annotations.of_shardy(text if row_major else layouts.laid_out(text, program))


def stablehlo(program):
    """A program as StableHLO."""
    from jaxlib import _jax
    return stretch.stretched(unknown.spelled(_jax.mlir.xla_computation_to_mlir_module(program), program))


def partitions_of(text):
    header = text.split("\n", 1)[0]
    found = re.search(r"num_partitions=(\d+)", header)
    return int(found.group(1)) if found else 1


def devices_of(text):
    """How many devices XLA divides a program among: 1 where it is what one of them runs."""
    return partitions_of(of_one_device(text))


def of_one_device(text, is_certain=False):
    """What each of several devices runs (a module from behind the partitioner), as the program of one, which takes the same memory; any other module as it is.
    Where it `is_certain` that a module is from there, it need not show. The referee, which runs from sources without the native half, has only modules that are yet to be divided."""
    if partitions_of(text) == 1 or importlib.util.find_spec("hlo_opt._native") is None:
        return text
    from ..jax_internals import xla_client

    from .. import _native
    alone = _native.one_device(text.encode(), is_certain=is_certain)
    if alone is None:
        return text
    options = hlo().HloPrintOptions()
    options.print_large_constants = True
    return xla_client.XlaComputation(alone).get_hlo_module().to_string(options)


def refuse_collectives(text, name):
    """The program of one of several devices waits for the others."""
    if partitions_of(text) > 1 or COLLECTIVE.search(text):
        raise ValueError(f"{name} is partitioned: the referee runs modules of one device")


def refuse_custom_partitioning(text):
    """A Python function says how such a call is divided, and only the process that made it has the function."""
    if 'custom_call_target="CustomSPMDPartitioning"' in text:
        raise ValueError("only the process that traced the program can divide it among devices, since a Python function says how some call is "
                         "divided (`CustomSPMDPartitioning`); there --xla_dump_to=DIR --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd-partitioning "
                         "writes what a device runs")


def refuse_elided(text, name):
    """XLA's parser fills an elided constant with a counter: results would mean nothing."""
    if ELIDED.search(text):
        raise ValueError(
            f"{name} has elided constants ({{...}}): dump it with --xla_dump_large_constants=true")


def dumped(dump_dir, ending):
    """Text of the newest dump with this ending (the newest is the program; earlier ones are helpers)."""
    paths = sorted(glob.glob(os.path.join(glob.escape(dump_dir), "*" + ending)))
    if not paths:
        raise FileNotFoundError(f"XLA wrote no *{ending}")
    with open(paths[-1], encoding="utf-8") as file:
        return file.read()


def byte_counts(executable, dump_dir):
    """Argument, output, alias and temp bytes, and the total of XLA's memory-usage report."""
    stats = executable.get_compiled_memory_stats()
    report = dumped(dump_dir, "memory-usage-report.txt")
    total = re.search(r"Total bytes: (\d+)", report)
    if not total:
        raise ValueError("no 'Total bytes' in XLA's memory-usage report")
    return {
        "total_bytes": int(total.group(1)),
        "argument_bytes": stats.argument_size_in_bytes,
        "output_bytes": stats.output_size_in_bytes,
        "alias_bytes": stats.alias_size_in_bytes,
        "temp_bytes": stats.temp_size_in_bytes,
    }
