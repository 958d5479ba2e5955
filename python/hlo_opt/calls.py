"""The library's calls: rewrite a module, or only say how much memory it needs. They release the GIL and touch no files."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from . import _native
from .report import Memory, Report


@dataclass(frozen=True)
class Optimized:
    """A rewritten module: HLO text, the same as a serialized HloModuleProto (what jaxlib's XlaComputation takes), what was done. Of StableHLO also StableHLO
    text with the interface of the original, and of an `Exported` or its artifact another `Exported`."""

    text: str = field(repr=False)
    proto: bytes = field(repr=False)
    report: Report
    stablehlo: str | None = field(default=None, repr=False)
    exported: Any = field(default=None, repr=False)


class Answer(NamedTuple):
    """What a compiler says of a module: bytes in all (None if it does not compile it), those of donated arguments, an estimated time, or why it refuses the
    module, and whether because it does not fit the device."""

    total: int | None
    aliased: int = 0
    seconds: float | None = None
    refusal: str = ""
    too_large: bool = False


def optimize(
    module: Any,
    *,
    target: str = "cpu",
    exactness: str = "hlo-exact",
    assume: Sequence[str] = (),
    passes: str | Sequence[str] | None = None,
    chunk_bytes: int | None = None,
    min_saving: int = 1 << 20,
    verify_each: bool = False,
    budget: int | None = None,
    objective: str = "balanced",
    host_memory: int = 0,
    is_judged: bool | None = None,
    bisect_limit: int | None = None,
    judge: Callable[[bytes], Answer] | None = None,
    max_slowdown: float | None = None,
    advise: bool = True,
) -> Optimized:
    """Rewrites a module so that it needs less memory and computes the same.

    `module` is HLO text from before optimization (`lowered.compiler_ir("hlo").as_hlo_text(True)`, or an XLA dump), a serialized HloProto or
    HloModuleProto, or StableHLO: text (`lowered.as_text()`), bytecode, an `Exported` of `jax.export` or its artifact, for which JAX is
    needed. `target` is the compiler that will run the result: "cpu", "tpu" or "gpu". `exactness` is how equal the results must stay:
    "bitwise", "hlo-exact" (the same operations on the same elements) or "reassociate" (float sums may be split). `assume` are promises about
    the data: "indices-in-bounds". `passes` replaces the standard ones, in order; "" runs none. `chunk_bytes` bounds the block temporaries of
    each loop; savings below `min_saving` bytes are left alone; `verify_each` checks the module after every pass.
    `objective` is what rewrites may cost: "memory" (as little memory as can be had, whatever it costs in time), "balanced" or "time" (memory that costs none).
    `host_memory` are bytes of the host's memory that the program may use on a GPU or TPU: stacks of loops may stand there until they are read.
    Rewriting stops when the peak fits `budget` bytes, together with the error margin of a rough model (TPU, GPU) unless `is_judged`: a compiler is asked about
    the result, by default if there is a `judge`. `bisect_limit` keeps only that many rewrites, the first ones. Without `advise` no remark says what other
    options would give, for which the module is searched again.

    `judge` is given the original and rewritten forms (HloModuleProto) and decides which is kept: the one of the fewest bytes, or the first within the
    budget, and none that its times say is more than `max_slowdown` times as slow as the original. The report's `judge` has its answers.

    Raises HloError for a module that cannot be read or is not legal (with line and column), EstimateError if the memory model cannot handle
    it, ValueError for an option that makes no sense, RuntimeError if the judge fails on the original, InternalError for a fault of this tool.
    """
    text, proto, report = _native.optimize(
        _data(module), target=target, exactness=exactness, assume=list(assume), passes=_listed(passes),
        chunk_bytes=chunk_bytes, min_saving=min_saving, verify_each=verify_each, budget=budget, objective=objective,
        host_memory=host_memory, is_judged=judge is not None if is_judged is None else is_judged, bisect_limit=bisect_limit, judge=judge, max_slowdown=max_slowdown, advise=advise)
    found = Optimized(text, proto, Report.from_json(report))
    return _as_stablehlo(module, found) if _is_stablehlo(module) else found


def _as_stablehlo(module: Any, found: Optimized) -> Optimized:
    """The same with StableHLO: a module that was not rewritten stays as it was given."""
    from . import stablehlo
    given = stablehlo.exported(module)
    if not found.report.rewrites:
        return replace(found, stablehlo=stablehlo.rewritten(module, None), exported=given)
    text = stablehlo.rewritten(module, found.proto)
    return replace(found, stablehlo=text, exported=given and stablehlo.export_again(given, text))


@dataclass(frozen=True)
class CurvePoint:
    """A form of a program: its peak in bytes and its time in seconds by the models, whether the iterations of all loops are known (of others one counts), how
    many rewrites it has, the weakest grade of them (None of the program as it was written), and what the last one does, with its source line."""

    total_bytes: int
    seconds: float
    is_certain: bool
    rewrites: int
    grade: str | None
    step: str


def memory_curve(
    module: Any,
    *,
    target: str = "cpu",
    exactness: str = "hlo-exact",
    assume: Sequence[str] = (),
    passes: str | Sequence[str] | None = None,
    chunk_bytes: int | None = None,
    min_saving: int = 1 << 20,
    host_memory: int = 0,
) -> list[CurvePoint]:
    """What memory costs in time: at most ten forms of a module that no other known form beats in both, the fastest first, from the module as it was
    written. Keywords, input and errors are those of `optimize`. With the peak of a point as its budget, `optimize` ends there or lower."""
    points = _native.curve(_data(module), target=target, exactness=exactness, assume=list(assume), passes=_listed(passes), chunk_bytes=chunk_bytes,
                           min_saving=min_saving, host_memory=host_memory)
    return [CurvePoint(*point) for point in points]


def analyze(module: Any, *, target: str = "cpu") -> Memory:
    """Says how much memory a module needs and who holds it at the peak, in bytes. Input and errors are those of `optimize`."""
    return Report.from_json(_native.analyze(_data(module), target=target)).before


def _listed(passes: str | Sequence[str] | None) -> str | None:
    return passes if passes is None or isinstance(passes, str) else ",".join(passes)


def _is_stablehlo(module: Any) -> bool:
    """Whether JAX is needed to read a module; HLO is told by its beginning, without JAX."""
    if isinstance(module, str) and module.lstrip().startswith("HloModule"):
        return False
    from . import stablehlo
    return stablehlo.is_stablehlo(module)


def _data(module: Any) -> bytes:
    if _is_stablehlo(module):
        from . import stablehlo
        return stablehlo.proto(module)
    if isinstance(module, str):
        return module.encode()
    return bytes(module)
