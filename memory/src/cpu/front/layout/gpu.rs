//! What XLA:GPU wants: convolutions as cuDNN computes them, products whose dimensions lie together, sorts, largest elements, transforms and what goes to the host row-major. All else takes the layout that
//! reaches it first, from what feeds it or from what reads it.
//!
//! Source: `GpuLayoutAssignment` (xla/service/gpu/transforms/layout_assignment.cc), `MatrixLayout` (xla/service/gpu/matmul_utils.cc),
//! `LayoutAssignment::PropagateBufferConstraintToOperands`, `PropagateBufferConstraintToUses`, `ChooseOperandLayoutFromOutputLayout`
//! (xla/service/layout_assignment.cc), `IsUnnestedReductionFasterThanElemental` (xla/service/gpu/reduction_utils.cc).

// Tests: `memory/tests/layouts.rs`.

use hlo_ir::host::HostMove;
use hlo_ir::shape::{ArrayShape, Dims, Layout};
use hlo_ir::{AttrKey, ComputationId, ConvDims, DotDims, Opcode};
use smallvec::smallvec;

use super::super::cx::{Cx, Id};
use super::super::dims::{align_layouts, reshape_is_bitcast, true_rank};
use super::super::expand::is_kernel_gradient;
use super::cpu::outermost_first;
use super::order::Order;
use super::points::{Buffer, Points};
use super::rules::{Force, Rules, row_major_layouts};
use super::spread::{changes_layout, spreads_first};

/// Threads of a warp: a reduction over fewer numbers gains nothing from their lying in a row (measured: 24 numbers do not ask for it, 32 do).
const WARP: i64 = 32;

impl Rules<'_, '_> {
    /// Adds the rules of a computation. Those that come last are spread first: the earliest convolution.
    pub(super) fn add_gpu(&mut self, computation: ComputationId) {
        let cx = self.cx;
        // XLA gives arrays whose rows are gathered the layout of the gathered rows, and copies them. `layout-constraints` spares that wherever something is rewritten, so it is left out.
        let exchanges =
            cx.has_seen_in(computation, Opcode::AllGather) || cx.has_seen_in(computation, Opcode::ReduceScatter);
        for id in cx.post_order(computation).into_iter().rev() {
            match cx.opcode(id) {
                Opcode::Convolution => self.add_convolution(id),
                Opcode::Dot => self.add_dot(id),
                Opcode::Transpose => self.add_transposed_product(id),
                Opcode::Fft => self.add_rows(id),
                Opcode::Sort if cx.rank(cx.operand(id, 0)) > 1 => self.add_rows(id),
                Opcode::CustomCall if is_top_k(cx, id) || HostMove::of(cx.inst(id)).is_some() => self.add_rows(id),
                Opcode::TriangularSolve => self.add_columns(id),
                Opcode::DynamicSlice if exchanges && is_of_state(cx, cx.operand(id, 0)) => {
                    let rank = cx.rank(id);
                    self.want(id, 0, smallvec![Order::Rows(rank)], Force::MANDATORY);
                }
                Opcode::AllGather | Opcode::ReduceScatter => {
                    if let Some(layout) = outermost_first(cx, id) {
                        self.make_all(id, &[Order::of(&layout)]);
                    }
                }
                _ => {}
            }
        }
    }

    fn add_convolution(&mut self, id: Id) {
        let cx = self.cx;
        let Some(dims) = ConvDims::of(cx.inst(id)) else { return };
        let (left, right, result) = library_orders(cx, id, &dims);
        self.want(id, 0, smallvec![left], Force::MANDATORY);
        self.want(id, 1, smallvec![right], Force::MANDATORY);
        for slot in 2..cx.operands(id).len() {
            if cx.rank(cx.operand(id, slot)) == cx.rank(id) {
                self.want(id, slot, smallvec![result.clone()], Force::MANDATORY);
            }
        }
        self.make_all(id, &[result]);
    }

    fn add_dot(&mut self, id: Id) {
        let cx = self.cx;
        let Some(dims) = DotDims::of(cx.inst(id)) else { return };
        // `DotDecomposer` put the dimensions of operands in order: batches, one that is kept, one that is summed.
        let mut kept = [0, 0];
        for (slot, contracted) in [dims.lhs_contracting.len(), dims.rhs_contracting.len()].into_iter().enumerate() {
            let rank = cx.rank(cx.operand(id, slot));
            kept[slot] = rank.saturating_sub(dims.lhs_batch.len() + contracted);
            if !dims.lhs_batch.is_empty() || contracted > 1 || kept[slot] > 1 {
                self.want(id, slot, smallvec![Order::Rows(rank)], Force::MANDATORY);
            }
        }
        if !dims.lhs_batch.is_empty() || kept[0] > 1 || kept[1] > 1 {
            let order = self.asked_of_product(id).unwrap_or_else(|| Order::Rows(cx.rank(id)));
            self.make_all(id, &[order]);
        }
    }

    /// A layout that a reader wants already and in which a product can be made.
    fn asked_of_product(&self, id: Id) -> Option<Order> {
        let cx = self.cx;
        let asked = |user: Id| {
            let slots = cx.operands(user).iter().enumerate().filter(move |&(_, &operand)| operand == id);
            slots.filter_map(move |(slot, _)| self.wanting.of(user).get(slot)?.as_ref()?.layouts.first().cloned())
        };
        cx.users(id).into_iter().flat_map(asked).find(|order| takes(cx, id, order))
    }

    /// A product that is only transposed is made so that its transpose is row-major.
    fn add_transposed_product(&mut self, id: Id) {
        let cx = self.cx;
        let product = cx.operand(id, 0);
        if cx.opcode(product) != Opcode::Dot || cx.user_count(product) > 1 {
            return;
        }
        let order = Order::of(&cx.dimensions(id).iter().rev().copied().collect::<Dims>());
        if takes(cx, product, &order) {
            self.want(id, 0, smallvec![order], Force::MANDATORY);
        }
    }

    fn add_rows(&mut self, id: Id) {
        let cx = self.cx;
        for slot in 0..cx.operands(id).len() {
            if let Some(array) = cx.array(cx.operand(id, slot)) {
                self.want(id, slot, smallvec![Order::Rows(array.rank())], Force::MANDATORY);
            }
        }
        self.make_all(id, &row_major_layouts(cx.shape(id)));
    }

    /// Libraries solve triangles in the order of columns.
    fn add_columns(&mut self, id: Id) {
        let columns = |rank: usize| {
            let mut dims = Order::Rows(rank).dims();
            dims.swap(0, 1);
            Order::of(&dims)
        };
        for slot in 0..2 {
            let rank = self.cx.rank(self.cx.operand(id, slot));
            self.want(id, slot, smallvec![columns(rank)], Force::MANDATORY);
        }
        self.make_all(id, &[columns(self.cx.rank(id))]);
    }

    /// What is best for the operands of an instruction that may change layouts, if they are not asked for in another.
    pub(super) fn spread_to_operands(&mut self, buffer: Buffer, layout: &Order) {
        let (cx, id) = (self.cx, self.points.made[buffer].by);
        if cx.array(id).is_none() || !changes_layout(cx, id) {
            return;
        }
        for slot in 0..cx.operands(id).len() {
            if cx.array(cx.operand(id, slot)).is_some_and(|array| array.rank() > 1)
                && let Some(wanted) = operand_layout(cx, id, slot, &layout.dims())
            {
                let force = Force { mandatory: false, first: spreads_first(cx, id) };
                self.want(id, slot, smallvec![Order::of(&wanted)], force);
            }
        }
    }

    /// Readers of an array want it as it is, if they want it in no other layout.
    pub(super) fn spread_to_uses(&mut self, buffer: Buffer, layout: &Order) {
        let cx = self.cx;
        for value in self.points.values(buffer).to_vec() {
            for user in cx.users(value).into_iter().filter(|&user| !Points::forwards(cx, user)) {
                for slot in (0..cx.operands(user).len()).filter(|&slot| cx.operand(user, slot) == value) {
                    self.want(user, slot, smallvec![layout.clone()], Force::WISH);
                }
            }
        }
    }
}

fn is_top_k(cx: &Cx<'_>, id: Id) -> bool {
    cx.inst(id).raw(&AttrKey::CustomCallTarget) == Some("\"TopK\"")
}

/// Whether a value is an element of what a computation is given.
fn is_of_state(cx: &Cx<'_>, id: Id) -> bool {
    cx.of(id, Opcode::GetTupleElement).is_some_and(|state| cx.opcode(state) == Opcode::Parameter)
}

/// The orders of both operands and of the result in which cuDNN computes a convolution: features last, behind the dimensions of the image; kernels with the
/// features of the forward result first.
fn library_orders(cx: &Cx<'_>, id: Id, dims: &ConvDims) -> (Order, Order, Order) {
    let order = |first: usize, between: &[usize], last: usize| {
        let major = std::iter::once(first).chain(between.iter().copied()).chain([last]);
        Order::of(&major.map(|dim| dim as i64).rev().collect::<Dims>())
    };
    if is_kernel_gradient(cx, id, dims) {
        return (
            order(dims.input_feature, &dims.input_spatial, dims.input_batch),
            order(dims.kernel_input, &dims.kernel_spatial, dims.kernel_output),
            order(dims.output_feature, &dims.output_spatial, dims.output_batch),
        );
    }
    (
        order(dims.input_batch, &dims.input_spatial, dims.input_feature),
        // It was transposed for the library before.
        Order::Rows(cx.rank(cx.operand(id, 1))),
        order(dims.output_batch, &dims.output_spatial, dims.output_feature),
    )
}

/// Whether a product can be made in this order.
fn takes(cx: &Cx<'_>, id: Id, order: &Order) -> bool {
    let Some(dims) = DotDims::of(cx.inst(id)) else { return false };
    let batch = dims.lhs_batch.len();
    let rows = cx.rank(cx.operand(id, 0)).saturating_sub(batch + dims.lhs_contracting.len());
    let all: Dims = (0..cx.rank(id) as i64).collect();
    let (batch, rest) = all.split_at(batch);
    let (rows, columns) = rest.split_at(rows);
    is_matrix(&order.dims(), [batch, rows, columns])
}

/// Whether dimensions, the minor one first, are those of a batch of matrices: each group lies together in its order, and the batch is not the minor one.
fn is_matrix(minor_to_major: &[i64], groups: [&[i64]; 3]) -> bool {
    let mut left = minor_to_major;
    let mut is_first = true;
    while let Some(minor) = left.first() {
        let Some(place) = groups.iter().position(|group| group.last() == Some(minor)) else { return false };
        let group = groups[place];
        let extent = group.len().min(left.len());
        if (is_first && place == 0) || !left[..extent].iter().eq(group.iter().rev()) {
            return false;
        }
        (left, is_first) = (&left[extent..], false);
    }
    true
}

/// The layout of an operand that makes a reshape or a transpose free, or a reduction one of rows.
fn operand_layout(cx: &Cx<'_>, id: Id, slot: usize, layout: &Dims) -> Option<Dims> {
    let operand = cx.operand(id, slot);
    match cx.opcode(id) {
        Opcode::Reshape => aligned(&cx.arr(id), layout, &cx.arr(operand)),
        Opcode::Transpose => {
            let dims = cx.inst(id).ints(&AttrKey::Dimensions);
            Some(layout.iter().map(|&dim| dims[dim as usize]).collect())
        }
        Opcode::Reduce if slot == 0 => {
            let reduced = cx.dimensions(id);
            let sizes = cx.dims(operand);
            let length: i64 = reduced.iter().map(|&dim| sizes[dim as usize]).product();
            if length < WARP {
                return None;
            }
            let kept: Dims = (0..sizes.len() as i64).filter(|dim| !reduced.contains(dim)).collect();
            Some(reduced.iter().rev().copied().chain(layout.iter().map(|&dim| kept[dim as usize])).collect())
        }
        _ => None,
    }
}

/// The layout of the operand `to` of a reshape that makes `from` in this layout, and is free: row-major if that is one of them, which the other direction does not prefer.
fn aligned(from: &ArrayShape, layout: &Dims, to: &ArrayShape) -> Option<Dims> {
    if true_rank(from) == 1 && true_rank(to) == 1 {
        return None;
    }
    let with = |array: &ArrayShape, minor_to_major: Dims| {
        let layout = Layout { minor_to_major, suffix: "".into() };
        ArrayShape { layout: Some(layout), ..array.clone() }
    };
    let from = with(from, layout.clone());
    let rows: Dims = (0..to.rank() as i64).rev().collect();
    if reshape_is_bitcast(&from, &with(to, rows.clone())) { Some(rows) } else { align_layouts(&from, &to.dims) }
}
