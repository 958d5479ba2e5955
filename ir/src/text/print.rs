//! The printer: writes a module the way XLA's dumps are written, in the style it was read in.

// Tests: `ir/tests/corpus.rs`, `ir/tests/generated.rs`, `ir/tests/styles.rs`, `tests/referee.rs`.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::attribute::{Alias, PadDim, SliceDim, WindowDim};
use crate::module::Payload;
use crate::shape::{Dims, ShapeRef};
use crate::{AttrValue, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module};

/// Writes `module` the way XLA's dumps are written, in the style it was read in.
pub fn print(module: &Module) -> String {
    // A line of a dump is about this long; growing from nothing would leave freed pieces behind.
    let out = String::with_capacity(module.instruction_count().saturating_mul(128));
    let mut printer = Printer { module, out, shapes: IndexMap::default() };
    printer.header();
    for &id in module.computation_ids() {
        printer.computation(id);
    }
    if module.style.final_blank_line {
        printer.push("\n");
    }
    printer.out
}

struct Printer<'m> {
    module: &'m Module,
    out: String,
    /// Texts of shapes by their address: a module has few shapes and writes them often. The module keeps them alive meanwhile.
    shapes: IndexMap<usize, Range<usize>, FxBuildHasher>,
}

impl Printer<'_> {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }
    fn number(&mut self, number: impl std::fmt::Display) {
        write!(self.out, "{number}").expect("writing to a string cannot fail");
    }

    /// A shape: written once, copied from there afterwards.
    fn shape(&mut self, shape: &ShapeRef) {
        let address = Arc::as_ptr(shape).addr();
        if let Some(range) = self.shapes.get(&address) {
            self.out.extend_from_within(range.clone());
            return;
        }
        let start = self.out.len();
        self.number(shape);
        self.shapes.insert(address, start..self.out.len());
    }

    fn header(&mut self) {
        self.push("HloModule ");
        self.push(&self.module.name);
        self.attributes(&self.module.attributes, true);
        self.push("\n");
        if !self.module.stack_tables.text.is_empty() {
            self.push("\n");
            self.push(&self.module.stack_tables.text);
            self.push("\n\n");
        }
    }

    fn computation(&mut self, id: ComputationId) {
        let computation = self.module.computation(id);
        self.push(if id == self.module.entry() { "\nENTRY " } else { "\n" });
        self.name(&computation.name);
        if self.module.style.program_shape {
            self.program_shape(id);
        }
        self.push(" {\n");
        for (inst_id, inst) in self.module.instructions_of(id) {
            self.push(if inst_id == computation.root { "  ROOT " } else { "  " });
            self.instruction(inst);
            self.push("\n");
        }
        self.push("}");
        self.attributes(&computation.attributes, false);
        self.push("\n");
    }

    /// ` (x: f32[8]) -> f32[]`.
    fn program_shape(&mut self, id: ComputationId) {
        self.push(" (");
        for (index, parameter) in self.module.parameters(id).into_iter().enumerate() {
            let parameter = self.module.instruction(parameter);
            if index > 0 {
                self.push(", ");
            }
            self.push(&parameter.name);
            self.push(": ");
            self.number(parameter.shape.without_layout());
        }
        self.push(") -> ");
        self.number(self.module.shape(self.module.computation(id).root).without_layout());
    }

    fn instruction(&mut self, inst: &Instruction) {
        self.name(&inst.name);
        self.push(" = ");
        self.shape(&inst.shape);
        self.push(" ");
        self.push(inst.opcode_name());
        self.push("(");
        match &inst.payload {
            Payload::Parameter(number) => self.number(number),
            Payload::Literal(text) => self.push(text),
            Payload::Unknown(unknown) => match &unknown.operands {
                Some(text) => self.push(text),
                None => self.operands(inst),
            },
            Payload::None => self.operands(inst),
        }
        self.push(")");
        self.attributes(&inst.attributes, false);
    }

    fn operands(&mut self, inst: &Instruction) {
        for (index, &operand) in inst.operands.iter().enumerate() {
            if index > 0 {
                self.push(", ");
                if index % 5 == 0 {
                    self.push("/*index=");
                    self.number(index);
                    self.push("*/");
                }
            }
            let operand = self.module.instruction(operand);
            if self.module.style.operand_shapes {
                self.number(&operand.shape);
                self.push(" ");
            }
            self.name(&operand.name);
        }
    }

    /// A name, with `%` if the style has it or the name would be read as something else without.
    fn name(&mut self, name: &str) {
        if self.module.style.percent || is_reserved(name) {
            self.push("%");
        }
        self.push(name);
    }

    fn attributes(&mut self, attributes: &[Attribute], in_header: bool) {
        for attribute in attributes {
            self.push(", ");
            self.push(attribute.key.name());
            self.push("=");
            self.value(&attribute.value, in_header);
        }
    }

    fn value(&mut self, value: &AttrValue, in_header: bool) {
        match value {
            AttrValue::Int(value) => self.number(value),
            AttrValue::Bool(value) => self.push(if *value { "true" } else { "false" }),
            AttrValue::Ints(values) => self.ints(values),
            AttrValue::Word(text) => self.push(text),
            AttrValue::Raw(text) => self.push(text),
            AttrValue::Computation(id) => self.computation_name(*id),
            AttrValue::Computations(ids) => self.braces(ids, |printer, &id| printer.computation_name(id)),
            AttrValue::Instructions(ids) => self.braces(ids, |printer, &id| printer.instruction_name(id)),
            AttrValue::Slice(dims) => self.slice(dims),
            AttrValue::Padding(dims) => self.padding(dims),
            AttrValue::Window(dims) => self.window(dims),
            AttrValue::Aliases(entries) if in_header => self.spaced(entries, Self::alias),
            AttrValue::Aliases(entries) => self.braces(entries, Self::alias),
            AttrValue::Donors(entries) => self.spaced(entries, Self::donor),
            AttrValue::Shape(shape) => self.number(shape),
        }
    }

    fn computation_name(&mut self, id: ComputationId) {
        self.name(&self.module.computation(id).name);
    }
    fn instruction_name(&mut self, id: InstructionId) {
        self.name(&self.module.instruction(id).name);
    }

    /// `a, b`.
    fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        for (index, value) in items.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            item(self, value);
        }
    }
    /// `{a, b}`.
    fn braces<T>(&mut self, items: &[T], item: impl FnMut(&mut Self, &T)) {
        self.push("{");
        self.list(items, item);
        self.push("}");
    }
    /// `{ a, b }`, as header attributes are written.
    fn spaced<T>(&mut self, items: &[T], item: impl FnMut(&mut Self, &T)) {
        self.push("{ ");
        self.list(items, item);
        self.push(" }");
    }
    /// `{0,1}`.
    fn ints(&mut self, values: &[i64]) {
        self.push("{");
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.number(value);
        }
        self.push("}");
    }

    /// `{[0:4], [0:8]}`; all strides are written if one is not 1.
    fn slice(&mut self, dims: &[SliceDim]) {
        let strides = dims.iter().any(|dim| dim.stride != 1);
        self.braces(dims, |printer, dim| {
            printer.number(format_args!("[{}:{}", dim.start, dim.limit));
            if strides {
                printer.number(format_args!(":{}", dim.stride));
            }
            printer.push("]");
        });
    }

    /// `0_1x2_3`; the interior of all dimensions is written if one is not 0.
    fn padding(&mut self, dims: &[PadDim]) {
        let interior = dims.iter().any(|dim| dim.interior != 0);
        self.by_x(dims, |printer, dim| {
            printer.number(format_args!("{}_{}", dim.low, dim.high));
            if interior {
                printer.number(format_args!("_{}", dim.interior));
            }
        });
    }

    /// `{size=3x3 stride=2x2}`; parts that have their default in every dimension are left out.
    fn window(&mut self, dims: &[WindowDim]) {
        let default = WindowDim::default();
        self.push("{");
        if !dims.is_empty() {
            self.push("size=");
            self.by_x(dims, |printer, dim| printer.number(dim.size));
        }
        let parts: [WindowPart; 4] = [
            (" stride=", |dim| dim.stride, default.stride),
            (" lhs_dilate=", |dim| dim.lhs_dilate, default.lhs_dilate),
            (" rhs_dilate=", |dim| dim.rhs_dilate, default.rhs_dilate),
            (" rhs_reversal=", |dim| i64::from(dim.reversed), 0),
        ];
        for (index, (key, get, usual)) in parts.into_iter().enumerate() {
            if index == 1 && dims.iter().any(|dim| (dim.pad_low, dim.pad_high) != (0, 0)) {
                self.push(" pad=");
                self.by_x(dims, |printer, dim| printer.number(format_args!("{}_{}", dim.pad_low, dim.pad_high)));
            }
            if dims.iter().any(|dim| get(dim) != usual) {
                self.push(key);
                self.by_x(dims, |printer, dim| printer.number(get(dim)));
            }
        }
        self.push("}");
    }

    fn by_x<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        for (index, value) in items.iter().enumerate() {
            if index > 0 {
                self.push("x");
            }
            item(self, value);
        }
    }

    fn alias(&mut self, alias: &Alias) {
        self.ints(&alias.output);
        self.push(": (");
        self.number(alias.operand);
        self.push(", ");
        self.ints(&alias.operand_index);
        if !alias.kind.is_empty() {
            self.push(", ");
            self.push(&alias.kind);
        }
        self.push(")");
    }

    fn donor(&mut self, donor: &(i64, Dims)) {
        self.push("(");
        self.number(donor.0);
        self.push(", ");
        self.ints(&donor.1);
        self.push(")");
    }
}

/// A part of a window: how it is written, its value in a dimension, and its default.
type WindowPart = (&'static str, fn(&WindowDim) -> i64, i64);

/// Whether a name reads as a keyword or a type unless `%` stands before it.
pub(super) fn is_reserved(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "true",
        "false",
        "inf",
        "nan",
        "HloModule",
        "ENTRY",
        "ROOT",
        "FileNames",
        "FunctionNames",
        "FileLocations",
        "StackFrames",
        "maximal",
        "replicated",
        "manual",
        "last_tile_dim_replicate",
        "shard_as",
        "shard_like",
        "unknown",
        "unreduced",
        "token",
        "opaque",
    ];
    KEYWORDS.contains(&name) || ElementType::from_name(name).is_some()
}
