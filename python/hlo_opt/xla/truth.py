"""The results in double precision, as a judge over two programs of fewer bits that round differently."""
import re

import numpy as np

from . import compare

# A rewritten program may be twice as far from the truth as its original: both are draws of the same rounding noise.
ALLOWED = 2.0
# An original that is farther off than this tells nothing about its rewritten form; of 16 bits half of the scale, since a softmax of `bf16` is off by a tenth.
MEANINGLESS = {True: 1e-2, False: 0.5}


def doubled(text):
    """The module with every float of 16 and 32 bits turned into f64; constants keep their values."""
    return re.sub(r"\b(f32|bf16|f16)\[", "f64[", text)


def results(runner, data):
    """The double-precision results; `runner` runs the doubled module on `data`."""
    return runner.results([array.astype(np.float64) if is_short(array.dtype) else array for array in data])


def is_short(dtype):
    return dtype == np.float32 or dtype.name in ("bfloat16", "float16")


def error_of(true, array):
    """How far an array is from the truth, over its scale."""
    return compare.relative_error(true, array.astype(true.dtype))


def own_error(true, before):
    """How far the original is from the truth, over the scale of the worst array."""
    return max((error_of(one, array) for one, array in zip(true, before)), default=0.0)


def as_near(true, before, after):
    """Whether `after` is as near the double-precision results `true` as `before` is."""
    return all(near(*arrays) for arrays in zip(true, before, after))


def near(true, before, after):
    own, new = (error_of(true, array) for array in (before, after))
    return within(own, new, before.dtype)


def within(own, new, dtype):
    """Whether the error `new` of an array of this type is as small as the error `own` lets expect."""
    return own <= MEANINGLESS[is_wide(dtype)] and new <= max(compare.tolerance(np.dtype(np.float32)), ALLOWED * own)


def is_wide(dtype):
    """Whether floats of this type have 32 bits or more."""
    return dtype.name not in ("bfloat16", "float16")


class Verdict:
    """What all data sets say together: of two draws of the same noise one can be more than twice the other, of the worst of several that is rare."""

    def __init__(self):
        self.errors, self.told, self.noise, self.undecided = {}, True, 0.0, False

    def weigh(self, true, before, after):
        """Notes one data set. False if the original is noise on it, so that it says nothing."""
        found = [(number, error_of(one, a), error_of(one, b), a.dtype) for number, (one, a, b) in enumerate(zip(true, before, after))]
        self.noise = max([self.noise, *(own for _, own, _, _ in found)])
        if any(own > MEANINGLESS[is_wide(dtype)] for _, own, _, dtype in found):
            return False
        for number, own, new, dtype in found:
            one, other, _ = self.errors.get(number, (0.0, 0.0, dtype))
            self.errors[number] = (max(one, own), max(other, new), dtype)
        return True

    def refuse(self, undecided=False):
        """One data set shows a difference that no rounding explains, or, undecided, nothing at all."""
        self.told, self.undecided = False, undecided and (self.told or self.undecided)

    @property
    def near(self):
        return self.told and all(within(*errors) for errors in self.errors.values())
