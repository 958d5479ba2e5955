//! How often the code of an instruction would be emitted inside a fusion: once for every distinct index it is asked for.
//!
//! Source: `FusionNodeIndexingEvaluation` (xla/service/fusion_node_indexing_evaluation.cc).

use crate::hash::IndexMap;
use hlo_ir::{InstructionId, Opcode};

use super::super::graph::{Graph, Users};
use super::super::traits;

/// Most copies of an instruction's code inside one fusion.
pub const MOST_COPIES: usize = 15;

/// The index computations inside one fusion. Operands of the fusion stand for its parameters.
#[derive(Debug)]
pub(super) struct Indexing {
    fusion: InstructionId,
    asked: IndexMap<InstructionId, Asked>,
}

/// What is asked of one instruction.
#[derive(Debug, Default)]
struct Asked {
    /// Instructions that ask this one for elements, each at an index of its own.
    users: Users,
    /// How often it is evaluated per result element.
    evaluations: u64,
}

impl Indexing {
    pub(super) fn new(graph: &Graph, fusion: InstructionId) -> Self {
        let mut indexing = Self { fusion, asked: IndexMap::default() };
        indexing.begin(graph, fusion);
        indexing
    }

    /// Turns to another fusion.
    pub(super) fn begin(&mut self, graph: &Graph, fusion: InstructionId) {
        let body = graph.fused(fusion).expect("a fusion has a body");
        self.fusion = fusion;
        self.asked.clear();
        self.asked.entry(graph.root(body)).or_default().users.add(fusion);
        self.asked.entry(fusion).or_default().evaluations = 1;
        for id in graph.post_order(body).into_iter().rev() {
            if graph.opcode(id) != Opcode::Parameter {
                self.enter(graph, id);
            }
        }
    }

    pub(super) fn is_of(&self, fusion: InstructionId) -> bool {
        self.fusion == fusion
    }

    /// Whether fusing `producer` would emit too much code.
    pub(super) fn is_too_high(&self, graph: &Graph, producer: InstructionId) -> bool {
        if graph.opcode(producer) == Opcode::Broadcast {
            return false;
        }
        let emitted = self.count(producer);
        emitted > MOST_COPIES as u64
            || (has_own_loop(graph, producer) && (emitted > 1 || real_users(graph, producer) > 1))
    }

    /// The instructions that ask for elements of an operand that is about to be fused; forgets the operand.
    pub(super) fn take(&mut self, operand: InstructionId) -> Users {
        self.asked.swap_remove(&operand).unwrap_or_default().users
    }

    /// Records `copy`, which now stands inside the fusion for an operand whose users were `users`.
    pub(super) fn fused(&mut self, graph: &Graph, copy: InstructionId, users: Users) {
        self.asked.insert(copy, Asked { users, evaluations: 0 });
        self.enter(graph, copy);
    }

    fn count(&self, id: InstructionId) -> u64 {
        let evaluations = |user| self.asked.get(&user).map_or(0, |asked| asked.evaluations);
        self.asked.get(&id).map_or(0, |asked| asked.users.iter().map(evaluations).sum())
    }

    /// Counts the evaluations of `id` and passes its users, or itself, on to its operands.
    fn enter(&mut self, graph: &Graph, id: InstructionId) {
        let evaluations = self.count(id);
        self.asked.entry(id).or_default().evaluations = evaluations;
        for &operand in graph.operands(id) {
            let source = match graph.inst(operand).parameter_number() {
                Some(number) => graph.operand(self.fusion, number as usize),
                None => operand,
            };
            if keeps_index(graph, source, id) {
                let users = self.asked.get(&id).map(|asked| asked.users.clone()).unwrap_or_default();
                let known = &mut self.asked.entry(source).or_default().users;
                users.iter().for_each(|user| known.add(user));
            } else {
                self.asked.entry(source).or_default().users.add(id);
            }
        }
    }
}

/// Whether `user` asks `operand` for elements at its own index (permuted, for a transpose).
fn keeps_index(graph: &Graph, operand: InstructionId, user: InstructionId) -> bool {
    graph.opcode(user) == Opcode::Transpose
        || match (graph.array(operand), graph.array(user)) {
            (Some(a), Some(b)) => traits::same_dims_and_layout(a, b),
            _ => graph.shape(operand) == graph.shape(user),
        }
}

/// Whether the emitted code contains branches or a loop, so that it is not shared between uses.
///
/// Source: `ElementalIrEmitter::OpInvalidatesCache` (xla/service/elemental_ir_emitter.cc).
fn has_own_loop(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    matches!(graph.opcode(id), O::Concatenate | O::Dot | O::DynamicUpdateSlice | O::Pad | O::Reduce | O::ReduceWindow)
}

/// Users, where a fusion counts as the users of its parameter.
fn real_users(graph: &Graph, id: InstructionId) -> usize {
    let count = |user: InstructionId| match graph.fused(user) {
        Some(body) => {
            let number = graph.operands(user).iter().position(|&operand| operand == id).unwrap_or(0);
            graph.user_count(graph.parameter(body, number))
        }
        None => 1,
    };
    graph.each_user(id).map(count).sum()
}
