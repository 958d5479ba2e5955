from collections.abc import Sequence

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
) -> tuple[str, bytes, str]: ...
def analyze(data: bytes, *, target: str) -> str: ...
def one_device(data: bytes, *, is_certain: bool = False) -> bytes | None: ...
def run(arguments: Sequence[str]) -> int: ...
