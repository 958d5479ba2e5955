//! The kernels that XLA:GPU makes of products: each takes in what its operands are computed from, and what is done to its result, as far as that moves
//! no more bytes.
//!
//! Each operand grows towards what it is computed from, the nearest first, while it reads no more than four arrays. A value that something else needs too is computed
//! in both places. The result grows through one reader after the other. Priority fusion comes later and leaves these kernels as they are.
//!
//! Source: `GemmFusion` (xla/service/gpu/transforms/gemm_fusion.cc) and `GetPropagatedDimOrdersAndRequirementsIfProfitablyFusible`
//! (xla/service/gpu/triton_tiling_propagation.cc).

// Tests: `memory/tests/devices.rs`.

mod order;

use std::cmp::Reverse;
use std::collections::VecDeque;

use hlo_ir::arena::SideTable;
use hlo_ir::{ArrayShape, ComputationId, DotDims, ElementType, InstructionId, Opcode};
use smol_str::format_smolstr;

use super::super::graph::Graph;
use super::super::traffic::bytes;
use super::super::traits;
use super::super::triton::{self, is_type_known};
use super::absorb;
use crate::hash::IndexSet;
use order::Order;

/// Arrays that an operand is computed from at most (`kMaxParameterPerDotOperand`).
const MOST_ARRAYS: i64 = 4;
/// Bytes that a kernel may move more (`kIoToleranceBytes`).
const TOLERANCE: i128 = 1024;

/// Makes the kernels of the products of a computation.
pub(super) fn run(graph: &mut Graph, computation: ComputationId) {
    let order = graph.post_order(computation);
    let mut place = SideTable::new(0);
    for (at, &id) in order.iter().enumerate() {
        place.set(id, at);
    }
    for product in order {
        if !is_product(graph, product) {
            continue;
        }
        for kernel in Kernel::of(graph, product) {
            kernel.write(graph, &place);
        }
    }
}

/// Whether such a kernel is made: products of one vector go to the library.
pub(super) fn is_product(graph: &Graph, id: InstructionId) -> bool {
    triton::takes_product(graph, id) && (0..2).all(|number| !uncontracted(graph, id, number).is_empty())
}

/// Dimensions of an operand that are neither summed over nor of batches.
fn uncontracted(graph: &Graph, product: InstructionId, number: usize) -> Vec<usize> {
    let rank = graph.array(graph.operand(product, number)).map_or(0, ArrayShape::rank);
    let Some(dims) = DotDims::of(graph.inst(product)) else { return Vec::new() };
    let (summed, batch) =
        if number == 0 { (dims.lhs_contracting, dims.lhs_batch) } else { (dims.rhs_contracting, dims.rhs_batch) };
    (0..rank).filter(|dim| !summed.contains(&(*dim as i64)) && !batch.contains(&(*dim as i64))).collect()
}

/// A kernel of a product.
struct Kernel {
    /// What it writes.
    root: InstructionId,
    /// What it computes beside that.
    made: IndexSet<InstructionId>,
}

impl Kernel {
    /// The kernel of a product; where XLA:GPU finds no tiles for it, kernels of what its operands are computed from, and the product is left to the library.
    fn of(graph: &Graph, product: InstructionId) -> Vec<Self> {
        let operands = [0, 1].map(|number| {
            let order = Order::of_operand(graph, product, number)?;
            Some(Growth::of(graph, graph.operand(product, number), Some(MOST_ARRAYS), Some(order)))
        });
        let second = operands[0].as_ref().map_or(1, |operand| operand.second);
        let operands = operands.into_iter().flatten();
        if operands.clone().any(|operand| operand.is_woven) {
            return operands.filter_map(|operand| operand.alone(graph)).collect();
        }
        let mut made: IndexSet<InstructionId> = operands.flat_map(|operand| operand.made).collect();
        let (mut root, mut order) = (product, Order::of_result(graph, product, second));
        while let Some(reader) = reader(graph, root) {
            order = order.and_then(|order| order.of_reader(graph, reader, second));
            if order.is_none() {
                break;
            }
            made.insert(root);
            for &other in graph.operands(reader).iter().filter(|&&other| other != root) {
                made.extend(Growth::of(graph, other, None, None).made);
            }
            root = reader;
        }
        if made.is_empty() { Vec::new() } else { vec![Self { root, made }] }
    }

    /// Makes it: what reads a value goes in before the value. Each has a place in an order in which they can run.
    fn write(&self, graph: &mut Graph, place: &SideTable<InstructionId, usize>) {
        let mut parts: Vec<InstructionId> = self.made.iter().copied().collect();
        parts.sort_by_key(|&id| Reverse(place[id]));
        let name = format_smolstr!("{}_gemm_fusion", graph.inst(self.root).opcode_name());
        let fusion = graph.fuse_alone(self.root, "kCustom", name);
        for part in parts {
            if graph.operands(fusion).contains(&part) {
                absorb(graph, fusion, part);
            }
        }
    }
}

/// What a kernel computes to make a value.
#[derive(Clone)]
struct Growth {
    value: InstructionId,
    made: IndexSet<InstructionId>,
    /// Elements of the free dimension at its second place, or 1.
    second: i64,
    /// Whether no tiles are found for it.
    is_woven: bool,
}

impl Growth {
    /// Of `value`, in which the dimensions of an operand lie in that order. What is added to a result has no such order.
    fn of(graph: &Graph, value: InstructionId, most: Option<i64>, order: Option<Order>) -> Self {
        let mut open = VecDeque::from([(value, order)]);
        let mut seen: IndexSet<InstructionId> = [value].into_iter().collect();
        let mut growth = Self { value, made: IndexSet::default(), second: 1, is_woven: false };
        let (mut arrays, mut waiting) = (1, 0);
        while open.len() > waiting
            && let Some((id, order)) = open.pop_front()
        {
            if most.is_some_and(|most| arrays + added(graph, id) > most) {
                open.push_back((id, order));
                waiting += 1;
                continue;
            }
            waiting = 0;
            if !is_made(graph, id) {
                continue;
            }
            let operands = graph.operands(id);
            let orders = match &order {
                None => (graph.opcode(id) != Opcode::Concatenate).then(|| vec![None; operands.len()]),
                Some(order) => order.of_operands(graph, id).and_then(|orders| {
                    growth.second = Order::agreed(&orders, growth.second)?;
                    Some(orders.into_iter().map(Some).collect())
                }),
            };
            let Some(orders) = orders else { continue };
            growth.is_woven |= order.is_some_and(|order| order.is_woven(graph, id));
            growth.made.insert(id);
            arrays -= 1;
            for (&operand, order) in operands.iter().zip(orders) {
                if seen.insert(operand) {
                    arrays += 1;
                    open.push_back((operand, order));
                }
            }
        }
        growth
    }

    /// A kernel of its own, of which the product reads the result in another shape.
    fn alone(mut self, graph: &Graph) -> Option<Kernel> {
        let mut root = self.value;
        while self.made.swap_remove(&root) {
            if !matches!(graph.opcode(root), Opcode::Bitcast | Opcode::Reshape) {
                return Some(Kernel { root, made: self.made });
            }
            root = graph.operand(root, 0);
        }
        None
    }
}

/// How many arrays more are read where a value is computed instead.
fn added(graph: &Graph, id: InstructionId) -> i64 {
    let is_array = graph.opcode(id) == Opcode::Constant && !is_scalar(graph, id);
    if graph.opcode(id) == Opcode::Parameter || is_array { 0 } else { graph.operands(id).len() as i64 - 1 }
}

/// Whether a kernel computes a value from which its product's operand follows.
fn is_made(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    let is_cut = |user| matches!(graph.opcode(user), O::Concatenate | O::DynamicSlice);
    match graph.opcode(id) {
        O::Constant => is_scalar(graph, id),
        O::Parameter => false,
        _ if graph.is_root(id) || graph.each_user(id).any(is_cut) => false,
        O::Bitcast | O::Reshape | O::Transpose | O::Copy | O::Slice | O::Broadcast | O::Concatenate => {
            is_type_known(graph, id) && is_input_worth(graph, id)
        }
        _ => is_elementwise(graph, id) && (is_scaled(graph, id) || is_input_worth(graph, id)),
    }
}

/// Whether one of two operands is a number or a parameter that is repeated.
fn is_scaled(graph: &Graph, id: InstructionId) -> bool {
    let is_repeated = |operand: &InstructionId| {
        graph.opcode(*operand) == Opcode::Broadcast
            && matches!(graph.opcode(graph.operand(*operand, 0)), Opcode::Parameter | Opcode::Constant)
    };
    graph.operands(id).len() == 2 && graph.operands(id).iter().any(is_repeated)
}

/// Source: `IsInputWorthFusing` (xla/service/gpu/triton_tiling_propagation.cc).
fn is_input_worth(graph: &Graph, id: InstructionId) -> bool {
    let operands = graph.operands(id);
    let is_given = |&operand: &InstructionId, alone: bool| match graph.opcode(operand) {
        Opcode::Constant => true,
        Opcode::Parameter => !alone || graph.user_count(operand) == 1,
        _ => false,
    };
    more_read(graph, id) <= TOLERANCE
        || graph.user_count(id) == 1
            && operands.iter().all(|operand| is_given(operand, graph.opcode(id) != Opcode::Slice))
}

/// Bytes that an instruction reads more than it writes.
fn more_read(graph: &Graph, id: InstructionId) -> i128 {
    let size = |id| i128::from(bytes(graph, id));
    graph.operands(id).iter().map(|&operand| size(operand)).sum::<i128>() - size(id)
}

/// The instruction that a kernel goes on with behind `id`: its only reader, if that takes no other array than given ones.
fn reader(graph: &Graph, id: InstructionId) -> Option<InstructionId> {
    use Opcode as O;
    if graph.is_root(id) || graph.user_count(id) != 1 {
        return None;
    }
    let user = graph.user(id, 0)?;
    let goes_on = match graph.opcode(user) {
        O::Bitcast | O::Reshape | O::Transpose | O::Copy => is_type_known(graph, user),
        _ => is_elementwise(graph, user),
    };
    let is_fitting = |&other: &InstructionId| {
        let source = if graph.opcode(other) == O::Broadcast { graph.operand(other, 0) } else { other };
        other == id || is_given(graph, source) || (source != other && is_scalar(graph, source))
    };
    let is_fitting = goes_on && graph.operands(user).iter().all(is_fitting);
    (is_fitting && (is_last(graph, user) || more_read(graph, user) >= -TOLERANCE)).then_some(user)
}

/// Whether a value is a parameter, or a part of one (`IsEffectiveParameter`).
fn is_given(graph: &Graph, id: InstructionId) -> bool {
    match graph.opcode(id) {
        Opcode::Parameter => true,
        Opcode::Bitcast | Opcode::GetTupleElement => graph.opcode(graph.operand(id, 0)) == Opcode::Parameter,
        _ => false,
    }
}

/// Whether nothing reads a value but the results of its computation (`CanNotBeFusedIntoAUser`).
fn is_last(graph: &Graph, id: InstructionId) -> bool {
    let is_results = |user| graph.is_root(user) && graph.opcode(user) == Opcode::Tuple;
    graph.is_root(id) || graph.user_count(id) == 1 && graph.user(id, 0).is_some_and(is_results)
}

fn is_scalar(graph: &Graph, id: InstructionId) -> bool {
    graph.array(id).is_some_and(|array| array.rank() == 0)
}

/// Whether a kernel of a product computes an elementwise instruction.
///
/// Source: `IsTritonSupportedElementwiseUpToFloatNormalization` (xla/backends/gpu/codegen/triton/support_legacy.cc).
fn is_elementwise(graph: &Graph, id: InstructionId) -> bool {
    use Opcode as O;
    let Some(&first) = graph.operands(id).first() else { return false };
    let Some(element) = traits::element_type(graph, first) else { return false };
    let of_real = element.is_float();
    let is_computed = match graph.opcode(id) {
        O::Convert | O::Compare | O::Select | O::Clamp => true,
        O::Not | O::And | O::Or | O::Xor => element == ElementType::Pred,
        O::Abs | O::Negate | O::Add | O::Maximum | O::Minimum | O::Multiply | O::Subtract => {
            element != ElementType::Pred
        }
        O::Cosine
        | O::Exponential
        | O::ExponentialMinusOne
        | O::Floor
        | O::Ceil
        | O::Log
        | O::LogPlusOne
        | O::Rsqrt
        | O::Sine
        | O::Sqrt
        | O::Cbrt
        | O::Tan
        | O::Tanh
        | O::Erf
        | O::Atan2
        | O::Power => of_real,
        O::Divide => of_real && element != ElementType::F16,
        _ => false,
    };
    is_computed && is_type_known(graph, id) && graph.operands(id).iter().all(|&id| is_type_known(graph, id))
}
