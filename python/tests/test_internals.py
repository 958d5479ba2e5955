"""Rule: what is taken of JAX that JAX does not promise stands in one file, and this version of JAX has all of it."""
import functools
import pathlib
import re

import hlo_opt
import jax
import jax.numpy as jnp
import pytest
from hlo_opt import jax_internals

PACKAGE = pathlib.Path(hlo_opt.__file__).parent


@pytest.mark.parametrize("name", jax_internals.NAMES)
def test_this_jax_has_it(name):
    assert getattr(jax_internals, name) is not None


@pytest.mark.parametrize("dotted", jax_internals.ATTRIBUTES)
def test_and_what_is_read_of_it(dotted):
    first, *rest = dotted.split(".")
    functools.reduce(getattr, rest, getattr(jax_internals, first))


def test_programs_have_what_is_read_of_them():
    program = jax.jit(jnp.sin).lower(jnp.ones(4))._lowering
    missing = [name for name in jax_internals.OF_PROGRAMS if not hasattr(program, name)]
    assert not missing


def test_no_other_file_imports_private_modules():
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.name != "jax_internals.py":
            assert not re.search(r"\bjax(lib)?\._[a-z]", file.read_text(encoding="utf-8")), file


def test_a_name_that_is_not_listed_is_none():
    with pytest.raises(AttributeError, match="nothing_private"):
        jax_internals.nothing_private  # noqa: B018
