"""Which products XLA:CPU's library fusions write down whole, and whether the tool says so.

    hidden_scratch.py --tool FILE [--only REGEX]

Every program makes 2^25 products (128 MiB). `takes` is what the process grows by while it runs once, less results and the temporaries that XLA
reports; `said` is the tool's hidden scratch. Linux only. Exit code 1: the tool says whole where the process takes less than half of it, or tiles
where it takes more than half.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

WHOLE = 1 << 27
ROWS = ((32768, 64), (64, 1024))
SHORT = ((131072, 64), (64, 256))
BATCH = ((8, 2048, 64), (8, 2048, 64))
IMAGE = ((32, 128, 128, 8), (3, 3, 8, 64))


def programs():
    """Name: function, shapes of its f32 arguments."""
    import jax
    from jax import lax, nn
    from jax import numpy as jnp

    def convolved(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def pooled(y):
        return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def scores(q, k):
        return jnp.einsum("bqd,bkd->bqk", q, k)

    def less_maximum(y, axis):
        return y - y.max(axis, keepdims=True)

    return {
        "sum of a row": (lambda x, w: (x @ w).sum(1), ROWS),
        "gelu, sum of a row": (lambda x, w: nn.gelu(x @ w).sum(1), ROWS),
        "gelu, sum of a column": (lambda x, w: nn.gelu(x @ w).sum(0), ROWS),
        "sum of all": (lambda x, w: jnp.tanh(x @ w).sum(), ROWS),
        "padded rows": (lambda x, w: jnp.pad(jnp.tanh(x @ w), ((0, 0), (3, 5))).max(1), ROWS),
        "less the row's maximum": (lambda x, w: less_maximum(x @ w, 1).sum(1), ROWS),
        "less the row's maximum, sum of a column": (lambda x, w: less_maximum(x @ w, 1).sum(0), ROWS),
        "less the column's maximum": (lambda x, w: less_maximum(x @ w, 0).sum(1), ROWS),
        "less the maximum of all": (lambda x, w: (lambda y: (y - y.max()).sum(1))(x @ w), ROWS),
        "bias": (lambda x, w, b: jnp.tanh(x @ w + b).sum(1), (*ROWS, (1024,))),
        "factor of a row": (lambda x, w, f: (jnp.tanh(x @ w) * f[:, None]).sum(1), (*ROWS, (32768,))),
        "weights along a row": (lambda x, w, f: (jnp.tanh(x @ w) * f).sum(1), (*ROWS, (1024,))),
        "two products": (lambda x, w, v: ((x @ w) - (x @ v)).max(1), (*ROWS, (64, 1024))),
        "rows of rows": (lambda x, w: jnp.tanh((x @ w).reshape(32, 1024, 1024)).sum(2), ROWS),
        "rows of rows, sum between": (lambda x, w: jnp.tanh((x @ w).reshape(32, 1024, 1024)).sum((0, 2)), ROWS),
        "rows of rows, sum over one": (lambda x, w: jnp.tanh((x @ w).reshape(32, 1024, 1024)).sum(1), ROWS),
        "parts of a row": (lambda x, w: jnp.tanh((x @ w).reshape(131072, 4, 64)).sum(2), SHORT),
        "batch, sum of a row": (lambda q, k: jnp.tanh(scores(q, k)).sum(2), BATCH),
        "batch, less the maximum": (lambda q, k: less_maximum(scores(q, k), 2).sum(2), BATCH),
        "attention": (lambda q, k: jnp.einsum("bqk,bkd->bqd", nn.softmax(scores(q, k)), k), BATCH),
        "one head": (lambda x, w: nn.softmax(x @ w, axis=1) @ w.T, ROWS),
        "convolution, sum of an image": (lambda x, w: jnp.tanh(convolved(x, w)).sum((1, 2)), IMAGE),
        "convolution, sum of a pixel": (lambda x, w: jnp.tanh(convolved(x, w)).sum(3), IMAGE),
        "convolution, bias": (lambda x, w, b: jnp.tanh(convolved(x, w) + b).sum((1, 2)), (*IMAGE, (64,))),
        "two convolutions": (lambda x, w, v: convolved(jnp.tanh(convolved(x, w)), v), (*IMAGE, (3, 3, 64, 8))),
        "two convolutions, sum": (lambda x, w, v: convolved(jnp.tanh(convolved(x, w)), v).sum((1, 2)), (*IMAGE, (3, 3, 64, 8))),
        "two convolutions, sum of a pixel": (lambda x, w, v: convolved(jnp.tanh(convolved(x, w)), v).sum(3), (*IMAGE, (3, 3, 64, 8))),
        "three convolutions": (lambda x, w, v, u: convolved(jnp.tanh(convolved(jnp.tanh(convolved(x, w)), v)), u).sum((1, 2)), (*IMAGE, (3, 3, 64, 64), (3, 3, 64, 8))),
        "convolution and its pixels": (lambda x, w, v: convolved(jnp.tanh(convolved(x, w)), v).sum((1, 2)), (*IMAGE, (1, 1, 64, 8))),
        "convolution, pool": (lambda x, w: pooled(jnp.tanh(convolved(x, w))), IMAGE),
        "convolution, pool, convolution": (lambda x, w, v: convolved(pooled(jnp.tanh(convolved(x, w))), v), (*IMAGE, (3, 3, 64, 8))),
        "convolution, norm": (lambda x, w: less_maximum(convolved(x, w), 3).sum(3), IMAGE),
        "convolution, norm of an image": (lambda x, w: less_maximum(convolved(x, w), (1, 2)).sum(3), IMAGE),
        "residual": (lambda x, w, v: (lambda y: (convolved(jnp.tanh(y), v) + y).sum((1, 2)))(convolved(x, w)), (*IMAGE, (3, 3, 64, 64))),
        "convolution, product": (lambda x, w, v: jnp.tanh(convolved(x, w)) @ v, (*IMAGE, (64, 8))),
        "perceptron": (lambda x, w, v: jnp.tanh(x @ w) @ v, (*ROWS, (1024, 64))),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tool", required=True, help="the hlo-opt binary")
    parser.add_argument("--only", default="", metavar="REGEX")
    options = parser.parse_args()
    import xla

    jax = xla.import_quietly()
    wrong = 0
    print(f"{'program':42} {'takes':>7} {'said':>7} (MiB)")
    with tempfile.TemporaryDirectory() as folder:
        for name, (function, shapes) in programs().items():
            if re.search(options.only, name):
                path = pathlib.Path(folder) / "program.hlo"
                path.write_text(jax.jit(function).lower(*[jax.ShapeDtypeStruct(dims, "float32") for dims in shapes]).as_text("hlo"))
                wrong |= judge(options.tool, name, path)
    sys.exit(wrong)


def judge(tool, name, path):
    """Prints a line; whether the tool and the process disagree."""
    figures = child("referee.py", "peak", path)
    reported = figures["output_bytes"] + figures["temp_bytes"]
    takes = max(child("resident.py", path)["growth_bytes"] - reported, 0)
    report = path.with_suffix(".json")
    subprocess.run([tool, path, "--analyze", "--report", report], check=True, capture_output=True)
    details = json.loads(report.read_text())["before"]["details"]
    hidden = max((entry["bytes"] for entry in details["hidden_scratch"]), default=0)
    print(f"{name:42} {takes / 2**20:7.1f} {hidden / 2**20:7.1f}", flush=True)
    return (takes > WHOLE / 2) != (hidden > WHOLE / 2)


def child(program, *arguments):
    command = [sys.executable, pathlib.Path(__file__).with_name(program), *arguments]
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
