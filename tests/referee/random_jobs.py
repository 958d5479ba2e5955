"""What the stress driver does in child processes: lower a random program, weigh it, and judge what a tool made of it. A child does many."""
import numpy as np

import cases
import compare
import jobs
import random_jax
import random_jitter
import random_loop_judge
import random_raw
import xla

# XLA:CPU gives products and reductions to no library.
NO_LIBRARY = "--xla_cpu_experimental_ynn_fusion_type="


def drawn(names, raw, most, file):
    """Lower the first valid program among those of `names`; answers its place, and why each one before was refused."""
    refused = []
    for place, name in enumerate(names):
        program = (random_raw if raw else random_jax).program(name, most)
        try:
            lower(program.source(), raw, file)
        except Exception as error:  # noqa: BLE001 - whatever JAX or XLA has against it, another is drawn
            refused.append(f"{type(error).__name__}: {error}")
            continue
        return {"place": place, "refused": refused}
    return {"place": None, "refused": refused}


def lower(source, raw, file):
    """Write the HLO that XLA is given for a program: HLO text where `raw`, else Python source."""
    (lower_text if raw else lower_source)(source, file)
    return {}


def lower_source(source, file):
    """Trace Python source and write the HLO that XLA is given."""
    jax = xla.start()
    space = {}
    exec(compile(source, "random-program", "exec"), space)  # noqa: S102 - our own generator wrote it
    jax.config.update("jax_enable_x64", space["X64"])
    function, shapes, donated = space["build"]()
    lowered = jax.jit(function, donate_argnums=donated).lower(*shapes)
    write(file, in_full(lowered.compiler_ir("hlo").as_hlo_module()))


def lower_text(text, file):
    """The same for HLO text: what XLA parses and prints again."""
    xla.start()
    write(file, in_full(xla.parse(text)))


def in_full(module):
    """The module's text with its metadata and all of its constants."""
    options = xla.hlo().HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options)


def totals(executable):
    stats = executable.get_compiled_memory_stats()
    return {"total": stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
            - stats.alias_size_in_bytes}


def weigh(file):
    """XLA's total of one module, nothing run."""
    jax = xla.start()
    jax.config.update("jax_enable_x64", True)
    return totals(xla.compile_text(jax, jobs.read(file))[0])


def judge_without_library(before, afters, count, seed):
    """As `judge`, but XLA:CPU makes its kernels itself and leaves none to a library."""
    return judge(before, afters, count, seed, flags=[NO_LIBRARY])


def judge(before, afters, count, seed, flags=()):
    """Run a module and what tools made of it on the same data: for each, XLA's total and the first difference, or why it does not run.
    Fails where the module itself does not run, or does not say the same twice."""
    text = jobs.read(before)
    jax = xla.start(flags=flags)
    jax.config.update("jax_enable_x64", True)
    original = jobs.Runner(jax, text, before)
    started = [start(jax, file, original) for file in afters]
    answers = [answer for answer, _ in started]
    running = [(answer, runner) for answer, runner in started if runner]
    for case in range(count):
        data = cases.inputs(original.shapes, text, case, seed)
        expected = original.results(data)
        if case == 0:
            keep_promise(original, running, within(data, text), (data, expected))
        if compare.compare(expected, original.results(data))["differing_bytes"]:
            raise ValueError("the program itself gives different results in two runs")
        for answer, runner in running:
            results = runner.results(data)
            note(answer, compare.compare(expected, results), all(map(integers_equal, expected, results)), case)
            answer["numbers_equal"] &= all(numbers_equal(a, b) for a, b in zip(expected, results))
    return {"answers": answers, "total": totals(original.executable)["total"]}


def judge_by_truth(before, after, count, seed):
    """Of each case, whether the results of a rewritten module are as near those in double precision as the module's own, or no farther from the module's
    own than these are when its products round otherwise. Data that are not numbers in one of the two say nothing for it."""
    text = jobs.read(before)
    jax = xla.start()
    jax.config.update("jax_enable_x64", True)
    runners = [jobs.Runner(jax, jobs.read(file), file) for file in (before, after)]
    near = []
    for case in range(count):
        data = cases.inputs(runners[0].shapes, text, case, seed)
        results = [runner.results(data) for runner in runners]
        comparable = compare.compare(*results)["max_rel_error"] < compare.NOT_COMPARABLE
        near.append(comparable and any(within(jax, text, before, data, *results)
                                       for within in (random_loop_judge.within_rounding, random_jitter.within)))
    return {"near": near}


def within(data, text):
    """The same data with indices that are in bounds whichever dimension of whichever table they go to."""
    smallest = max(min(min(table, default=1) for table in cases.table_dims(text)), 1)
    modulus = lambda dtype: dtype.type(min(smallest, np.iinfo(dtype).max))  # noqa: E731
    return [array % modulus(array.dtype) if array.dtype.kind in "iu" else array for array in data]


def keep_promise(original, running, data, known):
    """Note how results compare on data that keep what `--assume` promises; `known`: other data with the results of the original."""
    same = all(map(np.array_equal, data, known[0]))
    expected = known[1] if same else original.results(data)
    for answer, runner in running:
        results = runner.results(data)
        answer["promised"] = fact(compare.compare(expected, results), all(map(integers_equal, expected, results)))


def start(jax, file, original):
    """An empty answer and the runner of a rewritten module; an error and None when XLA does not take it."""
    try:
        runner = jobs.Runner(jax, jobs.read(file), file)
    except Exception as error:  # noqa: BLE001 - said in the answer
        return {"error": f"{type(error).__name__}: {error}"}, None
    if [str(shape) for shape in runner.shapes] != [str(shape) for shape in original.shapes]:
        return {"error": "the modules take different parameters"}, None
    return {"total": totals(runner.executable)["total"], "bitwise": True, "max_rel_error": 0.0, "numbers_equal": True,
            "first_difference": None, "cases": []}, runner


def note(answer, found, integers, case):
    """Add what one case showed; `integers`: whether arrays of integers are equal."""
    answer["cases"].append(fact(found, integers))
    answer["max_rel_error"] = max(answer["max_rel_error"], found["max_rel_error"])
    if not found["bitwise"] and answer["bitwise"]:
        answer.update(bitwise=False, first_difference={"case": case, **(found["first_difference"] or {})})


def fact(found, integers):
    """What the verdict asks for of one comparison."""
    return {"bitwise": found["bitwise"], "max_rel_error": found["max_rel_error"], "tolerated": found["tolerated"],
            "integers_equal": integers, "nan_payload_only": found["bitwise"] or found["nan_payload_only"]}


def numbers_equal(a, b):
    """Whether the arrays are equal wherever neither has a NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.all((a == b) | compare.is_nan(a) | compare.is_nan(b)))


def integers_equal(a, b):
    """Whether arrays of integers are equal; others always are."""
    return not cases.is_integer(a.dtype) or (a.shape == b.shape and bool(np.all(a == b)))


def write(file, text):
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)
