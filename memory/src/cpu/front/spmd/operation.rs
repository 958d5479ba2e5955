//! One instruction on shares: what it reads, what each device computes, and the sums over devices.
//!
//! Source: `SpmdPartitioningVisitor` (xla/service/spmd/spmd_partitioner.cc, dot_handler.cc, gather_scatter_handler.cc).

use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, Opcode, Payload};
use smol_str::{SmolStr, format_smolstr};

use super::factors;
use super::partition::Partitioner;
use super::plan::{Plan, Planner};
use super::reshard::channel;
use super::sharding::Sharding;
use super::values::{Value, World, leaves};
use crate::cpu::front::build::{apply, dimensions, row_major};
use crate::cpu::front::cx::Id;

impl Partitioner<'_, '_> {
    /// An instruction on shares where its factors allow that, else on whole arrays.
    pub(super) fn operation(&mut self, id: Id) -> Option<Id> {
        let out = self.shardings.get(self.cx, Value::Of(id, 0));
        let count = leaves(self.cx, id);
        if (1..count).any(|leaf| self.shardings.get(self.cx, Value::Of(id, leaf)) != out) {
            return None;
        }
        if let Some(local) = self.first_element(id, &out) {
            return Some(local);
        }
        let plan = self.plan(id, &out)?;
        let mut operands = Vec::new();
        for (&operand, wanted) in self.cx.operands(id).to_vec().iter().zip(plan.wanted) {
            operands.push(self.resharded(operand, &Sharding::of(wanted))?);
        }
        let computed = Sharding::of(plan.result);
        let local = match (plan.partial.is_empty(), self.cx.opcode(id)) {
            (false, Opcode::Gather) => {
                let local = self.own_rows(id, operands[0], operands[1], &computed, &plan.rows)?;
                self.summed_rows(local, &plan.partial)
            }
            (false, Opcode::Reduce) if count > 1 => {
                let local = self.computed(id, &operands, &computed)?;
                self.reduced_again(id, local, &operands[count..], &plan.partial)?
            }
            (partial, _) => {
                let local = self.computed(id, &operands, &computed)?;
                if partial { local } else { self.summed(id, local, &plan.partial)? }
            }
        };
        if computed == out {
            return Some(local);
        }
        let array = self.cx.array(id)?.clone();
        self.moved(local, &array, &computed, &out)
    }

    /// The first element along every dimension that is divided: one device has it. Where all want it, they get it by a sum with zeros.
    ///
    /// Source: `SpmdPartitioningVisitor::HandleSlice`.
    fn first_element(&mut self, id: Id, out: &Sharding) -> Option<Id> {
        let Some(AttrValue::Slice(bounds)) = self.cx.inst(id).attribute(&AttrKey::Slice) else { return None };
        let is_first: Vec<bool> = bounds.iter().map(|dim| (dim.start, dim.limit) == (0, 1)).collect();
        let operand = self.cx.operand(id, 0);
        let have = self.sharding(operand);
        let cut: Vec<usize> = (0..have.dims().len()).filter(|&dim| !have.dims()[dim].is_empty()).collect();
        let (stays, is_whole) = (out.dims() == have.dims(), out.dims().iter().all(Vec::is_empty));
        if self.cx.opcode(id) != Opcode::Slice
            || !(stays || is_whole)
            || cut.is_empty()
            || !cut.iter().all(|&dim| is_first[dim])
        {
            return None;
        }
        let axes: Vec<SmolStr> = cut.iter().flat_map(|&dim| have.dims()[dim].clone()).collect();
        let part = self.resharded(operand, &have)?;
        let shape = self.cx.shape(id).clone();
        let local = self.like(id, shape, &[part]);
        Some(if stays { local } else { self.summed_rows(local, &axes) })
    }

    /// The instruction itself on shares.
    fn computed(&mut self, id: Id, operands: &[Id], sharding: &Sharding) -> Option<Id> {
        let shape = match self.cx.shape(id).as_tuple() {
            None => self.mesh.share_of_shape(self.cx.shape(id), sharding)?,
            Some(elements) => hlo_ir::Shape::tuple(
                elements.iter().map(|shape| self.mesh.share_of_shape(shape, sharding)).collect::<Option<Vec<_>>>()?,
            ),
        };
        let local = self.like(id, shape, operands);
        self.localize(id, local);
        Some(local)
    }

    fn plan(&self, id: Id, out: &Sharding) -> Option<Plan> {
        let operands = self.cx.operands(id);
        let ranks = operands.iter().map(|&operand| self.cx.rank(operand)).collect();
        let empty = Plan::whole(ranks, factors::result_dims(self.cx, id).len());
        if !self.is_divided_around(id) {
            return Some(empty);
        }
        let have = |&operand: &Id| {
            let free = self.world.is_free(self.cx, World::source(self.cx, operand));
            (!free).then(|| self.sharding(operand).dims().to_vec())
        };
        let factors = factors::of(self.cx, id);
        let have = operands.iter().map(have).collect();
        Planner { opcode: self.cx.opcode(id), mesh: &self.mesh, factors: &factors, have, out: out.dims() }.plan(empty)
    }

    /// Attributes that name sizes name those of the share.
    pub(super) fn localize(&mut self, old: Id, new: Id) {
        let (whole, part) = (self.cx.dims(old), self.cx.dims(new));
        match (self.cx.opcode(new), self.cx.inst(new).attribute(&AttrKey::Slice).cloned()) {
            (Opcode::Slice, Some(AttrValue::Slice(mut bounds))) => {
                for dim in (0..whole.len()).filter(|&dim| whole[dim] != part[dim]) {
                    bounds[dim].limit = part[dim];
                }
                self.cx.set_attribute(new, AttrKey::Slice, AttrValue::Slice(bounds));
            }
            (Opcode::DynamicSlice, _) => {
                self.cx.set_attribute(new, AttrKey::DynamicSliceSizes, AttrValue::ints(part));
            }
            (Opcode::Gather, _) => {
                let (operand, before) = (self.cx.dims(self.cx.operand(new, 0)), self.cx.dims(self.cx.operand(old, 0)));
                let sizes = self.cx.inst(new).ints(&AttrKey::SliceSizes).iter().enumerate();
                let whole = |dim: usize, size: i64| size == before[dim] && operand[dim] != before[dim];
                let sizes =
                    AttrValue::ints(sizes.map(|(dim, &size)| if whole(dim, size) { operand[dim] } else { size }));
                self.cx.set_attribute(new, AttrKey::SliceSizes, sizes);
            }
            _ => {}
        }
    }

    /// Several results are reduced once more, over the parts of all devices.
    ///
    /// Source: `SpmdPartitioningVisitor::HandleReduce`.
    fn reduced_again(&mut self, id: Id, local: Id, starts: &[Id], axes: &[SmolStr]) -> Option<Id> {
        let (pieces, mut all) = (self.mesh.pieces(axes)?, Vec::new());
        for at in 0..starts.len() {
            let part = self.cx.element(local, local, at as i64);
            let array = self.cx.arr(part);
            let sizes = |first: i64| std::iter::once(first).chain(array.dims.iter().copied());
            let one = self.add(row_major(array.element_type, sizes(1)), Opcode::Reshape, &[part], Vec::new());
            let attributes = vec![dimensions([0]), channel()];
            all.push(self.add(row_major(array.element_type, sizes(pieces)), Opcode::AllGather, &[one], attributes));
        }
        all.extend(starts);
        let reducer = self.cx.to_apply(id)?;
        let reducer = self.cx.deep_clone(reducer);
        let shape = self.cx.shape(local).clone();
        Some(self.add(shape, Opcode::Reduce, &all, vec![dimensions([0]), apply(reducer)]))
    }

    /// Adds the parts that the devices computed.
    fn summed(&mut self, old: Id, local: Id, axes: &[SmolStr]) -> Option<Id> {
        let sum = match self.cx.opcode(old) {
            Opcode::Dot => self.reducer(Opcode::Add, self.cx.element_type(old)),
            Opcode::Reduce | Opcode::Scatter if self.cx.array(old).is_some() => {
                let reducer = self.cx.to_apply(old)?;
                self.cx.deep_clone(reducer)
            }
            _ => return None,
        };
        Some(self.all_reduced(local, sum, axes))
    }

    /// The sum over the devices along some axes.
    pub(super) fn all_reduced(&mut self, local: Id, sum: ComputationId, axes: &[SmolStr]) -> Id {
        let shape = self.cx.shape(local).clone();
        let groups = Attribute::new(AttrKey::ReplicaGroups, AttrValue::Raw(format_smolstr!("{{{}}}", axes.join(","))));
        self.add(shape, Opcode::AllReduce, &[local], vec![channel(), groups, apply(sum)])
    }

    /// A computation that combines two numbers.
    pub(super) fn reducer(&mut self, opcode: Opcode, element_type: ElementType) -> ComputationId {
        let sum = self.cx.add_computation(opcode.name());
        let shape = row_major(element_type, []);
        let parameter = |number| {
            Instruction::new("x", shape.clone(), Opcode::Parameter, []).with_payload(Payload::Parameter(number))
        };
        let (x, y) = (self.cx.add(sum, parameter(0)), self.cx.add(sum, parameter(1)));
        let root = self.cx.add(sum, Instruction::new(opcode.name(), shape, opcode, [x, y]));
        self.cx.set_root(root);
        sum
    }
}
