"""Random JAX programs around index pipelines: columns from everywhere, scatters of every kind, inside everything.

The same seed gives the same program. A program can be invalid for JAX (a combiner that a type lacks): the caller draws another.
"""
import random

from random_columns import Columns
from random_source import Program
from random_updates import Updates

ROWS = (0, 1, 2, 3, 7, 16, 31, 97, 97, 128, 257, 257, 500, 500, 1000, 1000, 1009, 1009, 2048, 2048, 3000)
BATCHES = (("N",),) * 6 + (("N", 2), (3, "N"), ("N", 1), (1, "N"), ("N", 3, 2), (2, "N", 3))
SIZES = (1, 2, 3, 4, 5, 7, 8, 8, 16, 17, 64, 100, 127, 128, 129, 200, 255, 256, 257, 300)
FLOATS = ("float32",) * 5 + ("float16", "bfloat16", "float64")
TYPES = FLOATS + ("float32", "int32", "int32", "int8", "uint8", "complex64", "bool")
MODES = ("",) * 4 + (", mode='clip'", ", mode='drop'", ", mode='fill'", ", mode='promise_in_bounds'")
COMBINERS = {
    "bool": ("set", "set", "max", "min"),
    "complex64": ("add", "set", "mul"),
}
# Scatters of a program.
MOST = 4
OTHERS = ("add", "add", "add", "set", "set", "max", "min", "mul", "apply")


def program(seed, most=MOST):
    """The program of a seed, with `most` scatters or fewer."""
    return Maker(random.Random(seed), most).program()


class Maker(Columns, Updates):
    """Writes one program, step by step."""

    def __init__(self, rng, most):
        self.rng, self.most = rng, most
        self.args, self.steps, self.count = {}, [], 0
        self.x64 = rng.random() < 0.15
        self.rows = rng.choice(BATCHES)
        self.pool, self.tables, self.arrays, self.cats = [], [], [], []
        self.plain, self.depth = True, 0
        self.sharing = rng.choice((0.3, 0.6, 0.95))
        # The mood of the program: untouched columns, unsigned ones, or all of them forced into range.
        self.calm, self.unsigned, self.forced = self.chance(0.45), self.chance(0.3), self.chance(0.2)
        self.element_limit = rng.choice((64, 300, 600, 600, 4000))

    # Building blocks.

    def arg(self, sizes, dtype):
        name = f"a{len(self.args)}"
        self.args[name] = (tuple(sizes), dtype)
        return name

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def let(self, code):
        name = self.name()
        self.steps.append((name, [f"{name} = {code}"]))
        return name

    def chance(self, share):
        return self.rng.random() < share

    def dtype(self):
        found = self.rng.choice(TYPES)
        return "float32" if found == "float64" and not self.x64 else found

    def dims(self, rank):
        """Sizes of a table: few elements in all, at most one large dimension."""
        sizes = [self.rng.choice(SIZES) for _ in range(rank)]
        while len(sizes) and product(sizes) > self.element_limit:
            largest = max(range(rank), key=sizes.__getitem__)
            if rank == 1:
                break
            smallest = min(range(rank), key=sizes.__getitem__)
            place = smallest if sizes[smallest] > 4 and self.chance(0.5) else largest
            sizes[place] = max(1, sizes[place] // 2)
        return tuple(sizes)

    def table(self, dims, dtype):
        """Something to scatter into."""
        kind = self.rng.choice(("arg",) * 4 + ("zeros", "zeros", "full", "computed", "earlier", "earlier"))
        earlier = [name for name, d, t in self.tables if d == dims and t == dtype]
        if kind == "earlier" and earlier:
            return self.rng.choice(earlier)
        if kind == "zeros":
            return self.let(f"jnp.zeros({dims}, '{dtype}')")
        if kind == "full":
            return self.let(f"jnp.full({dims}, {self.constant(dtype)}, '{dtype}')")
        name = self.arg(dims, dtype)
        if kind == "computed" and dtype != "bool":
            return self.let(f"{name} * {name}")
        return name

    # Scatters.

    def sink(self, target):
        """An expression: the table `target` = (name, dims, dtype) with something scattered into it."""
        _, dims, dtype = target
        differentiable = dtype in ("float32", "float16", "bfloat16", "float64")
        kinds = ["at"] * 5 + ["lax"] * 3
        if differentiable:
            kinds += ["grad"] * 5 + ["windows"]
        if dtype not in ("bool", "complex64"):
            kinds += ["segment"]
        if len(dims) >= 2 and differentiable:
            kinds += ["axis", "between"]
        kind = self.rng.choice(kinds)
        return getattr(self, "sink_" + kind)(target)

    def sink_at(self, target):
        name, dims, dtype = target
        taken = self.rng.randint(max(1, len(dims) - 1), len(dims))
        columns, shape = self.columns(dims[:taken])
        combiner = self.rng.choice(COMBINERS.get(dtype, OTHERS))
        mode = self.rng.choice(MODES) + self.flags()
        place = f"{name}.at[{', '.join(columns)}]"
        if combiner == "apply":
            function = self.rng.choice(("jnp.sin", "lambda q: q * q", "jnp.negative", "lambda q: q + 1"))
            return f"{place}.apply({function}{mode})"
        updates = self.updates(shape + dims[taken:], dtype, columns, target, taken == len(dims))
        return f"{place}.{combiner}({updates}{mode})"

    def flags(self):
        return self.rng.choice(("",) * 14 + (", indices_are_sorted=True", ", unique_indices=True"))

    def sink_grad(self, target):
        name, dims, dtype = target
        taken = self.rng.randint(max(1, len(dims) - 1), len(dims))
        columns, shape = self.columns(dims[:taken])
        mode = self.rng.choice(MODES)
        read = f"t[{', '.join(columns)}]" if not mode else f"t.at[{', '.join(columns)}].get({mode[2:]})"
        weight = self.updates(shape + dims[taken:], dtype, columns, target, taken == len(dims))
        loss = self.rng.choice((
            f"({read} * 2.5).sum()", f"({read} * 2.5).sum()", f"{read}.sum()", f"({read} * ({weight})).sum()",
            f"jnp.sin({read}).sum()", f"({read} ** 2).sum()", f"(jnp.tanh({read}) * ({weight})).sum()",
            f"jnp.exp(-{read} * {read}).mean()", f"jnp.max({read}, axis=0, initial=0).sum()"))
        wrapper = self.rng.choice(("{}",) * 5 + ("jax.checkpoint({})", "jax.jit({})"))
        return f"jax.grad({wrapper.format('lambda t: ' + loss)})({name})"

    def sink_lax(self, target):
        """Dimension numbers by hand: permuted columns, partly windowed dimensions, a shared index array."""
        name, dims, dtype = target
        order = list(range(len(dims)))
        if self.chance(0.4):
            self.rng.shuffle(order)
        order = order[:self.rng.randint(max(1, len(dims) - 1), len(dims))]
        cat = self.cat(tuple(dims[d] for d in order))
        inserted = [d for d in sorted(order) if self.chance(0.8)]
        windows = [d for d in range(len(dims)) if d not in inserted]
        # XLA wants each dimension that no index moves to fit; small windows leave room to move.
        sizes = tuple(min(dims[d], self.rng.randint(1, 3)) if d in order or self.chance(0.3) else dims[d] for d in windows)
        rank = len(self.rows)
        numbers = (f"lax.ScatterDimensionNumbers(update_window_dims={tuple(range(rank, rank + len(windows)))}, "
                   f"inserted_window_dims={tuple(inserted)}, scatter_dims_to_operand_dims={tuple(order)})")
        updates = self.array(self.updates(self.rows + sizes, dtype, [], target, False), self.rows + sizes, dtype)
        function = {"bool": "scatter", "complex64": "scatter_add"}.get(
            dtype, self.rng.choice(("scatter_add", "scatter_add", "scatter", "scatter_max", "scatter_min", "scatter_mul")))
        return f"lax.{function}({name}, {cat}, {updates}, {numbers}{self.rng.choice(MODES)}{self.flags()})"

    def cat(self, dims):
        """One array that holds all columns; several scatters and the results may share it."""
        shared = [name for name, count in self.cats if count == len(dims)]
        if shared and self.chance(0.5):
            return self.rng.choice(shared)
        columns, _ = self.columns(dims, tail=False, arrays=True)
        columns = [f"{column}.astype('int32')" for column in columns]
        name = self.let(self.rng.choice((
            f"jnp.stack([{', '.join(columns)}], -1)",
            "jnp.concatenate([" + ", ".join(f"({column})[..., None]" for column in columns) + "], -1)")))
        self.cats.append((name, len(dims)))
        return name

    def sink_windows(self, target):
        """The gradient of many dynamic slices."""
        name, dims, dtype = target
        sizes = tuple(self.rng.randint(1, min(3, d)) for d in dims)
        cat = self.cat(dims)
        weight = self.arg(self.rows + sizes, dtype)
        starts = ", ".join(f"s[{k}]" for k in range(len(dims)))
        mapped = f"lambda s: lax.dynamic_slice(t, [{starts}], {sizes})"
        for _ in self.rows:
            mapped = f"jax.vmap({mapped})"
        return f"jax.grad(lambda t: ({mapped}({cat}) * {weight}).sum())({name})"

    def sink_segment(self, target):
        name, dims, dtype = target
        columns, shape = self.columns(dims[:1], tail=False, arrays=True)
        data = self.updates(shape + dims[1:], dtype, columns, target, False)
        data = self.array(data, shape + dims[1:], dtype)
        flat = f"({data}).reshape((-1,) + {dims[1:]})"
        function = self.rng.choice(("segment_sum", "segment_max", "segment_min", "segment_prod"))
        return f"jax.ops.{function}({flat}, {columns[0]}.reshape(-1), num_segments={dims[0]}).astype({name}.dtype) + {name}"

    def sink_axis(self, target):
        name, dims, dtype = target
        columns, shape = self.columns(dims[-1:], tail=False, arrays=True)
        weight = self.arg(dims[:-1] + shape, dtype)
        return f"jax.grad(lambda t: (jnp.take(t, {columns[0]}, axis=-1) * {weight}).sum())({name})"

    def sink_between(self, target):
        """Columns around a full slice: JAX transposes the updates."""
        name, dims, dtype = target
        if len(dims) == 2:
            columns, shape = self.columns(dims[1:], tail=False)
            place, updates = f":, {columns[0]}", (dims[0],) + shape
        else:
            columns, shape = self.columns((dims[0], dims[2]), tail=False)
            place, updates = f"{columns[0]}, :, {columns[1]}", shape + (dims[1],) + dims[3:]
        if all(column.lstrip("-").isdigit() for column in columns):
            columns = [self.constant_column(columns[0], shape)]
            return f"{name}.at[:, {columns[0]}].add({self.constant(dtype)})"
        operand = self.updates(updates, dtype, [], target, False)
        return f"{name}.at[{place}].{self.rng.choice(('add', 'set', 'max'))}({operand})"

    # Batches of tables, each with indices of its own.

    def batched(self):
        """A scatter with batching dimensions, or with an iota column: returns a name."""
        dtype, width, taken = self.rng.choice(FLOATS[:6]), self.rng.choice((1, 3, 8, 17)), self.rng.choice((1, 2, 5))
        index = self.arg(("N", taken), self.index_dtype(width))
        table = self.arg(("N", width), dtype)
        weight = self.arg(("N", taken), dtype)
        return self.let(self.rng.choice((
            f"jax.vmap(lambda t, i, w: t.at[i].add(w))({table}, {index}, {weight})",
            f"jax.vmap(lambda t, i, w: t.at[i].set(w * 2))({table}, {index}, {weight})",
            f"jax.vmap(lambda t, i: t.at[i].add(1))({table}, {index})",
            f"jax.grad(lambda t: (jnp.take_along_axis(t, {index}, axis=1) * {weight}).sum())({table})",
            f"jax.grad(lambda t: (t[jnp.arange(N)[:, None], {index}] * {weight}).sum())({table})",
            f"jax.vmap(lambda t, i, w: lax.dynamic_update_slice(t, w[:1], [i[0]]))({table}, {index}, {weight})",
        )))

    # Where a scatter stands.

    def scatter(self):
        """Scatter into a table, perhaps inside control flow; returns (name, dims, dtype)."""
        dims, dtype = self.dims(self.rng.choice((1, 1, 2, 2, 3, 3, 3, 4))), self.dtype()
        if self.tables and self.chance(0.35):
            _, dims, dtype = self.rng.choice(self.tables)
        table = self.table(dims, dtype)
        wrapper = self.rng.choice(("plain",) * 9 + (
            "cond", "switch", "fori", "scan", "jit", "jit", "vmap", "while", "gradient", "pair", "barrier"))
        if wrapper == "plain" or self.depth:
            found = self.let(self.sink((table, dims, dtype)))
        else:
            found = self.wrapped(wrapper, (table, dims, dtype))
        self.tables.append((found, dims, dtype))
        return found, dims, dtype

    def wrapped(self, wrapper, target):
        table, dims, dtype = target
        result = self.name()
        scan = wrapper == "scan"
        stacked = self.arg((3,) + self.rows, self.index_dtype(dims[0])) if scan else None
        head = {"fori": "k, t", "scan": "t, s"}.get(wrapper, "t")
        body = self.body(target, scan)
        lines = [f"def {result}_body({head}):", *("    " + line for line in body)]
        if scan:
            lines[-1] = lines[-1].replace("return ", "return (") + f", {self.rng.choice(('None', 's.sum()', 't'))})"
        call = {
            "cond": lambda: f"lax.cond({self.arg((), 'bool')}, {result}_body, lambda t: t, {table})",
            "switch": lambda: (f"lax.switch({self.arg((), 'int32')}, [lambda t: t, {result}_body, "
                               f"lambda t: {result}_body({result}_body(t))], {table})"),
            "fori": lambda: f"lax.fori_loop(0, {self.rng.choice((1, 3))}, {result}_body, {table})",
            "while": lambda: (f"lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, {result}_body(s[1])), "
                              f"(0, {table}))[1]"),
            "scan": lambda: f"lax.scan({result}_body, {table}, {stacked})[0]",
            "jit": lambda: f"jax.jit({result}_body)({table})",
            "vmap": lambda: f"jax.vmap({result}_body)(jnp.stack([{table}, {table}]))[1]",
            "gradient": lambda: f"jax.grad(lambda t: ({result}_body(t) * 2.5).sum())({table})",
            "pair": lambda: f"jax.jit(lambda t: {result}_body({result}_body(t)))({table})",
            "barrier": lambda: f"lax.optimization_barrier({result}_body(lax.optimization_barrier({table})))",
        }[wrapper]()
        self.steps.append((result, [*lines, f"{result} = {call}"]))
        return result

    def body(self, target, scan):
        """Lines of a nested function of `t`; what it defines is not seen outside."""
        kept = self.steps, list(self.pool), list(self.tables), list(self.arrays), list(self.cats)
        self.steps, self.depth = [], self.depth + 1
        # Half of the time everything is computed inside, else from shared columns outside.
        if self.chance(0.5):
            self.pool, self.cats, self.arrays = [], [], []
        if scan:
            self.pool = [(["s"], False)]
        expression = self.sink(("t", target[1], target[2]))
        lines = [line for _, code in self.steps for line in code] + [f"return {expression}"]
        self.steps, self.pool, self.tables, self.arrays, self.cats = kept
        self.depth -= 1
        return lines

    # The whole.

    def program(self):
        results = []
        for _ in range(min(self.most, self.rng.choice((1, 1, 1, 2, 2, 3, MOST)))):
            if self.chance(0.07):
                results.append(self.batched())
                continue
            name, dims, dtype = self.scatter()
            results.append(self.reader(name, dims, dtype) if self.chance(0.25) else name)
            if results[-1] != name and self.chance(0.5):
                results.append(name)
        extras = [name for name, _ in self.cats] + [name for name, _ in self.arrays] + list(self.args)
        if self.chance(0.2) and extras:
            results.append(self.rng.choice(extras))
        donated = [name for name, spec in self.args.items() if self.chance(0.15) and name not in results]
        donated = donated if self.chance(0.5) else []
        made = Program(self.args, self.steps, results, donated, self.rng.choice(ROWS), self.x64, self.plain)
        return made.pruned()

    def reader(self, name, dims, dtype):
        """Something that reads a scattered table."""
        kind = self.rng.choice(("sum", "gather", "gather", "index", "shift"))
        if kind == "gather":
            columns, _ = self.columns(dims)
            return self.let(f"{name}[{', '.join(columns)}]")
        if kind == "index" and dtype not in ("complex64", "bool"):
            self.plain = False
            column = self.let(f"{name}.astype('int32').reshape(-1)")
            other = self.arg(dims[:1], "float32")
            return self.let(f"{other}.at[{column}].add(1.5)")
        if kind == "shift" and dtype != "bool":
            return self.let(f"{name} + {name}")
        return self.let(f"{name}.sum()")


def product(sizes):
    total = 1
    for size in sizes:
        total *= size
    return total
