"""Programs of TensorFlow and Keras, each a function of tensors and its arguments: run by TensorFlow's XLA as they are, and rewritten.

    tensorflow_programs.py NAME FOLDER      runs one and prints what came of it as JSON; FOLDER gets the dumps of XLA
"""
import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import dumps  # noqa: E402


def attention(tf, random):
    """Gradient of one head of attention, by its three arguments."""
    def gradient(q, k, v):
        with tf.GradientTape() as tape:
            tape.watch((q, k, v))
            loss = tf.reduce_sum((tf.nn.softmax(q @ tf.transpose(k) / 8.0) @ v) ** 2)
        return tape.gradient(loss, (q, k, v))
    return gradient, [random(4096, 64) for _ in range(3)]


def vocabulary(tf, random):
    """Loss over a large vocabulary, and its gradient."""
    labels = tf.cast(tf.abs(random(4096)) * 1e3, tf.int32)

    def step(hidden, weights, labels):
        with tf.GradientTape() as tape:
            tape.watch((hidden, weights))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, hidden @ weights))
        return loss, *tape.gradient(loss, (hidden, weights))
    return step, [random(4096, 64), random(64, 8192), labels]


def pairs(tf, random):
    """Potential between all pairs of points and its forces, with Gaussian weights."""
    def forces(points, charges):
        with tf.GradientTape() as tape:
            tape.watch(points)
            square = tf.reduce_sum(points ** 2, -1)
            distance = square[:, None] + square[None] - 2 * points @ tf.transpose(points)
            energy = tf.reduce_sum(charges[:, None] * charges[None] * tf.exp(-distance))
        return energy, tape.gradient(energy, points)
    return forces, [random(6000, 3), random(6000)]


def keras_transformer(tf, random):
    """A step of training of a transformer block of Keras; weights go in and come out."""
    import keras
    keras.utils.set_random_seed(1)
    given = keras.Input((512, 128))
    # Without biases: the slope of a key's is zero, and what is computed of it nothing but rounding.
    x = given + keras.layers.MultiHeadAttention(8, 16, use_bias=False)(given, given)
    x = x + keras.layers.Dense(128)(keras.layers.Dense(512, "gelu")(keras.layers.LayerNormalization()(x)))
    model = keras.Model(given, x)
    fixed = [variable.value for variable in model.non_trainable_variables]

    def step(weights, inputs, targets):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            outputs, _ = model.stateless_call(weights, fixed, inputs)
            loss = tf.reduce_mean((outputs - targets) ** 2)
        return loss, [weight - 0.1 * slope for weight, slope in zip(weights, tape.gradient(loss, weights), strict=True)]
    return step, [[tf.convert_to_tensor(weight.value) for weight in model.trainable_variables], random(4, 512, 128), random(4, 512, 128)]


PROGRAMS = {"attention": attention, "vocabulary": vocabulary, "pairs": pairs, "keras_transformer": keras_transformer}


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    dumps.into(folder)
    try:
        import tensorflow as tf
    except ImportError as error:
        sys.exit(f"TensorFlow is not here ({error}): pip install tensorflow-cpu")
    from tensorflow.compiler.tf2xla.python import xla

    generator = tf.random.Generator.from_seed(1)
    written, arguments = PROGRAMS[name](tf, lambda *shape: generator.normal(shape))
    function = tf.function(written, jit_compile=True)
    given = function.experimental_get_compiler_ir(*arguments)(stage="stablehlo")
    earlier = dumps.listed(folder)
    plain = tf.nest.flatten(function(*arguments))
    before = max(dumps.listed(folder) - earlier, key=dumps.of)

    def run(found):
        """The results of the rewritten program by TensorFlow's XLA."""
        @tf.function(jit_compile=True)
        def rewritten(*tensors):
            return xla.call_module(tensors, version=9, module=found.stablehlo, Tout=[result.dtype for result in plain],
                                   Sout=[result.shape for result in plain], platforms=["CPU"])
        return [result.numpy() for result in rewritten(*tf.nest.flatten(arguments))]

    print(json.dumps(dumps.compared(folder, tf.__version__, before, [result.numpy() for result in plain], given, run)))


if __name__ == "__main__":
    main()
