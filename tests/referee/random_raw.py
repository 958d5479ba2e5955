"""Random HLO text around scatters, for shapes that JAX does not write: the same seed gives the same module.

Index vectors in any dimension, permuted and batching dimensions, narrow types without a convert, wraps that are not
quite wraps, odd combiners, several scattered arrays in one instruction, calls, layouts, values with two users.
"""
import dataclasses
import random

INTEGERS = ("s32",) * 5 + ("s16", "s8", "u8", "u16", "u32", "s64")
TABLES = ("f32", "f32", "f32", "s32", "bf16", "f16", "s8", "u8", "f64")
ROWS = (1, 2, 3, 31, 97, 128, 257, 500, 1000, 1009, 2048, 3000)
SIZES = (1, 2, 3, 5, 8, 16, 17, 100, 128, 200, 257)
# Scatters of a module.
MOST = 3


@dataclasses.dataclass
class Module:
    """HLO text with a number of rows; `plain` is never known here."""

    seed: int
    rows: int
    plain: bool = False
    x64: bool = False
    most: int = MOST

    def source(self, rows=None):
        return Writer(random.Random(self.seed), self.rows if rows is None else rows, self.most).text()

    def pruned(self):
        return self


def program(seed, most=MOST):
    """The module of a seed, with `most` scatters or fewer."""
    return Module(seed, random.Random(f"rows {seed}").choice(ROWS), most=most)


class Writer:
    """Writes one module."""

    def __init__(self, rng, rows, most):
        self.rng, self.n, self.most = rng, rows, most
        self.lines, self.params, self.helpers, self.count = [], [], [], 0
        self.shapes = {}
        self.mood = rng.choice(("mixed", "mixed", "unsigned", "forced"))

    def emit(self, dtype, dims, code):
        self.count += 1
        name = f"%v.{self.count}"
        self.shapes[name] = (dtype, tuple(dims))
        self.lines.append(f"  {name} = {shape(dtype, dims)} {code}")
        return name

    def param(self, dtype, dims):
        name = self.emit(dtype, dims, f"parameter({len(self.params)})")
        self.params.append(shape(dtype, dims))
        return name

    def constant(self, dtype, value):
        return self.emit(dtype, (), f"constant({value})")

    def splat(self, dtype, dims, value):
        return self.emit(dtype, dims, f"broadcast({self.constant(dtype, value)}), dimensions={{}}")

    def pick(self, *options):
        return self.rng.choice(options)

    def chance(self, share):
        return self.rng.random() < share

    # Indices.

    def rows(self):
        """Sizes of the scatter dimensions."""
        return self.pick((self.n,), (self.n,), (self.n,), (self.n, 2), (3, self.n), (self.n, 1))

    def column(self, dtype, rows, source, k, dim, axis):
        """Column k of the source, wrapped or not, with a dimension of size 1 at `axis`."""
        dims = rows[:axis] + (1,) + rows[axis:]
        limits = [f"[0:{size}]" for size in self.shapes[source][1]]
        limits[axis] = f"[{k}:{k + 1}]"
        piece = self.emit(dtype, dims, f"slice({source}), slice={{{', '.join(limits)}}}")
        if self.chance(0.25):
            flat = self.emit(dtype, rows, f"reshape({piece})")
            return self.emit(dtype, dims, f"reshape({self.wrap(flat, dim)})")
        return self.wrap(piece, dim)

    def wrap(self, value, dim):
        """select(value < 0, value + dim, value), or something that only looks like it."""
        dtype, dims = self.shapes[value]
        low, high = limits_of(dtype)
        kind = self.pick("wrap", "wrap", "wrap", "wrap", "none", "shift", "swap", "other", "threshold", "clamp", "max", "call")
        if self.mood == "forced":
            kind = self.pick("clamp", "max")
        elif self.mood == "unsigned" and self.chance(0.5):
            kind = "none"
        if kind == "none":
            return value
        amount = dim if kind != "other" else dim + self.pick(-1, 1, 7)
        # A constant that the type cannot hold would not parse; wrapped as JAX does it.
        amount = (amount - low) % (high - low + 1) + low
        if kind == "shift":
            return self.emit(dtype, dims, f"add({value}, {self.splat(dtype, dims, self.pick(1, 2))})")
        if kind in ("clamp", "max"):
            floor = self.splat(dtype, dims, 0)
            if kind == "max":
                return self.emit(dtype, dims, f"maximum({value}, {floor})")
            return self.emit(dtype, dims, f"clamp({floor}, {value}, {self.splat(dtype, dims, min(dim - 1, high))})")
        if kind == "call":
            return self.emit(dtype, dims, f"call({value}), to_apply={self.wrapper(dtype, dims, amount)}")
        edge = self.splat(dtype, dims, self.pick(1, 2) if kind == "threshold" else 0)
        direction = self.pick("LT", "LT", "LE") if kind == "threshold" else "LT"
        moved = self.emit(dtype, dims, f"add({value}, {self.splat(dtype, dims, amount)})")
        if self.chance(0.2):
            test = self.emit("pred", dims, f"compare({edge}, {value}), direction={'GT' if direction == 'LT' else 'GE'}")
        else:
            test = self.emit("pred", dims, f"compare({value}, {edge}), direction={direction}")
        arms = f"{value}, {moved}" if kind == "swap" else f"{moved}, {value}"
        return self.emit(dtype, dims, f"select({test}, {arms})")

    def wrapper(self, dtype, dims, amount):
        name = f"%wrapped.{len(self.helpers)}"
        whole, flags = shape(dtype, dims), shape("pred", dims)
        self.helpers.append(f"""{name} (p: {whole}) -> {whole} {{
  %p = {whole} parameter(0)
  %z = {dtype}[] constant(0)
  %zb = {whole} broadcast(%z), dimensions={{}}
  %c = {flags} compare(%p, %zb), direction=LT
  %d = {dtype}[] constant({amount})
  %db = {whole} broadcast(%d), dimensions={{}}
  %a = {whole} add(%p, %db)
  ROOT %s = {whole} select(%c, %a, %p)
}}
""")
        return name

    def indices(self, rows, table, axis):
        """The index array: joined columns along `axis`, or one buffer taken as it is."""
        dtype, count = self.rng.choice(("u8", "u16", "u32") if self.mood == "unsigned" else INTEGERS), len(table)
        source = self.param(dtype, rows[:axis] + (count,) + rows[axis:])
        if self.chance(0.1):
            return source
        order = list(range(count))
        if self.chance(0.2):
            self.rng.shuffle(order)
        if self.chance(0.05):
            order = [order[0]] * count
        early = self.pick(None, None, None, "s32", "s64", "u32") if dtype != "s32" else self.pick(None, None, "s64", "u8")
        pieces = []
        for k, dim in zip(order, table):
            piece = self.special(dtype, rows, axis) if self.mood == "mixed" and self.chance(0.1) else self.column(dtype, rows, source, k, dim, axis)
            if early:
                piece = self.emit(early, self.shapes[piece][1], f"convert({piece})")
            pieces.append(piece)
        kind = early or dtype
        whole = rows[:axis] + (count,) + rows[axis:]
        joined = self.emit(kind, whole, f"concatenate({', '.join(pieces)}), dimensions={{{axis}}}") if count > 1 else pieces[0]
        late = self.pick(None, None, "s32", "s64")
        return self.emit(late, whole, f"convert({joined})") if late and late != kind else joined

    def special(self, dtype, rows, axis):
        dims = rows[:axis] + (1,) + rows[axis:]
        if self.chance(0.5):
            return self.emit(dtype, dims, f"iota(), iota_dimension={self.rng.randrange(len(dims))}")
        return self.splat(dtype, dims, self.pick(0, 1, 2))

    # Updates and combiners.

    def updates(self, dtype, dims):
        kind = self.pick("param", "param", "splat", "iota", "scaled", "transposed", "reduced", "sliced")
        if kind == "splat":
            return self.splat(dtype, dims, self.pick(0, 1, 3))
        if kind == "iota" and dims:
            return self.emit(dtype, dims, f"iota(), iota_dimension={self.rng.randrange(len(dims))}")
        if kind == "scaled":
            value = self.param(dtype, dims)
            return self.emit(dtype, dims, f"multiply({value}, {self.splat(dtype, dims, 3)})")
        if kind == "transposed" and len(dims) > 1:
            value, order = self.param(dtype, dims[::-1]), ",".join(str(k) for k in reversed(range(len(dims))))
            return self.emit(dtype, dims, f"transpose({value}), dimensions={{{order}}}")
        if kind == "reduced":
            value, zero = self.param(dtype, dims + (4,)), self.constant(dtype, 0)
            return self.emit(dtype, dims, f"reduce({value}, {zero}), dimensions={{{len(dims)}}}, to_apply={self.combiner([dtype], 'maximum')}")
        if kind == "sliced":
            value = self.param(dtype, dims[:-1] + (2 * dims[-1] + 1,))
            limits = ", ".join([f"[0:{size}]" for size in dims[:-1]] + [f"[1:{2 * dims[-1] + 1}:2]"])
            return self.emit(dtype, dims, f"slice({value}), slice={{{limits}}}")
        return self.param(dtype, dims)

    def combiner(self, dtypes, fixed=None):
        """A computation of the old and new values of each array."""
        name, count = f"%combine.{len(self.helpers)}", len(dtypes)
        head = ", ".join([f"a{k}: {d}[]" for k, d in enumerate(dtypes)] + [f"b{k}: {d}[]" for k, d in enumerate(dtypes)])
        lines = [f"  %a{k} = {d}[] parameter({k})" for k, d in enumerate(dtypes)]
        lines += [f"  %b{k} = {d}[] parameter({count + k})" for k, d in enumerate(dtypes)]
        results = []
        for k, d in enumerate(dtypes):
            results.append(self.combined(lines, k, d, fixed))
        if count > 1:
            lines.append(f"  %r = ({', '.join(d + '[]' for d in dtypes)}) tuple({', '.join(results)})")
            results = ["%r"]
        lines = [line.replace(f"  {results[0]} =", f"  ROOT {results[0]} =") for line in lines]
        result = f"{dtypes[0]}[]" if count == 1 else f"({', '.join(d + '[]' for d in dtypes)})"
        self.helpers.append(f"{name} ({head}) -> {result} {{\n" + "\n".join(lines) + "\n}\n")
        return name

    def combined(self, lines, k, dtype, fixed):
        kind = fixed or self.pick("add", "add", "add", "swapped", "second", "first", "maximum", "minimum", "multiply",
                                  "count", "scaled", "larger", "subtract", "average")
        old, new, out = f"%a{k}", f"%b{k}", f"%c{k}"
        whole = f"{dtype}[]"
        if kind in ("second", "first"):
            return new if kind == "second" else old
        if kind == "swapped":
            lines.append(f"  {out} = {whole} add({new}, {old})")
        elif kind == "count":
            lines += [f"  %k{k} = {whole} constant(1)", f"  {out} = {whole} add({old}, %k{k})"]
        elif kind == "scaled":
            lines += [f"  %k{k} = {whole} constant(3)", f"  %m{k} = {whole} multiply({new}, %k{k})",
                      f"  {out} = {whole} add({old}, %m{k})"]
        elif kind == "average":
            lines += [f"  %m{k} = {whole} add({old}, {new})", f"  %k{k} = {whole} constant(2)",
                      f"  {out} = {whole} divide(%m{k}, %k{k})"]
        elif kind == "larger":
            lines += [f"  %t{k} = pred[] compare({old}, {new}), direction=GT",
                      f"  {out} = {whole} select(%t{k}, {old}, {new})"]
        else:
            lines.append(f"  {out} = {whole} {kind}({old}, {new})")
        return out

    # Scatters.

    def scatter(self, previous):
        """One scatter instruction; its operand may be what an earlier one made."""
        rows = self.rows()
        batch = 1 if len(rows) > 1 and self.chance(0.3) else 0
        rank = self.pick(1, 2, 2, 3, 3, 4)
        table = self.table_dims(rank)
        order = list(range(rank))
        if self.chance(0.35):
            self.rng.shuffle(order)
        axis = self.pick(len(rows), len(rows), len(rows), self.rng.randint(0, len(rows)))
        if previous and not batch and self.chance(0.6):
            table = self.shapes[previous[0]][1]
            rank, order = len(table), list(range(len(table)))
        full = (rows[0],) * batch + tuple(table)
        inserted = [d for d in range(rank) if self.chance(0.85)]
        windows = [d for d in range(rank) if d not in inserted]
        sizes = [min(table[d], self.rng.randint(1, 2)) for d in windows]
        dtypes = [self.rng.choice(TABLES) for _ in range(self.pick(1, 1, 1, 1, 1, 2))]
        operands = [self.param(dtype, full) for dtype in dtypes]
        if previous and not batch and self.shapes[previous[0]][1] == full:
            operands, dtypes = [previous[0], *operands[1:]], [self.shapes[previous[0]][0], *dtypes[1:]]
        index = self.shared(rows, axis, rank) or self.indices(rows, [table[d] for d in order], axis)
        self.kept = (rows, axis, rank, index)
        updates = [self.updates(dtype, rows + tuple(sizes)) for dtype in dtypes]
        attributes = [
            f"update_window_dims={braces(range(len(rows), len(rows) + len(sizes)))}",
            f"inserted_window_dims={braces(d + batch for d in inserted)}",
            f"scatter_dims_to_operand_dims={braces(d + batch for d in order)}"]
        if batch:
            attributes += ["input_batching_dims={0}", f"scatter_indices_batching_dims={{{0 if axis > 0 else 1}}}"]
        attributes.append(f"index_vector_dim={axis}")
        if self.chance(0.1):
            attributes.append(self.pick("indices_are_sorted=true", "unique_indices=true"))
        attributes.append(f"to_apply={self.combiner(dtypes)}")
        code = f"scatter({', '.join([*operands, index, *updates])}), {', '.join(attributes)}"
        if len(dtypes) == 1:
            return [self.emit(dtypes[0], full, code)], index
        self.count += 1
        whole = f"%v.{self.count}"
        self.lines.append(f"  {whole} = ({', '.join(shape(d, full) for d in dtypes)}) {code}")
        return [self.emit(d, full, f"get-tuple-element({whole}), index={k}") for k, d in enumerate(dtypes)], index

    def shared(self, rows, axis, rank):
        kept = getattr(self, "kept", None)
        return kept[3] if kept and kept[:3] == (rows, axis, rank) and self.chance(0.5) else None

    def table_dims(self, rank):
        dims = [self.rng.choice(SIZES) for _ in range(rank)]
        while rank > 1 and total(dims) > 600:
            dims[dims.index(max(dims))] = max(1, max(dims) // 2)
        return tuple(dims)

    def text(self):
        results, previous = [], None
        for _ in range(min(self.most, self.pick(1, 1, 1, 2, 2, MOST))):
            previous, index = self.scatter(previous)
            results += previous
            if self.chance(0.12):
                results.append(index)
        results = list(dict.fromkeys(results))
        types = ", ".join(shape(*self.shapes[name]) for name in results)
        self.lines.append(f"  ROOT %result = ({types}) tuple({', '.join(results)})")
        entry = f"ENTRY %main ({', '.join(f'p{k}: {p}' for k, p in enumerate(self.params))}) -> ({types}) {{\n"
        return "HloModule random\n\n" + "\n".join(self.helpers) + "\n" + entry + "\n".join(self.lines) + "\n}\n"


def shape(dtype, dims):
    return f"{dtype}[{','.join(str(size) for size in dims)}]"


def braces(values):
    return "{" + ",".join(str(value) for value in values) + "}"


def total(dims):
    count = 1
    for size in dims:
        count *= size
    return count


def limits_of(dtype):
    bits = int(dtype[1:])
    return (0, 2**bits - 1) if dtype[0] == "u" else (-2**(bits - 1), 2**(bits - 1) - 1)
