"""Update values of a random program: constants, arguments, elementwise work, gathers, reductions and what breaks rows."""
from random_source import tuple_text

REAL = ("float32", "float16", "bfloat16", "float64")


class Updates:
    """The half of the generator that makes updates."""

    def constant(self, dtype):
        if dtype == "bool":
            return self.rng.choice(("True", "False"))
        if dtype in REAL:
            return self.rng.choice(("1.0", "2.5", "2.5", "-0.0", "jnp.nan", "-jnp.inf", "0.1"))
        return "(1.5 - 2j)" if dtype == "complex64" else self.rng.choice(("1", "1", "3", "0"))

    def array(self, text, shape, dtype):
        """The same values as an array of that shape and type."""
        return self.let(f"jnp.broadcast_to(jnp.asarray({text}, '{dtype}'), {tuple_text(shape)})")

    def updates(self, shape, dtype, columns, target, whole):
        """An expression that broadcasts to `shape`; `whole` says that `columns` index single elements of the target."""
        draw = self.rng.random()
        if draw < 0.25:
            return self.constant(dtype)
        if draw < 0.45:
            return self.arg(shape, dtype)
        if draw < 0.53 and whole and dtype != "bool":
            read = f"{target[0]}[{', '.join(columns)}]"
            return self.rng.choice((read, f"{read} * 2", f"{read} * {self.arg(shape, dtype)}"))
        if draw < 0.6:
            axis = self.rng.randrange(len(shape))
            return f"lax.broadcasted_iota('int32', {tuple_text(shape)}, {axis}).astype('{dtype}')"
        if draw < 0.66 and whole and dtype != "complex64":
            named = [c for c in columns if not c.lstrip("-").isdigit()]
            if named:
                return f"{self.rng.choice(named)}.astype('{dtype}')"
        if draw < 0.75:
            return self.rows_of(shape, dtype)
        if draw < 0.86 and shape[0] == "N" and dtype != "bool":
            return self.moved(shape, dtype)
        return f"({self.elementwise(shape, dtype)})"

    def rows_of(self, shape, dtype):
        """Values of a row that come from more than one element."""
        wide = self.arg(shape + (4,), dtype)
        if dtype == "bool":
            return f"{wide}.any(-1)"
        if dtype == "complex64":
            return f"{wide}.sum(-1)"
        small = self.arg((4,), dtype)
        axis = self.rng.randrange(len(shape))
        # XLA:CPU's library does not wrap sums of 8 bits below a minimum (docs/limits.md): such a program is wrong before it is rewritten.
        joined = f"({wide} ^ {small})" if dtype in ("int8", "uint8") else f"({wide} + {small})"
        return self.rng.choice((
            f"{wide}.sum(-1)", f"{wide}.max(-1)", f"({wide} @ {small})", f"{wide}[..., 2]", f"{wide}.prod(-1)",
            f"jnp.cumsum({wide}, -1)[..., 3]", f"jnp.cumsum({wide}[..., 0], {axis})", f"jnp.sort({wide}[..., 1], {axis})",
            f"{wide}[..., 0][::-1]", f"jnp.take({small}, {wide}[..., 0].astype('int32') % 4)",
            f"jnp.argmax({wide}, -1).astype('{dtype}')", f"jnp.flip({wide}, -1)[..., 0]",
            f"{joined}.min(-1)", f"jnp.einsum('...k,k->...', {wide}, {small})"))

    def moved(self, shape, dtype):
        """Values whose rows come from other rows, or from nowhere."""
        rest, dims = shape[1:], tuple_text(shape)
        spread = ", ".join(["None"] * len(rest))
        spread = f"[:, {spread}]" if rest else ""
        longer, double, plain = (self.arg((size,) + rest, dtype) for size in ("N + 1", "N * 2", "N"))
        flat, small = self.arg((" * ".join(f"({size})" for size in shape),), dtype), self.arg((4,), dtype)
        start = self.arg((), "int32")
        zeros = ", ".join(["0"] * len(rest))
        pads = "".join(", (0, 0, 0)" for _ in rest)
        forms = [
            f"({longer}[1:] - {longer}[:-1])", f"{double}[1::2]", f"{double}[::-2]", f"{flat}.reshape({dims})",
            f"{plain}[::-1]", f"jnp.roll({plain}, 3, axis=0)", f"lax.pad({longer}, {longer}.dtype.type(0), ((-1, 0, 0){pads}))",
            f"lax.dynamic_slice({double}, ({start}, {zeros}), {dims})",
            f"lax.dynamic_update_slice({plain}, {plain}[:1], ({start}, {zeros}))",
            f"jnp.zeros_like({plain}).at[{self.arg(('N',), 'int32')}].set({plain})",
            f"{plain}[{self.arg(('N',), 'int32')}]", f"jnp.tile({plain}, ({', '.join(['2'] + ['1'] * len(rest))}))[:N]",
            f"jnp.repeat({plain}, 2, axis=0)[:N]", f"jnp.take({small}, jnp.arange(N) % 4){spread}",
            f"{double}.reshape({tuple_text(('N', 2) + rest)}).sum(1)", f"{double}.reshape({tuple_text((2, 'N') + rest)}).sum(0)",
            f"lax.map(lambda q: q + q, {plain})", f"({plain} - {plain}.sum(0))", f"lax.cumsum({plain}, axis=0, reverse=True)",
            f"jnp.where(jnp.arange(N){spread} % 3 == 0, {plain}, {small}[0])", f"jnp.broadcast_to({small}[1], {dims})",
        ]
        if dtype in ("float32", "float16"):
            forms += [
                f"jax.random.normal(jax.random.key(3), {dims}, '{dtype}')",
                f"jax.random.randint(jax.random.key(3), {dims}, 0, 9).astype('{dtype}')",
                f"jax.random.bits(jax.random.key({start}), {dims}, 'uint8').astype('{dtype}')",
                f"jax.nn.softmax({plain}, axis=-1)", f"jax.nn.softmax({plain}, axis=0)",
                f"lax.reduce_precision({plain}, 5, 3)", f"lax.reduce_window({longer}, 0., lax.add, {(2,) + (1,) * len(rest)}, {(1,) * len(shape)}, 'VALID')",
                f"lax.reduce_window({plain}, -jnp.inf, lax.max, {(3,) + (1,) * len(rest)}, {(1,) * len(shape)}, 'SAME')",
                f"lax.nextafter({plain}, {plain} + 1)", f"jnp.nan_to_num({plain})", f"lax.clamp(-1., {plain}, {plain} + 1)",
                f"({plain} @ jnp.eye({rest[-1] if rest else 1}, dtype='{dtype}'))" if rest else f"{plain} * {small}[2]",
                f"jnp.convolve({flat}, {small}, 'same').reshape({dims}) if N > 4 else {plain}",
            ]
        if dtype == "float32":
            forms += [f"lax.bitcast_convert_type({self.arg(shape, 'int32')}, 'float32')",
                      f"lax.bitcast_convert_type({self.arg(shape + (4,), 'uint8')}, 'float32')",
                      f"jnp.vectorize(lambda q: jnp.arctan2(q, 2.))({plain})", f"jnp.fft.fft({plain}).real"]
        return self.rng.choice(forms)

    def elementwise(self, shape, dtype):
        a, b = self.arg(shape, dtype), self.arg(shape, dtype)
        if dtype == "bool":
            return self.rng.choice((f"{a} & {b}", f"~{a}", f"{a} ^ {b}"))
        common = (f"{a} + {b}", f"{a} * {b}", f"{a} * {b} + {a}", f"{a} * 3 - {b}", f"-{a}")
        if dtype == "complex64":
            return self.rng.choice((*common, f"jnp.conj({a})", f"jnp.exp({a})", f"{a} / {b}"))
        common += (f"jnp.where({a} > {b}, {a}, {b})", f"jnp.maximum({a}, {b})", f"jnp.abs({a}) + 1",
                   f"{a}.astype('float32').astype('{dtype}')", f"jnp.sign({a}) * {b}")
        if dtype not in REAL:
            return self.rng.choice((*common, f"{a} // (jnp.abs({b}) + 1)", f"{a} >> 1", f"{a} ^ {b}", f"{a} | 1"))
        return self.rng.choice((
            *common, f"jnp.sin({a})", f"jnp.tanh({a}) * {b}", f"jnp.exp(-{a} * {a})", f"{a} / (1 + {b} * {b})",
            f"jnp.sqrt(jnp.abs({a}))", f"jax.nn.sigmoid({a}) + {b}", f"jnp.log1p(jnp.abs({a}))", f"jnp.floor({a}) * 0.1",
            f"{a} ** 3 + {b} * {a}", f"jnp.power(jnp.abs({a}), 0.3)", f"jax.nn.gelu({a})", f"{a} % 2",
            f"{a}.astype('bfloat16').astype('{dtype}') * {b}", f"lax.rsqrt(jnp.abs({a}) + 1) * {b}"))
