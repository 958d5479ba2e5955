"""The table of memory patterns: XLA's bytes before and after hlo-opt, against the best form known.

    pattern_table.py --tool FILE --programs DIR [--only REGEX] [--ratio] [--markdown] [--out DIR]

DIR holds `patterns.py` (programs by name) and recipes `r*.py` (pairs of a program and its form by hand). Bytes are XLA:CPU's own, compiled
from shapes. A row is `ok` when it is within 1 % of its form (5 % of a form by hand), or unchanged where nothing better is known. With
`--ratio` reduced programs run on data: the error, and the run time original / rewritten, interleaved. Exit code 1: some row got worse.
"""
import argparse
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import statistics
import sys
import tempfile
import types

sys.dont_write_bytecode = True

import xla  # noqa: E402, F401: puts the package on the path
from hlo_opt.xla import child, compiler, jobs  # noqa: E402
from pattern_targets import FORMS, KEPT, RECIPES, REGROUPED  # noqa: E402

import families  # noqa: E402
import stamp  # noqa: E402

COLUMNS = "{:34} {:>11} {:>11} {:>11} {:>11}  {:11} {:5} {:>7} {:>6}"
MARKDOWN = "| {} | {} | {} | {} | {} | {} | {} | {} | {} |"
HEADER = ("program", "before", "after", "best form", "floor", "grade", "", "error", "ratio")
REDUCED = 1 << 22
LIMIT = 600.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", required=True, help="the hlo-opt binary")
    parser.add_argument("--programs", default="../shared/programs", metavar="DIR")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--ratio", action="store_true", help="run reduced programs on data too")
    parser.add_argument("--markdown", action="store_true", help="as docs/measured/patterns.md has it")
    parser.add_argument("--out", metavar="DIR", help="keep the modules there")
    options = parser.parse_args()
    options.programs = pathlib.Path(options.programs).resolve()
    os.environ["JAX_PLATFORMS"] = "cpu"
    compiler.import_quietly()
    if options.markdown:
        options.table = stamp.Table(f"{MARKDOWN.format(*(cell.capitalize() for cell in HEADER))}\n{'|---' * len(HEADER)}|")
    else:
        print(COLUMNS.format(*HEADER), "(MiB)", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        options.out = pathlib.Path(options.out or folder)
        options.out.mkdir(parents=True, exist_ok=True)
        options.ratios = []
        worse = [row(options, *each) for each in rows(options) if re.search(options.only, each[0])]
    if options.markdown:
        options.table.end()
    if options.ratios:
        print(f"\n{len(options.ratios)} ratios: geometric mean {statistics.geometric_mean(options.ratios):.2f}, lowest {min(options.ratios):.2f}")
    sys.exit(1 if any(worse) else 0)


def show(options, *cells):
    if options.markdown:
        options.table.row(MARKDOWN.format(*cells))
    else:
        print(COLUMNS.format(*cells), flush=True)


def rows(options):
    """Name, how to lower it (and its form by hand), and bytes of the best form."""
    for name in names(options):
        form = FORMS.get(name)
        yield name, lower_pattern, (str(options.programs), name), form and form * 2**30
    for recipe in RECIPES:
        if re.search(options.only, recipe):
            for index, label in enumerate(child.run(labels, (str(options.programs), recipe))["labels"]):
                yield f"{recipe}: {label}", lower_recipe, (str(options.programs), recipe, index), None


def names(options):
    text = (options.programs / "patterns.py").read_text(encoding="utf-8")
    spread = {"b_get_": ("clip", "fill", "drop", "promise_in_bounds"), "f_": ("set", "max", "min", "multiply"),
              "b_add_": ("clip", "fill", "drop", "promise_in_bounds"), "c_": ("int8", "uint8", "int16", "uint16", "uint32")}
    for match in re.finditer(r'^ *prog\("(\w+)" \+|^@prog\("(\w+)"', text, re.MULTILINE):
        yield from [match[1] + end for end in spread[match[1]]] if match[1] else [match[2]]


def row(options, name, lower, arguments, form):
    """Prints one row; whether the program got worse."""
    stem = options.out / re.sub(r"\W+", "-", name)
    before = stem.with_name(stem.name + ".before.hlo")
    made = child.run(lower, (*arguments, str(before), 1 << 30), time_limit=LIMIT)
    if "error" in made:
        print(f"{name:34} {made['error'][-90:]}", flush=True)
        return False
    exactness = "reassociate" if name.split(":")[0] in REGROUPED else "hlo-exact"
    after, grades = families.optimized(options.tool, before, exactness)
    hand = made.get("hand")
    figures = [child.run(jobs.peak, (str(path),), time_limit=LIMIT) for path in (before, after, *([hand] if hand else []))]
    totals = [figure.get("total_bytes") for figure in figures]
    if hand:
        form = totals[2]
    error, ratio = on_data(options, name, lower, arguments, exactness) if options.ratio else ("", "")
    if None in totals:
        print(f"{name:34} {[figure.get('error', '')[-90:] for figure in figures]}", flush=True)
        return False
    floor = sum(figures[0][key] for key in ("argument_bytes", "output_bytes")) - figures[0]["alias_bytes"]
    worst = max(grades, key=list(families.MOST_ERROR).index, default="-")
    verdict = judge(name, totals, form, 1.05 if hand else 1.01)
    cells = [families.mib(value) for value in (totals[0], totals[1], form, floor)]
    show(options, name, *cells, worst, verdict, error, ratio)
    return totals[1] > totals[0]


def judge(name, totals, form, slack):
    if name in KEPT:
        return "ok" if totals[1] == totals[0] else "MISS"
    if form is None:
        return ""
    return "ok" if totals[1] <= form * slack else "MISS"


def on_data(options, name, lower, arguments, exactness):
    """Largest error and run-time ratio of the reduced program; words where there is none."""
    if lower is lower_recipe:
        return "", ""
    before = options.out / f"{name}.reduced.hlo"
    if "error" in child.run(lower, (*arguments, str(before), REDUCED), time_limit=LIMIT):
        return "-", "-"
    after, grades = families.optimized(options.tool, before, exactness)
    if not grades:
        return "kept", ""
    same = child.run(jobs.same, (str(before), str(after), 2), time_limit=LIMIT)
    bench = child.run(jobs.bench, (str(before), str(after)), time_limit=LIMIT)
    options.ratios += [bench["ratio"]] if "ratio" in bench else []
    error = same.get("max_rel_error")
    error = "-" if error is None else "0" if same["bitwise"] else f"{error:.0e}"
    return error, f"{bench['ratio']:.2f}" if "ratio" in bench else "-"


# In processes of their own.


def module(folder, name):
    spec = importlib.util.spec_from_file_location(name, pathlib.Path(folder) / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def write(function, shapes, file, dumps=None, **keys):
    import jax

    function = function if hasattr(function, "lower") else jax.jit(function, **keys)
    lowered = function.lower(*shapes)
    if dumps is None:
        text = lowered.as_text("hlo")
    else:
        # What is partitioned says so only in what XLA was given to compile.
        lowered.compile()
        text = max(pathlib.Path(dumps).glob("*before_optimizations.txt"), key=os.path.getsize).read_text(encoding="utf-8")
    pathlib.Path(file).write_text(text, encoding="utf-8")


def lower_pattern(folder, name, file, rows):
    os.environ["HLO_N"] = str(rows)
    make, flags, wide, _ = module(folder, "patterns").PROGS[name]
    with tempfile.TemporaryDirectory() as dumps:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_dump_to={dumps} --xla_dump_hlo_as_text"
        import jax

        jax.config.update("jax_enable_x64", wide)
        write(*make(), file, dumps if flags else None)
    return {}


def pairs(folder, recipe):
    """The calls of `pair` in a recipe, without carrying them out."""
    import jax

    found = []
    harness = types.ModuleType("_measure")
    harness.pair = lambda name, *arguments, donate=(), **_: found.append((name, *arguments, donate))
    harness.measure = lambda *_, **__: (0, 0, None)
    harness.S = lambda shape, dtype="float32": jax.ShapeDtypeStruct(tuple(shape), jax.numpy.dtype(dtype))
    harness.jax, harness.jnp, harness.lax, harness.os = jax, jax.numpy, jax.lax, os
    sys.modules["_measure"] = harness
    with contextlib.redirect_stdout(io.StringIO()):
        module(folder, recipe)
    return [pair for pair in found if not pair[0].startswith("(tiny")]


def labels(folder, recipe):
    return {"labels": [name for name, *_ in pairs(folder, recipe)]}


def lower_recipe(folder, recipe, index, file, _):
    _, before, by_hand, *shapes, donated = pairs(folder, recipe)[index]
    hand = file.replace(".before.", ".hand.")
    write(before, shapes, file, donate_argnums=donated)
    write(by_hand, shapes, hand, donate_argnums=donated)
    return {"hand": hand}


if __name__ == "__main__":
    main()
