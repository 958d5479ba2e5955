//! Which operands an instruction must update in place.
//!
//! Source: `HloDataflowAnalysis::GetInPlaceInputOutputPairs` (xla/hlo/analysis/hlo_dataflow_analysis.cc), with the bitcasts that
//! XLA:CPU looks through (xla/hlo/analysis/alias_info.cc).

// Tests: `memory/tests/rules.rs`.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, Instruction, InstructionId, Module, Opcode, ScatterDims, Shape};
use smallvec::SmallVec;

use super::elementwise::KnownPaths;
use super::shape_positions::{ShapePosition, ShapePositions};

/// An operand that must share memory with a part of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    /// Operand number.
    pub(crate) operand: usize,
    /// Tuple index inside the operand.
    pub(crate) operand_index: Dims,
    /// Tuple index inside the result.
    pub(crate) output_index: Dims,
}

/// All in-place pairs of an instruction, in the order of its output.
pub(crate) fn in_place_pairs(module: &Module, id: InstructionId) -> SmallVec<[Pair; 1]> {
    let inst = module.instruction(id);
    let mut pairs = declared_pairs(inst);
    match inst.opcode {
        Opcode::Fusion => leaves(&inst.shape, &mut Dims::new(), &mut |output| {
            if let Some((operand, operand_index)) = fusion_source(module, inst, output) {
                pairs.push(Pair { operand, operand_index, output_index: output.into() });
            }
        }),
        Opcode::DynamicUpdateSlice
        | Opcode::Scatter
        | Opcode::AllReduceStart
        | Opcode::SetDimensionSize
        | Opcode::CollectivePermute
        | Opcode::CollectivePermuteStart
        | Opcode::RaggedAllToAll => leaves(&inst.shape, &mut Dims::new(), &mut |output| {
            if let Some((operand, operand_index)) = plain_source(inst, output) {
                pairs.push(Pair { operand, operand_index, output_index: output.into() });
            }
        }),
        _ => {}
    }
    pairs
}

/// Pairs that the instruction states in its `output_to_operand_aliasing`.
fn declared_pairs(inst: &Instruction) -> SmallVec<[Pair; 1]> {
    if !matches!(inst.opcode, Opcode::Fusion | Opcode::CustomCall | Opcode::AsyncStart) {
        return SmallVec::new();
    }
    let Some(AttrValue::Aliases(aliases)) = inst.attribute(&AttrKey::OutputToOperandAliasing) else {
        return SmallVec::new();
    };
    let pair = |alias: &hlo_ir::attribute::Alias| {
        Some(Pair {
            operand: usize::try_from(alias.operand).ok()?,
            operand_index: alias.operand_index.clone(),
            output_index: alias.output.clone(),
        })
    };
    aliases.iter().filter_map(pair).collect()
}

/// The operand whose memory an instruction other than a fusion updates to make this part of its result.
fn plain_source(inst: &Instruction, output: &[i64]) -> Option<(usize, Dims)> {
    let position = |count: usize| match output {
        [] if count == 1 => Some((0, Dims::new())),
        &[k] if count > 1 => usize::try_from(k).ok().filter(|&k| k < count).map(|k| (k, Dims::new())),
        _ => None,
    };
    match inst.opcode {
        Opcode::DynamicUpdateSlice | Opcode::SetDimensionSize => position(1),
        Opcode::Scatter => position(ScatterDims::input_count(inst.operands.len())),
        Opcode::AllReduceStart => position(inst.operands.len()),
        Opcode::CollectivePermute | Opcode::CollectivePermuteStart if inst.operands.len() == 4 => {
            Some((1, output.into()))
        }
        Opcode::RaggedAllToAll if output.is_empty() => Some((1, Dims::new())),
        _ => None,
    }
}

/// The fusion operand that part `output` of the fusion's result is an update of.
fn fusion_source(module: &Module, fusion: &Instruction, output: &[i64]) -> Option<(usize, Dims)> {
    let body = fusion.computation(&AttrKey::Calls)?;
    let (mut at, mut index) = descend(module, module.computation(body).root, output.into());
    // Every turn goes from one update to the operand it updates, so a long body cannot make this a long recursion.
    let mut updated = false;
    loop {
        let inst = module.instruction(at);
        let source = match inst.opcode {
            Opcode::Parameter if updated => {
                return Some((usize::try_from(inst.parameter_number()?).ok()?, index));
            }
            _ if updated && inst.opcode != Opcode::Fusion => return None,
            Opcode::Fusion => fusion_source(module, inst, &index)?,
            Opcode::CustomCall => declared_source(inst, &index)?,
            _ => plain_source(inst, &index)?,
        };
        updated = true;
        (at, index) = descend(module, *inst.operands.get(source.0)?, source.1);
    }
}

fn declared_source(inst: &Instruction, output: &[i64]) -> Option<(usize, Dims)> {
    let pair = declared_pairs(inst).into_iter().find(|pair| pair.output_index[..] == *output)?;
    Some((pair.operand, pair.operand_index))
}

/// Follows a tuple index to the instruction that makes that element: through tuples, then tuple elements, then bitcasts.
fn descend(module: &Module, from: InstructionId, mut index: Dims) -> (InstructionId, Dims) {
    let mut at = from;
    let step = |at: InstructionId, k: usize| module.instruction(at).operands.get(k).copied();
    while module.instruction(at).opcode == Opcode::Tuple && !index.is_empty() {
        let k = usize::try_from(index[0]).unwrap_or(usize::MAX);
        let Some(next) = step(at, k) else { break };
        at = next;
        index.remove(0);
    }
    while module.instruction(at).opcode == Opcode::GetTupleElement {
        let (Some(next), Some(k)) = (step(at, 0), module.instruction(at).int(&AttrKey::Index)) else { break };
        at = next;
        index.insert(0, k);
    }
    while index.is_empty() && module.instruction(at).opcode == Opcode::Bitcast {
        let Some(next) = step(at, 0) else { break };
        at = next;
    }
    (at, index)
}

/// Calls `visit` with the tuple index of every part of `shape` that is no tuple.
fn leaves(shape: &Shape, index: &mut Dims, visit: &mut impl FnMut(&[i64])) {
    match shape {
        Shape::Tuple(elements) => {
            for (k, element) in elements.iter().enumerate() {
                index.push(k as i64);
                leaves(element, index, visit);
                index.pop();
            }
        }
        _ => visit(index),
    }
}

/// The in-place pairs of the instructions of all computations with memory, as places.
#[derive(Clone, Debug, Default)]
pub(crate) struct InPlace {
    /// Operand place, output place; sorted by output place.
    pairs: Vec<(ShapePosition, ShapePosition)>,
}

impl InPlace {
    /// Finds them all. Fusions whose bodies the module leaves out, since their paths are `known`, have those that they declare.
    pub(crate) fn of(module: &Module, places: &ShapePositions<'_>, known: &KnownPaths) -> Self {
        let mut pairs = Vec::new();
        for &id in places.order() {
            let inst = module.instruction(id);
            let left_out = inst.opcode == Opcode::Fusion
                && inst.computation(&AttrKey::Calls).is_some_and(|body| known[body].is_some());
            let of_one = if left_out { declared_pairs(inst) } else { in_place_pairs(module, id) };
            for pair in of_one {
                let operand = module.instruction(id).operands.get(pair.operand);
                let from = operand.and_then(|&operand| places.at(operand, &pair.operand_index));
                if let (Some(from), Some(to)) = (from, places.at(id, &pair.output_index)) {
                    pairs.push((from, to));
                }
            }
        }
        pairs.sort_by_key(|&(_, to)| to);
        Self { pairs }
    }
    /// All pairs of operand place and output place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ShapePosition, ShapePosition)> + '_ {
        self.pairs.iter().copied()
    }
    /// The operand places that must share memory with an output place.
    pub(crate) fn sources(&self, output: ShapePosition) -> impl Iterator<Item = ShapePosition> + '_ {
        let from = self.pairs.partition_point(|&(_, to)| to < output);
        self.pairs[from..].iter().take_while(move |&&(_, to)| to == output).map(|&(from, _)| from)
    }
}
