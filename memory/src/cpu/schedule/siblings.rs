//! Sums that run beside a kernel that reads the same arrays: XLA:GPU makes one kernel of both, so what they read is free behind it.
//!
//! The loss of a training step sums over logits that its gradient reads too. In another order of the model the sum would wait, and hold them.
//!
//! Source: `MultiOutputFusion::FuseSiblings` (xla/service/gpu/transforms/multi_output_fusion.cc), for kernels over the same elements.

use hlo_ir::{ArrayShape, InstructionId, Opcode};

use super::super::graph::Graph;

/// Moves each sum of an order directly behind the first kernel that reads what it reads, over the same elements, if all it reads is there by then.
pub(super) fn joined(graph: &Graph, order: &[InstructionId]) -> Vec<InstructionId> {
    let mut places = vec![usize::MAX; order.iter().map(|&id| graph.slot(id) + 1).max().unwrap_or(0)];
    for (place, &id) in order.iter().enumerate() {
        places[graph.slot(id)] = place;
    }
    let place = |id: InstructionId| places[graph.slot(id)];
    let mut behind: Vec<(usize, usize)> = Vec::new();
    for &sum in order {
        let own = place(sum);
        let sibling = reduced(graph, sum).and_then(|summed| sibling(graph, sum, summed, &place));
        behind.push(sibling.map_or((own, own), |sibling| (sibling, own)));
    }
    behind.sort_unstable();
    behind.into_iter().map(|(_, own)| order[own]).collect()
}

/// The place of the first kernel beside which a sum can run: it makes an array of as many elements as are summed up and shares the largest array read.
fn sibling(graph: &Graph, sum: InstructionId, summed: u64, place: &impl Fn(InstructionId) -> usize) -> Option<usize> {
    let ready = graph.operands(sum).iter().chain(graph.control_predecessors(sum)).map(|&id| place(id)).max()?;
    let is_whole = |id: InstructionId| elements(graph, id) == Some(summed);
    let shared = graph.operands(sum).iter().copied().filter(|&id| is_whole(id));
    let beside = shared.flat_map(|array| graph.each_user(array));
    // Kernels of whole rows are made by another generator, which joins none.
    let is_loop = |fused| graph.list(fused).all(|id| graph.opcode(id) != Opcode::Reduce);
    let is_kernel = |&id: &InstructionId| is_whole(id) && graph.fused(id).is_some_and(is_loop);
    beside.filter(is_kernel).map(place).filter(|&other| ready < other && other < place(sum)).min()
}

/// Most elements that a kernel sums up, of one that writes fewer; `None` for another kernel.
fn reduced(graph: &Graph, id: InstructionId) -> Option<u64> {
    let summed = |id: InstructionId| match graph.opcode(id) {
        Opcode::Reduce => elements(graph, graph.operand(id, 0)),
        _ => None,
    };
    let most = match graph.fused(id) {
        Some(inside) => graph.list(inside).filter_map(summed).max(),
        None => summed(id),
    };
    most.filter(|&most| elements(graph, id).is_some_and(|written| written < most))
}

fn elements(graph: &Graph, id: InstructionId) -> Option<u64> {
    graph.array(id).and_then(ArrayShape::elements)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::graph::Origin;

    /// A loss and its gradient from the same logits, and a product that reads the gradient; `loss` says what the loss reads beside the logits, `kernel` which
    /// computation the gradient is.
    fn order(loss: &str, kernel: &str) -> Vec<String> {
        let text = format!(
            "HloModule m

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

summed {{
  y = f32[64,512] parameter(0)
  r = f32[64] parameter(1)
  zero = f32[] constant(0)
  rows = f32[64] reduce(y, zero), dimensions={{1}}, to_apply=add
  weighted = f32[64] multiply(rows, r)
  ROOT s = f32[] reduce(weighted, zero), dimensions={{0}}, to_apply=add
}}

scaled {{
  y = f32[64,512] parameter(0)
  r = f32[64] parameter(1)
  wide = f32[64,512] broadcast(r), dimensions={{0}}
  ROOT g = f32[64,512] multiply(y, wide)
}}

of_rows {{
  y = f32[64,512] parameter(0)
  r = f32[64] parameter(1)
  zero = f32[] constant(0)
  rows = f32[64] reduce(y, zero), dimensions={{1}}, to_apply=add
  weighted = f32[64] multiply(rows, r)
  wide = f32[64,512] broadcast(weighted), dimensions={{0}}
  ROOT g = f32[64,512] multiply(y, wide)
}}

ENTRY main {{
  y = f32[64,512] parameter(0)
  r = f32[64] parameter(1)
  gradient = f32[64,512] fusion(y, r), kind=kLoop, calls={kernel}
  late = f32[64,64] dot(gradient, gradient), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  row = f32[64] slice(r), slice={{[0:64]}}
  loss = f32[] fusion(y, {loss}), kind=kInput, calls=summed
  ROOT all = (f32[], f32[64,64], f32[64]) tuple(loss, late, row)
}}
"
        );
        let module = hlo_ir::text::parse(&text).expect("it is legal");
        let graph = Graph::from_module(&module, Origin::Program);
        let order = joined(&graph, &graph.list(graph.entry()).collect::<Vec<_>>());
        order.into_iter().map(|id| graph.inst(id).name.to_string()).collect()
    }

    #[test]
    fn a_sum_runs_beside_the_kernel_that_reads_the_same() {
        assert_eq!(order("r", "scaled"), ["y", "r", "gradient", "loss", "late", "row", "all"]);
    }

    #[test]
    fn other_sums_stay_where_they_are() {
        let given = ["y", "r", "gradient", "late", "row", "loss", "all"];
        assert_eq!(order("row", "scaled"), given, "it waits for more");
        assert_eq!(order("r", "of_rows"), given, "a kernel of rows joins none");
    }
}
