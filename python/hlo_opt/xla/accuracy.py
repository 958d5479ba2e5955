"""How far two modules of few bits are from double precision, on data of the scales that programs see, and which NaN and infinities they keep."""
import numpy as np

from . import cases, compare, jobs, truth

SCALES = (0.1, 0.3, 1.0)
# One in so many numbers is no number, in the data that ask for these.
RARE = 1000
# An error of fewer numbers than this is one draw, not the largest of many: it is held to the precision of the program, not of the result.
FEW = 100
HALVES = ("bfloat16", "float16")


def accuracy(before, after, seed=0):
    """For each scale and result: its type, its elements, the errors of both modules over the result's scale, and whether the new one is small enough;
    and how many elements of the results are NaN or infinite before and something else after, and the other way round."""
    runners, text = jobs.pair(before, after)
    wide = jobs.doubled(runners[0].jax, text, before)
    if wide is None:
        return {"error": f"{before} has no form in double precision"}
    halves = [shape.numpy_dtype() for shape in runners[0].shapes if np.dtype(shape.numpy_dtype()).name in HALVES]
    rows, lost, gained = [], 0, 0
    for number, scale in enumerate(SCALES):
        data = drawn(runners[0].shapes, text, scale, [seed, number])
        left, right = (runner.results(data) for runner in runners)
        rows += [row(scale, *arrays, halves) for arrays in zip(truth.results(wide, data), left, right) if is_float(arrays[1].dtype)]
        data = [with_specials(array, np.random.default_rng([seed, number, 1, place])) for place, array in enumerate(data)]
        left, right = (runner.results(data) for runner in runners)
        counts = [moved(*arrays) for arrays in zip(left, right)]
        lost, gained = lost + sum(count[0] for count in counts), gained + sum(count[1] for count in counts)
    return {"rows": rows, "lost": lost, "gained": gained, "worse": sum(not found["holds"] for found in rows)}


def is_float(dtype):
    return dtype.kind == "f" or dtype.name in HALVES


def drawn(shapes, text, scale, seed):
    """Normal floats of this scale, and tame values for everything else."""
    tame = cases.inputs(shapes, text, 0, seed[0])
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(array.shape) * scale).astype(array.dtype) if is_float(array.dtype) else array for array in tame]


def row(scale, true, before, after, halves):
    own, new = (truth.error_of(true, array) for array in (before, after))
    least = unit(np.dtype(halves[0]) if halves and before.size < FEW else before.dtype)
    return {"scale": scale, "type": before.dtype.name, "elements": int(before.size), "own": own, "new": new,
            "holds": bool(new <= max(least, truth.ALLOWED * own))}


def unit(dtype):
    """What any form may be off by: one unit in the last place of a number of the result's scale, of 32 bits and more the bound of the grades."""
    import ml_dtypes
    return compare.tolerance(dtype) if truth.is_wide(dtype) else float(ml_dtypes.finfo(dtype).eps)


def with_specials(array, rng):
    if not is_float(array.dtype) or not array.size:
        return array
    flat = array.copy().reshape(-1)
    places = rng.integers(0, flat.size, max(1, flat.size // RARE))
    flat[places] = rng.choice(np.array([np.nan, np.inf, -np.inf]), places.size).astype(flat.dtype)
    return flat.reshape(array.shape)


def moved(before, after):
    """Elements that are NaN or infinite on the left and something else on the right, and the other way round."""
    if not is_float(before.dtype):
        return 0, 0
    before, after = before.astype(np.float64), after.astype(np.float64)
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    special = ~np.isfinite(before)
    return int(np.sum(special & ~same)), int(np.sum(~special & ~np.isfinite(after)))

