"""Budgets half way between a program's peak and its floor, by the model: without the host's memory, and with some of it.

    half_way.py gpu|tpu FILE ... [--host 64GiB] [--tool target/release/hlo-opt] [--judge xla]

Programs are dumps from before optimization. Nothing is compiled, so that those with calls of other libraries can be asked about too. With `--judge xla` the
target's compiler is asked about every form: figures, the half and estimated times are its own. The wheel that holds it has to be first in PATH.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import device_rewrites  # noqa: E402
import stamp  # noqa: E402

GIB = 1 << 30
# What files are called in the table.
NAMES = {
    "deepseek2_16b.device": "DeepSeek 2 16B, what one of 8 devices runs", "llama3_8b.device": "Llama 3 8B, what one of 8 devices runs",
    "mixtral_8x7b.device": "Mixtral 8x7B, what one of 8 devices runs",
    "deepseek2_16b": "DeepSeek 2 16B, 8 devices", "llama3_8b__training": "Llama 3 8B, 8 devices", "mixtral_8x7b": "Mixtral 8x7B, 8 devices",
    "llama31_405b": "Llama 3.1 405B, what one device runs", "llama31_70b": "Llama 3.1 70B, what one device runs",
    "llama3_8b_bf16": "Llama 3 8B with offloading, what one device runs", "maxtext_1n1g": "MaxText, one node", "maxtext_deepseek": "MaxText DeepSeek, 4 devices",
    "imagenette": "ResNet 50",
}


def main():
    options = arguments()
    (by_the_compiler if options.judge == "xla" else by_the_model)(options)


def by_the_model(options):
    head = f"| Dump | as written | default | `reassociate` | half-way budget, `reassociate` | the same with {options.host} of the host | floor |"
    table = stamp.Table(head + "\n|---|---|---|---|---|---|---|")
    ratios = []
    for file in options.files:
        plain, sums = found(file, options), found(file, options, "--exactness=reassociate")
        written, floor = plain["before"]["total_bytes"], plain["before"]["floor"]
        budget = (written + floor) // 2
        asked = "--exactness=reassociate", f"--budget={budget}"
        ways = found(file, options, *asked), found(file, options, *asked, f"--host-memory={options.host}")
        ends = [report["after"]["total_bytes"] for report in (plain, sums, *ways)]
        ratios.append([total / floor for total in (written, *ends)])
        moved = ways[1]["after"].get("host_bytes", 0) - plain["before"].get("host_bytes", 0)
        cells = [name(file), *map(gib, (written, *ends[:2])), f"{gib(budget)}: {verdict(ends[2], budget)}", f"{verdict(ends[3], budget)}, {gib(moved)} there, {times(ways[1])}", gib(floor)]
        table.row(f"| {' | '.join(cells)} |")
    table.end()
    means = [f"{statistics.geometric_mean(column):.2f}" for column in zip(*ratios)]
    print(f"\nPeak over floor, geometric mean: {', '.join(means)}.")


def by_the_compiler(options):
    table = stamp.Table("| Dump | as written | default | `reassociate` | half-way budget, `reassociate` | floor |\n|---|---|---|---|---|---|")
    ratios = []
    for file in options.files:
        asked = "--judge=xla", "--exactness=reassociate"
        plain, sums = found(file, options, "--judge=xla"), found(file, options, *asked)
        written, floor = plain["judge"]["before"]["total_bytes"], plain["before"]["floor"]
        budget = (written + floor) // 2
        half = found(file, options, *asked, f"--budget={budget}")
        ends = [report["judge"]["after"] for report in (plain, sums, half)]
        ratios.append([total / floor for total in (written, *(end["total_bytes"] for end in ends))])
        start = plain["judge"]["before"]["seconds"]
        cells = [f"{gib(end['total_bytes'])} ({end['seconds'] / start:.2f})" for end in ends]
        cells[2] = f"{gib(budget)}: {'met' if ends[2]['total_bytes'] <= budget else 'missed'}, {cells[2]}"
        table.row(f"| {name(file)} | {gib(written)} | {' | '.join(cells)} | {gib(floor)} |")
    table.end()
    means = [f"{statistics.geometric_mean(column):.2f}" for column in zip(*ratios)]
    print(f"\nPeak over floor, geometric mean: {', '.join(means)}.")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=("gpu", "tpu"))
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("--host", default="64GiB")
    parser.add_argument("--judge", choices=("model", "xla"), default="model")
    parser.add_argument("--tool", default=str(device_rewrites.REPOSITORY / "target" / "release" / "hlo-opt"))
    return parser.parse_args()


def found(file, options, *flags):
    """The report of a run; a missed budget has one too."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [options.tool, "--quiet", "--target", options.target, *flags, "--report", str(report), "-o", str(report.with_suffix(".hlo")), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 4):
            raise SystemExit(f"{file}: {done.stderr}")
        return json.loads(report.read_text())


def name(file):
    return next((known for part, known in NAMES.items() if re.search(part, file.name)), file.stem)


def gib(size):
    return f"{size / GIB:,.1f}"


def verdict(total, budget):
    return f"{'met' if total <= budget else 'missed'}, {gib(total)}"


def times(report):
    return f"{report.get('estimated_slowdown') or 1:.2f} of the time"


if __name__ == "__main__":
    main()
