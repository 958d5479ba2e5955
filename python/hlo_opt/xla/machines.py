"""What machines can do, for prices: the rows that `hlo-opt --target` knows, or a file of `python -m hlo_opt.xla calibrate`.

`machines.json` is written from the table of passes/src/machine.rs, where each number has its source, and a test of the command compares the two.
"""
from __future__ import annotations

import json
import pathlib
import tomllib

_FILE = pathlib.Path(__file__).with_name("machines.json")
# What a calibration leaves out is as far from the usual machine as its products are.
_SCALED = "arithmetic_per_second", "transcendentals_per_second"


def known() -> list[dict]:
    """All machines, the first of each target being what it means alone."""
    return json.loads(_FILE.read_text(encoding="utf-8"))


def of(target: str) -> dict:
    """The machine of `gpu`, or of `gpu:a100`."""
    compiler, _, name = target.partition(":")
    for machine in known():
        if machine["target"] == compiler and name in ("", machine["name"]):
            return machine
    names = ", ".join(f"{machine['target']}:{machine['name']}" for machine in known())
    raise ValueError(f"unknown machine {target!r}; known are {names}")


def read(file: str) -> dict:
    """The machine of a description, as `calibrate` prints it."""
    with open(file, "rb") as source:
        found = tomllib.load(source)
    try:
        usual = of(found["target"])
        faster = found["operations_per_second"]["f32"] / usual["operations_per_second"]["f32"]
    except KeyError as error:
        raise ValueError(f"{file} has no key {error}") from error
    found["operations_per_second"].setdefault("f64", usual["operations_per_second"]["f64"] * faster)
    return {**usual, **{key: usual[key] * faster for key in _SCALED}, **found}
