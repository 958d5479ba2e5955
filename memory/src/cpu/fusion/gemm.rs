//! The kernels that XLA:GPU makes of products: each takes in what its operands are computed from, and what is done to its result, as far as that moves
//! no more bytes.
//!
//! Each operand grows towards what it is computed from, the nearest first, while it reads no more than four arrays. A value that something else needs too is computed
//! in both places. The result grows through one reader after the other. Priority fusion comes later and leaves these kernels as they are.
//!
//! Source: `GemmFusion` (xla/service/gpu/transforms/gemm_fusion.cc) and `GetPropagatedDimOrdersAndRequirementsIfProfitablyFusible`
//! (xla/service/gpu/triton_tiling_propagation.cc). How dimensions are split and transposed, which decides there too, is not followed.

// Tests: `memory/tests/devices.rs`.

use std::cmp::Reverse;
use std::collections::VecDeque;

use hlo_ir::arena::SideTable;
use hlo_ir::{ArrayShape, AttrKey, ComputationId, DotDims, ElementType, InstructionId, Opcode};
use smol_str::format_smolstr;

use super::super::front::dims::unmodified_by_reshape;
use super::super::graph::Graph;
use super::super::traffic::bytes;
use super::super::traits;
use super::absorb;
use crate::hash::IndexSet;

/// Arrays that an operand is computed from at most (`kMaxParameterPerDotOperand`).
const MOST_ARRAYS: i64 = 4;
/// Bytes that a kernel may move more (`kIoToleranceBytes`).
const TOLERANCE: i128 = 1024;
/// Columns are joined in pieces of so many (`kMinConcatFragmentSize`).
const PIECE: i64 = 64;

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
        let kernel = Kernel::of(graph, product);
        if !kernel.made.is_empty() {
            kernel.write(graph, &place);
        }
    }
}

/// Whether such a kernel can be made: products of one vector, in full precision and of other types go to the library.
///
/// Source: `CanTritonHandleGEMM` (xla/backends/gpu/codegen/triton/support_legacy.cc).
fn is_product(graph: &Graph, id: InstructionId) -> bool {
    graph.opcode(id) == Opcode::Dot
        && is_in_default_precision(graph, id)
        && [id, graph.operand(id, 0), graph.operand(id, 1)].iter().all(|&id| is_type_known(graph, id))
        && (0..2).all(|number| !uncontracted(graph, id, number).is_empty())
}

fn is_in_default_precision(graph: &Graph, id: InstructionId) -> bool {
    let precision = graph.inst(id).raw(&AttrKey::OperandPrecision);
    precision.is_none_or(|text| !text.contains("high"))
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
    fn of(graph: &Graph, product: InstructionId) -> Self {
        let mut made = IndexSet::default();
        for number in 0..2 {
            let joined = uncontracted(graph, product, number);
            grow(graph, graph.operand(product, number), Some(MOST_ARRAYS), &joined, &mut made);
        }
        let mut root = product;
        while let Some(reader) = reader(graph, root) {
            made.insert(root);
            for &other in graph.operands(reader).iter().filter(|&&other| other != root) {
                grow(graph, other, None, &[], &mut made);
            }
            root = reader;
        }
        Self { root, made }
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

/// Adds what a kernel computes to make `value`; `joined` are dimensions of `value` along which arrays may be joined in it.
fn grow(graph: &Graph, value: InstructionId, most: Option<i64>, joined: &[usize], made: &mut IndexSet<InstructionId>) {
    let mut open = VecDeque::from([(value, joined.to_vec())]);
    let mut seen: IndexSet<InstructionId> = [value].into_iter().collect();
    let (mut arrays, mut waiting) = (1, 0);
    while open.len() > waiting
        && let Some((id, joined)) = open.pop_front()
    {
        if most.is_some_and(|most| arrays + added(graph, id) > most) {
            open.push_back((id, joined));
            waiting += 1;
            continue;
        }
        waiting = 0;
        if !is_made(graph, id, &joined) {
            continue;
        }
        made.insert(id);
        arrays -= 1;
        for &operand in graph.operands(id) {
            if seen.insert(operand) {
                arrays += 1;
                open.push_back((operand, passed(graph, id, &joined)));
            }
        }
    }
}

/// How many arrays more are read where a value is computed instead.
fn added(graph: &Graph, id: InstructionId) -> i64 {
    let is_array = graph.opcode(id) == Opcode::Constant && !is_scalar(graph, id);
    if graph.opcode(id) == Opcode::Parameter || is_array { 0 } else { graph.operands(id).len() as i64 - 1 }
}

/// The dimensions of its operands along which arrays may be joined.
fn passed(graph: &Graph, id: InstructionId, joined: &[usize]) -> Vec<usize> {
    match graph.opcode(id) {
        Opcode::Transpose => {
            let from = graph.inst(id).ints(&AttrKey::Dimensions);
            joined.iter().filter_map(|&dim| usize::try_from(*from.get(dim)?).ok()).collect()
        }
        Opcode::Reshape | Opcode::Bitcast => {
            let arrays = [graph.operand(id, 0), id].map(|id| graph.array(id));
            let [Some(from), Some(to)] = arrays else { return Vec::new() };
            let same = unmodified_by_reshape(&from.dims, &to.dims);
            let of_operand =
                |dim: usize| same.iter().find(|pair| usize::try_from(pair.1) == Ok(dim)).map(|pair| pair.0);
            joined.iter().filter_map(|&dim| usize::try_from(of_operand(dim)?).ok()).collect()
        }
        opcode if opcode.is_elementwise() => joined.to_vec(),
        _ => Vec::new(),
    }
}

/// Whether a kernel computes a value from which its product's operand follows.
fn is_made(graph: &Graph, id: InstructionId, joined: &[usize]) -> bool {
    use Opcode as O;
    let is_cut = |user| matches!(graph.opcode(user), O::Concatenate | O::DynamicSlice);
    match graph.opcode(id) {
        O::Constant => is_scalar(graph, id),
        O::Parameter => false,
        _ if graph.is_root(id) || graph.each_user(id).any(is_cut) => false,
        O::Bitcast | O::Reshape | O::Transpose | O::Copy | O::Slice | O::Broadcast => {
            is_type_known(graph, id) && is_input_worth(graph, id)
        }
        O::Concatenate => is_joined_in_pieces(graph, id, joined) && is_input_worth(graph, id),
        _ => is_elementwise(graph, id) && (is_scaled(graph, id) || is_input_worth(graph, id)),
    }
}

fn is_joined_in_pieces(graph: &Graph, id: InstructionId, joined: &[usize]) -> bool {
    let dim = graph.inst(id).ints(&AttrKey::Dimensions).first().and_then(|&dim| usize::try_from(dim).ok());
    let Some(dim) = dim.filter(|dim| joined == [*dim]) else { return false };
    let size = |operand| graph.array(operand).and_then(|array| array.dims.get(dim).copied());
    graph.operands(id).iter().all(|&operand| size(operand).is_some_and(|size| size % PIECE == 0))
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

/// Whether the generator of these kernels knows the type.
fn is_type_known(graph: &Graph, id: InstructionId) -> bool {
    use ElementType as E;
    traits::element_type(graph, id).is_some_and(|element| {
        matches!(element, E::F32 | E::F16 | E::Bf16 | E::F8e5m2 | E::F8e4m3fn | E::S32 | E::S16 | E::S8 | E::Pred)
    })
}
