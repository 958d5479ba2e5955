"""A second function object for a function, so that JAX keeps what it traced and compiled of the two apart.

JAX's caches know a function by its object, weakly. A twin therefore lives as long as its function, is the same one for the same options, and does not
keep the function alive: a function that is jitted again compiles nothing again, and what it closes over is freed with it.
"""
from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from . import jax_lowering
from .jax_options import Options
from .jax_planner import Planner

jax_lowering.exclude_from_tracebacks(__file__)


class Twin:
    """Does what a function does, under its name. `planner` is for the programs that come of it."""

    def __init__(self, fun, get: Callable[[], Any], options: Options):
        self._get = get
        wrapped = getattr(fun, "func", fun)
        self.__name__ = getattr(fun, "__name__", None) or getattr(wrapped, "__name__", type(fun).__name__)
        self.planner = Planner(options, self.__name__)
        self.__qualname__ = getattr(fun, "__qualname__", self.__name__)
        self.__module__ = getattr(fun, "__module__", __name__)
        self.__doc__ = getattr(fun, "__doc__", None)

    def __call__(self, *args, **kwargs):
        return self._get()(*args, **kwargs)

    @property
    def __wrapped__(self):
        """The function, from which JAX takes signature and source lines."""
        return self._get()


_twins: weakref.WeakKeyDictionary[Any, dict[Hashable, Twin]] = weakref.WeakKeyDictionary()


def twin(fun: Any, options: Options, given: dict[str, Any]) -> Twin:
    """The twin of a function for these options and arguments of jit. Only plain functions are known again; another object gets a twin for this one time."""
    key = options, tuple(sorted(given.items()))
    if not isinstance(fun, types.FunctionType) or not _is_hashable(key):
        return Twin(fun, lambda: fun, options)
    return _twins.setdefault(fun, {}).setdefault(key, Twin(fun, weakref.ref(fun), options))


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
