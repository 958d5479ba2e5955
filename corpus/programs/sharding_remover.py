"""Programs of libraries that annotate shardings wherever they run, for the pass sharding-remover (fires-*), and one that nothing gains by (keeps-*)."""
import jax
import jax.numpy as jnp

from programs.catalog import shape, twins


def one_device():
    """The sharding of a mesh of one device, which cuts nothing."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    return NamedSharding(Mesh(jax.devices("cpu")[:1], ("data",)), PartitionSpec())


@twins("sharding-remover", "fires-logits", big=dict(rows=4096, width=64, words=32768), small=dict(rows=64, width=8, words=96))
def cross_entropy(rows, width, words):
    """Logits are annotated between their product and their sums."""
    sharding = one_device()

    def loss(weights, hidden, labels):
        logits = jax.lax.with_sharding_constraint(hidden @ weights, sharding)
        picked = jnp.sum(jnp.where(jnp.arange(words) == labels[:, None], logits, 0.0), -1)
        return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)

    return loss, (shape((width, words)), shape((rows, width)), shape((rows,), "int32"))


@twins("sharding-remover", "keeps-no-gain", big=dict(rows=1 << 20), small=dict(rows=24))
def sums(rows):
    """Nothing is in the way of anything."""
    sharding = one_device()

    def total(x):
        return jnp.sum(jax.lax.with_sharding_constraint(jnp.cos(x), sharding))

    return total, (shape((rows, 8)),)
