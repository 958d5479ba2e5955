"""A random program as data: arguments, steps and results, and how it becomes Python source that can be traced."""
import dataclasses
import re

NAME = re.compile(r"\b[av]\d+\b")


@dataclasses.dataclass
class Program:
    """Steps are lines of Python; sizes are texts that may name N, the number of rows, so that any N can be lowered."""

    args: dict  # name -> (sizes as texts, dtype)
    steps: list  # (name, list of lines); a step defines its name and reads names of arguments and earlier steps
    results: list  # names
    donated: list  # names of arguments
    rows: int
    x64: bool = False
    # No index was changed on its way: in-range data stays in range (see `--assume=indices-in-bounds`).
    plain: bool = False

    def used(self):
        """Names that the results depend on."""
        wanted, reads = set(self.results), {name: reads_of(lines) for name, lines in self.steps}
        for name, _ in reversed(self.steps):
            if name in wanted:
                wanted |= reads[name]
        return wanted

    def pruned(self):
        """The same program without steps that no result needs; unused arguments stay out as well."""
        wanted = self.used()
        args = {name: spec for name, spec in self.args.items() if name in wanted}
        steps = [step for step in self.steps if step[0] in wanted]
        donated = [name for name in self.donated if name in args]
        return dataclasses.replace(self, args=args, steps=steps, donated=donated)

    def source(self, rows=None):
        """A Python module with `build()`: the function, its argument shapes and the donated positions."""
        rows = self.rows if rows is None else rows
        lines = ["import jax", "import jax.numpy as jnp", "from jax import lax", "", f"N = {rows}",
                 f"X64 = {self.x64}", "", "", f"def f({', '.join(self.args)}):"]
        for _, code in self.steps:
            lines += ["    " + line for line in code]
        lines += [f"    return ({', '.join(self.results)},)", "", "", "def build():", "    shapes = ["]
        for sizes, dtype in self.args.values():
            lines.append(f"        jax.ShapeDtypeStruct({tuple_text(sizes)}, '{dtype}'),")
        donated = tuple(k for k, name in enumerate(self.args) if name in self.donated)
        lines += ["    ]", f"    return f, shapes, {donated}"]
        return "\n".join(lines) + "\n"


def reads_of(lines):
    return set(NAME.findall("\n".join(lines)))


def tuple_text(sizes):
    return "(" + "".join(f"{size}, " for size in sizes) + ")"
