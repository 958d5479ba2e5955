//! What XLA:GPU stores because reading it costs less than making it in each kernel that reads it, such as the sums of residuals of a network of many layers.
//!
//! Source: `PriorityFusionQueue::CalculateProducerPriority` (xla/service/gpu/transforms/priority_fusion.cc) compares the time of a producer and its consumers with that
//! of the consumers that make it themselves, which for elementwise work is their memory traffic.

// Tests: `memory/tests/devices.rs`.

use hlo_ir::{ComputationId, InstructionId, Opcode};
use smallvec::SmallVec;

use super::super::graph::Graph;
use super::super::traffic::bytes;
use super::super::traits;
use crate::hash::IndexSet;

/// The kernels that would make a value, by what they write.
type Kernels = SmallVec<[InstructionId; 4]>;

/// More kernels than this are not told apart: nothing is made in so many.
const MOST_KERNELS: usize = 16;

/// Elementwise values that are stored for all their readers.
pub(super) fn stored(graph: &Graph, computation: ComputationId) -> IndexSet<InstructionId> {
    // By slot.
    let mut kernels: Vec<Kernels> = vec![Kernels::new(); graph.slots(computation)];
    let mut found = IndexSet::default();
    for id in graph.post_order(computation).into_iter().rev() {
        let mut made_in = makers(graph, &kernels, id);
        if is_stored(graph, id, made_in.len()) {
            found.insert(id);
            made_in = Kernels::from_slice(&[id]);
        }
        kernels[graph.slot(id)] = made_in;
    }
    found
}

/// The kernels that would make a value: its own if it is written anyway, and those of its readers.
fn makers(graph: &Graph, kernels: &[Kernels], id: InstructionId) -> Kernels {
    if !traits::is_fusible(graph, id) || graph.opcode(id) == Opcode::Reduce || graph.is_root(id) {
        return Kernels::from_slice(&[id]);
    }
    let mut found = Kernels::new();
    for user in graph.each_user(id) {
        for &kernel in &kernels[graph.slot(user)] {
            if !found.contains(&kernel) && found.len() <= MOST_KERNELS {
                found.push(kernel);
            }
        }
    }
    found
}

/// Whether so many kernels read more to make a value than to read it, what writing it once costs included.
fn is_stored(graph: &Graph, id: InstructionId, kernels: usize) -> bool {
    let is_made = traits::is_elementwise(graph, id) && graph.opcode(id) != Opcode::Constant && !graph.is_root(id);
    let [own, read, kernels] = [bytes(graph, id), read_for(graph, id), kernels as u64].map(u128::from);
    is_made && kernels > 1 && kernels * read > read + own + kernels * own
}

/// Bytes that making a value reads, as far as they are not made on the way: of a broadcast or a conversion what it is made of.
fn read_for(graph: &Graph, id: InstructionId) -> u64 {
    let mut operands: SmallVec<[InstructionId; 4]> =
        graph.operands(id).iter().map(|&operand| behind(graph, operand)).collect();
    operands.sort_unstable();
    operands.dedup();
    operands.into_iter().map(|operand| bytes(graph, operand)).fold(0, u64::saturating_add)
}

/// Looks through what has one operand and is made wherever it is read.
fn behind(graph: &Graph, mut id: InstructionId) -> InstructionId {
    while let ([operand], true) = (graph.operands(id), is_transparent(graph, id)) {
        id = *operand;
    }
    id
}

fn is_transparent(graph: &Graph, id: InstructionId) -> bool {
    matches!(graph.opcode(id), Opcode::Broadcast | Opcode::Bitcast | Opcode::Reshape)
        || traits::is_elementwise(graph, id)
}
