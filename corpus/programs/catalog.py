"""The list of corpus programs: what a program file registers and what the generator reads."""
from dataclasses import dataclass, field
from typing import Callable

GIB = 1 << 30


@dataclass(frozen=True)
class Program:
    """One program of the corpus; `build(**params)` returns (function, abstract arguments)."""
    group: str
    name: str
    build: Callable
    params: dict = field(default_factory=dict)
    donate: tuple = ()
    devices: int = 1

    @property
    def path(self):
        return f"{self.group}/{self.name}"


@dataclass(frozen=True)
class RawProgram:
    """HLO written by hand, for shapes that JAX cannot produce; @ROWS@ and the like are filled in.

    `as_written` keeps this text as the program: jaxlib reads HLO by way of MLIR, which takes tuples apart."""
    group: str
    name: str
    file: str
    values: dict = field(default_factory=dict)
    devices: int = 1
    as_written: bool = False

    @property
    def path(self):
        return f"{self.group}/{self.name}"


CATALOG = {}


def add(entry):
    if entry.path in CATALOG:
        raise ValueError(f"two programs named {entry.path}")
    CATALOG[entry.path] = entry


def program(group, name, *, donate=(), devices=1, **params):
    """Decorator: register `build` under group/name with these parameters. Stack it for variants."""
    def register(build):
        add(Program(group, name, build, params, donate, devices))
        return build
    return register


def twins(group, name, *, big, small, donate=(), devices=1, **common):
    """Decorator: register a full-size program and its small twin of the same name in GROUP-small."""
    def register(build):
        add(Program(group, name, build, {**common, **big}, donate, devices))
        add(Program(f"{group}-small", name, build, {**common, **small}, donate, devices))
        return build
    return register


def raw_twins(group, name, file, *, big, small, as_written=False):
    add(RawProgram(group, name, file, big, as_written=as_written))
    add(RawProgram(f"{group}-small", name, file, small, as_written=as_written))


def shape(dims, dtype="float32"):
    """An abstract array: programs are lowered from shapes, nothing is allocated."""
    import jax
    import jax.numpy as jnp
    return jax.ShapeDtypeStruct(tuple(dims), jnp.dtype(dtype))
