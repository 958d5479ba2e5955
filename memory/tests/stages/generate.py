"""Write XLA's own dumps around each stage of the CPU model, for small programs; memory/tests/stages.rs compares the model with them.

usage: python memory/tests/stages/generate.py

Each program is lowered from shapes and compiled with all pass dumps on; nothing is executed. Of every stage that changed something, the
dump before and the dump after are kept as NAME.STAGE.before.hlo and NAME.STAGE.after.hlo, without metadata and source positions.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# Stage of the model -> the dump that shows its result.
STAGES = {
    "library": ".after_dot-library-rewriter.",
    "fusion": ".after_fusion.",
    "wrapper": ".after_fusion-wrapper.",
    "cleanup": ".after_simplification_after_layout_assignment.",
    "copies": ".after_copy-insertion.",
    "hoist": ".after_small-while-loop-hoisting.",
}
# Dumps a stage writes on its way.
INSIDE = {
    "cleanup": ".simplification_after_layout_assignment.after_",
    "copies": ".copy-insertion.",
}
DROPPED = re.compile(r", (?:metadata|backend_config|frontend_attributes|origin)=(\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*\})")
TABLES = re.compile(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:[^\n]+\n)*")


def programs():
    """Name -> (function, argument shapes, donated arguments)."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def f32(*dims):
        return jax.ShapeDtypeStruct(dims, jnp.float32)

    def s32(*dims):
        return jax.ShapeDtypeStruct(dims, jnp.int32)

    def layer(x, w, b):
        return jax.nn.relu(x @ w + b).sum(axis=1)

    def masked_softmax(x, keep):
        return jax.nn.softmax(jnp.where(keep > 0, x, -1e9), axis=-1)

    def scatter_in_loop(acc, idx, v):
        return lax.fori_loop(0, 4, lambda i, a: a.at[idx[i]].add(v[i]), acc)

    def stacked_scan(c, xs):
        return lax.scan(lambda c, x: (jnp.sin(c) + x, (c * 2, c.sum())), c, xs)

    def swap(x, y):
        return lax.fori_loop(0, 5, lambda i, s: (s[1], s[0] + 1), (x, y))

    def branches(x, y, p):
        return lax.cond(p > 0, lambda a, b: (a @ b, a), lambda a, b: (b, a), x, y)

    def pieces(x, y):
        z = jnp.concatenate([x[:, 1:], jnp.pad(y, ((0, 0), (1, 2)))], axis=1)
        return jnp.flip(z, 0)[::2].T * 2 + 1

    def order(x, y):
        i = jnp.argsort(x)
        return x[i], y[i], jnp.cumsum(x)

    def in_place(x, u, i):
        row = lax.dynamic_slice(x, (i, 0), (1, 64))
        return lax.dynamic_update_slice(x, row * 2 + u, (i, 0))

    def results(x, y):
        return x, y + 1, y + 1, jnp.float32(3), x

    def counters(n):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, 1))

    def many_sums(x):
        return sum(jnp.sum(x * k, axis=0) for k in range(1, 9)) + jnp.tanh(x).max(axis=0)

    def images(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loop_in_loop(x, w):
        inner = lambda c: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ w), c)
        return lax.scan(lambda c, _: (inner(c), c[0]), x, None, length=4)

    def choose_in_scan(x, p):
        step = lambda c, q: (lax.cond(q > 0, lambda c: c * 2, lambda c: c.at[0].set(q.astype(c.dtype)), c), c[0, 0])
        return lax.scan(step, x, p)

    def turned(x, y):
        bits = lax.bitcast_convert_type(y, jnp.int32)
        return x.T, jnp.einsum("abc,dc->bad", x.reshape(4, 8, 16), y), bits.T, (x @ y.T).T

    return {
        "turned": (turned, (f32(32, 16), f32(24, 16)), ()),
        "layer": (layer, (f32(64, 128), f32(128, 96), f32(96)), ()),
        "masked_softmax": (masked_softmax, (f32(32, 256), s32(32, 256)), ()),
        "scatter_in_loop": (scatter_in_loop, (f32(100, 8), s32(4, 50), f32(4, 50, 8)), (0,)),
        "stacked_scan": (stacked_scan, (f32(128), f32(50, 128)), ()),
        "swap": (swap, (f32(1000), f32(1000)), (0, 1)),
        "branches": (branches, (f32(64, 64), f32(64, 64), s32()), ()),
        "pieces": (pieces, (f32(32, 40), f32(32, 10)), ()),
        "order": (order, (f32(1000), f32(1000)), ()),
        "in_place": (in_place, (f32(100, 64), f32(1, 64), s32()), (0,)),
        "results": (results, (f32(10), f32(10)), (1,)),
        "counters": (counters, (s32(),), ()),
        "many_sums": (many_sums, (f32(100, 64),), ()),
        "images": (images, (f32(2, 16, 16, 32), f32(3, 3, 32, 16)), ()),
        "loop_in_loop": (loop_in_loop, (f32(40, 40), f32(40, 40)), ()),
        "choose_in_scan": (choose_in_scan, (f32(30, 30), s32(7)), ()),
    }


def compile_one(name):
    import jax

    function, shapes, donated = programs()[name]
    jax.jit(function, donate_argnums=donated).lower(*shapes).compile()


def keep(name, dumps):
    """Copy the dumps before and after each stage; returns how many stages changed something."""
    files = sorted(path for path in dumps.glob("module_*.txt") if re.search(rf"\.jit_{name}\.\d{{4}}\.", path.name))
    count = 0
    for stage, mark in STAGES.items():
        at = next((k for k, path in enumerate(files) if mark in path.name), None)
        if at is None:
            continue
        before = at - 1
        while stage in INSIDE and INSIDE[stage] in files[before].name:
            before -= 1
        # The clean-up runs several rounds; its input is the dump that begins the first one.
        before += stage == "cleanup"
        for part, path in (("before", files[before]), ("after", files[at])):
            text = TABLES.sub("\n", path.read_text())
            (HERE / f"{name}.{stage}.{part}.hlo").write_text(DROPPED.sub("", text).rstrip("\n") + "\n")
        count += 1
    return count


def main():
    if len(sys.argv) > 1:
        compile_one(sys.argv[1])
        return
    for old in HERE.glob("*.hlo"):
        old.unlink()
    for name in programs():
        with tempfile.TemporaryDirectory() as dumps:
            flags = f"--xla_dump_to={dumps} --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*"
            environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
            subprocess.run([sys.executable, __file__, name], check=True, env=environment)
            print(name, keep(name, pathlib.Path(dumps)))


if __name__ == "__main__":
    main()
