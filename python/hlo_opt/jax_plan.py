"""Decides what runs in place of a lowered program, and keeps the books: bytes by the compiler and by the model, times, reasons."""
from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from . import calls, jax_partitioned
from .errors import EstimateError, HloError, InternalError
from .jax_lowering import Bytes, Lowering, OutOfMemory, foreign, measured
from .jax_options import BudgetWarning, Options, warn
from .jax_partitioned import PartitionUnavailable
from .report import Memory, Remark, Report, Rewrite

@dataclass(frozen=True)
class Verdict:
    """What the compiler said: the bounds under which a search ends at the form to keep (a limit of 0 is the original), and its bytes of both forms.

    Bytes are None of a form that does not fit the device, which XLA:TPU then does not compile; `refusal` is what it said of the original. Of an original that
    the model is certain of they are the model's (`is_predicted`)."""

    limit: int | None
    budget: int | None
    before: Bytes | None
    after: Bytes | None
    refusal: str | None = None
    is_predicted: bool = False


# Verdicts of the judge, so that a program that is jitted again (a new closure, a new session object) is not judged again.
_MOST_VERDICTS = 512
_verdicts: OrderedDict[str, Verdict] = OrderedDict()
_verdicts_lock = threading.Lock()


@dataclass
class MemoryReport:
    """What became of one program.

    `kept` is "rewritten", "original" (nothing to gain, or the compiler found the rewrite worse) or "fallback" (with a `reason`). `before` and
    `after` are the compiler's own bytes of the original and of what runs now; None where nothing was compiled (judge="model", or nothing to
    rewrite), and of an original that does not fit the device, which the compiler refuses (`refusal`). With judge="xla" those of an original that the model is
    certain of are the model's (`is_predicted`). `model` is the memory model's report with rewrites and remarks; None in a fallback. Seconds: `optimize_seconds` spent here, `compile_seconds` spent in
    the compiler to judge (one compilation would have happened anyway). Of a program over several devices all figures are those of one device.
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
    is_predicted: bool = False
    # The search behind `advice`. No field: a report is data, which is pickled and turned into dictionaries.
    _advise = None

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_advise"}

    def advice(self) -> tuple[Remark, ...]:
        """What other options would give, a remark each; none of a report that was pickled. The program is searched again for it, as often as there are weaker grades and
        objectives."""
        return self._advise() if self._advise else ()

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

    def _source(self) -> str:
        """Whose figures are said."""
        if self.is_predicted:
            return "XLA's figure now, the model's before"
        return "XLA's figures" if self.before or self.after else "the model's figures"

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
        source = self._source()
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


def decide(lowering: Lowering, options: Options) -> MemoryReport:
    """Rewrites the program inside `lowering` and leaves the better form in it. Never raises for what the program is: then it stays as it was."""
    report = MemoryReport(lowering.name, options.target or lowering.target, "original")
    reason = lowering.refusal()
    if reason:
        return _fallback(report, reason)
    reason = foreign(lowering.proto())
    if reason:
        return _fallback(report, reason)
    begin = time.perf_counter()
    try:
        proto = lowering.searched()
    except PartitionUnavailable as error:
        return _fallback(report, str(error))
    except Exception as error:  # noqa: BLE001 - JAX is about to raise the same error
        return _fallback(report, f"the compiler refuses the program: {_first_line(error)}")
    if lowering.devices > 1:
        report.compile_seconds = time.perf_counter() - begin
    judge = None if options.judge == "model" else _Compiler(lowering, options.judge == "xla")
    try:
        _choose(lowering, options, proto, judge, report)
    except (EstimateError, PartitionUnavailable) as error:
        return _fallback(report, str(error))
    except (HloError, InternalError) as error:
        return _fallback(report, f"hlo-opt cannot handle the module: {error}")
    except Exception as error:  # noqa: BLE001 - whatever the compiler has against the rewritten module, the original still runs
        return _refused(report, error)
    if judge and judge.failure and report.kept == "original":
        return _refused(report, judge.failure)
    return report


def _fallback(report: MemoryReport, reason: str) -> MemoryReport:
    report.kept, report.reason = "fallback", reason
    return report


def tell_of_fallback(report: MemoryReport) -> None:
    """Warns of a program that hlo-opt could not help with."""
    if report.kept == "fallback":
        warn(f"hlo_opt.jit runs `{report.name}` as jax.jit does: {report.reason}")


def _refused(report: MemoryReport, error: Exception) -> MemoryReport:
    return _fallback(report, f"the compiler refuses the rewritten module: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {''.join(str(error).strip().splitlines()[:1])}"


def tell_of_budget(report: MemoryReport, budget: int | None) -> None:
    """Warns of a budget that is missed: the smallest form that was found runs."""
    peak = report.after_bytes
    if budget is not None and report.kept != "fallback" and (peak is None or peak > budget):
        needs = f"needs {size(peak)}" if peak else f"does not fit the device ({report.refusal})"
        warn(f"`{report.name}` {needs}, which is over its budget of {size(budget)}", BudgetWarning)


class _Compiler:
    """The compiler as judge of the forms of one program."""

    def __init__(self, lowering: Lowering, trusts_the_model: bool):
        self.lowering, self.seconds = lowering, 0.0
        # Of a program over several devices the original is compiled anyway, and what a form sends between them is held against it.
        self.trusts_the_model = trusts_the_model and lowering.devices == 1
        self.failure: Exception | None = None
        self.forms: dict[bytes, tuple] = {}
        self.before: tuple[Bytes | None, str | None] = None, None

    def original(self) -> calls.Answer:
        """What the compiler makes of the program as it is."""
        return self._timed(self._original)

    def __call__(self, proto: bytes) -> calls.Answer:
        return self._timed(lambda: self._form(proto))

    def _timed(self, ask: Callable[[], calls.Answer]) -> calls.Answer:
        begin = time.perf_counter()
        try:
            return ask()
        except Exception as error:  # noqa: BLE001 - what the compiler has against a form is no reason to have none
            self.failure = error
            return calls.Answer(None, refusal=str(error).strip())
        finally:
            self.seconds += time.perf_counter() - begin

    def _original(self) -> calls.Answer:
        self.before = _figures(self.lowering.inner, self.lowering.target)
        return _said(*self.before)

    def _form(self, proto: bytes) -> calls.Answer:
        computation = self.lowering.rewritten(proto)
        figures, refusal = _figures(computation, self.lowering.target)
        self.forms[proto] = (computation, figures)
        if figures is not None and self.lowering.devices > 1 and (reason := self._objection(computation, figures)):
            return calls.Answer(None, refusal=reason)
        return _said(figures, refusal)

    def _objection(self, computation, figures: Bytes) -> str | None:
        """What speaks against a form of a program over several devices, on each of them."""
        before = self.before[0]
        if before is not None and figures.total > before.total:
            return f"{size(figures.total)} on a device, where {size(before.total)} were"
        if before is None:
            return None
        target = self.lowering.target
        return jax_partitioned.objection(jax_partitioned.work(self.lowering.inner, target), jax_partitioned.work(computation, target))


def _choose(lowering: Lowering, options: Options, proto: bytes, judge: _Compiler | None, report: MemoryReport) -> None:
    """Puts the best form in place, by the compiler's word or by the model's."""
    begin = time.perf_counter()
    key = _key(lowering, options) if judge else ""
    verdict = _recall(key) if judge else None
    bounds = {"bisect_limit": verdict.limit, "budget": verdict.budget} if verdict else {"budget": options.budget}
    call = {"objective": options.objective, **options.of_call(lowering.target)}
    # What other options would give is looked for when it is asked for: it takes longer than all else.
    found = calls.optimize(proto, judge=None if verdict else judge, is_judged=judge is not None, advise=False, **bounds, **call)
    report.model = found.report
    report._advise = functools.cache(lambda: _advice(proto, {"budget": options.budget, **call}))
    if judge and not verdict and found.report.judge:
        verdict = _heard(judge, found, report)
        _remember(key, verdict)
    report.optimize_seconds = time.perf_counter() - begin - (judge.seconds if judge else 0.0)
    if verdict is None and found.report.rewrites or verdict is not None and verdict.limit != 0:
        computation = judge.forms[found.proto][0] if judge and found.proto in judge.forms else lowering.rewritten(found.proto)
        lowering.plant(computation)
        report.kept = "rewritten"
    if verdict:
        _note(report, verdict, judge)
        if verdict.limit == 0 and options.budget is not None and verdict.before and verdict.before.total <= options.budget:
            report.reason = "fits its budget as written"


def _advice(proto: bytes, call: dict) -> tuple[Remark, ...]:
    """Remarks on what other options would give."""
    return tuple(remark for remark in calls.optimize(proto, **call).report.remarks if remark.code == "more-freedom")


def _heard(judge: _Compiler, found: calls.Optimized, report: MemoryReport) -> Verdict:
    """The verdict in a report, with the compiler's figures for both forms."""
    said, (before, refusal) = found.report.judge, judge.before
    report.attempts = tuple(_attempted(attempt) for attempt in said["attempts"])
    kept = judge.forms[found.proto][1] if said["rewrite_limit"] != 0 else before
    is_predicted = said["before"]["is_predicted"]
    if is_predicted:
        model = found.report.before
        before = Bytes(model.arguments, model.outputs, model.aliased, model.temporaries)
    return Verdict(said["rewrite_limit"], said["model_budget_bytes"], before, kept, refusal, is_predicted)


def _attempted(attempt: dict) -> str:
    """A form that the compiler was asked about."""
    answer, asked = attempt["answer"], attempt["model_budget_bytes"]
    budget = f" for a budget of {size(asked)}" if asked else ""
    return f"{attempt['rewrites']} rewrites{budget}: {size(answer['total_bytes']) if answer['total_bytes'] else answer['refusal']}"


def _note(report: MemoryReport, verdict: Verdict, judge: _Compiler) -> None:
    report.judged, report.before, report.after, report.refusal = True, verdict.before, verdict.after, verdict.refusal
    report.is_predicted = verdict.is_predicted
    report.compile_seconds += judge.seconds
    if verdict.limit == 0 and verdict.refusal:
        report.reason = f"neither form compiles: {verdict.refusal}"
    elif verdict.limit == 0 and report.attempts:
        report.reason = "the compiler found the rewritten program no better"


def _figures(computation, target: str) -> tuple[Bytes | None, str | None]:
    """The compiler's bytes of a program, or what it says of one that does not fit the device."""
    try:
        return measured(computation, target), None
    except OutOfMemory as error:
        return None, str(error)


def _said(figures: Bytes | None, refusal: str | None) -> calls.Answer:
    """The answer to a search."""
    return calls.Answer(figures.total, figures.aliased) if figures else calls.Answer(None, refusal=refusal or "", too_large=True)


def _key(lowering: Lowering, options: Options) -> str:
    """What a verdict depends on: the module without its source lines, the options, the compiler and its flags."""
    import jaxlib
    facts = (lowering.form(), repr(options), lowering.target, lowering.compiler_version, lowering.device_kind, str(lowering.devices),
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
        lines += _refusals(model, report.advice()) + _left(model)
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


def _refusals(model: Report, advice: tuple[Remark, ...]) -> list[str]:
    missed = [remark for remark in advice + model.remarks if remark.kind == "missed" and remark.bytes * 100 > model.after.total_bytes]
    return [f"  missed: {remark.pass_name} {remark.instruction}{_at(remark.source, remark.detail)}, {size(remark.bytes)}: {remark.message} [{remark.code}]"
            for remark in missed]
