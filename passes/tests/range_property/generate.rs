//! Random small HLO modules over integers: elementwise chains, conditions, data movement, reductions, calls and loops.

use std::fmt::Write as _;

/// A small generator of pseudo-random numbers (Knuth's MMIX constants), the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// A value of the entry that is being written.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Value {
    name: String,
    element_type: &'static str,
    dims: Vec<i64>,
}

/// Writes the entry computation.
struct Writer {
    random: Random,
    lines: String,
    values: Vec<Value>,
}

const TYPES: [&str; 5] = ["s8", "u8", "s16", "u16", "s32"];
const BINARY: [&str; 12] = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "remainder",
    "minimum",
    "maximum",
    "and",
    "or",
    "xor",
    "shift-left",
    "shift-right-logical",
];
const UNARY: [&str; 7] = ["negate", "abs", "not", "sign", "popcnt", "count-leading-zeros", "copy"];
const DIRECTIONS: [&str; 6] = ["LT", "LE", "GT", "GE", "EQ", "NE"];

/// Text of a module with `count` steps in its entry.
pub(crate) fn module(seed: u64, count: usize) -> String {
    let mut writer = Writer { random: Random(seed), lines: String::new(), values: Vec::new() };
    for (number, element_type) in TYPES.iter().enumerate() {
        let dims = if number % 2 == 0 { vec![4, 3] } else { vec![3] };
        writer.add(element_type, &dims, &format!("parameter({number})"));
    }
    for _ in 0..count {
        writer.step();
    }
    format!("HloModule random\n\n{}ENTRY %main {{\n{}}}\n", applied(), writer.finish())
}

/// Functions that reductions, sorts, calls, branches and loops of the entry apply.
fn applied() -> String {
    let mut text = String::new();
    for element_type in TYPES {
        for (name, opcode) in [("add", "add"), ("max", "maximum"), ("min", "minimum"), ("and", "and")] {
            let _ = writeln!(
                text,
                "%{name}_{element_type} {{\n  %a = {element_type}[] parameter(0)\n  %b = {element_type}[] parameter(1)\n  \
                 ROOT %r = {element_type}[] {opcode}(%a, %b)\n}}\n"
            );
        }
        let _ = writeln!(
            text,
            "%less_{element_type} {{\n  %a = {element_type}[] parameter(0)\n  %b = {element_type}[] parameter(1)\n  \
             ROOT %r = pred[] compare(%a, %b), direction=LT\n}}\n"
        );
        for (name, body) in [("low", "minimum(%a, %b)"), ("sum", "add(%a, %b)"), ("second", "or(%b, %b)")] {
            let _ = writeln!(
                text,
                "%{name}_{element_type} {{\n  %a = {element_type}[3] parameter(0)\n  %b = {element_type}[3] parameter(1)\n  \
                 ROOT %r = {element_type}[3] {body}\n}}\n"
            );
        }
        for (name, body) in [("same", "copy(%a)"), ("turned", "not(%a)")] {
            let _ = writeln!(
                text,
                "%{name}_{element_type} {{\n  %a = {element_type}[3] parameter(0)\n  ROOT %r = {element_type}[3] {body}\n}}\n"
            );
        }
        text.push_str(&loop_parts(element_type));
    }
    text
}

/// A loop over (counter, carried array, closed array, counted array).
fn loop_parts(t: &str) -> String {
    let state = format!("(s32[], {t}[3], {t}[3], s32[3])");
    let parts = format!(
        "  %p = {state} parameter(0)\n  %i = s32[] get-tuple-element(%p), index=0\n  \
         %x = {t}[3] get-tuple-element(%p), index=1\n"
    );
    format!(
        "%more_{t} {{\n{parts}  %n = s32[] constant(7)\n  ROOT %r = pred[] compare(%i, %n), direction=LT\n}}\n\n\
         %body_{t} {{\n{parts}  %y = {t}[3] get-tuple-element(%p), index=2\n  %two = s32[] constant(2)\n  \
         %next = s32[] add(%i, %two)\n  %w = {t}[3] maximum(%y, %x)\n  %j = s32[3] broadcast(%i), dimensions={{}}\n  \
         %old = s32[3] get-tuple-element(%p), index=3\n  %z = s32[3] add(%j, %j)\n  %m = s32[3] minimum(%z, %old)\n  \
         ROOT %r = {state} tuple(%next, %x, %w, %m)\n}}\n\n"
    )
}

impl Writer {
    fn add(&mut self, element_type: &'static str, dims: &[i64], operation: &str) -> Value {
        let name = format!("%v{}", self.values.len());
        let value = Value { name, element_type, dims: dims.to_vec() };
        let sizes: Vec<String> = dims.iter().map(ToString::to_string).collect();
        let _ = writeln!(self.lines, "  {} = {element_type}[{}] {operation}", value.name, sizes.join(","));
        self.values.push(value.clone());
        value
    }
    fn finish(mut self) -> String {
        let last = self.lines.trim_end().rfind('\n').map_or(0, |at| at + 1);
        self.lines.insert_str(last + 2, "ROOT ");
        self.lines
    }
    /// A value of an integer type.
    fn any(&mut self) -> Value {
        let integers: Vec<Value> = self.values.iter().filter(|value| value.element_type != "pred").cloned().collect();
        // Recent values are likelier, so that chains get long.
        let from = if self.random.below(2) == 0 { integers.len() * 2 / 3 } else { 0 };
        self.random.pick(&integers[from..]).clone()
    }
    /// A value of the same type and sizes as `like`, often a constant.
    fn partner(&mut self, like: &Value) -> Value {
        let same: Vec<Value> = self
            .values
            .iter()
            .filter(|value| (value.element_type, &value.dims) == (like.element_type, &like.dims))
            .cloned()
            .collect();
        if self.random.below(2) == 0 { self.constant(like) } else { self.random.pick(&same).clone() }
    }
    fn constant(&mut self, like: &Value) -> Value {
        let values = ["0", "1", "2", "3", "7", "16", "100", "127"];
        let negative = like.element_type.starts_with('s') && self.random.below(4) == 0;
        let value = format!("constant({}{})", if negative { "-" } else { "" }, self.random.pick(&values));
        let scalar = self.add(like.element_type, &[], &value);
        self.add(like.element_type, &like.dims, &format!("broadcast({}), dimensions={{}}", scalar.name))
    }
    fn condition(&mut self, about: &Value) -> Value {
        let other = self.partner(about);
        let direction = *self.random.pick(&DIRECTIONS);
        let first =
            self.add("pred", &about.dims, &format!("compare({}, {}), direction={direction}", about.name, other.name));
        if self.random.below(2) == 0 {
            return first;
        }
        let second = self.condition(about);
        let opcode = *self.random.pick(&["and", "or", "xor"]);
        let both = self.add("pred", &about.dims, &format!("{opcode}({}, {})", first.name, second.name));
        match self.random.below(3) {
            0 => self.add("pred", &about.dims, &format!("not({})", both.name)),
            1 => self.add("pred", &about.dims, &format!("compare({}, {}), direction=NE", both.name, first.name)),
            _ => both,
        }
    }

    fn step(&mut self) {
        let x = self.any();
        match self.random.below(10) {
            0 | 1 => self.binary(&x),
            2 => {
                let opcode = *self.random.pick(&UNARY);
                self.add(x.element_type, &x.dims, &format!("{opcode}({})", x.name));
            }
            3 | 4 => self.select(&x),
            5 => {
                let to = *self.random.pick(&TYPES);
                let opcode = if width(to) == width(x.element_type) { "bitcast-convert" } else { "convert" };
                self.add(to, &x.dims, &format!("{opcode}({})", x.name));
            }
            6 => {
                let (low, high) = (self.partner(&x), self.partner(&x));
                self.add(x.element_type, &x.dims, &format!("clamp({}, {}, {})", low.name, x.name, high.name));
            }
            7 => self.apply(&x),
            _ => self.movement(&x),
        }
    }

    fn binary(&mut self, x: &Value) {
        let y = self.partner(x);
        let arithmetic_shift = self.random.below(10) == 0;
        let opcode = if arithmetic_shift { "shift-right-arithmetic" } else { *self.random.pick(&BINARY) };
        self.add(x.element_type, &x.dims, &format!("{opcode}({}, {})", x.name, y.name));
    }

    /// `select(condition on x, x + c, x)` and the like.
    fn select(&mut self, x: &Value) {
        let condition = self.condition(x);
        let c = self.partner(x);
        let opcode = *self.random.pick(&["add", "subtract", "maximum", "and"]);
        let moved = self.add(x.element_type, &x.dims, &format!("{opcode}({}, {})", x.name, c.name));
        let (a, b) = if self.random.below(2) == 0 { (&moved, x) } else { (x, &moved) };
        self.add(x.element_type, &x.dims, &format!("select({}, {}, {})", condition.name, a.name, b.name));
    }

    fn apply(&mut self, x: &Value) {
        let t = x.element_type;
        let line = if x.dims == [3] {
            x.clone()
        } else {
            let zero = self.add(t, &[], "constant(0)");
            let function = *self.random.pick(&["add", "max", "min", "and"]);
            let all: Vec<String> = (0..x.dims.len()).map(|dim| dim.to_string()).collect();
            let sum = format!(
                "reduce({}, {}), dimensions={{{}}}, to_apply=%{function}_{t}",
                x.name,
                zero.name,
                all.join(",")
            );
            let total = self.add(t, &[], &sum);
            self.add(t, &[3], &format!("broadcast({}), dimensions={{}}", total.name))
        };
        let other = self.partner(&line);
        match self.random.below(4) {
            0 => {
                let turned = self.add(t, &[3], &format!("reverse({}), dimensions={{0}}", line.name));
                self.add(t, &[3], &format!("sort({}), dimensions={{0}}, to_apply=%less_{t}", turned.name));
            }
            1 => {
                let function = *self.random.pick(&["low", "sum", "second"]);
                self.add(t, &[3], &format!("call({}, {}), to_apply=%{function}_{t}", line.name, other.name));
            }
            2 => {
                let truth = *self.random.pick(&["constant(true)", "constant(false)"]);
                let flag = self.add("pred", &[], truth);
                let operands = format!("{}, {}, {}", flag.name, line.name, other.name);
                let bodies = format!("true_computation=%same_{t}, false_computation=%turned_{t}");
                self.add(t, &[3], &format!("conditional({operands}), {bodies}"));
            }
            _ => self.run_loop(&line, &other),
        }
    }

    fn run_loop(&mut self, x: &Value, y: &Value) {
        let t = x.element_type;
        let start = *self.random.pick(&["constant(0)", "constant(-3)", "constant(9)"]);
        let start = self.add("s32", &[], start);
        let twenty = self.add("s32", &[], "constant(20)");
        let counted = self.add("s32", &[3], &format!("broadcast({}), dimensions={{}}", twenty.name));
        let state = format!("(s32[], {t}[3], {t}[3], s32[3])");
        let number = self.values.len();
        let operands = [&start, x, y, &counted].map(|value| value.name.clone()).join(", ");
        let _ = writeln!(self.lines, "  %t{number} = {state} tuple({operands})");
        let _ = writeln!(self.lines, "  %w{number} = {state} while(%t{number}), condition=%more_{t}, body=%body_{t}");
        for (index, (t, dims)) in [("s32", vec![]), (t, vec![3]), (t, vec![3]), ("s32", vec![3])].iter().enumerate() {
            self.add(t, dims, &format!("get-tuple-element(%w{number}), index={index}"));
        }
    }

    fn movement(&mut self, x: &Value) {
        let t = x.element_type;
        match (self.random.below(12), &x.dims[..]) {
            (0, &[rows, columns]) => {
                drop(self.add(t, &[columns, rows], &format!("transpose({}), dimensions={{1,0}}", x.name)));
            }
            (1, &[rows, columns]) => {
                let column = self.random.below(columns as usize);
                let slice = format!("slice({}), slice={{[0:{rows}], [{column}:{}]}}", x.name, column + 1);
                self.add(t, &[rows, 1], &slice);
            }
            (2, &[rows, columns]) => drop(self.add(t, &[rows * columns], &format!("reshape({})", x.name))),
            (2, &[12]) => drop(self.add(t, &[4, 1, 3], &format!("reshape({})", x.name))),
            (2, &[a, 1, b]) => drop(self.add(t, &[a, b], &format!("reshape({})", x.name))),
            (3, &[rows, _]) => {
                let others: Vec<Value> = self
                    .values
                    .iter()
                    .filter(|v| v.element_type == t && v.dims.len() == 2 && v.dims[0] == rows)
                    .cloned()
                    .collect();
                let other = self.random.pick(&others).clone();
                let total = x.dims[1] + other.dims[1];
                if total < 10 {
                    self.add(t, &[rows, total], &format!("concatenate({}, {}), dimensions={{1}}", x.name, other.name));
                }
            }
            (4, &[3]) => drop(self.add(t, &[4, 3], &format!("broadcast({}), dimensions={{1}}", x.name))),
            (4, &[12]) => drop(self.add(t, &[4], &format!("slice({}), slice={{[1:11:3]}}", x.name))),
            (4, &[4, columns]) => {
                self.add(t, &[2, columns], &format!("slice({}), slice={{[1:4:2], [0:{columns}]}}", x.name));
            }
            (5, dims) if !dims.is_empty() => {
                let dims = dims.to_vec();
                self.add(t, &dims, &format!("reverse({}), dimensions={{0}}", x.name));
            }
            (6, &[size]) if size < 10 => {
                let filler = self.add(t, &[], "constant(5)");
                self.add(t, &[size + 2], &format!("pad({}, {}), padding=-1_3", x.name, filler.name));
            }
            (7, &[size]) => {
                let at =
                    self.values.iter().rfind(|value| value.element_type == "s32" && value.dims.is_empty()).cloned();
                let at = at.unwrap_or_else(|| self.add("s32", &[], "constant(1)"));
                let part = self.add(
                    t,
                    &[size - 1],
                    &format!("dynamic-slice({}, {}), dynamic_slice_sizes={{{}}}", x.name, at.name, size - 1),
                );
                let to = self.add("s32", &[], "constant(0)");
                self.add(t, &[size], &format!("dynamic-update-slice({}, {}, {})", x.name, part.name, to.name));
            }
            _ => {
                // Elements of an iota are told apart by every operation that moves them.
                let dims = if x.dims.is_empty() { vec![4, 3] } else { x.dims.clone() };
                let dim = self.random.below(dims.len());
                self.add(t, &dims, &format!("iota(), iota_dimension={dim}"));
            }
        }
    }
}

fn width(element_type: &str) -> &str {
    &element_type[1..]
}
