"""Index columns of a random program: where they come from, how they are spelled, what happens to them on the way."""
from random_source import tuple_text

INDEX_TYPES = ("int32",) * 5 + ("int16", "int16", "int8", "int8", "uint8", "uint16", "uint32", "int64")
SPELLINGS = ("cols", "cols", "cols", "split", "split", "unstack", "stack", "soa", "transposed", "args", "args",
             "some", "joined", "flat", "floats", "packed", "halo", "strided", "moved", "best", "halves")


class Columns:
    """The half of the generator that makes indices."""

    def index_dtype(self, _limit=0):
        found = self.rng.choice(("uint8", "uint16", "uint32") if self.unsigned else INDEX_TYPES)
        return "int32" if found == "int64" and not self.x64 else found

    def columns(self, dims, tail=None, arrays=False):
        """One column per dimension and the shape of each: (expressions, sizes). `tail` keeps a last dimension of 1."""
        tail = self.chance(0.2) if tail is None else tail
        shape = self.rows + ((1,) if tail else ())
        names = self.source(len(dims), tail)
        picks = list(range(len(dims)))
        draw = self.rng.random() * (2 if self.calm else 1)
        if draw < 0.2:
            self.rng.shuffle(picks)
        elif draw < 0.3:
            picks = [self.rng.choice(picks) for _ in picks]
        made = [self.column(names[pick % len(names)], dim, shape, arrays) for pick, dim in zip(picks, dims)]
        self.arrays += [(name, shape) for name in names if name != "s"]
        if all(isinstance(column, int) for column in made):
            made[0] = self.constant_column(made[0], shape)
        return [str(column) for column in made], shape

    def source(self, count, tail):
        """Names of at least one column, new or used before."""
        fitting = [names for names, kept in self.pool if kept == tail and len(names) >= min(count, 2)]
        if any(names == ["s"] for names, _ in self.pool) and not tail:
            return ["s"]
        if fitting and self.chance(self.sharing):
            return self.rng.choice(fitting)
        names = getattr(self, "spell_" + self.rng.choice(SPELLINGS))(count, tail)
        self.pool.append((names, tail))
        return names

    # Spellings. Each returns `count` names of shape rows, or rows + (1,) with `tail`.

    def last(self, name, places, tail):
        """The given places of the last dimension."""
        return [self.let(f"{name}[..., {k}:{k + 1}]" if tail else f"{name}[..., {k}]") for k in places]

    def tailed(self, names, tail):
        return [self.let(f"{name}[..., None]") for name in names] if tail else names

    def spell_cols(self, count, tail):
        return self.last(self.arg(self.rows + (count,), self.index_dtype()), range(count), tail)

    def spell_split(self, count, tail):
        pieces = self.let(f"jnp.split({self.arg(self.rows + (count,), self.index_dtype())}, {count}, axis=-1)")
        return [self.let(f"{pieces}[{k}]" if tail else f"{pieces}[{k}][..., 0]") for k in range(count)]

    def spell_unstack(self, count, tail):
        name = self.arg(self.rows + (count,), self.index_dtype())
        front = self.let(f"jnp.moveaxis({name}, -1, 0)")
        return self.tailed([self.let(f"{front}[{k}]") for k in range(count)], tail)

    def spell_stack(self, count, tail):
        kind = self.index_dtype()
        names = [self.arg(self.rows, kind) for _ in range(count)]
        return self.last(self.let(f"jnp.stack([{', '.join(names)}], -1)"), range(count), tail)

    def spell_soa(self, count, tail):
        name = self.arg((count,) + self.rows, self.index_dtype())
        return self.tailed([self.let(f"{name}[{k}]") for k in range(count)], tail)

    def spell_transposed(self, count, tail):
        name = self.arg((count,) + self.rows[::-1], self.index_dtype())
        return self.last(self.let(f"{name}.T"), range(count), tail)

    def spell_args(self, count, tail):
        return self.tailed([self.arg(self.rows, self.index_dtype()) for _ in range(count)], tail)

    def spell_some(self, count, tail):
        """A few columns of a wider table."""
        places = self.rng.sample(range(count + 2), count)
        return self.last(self.arg(self.rows + (count + 2,), self.index_dtype()), places, tail)

    def spell_joined(self, count, tail):
        kind, first = self.index_dtype(), self.rng.randint(1, count)
        pieces = [self.arg(self.rows + (size,), kind) for size in (first, count - first) if size]
        return self.last(self.let(f"jnp.concatenate([{', '.join(pieces)}], -1)"), range(count), tail)

    def spell_flat(self, count, tail):
        """A flat buffer that is given its shape first."""
        total = " * ".join(str(size) for size in self.rows + (count,))
        flat = self.arg((total,), self.index_dtype())
        return self.last(self.let(f"{flat}.reshape({tuple_text(self.rows + (count,))})"), range(count), tail)

    def spell_floats(self, count, tail):
        self.plain = False
        name = self.arg(self.rows + (count,), "float32")
        scaled = self.let(self.rng.choice((
            f"jnp.floor({name} * 4).astype('int32')", f"({name} * 10).astype('int32')",
            f"jnp.clip(jnp.floor({name} * 8), 0, 6).astype('int32')")))
        return self.last(scaled, range(count), tail)

    def spell_packed(self, count, tail):
        """Several columns out of one integer."""
        self.plain = False
        name = self.arg(self.rows, self.rng.choice(("int32", "uint32")))
        made = [self.let(self.rng.choice((
            f"({name} >> {3 * k}) & 7", f"jnp.divmod({name}, {2 + k})[{k % 2}]", f"({name} * {2 * k + 1}) % {5 + k}",
        ))) for k in range(count)]
        return self.tailed(made, tail)

    def spell_halo(self, count, tail):
        """Neighbouring rows of one longer array."""
        kind = self.index_dtype()
        if self.rows[0] != "N":
            return self.spell_args(count, tail)
        name = self.arg((f"N + {count}",) + self.rows[1:], kind)
        made = [self.let(f"{name}[{k}:N + {k}]") for k in range(count)]
        if self.chance(0.3):
            self.plain = False
            made = [self.let(f"{one} - {name}[1:N + 1]") for one in made]
        return self.tailed(made, tail)

    def spell_strided(self, count, tail):
        """Every count-th element of a longer array, or a reversed and padded one."""
        if self.rows[0] != "N":
            return self.spell_args(count, tail)
        rest, flat = self.rows[1:], f"N * {count}"
        name = self.arg((flat,) + rest, self.index_dtype())
        forms = (f"{name}[{{k}}::{count}]", f"{name}.reshape({tuple_text(('N', count) + rest)})[:, {{k}}]",
                 f"{name}[::-1][{{k}}::{count}]", f"{name}.reshape({tuple_text((count, 'N') + rest)})[{{k}}]",
                 f"jnp.repeat({name}[:N], 2, axis=0)[{{k}}:N + {{k}}] if N > {count} else {name}[:N]",
                 f"jnp.tile({name}[:N], ({', '.join(['2'] + ['1'] * len(rest))}))[:N]")
        form = self.rng.choice(forms)
        return self.tailed([self.let(form.format(k=k)) for k in range(count)], tail)

    def spell_moved(self, count, tail):
        """Rows in another order: gathered, shifted by an argument, or written over."""
        made = []
        for _ in range(count):
            name = self.arg(self.rows, self.index_dtype())
            zeros = ", ".join(["0"] * (len(self.rows) - 1))
            start = self.arg((), "int32")
            rows = tuple_text(self.rows)
            axis = self.rows.index("N")
            made.append(self.let(self.rng.choice((
                f"jnp.take({name}, {self.arg(('N',), 'int32')}, axis={axis}, mode='clip')",
                f"lax.dynamic_slice(jnp.concatenate([{name}, {name}], 0), ({start}, {zeros}), {rows})",
                f"lax.dynamic_update_slice({name}, {name}[:1], ({start}, {zeros}))",
                f"{name}.at[{start}].set(3)",
                f"lax.rev({name}, ({axis},))",
                f"jnp.swapaxes(jnp.swapaxes({name}, 0, -1), 0, -1)",
                f"lax.cummax({name}, axis={axis})",
            ))))
        return self.tailed(made, tail)

    def spell_best(self, count, tail):
        """Indices that are found: positions of the largest, counts, sorted candidates."""
        self.plain = False
        name = self.arg(self.rows + (count + 1,), self.rng.choice(("float32", "int32", "float16")))
        form = self.rng.choice((
            f"jnp.argsort({name}, axis=-1)", f"lax.top_k({name}, {count})[1]", f"jnp.cumsum({name} > 0, axis=-1)",
            f"jnp.sort({name}, axis=-1).astype('int32')", f"({name} > 0).astype('int8')",
            f"jnp.searchsorted(jnp.arange(8) * 0.25, {name})", f"lax.cumsum({name}.astype('int32'), axis={len(self.rows)})",
            f"jnp.argmax({name}, axis=-1)[..., None] + jnp.arange({count})",
            f"jnp.digitize({name}, jnp.arange(4) * 0.5)", f"jnp.max({name}, axis=-1, keepdims=True).astype('int32') * jnp.arange({count})"))
        return self.last(self.let(form), range(count), tail)

    def spell_halves(self, count, tail):
        """Rows that come from two arrays."""
        axis = self.rows.index("N")
        made = []
        for _ in range(count):
            kind = self.index_dtype()
            first = self.arg(tuple("N // 2" if size == "N" else size for size in self.rows), kind)
            second = self.arg(tuple("N - N // 2" if size == "N" else size for size in self.rows), kind)
            made.append(self.let(f"jnp.concatenate([{first}, {second}], {axis})"))
        return self.tailed(made, tail)

    # What happens to one column.

    def column(self, name, dim, shape, arrays):
        """The name of the changed column, or a number."""
        draw = self.rng.random()
        if self.forced and draw < 0.9:
            self.plain = False
            return self.let(self.force(name, dim))
        if draw < 0.6 or self.calm:
            return name
        if draw < 0.66:
            self.plain = False
            value = self.rng.choice((0, 0, dim - 1, -1, -dim, dim, -dim - 1))
            return self.constant_column(value, shape) if arrays or self.chance(0.5) else value
        if draw < 0.72:
            self.plain = False
            return self.iota_column(shape)
        self.plain = False
        return self.let(self.rng.choice(self.changes(name, dim, shape)))

    def force(self, name, dim):
        """The column, not below zero; often not above the dimension either."""
        top = min(dim - 1, 127)
        return self.rng.choice((
            f"jnp.clip({name}, 0, {top})", f"jnp.maximum({name}, 0)", f"{name} & {top}", f"{name} % {max(1, top)}",
            f"jnp.abs({name} >> 1)", f"jnp.where({name} < 0, 0, {name})", f"{name}.astype('uint8')",
            f"jnp.abs({name} % {max(1, top)})", f"jnp.maximum({name}, 0) // 2", f"jnp.minimum(jnp.maximum({name}, 0), {top})",
            f"lax.clamp({name}.dtype.type(0), {name}, {name}.dtype.type({top}))", f"{name} >> 31 & 1",
            f"({name} > 0).astype('int32')", f"{name} * {name}", f"lax.shift_right_logical({name}, {name}.dtype.type(1))",
            f"jnp.abs({name} >> 1) - 0", f"jnp.abs(lax.rem({name}, {name}.dtype.type({max(1, top)})))", f"jnp.sign({name}) + 1"))

    def constant_column(self, value, shape):
        return self.let(f"jnp.full({tuple_text(shape)}, {value}, 'int32')")

    def iota_column(self, shape):
        axis = self.rng.randrange(len(shape))
        kind = self.rng.choice(("int32", "int32", "int16", "uint8", "uint32"))
        scale = self.rng.choice(("", "", " % 5", " - 3", " * 2"))
        return self.let(f"lax.broadcasted_iota('{kind}', {tuple_text(shape)}, {axis}){scale}")

    def changes(self, name, dim, shape):
        """Expressions that change a column."""
        top = min(dim - 1, 100)
        wider = self.rng.choice(("int32", "int32", "int16", "uint32", "uint8", "int8"))
        other = self.rng.choice([n for n, s in self.arrays if s == shape and self.depth == 0] or [name])
        return (
            f"{name} + 1", f"{name} - 1", f"{name} * 2 // 3", f"-{name}", f"jnp.abs({name} >> 1)",
            f"jnp.clip({name}, 0, {top})", f"jnp.clip({name}, -2, {top})", f"jnp.maximum({name}, 0)",
            f"{name} % {max(1, top)}", f"{name} & {top}", f"lax.rem({name}, jnp.asarray({max(1, top)}, {name}.dtype))",
            f"{name}.astype('{wider}')", f"{name}.astype('{wider}').astype('int32')", f"{name}.astype('{wider}') + 1",
            f"jnp.where({name} > {top // 2}, {top}, {name})", f"jnp.where({name} < 0, {name} + {top}, {name})",
            f"jnp.where({self.mask(shape)}, {name}, {min(dim, 100)})",
            f"jnp.where({self.mask(shape)}, {name}, {name} + 1)",
            f"{name}[::-1]", f"jnp.roll({name}, 1, axis=0)", f"jnp.sort({name}, axis=0)", f"jnp.sort({name}, axis=-1)",
            f"jnp.cumsum({name}, axis=0)", f"lax.optimization_barrier({name})", f"jnp.minimum({name}, {other})",
            f"{name} + {other}", f"({name}.astype('float32') * 0.5).astype('int32')", f"{name} ^ 1", f"{name} >> 1",
            f"jnp.concatenate([{name}[:N // 2], {name}[N // 2:]], 0) if {shape[0]!r} == 'N' else {name}",
            f"jax.jit(lambda q: jnp.where(q < 0, q + {top}, q))({name})",
        )

    def mask(self, shape):
        """A boolean array; made even when the expression is not chosen (pruning drops it)."""
        return self.arg(shape, "bool")
