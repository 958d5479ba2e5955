"""What the examples share: run a function both ways on small data, ask XLA about the full size, draw before and after.

The pictures are NAME.svg (memory over the program's order, before and after, above the floor) and NAME.html (the tool's own report: hover it).
"""
import argparse
import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
from drawing import size, svg

import hlo_opt
from hlo_opt.xla import compare


def arguments(shapes, seed=0):
    """Random data for abstract arguments; integers reach beyond both ends of the tables of 128 rows here."""
    rng = np.random.default_rng(seed)

    def array(leaf):
        if np.issubdtype(leaf.dtype, np.integer):
            return rng.integers(-130, 130, leaf.shape).astype(leaf.dtype)
        return rng.standard_normal(leaf.shape).astype(leaf.dtype)

    return jax.tree.map(array, shapes)


def shape(*dims, dtype="float32"):
    return jax.ShapeDtypeStruct(dims, np.dtype(dtype))


def show(name, function, small, full, **options):
    """Compares results on small data, prints XLA's bytes at full size, and writes both pictures. Exits with 1 if results differ."""
    parser = argparse.ArgumentParser(description=f"{name}: before and after")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("pictures"), metavar="DIR", help="where the pictures go")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    print(f"results at a reduced size: {results(function, small, options)}")
    step = hlo_opt.jit(function, options=hlo_opt.Options(**options))
    print(step.explain(*full))
    report = step.memory_report(*full)
    told = json.loads(report.model.json)
    curves = [(label, estimate["details"]["timeline"], total, f"{size(total)} by XLA") for label, estimate, total in
              (("jax.jit", told["before"], report.before_bytes), ("hlo_opt.jit", told["after"], report.after_bytes))]
    title = f"{name}: memory over the order of the program ({report.target})"
    (out / f"{name}.svg").write_text(svg(title, curves, report.floor_bytes), encoding="utf-8")
    page(step.lower(*full), out / f"{name}.html", options)
    print(f"pictures: {out / name}.svg, {out / name}.html")


def results(function, small, options):
    """Whether both jits agree: the same bits, or how far they are apart."""
    data = arguments(small)
    mine = hlo_opt.jit(function, options=hlo_opt.Options(**options, min_saving=1, chunk_bytes=1 << 16))
    theirs = jax.jit(function)
    left, right = ([np.asarray(leaf) for leaf in jax.tree.leaves(run(*data))] for run in (theirs, mine))
    found = compare.compare(left, right)
    if not (found["bitwise"] or found["tolerated"]):
        sys.exit(f"results differ: {found}")
    return "the same bits" if found["bitwise"] else f"equal to {found['max_rel_error']:.1e} of their scale"


def page(lowered, path, options):
    """The tool's own report, from the module that JAX hands to XLA."""
    module = lowered.compiler_ir("hlo").as_hlo_text(True)
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    command = [sys.executable, "-m", "hlo_opt", "-q", *flags, "--report", str(path), "-o", str(path.with_suffix(".hlo")), "-"]
    subprocess.run(command, input=module, text=True, check=True)
