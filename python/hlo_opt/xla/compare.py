"""Compare two lists of result arrays: bit for bit as raw bytes, and by relative error."""
import numpy as np

# JSON has no infinity: the largest double stands for "not comparable" (NaN against a number, other shape).
NOT_COMPARABLE = float(np.finfo(np.float64).max)


def compare(left, right):
    """Facts about the difference of two runs; results are lists of numpy arrays."""
    if [(a.shape, a.dtype) for a in left] != [(b.shape, b.dtype) for b in right]:
        return {"bitwise": False, "tolerated": False, "max_rel_error": NOT_COMPARABLE, "differing_bytes": 0,
                "nan_payload_only": False, "first_difference": shapes_text(left, right)}
    differing, first, only_nan, error, tolerated = 0, None, True, 0.0, True
    for number, (a, b) in enumerate(zip(left, right)):
        count, place, nan_only = bytes_that_differ(a, b)
        error_here = relative_error(a, b)
        error, tolerated = max(error, error_here), tolerated and error_here <= tolerance(a.dtype)
        if count:
            only_nan = only_nan and nan_only
            first = first or {"result": number, **place}
        differing += count
    return {"bitwise": differing == 0, "tolerated": tolerated, "max_rel_error": error, "differing_bytes": differing,
            "nan_payload_only": bool(differing) and only_nan, "first_difference": first}


def tolerance(dtype):
    """Largest relative error that the inner order of a sum explains: 1e-5 for f32 (docs/grades.md), which is 84 roundings. Types narrower than
    that are rounded once or twice at the end of sums in f32."""
    inexact = np.issubdtype(dtype, np.inexact) or "float" in dtype.name
    if not inexact:
        return 0.0  # integers and flags are equal or wrong
    import ml_dtypes
    part = np.dtype(f"f{dtype.itemsize // 2}") if np.issubdtype(dtype, np.complexfloating) else dtype
    return (84 if part.itemsize >= 4 else 4) * float(ml_dtypes.finfo(part).eps)


def shapes_text(left, right):
    describe = lambda arrays: " ".join(f"{a.dtype}{list(a.shape)}" for a in arrays)  # noqa: E731
    return {"message": f"result shapes differ: {describe(left)} against {describe(right)}"}


def bytes_that_differ(a, b):
    """(count, place of the first one, whether both sides are NaN wherever bytes differ)."""
    raw_a, raw_b = raw(a), raw(b)
    unequal = raw_a != raw_b
    count = int(unequal.sum())
    if not count:
        return 0, None, True
    elements = np.flatnonzero(unequal.any(axis=1))
    at = int(elements[0])
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    place = {"index": [int(k) for k in np.unravel_index(at, a.shape)],
             "before": str(flat_a[at]), "after": str(flat_b[at]),
             "before_bytes": raw_a[at].tobytes().hex(), "after_bytes": raw_b[at].tobytes().hex(),
             "elements": int(len(elements))}
    nan_only = bool(np.all(is_nan(flat_a[elements]) & is_nan(flat_b[elements])))
    return count, place, nan_only


def raw(array):
    """One row of bytes per element."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, array.dtype.itemsize)


def is_nan(values):
    # Only floats differ from themselves; this also holds for the types of ml_dtypes.
    return values != values


def relative_error(a, b):
    """Largest difference over the array's own scale (its largest finite magnitude)."""
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    if a.dtype == np.bool_ or not a.size:
        return 0.0 if np.array_equal(a, b) else NOT_COMPARABLE
    a, b = a.astype(wide), b.astype(wide)
    same = (a == b) | (is_nan(a) & is_nan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.all(same | finite):
        return NOT_COMPARABLE
    if np.all(same):
        return 0.0
    scale = max(float(np.max(np.abs(a[finite]))), float(np.finfo(np.float32).tiny))
    return float(np.max(np.abs(a - b)[finite]) / scale)
