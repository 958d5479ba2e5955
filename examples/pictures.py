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

import hlo_opt
from hlo_opt.xla import compare

WIDTH, HEIGHT, MARGIN = 860, 300, 60
COLORS = {"jax.jit": "#c0504d", "hlo_opt.jit": "#3a7d44"}


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
    (out / f"{name}.svg").write_text(svg(name, report), encoding="utf-8")
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


def svg(name, report):
    """Two curves over the order of the program, scaled to XLA's totals, and the floor."""
    told = json.loads(report.model.json)
    totals = {"jax.jit": report.before_bytes, "hlo_opt.jit": report.after_bytes}
    curves = {"jax.jit": told["before"], "hlo_opt.jit": told["after"]}
    top = max(totals.values())
    height = lambda count: HEIGHT - MARGIN / 2 - (HEIGHT - MARGIN) * count / top  # noqa: E731
    parts = [f'<text x="{MARGIN}" y="18" font-size="14">{name}: memory over the order of the program ({report.target})</text>']
    for place, (label, estimate) in enumerate(curves.items()):
        points = estimate["details"]["timeline"]
        step = (WIDTH - 2 * MARGIN) / max(1, len(points) - 1)
        line = " ".join(f"{MARGIN + step * at:.1f},{height(point['bytes']):.1f}" for at, point in enumerate(points))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLORS[label]}" stroke-width="2"/>')
        text = f"{label}: {totals[label] / 2**20:,.1f} MiB by XLA"
        parts.append(f'<text x="{WIDTH - 320}" y="{44 + 18 * place}" font-size="13" fill="{COLORS[label]}">{text}</text>')
    floor = height(report.floor_bytes)
    parts.append(f'<line x1="{MARGIN}" y1="{floor:.1f}" x2="{WIDTH - MARGIN}" y2="{floor:.1f}" stroke="#888" stroke-dasharray="4 4"/>')
    parts.append(f'<text x="{WIDTH - 320}" y="80" font-size="13" fill="#666">floor: {report.floor_bytes / 2**20:,.1f} MiB</text>')
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">\n{body}\n</svg>\n'
