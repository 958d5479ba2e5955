"""The page docs/measured/accuracy.md: how far programs of 16 bits are from double precision, as they are and rewritten.

    accuracy.py --tool target/release/hlo-opt > docs/measured/accuracy.md

Each family is rewritten by default and in small blocks; errors are the largest of a result over its largest magnitude, on normal data of three scales. Exit code 1 if
a rewritten form is more than twice as far off as its original, or a NaN or infinity is lost.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version

sys.dont_write_bytecode = True

import random_jobs  # noqa: E402
import stamp  # noqa: E402
import xla  # noqa: E402
import child  # noqa: E402
from hlo_opt.xla import accuracy, truth  # noqa: E402

PAGE = """# Accuracy of 16 bits

How far programs of 16 bits are from the same programs in double precision, as they are and rewritten at the default grade: the largest error of a result over its largest magnitude (original, rewritten),
on normal data of three scales, and how many NaN and infinities are lost when one in a thousand numbers is one. Made by

    target/referee-venv/bin/python tests/referee/accuracy.py --tool target/release/hlo-opt > docs/measured/accuracy.md

with jaxlib {jaxlib}, XLA:CPU. Exit code 1 if a rewritten form is off by more than twice the original's error, or loses a NaN or infinity.

Where the library of XLA:CPU computes a reduction and what surrounds it, `bf16` between two operations is not rounded there. Blocks compute these operations in `f32` too, and so does what
the library had computed together with them behind the loop ([grades](../grades.md)). The gradient of an attention of `bf16` and `f16` is off as far as shown before any rewrite.
"""
SOFTMAX = """
def softmax(s):
    e = jnp.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
"""
HEADS, WIDE, TABLE = (2, 4, 1024, 64), (4096, 512), (64, 4096)
# Name, function body, shapes of the floats; "int" for labels.
FAMILIES = {
    "attention": ("softmax(q @ k.swapaxes(-1, -2) * 2) @ v", dict(q=HEADS, k=HEADS, v=HEADS)),
    "attention, softmax in f32": ("softmax((q @ k.swapaxes(-1, -2) * 0.125).astype(jnp.float32)).astype(q.dtype) @ v", dict(q=HEADS, k=HEADS, v=HEADS)),
    "attention, gradient": ("jax.grad(lambda q: jnp.sum((softmax(q @ k.swapaxes(-1, -2) * 0.125) @ v).astype(jnp.float32)))(q)", dict(q=HEADS, k=HEADS, v=HEADS)),
    "layer normalisation": ("(c := (z := x @ u) - z.mean(-1, keepdims=True)) * jax.lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5)", dict(x=WIDE, u=(512, 512))),
    "root mean square": ("((z := x @ u) * jax.lax.rsqrt(jnp.square(z).mean(-1, keepdims=True) + 1e-5)) @ u", dict(x=WIDE, u=(512, 512))),
    "cross-entropy": ("jax.nn.logsumexp(z := x @ u, -1) - jnp.take_along_axis(z, i[:, None], -1)[:, 0]", dict(x=(4096, 64), u=TABLE, i=(4096,))),
    "cross-entropy, gradient": ("jax.grad(lambda x: (jax.nn.logsumexp(z := x @ u, -1) - jnp.take_along_axis(z, i[:, None], -1)[:, 0]).sum().astype(jnp.float32))(x)",
                                dict(x=(4096, 64), u=TABLE, i=(4096,))),
    "entropy of a softmax": ("-((w := softmax(x @ u)) * jnp.log(w + 1e-3)).sum(-1)", dict(x=(4096, 64), u=TABLE)),
    "gelu perceptron": ("jax.nn.gelu(x @ u) @ u.T", dict(x=(4096, 64), u=TABLE)),
}
WAYS = {"default": [], "small blocks": ["--chunk-bytes=256KiB", "--min-saving=1"]}


def lower(name, dtype, file):
    """In a child: trace one family and write its HLO."""
    jax = xla.start()
    import jax.numpy as jnp
    body, shapes = FAMILIES[name]
    space = {"jax": jax, "jnp": jnp}
    exec(f"{SOFTMAX}\ndef f({', '.join(shapes)}):\n    return {body}\n", space)  # noqa: S102 - the table above
    described = [jax.ShapeDtypeStruct(dims, jnp.int32 if key == "i" else jnp.dtype(dtype)) for key, dims in shapes.items()]
    random_jobs.write(file, random_jobs.in_full(jax.jit(space["f"]).lower(*described).compiler_ir("hlo").as_hlo_module()))
    return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", required=True)
    options = parser.parse_args()
    xla.import_quietly()
    print(PAGE.format(jaxlib=version("jaxlib")))
    scales = " | ".join(f"scale {scale}" for scale in accuracy.SCALES)
    table = stamp.Table(f"| Program | Type | Blocks | {scales} | NaN lost |\n|---|---|---|{'---|' * (len(accuracy.SCALES) + 1)}")
    with tempfile.TemporaryDirectory() as folder:
        bad = [row(table, options.tool, folder, name, dtype) for name in FAMILIES for dtype in ("bfloat16", "float16")]
    table.end()
    sys.exit(1 if any(bad) else 0)


def row(table, tool, folder, name, dtype):
    """Prints the lines of one family; whether one of them is worse than allowed."""
    before = os.path.join(folder, "before.hlo")
    found = child.run(lower, (name, dtype, before))
    if "error" in found:
        raise SystemExit(f"{name}: {found['error']}")
    bad, seen = False, set()
    for way, arguments in WAYS.items():
        after = os.path.join(folder, "after.hlo")
        subprocess.run([tool, "--quiet", *arguments, before, "-o", after], check=True)
        with open(after, encoding="utf-8") as file:
            text = file.read()
        if "while" not in text or text in seen:
            continue
        seen.add(text)
        answer = child.run(accuracy.accuracy, (before, after))
        if "error" in answer:
            raise SystemExit(f"{name}: {answer['error']}")
        cells = [f"{one['own']:.2e}, {one['new']:.2e}" for one in answer["rows"]]
        short = {"bfloat16": "bf16", "float16": "f16"}[dtype]
        table.row(f"| {name} | {short} | {way} | {' | '.join(cells)} | {answer['lost']} |")
        # Thousands of numbers: their largest error is no single draw, so no unit in the last place is granted.
        bad |= bool(answer["lost"]) or any(one["new"] > truth.ALLOWED * one["own"] for one in answer["rows"])
    return bad


if __name__ == "__main__":
    main()
