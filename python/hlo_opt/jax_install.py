"""Every program that a process compiles through JAX, rewritten without a changed line: libraries, nested jits, pmap and ahead of time."""
from __future__ import annotations

import atexit
import contextlib
import sys
from collections.abc import Iterator

from . import jax_hook, jax_lowering, jax_plan
from .jax_lowering import Lowering
from .jax_options import Options, warn
from .jax_plan import MemoryReport
from .jax_planner import Planner

jax_lowering.exclude_from_tracebacks(__file__)

# How many programs the summary names.
_MOST_LINES = 10
_installed: list[_Everything] = []


class _Everything(Planner):
    """Rewrites the programs whose values take `at_least` bytes together. What cannot be helped is said in the reports only."""

    def __init__(self, options: Options, at_least: int):
        super().__init__(options)
        self.at_least, self.compiled = at_least, 0

    def __call__(self, computation) -> None:
        self.compiled += 1
        if Lowering(computation).holds(self.at_least):
            super().__call__(computation)

    def tell(self, report: MemoryReport) -> None:
        jax_plan.tell_of_budget(report, self.options.budget)


def install(options: Options | None = None, *, at_least: int = 32 << 20, summary: bool = True) -> None:
    """Rewrites every program that this process compiles through JAX from now on, as `hlo_opt.jit` does for one function.

    Programs whose values (arguments, constants and results of operations) take less than `at_least` bytes together are compiled as they are. Reports
    are in `reports()`, and with `summary` the ones that matter are printed to standard error when the process ends. Another call replaces
    the options. Warns, and does nothing, if this version of JAX is not supported.
    """
    reason = jax_lowering.unsupported()
    if reason:
        warn(f"hlo_opt.install does nothing: {reason}")
        return
    uninstall()
    _installed.append(_Everything(options or Options(), at_least))
    jax_hook.plan_process(_installed[-1])
    if summary:
        atexit.register(_print_summary)


def uninstall() -> None:
    """Programs are compiled as they are again. Those that were compiled stay rewritten; their reports stay in `reports()`."""
    if _installed:
        jax_hook.leave_process(_installed[-1])
    atexit.unregister(_print_summary)


@contextlib.contextmanager
def optimizing(options: Options | None = None, *, at_least: int = 0) -> Iterator[list[MemoryReport]]:
    """`with hlo_opt.optimizing() as reports:` rewrites what this thread compiles inside the block. `reports` grows with each program.

    Warns, and does nothing, if this version of JAX is not supported."""
    reason = jax_lowering.unsupported()
    planner = _Everything(options or Options(), at_least)
    if reason:
        warn(f"hlo_opt.optimizing does nothing: {reason}")
        yield planner.reports
        return
    jax_hook.attach()
    token = jax_hook.planner.set(planner)
    try:
        yield planner.reports
    finally:
        jax_hook.planner.reset(token)


def reports() -> list[MemoryReport]:
    """What became of each program that was looked at since the first `install`, in the order of their compilation."""
    return [report for planner in _installed for report in planner.reports]


def summary() -> str:
    """The programs that were rewritten, largest saving first, and why others were not, as text."""
    looked_at = reports()
    rewritten = [report for report in looked_at if report.kept == "rewritten"]
    compiled = sum(planner.compiled for planner in _installed)
    lines = [f"hlo-opt: {compiled} programs compiled, {len(looked_at)} of them large enough to be looked at, {len(rewritten)} rewritten"]
    lines += _listed(sorted(rewritten, key=_saved, reverse=True))
    lines += _listed([report for report in looked_at if report.kept == "fallback"])
    return "\n".join(lines)


def _listed(found: list[MemoryReport]) -> list[str]:
    more = [f"  and {len(found) - _MOST_LINES} more"] if len(found) > _MOST_LINES else []
    return [f"  {report}" for report in found[:_MOST_LINES]] + more


def _saved(report: MemoryReport) -> int:
    """Bytes that a rewritten program needs less; one that does not compile as written is worth most."""
    before, after = report.before_bytes, report.after_bytes
    return sys.maxsize if before is None or after is None else before - after


def _print_summary() -> None:
    if reports():
        print(summary(), file=sys.stderr)
