"""Programs over eight devices through `hlo_opt.jit`: bytes of one device by XLA, collectives and FLOPs of the module it makes, as a table.

    python tests/referee/many_devices.py [FILE] [--small] [--only NAME,...]

FILE is a module with `PROGRAMS` as in device_programs.py (the default), or `PROGS`. With `--small` the programs run at their small size too, and the largest error is said.
"""
import argparse
import importlib.util
import os
import pathlib
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import hlo_opt  # noqa: E402
import stamp  # noqa: E402
from hlo_opt import jax_partitioned  # noqa: E402

GRADES = "hlo-exact", "reassociate"
MIB = 1 << 20


def main():
    options = parser().parse_args()
    source = importlib.util.spec_from_file_location("programs", options.file)
    programs = importlib.util.module_from_spec(source)
    sys.modules["programs"] = programs
    source.loader.exec_module(programs)
    known = getattr(programs, "PROGRAMS", None) or programs.PROGS
    table = stamp.Table("| program | floor | XLA | hlo-exact | `reassociate` | collectives, each as often as it runs | FLOPs | model |\n|---|---|---|---|---|---|---|---|")
    for name, make in known.items():
        if not options.only or name in options.only.split(","):
            table.row(row(name, make(options.small), options))
    table.end()


def parser():
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("file", nargs="?", default=pathlib.Path(__file__).with_name("device_programs.py"))
    made.add_argument("--small", action="store_true")
    made.add_argument("--only")
    made.add_argument("--objective", default="balanced", choices=["memory", "balanced", "time"])
    return made


def row(name, program, options):
    small = options.small
    function, args, given, *_ = program
    few = dict(min_saving=1 << 10, chunk_bytes=1 << 14) if small else {}
    plain = jax.jit(function, **given).lower(*args)
    forms, errors = [], []
    for grade in GRADES:
        mine = hlo_opt.jit(function, options=hlo_opt.Options(exactness=grade, objective=options.objective, **few), **given).lower(*args)
        forms.append((mine.memory_report(), mine._lowering))
        if small:
            errors.append(error(plain.compile(), mine.compile(), args))
    before = jax_partitioned.work(plain._lowering, "cpu")
    after = [jax_partitioned.work(inner, "cpu") for _, inner in forms]
    total = bytes_of(plain.compile())
    cells = [name, *(f"{count / MIB:.1f}" for count in (forms[0][0].floor_bytes, total, *(report.after_bytes for report, _ in forms))),
             " -> ".join(str(work.collectives) for work in (before, *after)), ", ".join(f"{work.flops / max(before.flops, 1):.2f}" for work in after),
             f"{forms[0][0].model.before.total_bytes / total - 1:+.1%}", *(f"{one:.1e}" for one in errors)]
    return f"| {' | '.join(cells)} |"


def bytes_of(compiled):
    stats = compiled.memory_analysis()
    return stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes + stats.temp_size_in_bytes


def error(theirs, mine, args):
    """The largest difference of a result, as a share of its largest value."""
    found = [jax.tree.leaves(compiled(*drawn(args))) for compiled in (theirs, mine)]
    pairs = [[np.asarray(leaf, np.float64) for leaf in pair] for pair in zip(*found, strict=True)]
    return max(np.abs(one - other).max() / max(np.abs(one).max(), 1e-30) for one, other in pairs)


def drawn(args):
    rng = np.random.default_rng(0)

    def one(leaf):
        values = rng.integers(0, 64, leaf.shape) if leaf.dtype == jnp.int32 else rng.standard_normal(leaf.shape) * 0.1
        return jax.device_put(values.astype(leaf.dtype), leaf.sharding)
    return jax.tree.map(one, args)


if __name__ == "__main__":
    main()
