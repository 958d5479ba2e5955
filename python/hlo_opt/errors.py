"""What can go wrong, as exceptions that pickle and that say where in the text it happened."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One problem of a module: a message, its place (counted from 1; None for a module that was not text), help texts."""

    message: str
    line: int | None = None
    column: int | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line is not None else ""
        return place + self.message + "".join(f"\n  help: {note}" for note in self.notes)


class HloError(ValueError):
    """The input cannot be read as a module, or the module is not legal. `problems` has at least one entry."""

    def __init__(self, problems: Iterable[Problem | tuple]) -> None:
        self.problems: tuple[Problem, ...] = tuple(
            found if isinstance(found, Problem) else Problem(found[0], found[1], found[2], tuple(found[3]))
            for found in problems)
        super().__init__("\n".join(map(str, self.problems)))

    @property
    def line(self) -> int | None:
        """Line of the first problem, counted from 1."""
        return self.problems[0].line if self.problems else None

    @property
    def column(self) -> int | None:
        """Column of the first problem, counted from 1."""
        return self.problems[0].column if self.problems else None

    def __reduce__(self):
        return type(self), (self.problems,)


class EstimateError(ValueError):
    """The memory model cannot handle the module, or the target has no model."""


class InternalError(RuntimeError):
    """An error in hlo-opt, not in your program."""
