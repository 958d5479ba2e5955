"""Writes a large module in the form of XLA's dumps: a training step of many equal layers, forward and backward.

    large_module.py OUT.hlo [--megabytes 50]

Names with `%`, program shapes, layouts, index comments, metadata with stack frames, shardings, backend configurations, a fused computation
per layer, and the parameters of all layers in one entry. The same size gives the same bytes.
"""
import argparse

ROWS, WIDTH, HIDDEN = 1024, 256, 1024
ACTIVATION = f"f32[{ROWS},{WIDTH}]{{1,0}}"
WIDE = f"f32[{ROWS},{HIDDEN}]{{1,0}}"
UP, DOWN, SCALE = f"f32[{WIDTH},{HIDDEN}]{{1,0}}", f"f32[{HIDDEN},{WIDTH}]{{1,0}}", f"f32[{WIDTH}]{{0}}"
ROW = f"f32[{ROWS}]{{0}}"
FRAMES = 40
SHARDING = ", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}"
REDUCE = ", dimensions={1}, to_apply=%region_add"
UP_DOT, DOWN_DOT = (", lhs_contracting_dims={1}, rhs_contracting_dims={%d}" % dim for dim in (0, 1))
GRAD_DOT = ", lhs_contracting_dims={0}, rhs_contracting_dims={0}"

HEAD = """HloModule jit_train_step, entry_computation_layout={(%s)->(%s)}, num_partitions=8

FileNames
%s

FunctionNames
%s

FileLocations
%s

StackFrames
%s


%%region_add (a: f32[], b: f32[]) -> f32[] {
  %%a = f32[] parameter(0)
  %%b = f32[] parameter(1)
  ROOT %%sum = f32[] add(%%a, %%b)
}
"""


def bare(shape):
    """The shape without its layout, as program shapes have it."""
    return shape.split("{")[0]


def counted(items):
    """`a, b`, with a comment before every fifth item, as XLA prints lists."""
    return ", ".join(f"/*index={at}*/{item}" if at and at % 5 == 0 else item for at, item in enumerate(items))


class Layer:
    """The lines of one layer: its fused computation, its part of the entry, its parameters and results."""

    def __init__(self, number, activation):
        self.number = number
        self.entry, self.parameters, self.results = [], [], []
        self.fused = self.fused_computation()
        self.output = self.forward(activation)
        self.backward(activation)

    def meta(self, what):
        frame = (self.number * 7 + len(self.entry)) % FRAMES + 1
        name = f"jit(train_step)/transpose(jvp(Model))/layers_{self.number}/{what}"
        return f', metadata={{op_name="{name}" stack_frame_id={frame}}}'

    def add(self, name, shape, opcode, operands, attributes=""):
        name = f"{name}.{self.number}"
        listed = counted(f"%{operand}" for operand in operands)
        self.entry.append(f"  %{name} = {shape} {opcode}({listed}){attributes}{self.meta(opcode)}")
        return name

    def parameter(self, name, shape):
        name = f"layers.{name}.{self.number}"
        self.parameters.append((name, shape))
        return name

    def fused_computation(self):
        lines = [
            f"  %p0.{self.number} = {WIDE} parameter(0)",
            f"  %half.{self.number} = f32[] constant(0.5)",
            f"  %halves.{self.number} = {WIDE} broadcast(%half.{self.number}), dimensions={{}}",
            f"  %t.{self.number} = {WIDE} tanh(%p0.{self.number}){self.meta_fused('tanh')}",
            f"  ROOT %m.{self.number} = {WIDE} multiply(%t.{self.number}, %halves.{self.number}){self.meta_fused('mul')}",
        ]
        head = f"\n%fused_activation.{self.number} (p0.{self.number}: {bare(WIDE)}) -> {bare(WIDE)} {{\n"
        return head + "\n".join(lines) + "\n}\n"

    def meta_fused(self, what):
        return f', metadata={{op_name="jit(train_step)/jvp(Model)/layers_{self.number}/gelu/{what}" stack_frame_id=3}}'

    def forward(self, x):
        scale, up, down = self.parameter("scale", SCALE), self.parameter("up", UP), self.parameter("down", DOWN)
        zero = self.add("zero", "f32[]", "constant", [])
        self.entry[-1] = self.entry[-1].replace("constant()", "constant(0)")
        square = self.add("square", ACTIVATION, "multiply", [x, x])
        self.norm = self.add("norm", ROW, "reduce", [square, zero], REDUCE)
        root = self.add("rsqrt", ROW, "rsqrt", [self.norm])
        spread = self.add("spread", ACTIVATION, "broadcast", [root], ", dimensions={0}")
        scales = self.add("scales", ACTIVATION, "broadcast", [scale], ", dimensions={1}")
        normed = self.add("normed", ACTIVATION, "multiply", [x, spread])
        scaled = self.add("scaled", ACTIVATION, "multiply", [normed, scales])
        hidden = self.add("hidden", WIDE, "dot", [scaled, up], UP_DOT + SHARDING)
        config = ', kind=kLoop, calls=%fused_activation.' + str(self.number)
        config += ', backend_config={"outer_dimension_partitions":["8"],"flags":{"vectorize":true}}'
        self.active = self.add("active", WIDE, "fusion", [hidden], config)
        self.weights, self.scaled = (up, down), scaled
        out = self.add("out", ACTIVATION, "dot", [self.active, down], UP_DOT)
        return self.add("residual", ACTIVATION, "add", [x, out])

    def backward(self, x):
        up, down = self.weights
        gradient = self.add("d_out", ACTIVATION, "subtract", [self.output, x])
        d_active = self.add("d_active", WIDE, "dot", [gradient, down], DOWN_DOT)
        d_down = self.add("d_down", DOWN, "dot", [self.active, gradient], GRAD_DOT)
        d_up = self.add("d_up", UP, "dot", [self.scaled, d_active], GRAD_DOT)
        for name, shape, weight, grad in (("new_up", UP, up, d_up), ("new_down", DOWN, down, d_down)):
            rate = self.add(name + "_rate", "f32[]", "constant", [])
            self.entry[-1] = self.entry[-1].replace("constant()", "constant(0.001)")
            rates = self.add(name + "_rates", shape, "broadcast", [rate], ", dimensions={}")
            step = self.add(name + "_step", shape, "multiply", [grad, rates])
            self.results.append((self.add(name, shape, "subtract", [weight, step]), shape))


def tables():
    """The four stack-frame tables."""
    places = range(1, FRAMES + 1)
    files = "\n".join(f'{k} "/src/model/layer_{k}.py"' for k in range(1, 9))
    functions = "\n".join(f'{k} "Model.block_{k}"' for k in range(1, 9))
    location = "{file_name_id=%d function_name_id=%d line=%d end_line=%d column=4 end_column=40}"
    locations = "\n".join(f"{k} " + location % (k % 8 + 1, k % 8 + 1, 10 * k, 10 * k) for k in places)
    frames = "\n".join(f"{k} {{file_location_id={k} parent_frame_id={k}}}" for k in places)
    return files, functions, locations, frames


def module(size):
    """The text of about `size` bytes."""
    layers, written, activation = [], 0, "x"
    while written < size:
        layer = Layer(len(layers), activation)
        layers.append(layer)
        activation = layer.output
        # Each parameter and result is named three or four times, with its shape.
        written += len(layer.fused) + sum(map(len, layer.entry)) + len(layer.entry) + 1050
    parameters = [("x", ACTIVATION)] + [parameter for layer in layers for parameter in layer.parameters]
    results = [(activation, ACTIVATION)] + [result for layer in layers for result in layer.results]
    given = counted(shape for _, shape in parameters)
    returned = counted(shape for _, shape in results)
    yield HEAD % (given, returned, *tables())
    yield from (layer.fused for layer in layers)
    program = ", ".join(f"{name}: {bare(shape)}" for name, shape in parameters)
    yield f"\nENTRY %main ({program}) -> ({counted(bare(shape) for _, shape in results)}) {{\n"
    yield from (f"  %{name} = {shape} parameter({at})\n" for at, (name, shape) in enumerate(parameters))
    yield from ("\n".join(layer.entry) + "\n" for layer in layers)
    yield f"  ROOT %tuple = ({returned}) tuple({counted('%' + name for name, _ in results)})\n}}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--megabytes", type=float, default=50)
    options = parser.parse_args()
    with open(options.out, "w", encoding="utf-8") as out:
        out.writelines(module(options.megabytes * 1e6))


if __name__ == "__main__":
    main()
