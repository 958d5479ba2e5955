"""The gradient of a three-component gather: a program whose index arithmetic needs more memory than its data.

    pip install . && python examples/founding.py

Runs it at a reduced size under jax.jit and hlo_opt.jit, compares bits, draws both peaks, then compiles the full size from shapes alone.
"""
import jax
import jax.numpy as jnp
import numpy as np

import hlo_opt

ROWS, FULL, SIDE = 1 << 22, 8589934592, 128


def loss(x, index):
    return x[index[:, 0], index[:, 1], index[:, 2]].sum() * 2.5


def bar(label, count, most):
    return f"  {label:<9}{'█' * max(1, round(50 * count / most))} {count / 2**30:.2f} GiB"


def picture(report):
    """Peak before and after, and the floor that no program with this interface can go below."""
    sizes = {"jax.jit": report.before_bytes, "hlo_opt": report.after_bytes, "floor": report.floor_bytes}
    return "\n".join(bar(label, count, report.before_bytes) for label, count in sizes.items())


def main():
    gradient = jax.grad(loss)
    step = hlo_opt.jit(gradient)
    x = jnp.ones((SIDE,) * 3)
    index = jax.random.randint(jax.random.key(0), (ROWS, 3), -SIDE - 2, SIDE + 2)
    mine, theirs = step(x, index), jax.jit(gradient)(x, index)
    print("same bits:", np.asarray(mine).tobytes() == np.asarray(theirs).tobytes())
    print(step.explain(), picture(step.memory_report()), sep="\n")
    full = step.memory_report(jax.ShapeDtypeStruct((SIDE,) * 3, jnp.float32), jax.ShapeDtypeStruct((FULL, 3), jnp.int32))
    print(full, picture(full), sep="\n")


if __name__ == "__main__":
    main()
