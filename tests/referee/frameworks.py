"""Runs programs of TensorFlow, Keras and PyTorch/XLA by the XLA inside these frameworks, as written and rewritten, and prints a table.

    python tests/referee/frameworks.py [--wheel FILE] [--venvs FOLDER] [tensorflow] [torch] > docs/measured/frameworks.md

Makes an environment for each framework (`frameworks/*.txt`; 2.1 and 1.2 GB) and installs the package's wheel into it; without `--wheel` the package is taken from
PYTHONPATH. Exit code 1 if results differ, if a rewritten program takes more memory by the framework's XLA, if none takes less, or if a framework cannot be
installed or imported, which is said.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import stamp

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"tensorflow": "TensorFlow", "torch": "PyTorch/XLA"}
LIMIT = 900
# Grades other than bitwise agree within this share of the largest number.
AGREE = 1e-4
# XLA may round the sizes of other buffers up: less than this share more is no more.
MORE = 1.01
HEADER = """# Programs of TensorFlow and PyTorch/XLA

Programs of both frameworks (`tests/referee/frameworks`), compiled and run on the CPU by the XLA inside the framework: as they are, and rewritten by the two levels
of `--exactness` ([recipes](../frameworks.md)). Bytes are those of the framework's XLA (`memory-usage-report`), differences of results the largest over the largest
number, `same` where all bits are equal, `-` where nothing was rewritten. The last column is the model's word for the same three. Made by

    python tests/referee/frameworks.py > docs/measured/frameworks.md
"""
HEAD = """| Framework | Program | as it is, MiB | hlo-exact, MiB | results | reassociate, MiB | results | model, MiB |
|---|---|---|---|---|---|---|---|"""


def main():
    options = arguments()
    print(HEADER)
    table = stamp.Table(HEAD)
    wrong, count = [], collections.Counter()
    for framework in options.frameworks or NAMES:
        python = environment(framework, options)
        for name in programs(framework):
            found = one(python, framework, name)
            said = judged(found)
            table.row(f"| {NAMES[framework]} {found.get('version', '')} | {name.replace('_', ' ')} | {' | '.join(cells(found, said))} |")
            wrong += [f"{framework} {name}: {said}"] if said else []
            count[framework] += "forms" in found and any(form["bytes"] * MORE < found["before"] for form in found["forms"])
    table.end()
    wrong += [f"{framework}: no program takes less memory" for framework in options.frameworks or NAMES if not count[framework]]
    print("\n" + ("All results agree." if not wrong else "\n".join(wrong)))
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=" or ".join(NAMES))
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--venvs", type=pathlib.Path, default=HERE.parents[1] / "target")
    options = parser.parse_args()
    if unknown := set(options.frameworks) - set(NAMES):
        parser.error(f"no such framework: {', '.join(sorted(unknown))}")
    return options


def environment(framework, options):
    """The interpreter of the framework's environment, made if it is missing. Ends with a message where it cannot be made."""
    done = subprocess.run(["sh", str(HERE / "setup.sh"), str(options.venvs / f"{framework}-venv"), str(HERE / "frameworks" / f"{framework}.txt")],
                          stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"frameworks: {NAMES[framework]} cannot be installed, so nothing of it was run")
    python = done.stdout.strip()
    steps = [[python, str(HERE / "frameworks/torch_parts.py")]] if framework == "torch" else []
    if options.wheel:
        steps.append([python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(options.wheel)])
    for step in steps:
        if subprocess.run(step, stdout=sys.stderr).returncode:
            sys.exit(f"frameworks: {NAMES[framework]} cannot be installed, so nothing of it was run ({' '.join(step)})")
    return python


def programs(framework):
    """Names of a framework's programs; read from the text, since importing needs the framework."""
    text = (HERE / "frameworks" / f"{framework}_programs.py").read_text()
    return re.findall(r'"(\w+)": \w+', text[text.index("PROGRAMS = {"):].split("\n", 1)[0])


def one(python, framework, name):
    """What came of a program, or the last line of what was said instead."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, str(HERE / "frameworks" / f"{framework}_programs.py"), name, folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return {"error": f"no answer in {LIMIT} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def judged(found):
    """What is wrong with what came of a program, if anything."""
    if "error" in found:
        return found["error"]
    for form in found["forms"]:
        if form["difference"] > (AGREE if form["rewrites"] else 0):
            return f"results differ by {form['difference']:.1e}"
        if form["bytes"] > found["before"] * MORE:
            return f"takes {form['bytes']:,} bytes rewritten, {found['before']:,} as it is"
    if abs(found["dump"][0] - found["forms"][0]["model"][0]) > 0.05 * found["dump"][0]:
        return "the dump is estimated otherwise than the program"
    return ""


def cells(found, said):
    if "error" in found:
        return [said] + [""] * 5
    parts = [mebibytes(found["before"])]
    for form in found["forms"]:
        same = "same" if not form["difference"] else f"{form['difference']:.0e}"
        parts += [mebibytes(form["bytes"]), same if form["rewrites"] else "-"]
    model = [found["forms"][0]["model"][0], *(form["model"][1] for form in found["forms"])]
    return [*parts, " ".join(map(mebibytes, model))]


def mebibytes(count):
    return f"{count / 2**20:,.1f}"


if __name__ == "__main__":
    sys.exit(main())
