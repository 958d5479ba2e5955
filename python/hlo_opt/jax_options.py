"""How `hlo_opt.jit` works: its options and its warning."""
from __future__ import annotations

import os
import sys
import types
import warnings
from dataclasses import dataclass

_OURS = os.path.dirname(os.path.abspath(__file__))


class FallbackWarning(UserWarning):
    """hlo_opt.jit could not help here and runs the program exactly as jax.jit does. The message names the reason."""


class BudgetWarning(UserWarning):
    """No form of a program fits the budget it was given; the smallest one that was found runs."""


def warn(message: str, category: type[Warning] = FallbackWarning) -> None:
    """Warns at the line of the user's program that led here: the first frame that is neither ours nor JAX's."""
    level = 2
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _inside(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _inside(file: str) -> bool:
    return file.startswith(_OURS) or f"{os.sep}jax{os.sep}_src{os.sep}" in file or file.startswith("<")


@dataclass(frozen=True)
class Options:
    """How to rewrite and who judges.

    `exactness`, `assume`, `passes`, `chunk_bytes`, `min_saving` and `objective` are those of `hlo_opt.optimize`. `judge` is "xla" (the compiler's own
    figures decide, and a rewrite that turns out worse is backed off; the original is compiled too unless the model knows all of it and the compiler confirms
    what it says of the result), "both" (the original is compiled always) or "model" (believe the memory model and compile once). `target` is the compiler the model speaks of; None takes the device in use.
    `host_memory` are bytes of the host's memory that the program may use for each GPU or TPU: stacks of loops may stand there until they are read, and other values that wait.
    `budget` is the memory in bytes that the program may take on one device: rewriting then costs run time only as far as it must, and a program that fits
    as it is stays. Where no form fits, the smallest one runs, with a BudgetWarning.
    """

    exactness: str = "hlo-exact"
    assume: tuple[str, ...] = ()
    passes: str | None = None
    chunk_bytes: int | None = None
    min_saving: int = 1 << 20
    judge: str = "xla"
    target: str | None = None
    budget: int | None = None
    objective: str = "balanced"
    host_memory: int = 0

    def __post_init__(self):
        if self.judge not in ("xla", "both", "model"):
            raise ValueError(f"unknown judge {self.judge!r}; known are 'xla', 'both', 'model'")
        for name, known in (("exactness", ("bitwise", "hlo-exact", "reassociate")), ("target", (None, "cpu", "tpu", "gpu")), ("objective", ("memory", "balanced", "time"))):
            if getattr(self, name) not in known:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}; known are {', '.join(map(repr, known))}")
        object.__setattr__(self, "assume", (self.assume,) if isinstance(self.assume, str) else tuple(self.assume))
        if self.passes is not None and not isinstance(self.passes, str):
            object.__setattr__(self, "passes", ",".join(self.passes))

    def of_call(self, target: str) -> dict:
        """The keywords of `hlo_opt.optimize` and `hlo_opt.memory_curve`."""
        return {"target": self.target or target, "exactness": self.exactness, "assume": self.assume, "passes": self.passes,
                "chunk_bytes": self.chunk_bytes, "min_saving": self.min_saving, "host_memory": self.host_memory}
