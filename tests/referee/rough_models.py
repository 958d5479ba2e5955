"""How far the rough models of XLA:GPU and XLA:TPU are off: the compiler's totals and ours of programs as they are written and as they are rewritten, as a table. Times are those of
`python -m hlo_opt.xla time`, a roofline over what the compiler makes, beside the program as written; `?` where a loop
runs nobody knows how often, or where the program does not compile as it is written.

    rough_models.py gpu|tpu FOLDER [--tool target/release/hlo-opt]

FOLDER holds modules before optimization (`*.hlo`), lowered for that target. The rewritten forms come to FOLDER/rewritten, the compiler's answers to
FOLDER/answers.json, so that a run that is cut off goes on. No device is needed, but the compiler's wheels are (`pip install '.[gpu]'` or `'.[tpu]'`).
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import device_rewrites  # noqa: E402
import xla  # noqa: E402

GRADES = "hlo-exact", "reassociate"
FIRST = "as written"
MIB = 1 << 20


def main():
    options = arguments()
    xla.import_quietly()
    (options.folder / "rewritten").mkdir(exist_ok=True)
    compiler = device_rewrites.Answers(options.folder / "answers.json", options.target)
    rows = []
    print("| program | form | XLA | model | error margin | time |\n|---|---|---|---|---|---|")
    for before in sorted(options.folder.glob("*.hlo")):
        written = None
        for form, module in forms(before, options):
            total, seconds = compiler.figure(module, "total_bytes"), known_seconds(compiler, module)
            written = seconds if form == FIRST else written
            ours, more = model(module, options)
            if total is None:
                print(f"| {before.stem} | {form} | does not compile | {ours / MIB:.1f} | {more / MIB:.1f} | |", flush=True)
                continue
            rows.append((form, total, ours, more))
            print(f"| {before.stem} | {form} | {total / MIB:.1f} | {ours / MIB:.1f} | {more / MIB:.1f} | {beside(seconds, written)} |", flush=True)
    print(f"\n{summary(rows)}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=("gpu", "tpu"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tool", default=str(device_rewrites.REPOSITORY / "target" / "release" / "hlo-opt"))
    return parser.parse_args()


def summary(rows):
    """How many programs need no more than is said, and the absolute errors, of all forms and of those as they are written."""
    covered = sum(total <= ours + more for _, total, ours, more in rows)
    written = [row for row in rows if row[0] == FIRST]
    return (f"{covered} of {len(rows)} need no more than the model's total and error margin. Error: {errors(rows)}; of the {len(written)} as written: "
            f"{errors(written)}.")


def errors(rows):
    """The median of the absolute errors, and what nine in ten stay below."""
    found = sorted(abs(ours / total - 1) for _, total, ours, _ in rows)
    median, high = (100 * found[min(int(len(found) * share), len(found) - 1)] for share in (0.5, 0.9))
    return f"median {median:.1f} %, of nine in ten {high:.1f} %"


def forms(before, options):
    """The module as it is written, and as each grade rewrites it, without forms that are there already."""
    found = [(FIRST, before)]
    for grade in GRADES:
        after = options.folder / "rewritten" / f"{grade}.{before.name}"
        if not after.exists():
            command = [options.tool, "--quiet", "--target", options.target, "--exactness", grade, "-o", str(after), str(before)]
            subprocess.run(command, check=True)
        if all(after.read_text(encoding="utf-8") != other.read_text(encoding="utf-8") for _, other in found):
            found.append((grade, after))
    return found


def known_seconds(compiler, module):
    """The estimated time, unless there is a loop whose iterations nobody knows."""
    seconds = compiler.figure(module, "seconds")
    return None if seconds is None or compiler.figure(module, "unknown_loops") else seconds


def beside(seconds, written):
    return f"{seconds / written:.2f}" if seconds and written else "?"


def model(module, options):
    """Our total and its error margin."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        command = [options.tool, "--quiet", "--analyze", "--target", options.target, "--report", str(report), str(module)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        memory = json.loads(report.read_text(encoding="utf-8"))["before"]
    return memory["total_bytes"], memory["error_margin_bytes"]


if __name__ == "__main__":
    main()
