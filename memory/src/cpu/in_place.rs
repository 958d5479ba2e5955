//! Operands that an instruction of the graph updates in place.
//!
//! Source: `AliasInfo::GetInPlaceInputOutputPairs` (xla/hlo/analysis/alias_info.cc); XLA:CPU looks through bitcasts only.

use hlo_ir::{AttrKey, AttrValue, InstructionId, Opcode, ScatterDims, Shape};
use smallvec::SmallVec;

use super::graph::{Graph, Rare};

/// Operand number and tuple index of the part of the result that takes over its buffer.
pub(crate) type Pair = (usize, SmallVec<[i64; 1]>);

/// The pairs of an instruction, in the order of its output.
pub(crate) fn pairs(graph: &Graph, id: InstructionId) -> SmallVec<[Pair; 1]> {
    match graph.opcode(id) {
        Opcode::Fusion => fusion_pairs(graph, id),
        Opcode::CustomCall => declared(graph, id),
        _ => plain(graph, id),
    }
}

/// Pairs of instructions that are in-place by their opcode.
fn plain(graph: &Graph, id: InstructionId) -> SmallVec<[Pair; 1]> {
    let count = match graph.opcode(id) {
        Opcode::DynamicUpdateSlice | Opcode::SetDimensionSize => 1,
        Opcode::Scatter => ScatterDims::input_count(graph.operands(id).len()),
        Opcode::AllReduceStart => graph.operands(id).len(),
        Opcode::RaggedAllToAll => return SmallVec::from_elem((1, SmallVec::new()), 1),
        _ => 0,
    };
    if count == 1 {
        return SmallVec::from_elem((0, SmallVec::new()), 1);
    }
    (0..count).map(|k| (k, SmallVec::from_elem(k as i64, 1))).collect()
}

/// Pairs that a custom call states.
fn declared(graph: &Graph, id: InstructionId) -> SmallVec<[Pair; 1]> {
    if !graph.may_have(id, Rare::Aliasing) {
        return SmallVec::new();
    }
    match graph.inst(id).attribute(&AttrKey::OutputToOperandAliasing) {
        Some(AttrValue::Aliases(aliases)) => aliases
            .iter()
            .filter_map(|alias| Some((usize::try_from(alias.operand).ok()?, alias.output.iter().copied().collect())))
            .collect(),
        _ => SmallVec::new(),
    }
}

/// For every array of a fusion's result: the operand whose buffer it must take, if the instruction behind it is in-place on a parameter.
fn fusion_pairs(graph: &Graph, fusion: InstructionId) -> SmallVec<[Pair; 1]> {
    use Opcode as O;
    let Some(body) = graph.fused(fusion) else { return SmallVec::new() };
    let in_place = [
        O::AllReduceStart,
        O::CustomCall,
        O::DynamicUpdateSlice,
        O::Fusion,
        O::RaggedAllToAll,
        O::Scatter,
        O::SetDimensionSize,
    ];
    if !in_place.iter().any(|&opcode| graph.has_seen_in(body, opcode)) {
        return declared(graph, fusion);
    }
    let leaves: SmallVec<[SmallVec<[i64; 1]>; 1]> = match graph.shape(fusion).as_ref() {
        Shape::Tuple(elements) => (0..elements.len() as i64).map(|k| SmallVec::from_elem(k, 1)).collect(),
        _ => SmallVec::from_elem(SmallVec::new(), 1),
    };
    let mut found = declared(graph, fusion);
    for leaf in leaves {
        let (source, index) = behind(graph, graph.root(body), leaf.clone());
        for (operand, output) in pairs(graph, source) {
            let (input, rest) = behind(graph, graph.operand(source, operand), SmallVec::new());
            let number = graph.inst(input).parameter_number();
            if let (true, true, Some(number)) = (output == index, rest.is_empty(), number) {
                found.push((number as usize, leaf.clone()));
            }
        }
    }
    found
}

/// Follows a value back through `tuple`, `get-tuple-element` and, for whole values, `bitcast`.
fn behind(graph: &Graph, id: InstructionId, index: SmallVec<[i64; 1]>) -> (InstructionId, SmallVec<[i64; 1]>) {
    let (mut id, index) = behind_tuples(graph, id, index);
    while index.is_empty() && graph.opcode(id) == Opcode::Bitcast {
        id = graph.operand(id, 0);
    }
    (id, index)
}

/// Follows a value back through `tuple` and `get-tuple-element`.
pub(crate) fn behind_tuples(
    graph: &Graph,
    mut id: InstructionId,
    mut index: SmallVec<[i64; 1]>,
) -> (InstructionId, SmallVec<[i64; 1]>) {
    while graph.opcode(id) == Opcode::Tuple && !index.is_empty() {
        id = graph.operand(id, index.remove(0) as usize);
    }
    while graph.opcode(id) == Opcode::GetTupleElement {
        index.insert(0, graph.inst(id).int(&AttrKey::Index).unwrap_or(0));
        id = graph.operand(id, 0);
    }
    (id, index)
}
