"""How much longer JAX takes to compile small programs after `hlo_opt.install()`: processes with and without take turns, processor time is compared.

    python tests/referee/compile_time.py [ROUNDS]

Needs the installed package. Exit code 1 if it is over a twentieth.
"""
import os
import resource
import statistics
import subprocess
import sys

EACH = 20
ALLOWED = 1.05


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    times = {way: [] for way in ("plain", "installed")}
    for _ in range(rounds):
        for way in times:
            done = subprocess.run([sys.executable, __file__, "--one", way], capture_output=True, text=True, check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
            times[way].append(float(done.stdout))
    plain, installed = (statistics.median(times[way]) for way in ("plain", "installed"))
    print(f"{plain:.1f} ms a program as it is, {installed:.1f} ms installed: {installed / plain:.3f} (medians of {rounds} processes, processor time)")
    return 1 if installed > plain * ALLOWED else 0


def one(way):
    """Prints the milliseconds that a program takes to be lowered and compiled."""
    import jax
    import jax.numpy as jnp
    if way == "installed":
        import hlo_opt
        hlo_opt.install()
    programs = (
        lambda x, k: x * k + 1,
        lambda x, k: jnp.sin(x) @ x.T * k,
        lambda x, k: jax.nn.softmax(x * k),
        lambda x, k: jnp.sort(x + k),
        lambda x, k: jnp.cumsum(x) * k,
        lambda x, k: jax.grad(lambda y: (jnp.tanh(y @ y.T) * k).sum())(x),
        lambda x, k: jax.lax.scan(lambda carried, row: (carried + row * k, carried), x[0], x)[0],
        lambda x, k: x.at[jnp.arange(3)].add(k),
    )
    x = jnp.ones((32, 32))

    def compile_all(first, last):
        for number in range(first, last):
            for program in programs:
                jax.jit(lambda x: program(x, float(number))).lower(x).compile()

    compile_all(0, 2)  # what is imported and built once
    before = used()
    compile_all(2, 2 + EACH)
    print((used() - before) * 1000 / (EACH * len(programs)))


def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(one(sys.argv[2]) if sys.argv[1:2] == ["--one"] else main())
