"""`hlo_opt.jit`: jax.jit with less memory and the same results."""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

import jax

from . import jax_lowering, jax_plan
from .calls import CurvePoint, memory_curve
from .jax_lowering import Lowering
from .jax_options import Options, warn
from .jax_plan import MemoryReport
from .xla import advise

jax_lowering.exclude_from_tracebacks(__file__)

_MISSING: Any = object()
_Numbers = int | Sequence[int] | None
_Names = str | Iterable[str] | None


@overload
def jit(fun: Callable[..., Any], /, *,
        donate_argnums: _Numbers = ..., donate_argnames: _Names = ..., static_argnums: _Numbers = ..., static_argnames: _Names = ...,
        in_shardings: Any = ..., out_shardings: Any = ..., keep_unused: bool = ..., options: Options | None = ...) -> Jitted: ...
@overload
def jit(fun: None = ..., /, *,
        donate_argnums: _Numbers = ..., donate_argnames: _Names = ..., static_argnums: _Numbers = ..., static_argnames: _Names = ...,
        in_shardings: Any = ..., out_shardings: Any = ..., keep_unused: bool = ...,
        options: Options | None = ...) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit(fun: Callable[..., Any] | None = None, /, *, donate_argnums: _Numbers = _MISSING, donate_argnames: _Names = _MISSING,
        static_argnums: _Numbers = _MISSING, static_argnames: _Names = _MISSING, in_shardings: Any = _MISSING, out_shardings: Any = _MISSING,
        keep_unused: bool = _MISSING, options: Options | None = None) -> Any:
    """Like jax.jit, but the program is rewritten so that it needs less memory.

    Every argument but `options` (an `hlo_opt.Options`) is handed to jax.jit and means the same there. Each signature is lowered by JAX,
    rewritten, and compiled by XLA; with `Options(judge="xla")`, the default, the original is compiled as well and the smaller of the two is
    kept. Calls are dispatched by JAX itself. Within an outer jit, grad or vmap the function is inlined as a jitted function is, and the outer
    program decides. What cannot be rewritten runs as under jax.jit, with an `hlo_opt.FallbackWarning` that names the reason.

    The result is called like the function and has `lower(...)`, `memory_report(...)` and `explain(...)`; as a decorator, with or without
    arguments: `@hlo_opt.jit`, `@hlo_opt.jit(donate_argnums=0)`.
    """
    given = dict(donate_argnums=donate_argnums, donate_argnames=donate_argnames, static_argnums=static_argnums,
                 static_argnames=static_argnames, in_shardings=in_shardings, out_shardings=out_shardings, keep_unused=keep_unused)
    given = {name: value for name, value in given.items() if value is not _MISSING}
    if fun is None:
        return functools.partial(jit, options=options, **given)
    return Jitted(fun, options or Options(), given)


class Jitted:
    """A function made by `hlo_opt.jit`."""

    def __init__(self, fun, options: Options, given: dict):
        self._fun, self._options, self._given = fun, options, given
        self._lock = threading.RLock()
        self._reports: list[MemoryReport] = []
        # A function of its own: JAX shares what it traced between all jits of one function, and jax.jit(fun) must stay what it is.
        self._plain: Any = jax.jit(_renamed(fun), **given)
        self._call = self._dispatcher()
        # Names only: a wrapped function may carry the attributes of another function made here.
        functools.update_wrapper(self, fun, updated=())

    def __call__(self, *args, **kwargs):
        return self._call(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self):
        return _restored, (self._fun, self._options, self._given)

    def __repr__(self) -> str:
        return f"<hlo_opt.jit of {self._fun!r}>"

    def lower(self, *args, **kwargs) -> Lowered:
        """Lowers for these arguments, of which shapes and dtypes count (`jax.ShapeDtypeStruct` will do). Nothing is compiled yet."""
        return Lowered(Lowering(self._plain.lower(*args, **kwargs)), self._options, self._name(), self._lock)

    def memory_report(self, *args, **kwargs) -> MemoryReport:
        """Bytes before and after for these arguments (shapes will do); without arguments, of the signature met last.

        Compiles where the judge is XLA; allocates nothing of the program's size. Raises ValueError if nothing was called yet.
        """
        if args or kwargs:
            return self.lower(*args, **kwargs).memory_report()
        if not self._reports:
            raise ValueError(f"`{self._name()}` was not called yet: call it or give arguments (shapes will do)")
        return self._reports[-1]

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
        lowering = Lowering(self._plain.lower(*args, **kwargs))
        if lowering.devices > 1:
            raise ValueError(f"`{self._name()}` is partitioned: settings are compared for programs of one device")
        return advise.of_text(lowering.text(), lowering.target)

    def trace(self, *args, **kwargs):
        """As of jax.jit."""
        return self._plain.trace(*args, **kwargs)

    def eval_shape(self, *args, **kwargs):
        """As of jax.jit."""
        return self._plain.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """As of jax.jit: forgets what was compiled."""
        self._plain.clear_cache()
        self._call = self._dispatcher()

    def _name(self) -> str:
        return getattr(self._plain, "__name__", "function")

    def _dispatcher(self):
        """JAX's own dispatch, except that a new signature is rewritten before JAX compiles it."""
        reason = jax_lowering.unsupported()
        if reason is None:
            try:
                return jax_lowering.watched(self._plain, self._prepare)
            except (AttributeError, KeyError, TypeError) as error:
                reason = f"this jax does not work as expected ({type(error).__name__}: {error})"
        warn(f"hlo_opt.jit runs `{self._name()}` as jax.jit does: {reason}")
        return self._plain

    def _prepare(self, args, kwargs) -> None:
        """Rewrites the program of these arguments inside JAX's cache of lowerings, from where JAX then takes and compiles it."""
        if not jax_lowering.can_compile_now():
            return
        try:
            lowered = self._plain.lower(*args, **kwargs)
        except Exception:  # noqa: BLE001 - JAX is about to raise the same error, with the traceback users know
            return
        report = planned(Lowering(lowered), self._options, self._name(), self._lock)
        # A program that JAX does not cache (one with callbacks) comes by at every call.
        if not any(known is report for known in self._reports):
            self._reports.append(report)


def _restored(fun, options, given):
    return Jitted(fun, options, given)


def _renamed(fun):
    """A new function object that does the same under the same name."""
    @functools.wraps(fun, updated=())
    def inner(*args, **kwargs):
        return fun(*args, **kwargs)
    if not hasattr(fun, "__name__"):
        wrapped = getattr(fun, "func", fun)
        inner.__name__ = inner.__qualname__ = getattr(wrapped, "__name__", type(fun).__name__)
    return inner


def planned(lowering: Lowering, options: Options, name: str, lock) -> MemoryReport:
    """The report of a lowering, made when it is first asked for and kept with it."""
    with lock:
        report = getattr(lowering.inner, "_hlo_opt_report", None)
        if report is None:
            report = jax_plan.decide(lowering, options, name)
            lowering.inner._hlo_opt_report = report
        return report


class Lowered:
    """A lowered program that is rewritten when it is compiled. Attributes not listed here are those of jax.stages.Lowered."""

    def __init__(self, lowering: Lowering, options: Options, name: str, lock):
        self._inner, self._options, self._name, self._lock = lowering, options, name, lock

    def __getattr__(self, name):
        return getattr(self._inner.lowered, name)

    def compile(self, *args, **kwargs):
        """Compiles the better form; gives a jax.stages.Compiled."""
        self.memory_report()
        return self._inner.lowered.compile(*args, **kwargs)

    def memory_report(self) -> MemoryReport:
        """Bytes before and after; compiles where the judge is XLA."""
        return planned(self._inner, self._options, self._name, self._lock)

    def explain(self) -> str:
        """Which source lines own the peak, what was done about it and what was refused, as text."""
        return jax_plan.explanation(self.memory_report())

    def memory_curve(self) -> list[CurvePoint]:
        """What memory costs in time, by the models. Of a program that was rewritten already, that of its rewritten form."""
        return memory_curve(self._inner.program(), **self._options.of_call(self._inner.target))


def wrap_lowered(lowered, *, options: Options | None = None) -> Lowered:
    """Rewrites what `jax.jit(f).lower(...)` gave, for those with a pipeline of their own. `lowered` itself and its function stay as they are.

    Raises ValueError for a jax that is not supported.
    """
    reason = jax_lowering.unsupported()
    if reason:
        raise ValueError(reason)
    private = Lowering(lowered).private()
    name = getattr(private.inner, "_name", "function").removeprefix("jit_")
    return Lowered(private, options or Options(), name, threading.RLock())
