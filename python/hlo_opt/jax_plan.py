"""Decides what runs in place of a lowered program, and keeps the books: bytes by the compiler and by the model, times, reasons."""
from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from . import calls
from .errors import EstimateError, HloError, InternalError
from .jax_lowering import Bytes, Lowering, OutOfMemory, foreign, measured
from .jax_options import Options, warn
from .report import Memory, Remark, Report, Rewrite

@dataclass(frozen=True)
class Verdict:
    """What the compiler said: how many of the rewrites to keep (None: all, 0: the original), and its bytes of both forms.

    Bytes are None of a form that does not fit the device, which XLA:TPU then does not compile; `refusal` is what it said of the original."""

    limit: int | None
    before: Bytes | None
    after: Bytes | None
    refusal: str | None = None


# Verdicts of the judge, so that a program that is jitted again (a new closure, a new session object) is not judged again.
_MOST_VERDICTS = 512
# A compiler that needs this much more than the model promised met a rewrite it does not like: the bad one is looked for.
_TRUST = 1.05
_verdicts: OrderedDict[str, Verdict] = OrderedDict()
_verdicts_lock = threading.Lock()


@dataclass
class MemoryReport:
    """What became of one program.

    `kept` is "rewritten", "original" (nothing to gain, or the compiler found the rewrite worse) or "fallback" (with a `reason`). `before` and
    `after` are the compiler's own bytes of the original and of what runs now; None where nothing was compiled (judge="model", or nothing to
    rewrite), and of an original that does not fit the device, which the compiler refuses (`refusal`). `model` is the memory model's report with
    rewrites and remarks; None in a fallback. Seconds: `optimize_seconds` spent here, `compile_seconds` spent in the compiler to judge (one of the
    two compilations would have happened anyway). Of a program over several devices all figures are those of one device.
    """

    name: str
    target: str
    kept: str
    reason: str | None = None
    before: Bytes | None = None
    after: Bytes | None = None
    model: Report | None = None
    optimize_seconds: float = 0.0
    compile_seconds: float = 0.0
    judged: bool = False
    attempts: tuple[str, ...] = field(default=())
    refusal: str | None = None

    @property
    def before_bytes(self) -> int | None:
        """Peak of the original: the compiler's figure if there is one, else the model's."""
        return self.before.total if self.before else self.model.before.total_bytes if self.model else None

    @property
    def after_bytes(self) -> int | None:
        """Peak of what runs now."""
        if self.kept != "rewritten":
            return self.before_bytes
        return self.after.total if self.after else self.model.after.total_bytes if self.model else None

    @property
    def floor_bytes(self) -> int | None:
        """Arguments + outputs - donated arguments."""
        known = self.before or self.after
        return known.floor if known else self.model.before.floor if self.model else None

    def _beside(self) -> str:
        """What the compiler's figures leave out, if it would count."""
        if self.model is None:
            return ""
        before, after = self.model.before.hidden, self.model.after.hidden
        large = max(before, after) * 100 >= (self.before_bytes or 0)
        return f" and {size(before)} -> {size(after)} inside library calls" if large else ""

    def __str__(self) -> str:
        if self.kept == "fallback":
            return f"{self.name}: runs as jax.jit does, because {self.reason}"
        source = "XLA's figures" if self.before or self.after else "the model's figures"
        if self.refusal and self.kept == "rewritten":
            return (f"{self.name} on {self.target}: peak {size(self.after_bytes)} (floor {size(self.floor_bytes)}, {source}); "
                    f"as written it does not compile: {self.refusal}")
        if self.kept == "rewritten":
            return (f"{self.name} on {self.target}: peak {size(self.before_bytes)} -> {size(self.after_bytes)} "
                    f"(floor {size(self.floor_bytes)}, {source}){self._beside()}")
        why = f", {self.reason}" if self.reason else ", nothing to rewrite"
        return f"{self.name} on {self.target}: peak {size(self.before_bytes)} (floor {size(self.floor_bytes)}, {source}){why}"


def size(count: int | None) -> str:
    """Bytes for people: 224.01 GiB."""
    if count is None:
        return "?"
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.2f} {unit}"
    return f"{count} B"


def decide(lowering: Lowering, options: Options, name: str) -> MemoryReport:
    """Rewrites the program inside `lowering` and leaves the better form in it. Never raises for what the program is: then it stays as it was."""
    report = MemoryReport(name, options.target or lowering.target, "original")
    reason = lowering.refusal()
    if reason:
        return _fallback(report, reason)
    begin = time.perf_counter()
    proto = lowering.proto()
    reason = foreign(proto)
    if reason:
        return _fallback(report, reason)
    try:
        found = calls.optimize(proto, **options.of_call(lowering.target))
    except EstimateError as error:
        return _fallback(report, str(error))
    except (HloError, InternalError) as error:
        return _fallback(report, f"hlo-opt cannot handle the module: {error}")
    report.optimize_seconds = time.perf_counter() - begin
    report.model = found.report
    if found.report.rewrites:
        _choose(lowering, options, proto, found, report)
    return report


def _fallback(report: MemoryReport, reason: str) -> MemoryReport:
    report.kept, report.reason = "fallback", reason
    warn(f"hlo_opt.jit runs `{report.name}` as jax.jit does: {reason}")
    return report


def _choose(lowering: Lowering, options: Options, proto: bytes, found: calls.Optimized, report: MemoryReport) -> None:
    """Puts the rewritten program in place, if the judge agrees."""
    begin = time.perf_counter()
    try:
        if options.judge == "model":
            lowering.plant(lowering.rewritten(found.proto))
            report.kept = "rewritten"
        else:
            _judge(lowering, options, proto, found, report)
    except Exception as error:  # noqa: BLE001 - whatever the compiler has against the rewritten module, the original still runs
        first = str(error).strip().splitlines()[:1]
        _fallback(report, f"the compiler refuses the rewritten module: {type(error).__name__}: {''.join(first)}")
    report.compile_seconds = time.perf_counter() - begin


def _judge(lowering: Lowering, options: Options, proto: bytes, found: calls.Optimized, report: MemoryReport) -> None:
    """Lets the compiler say which form needs fewer bytes, and keeps that one."""
    key = _key(lowering, options)
    verdict = _recall(key)
    if verdict is None:
        verdict = _compared(lowering, options, proto, found, report)
        _remember(key, verdict)
    elif verdict.limit != 0:
        _keep(lowering, report, _limited(lowering, options, proto, found, verdict.limit))
    report.judged, report.before, report.after, report.refusal = True, verdict.before, verdict.after, verdict.refusal
    report.kept = "original" if verdict.limit == 0 else "rewritten"
    if verdict.limit == 0:
        report.reason = f"neither form compiles: {verdict.refusal}" if verdict.refusal else "the compiler found the rewritten program no better"


def _compared(lowering: Lowering, options: Options, proto: bytes, found: calls.Optimized, report: MemoryReport) -> Verdict:
    """Compiles the original and the rewritten form, and fewer rewrites if those are not what the model promised; leaves the best in place.

    What library calls take for themselves is known by the model only, and counts: the process needs it whatever the compiler says."""
    everything = len(found.report.rewrites)
    before, refusal = _figures(lowering.inner, lowering.target)
    tried = {0: before.total + found.report.before.hidden if before else math.inf}
    least = tried[0]
    best = Verdict(0, before, before, refusal)

    def attempt(limit: int) -> None:
        nonlocal best, least
        form = _limited(lowering, options, proto, found, None if limit == everything else limit)
        computation = lowering.rewritten(form.proto)
        after, no = _figures(computation, lowering.target)
        report.attempts += (f"{limit} of {everything} rewrites: {size(after.total) if after else no}",)
        # Equal donation: a rewrite that lost a donated buffer would change what callers may do with their arrays.
        tried[limit] = tried[0]
        if after is not None and (before is None or after.aliased == before.aliased):
            tried[limit] = after.total + form.report.after.hidden
        if tried[limit] < least:
            least = tried[limit]
            best = Verdict(None if limit == everything else limit, before, after, refusal)
            _keep(lowering, report, form, computation)

    attempt(everything)
    low, high = 0, everything
    while high - low > 1 and (best.after is None or best.after.total > _TRUST * found.report.after.total_bytes):
        middle = (low + high) // 2
        attempt(middle)
        low, high = (middle, high) if tried[middle] < tried[low] else (low, middle)
    return best


def _figures(computation, target: str) -> tuple[Bytes | None, str | None]:
    """The compiler's bytes of a program, or what it says of one that does not fit the device."""
    try:
        return measured(computation, target), None
    except OutOfMemory as error:
        return None, str(error)


def _limited(lowering: Lowering, options: Options, proto: bytes, found: calls.Optimized, limit: int | None) -> calls.Optimized:
    """The module with only the first `limit` rewrites; None means all of them."""
    return found if limit is None else calls.optimize(proto, bisect_limit=limit, **options.of_call(lowering.target))


def _keep(lowering: Lowering, report: MemoryReport, form: calls.Optimized, computation=None) -> None:
    lowering.plant(lowering.rewritten(form.proto) if computation is None else computation)
    report.model = form.report


def _key(lowering: Lowering, options: Options) -> str:
    """What a verdict depends on: the module without its source lines, the options, the compiler and its flags."""
    import jaxlib
    facts = (lowering.text(), repr(options), lowering.target, lowering.compiler_version, lowering.device_kind, str(lowering.devices),
             jaxlib.__version__, repr(lowering.inner._compiler_options_kvs))
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def _recall(key: str) -> Verdict | None:
    with _verdicts_lock:
        if key in _verdicts:
            _verdicts.move_to_end(key)
        return _verdicts.get(key)


def _remember(key: str, verdict: Verdict) -> None:
    with _verdicts_lock:
        _verdicts[key] = verdict
        while len(_verdicts) > _MOST_VERDICTS:
            _verdicts.popitem(last=False)


def explanation(report: MemoryReport) -> str:
    """Everything worth saying about one program: who owns the peak, what was done, what was refused, what it cost."""
    lines = [str(report)]
    if report.model is not None:
        model = report.model
        lines += _owners("at the peak", model.before) + _deeds(model)
        lines += _owners("at the peak now", model.after) if model.rewrites else []
        lines += _refusals(model) + _left(model)
    lines += [f"  tried {attempt}" for attempt in report.attempts]
    judged = f", {report.compile_seconds:.3f} s compiling to judge" if report.judged else ""
    lines.append(f"  took {report.optimize_seconds:.3f} s to rewrite{judged}")
    return "\n".join(lines)


def _at(source: str | None, detail: str | None = None) -> str:
    """` at FILE:LINE (LIBRARY:LINE)`, or ` in OPERATION` where no line of the user's is known."""
    if source:
        return f" at {source} ({detail})" if detail else f" at {source}"
    return f" in {detail}" if detail else ""


def _owners(title: str, memory: Memory) -> list[str]:
    """The largest buffers alive at the peak; none is left out for being small where all are."""
    most = [buffer for buffer in memory.largest if buffer.bytes * 20 >= memory.total_bytes][:5] or list(memory.largest[:5])
    lines = [f"    {size(buffer.bytes)} {buffer.shape} {buffer.op_name or buffer.instruction}{_at(buffer.source)}" for buffer in most]
    return [f"  {title}:", *lines] if lines else []


def _left(model: Report) -> list[str]:
    """Why large buffers are still there, a line for each reason with the largest of them."""
    by_code: dict[str, list[Remark]] = {}
    for remark in model.remarks:
        if remark.kind == "analysis" and remark.bytes:
            by_code.setdefault(remark.code, []).append(remark)
    lines = []
    for code, remarks in by_code.items():
        largest, total = max(remarks, key=lambda remark: remark.bytes), sum(remark.bytes for remark in remarks)
        lines.append(f"  left: {size(total)} in {len(remarks)} buffers, the largest {largest.instruction}"
                     f"{_at(largest.source, largest.detail)}, {size(largest.bytes)}: {largest.message} [{code}]")
    return lines


def _deeds(model: Report) -> list[str]:
    return [f"  {done.pass_name} {done.instruction}{_at(done.source, done.detail)}: {_gain(done)}, {done.grade}: {done.note}"
            for done in model.rewrites]


def _gain(done: Rewrite) -> str:
    """What a rewrite does to the peak."""
    if done.kind == "speed":
        return f"takes {size(done.taken_bytes)} for speed" if done.taken_bytes else "for speed, takes nothing"
    return f"takes {size(done.taken_bytes)}" if done.taken_bytes else f"saves {size(done.saved_bytes)}"


def _refusals(model: Report) -> list[str]:
    missed = [remark for remark in model.remarks if remark.kind == "missed" and remark.bytes * 100 > model.after.total_bytes]
    return [f"  missed: {remark.pass_name} {remark.instruction}{_at(remark.source, remark.detail)}, {size(remark.bytes)}: {remark.message} [{remark.code}]"
            for remark in missed]
