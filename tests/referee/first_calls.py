"""How much longer the first call of `hlo_opt.jit` takes than that of `jax.jit`, calling aside: tracing, lowering, rewriting, judging and compiling, in processor time.

    python tests/referee/first_calls.py [ROUNDS [NAMES]]

The programs are those of `family_programs.py` at full size, of which nothing is allocated; NAMES is a pattern. A process compiles one program one way, and ways take turns;
what both do before (imports) is left out. Needs the installed package.
"""
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import stamp  # noqa: E402

WAYS = "jax.jit", "hlo_opt.jit"


def main():
    from family_programs import PROGRAMS
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    pattern = sys.argv[2] if len(sys.argv) > 2 else "."
    ratios = []
    table = stamp.Table("| Program | jax.jit, s | hlo_opt.jit, s | ratio | kept | original compiled |\n|---|---|---|---|---|---|")
    for name in PROGRAMS:
        if not re.search(pattern, name):
            continue
        times, kept = {way: [] for way in WAYS}, ""
        for _ in range(rounds):
            for way in WAYS:
                done = subprocess.run([sys.executable, __file__, "--one", name, way], capture_output=True, text=True, check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
                taken, _, kept = done.stdout.partition(" ")
                times[way].append(float(taken))
        plain, ours = (statistics.median(times[way]) for way in WAYS)
        ratios.append(ours / plain)
        table.row(f"| {name} | {plain:.2f} | {ours:.2f} | {ours / plain:.2f} | {kept.strip()} |")
    table.end()
    print(f"\n{len(ratios)} programs: geometric mean {statistics.geometric_mean(ratios):.2f}, largest {max(ratios):.2f}.")


def one(name, way):
    """Prints the processor seconds until a program is compiled, and what runs."""
    import jax
    import hlo_opt
    from family_programs import PROGRAMS
    function, shapes, _, exactness, *_ = PROGRAMS[name]
    arguments = [jax.ShapeDtypeStruct(dims, kind) for dims, kind in shapes]
    jax.jit(lambda x: x + 1).lower(1.0).compile()
    options = hlo_opt.Options(exactness=exactness)
    jitted = jax.jit(function) if way == WAYS[0] else hlo_opt.jit(function, options=options)
    begin = seconds()
    jitted.lower(*arguments).compile()
    taken = seconds() - begin
    report = None if way == WAYS[0] else jitted.memory_report(*arguments)
    print(f"{taken:.3f} {report.kept + ' | ' + ('no' if report.is_predicted or not report.before else 'yes') if report else ''}")


def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
    else:
        main()
