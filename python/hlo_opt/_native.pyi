from collections.abc import Callable, Sequence
from typing import Any

__version__: str

def optimize(
    data: bytes,
    *,
    target: str,
    exactness: str,
    assume: Sequence[str],
    passes: str | None,
    chunk_bytes: int | None,
    min_saving: int,
    verify_each: bool,
    budget: int | None,
    objective: str,
    is_judged: bool,
    bisect_limit: int | None,
    judge: Callable[[bytes], Any] | None,
    max_slowdown: float | None,
    advise: bool,
) -> tuple[str, bytes, str]: ...
def curve(
    data: bytes,
    *,
    target: str,
    exactness: str,
    assume: Sequence[str],
    passes: str | None,
    chunk_bytes: int | None,
    min_saving: int,
) -> list[tuple[int, float, bool, int, str | None, str]]: ...
def analyze(data: bytes, *, target: str) -> str: ...
def one_device(data: bytes, *, is_certain: bool = False) -> bytes | None: ...
def run(arguments: Sequence[str]) -> int: ...
