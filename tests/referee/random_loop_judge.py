"""Judges what became of random loops: the same numbers for grade bitwise, within rounding for hlo-exact. Runs in a child process."""
import re

import numpy as np

import cases
import compare
import jobs
import xla
from hlo_opt.xla import truth

# Tame, then negative indices, -0.0 and subnormals, then everything: infinities, NaN, indices out of bounds.
CASES = 3
WILD = 2


def judge(before, afters, seed):
    """For each of `afters`, pairs (file, whether the grade is bitwise): what is wrong with it, or an empty text."""
    text = jobs.read(before)
    jax = xla.start()
    jax.config.update("jax_enable_x64", True)
    original = jobs.Runner(jax, text, before)
    runners = [jobs.Runner(jax, jobs.read(file), file) for file, _ in afters]
    described = [str(shape) for shape in original.shapes]
    if any([str(shape) for shape in runner.shapes] != described for runner in runners):
        raise ValueError("the modules take different parameters")
    wrong = [""] * len(afters)
    for case in range(CASES):
        data = cases.inputs(original.shapes, text, case, seed)
        expected = original.results(data)
        if compare.compare(expected, original.results(data))["differing_bytes"]:
            raise ValueError("the program itself gives different results in two runs")
        for number, (runner, (_, bitwise)) in enumerate(zip(runners, afters)):
            results = runner.results(data)
            if all(map(numbers_equal, expected, results)):
                continue
            # Bits of floats that were joined as integers show that something was rounded anew, but not by how much.
            if not bitwise and any(array.dtype.kind in "iu" for array in results):
                continue
            # A product and a sum, contracted, can stay finite where the product alone is infinite: such data tell nothing of rounding.
            if not bitwise and (case == WILD or overflows(expected) or within_rounding(jax, text, before, data, expected, results)):
                continue
            wrong[number] = wrong[number] or f"case {case}: {compare.compare(expected, results)}"
    return wrong


def overflows(results):
    """Whether a program leaves the range of its floats on data that are tame: products of products of many steps."""
    return not all(np.isfinite(np.asarray(array, np.float64)).all() for array in results if array.dtype.kind not in "iuc")


def within_rounding(jax, text, before, data, expected, results):
    """Within the tolerance of the narrowest type of the program, or as near the results in double precision as the original is."""
    allowed = max((compare.tolerance(array.dtype) for array in [*data, *expected]), default=0.0)
    if compare.compare(expected, results)["max_rel_error"] <= allowed:
        return True
    wide = jobs.doubled(jax, re.sub(r"\b(bf16|f16)\[", "f32[", text), before)
    return wide is not None and as_near(truth.results(wide, [widened(array) for array in data]), expected, results, allowed)


def widened(array):
    """Floats of 16 bits as floats of 32."""
    return array.astype(np.float32) if array.dtype.itemsize == 2 and array.dtype.kind not in "iu" else array


def as_near(true, expected, results, allowed):
    """Whether the results are as near the true ones as the original's: off by no more than twice what the original is, each by its worst
    array. The arrays of one program come from the same steps, and some draw less of the rounding noise than others. That holds also where
    noise is all there is (a gradient that cancels to zero)."""
    own, new = (truth.own_error(true, arrays) for arrays in (expected, results))
    return own < compare.NOT_COMPARABLE and new <= max(allowed, truth.ALLOWED * own)


def numbers_equal(a, b):
    """Whether the arrays have the same bits, the sign of zero included, wherever not both have a NaN: payloads of NaN are the processor's."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    same = (compare.raw(a) == compare.raw(b)).all(axis=1)
    return bool(np.all(same | (compare.is_nan(a) & compare.is_nan(b)).reshape(-1)))
