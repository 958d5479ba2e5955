//! Whether an instruction reads the same element of an operand more than once.
//!
//! Source: `OperandElementUse` and `FusionReusesParamElements` (xla/hlo/ir/hlo_instruction.cc).

use hlo_ir::{InstructionId, Opcode};

use super::super::graph::{Graph, Users};
use super::super::traits;

/// How an operand is read; the smaller, the more often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Again,
    Once,
    Never,
}

/// The operands that `id` reads more than once.
pub(super) fn reused_operands(graph: &Graph, id: InstructionId) -> Users {
    let mut reused = Users::new();
    let body = graph.fused(id);
    let mut known = body.map_or_else(Vec::new, |body| vec![None; graph.slots(body)]);
    for (number, &operand) in graph.operands(id).iter().enumerate() {
        let own = match body {
            Some(body) => {
                known.fill(None);
                through(graph, graph.root(body), number as i64, &mut known)
            }
            None => operand_use(graph, id, number),
        };
        if own == Use::Again {
            reused.add(operand);
        }
    }
    reused
}

fn operand_use(graph: &Graph, id: InstructionId, number: usize) -> Use {
    use Opcode as O;
    let again_if = |again: bool| if again { Use::Again } else { Use::Once };
    let rank = |id| graph.array(id).map_or(0, hlo_ir::ArrayShape::rank);
    match graph.opcode(id) {
        O::Bitcast | O::Concatenate | O::Reshape | O::Reverse | O::Slice | O::Transpose | O::Gather => Use::Once,
        O::Pad => again_if(number > 0),
        O::Reduce => again_if(number >= graph.operands(id).len() / 2),
        O::DynamicUpdateSlice => again_if(number > 1),
        O::Dot => {
            let other_is_vector = number < 2 && rank(graph.operand(id, 1 - number)) <= 1;
            again_if(rank(id) > 1 || !other_is_vector)
        }
        O::Fusion => match graph.fused(id) {
            Some(body) => through(graph, graph.root(body), number as i64, &mut vec![None; graph.slots(body)]),
            None => Use::Again,
        },
        _ => again_if(!traits::is_elementwise(graph, id)),
    }
}

/// How the value of `id`, inside a fusion, reads the fusion's parameter `number`. `known` holds what was found, by slot.
fn through(graph: &Graph, id: InstructionId, number: i64, known: &mut [Option<Use>]) -> Use {
    if graph.opcode(id) == Opcode::Parameter {
        return if graph.inst(id).parameter_number() == Some(number) { Use::Once } else { Use::Never };
    }
    if let Some(found) = known[graph.slot(id)] {
        return found;
    }
    let mut found = Use::Never;
    for (position, &operand) in graph.operands(id).iter().enumerate() {
        let own = operand_use(graph, id, position);
        let inner = if own == Use::Never { Use::Never } else { through(graph, operand, number, known) };
        if inner != Use::Never {
            found = found.min(own).min(inner);
        }
        if found == Use::Again {
            break;
        }
    }
    known[graph.slot(id)] = Some(found);
    found
}
