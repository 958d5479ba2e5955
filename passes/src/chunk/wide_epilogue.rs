//! The epilogue of a loop in 32 bits: operations on its 16-bit results that the compiler's library computed together with them.
//!
//! A loop breaks up a library fusion: what reads its results stays outside, and XLA would round it behind each operation (`hlo_memory::excess`). A
//! loss of rows was three times as inexact so: the sums left the loop in 16 bits, and the logarithm and the differences behind it were rounded one by
//! one. So arrays that the library kept wide are written in `f32`, and what it kept wide behind them is `f32` too, up to the fusion's result, which is
//! rounded once.

// Tests: `passes/tests/chunk_grades.rs`.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, AttrValue, ElementType, Instruction, InstructionId, Module, Opcode};
use smol_str::format_smolstr;

use super::bf16_accumulator::in_type;
use super::excess::{combiner, in_32_bits, is_16_bit, rounded, widens};
use super::planned::Planned;
use crate::Context;
use crate::flow::is_product;

/// Values behind the loops built so far.
pub(super) struct WideEpilogue {
    /// The sinks of loops that are still to be built.
    pending: IndexSet<InstructionId>,
    /// Sinks, and what was kept wide behind them.
    reached: IndexSet<InstructionId>,
    /// The values of 16 bits among these that are known in 32.
    wide: IndexMap<InstructionId, InstructionId>,
}

impl WideEpilogue {
    pub(super) fn of(planned: &[Planned<'_>]) -> Self {
        let pending = planned.iter().flat_map(|plan| &plan.sinks).map(|sink| sink.inst).collect();
        Self { pending, reached: IndexSet::default(), wide: IndexMap::default() }
    }

    /// Whether anything is computed in more bits than it has.
    pub(super) fn is_wide(&self) -> bool {
        !self.wide.is_empty()
    }

    /// Widens what reads the sinks that have just got results and waits for no loop to come. `written` are those results that are wide themselves.
    pub(super) fn follow(
        &mut self,
        context: &Context<'_>,
        patch: &mut Patch,
        results: &mut IndexMap<InstructionId, InstructionId>,
        written: Vec<(InstructionId, InstructionId)>,
    ) {
        let built: Vec<InstructionId> = self.pending.iter().copied().filter(|id| results.contains_key(id)).collect();
        self.pending.retain(|id| !results.contains_key(id));
        self.wide.extend(written);
        let Some(&first) = built.first() else { return };
        self.reached.extend(built);
        let mut waiting = self.pending.clone();
        for (id, inst) in context.module.instructions_of(context.module.instruction(first).parent) {
            if inst.operands.iter().any(|operand| waiting.contains(operand)) {
                waiting.insert(id);
            } else if !results.contains_key(&id)
                && !waiting.contains(&id)
                && inst.operands.iter().any(|operand| self.reached.contains(operand))
                && let Some(result) = self.widened(context, patch, results, id)
            {
                patch.replace(id, result);
                results.insert(id, result);
            }
        }
    }

    /// What stands for a user of results: the same in 32 bits, rounded where others read it; `None` if it stays as it is.
    fn widened(
        &mut self,
        context: &Context<'_>,
        patch: &mut Patch,
        results: &IndexMap<InstructionId, InstructionId>,
        id: InstructionId,
    ) -> Option<InstructionId> {
        let inst = context.module.instruction(id);
        let first = inst.operands.first()?;
        if let (true, Some(&wide)) = (widens(inst), self.wide.get(first)) {
            return Some(wide);
        }
        let kept = context.is_kept_wide(id);
        if is_product(inst.opcode) || !inst.control_predecessors().is_empty() || !(kept || context.is_rounded_once(id))
        {
            return None;
        }
        let operands: Vec<InstructionId> =
            inst.operands.iter().map(|&operand| self.operand(context.module, patch, results, operand)).collect();
        let from = patch.instruction(context.module, operands[0]).array().map(|array| array.element_type);
        let wide = if inst.opcode == Opcode::Convert && from == Some(ElementType::F32) {
            operands[0]
        } else {
            add_wide(context.module, patch, inst, operands)
        };
        if kept {
            self.reached.insert(id);
            self.wide.insert(id, wide);
        }
        let result = rounded(context.module, patch, wide);
        patch.set_origin(result, id);
        Some(result)
    }

    /// An operand of what is wide.
    fn operand(
        &self,
        module: &Module,
        patch: &mut Patch,
        results: &IndexMap<InstructionId, InstructionId>,
        operand: InstructionId,
    ) -> InstructionId {
        if let Some(&wide) = self.wide.get(&operand) {
            return wide;
        }
        let inst = module.instruction(operand);
        let now = results.get(&operand).copied().unwrap_or(operand);
        match in_type(module, patch, now, ElementType::F32) {
            Some(convert) if is_16_bit(inst) => patch.add(inst.parent, convert),
            _ => now,
        }
    }
}

fn add_wide(module: &Module, patch: &mut Patch, inst: &Instruction, operands: Vec<InstructionId>) -> InstructionId {
    let name = format_smolstr!("{}.wide", inst.name);
    let shape = in_32_bits(&inst.shape);
    let mut wide = Instruction { name, shape, operands: operands.into_iter().collect(), span: None, ..inst.clone() };
    if let Some(narrow) = inst.computation(&AttrKey::ToApply) {
        let combiner = combiner(module, narrow, patch);
        wide.set_attribute(AttrKey::ToApply, AttrValue::Computation(combiner));
    }
    patch.add(inst.parent, wide)
}
