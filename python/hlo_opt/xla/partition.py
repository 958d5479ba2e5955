"""What each of several devices runs of a program: XLA's own partitioner divides it, and dumps the module behind itself."""
import os
import re
import tempfile

from . import child, compiler, jobs, lower, targets

PARTITIONER = "spmd-partitioning"
# A file that was written when the partitioner was done; compilers have words of their own before its name.
BEHIND = re.compile(rf"after_[^.]*{PARTITIONER}\..*\.(txt|hlo\.pb)$")
_DUMPED = {"xla_dump_hlo_as_text": True, "xla_dump_large_constants": True, "xla_dump_hlo_pass_re": f".*{PARTITIONER}"}


def partition(file, target="cpu"):
    """{"text", "devices"}: the module that one of the devices runs, as the target's compiler divides the program."""
    text = program(file)
    devices = compiler.partitions_of(text)
    if devices == 1:
        raise ValueError(f"{file} is the program of one device: num_partitions=N in its header would make it that of N")
    if compiler.devices_of(text) == 1:
        raise ValueError(f"{file} is what one device runs already")
    with tempfile.TemporaryDirectory(prefix="hlo-opt-") as folder:
        failed = compiled(text, target, devices, {"xla_dump_to": folder, **_DUMPED})
        found = [name for name in os.listdir(folder) if BEHIND.search(name)]
        if len(found) != 1:
            raise failed or ValueError(f"the compiler dumped {len(found)} modules from behind its partitioner, where one was expected")
        return {"file": file, "devices": devices, "text": of_a_device(jobs.read(os.path.join(folder, found[0])))}


def program(file):
    """The HLO text in a file, or of the StableHLO in it."""
    with open(file, "rb") as opened:
        data = opened.read()
    if b"HloModule" in data:
        return data.decode()
    # XLA reads its flags once in a process, and those of this one depend on what the text says.
    found = child.run(lower.hlo, (file,))
    if "error" in found:
        raise ValueError(found["error"])
    return found["text"]


def of_a_device(text):
    """A module from behind the partitioner. Where its devices have nothing to do with each other, nothing in it would say that it is divided: it becomes the
    program of one device, which it is."""
    if compiler.devices_of(text) == 1:
        return text
    alone = compiler.of_one_device(text, is_certain=True)
    if compiler.partitions_of(alone) > 1:
        raise ValueError("the compiler divided the program, but it is not known which devices some collective is for")
    return alone


def compiled(text, target, devices, options):
    """Compiles a program, which writes the dump. The error of a compiler that went no further than that, because what a device runs does not fit it, say."""
    try:
        if target == "cpu":
            compiler.compile_text(compiler.start(devices=devices), text, devices, options)
        else:
            targets.executable(text, target, options)
    except Exception as error:  # noqa: BLE001 - of no interest where the dump was written
        return error
    return None
