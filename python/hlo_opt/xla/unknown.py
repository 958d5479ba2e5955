"""Operations of HLO that XLA's own way back to StableHLO does not know (it writes `mhlo.unknown`), spelled as JAX spells them.

Of the operations that jaxlib 0.10.2 prints as HLO this is one: `mulhi`, the upper half of a product, in every key of philox.
"""
from __future__ import annotations

import re

_UNKNOWN = '"mhlo.unknown"'
_PAIR = re.compile(_UNKNOWN + r"\((%[^\s,()]+), (%[^\s,()]+)\) : \((tensor<[^>]*>), (tensor<[^>]*>)\) -> (tensor<[^>]*>)")
_INTEGERS = re.compile(r"tensor<(\d+x)*u?i\d+>$")
_MULHI = re.compile(r" mulhi\(")


def spelled(text: str, program) -> str:
    """`text`, the StableHLO of a computation, with `chlo.mulhi` where it says unknown; as it is where anything else may be meant."""
    if _UNKNOWN not in text:
        return text
    known = len(_MULHI.findall(program.as_hlo_text()))
    return _PAIR.sub(_product, text) if known == text.count(_UNKNOWN) else text


def _product(found: re.Match) -> str:
    one, other, *types = found.groups()
    if len(set(types)) > 1 or not _INTEGERS.match(types[0]):
        return found[0]
    return f"chlo.mulhi {one}, {other} : {types[0]}, {types[1]} -> {types[2]}"
