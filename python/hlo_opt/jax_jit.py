"""`hlo_opt.jit`: jax.jit with less memory and the same results."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

import jax

from . import jax_hook, jax_lowering, jax_plan, jax_twin
from .calls import CurvePoint, memory_curve
from .jax_lowering import Lowering
from .jax_options import Options, warn
from .jax_plan import MemoryReport
from .jax_planner import Planner
from .xla import advise

jax_lowering.exclude_from_tracebacks(__file__)

_Numbers = int | Sequence[int] | None
_Names = str | Iterable[str] | None


@overload
def jit(fun: Callable[..., Any], /, *,
        donate_argnums: _Numbers = ..., donate_argnames: _Names = ..., static_argnums: _Numbers = ..., static_argnames: _Names = ...,
        in_shardings: Any = ..., out_shardings: Any = ..., keep_unused: bool = ..., device: Any = ..., backend: str | None = ...,
        inline: bool = ..., compiler_options: dict[str, Any] | None = ..., options: Options | None = ...) -> Jitted: ...
@overload
def jit(fun: None = ..., /, *,
        donate_argnums: _Numbers = ..., donate_argnames: _Names = ..., static_argnums: _Numbers = ..., static_argnames: _Names = ...,
        in_shardings: Any = ..., out_shardings: Any = ..., keep_unused: bool = ..., device: Any = ..., backend: str | None = ...,
        inline: bool = ..., compiler_options: dict[str, Any] | None = ..., options: Options | None = ...) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit(fun: Callable[..., Any] | None = None, /, *, options: Options | None = None, **given: Any) -> Any:
    """Like jax.jit, but the program is rewritten so that it needs less memory.

    Every argument but `options` (an `hlo_opt.Options`) is handed to jax.jit and means the same there. Each signature is lowered by JAX,
    rewritten, and compiled by XLA; with `Options(judge="xla")`, the default, the original is compiled as well unless the memory model is certain of it, and the
    smaller of the two is kept. Calls are dispatched by JAX itself; callbacks and other side effects stay where they are. Within an outer jit, grad or vmap the function is inlined as a jitted function is, and the outer
    program decides. What cannot be rewritten runs as under jax.jit, with an `hlo_opt.FallbackWarning` that names the reason.

    The result is called like the function and has `lower(...)`, `memory_report(...)` and `explain(...)`; as a decorator, with or without
    arguments: `@hlo_opt.jit`, `@hlo_opt.jit(donate_argnums=0)`.
    """
    if fun is None:
        return functools.partial(jit, options=options, **given)
    return Jitted(fun, options or Options(), given)


class Jitted:
    """A function made by `hlo_opt.jit`. Attributes not listed here are those of the function that jax.jit gives."""

    def __init__(self, fun, options: Options, given: dict):
        # What jax.jit has against a function it says at once.
        functools.update_wrapper(self, jax.jit(fun))
        # JAX shares what it traced between all jits of one function, and jax.jit(fun) must stay what it is.
        twin = jax_twin.twin(fun, options, given)
        self._plain: Any = jax.jit(twin, **given)
        self._fun, self._given, self._planner = fun, given, twin.planner
        _attach(getattr(self._plain, "__name__", "function"))

    def __call__(self, *args, **kwargs):
        token = jax_hook.planner.set(self._planner)
        try:
            return self._plain(*args, **kwargs)
        finally:
            jax_hook.planner.reset(token)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name):
        if name == "_plain":
            raise AttributeError(name)
        return getattr(self._plain, name)

    def __reduce__(self):
        return _restored, (self._fun, self._planner.options, self._given)

    def __repr__(self) -> str:
        return f"<hlo_opt.jit of {self._fun!r}>"

    def trace(self, *args, **kwargs):
        """As of jax.jit."""
        return self._plain.trace(*args, **kwargs)

    @property
    def reports(self) -> tuple[MemoryReport, ...]:
        """What became of each signature called so far, in order."""
        return tuple(self._planner.reports)

    def lower(self, *args, **kwargs) -> Lowered:
        """Lowers for these arguments, of which shapes and dtypes count (`jax.ShapeDtypeStruct` will do). Nothing is compiled yet."""
        return Lowered(self._plain.lower(*args, **kwargs), self._planner)

    def memory_report(self, *args, **kwargs) -> MemoryReport:
        """Bytes before and after for these arguments (shapes will do); without arguments, of the signature met last.

        Compiles where the judge is XLA; allocates nothing of the program's size. Raises ValueError if nothing was called yet.
        """
        if args or kwargs:
            return self.lower(*args, **kwargs).memory_report()
        if not self.reports:
            raise ValueError(f"`{self.__name__}` was not called yet: call it or give arguments (shapes will do)")
        return self.reports[-1]

    def explain(self, *args, **kwargs) -> str:
        """Which source lines own the peak, what was done about it and what was refused, as text. Arguments as in `memory_report`."""
        return jax_plan.explanation(self.memory_report(*args, **kwargs))

    def memory_curve(self, *args, **kwargs) -> list[CurvePoint]:
        """What memory costs in time for these arguments (shapes will do), as `hlo_opt.memory_curve` says it; nothing is compiled."""
        return self.lower(*args, **kwargs).memory_curve()

    def advise(self, *args, **kwargs) -> list[dict[str, Any]]:
        """Flags and options of XLA that make the program smaller, for these arguments (shapes will do), the unchanged setting first.

        The rows are those of `python -m hlo_opt.xla advise --json`, which compiles the program dozens of times, in a process of its own.
        """
        lowering = Lowering(self._plain.lower(*args, **kwargs)._lowering)
        if lowering.devices > 1:
            raise ValueError(f"`{self.__name__}` is partitioned: settings are compared for programs of one device")
        return advise.of_text(lowering.text(), lowering.target)


def _restored(fun, options, given):
    return Jitted(fun, options, given)


def _attach(name: str) -> None:
    """Sees to it that programs can be planned; warns if this jax does not let us."""
    reason = jax_lowering.unsupported()
    if reason is None:
        jax_hook.attach()
    else:
        warn(f"hlo_opt.jit runs `{name}` as jax.jit does: {reason}")


class Lowered(jax.stages.Lowered):
    """A lowered program that is rewritten when it is compiled."""

    def __init__(self, lowered: jax.stages.Lowered, planner: Planner):
        for name in jax.stages.Lowered.__slots__:
            setattr(self, name, getattr(lowered, name))
        self._planner = planner

    def compile(self, *args, **kwargs):
        """Compiles the better form; gives a jax.stages.Compiled."""
        token = jax_hook.planner.set(self._planner)
        try:
            return super().compile(*args, **kwargs)
        finally:
            jax_hook.planner.reset(token)

    def memory_report(self) -> MemoryReport:
        """Bytes before and after; compiles where the judge is XLA."""
        return self._planner.plan(Lowering(self._lowering))

    def explain(self) -> str:
        """Which source lines own the peak, what was done about it and what was refused, as text."""
        return jax_plan.explanation(self.memory_report())

    def memory_curve(self) -> list[CurvePoint]:
        """What memory costs in time, by the models. Of a program that was rewritten already, that of its rewritten form."""
        lowering = Lowering(self._lowering)
        return memory_curve(lowering.searched(), **self._planner.options.of_call(lowering.target))


def wrap_lowered(lowered, *, options: Options | None = None) -> Lowered:
    """Rewrites what `jax.jit(f).lower(...)` gave, for those with a pipeline of their own. `lowered` itself and its function stay as they are.

    Raises ValueError for a jax that is not supported.
    """
    reason = jax_lowering.unsupported()
    if reason:
        raise ValueError(reason)
    jax_hook.attach()
    private = Lowered(lowered, Planner(options or Options()))
    private._lowering = Lowering(lowered._lowering).private().inner
    return private
