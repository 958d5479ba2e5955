"""How much a program makes of the rounding of its products: the module itself, each product of floats off by a unit or two in the last place or not.

XLA joins a product and a sum into one operation with one rounding, or does not, by what else stands in their kernel; so two compilations of one
module may differ by a rounding of any product. Where products cancel to nothing (`x * y - x * y`), that is all there is to see, and neither the size of the
result nor double precision, which is exact there, says how large it may be. Stochastic arithmetic does: Vignes, "A stochastic arithmetic for reliable
scientific computation" (1993).
"""
import random
import re

import numpy as np

import compare
import jobs
from hlo_opt.xla import truth

# As many samples as the CESTAC method takes.
DRAWS = 3
# 1, and what is 2^-23 off it either way: a product then is one or two units in the last place off.
FACTORS = ("1", "1.00000012", "0.99999988")
PRODUCT = re.compile(r"^(\s*(?:ROOT )?)(%[^\s=]+) = (f32\[([\d,]*)\]\S*) multiply\((.*)$")


def within(jax, text, source, data, expected, results):
    """Whether each of the results is off by no more than what products rounded otherwise make of it."""
    allowed = np.zeros(len(expected))
    for draw in range(DRAWS):
        shaken = jobs.Runner(jax, jittered(text, draw), source).results(data)
        allowed = np.maximum(allowed, list(map(compare.relative_error, expected, shaken)))
    # What is no number in one draw and a number in another tells nothing.
    errors = map(compare.relative_error, expected, results)
    return all(error == 0.0 or (most < compare.NOT_COMPARABLE and error <= truth.ALLOWED * most) for error, most in zip(errors, allowed))


def jittered(text, draw):
    """The module's text with every product of f32 multiplied by 1 or a neighbour of it, drawn for each product apart."""
    rng = random.Random(f"jitter {draw}")
    lines = []
    for number, line in enumerate(text.splitlines()):
        found = PRODUCT.match(line)
        lines += shaken_lines(found, f"jitter.{number}", rng.choice(FACTORS)) if found else [line]
    return "\n".join(lines) + "\n"


def shaken_lines(found, name, factor):
    """The product under another name, and its old name for what the factor makes of it."""
    indent, product, shape, dimensions, rest = found.groups()
    space = indent.removesuffix("ROOT ")
    lines = [f"{space}%{name}.exact = {shape} multiply({rest}", f"{space}%{name}.one = f32[] constant({factor})"]
    spread = f"%{name}.one"
    if dimensions:
        spread = f"%{name}.factor"
        lines.append(f"{space}{spread} = {shape} broadcast(%{name}.one), dimensions={{}}")
    return [*lines, f"{indent}{product} = {shape} multiply(%{name}.exact, {spread})"]
