"""Every example runs as its first lines say, prints figures before and after, and writes both pictures."""
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in ("drawing", "pictures"))


def test_there_is_one_per_family():
    assert NAMES == ["attention", "embedding", "founding", "graph", "loops", "scan"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example(name, tmp_path):
    command = [sys.executable, EXAMPLES / f"{name}.py", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("results at a reduced size: (the same bits|equal to)", done.stdout)
    peaks = re.search(r"peak ([\d.]+) (\w+) -> ([\d.]+) (\w+) \(floor ([\d.]+) (\w+), XLA's figures?(?: now, the model's before)?\)", done.stdout)
    assert peaks, done.stdout
    units = ["B", "KiB", "MiB", "GiB"]
    figures = [peaks.groups()[at:at + 2] for at in (0, 2, 4)]
    before, after, floor = (float(figure) * 1024 ** units.index(unit) for figure, unit in figures)
    assert after - floor < (before - floor) / 1.5, done.stdout
    drawn = xml.etree.ElementTree.parse(tmp_path / f"{name}.svg").getroot()
    assert sum(element.tag.endswith("polyline") for element in drawn) == 2
    assert '"rewrites"' in (tmp_path / f"{name}.html").read_text()
