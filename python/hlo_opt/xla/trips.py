"""How often a loop of an optimized module runs: what the compiler noted, else what a counter from a constant to a constant tells."""
from __future__ import annotations

import re

from .optimized import Computation, Instruction, Module

_KNOWN = re.compile(r'known_trip_count"?[:=]\s*\{\s*"?n"?[:=]\s*"?(\d+)')
# They hand on a number as it is.
_SAME = {"copy", "bitcast", "copy-start", "copy-done", "reshape", "opt-barrier"}
# In the order of the text: what is compared, the direction, by how much the last counter may reach the bound.
_DIRECTIONS = {"LT": 0, "LE": 1}


def count(loop: Instruction, around: Computation, module: Module) -> int | None:
    """Rounds of a loop; None if nothing tells them."""
    known = _KNOWN.search(loop.attributes)
    return int(known[1]) if known else Counter(loop, around, module).rounds()


class Counter:
    """A loop whose condition compares an element of its state with a bound, and whose body adds a constant to that element."""

    def __init__(self, loop: Instruction, around: Computation, module: Module):
        self.around, self.module = around, module
        self.start = around.by_name.get(loop.operands[0]) if loop.operands else None
        self.condition = module.computations.get(loop.called("condition") or "")
        self.body = module.computations.get(loop.called("body") or "")

    def rounds(self) -> int | None:
        compare = self.condition.root if self.condition and self.body and self.start else None
        if compare is None:
            return None
        more = self._direction(compare)
        if more is None or len(compare.operands) != 2:
            return None
        place = self._place(compare.operands[0])
        bound = self._bound(compare.operands[1])
        first = self._initial(place) if place is not None else None
        step = self._step(place) if place is not None else None
        if None in (bound, first, step) or step <= 0:
            return None
        return max(0, -(-(bound + more - first) // step))

    def _direction(self, compare: Instruction) -> int | None:
        """None unless the condition is a comparison, or a fusion of nothing else, of its operands in their order."""
        if compare.opcode == "fusion":
            fused = self.module.computations.get(compare.called("calls") or "")
            inner = fused.root if fused else None
            if inner is None or any(found.opcode not in ("parameter", "compare") for found in fused.instructions):
                return None
            order = [fused.by_name[name].literal for name in inner.operands if name in fused.by_name]
            return self._direction(inner) if order == ["0", "1"] else None
        found = re.search(r"direction=(\w+)", compare.attributes)
        return _DIRECTIONS.get(found[1]) if compare.opcode == "compare" and found else None

    def _place(self, name: str) -> int | None:
        return element(self.condition.by_name.get(name))

    def _bound(self, name: str) -> int | None:
        made = self.condition.by_name.get(name)
        place = element(made)
        if place is None:
            return constant(made, self.condition)
        # A bound that the loop carries stays what it was.
        kept = self.body.root.operands[place:place + 1] if self.body.root else []
        same = kept and element(self.body.by_name.get(kept[0])) == place
        return self._initial(place) if same else None

    def _initial(self, place: int) -> int | None:
        if self.start.opcode != "tuple" or place >= len(self.start.operands):
            return None
        return constant(self.around.by_name.get(self.start.operands[place]), self.around)

    def _step(self, place: int) -> int | None:
        root = self.body.root
        if root is None or root.opcode != "tuple" or place >= len(root.operands):
            return None
        added = behind(self.body.by_name.get(root.operands[place]), self.body)
        inside, names = self.body, added.operands if added else []
        if added and added.opcode == "fusion":
            inside = self.module.computations.get(added.called("calls") or "", self.body)
            arithmetic = [found for found in inside.instructions if found.opcode not in ("parameter", "constant", "bitcast", "broadcast")]
            if len(arithmetic) != 1:
                return None
            # The counter comes in by one parameter, the step by another or from within.
            outer = dict(zip((str(number) for number in range(len(names))), names))
            added, names = arithmetic[0], [self._outer(inside, name, outer) for name in arithmetic[0].operands]
        if added is None or added.opcode != "add" or len(names) != 2:
            return None
        values = [self._value(inside, name) for name in names]
        counters = [element(behind(self.body.by_name.get(name), self.body)) == place for name in names]
        return next((value for value, other in zip(values, reversed(counters)) if value is not None and other), None)

    def _outer(self, inside: Computation, name: str, outer: dict[str, str]) -> str:
        found = behind(inside.by_name.get(name), inside)
        return outer.get(found.literal, name) if found and found.opcode == "parameter" else found.name if found else name

    def _value(self, inside: Computation, name: str) -> int | None:
        return constant(inside.by_name.get(name) or self.body.by_name.get(name), inside if name in inside.by_name else self.body)


def behind(found: Instruction | None, around: Computation) -> Instruction | None:
    """What made a value, copies left out."""
    while found is not None and found.opcode in _SAME and found.operands:
        found = around.by_name.get(found.operands[0])
    return found


def constant(found: Instruction | None, around: Computation) -> int | None:
    made = behind(found, around)
    return int(made.literal) if made and made.opcode == "constant" and re.fullmatch(r"-?\d+", made.literal) else None


def element(found: Instruction | None) -> int | None:
    """Which element of the loop's state this is."""
    if found is None or found.opcode != "get-tuple-element":
        return None
    match = re.search(r"index=(\d+)", found.attributes)
    return int(match[1]) if match else None
