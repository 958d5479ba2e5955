"""The results in double precision, as a judge over two single-precision programs that round differently."""
import re

import numpy as np

from . import compare

# A rewritten program may be twice as far from the truth as its original: both are draws of the same rounding noise.
ALLOWED = 2.0
# An original that is farther off than this tells nothing about its rewritten form.
MEANINGLESS = 1e-2


def doubled(text):
    """The module with every f32 turned into f64; constants keep their values."""
    return re.sub(r"\bf32\[", "f64[", text)


def results(runner, data):
    """The double-precision results; `runner` runs the doubled module on `data`."""
    return runner.results([array.astype(np.float64) if array.dtype == np.float32 else array for array in data])


def own_error(true, before):
    """How far the original is from the truth, over the scale of the worst array."""
    return max((compare.relative_error(one, array.astype(one.dtype)) for one, array in zip(true, before)), default=0.0)


def as_near(true, before, after):
    """Whether `after` is as near the double-precision results `true` as `before` is."""
    return all(near(*arrays) for arrays in zip(true, before, after))


def near(true, before, after):
    own, new = (compare.relative_error(true, array.astype(true.dtype)) for array in (before, after))
    return own <= MEANINGLESS and new <= max(compare.tolerance(np.dtype(np.float32)), ALLOWED * own)
