//! Blocks of 16 bits that are computed in 32, where the compiler does so without the loop.
//!
//! A block would be rounded behind each operation, which made attention 30 times as inexact as the library fusion it came from
//! (`hlo_memory::excess`). So what is wide there is an `f32` block here, with conversions where it meets what is not: in front of comparisons and other
//! instructions that XLA rounds for, and where it goes to memory.

use crate::hash::IndexMap;
use hlo_ir::edit::Patch;
use hlo_ir::{
    AttrKey, AttrValue, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape, graph,
};
use smol_str::format_smolstr;

use super::bf16_accumulator::in_type;
use super::emit::Emitter;
use super::region::Block;
use crate::flow::is_product;
use crate::recompute::insertion_point::metadata;

impl Emitter<'_> {
    /// Adds `block`, a block of what `op` computes, in 32 bits if it is wide, with its operands in the types that it takes.
    pub(super) fn add_in_type(&mut self, op: InstructionId, mut block: Instruction) -> InstructionId {
        let inst = self.module.instruction(op);
        let first_is_wide = block.operands.first().is_some_and(|&id| self.is_wide(id, inst.operands[0]));
        if first_is_wide && widens(inst) {
            return block.operands[0];
        }
        let any_is_wide = block.operands.iter().zip(&inst.operands).any(|(&id, &original)| self.is_wide(id, original));
        if any_is_wide && self.region.rounded_once.contains(&op) && !is_product(inst.opcode) {
            let wide = self.add_wide(op, block);
            return self.narrow(wide, op);
        }
        let wide = is_16_bit(inst) && (self.region.wide.contains(&op) || (first_is_wide && moves(inst.opcode)));
        if wide {
            return self.add_wide(op, block);
        }
        for (operand, &original) in block.operands.iter_mut().zip(&inst.operands) {
            *operand = self.narrow(*operand, original);
        }
        self.add_faithfully(op, block)
    }

    /// Adds a block in 32 bits.
    fn add_wide(&mut self, op: InstructionId, mut block: Instruction) -> InstructionId {
        let inst = self.module.instruction(op);
        for operand in &mut block.operands {
            *operand = self.widen(*operand);
        }
        if inst.opcode == Opcode::Convert && self.element_type(block.operands[0]) == Some(ElementType::F32) {
            return block.operands[0];
        }
        block.shape = in_32_bits(&block.shape);
        if let Some(narrow) = block.computation(&AttrKey::ToApply) {
            let combiner = self.wide_combiner(narrow);
            block.set_attribute(AttrKey::ToApply, AttrValue::Computation(combiner));
            return self.add_in_order(block);
        }
        self.add_faithfully(op, block)
    }

    /// A block in the type of the elements of `all`, which it will be a part of.
    pub(super) fn block_for(&mut self, wanted: Block, all: InstructionId) -> InstructionId {
        let block = self.block_as_computed(wanted);
        let wide = self.element_type(all) == Some(ElementType::F32);
        if wide { self.widen(block) } else { self.narrow(block, wanted.value.inst) }
    }

    /// A block in the type of `original`, of which it is one.
    pub(super) fn narrow(&mut self, id: InstructionId, original: InstructionId) -> InstructionId {
        if self.is_wide(id, original) { self.converted(id, ElementType::Bf16) } else { id }
    }

    fn widen(&mut self, id: InstructionId) -> InstructionId {
        if self.element_type(id) == Some(ElementType::Bf16) { self.converted(id, ElementType::F32) } else { id }
    }

    fn is_wide(&self, id: InstructionId, original: InstructionId) -> bool {
        self.element_type(id) == Some(ElementType::F32) && is_16_bit(self.module.instruction(original))
    }

    fn element_type(&self, id: InstructionId) -> Option<ElementType> {
        self.patch.instruction(self.module, id).array().map(|array| array.element_type)
    }

    fn converted(&mut self, id: InstructionId, to: ElementType) -> InstructionId {
        if let Some(&known) = self.done.converted.get(&id) {
            return known;
        }
        let Some(mut convert) = in_type(self.module, self.patch, id, to) else { return id };
        convert.attributes.extend(self.metadata.clone());
        let convert = self.patch.add(self.target, convert);
        self.done.converted.insert(id, convert);
        convert
    }

    fn wide_combiner(&mut self, narrow: ComputationId) -> ComputationId {
        if let Some(&known) = self.done.combiners.get(&narrow) {
            return known;
        }
        let wide = combiner(self.module, narrow, self.patch);
        self.done.combiners.insert(narrow, wide);
        wide
    }
}

/// A value of 32 bits as one of 16, which goes again if nothing wants it so.
pub(super) fn rounded(module: &Module, patch: &mut Patch, wide: InstructionId) -> InstructionId {
    let parent = patch.instruction(module, wide).parent;
    let Some(mut rounded) = in_type(module, patch, wide, ElementType::Bf16) else { return wide };
    rounded.attributes.extend(metadata(patch.instruction(module, wide)));
    let rounded = patch.add(parent, rounded);
    patch.remove(rounded);
    rounded
}

/// A computation that does in 32 bits what `narrow` does in 16.
pub(super) fn combiner(module: &Module, narrow: ComputationId, patch: &mut Patch) -> ComputationId {
    let wide = patch.add_computation(format_smolstr!("{}.wide", module.computation(narrow).name));
    let mut made: IndexMap<InstructionId, InstructionId> = IndexMap::default();
    for id in graph::post_order(module, narrow) {
        let inst = module.instruction(id);
        let operands = inst.operands.iter().map(|operand| made[operand]).collect();
        let mut new = Instruction { operands, span: None, ..inst.clone() };
        if is_16_bit(inst) {
            new.shape = in_32_bits(&inst.shape);
        }
        made.insert(id, patch.add(wide, new));
    }
    patch.set_root(wide, made[&module.computation(narrow).root]);
    wide
}

pub(super) fn in_32_bits(shape: &Shape) -> hlo_ir::shape::ShapeRef {
    let array = shape.as_array().expect("only arrays are wide");
    Shape::Array(array.with_element_type(ElementType::F32)).into()
}

pub(super) fn is_16_bit(inst: &Instruction) -> bool {
    inst.array().is_some_and(|array| array.element_type == ElementType::Bf16)
}

/// Whether an instruction does nothing but to give 32 bits.
pub(super) fn widens(inst: &Instruction) -> bool {
    inst.opcode == Opcode::Convert && inst.array().is_some_and(|array| array.element_type == ElementType::F32)
}

/// Whether an instruction only moves elements of its first operand: XLA drops many of these, and rounds for none.
const fn moves(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Broadcast | Opcode::Reshape | Opcode::Transpose | Opcode::Copy)
}
