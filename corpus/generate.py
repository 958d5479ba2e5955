"""Write the corpus: lower every program from shapes, compile it with XLA:CPU, keep both dumps and the bytes.

usage: python corpus/generate.py [NAME-REGEX] [--check] [--list]

NAME-REGEX is searched for in GROUP/NAME. Nothing is executed. Each program compiles in a process of its own.
"""
import argparse
import importlib
import inspect
import json
import os
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "referee")]
sys.dont_write_bytecode = True

import child  # noqa: E402
import xla  # noqa: E402
from programs import catalog  # noqa: E402
from scrub import scrub  # noqa: E402

RAW = HERE / "programs" / "raw"
TIME_LIMIT = 600.0


def main():
    options = arguments()
    xla.import_quietly()
    load_programs()
    chosen = [entry for path, entry in catalog.CATALOG.items() if re.search(options.name, path)]
    if not chosen:
        sys.exit(f"no program matches {options.name!r}")
    if options.list:
        print("\n".join(entry.path for entry in chosen))
        return
    failures = check(chosen) if options.check else write(chosen, HERE)
    sys.exit(1 if failures else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", default="", metavar="NAME-REGEX")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a file would change")
    parser.add_argument("--list", action="store_true", help="print the matching programs")
    return parser.parse_args()


def load_programs():
    for path in sorted((HERE / "programs").glob("[a-z]*.py")):
        importlib.import_module(f"programs.{path.stem}")


def write(chosen, root):
    """Generate the chosen programs under `root`; returns how many failed."""
    failures = 0
    for entry in chosen:
        answer = child.run(generate, (entry, str(root)), time_limit=TIME_LIMIT)
        failures += "error" in answer
        print(f"{entry.path}: {answer.get('error') or answer['total_bytes']}", flush=True)
    return failures


def check(chosen):
    """Generate into a temporary folder and compare with the files that are kept."""
    with tempfile.TemporaryDirectory() as folder:
        failures = write(chosen, pathlib.Path(folder))
        for entry in chosen:
            for ending in ("before.hlo", "after.hlo", "xla.json"):
                name = f"{entry.path}.{ending}"
                if contents(HERE / name) != contents(pathlib.Path(folder) / name):
                    print(f"differs: {name}")
                    failures += 1
    print(f"{len(chosen)} programs checked, {failures} differences or failures")
    return failures


def contents(path):
    return path.read_bytes() if path.exists() else None


def generate(entry, root):
    """In a child: compile one program and write its three files; returns its byte counts."""
    with tempfile.TemporaryDirectory() as dump_dir:
        jax = xla.start(dump_dir, entry.devices)
        if isinstance(entry, catalog.RawProgram):
            counts, first_line, source = compile_raw(jax, entry, dump_dir)
        else:
            counts, first_line, source = compile_traced(jax, entry, dump_dir)
        target = pathlib.Path(root) / entry.group
        target.mkdir(parents=True, exist_ok=True)
        for ending, dump in (("before.hlo", "before_optimizations.txt"),
                             ("after.hlo", "cpu_after_optimizations.txt")):
            kept = ending == "before.hlo" and getattr(entry, "as_written", False)
            text = scrub(printed(filled_in(entry)) if kept else xla.dumped(dump_dir, dump), first_line)
            (target / f"{entry.name}.{ending}").write_text(text, encoding="utf-8")
        facts = {**counts, "jaxlib": jax.lib.__version__, "program": source}
        (target / f"{entry.name}.xla.json").write_text(json.dumps(facts, indent=1) + "\n")
        return counts


def compile_traced(jax, entry, dump_dir):
    # The stack tables of a dump should show the program, not this generator.
    from jax._src import source_info_util
    source_info_util.register_exclusion(__file__)
    source_info_util.register_exclusion(child.__file__)
    function, args = entry.build(**entry.params)
    compiled = jax.jit(function, donate_argnums=entry.donate).lower(*args).compile()
    counts = xla.byte_counts(compiled.runtime_executable(), dump_dir)
    lines, start = inspect.getsourcelines(entry.build)
    offset = next(k for k, line in enumerate(lines) if line.startswith("def "))
    file = os.path.basename(entry.build.__code__.co_filename)
    return counts, start + offset, f"programs/{file}:{entry.build.__name__}"


def filled_in(entry):
    text = (RAW / entry.file).read_text(encoding="utf-8")
    for key, value in entry.values.items():
        text = text.replace(f"@{key}@", str(value))
    return text


def printed(text):
    """The text as XLA prints it."""
    return xla.parse(text).to_string()


def compile_raw(jax, entry, dump_dir):
    executable, _, _ = xla.compile_text(jax, filled_in(entry), entry.devices)
    return xla.byte_counts(executable, dump_dir), 1, f"programs/raw/{entry.file}"


if __name__ == "__main__":
    main()
