"""Prove that the scoreboard says which estimates are off, and by how much: python test_scoreboard.py"""
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import board_rows  # noqa: E402
import scoreboard  # noqa: E402

# An estimator in a few lines: what it answers for the scheduled module, and for the one before optimizations.
ESTIMATOR = """#!{python}
import json, sys
for line in sys.stdin:
    before, after = line.rstrip("\\n").split("\\t")
    total = json.load(open(before.removesuffix(".before.hlo") + ".xla.json"))["total_bytes"]
    print(f"{{{predicted}}}\\t{{{scheduled}}}")
"""


def main():
    checks = [
        board("total", "total", code=0, said="(100.0%)"),
        board("total * 2", "total", code=0, said="+100.00%"),
        board("'panic'", "total", code=0, said="panic"),
        board("total", "total + 1", code=1, said="0 of "),
        directions(),
    ]
    print(f"{sum(checks)} of {len(checks)} checks of the scoreboard passed")
    sys.exit(not all(checks))


def board(predicted, scheduled, code, said):
    """Run the scoreboard over the corpus with an estimator that answers this."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "estimator")
        with open(program, "w", encoding="utf-8") as out:
            out.write(ESTIMATOR.format(python=sys.executable, predicted=predicted, scheduled=scheduled))
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
        command = [sys.executable, str(HERE / "scoreboard.py"), "--cache", folder, "--sets", "corpus", "--estimator", program]
        output = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    good = output.returncode == code and said in output.stdout
    if not good:
        print(f"predicted {predicted}, scheduled {scheduled}: exit code {output.returncode}\n{output.stdout[:2000]}{output.stderr}")
    return good


def directions():
    """A change counts as right when prediction and XLA move the same way, or neither moves."""
    def row(xla, predicted):
        return board_rows.Row("x", "x", "x", xla, str(predicted))
    right = [(row(100, 90), row(50, 60)), (row(100, 100), row(150, 101)), (row(10_000, 9), row(10_001, 9))]
    wrong = [(row(100, 90), row(50, 95)), (row(100, 90), row(50, 90)), (row(100, 90), row(50, "panic"))]
    good = all(scoreboard.direction(*pair) for pair in right) and not any(scoreboard.direction(*pair) for pair in wrong)
    if not good:
        print("directions of change are not judged right")
    return good


if __name__ == "__main__":
    main()
