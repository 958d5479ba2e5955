"""Where the work is done: in child processes of this machine, or on the workers of a Dask cluster."""
from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from . import work
from .work import Result, Task

# Dumps that wait at each worker: enough that none is idle, few enough that the dumps of a fleet are not all in memory.
_AHEAD = 2


def local(tasks: list[Task], jobs: int) -> Iterator[Result]:
    """The results as they come. Each thread waits for one child process. An exception of the caller ends the children."""
    with ThreadPoolExecutor(jobs) as pool:
        pending = {pool.submit(work.look, task) for task in tasks}
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(work.running):
                work.end(process)
            raise


class NoDask(Exception):
    """Why there are no Dask workers to use."""


@contextlib.contextmanager
def dask_client(address: str, jobs: int):
    """A client of the cluster at an address, or of one that is started here for `local`."""
    try:
        import distributed
    except ImportError:
        raise NoDask("--dask needs the package `distributed` (the extra `dask`): pip install distributed") from None
    with contextlib.ExitStack() as stack:
        if address == "local":
            address = stack.enter_context(distributed.LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None))
        try:
            client = stack.enter_context(distributed.Client(address, timeout=30))
        except (OSError, TimeoutError, ValueError) as error:
            raise NoDask(f"no Dask scheduler answers at `{address}`: {error}") from None
        yield client


def mapped(tasks: list[Task], client) -> Iterator[Result]:
    """The results as the workers give them. The files of a dump travel with it, so nothing but the package need be at the workers."""
    from distributed import as_completed
    waiting = iter(tasks)
    threads = max(sum(client.nthreads().values()), 1)
    names = {}

    def submit(some: Iterable[Task]) -> list:
        futures = [client.submit(work.look, _with_content(task), pure=False) for task in some]
        names.update((future.key, task.key) for future, task in zip(futures, some, strict=True))
        return futures

    arriving = as_completed(submit(_first(waiting, threads * _AHEAD)))
    for future in arriving:
        error = future.exception()
        yield Result(names[future.key], kind="worker", message=f"the Dask worker failed: {error}") if error else future.result()
        for more in submit(_first(waiting, 1)):
            arriving.add(more)


def _first(waiting: Iterator[Task], count: int) -> list[Task]:
    return list(itertools.islice(waiting, count))


def _with_content(task: Task) -> Task:
    return replace(task, files=tuple((name, Path(path).read_bytes() if isinstance(path, str) else path) for name, path in task.files))
