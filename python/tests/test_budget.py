"""hlo_opt.jit with a budget: XLA's own figures say whether it is met."""
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_opt

LAYERS, ROWS, WIDTH = 12, 4096, 128


def network(weights, rows):
    for weight in weights:
        rows = jnp.tanh(rows @ weight)
    return jnp.mean(rows**2)


def step(weights, rows):
    loss, gradients = jax.value_and_grad(network)(weights, rows)
    return [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)], loss


def arguments(seed=0):
    rng = np.random.default_rng(seed)
    weights = [jnp.asarray(rng.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5, jnp.float32) for _ in range(LAYERS)]
    return weights, jnp.asarray(rng.standard_normal((ROWS, WIDTH)), jnp.float32)


def figures():
    """XLA's bytes of the step as written: in all, and the floor."""
    stats = jax.jit(step).lower(*arguments()).compile().memory_analysis()
    floor = stats.argument_size_in_bytes + stats.output_size_in_bytes
    return floor + stats.temp_size_in_bytes, floor


def test_a_budget_of_half_the_temporaries_is_met():
    total, floor = figures()
    budget = (total + floor) // 2
    f = hlo_opt.jit(step, options=hlo_opt.Options(budget=budget))
    mine, theirs, (weights, rows) = jax.tree.map(lambda x: x, arguments()[0]), arguments()[0], arguments()
    for _ in range(5):
        mine, loss = f(mine, rows)
        theirs, wanted = jax.jit(step)(theirs, rows)
        np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    report = f.memory_report()
    assert report.kept == "rewritten" and report.before.total == total, f.explain()
    assert report.after.total <= budget, f.explain()
    assert f._plain.lower(weights, rows).compile().memory_analysis().temp_size_in_bytes == report.after.temporaries


def test_a_program_that_fits_stays_as_it_is():
    total, _ = figures()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = hlo_opt.jit(step, options=hlo_opt.Options(budget=total)).memory_report(*arguments())
    assert report.kept == "original" and "fits its budget" in str(report)


def test_a_budget_that_no_form_meets_is_said_and_the_smallest_runs():
    total, floor = figures()
    with pytest.warns(hlo_opt.BudgetWarning, match="over its budget") as caught:
        f = hlo_opt.jit(step, options=hlo_opt.Options(budget=floor // 2))
        f(*arguments())
    report = f.memory_report()
    assert report.kept == "rewritten" and floor < report.after.total < total
    assert caught[0].filename == __file__
