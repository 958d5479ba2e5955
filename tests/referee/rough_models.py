"""How far the rough models of XLA:GPU and XLA:TPU are off, and how far programs are from their floor: the compiler's totals and ours of programs as they are written and as they are
rewritten, as a table. Times are those of `python -m hlo_opt.xla time`, a roofline over what the compiler makes, beside the program as written; `?` where a loop
runs nobody knows how often, or where the program does not compile as it is written.

    rough_models.py gpu|tpu FOLDER [--tool target/release/hlo-opt]

FOLDER holds modules before optimization (`*.hlo`), lowered for that target. The rewritten forms come to FOLDER/rewritten, the compiler's answers to
FOLDER/answers.json, so that a run that is cut off goes on. No device is needed, but the compiler's wheels are (`pip install '.[gpu]'` or `'.[tpu]'`).
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import device_rewrites  # noqa: E402
import stamp  # noqa: E402
import xla  # noqa: E402

GRADES = "hlo-exact", "reassociate"
FIRST = "as written"
MIB = 1 << 20


@dataclasses.dataclass
class Row:
    """A form of a program: bytes by the compiler (None if it does not compile) and by the model, and its time beside the program as written, if both are known."""

    program: str
    form: str
    total: int | None
    model: int
    margin: int
    floor: int
    time: float | None

    def cells(self):
        total = "does not compile" if self.total is None else f"{self.total / MIB:.1f}"
        known = "?" if self.time is None else f"{self.time:.2f}"
        return self.program, self.form, f"{self.floor / MIB:.1f}", total, f"{self.model / MIB:.1f}", f"{self.margin / MIB:.1f}", "" if self.total is None else known


def main():
    options = arguments()
    xla.import_quietly()
    (options.folder / "rewritten").mkdir(exist_ok=True)
    compiler = device_rewrites.Answers(options.folder / "answers.json", options.target)
    programs = []
    table = stamp.Table("| program | form | floor | XLA | model | error margin | time |\n|---|---|---|---|---|---|---|")
    for before in sorted(options.folder.glob("*.hlo")):
        programs.append([])
        for row in rows(before, compiler, options):
            programs[-1].append(row)
            table.row(f"| {' | '.join(row.cells())} |")
    table.end()
    print(f"\n{summary([row for program in programs for row in program if row.total is not None])}\n")
    print("\n".join(distance(programs, form) for form in (FIRST, *GRADES)))


def rows(before, compiler, options):
    """The forms of a program, one after the other."""
    written = floor = None
    for form, module in forms(before, options):
        seconds = known_seconds(compiler, module)
        memory = model(module, options)
        if form == FIRST:
            written, floor = seconds, memory["floor"]
        time = seconds / written if seconds and written else None
        yield Row(before.stem, form, compiler.figure(module, "total_bytes"), memory["total_bytes"], memory["error_margin_bytes"], floor, time)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=("gpu", "tpu"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tool", default=str(device_rewrites.REPOSITORY / "target" / "release" / "hlo-opt"))
    return parser.parse_args()


def summary(rows):
    """How many forms need no more than is said, and the absolute errors, of all forms and of those as they are written."""
    covered = sum(row.total <= row.model + row.margin for row in rows)
    written = [row for row in rows if row.form == FIRST]
    return (f"{covered} of {len(rows)} need no more than the model's total and error margin. Error: {errors(rows)}; of the {len(written)} as written: "
            f"{errors(written)}.")


def errors(rows):
    """The median of the absolute errors, and what nine in ten stay below."""
    found = sorted(abs(row.model / row.total - 1) for row in rows)
    median, high = (100 * found[min(int(len(found) * share), len(found) - 1)] for share in (0.5, 0.9))
    return f"median {median:.1f} %, of nine in ten {high:.1f} %"


def distance(programs, form):
    """Total over floor and time, as geometric means over the programs of which every form compiles; a program that a grade leaves alone counts as the grade before it leaves it."""
    compiled = [rows for rows in programs if all(row.total for row in rows)]
    order = (FIRST, *GRADES)
    last = [[row for row in rows if order.index(row.form) <= order.index(form)][-1] for rows in compiled]
    times = [row.time for row in last if row.time]
    ratio = statistics.geometric_mean(row.total / row.floor for row in last)
    risen = sum(row.total > rows[0].total for row, rows in zip(last, compiled))
    return (f"{form}: {ratio:.2f} times the floor ({len(last)} programs, {risen} above the program as written), {statistics.geometric_mean(times):.2f} of its time "
            f"({len(times)} programs, at most {max(times):.2f}).")


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


def model(module, options):
    """What the tool says about a module's memory."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        command = [options.tool, "--quiet", "--analyze", "--target", options.target, "--report", str(report), str(module)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(report.read_text(encoding="utf-8"))["before"]


if __name__ == "__main__":
    main()
