"""Programs rewritten for XLA:GPU or XLA:TPU, and what those compilers say about both forms.

    device_rewrites.py gpu FOLDER [--tool target/release/hlo-opt] [--lower TARGETS.PY] [--only REGEX]

FOLDER holds modules before optimization (`*.hlo`); `--lower` writes the programs of a module like `../shared/programs/targets.py` there first,
lowered for the target. The rewritten forms come to FOLDER/rewritten, the compilers' answers to FOLDER/answers.json, so that a run that is cut
off goes on. No device is needed, but the compilers' wheels are (`pip install '.[gpu]'` or `'.[tpu]'`).

A program fell or rose if its temporaries changed by more than 5 % and 64 KiB. Exit code 1: some rose.
"""
import argparse
import importlib.util
import json
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True

import xla  # noqa: E402
from hlo_opt.xla import child, trial  # noqa: E402

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 600.0
PLATFORMS = {"gpu": "cuda", "tpu": "tpu"}
SLACK = 64 << 10


def main():
    options = arguments()
    xla.import_quietly()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.lower:
        child.run(lower, (options.target, str(options.lower), str(options.folder)), time_limit=3600.0)
    (options.folder / "rewritten").mkdir(exist_ok=True)
    answers = Answers(options.folder / "answers.json", options.target)
    verdicts = []
    for before in sorted(options.folder.glob("*.hlo")):
        if re.search(options.only, before.stem):
            verdicts.append(row(before, options, answers))
            print(f"{before.stem:32} {verdicts[-1]}", flush=True)
    words = [verdict.split()[0] for verdict in verdicts]
    print(f"{options.target}: {len(words)} programs, " + ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words))))
    sys.exit(1 if "rose" in words else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", choices=("gpu", "tpu"))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tool", default=str(REPOSITORY / "target" / "release" / "hlo-opt"))
    parser.add_argument("--lower", type=pathlib.Path)
    parser.add_argument("--only", default="", metavar="REGEX")
    return parser.parse_args()


def lower(target, programs, folder):
    """Writes every program of a module of `targets.py`'s making as text before optimization."""
    spec = importlib.util.spec_from_file_location("programs", programs)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.setup(target)
    for name, _, donated, build in made.build():
        shapes, forms = build()
        function = forms.get("before") or next(iter(forms.values()))
        traced = made.jax.jit(function, donate_argnums=donated).trace(*shapes)
        text = traced.lower(lowering_platforms=(PLATFORMS[target],)).compiler_ir("hlo").as_hlo_text()
        (pathlib.Path(folder) / f"{name}.hlo").write_text(text, encoding="utf-8")
    return {}


class Answers:
    """What the compiler said about a text, kept in a file."""

    def __init__(self, path, target):
        self.path, self.target = path, target
        self.known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def temporaries(self, module):
        return self.figure(module, "temp_bytes")

    def figure(self, module, kind):
        """One of the compiler's figures in bytes, or the estimated `seconds`; None if it refuses the module, which is asked again in the next run."""
        key = hash_of(module.read_text(encoding="utf-8"))
        if key not in self.known:
            answer = child.run(trial.time, (str(module), self.target), time_limit=LIMIT)
            if "temp_bytes" not in answer:
                print(f"  {module}: {answer.get('error', '')[-200:]}", file=sys.stderr, flush=True)
                return None
            self.known[key] = answer
            self.path.write_text(json.dumps(self.known), encoding="utf-8")
        return self.known[key][kind]


def hash_of(text):
    import hashlib
    return hashlib.sha256(text.encode()).hexdigest()


def row(before, options, answers):
    """One word, then MiB of temporaries."""
    after = before.parent / "rewritten" / before.name
    report = after.with_suffix(".json")
    command = [options.tool, "--quiet", "--target", options.target, "--report", str(report), "-o", str(after), str(before)]
    if subprocess.run(command, check=False).returncode:
        return "refused by the tool"
    rewrites = json.loads(report.read_text(encoding="utf-8"))["rewrites"]
    if not rewrites:
        return "untouched"
    old, new = answers.temporaries(before), answers.temporaries(after)
    mib = " -> ".join("?" if side is None else f"{side / 2**20:.1f}" for side in (old, new)) + " MiB"
    if old is None or new is None:
        return f"{'fits-now' if old is None and new is not None else 'unknown'} {mib}"
    slack = max(SLACK, old // 20)
    return f"{'fell' if new < old - slack else 'rose' if new > old + slack else 'same'} {mib}"


if __name__ == "__main__":
    main()
