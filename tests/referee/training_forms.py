"""A table of programs for devices, as written and as the tool leaves them: bytes and estimated time by the target's own compiler, without a device.

    training_forms.py TARGET FOLDER --tool PATH [--only WORD...]

TARGET is a machine such as `gpu:h100`, FOLDER holds HLO texts lowered for it. The interpreter needs jax with the compiler of the target. A program that the compiler refuses is a
row with its error. Prints Markdown.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import xla  # noqa: E402, F401 - makes the package importable
from hlo_opt.xla import machines, roofline, targets  # noqa: E402

MODES = {"default": [], "`reassociate`": ["--exactness=reassociate"]}


def main():
    options = arguments()
    target, machine = options.target.partition(":")[0], machines.of(options.target)
    print("| Program | as written, MiB | ms |" + "".join(f" {mode}, MiB | time |" for mode in MODES))
    print("|---|---|---|" + "---|---|" * len(MODES))
    for file in sorted(options.folder.glob("*.hlo")):
        if not options.only or any(word in file.stem for word in options.only):
            print(row(file, target, machine, options), flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--only", nargs="*", default=[])
    return parser.parse_args()


def row(file, target, machine, options):
    try:
        written, seconds = asked(file, target, machine)
    except Exception as error:  # noqa: BLE001 - what a compiler says of a program is part of the table
        return f"| {file.stem} | {str(error).splitlines()[0][:80]} |"
    cells = [file.stem, mebibytes(written), f"{seconds * 1e3:.1f}"]
    for flags in MODES.values():
        with tempfile.NamedTemporaryFile(suffix=".hlo") as after:
            subprocess.run([options.tool, "-q", file, "--target", options.target, "-o", after.name, *flags], check=True)
            total, time = asked(pathlib.Path(after.name), target, machine)
        cells += [mebibytes(total), f"{time / seconds:.2f}"]
    return f"| {' | '.join(cells)} |"


def asked(file, target, machine):
    """Bytes of the compiler's own assignment, and the estimated seconds of what it makes of the module."""
    executable = targets.executable(file.read_text(), target)
    text = executable.hlo_modules()[0].to_string()
    return targets.counted(executable, target)["total_bytes"], roofline.estimate(text, machine)["seconds"]


def mebibytes(count):
    return f"{count / 2**20:,.0f}"


if __name__ == "__main__":
    main()
