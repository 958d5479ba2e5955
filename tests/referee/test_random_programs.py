"""Prove that the stress driver passes a tool that changes nothing and catches tools that do harm: python test_random_programs.py"""
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import numpy as np  # noqa: E402

import compare  # noqa: E402
import random_check  # noqa: E402
import random_jobs  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent

# A tool in a few lines: `text` becomes what it writes.
TOOL = """#!{python}
import sys
words = sys.argv[1:]
if "--list-passes" in words:
    sys.exit(2)
source = next(w for k, w in enumerate(words) if w.endswith(".hlo") and words[k - 1] != "-o")
text = open(source).read()
{change}
open(words[words.index("-o") + 1], "w").write(text)
"""
UNCHANGED = ""
WRONG_WRAP = "text = text.replace('direction=LT', 'direction=GT')"
GROWING = "text = text + '\\n'"
# The second run grows what the first one made, and says that it takes less or more memory than the first one said.
REPORTED = """text = text + chr(10)
import json
with open(words[words.index("--report") + 1], "w") as report:
    json.dump({{"before": {{"total_bytes": 10**9}}, "after": {{"total_bytes": 10**8 {sign} len(text)}}}}, report)"""
BROKEN = "text = text.replace('ROOT', 'TOOR')"
CRASHING = "sys.exit(101)"


def main():
    checks = [
        (UNCHANGED, 4, "", " passed, 0 failed"),
        (WRONG_WRAP, 3, "values: ", " failed"),
        (GROWING, 2, "not-idempotent: ", "0 passed, 2 failed"),
        (REPORTED.format(sign="-"), 2, "", "2 passed, 0 failed"),
        (REPORTED.format(sign="+"), 2, "not-idempotent: ", "0 passed, 2 failed"),
        (BROKEN, 2, "xla: ", "0 passed, 2 failed"),
        (CRASHING, 2, "exit-101: ", "0 passed, 2 failed"),
    ]
    verdicts()
    promises()
    distances()
    roundings()
    failed = [change for change, *rest in checks if not check(change, *rest)]
    print(f"{len(checks) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


def verdicts():
    """What one difference means for each grade: fails if it is let through, or called a failure without being one."""
    f32 = lambda *values: [np.array(values, np.float32)]  # noqa: E731
    nan = lambda bits: np.array([bits], np.uint32).view(np.float32)[0]  # noqa: E731
    s32 = lambda *values: [np.array(values, np.int32)]  # noqa: E731
    for before, after, bitwise, exact in [
        (f32(1.0, 0.0), f32(1.0, 0.0), "", ""),
        (f32(1.0, 0.0), f32(1.0, -0.0), "sign", ""),
        (f32(1.0, nan(0x7FC00000)), f32(1.0, nan(0x7FC00001)), "", ""),
        (f32(1.0, 0.0, nan(0x7FC00000)), f32(1.0, -0.0, nan(0x7FC00001)), "sign", ""),
        (f32(1.0, 0.5), f32(1.0, 0.5000001), "bits", ""),
        (f32(1.0, 0.5), f32(1.0, 0.6), "values", "values"),
        (s32(1 << 30, 7), s32(1 << 30, 8), "bits", "bits"),
    ]:
        for grade, kind in (("bitwise", bitwise), ("hlo-exact", exact)):
            outcome = random_check.Outcome(random_check.Config("default", []), "", "", [{"grade": grade}], [])
            numbers, equal = (all(map(how, before, after)) for how in (random_jobs.numbers_equal, random_jobs.integers_equal))
            answer = {"total": 1, "bitwise": True, "max_rel_error": 0.0, "numbers_equal": numbers, "first_difference": None, "cases": []}
            random_jobs.note(answer, compare.compare(before, after), equal, 0)
            random_check.settle(outcome, answer, 1)
            assert outcome.problem.split(":")[0] == kind, (before, after, grade, outcome.problem)


def promises():
    """Data for `--assume` keep what it promises, in every type of index, and verdicts on it look at nothing else."""
    text = "%t = f32[300,200] parameter(0)\n%y = f32[5,1] gather(%t, %i)"
    for dtype in (np.int8, np.uint8, np.int32, np.uint64):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        [made, floats] = random_jobs.within([np.array([low, high, 0, 7], dtype), np.array([-1.5])], text)
        assert made.dtype == dtype and (made >= 0).all() and (made < 200).all() and made[3] == 7 and floats[0] == -1.5, made
    for promised, kind in (([1.0], ""), ([2.0], "values")):
        outcome = random_check.Outcome(random_check.Config("assume", [], promise=True), "", "", [{"grade": "assume"}], [])
        found = compare.compare([np.array([1.0], np.float32)], [np.array(promised, np.float32)])
        other = compare.compare([np.array([1.0], np.float32)], [np.array([3.0], np.float32)])
        answer = {"total": 1, "bitwise": True, "max_rel_error": 0.0, "numbers_equal": False, "first_difference": None, "cases": [],
                  "promised": random_jobs.fact(found, True)}
        random_jobs.note(answer, other, True, 0)
        random_check.settle(outcome, answer, 1)
        assert outcome.problem.split(":")[0] == kind, (promised, outcome.problem)


def distances():
    """A sum that cancels is as near double precision as it was when its order changes, or nearer, never when it becomes worse than it was."""
    module = """HloModule m
ENTRY %main {{
  %a = f32[256] parameter(0)
  %b = f32[256] parameter(1)
  %thousand = f32[] constant(1000)
  %much = f32[256] broadcast(%thousand), dimensions={{}}
  %big = f32[256] multiply(%a, %much)
  {sum}
}}
"""
    loose = "%c = f32[256] add(%big, %b)\n  ROOT %r = f32[256] subtract(%c, %big)"
    firm = "%c = f32[256] subtract(%big, %big)\n  ROOT %r = f32[256] add(%c, %b)"
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("loose.hlo", "firm.hlo")]
        for file, how in zip(files, (loose, firm)):
            random_jobs.write(file, module.format(sum=how))
        asked = [(*files, 1, 0), (*reversed(files), 1, 0)]
        near = [answer.get("near") for answer in random_check.in_children(random_jobs.judge_by_truth, asked)]
        assert near == [[True], [False]], near


def roundings():
    """Products that cancel to nothing may leave the rounding of one of them, and no more."""
    module = """HloModule m
ENTRY %main {{
  %a = f32[256] parameter(0)
  %b = f32[256] parameter(1)
  %near = f32[] constant({factor})
  %factor = f32[256] broadcast(%near), dimensions={{}}
  %other = f32[256] multiply(%a, %factor)
  %p = f32[256] multiply(%a, %b)
  %q = f32[256] multiply(%other, %b)
  ROOT %r = f32[256] subtract(%p, %q)
}}
"""
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, f"{number}.hlo") for number in range(3)]
        for file, factor in zip(files, ("1", "1.00000012", "1.00001")):
            random_jobs.write(file, module.format(factor=factor))
        asked = [(files[0], after, 1, 0) for after in files]
        near = [answer.get("near") for answer in random_check.in_children(random_jobs.judge_by_truth, asked)]
        assert near == [[True], [True], [False]], near


def check(change, count, said, last):
    """Run the driver with one tool; its output must contain `said` and its last line must end in `last`."""
    with tempfile.TemporaryDirectory() as folder:
        tool = os.path.join(folder, "tool")
        with open(tool, "w", encoding="utf-8") as out:
            out.write(TOOL.format(python=sys.executable, change=change))
        os.chmod(tool, os.stat(tool).st_mode | stat.S_IXUSR)
        command = [sys.executable, str(HERE / "random_programs.py"), "--tool", tool, "--count", str(count), "--seed", "5",
                   "--large-every", "0", "--no-shrink", "--keep", folder]
        output = subprocess.run(command, capture_output=True, text=True, timeout=600)
    lines = output.stdout.strip().splitlines() or [""]
    good = said in output.stdout and lines[-1].endswith(last) and (output.returncode == 0) == (said == "")
    if not good:
        print(f"the tool with {change!r} was not judged right:\n{output.stdout}{output.stderr}")
    return good


if __name__ == "__main__":
    main()
