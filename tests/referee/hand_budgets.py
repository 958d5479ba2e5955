"""Budgets that an expert reaches by hand: for each program the smallest form by hand gives the budget, and the tool, with the compiler as judge, the other form.

    hand_budgets.py gpu|tpu FOLDER [--tool target/release/hlo-opt] [--factor 1.0]

FOLDER holds modules before optimization, `NAME.hlo` as written and `NAME.FORM.hlo` by hand, lowered for that target. The rewritten forms come to FOLDER/budgets, the compiler's
answers to FOLDER/answers.json. Times are a roofline over what the compiler makes. No device is needed, but the compiler's wheels are (`pip install '.[gpu]'` or `'.[tpu]'`).
"""
import argparse
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True

import device_rewrites  # noqa: E402
import stamp  # noqa: E402
import xla  # noqa: E402

MIB = 1 << 20


def main():
    options = arguments()
    xla.import_quietly()
    (options.folder / "budgets").mkdir(exist_ok=True)
    compiler = device_rewrites.Answers(options.folder / "answers.json", options.target)
    table = stamp.Table("| program | as written, MiB | by hand, MiB | result, MiB | by hand, ms | result, ms | by hand, TFLOP | result, TFLOP |\n|---|---|---|---|---|---|---|---|")
    met = cheaper = programs = 0
    for written in sorted(file for file in options.folder.glob("*.hlo") if "." not in file.stem):
        by_hand = smallest(written, compiler)
        if by_hand is None:
            continue
        programs += 1
        found = rewritten(written, int(compiler.figure(by_hand, "total_bytes") * options.factor), options)
        met += found is not None
        cheaper += found is not None and compiler.figure(found, "flops") <= compiler.figure(by_hand, "flops")
        table.row(f"| {' | '.join(cells(written, by_hand, found, compiler))} |")
    table.end()
    print(f"\n{met} of {programs} budgets are met, {cheaper} of them with no more operations than by hand.")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=("gpu", "tpu"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tool", default=str(device_rewrites.REPOSITORY / "target" / "release" / "hlo-opt"))
    parser.add_argument("--factor", type=float, default=1.0)
    return parser.parse_args()


def smallest(written, compiler):
    """The form by hand of the fewest bytes; None if there is none that compiles."""
    forms = [(compiler.figure(form, "total_bytes"), form) for form in sorted(written.parent.glob(f"{written.stem}.*.hlo"))]
    return min(((total, form) for total, form in forms if total is not None), default=(None, None))[1]


def rewritten(written, budget, options):
    """The form that the tool finds for a budget; None if it misses it."""
    result = options.folder / "budgets" / written.name
    command = [options.tool, "--quiet", "--target", options.target, "--exactness", "reassociate", "--judge", "xla", "--budget", str(budget), "-o", str(result), str(written)]
    package = {"PYTHONPATH": str(device_rewrites.REPOSITORY / "python"), "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    status = subprocess.run(command, check=False, env={**os.environ, **package}, capture_output=True).returncode
    return result if status == 0 else None


def cells(written, by_hand, found, compiler):
    """The columns of a program."""
    def both(kind, unit, digits):
        return [f"{compiler.figure(form, kind) / unit:,.{digits}f}" if form else "missed" for form in (by_hand, found)]

    return [written.stem, f"{compiler.figure(written, 'total_bytes') / MIB:,.0f}", *both("total_bytes", MIB, 0), *both("seconds", 1e-3, 1), *both("flops", 1e12, 2)]


if __name__ == "__main__":
    main()
