"""Operations of HLO that XLA's own way back to StableHLO does not know (it writes `mhlo.unknown`), spelled as JAX spells them.

Of the operations that jaxlib 0.10.2 prints as HLO this is one: `mulhi`, the upper half of a product, in every key of philox.
"""
from __future__ import annotations

import re

_UNKNOWN = '"mhlo.unknown"'
_PAIR = re.compile(_UNKNOWN + r"\((%[^\s,()]+), (%[^\s,()]+)\) : \((tensor<[^>]*>), (tensor<[^>]*>)\) -> (tensor<[^>]*>)")
_INTEGERS = re.compile(r"tensor<(\d+x)*u?i\d+>$")
_MULHI = re.compile(r" mulhi\(")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([^\s(]+) [^\n]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_INSIDE = re.compile(r"(?:condition|body|to_apply|calls|select|scatter|true_computation|false_computation)=%?([^\s,{}]+)|branch_computations=\{([^}]*)\}")
_FUNCTION = re.compile(r'"func\.func"\(\)[^\n]*sym_name = "([^"]*)"')


def spelled(text: str, program) -> str:
    """`text`, the StableHLO of a computation, with `chlo.mulhi` where it says unknown; as it is where anything else may be meant."""
    if _UNKNOWN not in text:
        return text
    known = _upper_halves(program.as_hlo_text())
    before, *functions = _FUNCTION.split(text)
    pairs = zip(functions[::2], functions[1::2])
    is_known = _UNKNOWN not in before and all(body.count(_UNKNOWN) == known.get(name, 0) for name, body in pairs)
    return _PAIR.sub(_product, text) if is_known else text


def _upper_halves(hlo: str) -> dict[str, int]:
    """How many upper halves the function of each computation shows, by its name in StableHLO. The bodies of loops and branches stand in each function that
    has the loop or the conditional, however often that is, and what is called has a function of its own."""
    found: dict[str, int] = {}
    for is_entry, name, lines in _COMPUTATION.findall(hlo):
        # Callees stand in front of their callers.
        found[name] = sum(len(_MULHI.findall(line)) + sum(found.get(inside, 0) for inside in _written_out(line)) for line in lines.splitlines())
        if is_entry:
            found["main"] = found[name]
    return found


def _written_out(line: str) -> list[str]:
    """The computations that an instruction shows in itself."""
    if " call(" in line:
        return []
    return [name.strip().lstrip("%") for one, several in _INSIDE.findall(line) for name in (one or several).split(",")]


def _product(found: re.Match) -> str:
    one, other, *types = found.groups()
    if len(set(types)) > 1 or not _INTEGERS.match(types[0]):
        return found[0]
    return f"chlo.mulhi {one}, {other} : {types[0]}, {types[1]} -> {types[2]}"
