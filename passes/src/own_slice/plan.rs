//! Which instructions compute a part of the rows, and which rows of what they read.

use crate::hash::IndexMap;
use hlo_ir::{InstructionId, Opcode};

use crate::Context;
use crate::flow::{Barrier, OperandFlow, Rows, exactness_on_blocks, pull};

/// How one instruction computes its part.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The dimension of the result that is cut.
    pub(super) dim: usize,
    /// Rows of that dimension for the rows of the slice.
    pub(super) rows: Rows,
    /// What it reads.
    pub(super) reads: Vec<OperandFlow>,
}

/// The instructions that work on a part, users first.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) computed: IndexMap<InstructionId, Part>,
}

impl Plan {
    /// From the value that is sliced along `dim` upwards.
    ///
    /// # Errors
    /// Why not even the value itself can be computed in part.
    pub(super) fn new(context: &Context<'_>, value: InstructionId, dim: usize) -> Result<Self, String> {
        let first = part(context, value, dim, Rows::IDENTITY).map_err(|barrier| barrier.text)?;
        let mut needs: IndexMap<InstructionId, Vec<(usize, Rows)>> = IndexMap::default();
        let mut plan = Self { computed: IndexMap::default() };
        plan.add(context, value, first, &mut needs);
        let list = &context.module.computation(context.module.instruction(value).parent).instructions;
        for &id in list.iter().rev() {
            // Two parts of one value would be computed twice: it stays whole.
            let Some(&[(dim, rows)]) = needs.get(&id).map(Vec::as_slice) else { continue };
            if !plan.is_read_by_parts(context, id) {
                continue;
            }
            if let Ok(part) = part(context, id, dim, rows) {
                plan.add(context, id, part, &mut needs);
            }
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        context: &Context<'_>,
        id: InstructionId,
        part: Part,
        needs: &mut IndexMap<InstructionId, Vec<(usize, Rows)>>,
    ) {
        for (&operand, read) in context.module.instruction(id).operands.iter().zip(&part.reads) {
            let wanted = match *read {
                OperandFlow::Block { dim, step } => part.rows.then(step).map(|rows| (dim, rows)),
                OperandFlow::Whole => None,
            };
            let known = needs.entry(operand).or_default();
            known.extend(wanted.filter(|wanted| !known.contains(wanted)));
        }
        self.computed.insert(id, part);
    }

    /// Whether only parts are computed from a value, so that the whole is not needed any more; spreading a value costs nothing twice.
    fn is_read_by_parts(&self, context: &Context<'_>, id: InstructionId) -> bool {
        let module = context.module;
        let reads_part = |&user: &InstructionId| {
            self.computed.get(&user).is_some_and(|part| {
                let operands = module.instruction(user).operands.iter().zip(&part.reads);
                operands.filter(|(operand, _)| **operand == id).all(|(_, read)| *read != OperandFlow::Whole)
            })
        };
        module.instruction(id).opcode == Opcode::Broadcast || context.users.get(id).iter().all(reads_part)
    }
}

/// How an instruction computes these rows of its result.
fn part(context: &Context<'_>, id: InstructionId, dim: usize, rows: Rows) -> Result<Part, Barrier> {
    let module = context.module;
    let inst = module.instruction(id);
    let barrier = |code, text: String| Err(Barrier { code, text });
    if inst.array().is_none() || super::is_made_elsewhere(module, id) || super::is_annotated(module, id) {
        return barrier("leaf", format!("`{}` stands in memory", inst.name));
    }
    if exactness_on_blocks(module, inst) > context.options.exactness {
        return barrier("exactness", format!("`{}` may round anew on fewer rows", inst.name));
    }
    let reads = pull(module, id, dim)?;
    let straight = |read: &OperandFlow| match *read {
        OperandFlow::Whole => true,
        OperandFlow::Block { step, .. } => {
            rows.then(step).is_some_and(|rows| rows.granule() == 1 && !rows.is_reversed())
        }
    };
    if !reads.iter().all(straight) {
        return barrier("uneven", format!("`{}` has no whole rows of its operand for each row", inst.name));
    }
    Ok(Part { dim, rows, reads })
}
