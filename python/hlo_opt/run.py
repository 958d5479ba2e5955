"""`python -m hlo_opt run [SETTING...] SCRIPT [ARGUMENT...]`, or `-m MODULE`: runs a program with everything that it compiles rewritten."""
from __future__ import annotations

import runpy
import sys

from . import startup

_USAGE = """usage: python -m hlo_opt run [--NAME=VALUE ...] (SCRIPT | -m MODULE) [ARGUMENT ...]

Runs a Python program. Every program that it compiles through JAX is rewritten so that it needs less memory.
Settings are those of hlo_opt.Options and hlo_opt.install: --budget=12GiB, --exactness=reassociate, --judge=model, --at-least=1MiB, --summary=0 ...
"""


def main(arguments: list[str]) -> int:
    """The exit code: 2 for arguments that make no sense; else the program's own end is the process's."""
    count = next((at for at, text in enumerate(arguments) if not text.startswith("--")), len(arguments))
    settings, program = arguments[:count], arguments[count:]
    if not program or "--help" in settings or program == ["-m"]:
        print(_USAGE, end="", file=sys.stdout if "--help" in settings else sys.stderr)
        return 0 if "--help" in settings else 2
    try:
        startup.start(settings)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path[0] = ""
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        sys.path[0] = __import__("os").path.dirname(program[0])
        runpy.run_path(program[0], run_name="__main__")
    return 0
