//! Loops that touch little memory are moved into a computation of their own, which XLA:CPU runs as one piece.
//!
//! Source: `SmallWhileLoopHoistingPass` (xla/service/cpu/small_while_loop_hoisting_pass.cc).

// Tests: `memory/tests/stages.rs`.

use hlo_ir::{AttrKey, AttrValue, Attribute, Instruction, InstructionId, Opcode, Payload};

use super::graph::Graph;
use super::traffic::bytes_accessed;

/// Loops that touch fewer bytes in one round are moved.
const SMALL: u64 = 1024;

/// Moves every small loop behind a call.
pub(crate) fn run(graph: &mut Graph) {
    let loops: Vec<InstructionId> = graph
        .computation_order()
        .into_iter()
        .filter(|&computation| graph.has_seen_in(computation, Opcode::While))
        .flat_map(|computation| graph.list(computation).collect::<Vec<_>>())
        .filter(|&id| graph.opcode(id) == Opcode::While)
        .collect();
    for id in loops {
        if !is_unavailable(graph, id) && bytes_accessed(graph, id) < SMALL {
            hoist(graph, id);
        }
    }
}

/// Whether the instruction, or anything it calls, cannot run inside such a piece.
fn is_unavailable(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    let own = match graph.opcode(id) {
        O::CustomCall
        | O::Infeed
        | O::Outfeed
        | O::Scatter
        | O::Sort
        | O::Fft
        | O::PartitionId
        | O::ReplicaId
        | O::Unknown => true,
        O::Fusion => graph.inst(id).word(&AttrKey::Kind) == Some("kCustom"),
        opcode => opcode.is_collective(),
    };
    own || graph.callees(id).into_iter().any(|callee| graph.list(callee).any(|inner| is_unavailable(graph, inner)))
}

fn hoist(graph: &mut Graph, id: InstructionId) {
    let body = graph.add_computation("while_computation");
    let state = graph.operand(id, 0);
    let shape = graph.shape(id).clone();
    let parameter = Instruction::new("parameter", graph.shape(state).clone(), Opcode::Parameter, []);
    let parameter = graph.add(body, parameter.with_payload(Payload::Parameter(0)));
    let mut inner = graph.inst(id).clone();
    inner.operands = [parameter].into_iter().collect();
    let inner = graph.add(body, inner);
    graph.set_root(inner);
    let call = Instruction::new("call", shape, Opcode::Call, [state])
        .with(Attribute::new(AttrKey::ToApply, AttrValue::Computation(body)));
    let call = graph.add(graph.parent(id), call);
    graph.pass_metadata(id, call);
    graph.replace_all_uses(id, call);
    graph.drop_control(id);
    graph.remove(id);
}
