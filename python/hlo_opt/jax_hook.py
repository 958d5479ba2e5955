"""The one place where JAX hands a program to the compiler, and who sees the program there first.

Every program of JAX (jit, libraries that call jit, pmap, ahead of time) is a `MeshComputation`, and is compiled by its method `compile`. That method
is replaced once by one that shows the program to a planner before it compiles. A planner may put another module into it.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import jax

from . import jax_lowering
from .jax_lowering import Lowering
from .jax_options import warn

Planner = Callable[[Any], object]

# Who plans the programs that this thread compiles now; before the planner of the whole process.
planner: ContextVar[Planner | None] = ContextVar("hlo_opt_planner", default=None)
_of_process: list[Planner] = []
# True while a planner works: what it compiles itself is nobody's program.
_planning: ContextVar[bool] = ContextVar("hlo_opt_planning", default=False)


def attach() -> None:
    """Replaces the method, once. Raises AttributeError if this jax has no such method."""
    from .jax_internals import pxla
    inner = pxla.MeshComputation.compile
    if getattr(inner, "_is_hlo_opt", False):
        return

    @functools.wraps(inner)
    def compile(self, *args, **kwargs):  # noqa: A001 - the name is JAX's
        plan = None if _planning.get() else planner.get() or next(reversed(_of_process), None)
        if plan is not None:
            _show(plan, self)
        return inner(self, *args, **kwargs)

    compile._is_hlo_opt = True  # type: ignore[attr-defined]
    pxla.MeshComputation.compile = compile


def _show(plan: Planner, computation) -> None:
    """Lets a planner work on a program. What fails in it is never the program's fault, which then runs as it is."""
    outside = _planning.set(True)
    try:
        if isinstance(plan, _Trial) or _works():
            plan(computation)
    except Warning:
        # Someone asked for warnings to be errors.
        raise
    except Exception as error:  # noqa: BLE001
        warn(f"hlo-opt failed on `{computation._name}`, which runs as it is: {type(error).__name__}: {error}")
    finally:
        _planning.reset(outside)


@functools.cache
def _works() -> bool:
    """Whether a module can be taken out of this JAX and put back. Versions that the tests run with are believed; another one is tried, once."""
    if jax_lowering.version() in jax_lowering.VERSIONS:
        return True
    trial = _Trial()
    tokens = _planning.set(False), planner.set(trial)
    try:
        found = jax.jit(lambda x: x * 2 + 1)(3.0)
    finally:
        _planning.reset(tokens[0])
        planner.reset(tokens[1])
    reason = trial.reason or (None if found == 7 else f"a small program gave {found}")
    if reason is not None:
        warn(f"hlo-opt does nothing, because jax {jax.__version__} does not work as expected: {reason}")
    return reason is None


class _Trial:
    """A planner that does every step of a rewrite but the rewriting; `reason` is what went wrong."""

    reason: str | None = "programs are compiled elsewhere"

    def __call__(self, computation) -> None:
        try:
            lowering = Lowering(computation)
            made = lowering.rewritten(lowering.program())
            jax_lowering.measured(made, lowering.target)
            lowering.plant(made)
            self.reason = lowering.refusal()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what does not work
            self.reason = f"{type(error).__name__}: {error}"


def plan_process(plan: Planner) -> None:
    """From now on `plan` sees the programs of all threads, unless `planner` says otherwise."""
    attach()
    _of_process.append(plan)


def leave_process(plan: Planner) -> None:
    """Undoes `plan_process`."""
    if plan in _of_process:
        _of_process.remove(plan)
