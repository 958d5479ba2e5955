"""Plans programs on their way to the compiler, each once, and keeps the reports."""
from __future__ import annotations

import re
import threading

from . import jax_plan
from .jax_lowering import Lowering
from .jax_options import Options
from .jax_plan import MemoryReport


class Planner:
    """Rewrites every program that it is shown, under `options`, or those of one name only. `reports` are in the order of the first compilations."""

    def __init__(self, options: Options, name: str | None = None):
        self.options, self.name = options, name
        self.reports: list[MemoryReport] = []

    def __call__(self, computation) -> None:
        lowering = Lowering(computation)
        # To move arguments JAX compiles programs of its own on the way.
        if self.name is not None and _letters(lowering.name) != _letters(self.name):
            return
        report = self.plan(lowering)
        if not any(known is report for known in self.reports):
            self.reports.append(report)

    def plan(self, lowering: Lowering) -> MemoryReport:
        """The report of a program, which is made when it is first asked for and kept with the program; warns of what the user should know."""
        kept = vars(lowering.inner)
        with kept.setdefault("_hlo_opt_lock", threading.RLock()):
            if "_hlo_opt_report" not in kept:
                kept["_hlo_opt_report"] = report = jax_plan.decide(lowering, self.options)
                self.tell(report)
            return kept["_hlo_opt_report"]

    def tell(self, report: MemoryReport) -> None:
        """Warns of a fallback and of a budget that is missed."""
        jax_plan.tell_of_fallback(report)
        jax_plan.tell_of_budget(report, self.options.budget)


def _letters(name: str) -> str:
    """What versions of JAX leave of a function's name."""
    return re.sub(r"\W|_", "", name)
