"""The programs of the front page on three compilers: their rows of `docs/measured/families.md` beside what XLA:GPU and XLA:TPU need for the programs lowered
for them, as they are written and as hlo-opt rewrites them for that target. No device is needed, but the compilers' wheels are (`pip install '.[gpu,tpu]'`).

    front_page.py FOLDER [--tool target/release/hlo-opt] [--only REGEX]

Modules and the compilers' answers are kept in FOLDER, so that a run that is cut off goes on.
"""
import argparse
import pathlib
import re
import sys

sys.dont_write_bytecode = True

import device_rewrites  # noqa: E402
import families  # noqa: E402
import stamp  # noqa: E402
import xla  # noqa: E402
from hlo_opt.xla import child  # noqa: E402

MEASURED = device_rewrites.REPOSITORY / "docs" / "measured" / "families.md"
SHOWN = ("attention-gradient", "cross-entropy-gradient", "nearest-gradient", "embedding-bag-gradient", "per-example-gradient", "graph-gradient",
         "language-model-gradient", "convolution-gradient", "histogram", "sines-gradient", "layer")
TARGETS = "gpu", "tpu"
HEADER = ["Program, MiB by XLA", "Floor", "Grade", "XLA:CPU", "Run time", "XLA:GPU", "Time", "XLA:TPU", "Time"]


def main():
    options = arguments()
    xla.import_quietly()
    answers = {target: device_rewrites.Answers(made(options.folder / target) / "answers.json", target) for target in TARGETS}
    table = stamp.Table(f"{table_row(HEADER)}\n{table_row(['---'] * len(HEADER))}")
    for name in SHOWN:
        if re.search(options.only, name):
            cells = [cell for target in TARGETS for cell in on_device(options, name, target, answers[target])]
            table.row(table_row([*on_cpu(name), *cells]))
    table.end()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tool", default=str(device_rewrites.REPOSITORY / "target" / "release" / "hlo-opt"))
    parser.add_argument("--only", default="", metavar="REGEX")
    return parser.parse_args()


def made(folder):
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def table_row(cells):
    return "| " + " | ".join(cells) + " |"


def on_cpu(name):
    """Name, floor, grade, both totals and the run time, as they were measured with XLA:CPU."""
    row = next(line for line in MEASURED.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {name} |"))
    _, before, after, floor, grade, ratio = [cell.strip() for cell in row.strip("|").split("|")]
    return [name, floor, grade, before if before == after else f"{before} -> {after}", ratio]


def on_device(options, name, target, answers):
    """Totals before and after by the target's compiler, and the estimated time of the original divided by that of the result."""
    before = options.folder / target / f"{name}.hlo"
    if not before.exists():
        child.run(lower, (name, target, str(before)), time_limit=600.0)
    after, _ = families.optimized(options.tool, before, exactness(name), "--target", target)
    totals = [answers.figure(path, "total_bytes") for path in (before, after)]
    seconds = [answers.figure(path, "seconds") for path in (before, after)]
    is_known = all(seconds) and not any(answers.figure(path, "unknown_loops") for path in (before, after))
    shown = [f"{total / 2**20:,.1f}" if total else "does not compile" for total in totals]
    same = before.read_bytes() == after.read_bytes() or totals[0] == totals[1]
    return [shown[0] if same else " -> ".join(shown), "-" if same else f"{seconds[0] / seconds[1]:.2f}" if is_known else "?"]


def exactness(name):
    from family_programs import PROGRAMS

    return PROGRAMS[name][3]


def lower(name, target, path):
    """Writes a program, lowered for the platform, as text before optimization."""
    import jax
    from family_programs import PROGRAMS

    function, shapes = PROGRAMS[name][:2]
    arguments = [jax.ShapeDtypeStruct(dims, element) for dims, element in shapes]
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=(device_rewrites.PLATFORMS[target],))
    pathlib.Path(path).write_text(lowered.compiler_ir("hlo").as_hlo_text(), encoding="utf-8")
    return {}


if __name__ == "__main__":
    main()
