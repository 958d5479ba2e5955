//! Sums over devices of one kind become one sum of several arrays.
//!
//! Source: `CpuAllReduceCombiner`, which is `AllReduceCombiner` (xla/hlo/transforms/collectives/all_reduce_combiner.cc) with the limits of
//! `CpuCompiler`; `CombineInstructionsByKey` (xla/service/collective_combiner_utils.h).

// Tests: `memory/tests/partitioned.rs`.

use hlo_ir::{AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Opcode, Shape};
use smol_str::SmolStr;

use super::graph::Graph;
use crate::hash::IndexSet;

/// Most arrays of one sum: `kCombineCount` (xla/service/cpu/cpu_compiler.cc). Bytes are not limited.
const MOST_ARRAYS: usize = 256;

/// Combines in every computation outside fusions.
pub(crate) fn run(graph: &mut Graph) {
    if !graph.has_seen(Opcode::AllReduce) {
        return;
    }
    for computation in graph.outside_fusions() {
        let mut open: IndexSet<InstructionId> =
            graph.list(computation).filter(|&id| Key::of(graph, id).is_some()).collect();
        while open.len() > 1 {
            let together = next_group(graph, computation, &mut open);
            if together.len() > 1 {
                combine(graph, &together);
            }
        }
    }
}

/// What must be equal for two sums to become one.
#[derive(PartialEq, Eq)]
struct Key {
    reducer: Opcode,
    element_type: ElementType,
    groups: Option<SmolStr>,
    has_channel: bool,
    global_ids: bool,
}

impl Key {
    fn of(graph: &Graph, id: InstructionId) -> Option<Self> {
        let (inst, &[_]) = (graph.inst(id), graph.operands(id)) else { return None };
        if graph.opcode(id) != Opcode::AllReduce || inst.flag(&AttrKey::ConstrainLayout) {
            return None;
        }
        let reducer = graph.root(inst.computation(&AttrKey::ToApply)?);
        if graph.operands(reducer).iter().any(|&operand| graph.opcode(operand) != Opcode::Parameter) {
            return None;
        }
        Some(Self {
            reducer: graph.opcode(reducer),
            element_type: graph.array(id)?.element_type,
            groups: inst.raw(&AttrKey::ReplicaGroups).map(SmolStr::new),
            has_channel: inst.int(&AttrKey::ChannelId).is_some(),
            global_ids: inst.flag(&AttrKey::UseGlobalDeviceIds),
        })
    }
}

/// The first open sum and those like it behind it, up to the first that needs one of them; they are no longer open.
fn next_group(graph: &Graph, computation: ComputationId, open: &mut IndexSet<InstructionId>) -> Vec<InstructionId> {
    let mut group: Vec<InstructionId> = Vec::new();
    let mut key = None;
    // What needs a member of the group.
    let mut later: IndexSet<InstructionId> = IndexSet::default();
    for &id in graph.post_order(computation).iter() {
        let needs = graph.operands(id).iter().chain(graph.control_predecessors(id));
        let is_later = needs.into_iter().any(|before| later.contains(before) || group.contains(before));
        if is_later {
            later.insert(id);
        }
        if !open.contains(&id) || (key.is_some() && Key::of(graph, id) != key) {
            continue;
        }
        if is_later {
            break;
        }
        key = Key::of(graph, id);
        group.push(id);
        open.shift_remove(&id);
        if group.len() == MOST_ARRAYS {
            break;
        }
    }
    group
}

/// One sum of all operands, of which the others become elements.
fn combine(graph: &mut Graph, group: &[InstructionId]) {
    let operands = group.iter().map(|&id| graph.operand(id, 0));
    let shape = Shape::tuple(operands.clone().map(|operand| graph.shape(operand).clone()));
    let mut inst = graph.inst(group[0]).clone();
    inst.operands = operands.collect();
    inst.shape = shape;
    let parent = graph.parent(group[0]);
    let all = graph.add(parent, inst);
    graph.stems_from(all, group[0]);
    for (index, &id) in group.iter().enumerate() {
        let shape = graph.shape(id).clone();
        let mut element = Instruction::new("get-tuple-element", shape, Opcode::GetTupleElement, [all]);
        element.attributes = vec![Attribute::int(AttrKey::Index, index as i64)];
        let element = graph.add(parent, element);
        graph.stems_from(element, id);
        graph.replace(id, element);
    }
}
