//! Workarounds for blocks that XLA:CPU computes in another way than whole arrays, although both have the same meaning in HLO. Each block is written in a form that keeps
//! the results of the whole array.
//!
//! - The library behind its fusions drops NaN: `maximum(NaN, 0)` is 0 there and NaN in a loop of XLA's own. A maximum or minimum that had a loop of its own, because
//!   several read it, and whose block only a reduction reads, would go into the library with that. It becomes a selection, of which the library knows nothing.
//! - A product of one row and a matrix goes to no library: XLA:CPU's own loop adds up the terms one by one. Blocks of such products have two rows, and four where
//!   they have less than four columns.
//! - A sum of fewer than 4096 and more than 32 `f32` or `f64` elements starts each of its vector lanes from the initial value, which counts as often as there are lanes
//!   unless it is neutral (measured with jaxlib 0.10.2). The block starts from the neutral element, and what comes out meets the initial value.
//!
//! Source: `LibraryRewriter` (xla/backends/cpu/transforms/library_rewriter.cc), xla/backends/cpu/ynn_support.cc.

// Tests: `tests/accuracy.rs`.

use crate::hash::IndexSet;
use hlo_ir::module::Payload;
use hlo_ir::{AttrKey, Attribute, DotDims, ElementType, Instruction, InstructionId, Module, Opcode, Shape};
use hlo_memory::Target;
use hlo_memory::excess::FEWEST_ELEMENTS;
use smol_str::format_smolstr;

use super::accumulate::neutral;
use super::emit::Emitter;
use super::region::{Block, Part, Region, Source};
use super::sink::{Kind, Sink};
use crate::Context;
use crate::flow::{Rows, is_for_library, is_fusible, picks, producer, selection};
use crate::recompute::insertion_point::metadata;

/// Maxima and minima of floats in a region that a reduction, of the region or behind it, reads, and that no library computes without the loop.
pub(super) fn guarded(context: &Context<'_>, region: &Region, sinks: &[&Sink]) -> IndexSet<InstructionId> {
    let module = context.module;
    let op = |block: &Block| producer(module, block.value.inst).0;
    let reduces = |id| matches!(module.instruction(id).opcode, Opcode::Reduce | Opcode::ReduceWindow);
    let inside = region.blocks.iter().filter(|(block, _)| reduces(op(block)));
    let mut read: Vec<Block> = inside.flat_map(|(_, source)| computed_from(source)).collect();
    let ends = sinks.iter().zip(&region.roots).filter(|(sink, _)| matches!(sink.kind, Kind::Reduce { .. }));
    read.extend(ends.flat_map(|(_, roots)| roots.iter().copied()));
    let mut seen = IndexSet::default();
    let mut found = IndexSet::default();
    while let Some(block) = read.pop() {
        let inst = op(&block);
        let Some(source @ Source::Computed(_)) = region.blocks.get(&block) else { continue };
        if is_fusible(module.instruction(inst).opcode) && seen.insert(block) {
            read.extend(computed_from(source));
            if picks(module.instruction(inst)) {
                found.insert(inst);
            }
        }
    }
    if !found.is_empty() {
        found.retain(|id| !context.in_libraries().contains(id));
    }
    found
}

/// The blocks that a block is computed from.
fn computed_from(source: &Source) -> Vec<Block> {
    let Source::Computed(parts) = source else { return Vec::new() };
    let block = |part: &Part| match part {
        Part::Block(block) => Some(*block),
        Part::Whole(_) => None,
    };
    parts.iter().filter_map(block).collect()
}

/// Most terms that a sum in `f32` may add up one by one: each addition rounds by half of 2^-23 at most, and all of them may be off by 1e-5 (docs/grades.md).
const MOST_TERMS: i64 = 168;

/// Fewest rows of a block of a region, so that no product of matrices is left to a loop that adds up its terms one by one.
pub(super) fn fewest_rows(context: &Context<'_>, region: &Region) -> i64 {
    if context.options.target != Target::Cpu {
        return 1;
    }
    let module = context.module;
    let fewest = |block: &Block| {
        let inside = |(id, dim, rows)| rows_for(rows, fewest_of_product(module, id, dim));
        let of_loop = region.row_loop(block.value.inst, block.dim);
        let of_loop = of_loop.iter().flat_map(|row_loop| row_loop.blocks()).map(inside).max().unwrap_or(1);
        let own = fewest_of_product(module, producer(module, block.value.inst).0, block.dim);
        rows_for(block.rows, own.max(of_loop))
    };
    let of_sums = region.sums.iter().flat_map(|row_loop| row_loop.blocks());
    let of_sums = of_sums.map(|(id, dim, rows)| rows_for(rows, fewest_of_product(module, id, dim)));
    let computed = region.blocks.iter().filter(|(_, source)| matches!(source, Source::Computed(_)));
    computed.map(|(block, _)| fewest(block)).chain(of_sums).max().unwrap_or(1)
}

/// How many rows make at least `needed` of those that they stand for.
fn rows_for(rows: Rows, needed: i64) -> i64 {
    let granule = rows.granule();
    granule * ((needed - 1) / rows.len(granule).max(1) + 1)
}

/// A product of fewer rows and fewer columns is left to that loop.
const FEW: i64 = 4;

/// Fewest rows of an array, cut in a dimension, if it is a product of matrices with many terms: one row, and less than four rows of less than four columns, are
/// added up one by one. (Of 8,192 terms, products of 2 x 2 and 3 x 3 are off by 8e-7 of the scale, those of 2 x 4 and 4 x 2 by 2e-7; jaxlib 0.10.2.)
fn fewest_of_product(module: &Module, id: InstructionId, dim: usize) -> i64 {
    let inst = module.instruction(id);
    let (Some(dims), Some(result)) = (DotDims::of(inst), inst.array()) else { return 1 };
    let (Some(lhs), batch) = (module.instruction(inst.operands[0]).array(), dims.lhs_batch.len()) else { return 1 };
    let of_lhs = batch..lhs.rank() - dims.lhs_contracting.len();
    let of_rhs = of_lhs.end..result.rank();
    let (own, other) = if of_lhs.contains(&dim) { (of_lhs, of_rhs) } else { (of_rhs, of_lhs) };
    let rows = own.clone().filter(|&other| other != dim).map(|other| result.dims[other]).product::<i64>();
    let columns = other.map(|other| result.dims[other]).product::<i64>();
    let terms = dims.lhs_contracting.iter().map(|&dim| lhs.dims[dim as usize]).product::<i64>();
    let known = matches!(result.element_type, ElementType::F32 | ElementType::F64);
    if !known || !own.contains(&dim) || columns <= 1 || terms <= MOST_TERMS {
        return 1;
    }
    let needed = if columns < FEW { FEW } else { 2 };
    (needed - 1) / rows.max(1) + 1
}

impl Emitter<'_> {
    /// Adds `block`, a block of what `op` computes, in the spelling that XLA:CPU computes as it does `op`.
    pub(super) fn add_faithfully(&mut self, op: InstructionId, block: Instruction) -> InstructionId {
        if self.for_cpu && is_for_library(&block) && self.region.guarded.contains(&op) {
            return selection(self.module, self.patch, self.target, block);
        }
        match self.neutral_start(op, &block) {
            Some(start) => self.started_apart(block, start),
            None => self.add_in_order(block),
        }
    }

    /// The neutral element of a sum that starts from something else and becomes small enough for XLA:CPU to count that several times.
    fn neutral_start(&self, op: InstructionId, block: &Instruction) -> Option<smol_str::SmolStr> {
        let whole = self.module.instruction(op);
        let element = whole.array()?.element_type;
        let counted = self.for_cpu
            && whole.opcode == Opcode::Reduce
            && whole.operands.len() == 2
            && matches!(element, ElementType::F32 | ElementType::F64);
        let read = |id| self.patch.instruction(self.module, id).array().and_then(hlo_ir::ArrayShape::elements);
        if !counted
            || read(whole.operands[0]) < Some(FEWEST_ELEMENTS)
            || read(block.operands[0]) >= Some(FEWEST_ELEMENTS)
        {
            return None;
        }
        // The library knows sums; of minima and maxima several initial values make no more, and products are XLA's own at any size.
        let sums = plain_root(self.module, whole) == Some(Opcode::Add);
        let start = neutral(Opcode::Add, element)?;
        (sums && !is_zero(self.module, whole.operands[1])).then_some(start)
    }

    fn started_apart(&mut self, mut block: Instruction, start: smol_str::SmolStr) -> InstructionId {
        let array = block.array().expect("a reduction of one array is an array").clone();
        let shape = Shape::array(array.element_type, []);
        let constant = Instruction::new("block_neutral", shape, Opcode::Constant, []);
        let initial = block.operands[1];
        block.operands[1] = self.patch.add(self.target, constant.with_payload(Payload::Literal(start.into())));
        let (name, source) = (block.name.clone(), metadata(&block));
        let reduced = self.patch.add(self.target, block);
        let shape = std::sync::Arc::new(Shape::Array(array));
        let made = |this: &mut Self, opcode, operands: Vec<InstructionId>, dims: Option<Attribute>| {
            let mut inst = Instruction::new(format_smolstr!("{name}.start"), shape.clone(), opcode, operands);
            inst.attributes.extend(dims.into_iter().chain(source.clone()));
            this.patch.add(this.target, inst)
        };
        let initial = made(self, Opcode::Broadcast, vec![initial], Some(Attribute::ints(AttrKey::Dimensions, [])));
        made(self, Opcode::Add, vec![initial, reduced], None)
    }
}

/// What the combiner of a reduction does with its two parameters, if it does nothing else.
fn plain_root(module: &Module, reduce: &Instruction) -> Option<Opcode> {
    let combiner = reduce.computation(&AttrKey::ToApply)?;
    let root = module.instruction(module.computation(combiner).root);
    let parameter = |&id: &InstructionId| module.instruction(id).parameter_number().is_some();
    (root.operands.len() == 2 && root.operands.iter().all(parameter) && root.operands[0] != root.operands[1])
        .then_some(root.opcode)
}

/// Whether a value is a constant zero, of which several make no more.
fn is_zero(module: &Module, value: InstructionId) -> bool {
    module.instruction(value).literal().and_then(|text| text.trim().parse::<f64>().ok()) == Some(0.0)
}
