"""A child process of the scoreboard: makes XLA compile one set of programs, with dumps into BOARD_FOLDER.

    board_child.py script FILE ARGUMENT...     a program that sets its own dump folder
    board_child.py patterns FILE               every program of patterns.py, each in a process of its own
    board_child.py recipes FILE                a program that calls `measure` and `pair` of a module named _measure
    board_child.py texts                       HLO texts of BOARD_FOLDER/texts that were not compiled yet
    board_child.py random FIRST COUNT          random programs of this repository, small and with millions of rows
"""
import json
import os
import runpy
import subprocess
import sys
import types

FOLDER = os.environ["BOARD_FOLDER"]
DUMP = "--xla_dump_hlo_as_text --xla_dump_large_constants=true"
PROGRAM_LIMIT = 300
LARGE_ROWS = 4194301


def script(path, *arguments):
    os.environ["XLA_FLAGS"] = DUMP
    sys.argv = [path, *arguments]
    runpy.run_path(path, run_name="__main__")


def patterns(path):
    listed = subprocess.run([sys.executable, path, "--list"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        command = [sys.executable, path, FOLDER, name, "--one"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_LIMIT, check=False)
        except subprocess.TimeoutExpired:
            print(name, "time limit")
            continue
        if done.returncode:
            print(name, done.stderr.strip().splitlines()[-1:])


def recipes(path):
    """Only the modules that the program measures count; those of `pair` are labelled as original and rewritten."""
    os.environ["XLA_FLAGS"] = f"--xla_dump_to={FOLDER} {DUMP}"
    os.environ["HLO_DUMP"] = FOLDER
    sys.path.insert(0, os.path.dirname(path))
    harness = runpy.run_path(os.path.join(os.path.dirname(path), "_measure.py"))
    labels = {}

    def measure(name, function, *args, donate=(), static=(), **keywords):
        import jax
        old = reports()
        keywords = {key: value for key, value in keywords.items() if key not in ("top", "min_mib")}
        compiled = jax.jit(function, donate_argnums=donate, static_argnums=static).lower(*args, **keywords).compile()
        for stem in sorted(reports() - old)[-1:]:
            labels[stem] = name
        keep(labels)
        stats = compiled.memory_analysis()
        return stats.temp_size_in_bytes, 0, compiled

    def pair(name, before, after, *args, donate=(), small=None, top=2):  # noqa: ARG001 - the harness's signature
        number = sum(label.endswith(" [as written]") for label in labels.values())
        measure(f"{number} {name} [as written]", before, *args, donate=donate)
        measure(f"{number} {name} [rewritten]", after, *args, donate=donate)

    module = types.ModuleType("_measure")
    module.__dict__.update(harness)
    module.measure, module.pair = measure, pair
    sys.modules["_measure"] = module
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")


def reports():
    ending = "-memory-usage-report.txt"
    return {name.removesuffix(ending) for name in os.listdir(FOLDER) if name.endswith(ending)}


def keep(labels):
    with open(os.path.join(FOLDER, "labels.json"), "w", encoding="utf-8") as out:
        json.dump(labels, out, indent=1)


def random(first, count):
    """Each program in a forked child: XLA reads its flags once per process."""
    import child
    import random_jax
    import random_raw
    import xla
    from random_source import Program
    xla.import_quietly()
    for seed in range(int(first), int(first) + int(count)):
        program = random_raw.program(seed * 1000) if seed % 4 == 0 else random_jax.program(seed * 1000)
        for size, rows in (("small", program.rows), ("large", LARGE_ROWS)):
            folder = os.path.join(FOLDER, f"{seed}-{size}")
            found = child.run(compile_random, (program.source(rows), isinstance(program, Program), folder),
                              time_limit=PROGRAM_LIMIT, memory_limit=12 << 30)
            if "error" in found:
                print(seed, size, found["error"].splitlines()[:1])


def texts():
    """Modules of one device only: others say so in the log."""
    import child
    import xla
    xla.import_quietly()
    for file in sorted(os.listdir(os.path.join(FOLDER, "texts"))):
        folder = os.path.join(FOLDER, file.removesuffix(".hlo"))
        if os.path.exists(folder):
            continue
        with open(os.path.join(FOLDER, "texts", file), encoding="utf-8") as source:
            text = source.read()
        if xla.partitions_of(text) > 1:
            continue
        found = child.run(compile_random, (text, False, folder), time_limit=PROGRAM_LIMIT, memory_limit=12 << 30)
        if "error" in found:
            print(file, found["error"].splitlines()[:1])


def compile_random(source, is_python, folder):
    import xla
    os.makedirs(folder, exist_ok=True)
    jax = xla.start(folder)
    if not is_python:
        xla.compile_text(jax, source)
        return {}
    space = {}
    exec(compile(source, "random-program", "exec"), space)  # noqa: S102 - our own generator wrote it
    jax.config.update("jax_enable_x64", space["X64"])
    function, shapes, donated = space["build"]()
    jax.jit(function, donate_argnums=donated).lower(*shapes).compile()
    return {}


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    # Names of functions and files in the dumps do not matter, thread counts do not either.
    os.environ["NPROC"] = "2"
    kind, *rest = sys.argv[1:]
    {"script": script, "patterns": patterns, "recipes": recipes, "texts": texts, "random": random}[kind](*rest)
