"""The referee's `compare` is `hlo_opt.xla.compare`, part of the Python package: read from the sources, so that no build is needed."""
import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
sys.modules[__name__] = importlib.import_module("hlo_opt.xla.compare")
