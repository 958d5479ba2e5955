//! How the dimensions of a product's operand lie in a value that it is computed from, and whether a kernel can read them so.
//!
//! A kernel walks each dimension with one stride, however often that is cut and put together on the way. A transpose, a slice or a broadcast between two reshapes
//! may leave parts of a dimension that lie apart or in another order: what is behind it is stored then. The rows of a first operand without batches may lie in two places.
//!
//! Source: `DimensionOrder`, `GetRequirementsIfSupportedOrder` and `GetPropagatedDimOrders` (xla/service/gpu/triton_tiling_propagation.cc).

// Tests: `memory/tests/product_kernels.rs`.

use hlo_ir::{ArrayShape, AttrKey, DotDims, InstructionId, Opcode};

use super::super::super::graph::Graph;

/// Columns are joined in pieces of so many (`kMinConcatFragmentSize`).
const PIECE: i64 = 64;

/// Dimensions of an operand: what a product sums over, its batches, and what is left; of a result its columns, batches and rows. Several of a kind are one to a kernel.
const SUMMED: usize = 0;
const COLUMNS: usize = 0;
const BATCH: usize = 1;
const FREE: usize = 2;

/// A part of a dimension of the operand.
#[derive(Clone, Copy)]
struct Part {
    dim: usize,
    /// Elements, and those of them that are read.
    size: i64,
    read: i64,
}

impl Part {
    fn whole(dim: usize, size: i64) -> Self {
        Self { dim, size, read: size }
    }
    fn is_sliced(self) -> bool {
        self.size != self.read
    }
}

/// The parts that lie in a value.
#[derive(Clone)]
pub(super) struct Order {
    /// From the one whose elements are neighbors on.
    parts: Vec<Part>,
    /// Those of each dimension, from the one that counts fastest on.
    of_dim: Vec<Vec<usize>>,
    /// Whether the free dimension may lie in two places.
    is_splittable: bool,
}

impl Order {
    /// The operand itself.
    pub(super) fn of_operand(graph: &Graph, product: InstructionId, number: usize) -> Option<Self> {
        let dims = DotDims::of(graph.inst(product))?;
        let array = graph.array(graph.operand(product, number))?;
        let (summed, batch) =
            if number == 0 { (dims.lhs_contracting, dims.lhs_batch) } else { (dims.rhs_contracting, dims.rhs_batch) };
        let label = |dim: i64| match () {
            () if summed.contains(&dim) => SUMMED,
            () if batch.contains(&dim) => BATCH,
            () => FREE,
        };
        let order = Self::of_array(array, label, number == 0 && batch.is_empty());
        order.second_place().is_some().then_some(order)
    }

    /// The result of a product, of whose first operand the free dimension has such a second place.
    pub(super) fn of_result(graph: &Graph, product: InstructionId, second: i64) -> Option<Self> {
        let dims = DotDims::of(graph.inst(product))?;
        let batches = dims.lhs_batch.len();
        let rows = graph.array(graph.operand(product, 0))?.rank() - dims.lhs_contracting.len();
        let label = |dim: i64| match dim as usize {
            dim if dim < batches => BATCH,
            dim if dim < rows => FREE,
            _ => COLUMNS,
        };
        Some(Self::of_array(graph.array(product)?, label, second > 1))
    }

    /// Each dimension of an array is a part of the one that `label` says.
    fn of_array(array: &ArrayShape, label: impl Fn(i64) -> usize, is_splittable: bool) -> Self {
        let order = array.minor_to_major();
        let parts = order.iter().map(|&dim| Part::whole(label(dim), array.dims[dim as usize])).collect();
        let mut of_dim = vec![Vec::new(); 3];
        for dim in (0..array.rank() as i64).rev() {
            of_dim[label(dim)].extend(order.iter().position(|&other| other == dim));
        }
        Self { parts, of_dim, is_splittable }
    }

    /// How they lie in `id`, which reads the value that they lie in; `None` if no kernel writes them so.
    pub(super) fn of_reader(&self, graph: &Graph, id: InstructionId, second: i64) -> Option<Self> {
        let (from, to) = (graph.array(graph.operand(id, 0))?, graph.array(id)?);
        let order = match graph.opcode(id) {
            Opcode::Bitcast | Opcode::Reshape => self.behind_reshape(to)?,
            Opcode::Transpose => {
                let groups = self.grouped(from)?;
                let dims = graph.inst(id).ints(&AttrKey::Dimensions);
                self.moved(to, &dims.iter().map(|&dim| self.with_parts(&groups[dim as usize])).collect::<Vec<_>>()).0
            }
            Opcode::Copy => {
                let groups = self.grouped(from)?;
                self.moved(to, &groups.iter().map(|group| self.with_parts(group)).collect::<Vec<_>>()).0
            }
            _ => self.clone(),
        };
        Self::agreed(std::slice::from_ref(&order), second).map(|_| order)
    }

    /// How they lie in each operand of `id`, in which they lie so; `None` if no kernel reads them there.
    pub(super) fn of_operands(&self, graph: &Graph, id: InstructionId) -> Option<Vec<Self>> {
        let operands = graph.operands(id).iter();
        let all: Vec<Self> = match graph.opcode(id) {
            Opcode::Bitcast | Opcode::Reshape => vec![self.behind_reshape(graph.array(graph.operand(id, 0))?)?],
            Opcode::Transpose | Opcode::Broadcast | Opcode::Slice | Opcode::Copy => {
                vec![self.behind_moved(graph, id)?]
            }
            Opcode::Concatenate => self.behind_joined(graph, id)?,
            _ => operands.map(|_| self.clone()).collect(),
        };
        all.iter().all(|order| order.second_place().is_some()).then_some(all)
    }

    /// Elements of the free dimension that lie together at its second place, 1 if all lie together: all orders that have such a place have to agree.
    pub(super) fn agreed(orders: &[Self], before: i64) -> Option<i64> {
        orders.iter().try_fold(before, |agreed, order| match order.second_place()? {
            1 => Some(agreed),
            size => (agreed == 1 || agreed == size).then_some(size),
        })
    }

    /// The same of this order; `None` if parts of a dimension lie where no kernel reads them.
    fn second_place(&self) -> Option<i64> {
        let mut second = 1;
        for (dim, of_dim) in self.of_dim.iter().enumerate() {
            if of_dim.iter().rev().skip(1).any(|&at| self.parts[at].is_sliced()) {
                return None;
            }
            let groups = of_dim.chunk_by(|at, next| *next == at + 1);
            let sizes = groups.map(|group| (group, group.iter().map(|&at| self.parts[at].size).product::<i64>()));
            let groups: Vec<_> = sizes.filter(|(_, size)| *size != 1).collect();
            let is_in_order = groups.is_sorted_by_key(|(group, _)| group.last());
            match &groups[..] {
                _ if !is_in_order => return None,
                [] | [_] => {}
                [_, (_, size)] if dim == FREE && self.is_splittable => second = *size,
                _ => return None,
            }
        }
        Some(second)
    }

    /// Numbers of the parts of each dimension of a value, by the number of that dimension.
    fn grouped(&self, array: &ArrayShape) -> Option<Vec<Vec<usize>>> {
        if self.parts.len() < array.rank() {
            return None;
        }
        let (mut groups, mut parts) = (vec![Vec::new(); array.rank()], self.parts.iter().enumerate());
        for &dim in &array.minor_to_major() {
            let (size, mut have) = (array.dims[dim as usize], 1);
            while have < size || groups[dim as usize].is_empty() {
                let (at, part) = parts.next()?;
                have *= part.size;
                groups[dim as usize].push(at);
            }
            if have != size {
                return None;
            }
        }
        Some(groups)
    }

    /// The parts `to` of another value, by its dimensions: each with the number of the part that it comes from.
    fn moved(&self, array: &ArrayShape, to: &[Vec<(usize, Part)>]) -> (Self, Vec<Option<usize>>) {
        let (mut parts, mut places) = (Vec::new(), vec![None; self.parts.len()]);
        for &(from, part) in array.minor_to_major().iter().flat_map(|&dim| &to[dim as usize]) {
            places[from] = Some(parts.len());
            parts.push(part);
        }
        let of_dim = self.of_dim.iter().map(|of_dim| of_dim.iter().filter_map(|&at| places[at]).collect()).collect();
        (Self { parts, of_dim, ..*self }, places)
    }

    fn with_parts(&self, group: &[usize]) -> Vec<(usize, Part)> {
        group.iter().map(|&at| (at, self.parts[at])).collect()
    }

    fn behind_moved(&self, graph: &Graph, id: InstructionId) -> Option<Self> {
        let (from, to) = (graph.array(id)?, graph.array(graph.operand(id, 0))?);
        let groups = self.grouped(from)?;
        let dims = || graph.inst(id).ints(&AttrKey::Dimensions);
        let mut moved = vec![Vec::new(); to.rank()];
        match graph.opcode(id) {
            Opcode::Transpose => {
                for (group, &dim) in groups.iter().zip(dims().iter()) {
                    moved[dim as usize] = self.with_parts(group);
                }
            }
            Opcode::Broadcast => {
                for (dim, &at) in dims().iter().enumerate() {
                    moved[dim] = self.with_parts(&groups[at as usize]);
                }
            }
            _ => {
                for (dim, group) in groups.iter().enumerate() {
                    moved[dim] = self.with_parts(group);
                    if to.dims[dim] != from.dims[dim] {
                        let [(_, part)] = &mut moved[dim][..] else { return None };
                        part.size = to.dims[dim];
                    }
                }
            }
        }
        let (order, places) = self.moved(to, &moved);
        // What is repeated along a part of a dimension of which another part stays has no stride.
        let is_broken = self.of_dim.iter().zip(&order.of_dim).any(|(before, after)| {
            let is_gone = before.iter().any(|&at| places[at].is_none() && self.parts[at].size > 1);
            is_gone && after.iter().any(|&at| order.parts[at].size > 1)
        });
        (!is_broken).then_some(order)
    }

    fn behind_joined(&self, graph: &Graph, id: InstructionId) -> Option<Vec<Self>> {
        let from = graph.array(id)?;
        let groups = self.grouped(from)?;
        let joined = usize::try_from(*graph.inst(id).ints(&AttrKey::Dimensions).first()?).ok()?;
        let [at] = groups[joined][..] else { return None };
        let is_free = self.parts[at].dim == FREE && self.of_dim[FREE].len() == 1;
        if !is_free {
            return None;
        }
        let operands = graph.operands(id).iter().map(|&operand| {
            let array = graph.array(operand)?;
            let part = Part::whole(FREE, array.dims[joined]);
            let of = |(dim, group): (usize, &Vec<usize>)| {
                group.iter().map(|&at| (at, if dim == joined { part } else { self.parts[at] })).collect()
            };
            let parts: Vec<Vec<_>> = groups.iter().enumerate().map(of).collect();
            (part.size % PIECE == 0).then(|| self.moved(array, &parts).0)
        });
        operands.collect()
    }

    /// Whether a reshape that cuts dimensions of `id` and puts others together stands between it and the product: XLA:GPU moves it past all but concatenations
    /// and slices, and finds no tiles otherwise.
    ///
    /// Source: `HoistFusedBitcasts` (xla/backends/gpu/transforms/hoist_fused_bitcasts.cc), by XLA's modules.
    pub(super) fn is_woven(&self, graph: &Graph, id: InstructionId) -> bool {
        let groups = graph.array(id).and_then(|array| self.grouped(array)).unwrap_or_default();
        let is_long = |at: &&usize| self.parts[**at].size > 1;
        let long: Vec<Vec<usize>> =
            groups.iter().map(|group| group.iter().filter(is_long).copied().collect()).collect();
        let is_elsewhere = |group: &[usize], at: usize| {
            self.of_dim[self.parts[at].dim].iter().filter(is_long).any(|other| !group.contains(other))
        };
        let is_both = |group: &Vec<usize>| group.len() > 1 && group.iter().any(|&at| is_elsewhere(group, at));
        matches!(graph.opcode(id), Opcode::Concatenate | Opcode::Slice) && long.iter().any(is_both)
    }

    /// How they lie in an array with the same elements in the same order.
    fn behind_reshape(&self, to: &ArrayShape) -> Option<Self> {
        let mut dims = to.minor_to_major().iter().map(|&dim| to.dims[dim as usize]).collect::<Vec<_>>().into_iter();
        let (mut parts, mut made) = (Vec::new(), vec![Vec::new(); self.parts.len()]);
        // What is left of a dimension of the array.
        let mut room = 1;
        for (at, &part) in self.parts.iter().enumerate() {
            let mut add = |part: Part| {
                made[at].push(parts.len());
                parts.push(part);
            };
            if room >= part.size {
                if room % part.size != 0 {
                    return None;
                }
                add(part);
                room /= part.size;
                continue;
            }
            let mut left = part.size;
            while left > 1 {
                if room == 1 {
                    room = dims.next()?;
                }
                let size = room.min(left);
                if room % size != 0 || left % size != 0 {
                    return None;
                }
                add(Part::whole(part.dim, size));
                (room, left) = (room / size, left / size);
            }
        }
        for size in dims {
            let (1, Some(last)) = (size, parts.last().copied()) else { return None };
            made.last_mut()?.push(parts.len());
            parts.push(Part::whole(last.dim, 1));
        }
        let of_dim =
            self.of_dim.iter().map(|of_dim| of_dim.iter().flat_map(|&at| made[at].iter().copied()).collect()).collect();
        Some(Self { parts, of_dim, ..*self })
    }
}
