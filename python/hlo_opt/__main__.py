"""The `hlo-opt` command: `hlo-opt ...` and `python -m hlo_opt ...` are the same, and `run` runs a Python program with all that it compiles rewritten."""
import os
import signal
import sys


def main() -> int:
    if sys.argv[1:2] == ["run"]:
        from .run import main as run
        return run(sys.argv[2:])
    from . import _native
    # The work happens outside Python, which would see Ctrl-C only afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What the command asks of XLA it asks through this interpreter.
    os.environ.setdefault("HLO_OPT_PYTHON", sys.executable)
    return _native.run(["hlo-opt", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
