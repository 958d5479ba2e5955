"""Callbacks, prints, checks and ordered effects stay in a rewritten program, in their order."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify, io_callback

import hlo_opt
from programs import EAGER, arguments, gradient, rewritten, same


@pytest.fixture
def seen():
    """What callbacks were called with."""
    return []


def both_ways(function, seen, *args):
    """Runs a program three times, twice rewritten; what its callbacks saw must be the same each time."""
    want = jax.jit(function)(*args)
    jax.effects_barrier()
    saw, seen[:] = list(seen), []
    f = hlo_opt.jit(function, options=EAGER)
    for _ in range(2):
        same(f(*args), want)
        jax.effects_barrier()
        assert seen == saw
        seen.clear()
    rewritten(f.memory_report())
    assert len(f.reports) == 1


def test_pure_callbacks(seen):
    def called(x, idx):
        y = jax.pure_callback(lambda a: np.sin(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return gradient(y, idx) * y

    both_ways(called, seen, *arguments(1 << 14))


@pytest.mark.parametrize("ordered", [False, True])
def test_callbacks_with_effects(seen, ordered):
    def called(x, idx):
        found = gradient(x, idx)
        io_callback(lambda value: seen.append(float(value)), None, found[0, 0, 0], ordered=ordered)
        if ordered:
            io_callback(lambda value: seen.append(float(value)), None, found[1, 2, 3], ordered=True)
        return found

    both_ways(called, seen, *arguments(1 << 14))


def test_callbacks_in_loops_and_branches(seen):
    def called(x, idx):
        def step(total, number):
            jax.debug.callback(lambda at: seen.append(int(at)), number, ordered=True)
            return total + x[0, 0, 0] * number, total

        found = gradient(x, idx)
        jax.lax.cond(found[0, 0, 0] > 1e9, lambda: jax.debug.callback(lambda: seen.append("large")),
                     lambda: jax.debug.callback(lambda: seen.append("small")))
        return found, jax.lax.scan(step, 0.0, jnp.arange(5))

    both_ways(called, seen, *arguments(1 << 14))


def test_debug_prints(capfd):
    def printed(x, idx):
        jax.debug.print("sum {}", x.sum())
        return gradient(x, idx)

    f = hlo_opt.jit(printed, options=EAGER)
    for _ in range(3):
        f(*arguments(1 << 14))
    jax.effects_barrier()
    rewritten(f.memory_report())
    assert capfd.readouterr().out.count("sum") == 3


def test_checks():
    @functools.partial(checkify.checkify, errors=checkify.user_checks | checkify.index_checks)
    def checked(x, idx):
        checkify.check(jnp.all(x < 3), "too large: {}", x.max())
        return gradient(x, idx)

    f = hlo_opt.jit(checked, options=EAGER)
    x, idx = arguments(1 << 14)
    for factor in (0, 10):
        (mine, found), (theirs, wanted) = f(x * factor, idx % 32), jax.jit(checked)(x * factor, idx % 32)
        assert (mine.get() is None) == (theirs.get() is None) == (factor == 0)
        same(found, wanted)
    rewritten(f.memory_report())


def test_mutable_arrays():
    make = getattr(jax, "new_ref", None) or jax.array_ref
    mine, theirs = (make(jnp.zeros((32, 32, 32))) for _ in range(2))
    x, idx = arguments(1 << 14)

    def changed(ref, x, idx):
        ref[...] += gradient(x, idx)
        return x.sum()

    arguments_of = hlo_opt.jit(changed, options=EAGER), jax.jit(changed)
    closed_over = hlo_opt.jit(lambda *args: changed(mine, *args), options=EAGER), jax.jit(lambda *args: changed(theirs, *args))
    for f, g, args in ((*arguments_of, ((mine,), (theirs,))), (*closed_over, ((), ()))):
        for _ in range(2):
            same(f(*args[0], x, idx), g(*args[1], x, idx))
            same(mine[...], theirs[...])
        rewritten(f.memory_report())
