"""What the stress driver does in child processes: lower a random program, and judge what a tool made of it."""
import tempfile

import numpy as np

import cases
import compare
import jobs
import xla


def lower_source(source, file):
    """Trace and compile Python source; write the dump from before optimizations; return XLA's byte counts."""
    with tempfile.TemporaryDirectory() as folder:
        jax = xla.start(folder)
        space = {}
        exec(compile(source, "random-program", "exec"), space)  # noqa: S102 - our own generator wrote it
        jax.config.update("jax_enable_x64", space["X64"])
        function, shapes, donated = space["build"]()
        lowered = jax.jit(function, donate_argnums=donated).lower(*shapes)
        counts = totals(lowered.compile().runtime_executable())
        write(file, xla.dumped(folder, "before_optimizations.txt"))
        return counts


def lower_text(text, file):
    """The same for HLO text: what XLA parses and prints again."""
    with tempfile.TemporaryDirectory() as folder:
        jax = xla.start(folder)
        executable, _, _ = xla.compile_text(jax, text)
        write(file, xla.dumped(folder, "before_optimizations.txt"))
        return totals(executable)


def totals(executable):
    stats = executable.get_compiled_memory_stats()
    return {"total": stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
            - stats.alias_size_in_bytes}


def weigh(file):
    """XLA's total of one module, nothing run."""
    jax = xla.start()
    return totals(xla.compile_text(jax, jobs.read(file))[0])


def judge(before, afters, count, seed):
    """Run a module and what tools made of it on the same data: for each, XLA's total and the first difference."""
    text = jobs.read(before)
    jax = xla.start()
    jax.config.update("jax_enable_x64", True)
    original = jobs.Runner(jax, text, before)
    runners = [jobs.Runner(jax, jobs.read(file), file) for file in afters]
    answers = [{"total": totals(runner.executable)["total"], "bitwise": True, "max_rel_error": 0.0,
                "numbers_equal": True, "first_difference": None, "cases": []} for runner in runners]
    for answer, runner in zip(answers, runners):
        if [str(shape) for shape in runner.shapes] != [str(shape) for shape in original.shapes]:
            raise ValueError("the modules take different parameters")
    for case in range(count):
        data = cases.inputs(original.shapes, text, case, seed)
        expected = original.results(data)
        if compare.compare(expected, original.results(data))["differing_bytes"]:
            raise ValueError("the program itself gives different results in two runs")
        for answer, runner in zip(answers, runners):
            results = runner.results(data)
            note(answer, compare.compare(expected, results), case)
            answer["numbers_equal"] &= all(numbers_equal(a, b) for a, b in zip(expected, results))
    return {"answers": answers, "total": totals(original.executable)["total"]}


def note(answer, found, case):
    """Add what one case showed."""
    answer["cases"].append({"bitwise": found["bitwise"], "max_rel_error": found["max_rel_error"]})
    answer["max_rel_error"] = max(answer["max_rel_error"], found["max_rel_error"])
    if not found["bitwise"] and answer["bitwise"]:
        answer.update(bitwise=False, first_difference={"case": case, **(found["first_difference"] or {})})


def numbers_equal(a, b):
    """Whether the arrays are equal wherever neither has a NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.all((a == b) | compare.is_nan(a) | compare.is_nan(b)))


def write(file, text):
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)
