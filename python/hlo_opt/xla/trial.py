"""One compilation of a module under a setting: the compiler's bytes and the estimated time. Runs in a child process (see child.py).

A setting is a dictionary. Names that begin with `xla_` are flags of XLA, which CPU and GPU read from XLA_FLAGS and TPU from the compile
options; all other names are compile options.
"""
import os
import re
import tempfile

from . import compiler, jobs, machines, roofline, targets

# XLA writes a module after each pass that changed it, and names the pass.
_AFTER = re.compile(r"\.after_([^.]+)\.before_[^.]+\.txt$")


def time(file, target="cpu", machine=None):
    """Estimated time of a module on a machine, `gpu` or `gpu:a100` or a file that describes one, beside the compiler's bytes.

    That a program does not fit the device is an answer that callers may have to tell from a failure."""
    described = machines.read(machine) if machine else machines.of(target)
    try:
        found = trial(file, target.partition(":")[0], {}, described)
    except targets.DoesNotFit as error:
        return {"error": str(error), "does_not_fit": True}
    counts = {name: value for name, value in found.items() if name.endswith("_bytes")}
    return {"file": file, "target": target, **found["estimate"], **counts}


def trial(file, target="cpu", setting=None, machine=None, passes=False):
    """Bytes as of `peak`, the estimate, and with `passes` the names of XLA's passes that changed the module."""
    setting, text = setting or {}, jobs.read(file)
    with tempfile.TemporaryDirectory() as dump_dir:
        compile_for = on_cpu if target == "cpu" else on_device
        executable, counts = compile_for(text, target, setting, dump_dir, passes)
        optimized = "\n".join(module.to_string() for module in executable.hlo_modules())
        estimate = roofline.estimate(optimized, machine or machines.of(target))
        return {**counts, "estimate": estimate, "passes": changed(dump_dir) if passes else []}


def flags_of(setting):
    """A setting's flags as XLA_FLAGS has them."""
    return [f"--{name}={value}" for name, value in setting.items() if name.startswith("xla_")]


def options_of(setting):
    return {name: value for name, value in setting.items() if not name.startswith("xla_")}


def on_cpu(text, _target, setting, dump_dir, passes):
    partitions = compiler.partitions_of(text)
    jax = compiler.start(dump_dir, partitions, [*flags_of(setting), *noted(passes)])
    executable, _, _ = compiler.compile_text(jax, text, partitions, options_of(setting))
    return executable, compiler.byte_counts(executable, dump_dir)


def on_device(text, target, setting, dump_dir, passes):
    if target == "gpu":
        dumps = [f"--xla_dump_to={dump_dir}", *noted(passes)] if passes else []
        os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags_of(setting), *dumps])
        setting = options_of(setting)
    executable = targets.executable(text, target, setting)
    return executable, targets.counted(executable, target)


def noted(passes):
    return ["--xla_dump_hlo_pass_re=.*"] if passes else []


def changed(dump_dir):
    """Names of the passes that changed the module, in order."""
    names = (found[1] for name in sorted(os.listdir(dump_dir)) if (found := _AFTER.search(name)))
    return [name for name in dict.fromkeys(names) if name != "pipeline-start"]
