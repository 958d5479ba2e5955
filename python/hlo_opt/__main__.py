"""The `hlo-opt` command: `hlo-opt ...` and `python -m hlo_opt ...` are the same. `run` runs a Python program with all that it compiles rewritten,
`fleet` makes a table of a folder of dumps."""
import os
import signal
import sys


def main() -> int:
    if sys.argv[1:2] == ["run"]:
        from .run import main as run
        return run(sys.argv[2:])
    if sys.argv[1:2] == ["fleet"]:
        from .fleet.command import main as fleet
        return fleet(sys.argv[2:])
    from . import _native, stablehlo_files
    # The work happens outside Python, which would see Ctrl-C only afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What the command asks of XLA it asks through this interpreter.
    os.environ.setdefault("HLO_OPT_PYTHON", sys.executable)
    return stablehlo_files.run(sys.argv[1:], lambda arguments: _native.run(["hlo-opt", *arguments]))


if __name__ == "__main__":
    sys.exit(main())
