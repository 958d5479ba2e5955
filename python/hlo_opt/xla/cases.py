"""Random inputs with the hard cases in them: indices around every bound, floats around every special value.

Case 0 is tame (indices in range, finite floats), case 1 adds negative indices and -0.0, case 2 is wild
(everything); later cases draw the mixture at random.
"""
import re

import numpy as np

_DEFINITION = re.compile(r"%?([\w.\-]+) = \w+\[([\d,]*)\]\S* ([\w\-]+)\(([^)]*)\)")
_INDEXED = {"scatter", "gather", "dynamic-slice", "dynamic-update-slice"}


def table_dims(text):
    """Shapes of everything that is indexed in the module: the tables of its gathers and scatters."""
    shapes, tables = {}, []
    found = _DEFINITION.findall(text)
    for name, dims, _, _ in found:
        shapes[name] = tuple(int(d) for d in dims.split(",") if d)
    for _, _, opcode, operands in found:
        if opcode in _INDEXED:
            table = shapes.get(operands.split(",")[0].split()[-1].lstrip("%"))
            if table and table not in tables:
                tables.append(table)
    return tables or [(8,)]


def inputs(shapes, text, case, seed):
    """One numpy array per parameter of the module; the same (seed, case) gives the same data."""
    tables = table_dims(text)
    return [array(np.random.default_rng([seed, case, number]), shape, tables, case)
            for number, shape in enumerate(shapes)]


def array(rng, shape, tables, case):
    dtype, dims = np.dtype(shape.numpy_dtype()), tuple(shape.dimensions())
    if dtype == np.bool_ and not dims:
        # A lone flag usually picks a branch: alternate, so that two cases see both.
        return np.array(case % 2 == 0)
    if dtype == np.bool_:
        return rng.integers(0, 2, dims).astype(dtype)
    if is_integer(dtype):
        return indices(rng, dims, dtype, tables, case)
    if np.issubdtype(dtype, np.complexfloating):
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return np.asarray(floats(rng, dims, part, case) + 1j * floats(rng, dims, part, case), dtype)
    return floats(rng, dims, dtype, case)


def is_integer(dtype):
    # The small integers of ml_dtypes (int4 ...) are no numpy integers, but count as such here.
    return np.issubdtype(dtype, np.integer) or "int" in dtype.name


def column_limits(dims, tables):
    """The exclusive upper bound of a valid index, per column when a table has one dim per column."""
    for table in tables:
        if dims and dims[-1] == len(table) > 1:
            return np.array(table, np.int64)
    return np.array(min(min(table) for table in tables), np.int64)


def indices(rng, dims, dtype, tables, case):
    limit = np.broadcast_to(column_limits(dims, tables), dims).astype(np.int64)
    values = rng.integers(0, limit) if limit.size else limit
    low, high = bounds(dtype)
    wild = wildness(rng, case)
    values = replace(rng, values, rng.integers(-limit, 0) if limit.size else limit, wild["negative"])
    values = replace(rng, values, rng.integers(-2 * limit - 2, 2 * limit + 2) if limit.size else limit,
                     wild["outside"])
    # The neighbours of every bound, of every table: where an off-by-one would hide.
    every = np.unique([d for table in tables for d in table])
    edges = np.concatenate([every - 1, every, every + 1, -every - 1, -every, -every + 1, [0, -1, low, high]])
    values = replace(rng, values, rng.choice(edges, dims), wild["edges"])
    values = duplicate(rng, values, wild["duplicates"])
    return wrap(values, low, high).astype(dtype)


def bounds(dtype):
    try:
        info = np.iinfo(dtype)
    except ValueError:
        import ml_dtypes
        info = ml_dtypes.iinfo(dtype)
    # int64 carries the values on their way: the top half of u64 is left out.
    return int(info.min), min(int(info.max), np.iinfo(np.int64).max)


def wrap(values, low, high):
    """Bring values that a narrow type cannot hold into its range, modulo its size."""
    span = high - low + 1
    return values if span >= 2**63 else (values - low) % span + low


def wildness(rng, case):
    """Shares of each kind of value for one case."""
    if case == 0:
        return dict(negative=0.0, outside=0.0, edges=0.0, special=0.0, duplicates=0.2)
    if case == 1:
        return dict(negative=0.4, outside=0.0, edges=0.0, special=0.05, duplicates=0.2)
    if case == 2:
        return dict(negative=0.3, outside=0.2, edges=0.2, special=0.3, duplicates=0.3)
    kinds = ("negative", "outside", "edges", "special", "duplicates")
    return {kind: float(rng.choice([0.0, 0.02, 0.3, 0.8])) for kind in kinds}


def replace(rng, values, others, share):
    if share == 0.0 or not values.size:
        return values
    return np.where(rng.random(values.shape) < share, others, values)


def duplicate(rng, values, share):
    """Copy whole rows over others, so that several updates meet in one element."""
    if values.ndim == 0 or values.shape[0] < 2 or share == 0.0:
        return values
    rows = values.shape[0]
    source = np.where(rng.random(rows) < share, rng.integers(0, max(1, rows // 8), rows), np.arange(rows))
    return values[source]


def floats(rng, dims, dtype, case):
    values = rng.standard_normal(dims) * np.exp2(rng.integers(-6, 6, dims))
    values = np.asarray(values, np.float64).astype(dtype)
    share = wildness(rng, case)["special"]
    if share == 0.0 or not values.size:
        return values
    chosen = rng.choice(specials(dtype, case), dims)
    return np.where(rng.random(dims) < share, chosen, values).astype(dtype)


def specials(dtype, case):
    """-0.0 and subnormals; from case 2 on also infinities and NaNs of several payloads."""
    tiny = smallest(dtype)
    values = [np.array([0.0, -0.0, 1.0], dtype), np.array([tiny, -tiny], dtype)]
    if case >= 2:
        values.append(np.array([np.inf, -np.inf, np.nan, -np.nan], np.float64).astype(dtype))
        values.append(payloads(dtype))
    return np.concatenate(values)


def smallest(dtype):
    import ml_dtypes
    return ml_dtypes.finfo(dtype).smallest_subnormal


def payloads(dtype):
    """Quiet NaNs that differ in their low bits."""
    quiet = np.array([np.nan, np.nan, np.nan], np.float64).astype(dtype)
    raw = quiet.view(f"u{dtype.itemsize}") if dtype.itemsize in (2, 4, 8) else None
    if raw is not None:
        raw |= np.array([1, 2, 5], raw.dtype)
    return quiet


# Weights and activations are about so large where programs are trained.
TAME = 0.1


def tamed(values):
    """The same floats on the scale of weights and activations, where a program that saturates on larger ones computes something."""
    wide = np.complex128 if np.iscomplexobj(values) else np.float64
    if is_integer(values.dtype) or values.dtype == np.bool_ or not values.size:
        return values
    size = np.abs(values.astype(wide))
    size = size[np.isfinite(size)]
    scale = float(np.sqrt(np.mean(size**2))) if size.size else 0.0
    return (values.astype(wide) * min(1.0, TAME / scale if scale else 1.0)).astype(values.dtype)
