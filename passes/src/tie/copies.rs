//! Independent pieces of the same work: each waits for the result of the one before.

use crate::hash::IndexMap;
use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target};

use crate::objective::MATTERS;
use crate::recompute::tie::{Ties, bytes, can_tie, can_wait_for, constants, finding};
use crate::roll::{ComputationHashes, Isomorphism, Repetition};
use crate::{Context, Finding, Grade, Outcome};

/// One finding for each row of pieces.
pub(super) fn find(context: &Context<'_>, isomorphism: &Isomorphism, computation: ComputationId) -> Vec<Finding> {
    let module = context.module;
    let rows = crate::roll::isomorphic_results(context, isomorphism, computation);
    if rows.is_empty() {
        return Vec::new();
    }
    let constant = constants(module, computation);
    let hashes = crate::roll::computation_hashes(module, isomorphism, computation);
    rows.into_iter().filter_map(|results| tie_row(context, computation, (&constant, &hashes), &results)).collect()
}

fn tie_row(
    context: &Context<'_>,
    computation: ComputationId,
    (constant, hashes): (&SideTable<InstructionId, bool>, &ComputationHashes),
    results: &[InstructionId],
) -> Option<Finding> {
    let module = context.module;
    let pieces = Pieces::new(module, computation, results);
    let mut ties = Ties::new(module, context.options.target);
    if !results.iter().all(|&result| can_wait_for(module, result)) {
        return None;
    }
    let own = module.instructions_of(computation).filter(|(id, _)| pieces.of[*id].is_some());
    let opcodes: Vec<Opcode> = own.map(|(_, inst)| inst.opcode).collect();
    // XLA:TPU runs pieces with products one after the other by itself, and a tie keeps it from fusing what follows them.
    let ordered = context.options.target == Target::Tpu && opcodes.contains(&Opcode::Dot);
    if ordered || !opcodes.into_iter().any(crate::roll::is_heavy) {
        return None;
    }
    let sizes = pieces.largest(module, computation, constant, results.len());
    let piece = module.instructions_of(computation).map(|(id, _)| id).filter(|&id| pieces.of[id].is_some());
    let repetition = Repetition::among(module, hashes, piece);
    let mut waiting: SideTable<InstructionId, bool> = SideTable::new(false);
    let mut rewritten: IndexMap<InstructionId, Instruction> = IndexMap::default();
    for (id, inst) in module.instructions_of(computation) {
        let Some(piece) = pieces.of[id].filter(|&piece| piece > 0) else { continue };
        if inst.operands.iter().any(|&operand| waiting[operand] && pieces.of[operand] == Some(piece)) {
            waiting.set(id, true);
            continue;
        }
        let large = bytes(module, id).get().saturating_mul(MATTERS) >= sizes[piece].get();
        if !large || constant[id] || pieces.is_view(module, id) {
            continue;
        }
        let Some(place) = pieces.place_to_tie(module, constant, inst) else { continue };
        let new = rewritten.entry(id).or_insert_with(|| inst.clone());
        new.operands[place] = ties.tie(inst.operands[place], results[piece - 1]);
        waiting.set(id, true);
    }
    if rewritten.is_empty() {
        return None;
    }
    rewritten.into_iter().for_each(|(id, new)| ties.patch.rewrite(id, new));
    let wasted = Bytes(sizes.iter().skip(1).map(|bytes| bytes.get()).sum());
    let note = format!("each of {} pieces of the same work waits for the one before", results.len());
    let mut found = finding(context, results[results.len() - 1], wasted, ties, note);
    if repetition.is_any() {
        // What XLA took for one value it may fuse otherwise for each of several.
        found.grade = found.grade.max(Grade::HloExact);
    }
    if let Some(reason) = repetition.reason() {
        found.outcome = Outcome::Missed(reason);
    }
    Some(found)
}

/// Which piece each instruction belongs to; what several share belongs to none.
struct Pieces {
    of: SideTable<InstructionId, Option<usize>>,
}

impl Pieces {
    fn new(module: &Module, computation: ComputationId, results: &[InstructionId]) -> Self {
        let mut of: SideTable<InstructionId, Option<usize>> = SideTable::new(None);
        let mut shared: SideTable<InstructionId, bool> = SideTable::new(false);
        for (piece, &result) in results.iter().enumerate() {
            let mut work = vec![result];
            while let Some(id) = work.pop() {
                match of[id] {
                    Some(other) if other != piece => shared.set(id, true),
                    Some(_) => {}
                    None => {
                        of.set(id, Some(piece));
                        work.extend(module.instruction(id).operands.iter().copied());
                    }
                }
            }
        }
        let list = &module.computation(computation).instructions;
        for &id in list.iter().rev() {
            let inst = module.instruction(id);
            if shared[id] {
                inst.operands.iter().for_each(|&operand| shared.set(operand, true));
            }
            if shared[id] || inst.parameter_number().is_some() {
                of.set(id, None);
            }
        }
        Self { of }
    }

    /// Bytes of the largest value of each piece.
    fn largest(
        &self,
        module: &Module,
        computation: ComputationId,
        constant: &SideTable<InstructionId, bool>,
        count: usize,
    ) -> Vec<Bytes> {
        let mut largest = vec![Bytes::ZERO; count];
        for (id, _) in module.instructions_of(computation) {
            if let Some(piece) = self.of[id].filter(|_| !constant[id]) {
                largest[piece] = largest[piece].max(bytes(module, id));
            }
        }
        largest
    }

    /// Whether an instruction only reads something that stands in memory already.
    fn is_view(&self, module: &Module, id: InstructionId) -> bool {
        let inst = module.instruction(id);
        let moves = matches!(inst.opcode, Opcode::Slice | Opcode::Reshape | Opcode::Bitcast | Opcode::GetTupleElement);
        moves && inst.operands.iter().all(|&operand| self.of[operand].is_none() || self.is_view(module, operand))
    }

    /// The operand that should wait: the smallest one of the piece's own, or else the smallest one that stands in memory.
    fn place_to_tie(
        &self,
        module: &Module,
        constant: &SideTable<InstructionId, bool>,
        inst: &Instruction,
    ) -> Option<usize> {
        let places = (0..inst.operands.len()).filter(|&place| {
            let operand = inst.operands[place];
            !constant[operand] && can_tie(module, operand)
        });
        places.min_by_key(|&place| {
            let operand = inst.operands[place];
            (self.of[operand].is_none(), bytes(module, operand))
        })
    }
}
