"""Sends every small program of the corpus through StableHLO and `jax.export`: into the tool, out of it, and through XLA on data.

    python tests/referee/round_trips.py [NAMES]

NAMES is a pattern. Each program is exported, serialized, rewritten with every saving taken (`min_saving=1`, blocks of 4 KiB), serialized and read again, and both
run. The model's bytes have to be those of the HLO form before, and at most a hundredth more after. Programs written as HLO are made StableHLO text by XLA, and do not run. Needs the
installed package.
"""
import argparse
import os
import pathlib
import re
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "corpus")]

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax import export  # noqa: E402

import hlo_opt  # noqa: E402
from hlo_opt.xla import cases, compare, compiler  # noqa: E402
import generate  # noqa: E402

OPTIONS = dict(min_saving=1, chunk_bytes=1 << 12)
CASES = 2


class Failed(Exception):
    """What a round trip changed."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="?", default="", metavar="NAMES")
    pattern = parser.parse_args().names
    generate.load_programs()
    chosen = {path: entry for path, entry in generate.catalog.CATALOG.items() if "-small/" in path and entry.devices == 1 and re.search(pattern, path)}
    counts = {"rewritten": 0, "failed": 0}
    for path, entry in chosen.items():
        try:
            said = trip(entry)
        except Exception as error:  # noqa: BLE001: whatever the tool, JAX or XLA raises is this program's line
            said = f"FAILED: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
        counts["failed"] += said.startswith("FAILED")
        counts["rewritten"] += said.startswith("rewritten")
        print(f"{path}: {said}", flush=True)
    print(f"{len(chosen)} programs, {counts['rewritten']} rewritten, {counts['failed']} failed")
    return 1 if counts["failed"] or not counts["rewritten"] else 0


def trip(entry):
    if isinstance(entry, generate.catalog.RawProgram):
        return by_text(generate.filled_in(entry))
    function, args = entry.build(**entry.params)
    jitted = jax.jit(function, donate_argnums=entry.donate, keep_unused=True)
    hlo = jitted.lower(*args).compiler_ir("hlo").as_hlo_text(True)
    written = export.export(jitted)(*args).serialize()
    given = export.deserialize(written)
    found = hlo_opt.optimize(written, **OPTIONS)
    again = export.deserialize(found.exported.serialize())
    same_bytes(found, hlo, again)
    if again.in_avals != given.in_avals or again.out_avals != given.out_avals:
        raise Failed("the interface is another one")
    for case in range(CASES):
        data = jax.tree.unflatten(given.in_tree, cases.inputs(described(hlo), hlo, case, 1))
        same([run(form, data) for form in (given, again)], found)
    return verdict(found)


def by_text(hlo):
    """The trip of a program that only HLO text can say: through StableHLO text."""
    text = compiler.stablehlo(compiler.computation(compiler.parse(hlo)))
    found = hlo_opt.optimize(text, **OPTIONS)
    same_bytes(found, None, found.stablehlo)
    return verdict(found)


def same_bytes(found, hlo, again):
    if hlo is not None and hlo_opt.analyze(hlo).total_bytes != found.report.before.total_bytes:
        raise Failed("HLO and StableHLO need different bytes")
    left = hlo_opt.analyze(again).total_bytes
    # XLA's converters order instructions anew, and XLA packs their buffers by that order.
    if left > found.report.after.total_bytes * 1.01:
        raise Failed(f"what comes back needs {left} bytes, the report says {found.report.after.total_bytes}")


def described(hlo):
    """The shapes of the parameters, as XLA describes them."""
    return compiler.computation(compiler.parse(hlo)).program_shape().parameter_shapes()


def run(form, data):
    args, kwargs = jax.tree.map(lambda array: array.copy(), data)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(form.call)(*args, **kwargs))]


def same(results, found):
    difference = compare.compare(*results)
    grades = {rewrite.grade for rewrite in found.report.rewrites}
    if not (difference["bitwise"] or grades - {"bitwise"} and difference["tolerated"]):
        raise Failed(f"results differ ({', '.join(sorted(grades)) or 'nothing rewritten'}): {difference}")


def verdict(found):
    before, after = found.report.before.total_bytes, found.report.after.total_bytes
    return f"rewritten, {before} -> {after} bytes" if found.report.rewrites else f"kept, {before} bytes"


if __name__ == "__main__":
    sys.exit(main())
