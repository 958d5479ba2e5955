//! Shares in another sharding: the communication between devices, and constants made as each reader wants them.
//!
//! Source: `PartitionedHlo::Reshard` (xla/service/spmd/spmd_partitioner.cc).

use hlo_ir::shape::ArrayShape;
use hlo_ir::{AttrKey, Attribute, ElementType, Opcode};
use smol_str::SmolStr;

use super::factors;
use super::partition::Partitioner;
use super::sharding::Sharding;
use super::values::World;
use crate::cpu::front::build::{dimensions, row_major, share};
use crate::cpu::front::cx::Id;
use crate::cpu::front::value::Scalar;

impl Partitioner<'_, '_> {
    /// The share of an array of the old program that a reader wants.
    pub(super) fn resharded(&mut self, operand: Id, wanted: &Sharding) -> Option<Id> {
        let source = World::source(self.cx, operand);
        if self.world.is_free(self.cx, source) {
            return self.made_as(source, wanted);
        }
        let local = self.local(operand)?;
        if self.cx.array(operand).is_none() {
            return Some(local);
        }
        let (array, have) = (self.cx.arr(operand), self.sharding(operand));
        self.moved(local, &array, &have, wanted)
    }

    /// A constant expression, of which each device computes only its part.
    fn made_as(&mut self, id: Id, wanted: &Sharding) -> Option<Id> {
        if let Some(&made) = self.scope.made.get(&(id, wanted.clone())) {
            return Some(made);
        }
        let factors = factors::of(self.cx, id);
        let divides = |dim: usize| !wanted.dims()[dim].is_empty();
        let constant = self.cx.is_constant(id);
        let iota = self.cx.inst(id).int(&AttrKey::IotaDimension);
        if constant && !wanted.is_whole() {
            let whole = self.made_as(id, &Sharding::whole(self.cx.rank(id)))?;
            return self.own_part(whole, &self.cx.arr(id), &Sharding::whole(self.cx.rank(id)), wanted);
        }
        let plain = |dim: usize| factors.iter().any(|f| f.result == Some(dim) && f.kind == factors::Kind::Along);
        if !constant && (0..self.cx.rank(id)).filter(|&dim| divides(dim)).any(|dim| !plain(dim)) {
            return None;
        }
        let mut operands = Vec::new();
        for (number, operand) in self.cx.operands(id).to_vec().into_iter().enumerate() {
            let mut dims = vec![Vec::new(); self.cx.rank(operand)];
            for factor in &factors {
                let at = factor.operands.iter().find(|pair| pair.0 == number);
                if let (Some(&(_, dim)), Some(result)) = (at, factor.result) {
                    dims[dim].clone_from(&wanted.dims()[result]);
                }
            }
            operands.push(self.resharded(operand, &Sharding::of(dims))?);
        }
        let shape = self.mesh.share_of_shape(self.cx.shape(id), wanted)?;
        let offset = iota.is_some_and(|dim| divides(dim as usize));
        let mut new = self.like(id, shape, &operands);
        self.localize(id, new);
        if offset {
            new = self.offset_iota(new);
        }
        self.scope.made.insert((id, wanted.clone()), new);
        Some(new)
    }

    /// Positions in the whole array from those in the share.
    ///
    /// Source: `SpmdPartitioningVisitor::HandleIota`.
    fn offset_iota(&mut self, local: Id) -> Id {
        let element_type = self.cx.element_type(local);
        let device = self.add(row_major(ElementType::U32, []), Opcode::PartitionId, &[], Vec::new());
        let start = self.add(row_major(element_type, []), Opcode::Convert, &[device], Vec::new());
        let shape = self.cx.shape(local).clone();
        let start = self.add(shape.clone(), Opcode::Broadcast, &[start], vec![dimensions([])]);
        self.add(shape, Opcode::Add, &[local, start], Vec::new())
    }

    /// A share of an array in another sharding.
    pub(super) fn moved(&mut self, local: Id, array: &ArrayShape, have: &Sharding, wanted: &Sharding) -> Option<Id> {
        if have == wanted {
            return Some(local);
        }
        if let Some(&made) = self.scope.made.get(&(local, wanted.clone())) {
            return Some(made);
        }
        let (mut now, mut at) = (local, have.clone());
        let (lost, gained): (Vec<usize>, Vec<usize>) = changes(have, wanted)?;
        match (&lost[..], &gained[..]) {
            (&[from], &[to]) if have.dims()[from] == wanted.dims()[to] => {
                if array.dims[from] % self.mesh.pieces(&have.dims()[from])? != 0 {
                    return None;
                }
                now = self.exchanged(now, from, to, array);
            }
            (_, []) => {
                for &dim in &lost {
                    (now, at) = self.gathered(now, array, &at, dim)?;
                }
            }
            ([], _) => now = self.own_part(now, array, have, wanted)?,
            _ => return None,
        }
        self.scope.made.insert((local, wanted.clone()), now);
        Some(now)
    }

    /// All parts along one dimension; padding goes.
    fn gathered(&mut self, local: Id, array: &ArrayShape, have: &Sharding, dim: usize) -> Option<(Id, Sharding)> {
        let pieces = self.mesh.pieces(&have.dims()[dim])?;
        let mut now = self.cx.arr(local);
        now.dims[dim] *= pieces;
        let attributes = vec![dimensions([dim as i64]), channel()];
        let mut all = self.add(share(now.clone()), Opcode::AllGather, &[local], attributes);
        if now.dims[dim] != array.dims[dim] {
            now.dims[dim] = array.dims[dim];
            let bounds = now.dims.iter().map(|&limit| hlo_ir::attribute::SliceDim { start: 0, limit, stride: 1 });
            let bounds = hlo_ir::AttrValue::Slice(bounds.collect::<Vec<_>>().into());
            all = self.add(share(now), Opcode::Slice, &[all], vec![Attribute::new(AttrKey::Slice, bounds)]);
        }
        let mut dims: Vec<Vec<SmolStr>> = have.dims().to_vec();
        dims[dim].clear();
        Some((all, Sharding::of(dims)))
    }

    /// The part of an array that belongs to the device, of dimensions that were not divided before.
    fn own_part(&mut self, now: Id, array: &ArrayShape, have: &Sharding, wanted: &Sharding) -> Option<Id> {
        let sizes = self.mesh.share_of(array, wanted)?.dims;
        let is_cut = |dim: usize| have.dims()[dim] != wanted.dims()[dim];
        for dim in (0..sizes.len()).filter(|&dim| is_cut(dim)) {
            if array.dims[dim] % self.mesh.pieces(&wanted.dims()[dim])? != 0 {
                return None;
            }
        }
        let shape = share(ArrayShape { dims: sizes.clone(), ..self.cx.arr(now) });
        let device = self.add(row_major(ElementType::U32, []), Opcode::PartitionId, &[], Vec::new());
        let start = self.add(row_major(ElementType::S32, []), Opcode::Convert, &[device], Vec::new());
        let zero = self.cx.constant(start, ElementType::S32, Scalar::of(ElementType::S32, 0.0));
        let starts = (0..sizes.len()).map(|dim| if is_cut(dim) { start } else { zero });
        let operands: Vec<Id> = std::iter::once(now).chain(starts).collect();
        Some(self.add(shape, Opcode::DynamicSlice, &operands, vec![Attribute::ints(AttrKey::DynamicSliceSizes, sizes)]))
    }

    /// Every device gives each other one its part along `to` and gets theirs along `from`.
    fn exchanged(&mut self, local: Id, from: usize, to: usize, whole: &ArrayShape) -> Id {
        let (array, full) = (self.cx.arr(local), &whole.dims);
        let pieces = full[from] / array.dims[from].max(1);
        let mut dims = array.dims.to_vec();
        dims[to] /= pieces.max(1);
        let result = dims.iter().enumerate().map(|(dim, &size)| if dim == from { full[from] } else { size });
        let shape = row_major(array.element_type, result);
        dims.insert(to, pieces);
        let split = row_major(array.element_type, dims.iter().copied());
        let parts = self.add(split.clone(), Opcode::Reshape, &[local], Vec::new());
        let parts = self.add(split, Opcode::AllToAll, &[parts], vec![dimensions([to as i64]), channel()]);
        let from = if from > to { from + 1 } else { from };
        let mut order: Vec<i64> = (0..dims.len() as i64).filter(|&dim| dim != to as i64).collect();
        let place = order.iter().position(|&dim| dim == from as i64).unwrap_or(0);
        order.insert(place, to as i64);
        let turned = self.cx.transpose(parts, parts, &order);
        self.add(shape, Opcode::Reshape, &[turned], Vec::new())
    }
}

/// Dimensions that are no longer divided, and those that are now. `None` if one is divided otherwise.
fn changes(have: &Sharding, wanted: &Sharding) -> Option<(Vec<usize>, Vec<usize>)> {
    let (mut lost, mut gained) = (Vec::new(), Vec::new());
    for (dim, (from, to)) in have.dims().iter().zip(wanted.dims()).enumerate() {
        match (from.is_empty(), to.is_empty()) {
            _ if from == to => {}
            (false, true) => lost.push(dim),
            (true, false) => gained.push(dim),
            _ => return None,
        }
    }
    Some((lost, gained))
}

/// Collectives between partitions have a channel.
pub(super) fn channel() -> Attribute {
    Attribute::int(AttrKey::ChannelId, 1)
}
