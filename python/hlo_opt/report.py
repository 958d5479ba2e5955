"""What a run found and did, as plain frozen records. All sizes are in bytes. `docs/report.schema.json` describes the JSON they come from."""
from __future__ import annotations

import json
from dataclasses import dataclass, field, fields


@dataclass(frozen=True)
class Buffer:
    """A buffer alive at the peak. `source` is the `file:line` of the program that asked for it, when the module says."""

    instruction: str
    shape: str
    bytes: int
    op_name: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Peak:
    """The program point with the most live bytes."""

    instruction: str
    computation: str
    bytes: int


@dataclass(frozen=True)
class Memory:
    """The memory of a module.

    `total_bytes` is what the compiler allocates; `model` says whether that figure is "exact" (the module carries its schedule), "predicted",
    "rough" (the same for GPUs and TPUs), "live-range" (scheduled for another target) or "xla-assignment" (the compiler's own, from a binary dump).
    `floor` is arguments + outputs - donated arguments: no program with this interface can need less. `largest` are the largest buffers alive
    at the peak, largest first; `aliased` are the donated arguments; `caveats` say what the model does not know about this module. `hidden` is
    what the library call that needs most of it takes for itself while it runs, which the compiler's figures leave out. `host` is what stands in the memory of the host, at most, beside the total.
    """

    total_bytes: int
    model: str
    arguments: int
    outputs: int
    constants: int
    temporaries: int
    floor: int
    peak: Peak
    largest: tuple[Buffer, ...] = ()
    aliased: int = 0
    caveats: tuple[str, ...] = ()
    hidden: int = 0
    host: int = 0


@dataclass(frozen=True)
class Condition:
    """A side condition of a rewrite and what proved it."""

    text: str
    discharged_by: str


@dataclass(frozen=True)
class Rewrite:
    """A change that was made. `grade` says how equal the results stay: bitwise, hlo-exact, reassociate or assume. `source` is the innermost
    line of the user's own files, `detail` the line of the library called there, or the operation's name where no such line is known. Of `kind` "speed"
    are changes that let what others made run faster, for `taken_bytes` of memory."""

    id: int
    pass_name: str
    computation: str
    instruction: str
    grade: str
    saved_bytes: int
    source: str | None
    note: str
    conditions: tuple[Condition, ...] = ()
    detail: str | None = None
    kind: str = "rewrite"
    taken_bytes: int = 0


@dataclass(frozen=True)
class Remark:
    """Something to know that is not a rewrite: `kind` is "missed" (a chance not taken) or "analysis"; `code` is stable (docs/reason-codes.md)."""

    kind: str
    pass_name: str
    instruction: str
    code: str
    message: str
    bytes: int
    source: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Report:
    """Memory before and after, what was rewritten, what was not and why; of a judged run what the compiler said, as the schema describes it."""

    module: str
    target: str
    before: Memory
    after: Memory
    rewrites: tuple[Rewrite, ...] = ()
    remarks: tuple[Remark, ...] = ()
    json: str = field(default="", repr=False)
    judge: dict | None = None
    estimated_slowdown: float | None = None

    @property
    def saved_bytes(self) -> int:
        """Fall of the total, by the model."""
        return self.before.total_bytes - self.after.total_bytes

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Reads the JSON form that `hlo-opt --report x.json` writes."""
        data = json.loads(text)
        return cls(data["module"], data["target"], _memory(data["before"]), _memory(data["after"]),
                   tuple(_rewrite(found) for found in data["rewrites"]),
                   tuple(_record(Remark, found) for found in data["remarks"]), text, data.get("judge"), data.get("estimated_slowdown"))


def _record(kind, data, **parts):
    """The record of a JSON object; keys that a newer tool added are left out."""
    known = {item.name for item in fields(kind)}
    renamed = {("pass_name" if key == "pass" else key): value for key, value in data.items()}
    return kind(**{**{key: value for key, value in renamed.items() if key in known}, **parts})


def _memory(data) -> Memory:
    return _record(Memory, data, peak=_record(Peak, data["peak"]),
                   largest=tuple(_record(Buffer, found) for found in data["largest"]),
                   caveats=tuple(data.get("caveats", ())),
                   hidden=max((call["bytes"] for call in data["details"]["hidden_scratch"]), default=0), host=data.get("host_bytes", 0))


def _rewrite(data) -> Rewrite:
    return _record(Rewrite, data, conditions=tuple(_record(Condition, found) for found in data["conditions"]))
