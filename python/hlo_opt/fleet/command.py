"""The command `fleet`: its arguments, what it does in which order, and its exit codes."""
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import baseline, dumps, page, sarif, spread, store, table
from .work import Result, Task

# Settings of the command `hlo-opt` that hold for every dump.
_SETTINGS = ("target", "exactness", "assume", "passes", "chunk-bytes", "min-saving", "budget", "objective", "max-slowdown", "judge", "source-root", "opt-bisect-limit")
DONE, FAILED, USAGE, OVER_BUDGET, REGRESSED = 0, 1, 2, 4, 6
_EXITS = """exit codes: 0 done (a dump that cannot be read is a row), 1 no dump was found, nothing could be written, or --strict and a dump is broken,
2 bad command line, 4 a dump is over --budget, 6 a dump needs more than in the baseline; 130 interrupted (the next run goes on)"""


def main(arguments: list[str]) -> int:
    """Runs the command and gives its exit code."""
    options = _parser().parse_args(arguments)
    try:
        old = baseline.read(options.baseline) if options.baseline else None
        return _run(options, old)
    except (ValueError, spread.NoDask) as error:
        print(f"hlo-opt fleet: {error}", file=sys.stderr)
        return USAGE
    except OSError as error:
        print(f"hlo-opt fleet: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("\nhlo-opt fleet: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hlo-opt fleet", epilog=_EXITS,
        description="One table and one HTML page of all dumps below a folder: peak, floor and best reachable form, by dump and by source line.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="dump folders and module files, at any depth")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="folder for index.html, table.json, table.csv and the reports")
    parser.add_argument("--jobs", type=_count, default=os.cpu_count() or 1, metavar="N", help="dumps at the same time (default: the processors)")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="most seconds for a dump (default 600)")
    parser.add_argument("--dask", metavar="ADDRESS", help="use the workers of the Dask scheduler at this address; `local` starts a cluster here")
    parser.add_argument("--strict", action="store_true", help="end with 1 if a dump is broken")
    parser.add_argument("--sarif", type=Path, metavar="FILE", help="write the remarks of all dumps as one SARIF file (every dump is run twice)")
    parser.add_argument("--baseline", type=Path, metavar="OLD_OUT", help="compare with an earlier run; end with 6 if a dump needs more")
    parser.add_argument("--max-regression", type=baseline.Allowance.of, default=baseline.Allowance(), metavar="SIZE|PERCENT",
                        help="how much more is allowed, such as 10MiB or 1%% (default: nothing)")
    parser.add_argument("--compare", choices=("peak", "reachable", "both"), default="both", help="the figures compared (default: both)")
    group = parser.add_argument_group("settings of hlo-opt, for every dump")
    group.add_argument("--machine", type=Path, metavar="FILE")
    for name in _SETTINGS:
        group.add_argument(f"--{name}", metavar="VALUE")
    return parser


def _count(text: str) -> int:
    if (count := int(text)) < 1:
        raise ValueError
    return count


def _run(options: argparse.Namespace, old: list[dict] | None) -> int:
    if not options.folder.is_dir():
        raise ValueError(f"`{options.folder}` is no folder")
    found = dumps.find(options.folder, options.output.resolve())
    if not found:
        print(f"hlo-opt fleet: no dump lies below `{options.folder}`", file=sys.stderr)
        return FAILED
    if options.source_root is not None:
        # The command runs in a folder of its own.
        options.source_root = os.path.abspath(options.source_root)
    settings = [f"--{name}={value}" for name in _SETTINGS if (value := getattr(options, name.replace("-", "_"))) is not None]
    keep = store.Store(options.output)
    results = _results(options, settings, found, keep)
    if all(result.kind == "usage" for result in results):
        raise ValueError(results[0].message)
    rows = [table.row(dump, result) for dump, result in zip(found, results, strict=True)]
    figures = baseline.FIGURES if options.compare == "both" else (f"{options.compare}_bytes",)
    changes = None if old is None else baseline.changes(old, rows, options.max_regression, figures)
    _write(options, settings, rows, changes, results)
    return _verdict(options, rows, changes)


def _results(options: argparse.Namespace, settings: list[str], found: list[dumps.Dump], keep: store.Store) -> list[Result]:
    """A result for each dump: kept ones, then those that are still to be made."""
    machine, build = options.machine.read_bytes() if options.machine else b"", store.build()
    tasks: list[Task] = []
    results: dict[str, Result] = {}
    for dump in found:
        try:
            tasks.append(_task(options, settings, dump, store.key(dump, settings, machine, build)))
        except OSError as error:
            tasks.append(_task(options, settings, dump, f"unreadable:{dump.name}"))
            results[tasks[-1].key] = Result(tasks[-1].key, kind="input", message=error.strerror or str(error))
    for task in tasks:
        if task.key not in results and (kept := keep.read(task)):
            results[task.key] = kept
    missing = list({task.key: task for task in tasks if task.key not in results}.values())
    for result in _made(options, missing):
        keep.write(result)
        results[result.key] = result
        _progress(len(results), len({task.key for task in tasks}))
    return [results[task.key] for task in tasks]


def _task(options: argparse.Namespace, settings: list[str], dump: dumps.Dump, key: str) -> Task:
    files = [(path.name, str(path.resolve())) for path in dump.files]
    if options.machine:
        files.append((options.machine.name, str(options.machine.resolve())))
        settings = [*settings, f"--machine=dump/{options.machine.name}"]
    given = "dump" if dump.is_folder else f"dump/{dump.files[0].name}"
    return Task(key, tuple(files), given, tuple(settings), options.limit, options.sarif is not None)


def _made(options: argparse.Namespace, missing: list[Task]):
    if options.dask is None:
        yield from spread.local(missing, options.jobs)
        return
    with spread.dask_client(options.dask, options.jobs) as client:
        yield from spread.mapped(missing, client)


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def _write(options: argparse.Namespace, settings: list[str], rows: list[dict], changes: list[dict] | None, results: list[Result]) -> None:
    from hlo_opt import __version__
    data = table.as_json(f"hlo-opt {__version__}", settings, rows, changes)
    store.write(options.output / "table.json", data)
    store.write(options.output / "table.csv", table.as_csv(rows))
    store.write(options.output / "index.html", page.html(data))
    if options.sarif:
        store.write(options.sarif, sarif.merged([result.sarif for result in results if result.sarif], Path.cwd()))
    sys.stdout.write(table.as_text(rows))


def _verdict(options: argparse.Namespace, rows: list[dict], changes: list[dict] | None) -> int:
    """Says what came out, and gives the exit code."""
    broken = sum(row["status"] == "error" for row in rows)
    over = sum(row["status"] == "over budget" for row in rows)
    parts = [f"{len(rows)} dumps", f"{broken} broken", *([f"{over} over the budget"] if options.budget else [])]
    worse = [change for change in changes or () if change["is_regression"]]
    if changes is not None:
        parts.append(f"{len(worse)} regressions since {options.baseline}")
    for change in worse:
        print(f"regression: {baseline.sentence(change)}", file=sys.stderr)
    print(f"{', '.join(parts)}: {options.output / 'index.html'}", file=sys.stderr)
    if worse:
        return REGRESSED
    return OVER_BUDGET if over else FAILED if options.strict and broken else DONE
