"""Programs over the devices of two processes, which talk by gloo: each makes the plan for itself, from the program alone, and both make the same one."""
import json
import pathlib
import socket
import subprocess
import sys

import pytest

pytest.importorskip("jax")

LIMIT = 240

WORKER = """
import hashlib, json, os, sys
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{sys.argv[2]}", 2, int(sys.argv[1]))
import jax.numpy as jnp
import numpy as np
import hlo_opt
from programs import EAGER, arguments, gradient, raw

mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))

def placed(array, *spec):
    sharding = jax.NamedSharding(mesh, jax.P(*spec))
    return jax.make_array_from_callback(array.shape, sharding, lambda index: np.asarray(array)[index])

def attention(q, k, v):
    scores = jnp.einsum("bqhe,bkhe->bhqk", q, k) / 4
    return jnp.mean(jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(scores, -1), v) ** 2)

rng = np.random.default_rng(0)
heads = [placed(rng.standard_normal((8, 256, 2, 16)).astype(np.float32) / 8, "d") for _ in range(3)]
x, idx = arguments(1 << 20)
exact = hlo_opt.Options(min_saving=1, chunk_bytes=1 << 14)
found = []
for function, args, options in ((gradient, (placed(x), placed(idx, "d")), EAGER), (jax.grad(attention, (0, 1, 2)), heads, exact)):
    mine, theirs = hlo_opt.jit(function, options=options), jax.jit(function)
    pairs = zip(jax.tree.leaves(mine(*args)), jax.tree.leaves(theirs(*args)))
    own = [[np.asarray(one.addressable_shards[0].data) for one in pair] for pair in pairs]
    error = max(float(np.abs(one - other).max() / np.abs(other).max()) for one, other in own)
    report = mine.memory_report()
    program = hashlib.sha256(mine.lower(*args).as_text().encode()).hexdigest()
    found.append([report.kept, report.after_bytes / report.before_bytes, error, program])
print(json.dumps(found))
"""


def test_both_processes_run_the_same_rewritten_program():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    folder = pathlib.Path(__file__).parent
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(number), port], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
               for number in range(2)]
    try:
        said = [worker.communicate(timeout=LIMIT) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert all(worker.returncode == 0 for worker in workers), said
    first, second = (json.loads(out.splitlines()[-1]) for out, _ in said)
    for (kept, share, error, program), other in zip(first, second, strict=True):
        assert kept == "rewritten" and share < 0.7 and error <= 1e-5, first
        # The program is the same to the last character: processes that ran different ones would wait for each other.
        assert program == other[-1]
