"""Programs of JAX libraries, each written as the library's own users write it: a name, and a function that runs some steps and gives arrays.

None of them knows hlo_opt. Libraries are imported where they are used: one that is missing fails its own row only.
"""
import numpy as np

PROGRAMS = {}


def program(library):
    def register(function):
        PROGRAMS[function.__name__] = (library, function)
        return function
    return register


def data(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def words(high, *shape, seed=1):
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.int32)


@program("flax.linen")
def flax_linen_transformer(steps=3):
    import jax
    import optax
    from flax import linen as nn
    from flax.training.train_state import TrainState

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x))
            return x + nn.Dense(128)(nn.gelu(nn.Dense(512)(nn.LayerNorm()(x))))

    class Model(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(4096, 128)(tokens)
            for _ in range(2):
                x = Block()(x)
            return nn.Dense(4096)(x)

    model, tokens = Model(), words(4096, 4, 512)
    state = TrainState.create(apply_fn=model.apply, params=model.init(jax.random.key(0), tokens[:1]), tx=optax.adam(1e-3))

    @jax.jit
    def step(state, tokens):
        def loss(params):
            logits = state.apply_fn(params, tokens[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()
        value, gradients = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=gradients), value

    losses = []
    for _ in range(steps):
        state, value = step(state, tokens)
        losses.append(value)
    return losses


@program("flax.nnx")
def flax_nnx_convolutions(steps=3):
    import jax.numpy as jnp
    import optax
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first, self.second = nnx.Conv(3, 32, (3, 3), rngs=rngs), nnx.Conv(32, 64, (3, 3), rngs=rngs)
            self.norm, self.last = nnx.BatchNorm(32, rngs=rngs), nnx.Linear(64 * 16 * 16, 10, rngs=rngs)

        def __call__(self, x):
            x = nnx.avg_pool(nnx.relu(self.norm(self.first(x))), (2, 2), (2, 2))
            x = nnx.avg_pool(nnx.gelu(self.second(x)), (2, 2), (2, 2))
            return self.last(x.reshape(len(x), -1))

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, images, labels):
        def loss(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()
        value, gradients = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradients)
        return value

    images, labels = jnp.asarray(data(64, 64, 64, 3)), jnp.asarray(words(10, 64))
    return [step(model, optimizer, images, labels) for _ in range(steps)]


@program("equinox")
def equinox_attention(steps=3):
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax
    keys = jax.random.split(jax.random.key(0), 3)
    model = (eqx.nn.MultiheadAttention(4, 128, key=keys[0]), eqx.nn.MLP(128, 64, 512, 2, activation=jax.nn.silu, key=keys[1]))
    optimizer = optax.adam(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    x, y = jnp.asarray(data(4, 1024, 128)), jnp.asarray(data(4, 1024, 64, seed=1))

    @eqx.filter_jit
    def step(model, state, x, y):
        @eqx.filter_value_and_grad
        def loss(model):
            attend, head = model
            seen = jax.vmap(lambda each: attend(each, each, each))(x)
            return jnp.mean((jax.vmap(jax.vmap(head))(seen) - y) ** 2)
        value, gradients = loss(model)
        updates, state = optimizer.update(gradients, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, value

    losses = []
    for _ in range(steps):
        model, state, value = step(model, state, x, y)
        losses.append(value)
    return losses


@program("haiku")
def haiku_recurrent(steps=3):
    import haiku as hk
    import jax
    import jax.numpy as jnp
    import optax

    def forward(tokens):
        x = hk.Embed(2048, 128)(tokens)
        core = hk.LSTM(256)
        out, _ = hk.dynamic_unroll(core, x.swapaxes(0, 1), core.initial_state(len(tokens)))
        return hk.Linear(2048)(out)

    model, tokens = hk.without_apply_rng(hk.transform(forward)), jnp.asarray(words(2048, 32, 129))
    params, optimizer = model.init(jax.random.key(0), tokens[:1]), optax.sgd(1e-1)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, tokens):
        def loss(params):
            logits = model.apply(params, tokens[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:].T).mean()
        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(steps):
        params, state, value = step(params, state, tokens)
        losses.append(value)
    return losses


@program("optax")
def optax_contrastive_loss(steps=3):
    import jax
    import jax.numpy as jnp
    import optax
    params = jnp.asarray(data(256, 64, scale=0.1))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.lamb(1e-2))
    state, left, right = optimizer.init(params), jnp.asarray(data(600, 256)), jnp.asarray(data(600, 256, seed=1))

    @jax.jit
    def step(params, state):
        def loss(params):
            a, b = left @ params, right @ params
            return optax.losses.ntxent(jnp.concatenate([a, b]) / 10, jnp.tile(jnp.arange(600), 2))
        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(steps):
        params, state, value = step(params, state)
        losses.append(value)
    return losses


@program("diffrax")
def diffrax_neural_ode(steps=2):
    import diffrax
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    model = eqx.nn.MLP(8, 8, 256, 2, activation=jax.nn.softplus, key=jax.random.key(0))
    x = jnp.asarray(data(2048, 8))

    @eqx.filter_jit
    def step(model, x):
        @eqx.filter_value_and_grad
        def loss(model):
            term = diffrax.ODETerm(lambda t, y, args: jax.vmap(model)(y))
            found = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.1, x, stepsize_controller=diffrax.ConstantStepSize())
            return jnp.mean(found.ys ** 2)
        value, gradients = loss(model)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, gradients)), value

    losses = []
    for _ in range(steps):
        model, value = step(model, x)
        losses.append(value)
    return losses


@program("optimistix")
def optimistix_minimise():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optimistix as optx

    @eqx.filter_jit
    def fit(points):
        def energy(points, _):
            return jnp.sum(jax.nn.softmax(points @ points.T / 8) @ points * points)
        solver = optx.GradientDescent(1e-3, 1e-6, 1e-6)
        return optx.minimise(energy, solver, points, max_steps=5, throw=False).value

    return [fit(jnp.asarray(data(3000, 64)))]


@program("lineax")
def lineax_kernel_system():
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import lineax as lx

    @eqx.filter_jit
    def solve(points, right):
        def product(v):
            squares = jnp.sum((points[:, None] - points[None]) ** 2, -1)
            return jnp.exp(-squares) @ v + 50 * v
        operator = lx.FunctionLinearOperator(product, jax.eval_shape(lambda: right), lx.positive_semidefinite_tag)
        return lx.linear_solve(operator, right, lx.CG(1e-5, 1e-5, max_steps=20), throw=False).value

    return [solve(jnp.asarray(data(3000, 3)), jnp.asarray(data(3000, seed=1)))]


@program("jaxopt")
def jaxopt_logistic_regression():
    import jax
    import jax.numpy as jnp
    import jaxopt
    x, y = jnp.asarray(data(20000, 200)), jnp.asarray(words(50, 20000))

    def loss(weights, x, y):
        return jnp.mean(jax.vmap(jaxopt.loss.multiclass_logistic_loss)(y, x @ weights)) + 1e-3 * jnp.sum(weights ** 2)

    return [jaxopt.LBFGS(fun=loss, maxiter=5).run(jnp.zeros((200, 50)), x, y).params]


@program("jraph")
def jraph_graph_network(steps=2):
    import jax
    import jax.numpy as jnp
    import jraph
    nodes, edges, width = 4096, 60000, 64
    graph = jraph.GraphsTuple(nodes=jnp.asarray(data(nodes, width)), edges=jnp.asarray(data(edges, width, seed=1)), globals=None,
                              senders=jnp.asarray(words(nodes, edges)), receivers=jnp.asarray(words(nodes, edges, seed=2)),
                              n_node=jnp.array([nodes]), n_edge=jnp.array([edges]))
    params = {"edge": jnp.asarray(data(3 * width, width, scale=0.1)), "node": jnp.asarray(data(3 * width, width, scale=0.1))}

    @jax.jit
    def step(params, graph):
        def loss(params):
            network = jraph.InteractionNetwork(
                update_edge_fn=lambda edges, sent, received: jax.nn.silu(jnp.concatenate([edges, sent, received], -1) @ params["edge"]),
                update_node_fn=lambda nodes, received: jnp.tanh(
                    jnp.concatenate([nodes, received, received ** 2], -1) @ params["node"]))
            return jnp.mean(network(network(graph)).nodes ** 2)
        value, gradients = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

    losses = []
    for _ in range(steps):
        params, value = step(params, graph)
        losses.append(value)
    return losses


@program("jax-md")
def jax_md_lennard_jones():
    import jax
    import jax.numpy as jnp
    from jax_md import energy, minimize, space
    displacement, shift = space.periodic(20.0)
    energy_of = energy.soft_sphere_pair(displacement)
    start, apply = minimize.fire_descent(energy_of, shift)
    state = start(jnp.asarray(np.random.default_rng(0).uniform(0, 20, (3000, 3)).astype(np.float32)))
    state = jax.jit(lambda state: jax.lax.fori_loop(0, 3, lambda _, state: apply(state), state))(state)
    return [state.position]


@program("numpyro")
def numpyro_logistic_regression():
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model(x, y):
        weights = numpyro.sample("weights", dist.Normal(jnp.zeros(20), 1).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)

    chain = MCMC(NUTS(model, max_tree_depth=4), num_warmup=5, num_samples=5, progress_bar=False)
    chain.run(jax.random.PRNGKey(0), jnp.asarray(data(200000, 20)), jnp.asarray(words(2, 200000)))
    return [chain.get_samples()["weights"]]


@program("blackjax")
def blackjax_hamiltonian_monte_carlo():
    import blackjax
    import jax
    import jax.numpy as jnp
    points = jnp.asarray(data(2000, 8))

    def log_density(scales):
        squares = jnp.sum(((points[:, None] - points[None]) / jnp.exp(scales)) ** 2, -1)
        return -jnp.mean(jnp.exp(-squares / 2)) - jnp.sum(scales ** 2)

    sampler = blackjax.hmc(log_density, step_size=1e-2, inverse_mass_matrix=jnp.ones(8), num_integration_steps=3)
    state, step = sampler.init(jnp.zeros(8)), jax.jit(sampler.step)
    for number in range(3):
        state, _ = step(jax.random.key(number), state)
    return [state.position]


@program("e3nn-jax")
def e3nn_tensor_product(steps=2):
    import e3nn_jax as e3nn
    import jax
    import jax.numpy as jnp
    positions = jnp.asarray(data(20000, 3))
    senders, receivers = jnp.asarray(words(20000, 60000)), jnp.asarray(words(20000, 60000, seed=2))
    weights = jnp.asarray(data(16, 4, scale=0.1))

    @jax.jit
    def forces(weights, positions):
        def energy(positions):
            edges = positions[senders] - positions[receivers]
            waves = e3nn.spherical_harmonics([0, 1, 2], e3nn.IrrepsArray("1o", edges), True).array
            radial = jnp.exp(-jnp.sum(edges ** 2, -1, keepdims=True) * jnp.arange(1, 17) / 8) @ weights
            messages = (waves[:, :, None] * radial[:, None]).reshape(len(waves), -1)
            return jnp.sum(jnp.tanh(jax.ops.segment_sum(messages, receivers, 20000)))
        return jax.grad(energy)(positions)

    return [forces(weights, positions) for _ in range(steps)]


@program("distrax")
def distrax_mixture(steps=3):
    import distrax
    import jax
    import jax.numpy as jnp
    x = jnp.asarray(data(20000, 8))
    params = {"logits": jnp.zeros(256), "means": jnp.asarray(data(256, 8, seed=1)), "scales": jnp.zeros((256, 8))}

    @jax.jit
    def step(params):
        def loss(params):
            parts = distrax.MultivariateNormalDiag(params["means"], jnp.exp(params["scales"]))
            return -jnp.mean(distrax.MixtureSameFamily(distrax.Categorical(params["logits"]), parts).log_prob(x))
        value, gradients = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

    losses = []
    for _ in range(steps):
        params, value = step(params)
        losses.append(value)
    return losses


PENDULUM = """<mujoco><option timestep="0.01"><flag contact="disable"/></option><worldbody>
<body pos="0 0 2"><joint type="hinge" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 -.5"/>
<body pos="0 0 -.5"><joint type="hinge" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 -.5"/></body></body></worldbody></mujoco>"""


@program("mujoco-mjx")
def mjx_pendulums():
    import jax
    import jax.numpy as jnp
    import mujoco
    from mujoco import mjx
    model = mjx.put_model(mujoco.MjModel.from_xml_string(PENDULUM))

    @jax.jit
    def roll_out(angles):
        def one(angle):
            state = mjx.make_data(model).replace(qpos=angle)
            return jax.lax.scan(lambda state, _: (mjx.step(model, state), state.qpos), state, None, length=20)[1]
        return jax.vmap(one)(angles)

    return [roll_out(jnp.asarray(data(4096, 2)))]
