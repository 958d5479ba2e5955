//! Instruction fusion: producers are copied into their consumers, from the results of a computation towards its operands.
//!
//! Source: `InstructionFusion` (xla/service/instruction_fusion.cc) with the decisions of `CpuInstructionFusion`
//! (xla/service/cpu/cpu_instruction_fusion.cc).

// Tests: `memory/tests/stages.rs`.

mod conflict;
mod cost;
mod device;
pub(crate) mod duplication;
mod gemm;
mod global;
mod multi_output;
mod priority;
mod repeated;
mod reuse;
mod rules;
mod tpu;

use crate::hash::IndexSet;
use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, InstructionId, Opcode};
use smallvec::SmallVec;
use smol_str::format_smolstr;

use super::graph::Graph;
use super::traits;
use crate::Target;
use multi_output::UserOrder;
pub use priority::fits_registers;
use rules::Fuser;

/// Fuses in every computation that is run by `call`, `while` or `conditional`, and in the entry.
pub(crate) fn run(graph: &mut Graph) {
    run_for(graph, Target::Cpu);
}

/// The same as another compiler would, as far as it shows in memory ([`device`]).
pub(crate) fn run_for(graph: &mut Graph, target: Target) {
    let mut position = SideTable::new(None);
    for computation in control_flow_computations(graph) {
        let mut fuser = Fuser::new(target);
        let mut read_since = priority::ReadSince::default();
        let barred = match target {
            Target::Gpu => {
                gemm::run(graph, computation);
                priority::Plan { made: fuser.made, read_since } = priority::plan(graph, computation);
                IndexSet::default()
            }
            Target::Cpu => global::globally_unfusible(graph, computation, &mut fuser),
            Target::Tpu => {
                let mut barred = global::globally_unfusible(graph, computation, &mut fuser);
                barred.extend(repeated::repeated(graph, computation));
                barred.retain(|&id| !traits::is_product(graph, id));
                barred
            }
        };
        Queue::new(graph, computation, &mut position).run(graph, &mut fuser, &barred);
        if target == Target::Gpu {
            multi_output::run(graph, computation, &UserOrder { roots: fuser.roots, read_since });
        }
    }
}

/// Computations whose instructions run one by one, callees first: the entry and what `call`, `while`, `conditional` and asynchronous calls
/// run, but no reducers, comparators or fusion bodies.
pub(crate) fn control_flow_computations(graph: &Graph) -> Vec<ComputationId> {
    let order = graph.computation_order();
    let mut runs = SideTable::new(false);
    runs.set(graph.entry(), true);
    for &computation in order.iter().rev() {
        if !runs[computation] {
            continue;
        }
        for id in graph.calling(computation) {
            if matches!(graph.opcode(id), Opcode::Call | Opcode::While | Opcode::Conditional | Opcode::AsyncStart) {
                graph.callees(id).into_iter().for_each(|callee| runs.set(callee, true));
            }
        }
    }
    order.into_iter().filter(|&computation| runs[computation]).collect()
}

/// The instructions still to be visited: a stack that starts as the post-order and is popped from the back.
struct Queue<'a> {
    stack: Vec<Option<InstructionId>>,
    /// Where each instruction stands in the stack; all `None` again when the stack is empty.
    position: &'a mut SideTable<InstructionId, Option<u32>>,
}

impl<'a> Queue<'a> {
    fn new(graph: &Graph, computation: ComputationId, position: &'a mut SideTable<InstructionId, Option<u32>>) -> Self {
        let mut queue = Self { stack: Vec::new(), position };
        graph.post_order(computation).into_iter().for_each(|id| queue.push(id));
        queue
    }

    fn push(&mut self, id: InstructionId) {
        self.position.set(id, Some(self.stack.len() as u32));
        self.stack.push(Some(id));
    }

    fn pop(&mut self) -> Option<InstructionId> {
        loop {
            if let Some(id) = self.stack.pop()? {
                self.position.set(id, None);
                return Some(id);
            }
        }
    }

    fn remove(&mut self, id: InstructionId) {
        if let Some(position) = self.position[id] {
            self.stack[position as usize] = None;
            self.position.set(id, None);
        }
    }

    /// Operand numbers of `id` whose instructions are still to be visited, latest in post-order first.
    fn operands(&self, graph: &Graph, id: InstructionId) -> SmallVec<[usize; 16]> {
        // One number to sort by: the place, from the back, then the operand number.
        let place = |(number, &operand): (usize, &InstructionId)| {
            self.position[operand].map(|place| u64::from(u32::MAX - place) << 32 | number as u64)
        };
        let mut keys: SmallVec<[u64; 16]> = graph.operands(id).iter().enumerate().filter_map(place).collect();
        keys.sort_unstable();
        keys.into_iter().map(|key| (key & u64::from(u32::MAX)) as usize).collect()
    }

    fn run(mut self, graph: &mut Graph, fuser: &mut Fuser, barred: &IndexSet<InstructionId>) {
        while let Some(consumer) = self.pop() {
            if !traits::is_fusible(graph, consumer) {
                continue;
            }
            let chosen = self.operands(graph, consumer).into_iter().find(|&number| {
                let producer = graph.operand(consumer, number);
                traits::is_fusible(graph, producer)
                    && !barred.contains(&producer)
                    && fuser.should_fuse(graph, consumer, number)
            });
            if let Some(number) = chosen {
                self.fuse(graph, fuser, consumer, graph.operand(consumer, number));
            }
        }
    }

    /// Fuses, visits the fusion again next, and drops the producer if nothing else uses it.
    fn fuse(&mut self, graph: &mut Graph, fuser: &mut Fuser, consumer: InstructionId, producer: InstructionId) {
        let kind = if rules::can_be_output_fused(graph, producer, consumer) { "kOutput" } else { "kLoop" };
        let fusion = if graph.opcode(consumer) == Opcode::Fusion {
            if graph.inst(consumer).word(&hlo_ir::AttrKey::Kind) != Some(kind) {
                let kind = graph.word(kind);
                graph.set_attribute(consumer, hlo_ir::AttrKey::Kind, kind);
            }
            consumer
        } else {
            let name =
                format_smolstr!("{}_{}_fusion", graph.inst(producer).opcode_name(), graph.inst(consumer).opcode_name());
            let fusion = graph.fuse_alone(consumer, kind, name);
            fuser.roots.insert(fusion, consumer);
            fusion
        };
        fuser.before_fusing(graph, fusion, producer);
        let (copy, is_gone) = absorb(graph, fusion, producer);
        fuser.after_fusing(graph, fusion, producer, copy);
        self.push(fusion);
        if is_gone {
            self.remove(producer);
        }
    }
}

/// Puts an operand of a fusion into it, which removes it where nothing else uses it. Returns it as it stands in the fusion, and whether it was removed.
fn absorb(graph: &mut Graph, fusion: InstructionId, producer: InstructionId) -> (InstructionId, bool) {
    let copy = match graph.user_count(producer) {
        1 => graph.fuse_away(fusion, producer),
        _ => graph.fuse_into(fusion, producer),
    };
    let is_gone = graph.user_count(producer) == 0;
    if is_gone {
        graph.drop_control(producer);
        graph.remove(producer);
    }
    (copy, is_gone)
}
