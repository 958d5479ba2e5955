//! The program of one device: the entry computation on shares, with the communication between devices that it needs.
//!
//! Source: `SpmdPartitioningVisitor` (xla/service/spmd/spmd_partitioner.cc, dot_handler.cc, gather_scatter_handler.cc), which builds new
//! computations in the order in which it visits the old ones; `PartitionedHlo::Reshard`.

use hlo_ir::arena::SideTable;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, Opcode};
use smol_str::SmolStr;

use super::factors::{self, Factor};
use super::propagate::{Shardings, target};
use super::sharding::{self, Mesh, Sharding};
use crate::cpu::front::build::{apply, dimensions, row_major, share};
use crate::cpu::front::calls::visit_order;
use crate::cpu::front::cx::{Cx, Id};

/// Builds the entry computation of one device beside the old one. `None` if something in it is not modelled.
pub(super) fn run(cx: &mut Cx<'_>) -> Option<ComputationId> {
    let frontend = match hlo_ir::attribute::find(&cx.attributes, &AttrKey::FrontendAttributes) {
        Some(AttrValue::Raw(text)) => text.to_string(),
        _ => String::new(),
    };
    let entry = cx.entry();
    let shardings = Shardings::of(cx, entry)?;
    let name = cx.computation_name(entry).clone();
    let new = cx.add_computation(name);
    let mut work = Partitioner { cx, mesh: Mesh::read(&frontend), shardings, new, map: SideTable::new(None) };
    let root = work.entry(entry)?;
    work.cx.set_root(root);
    Some(new)
}

struct Partitioner<'c, 'g> {
    cx: &'c mut Cx<'g>,
    mesh: Mesh,
    shardings: Shardings,
    new: ComputationId,
    /// What stands for an instruction of the old entry on each device.
    map: SideTable<Id, Option<Id>>,
}

impl Partitioner<'_, '_> {
    /// All instructions in the order of XLA's visit; returns the new root.
    fn entry(&mut self, entry: ComputationId) -> Option<Id> {
        let root = self.cx.root(entry);
        let sinks: Vec<Id> = self.cx.list(entry).filter(|&id| self.cx.is_dead(id)).collect();
        let mut open = SideTable::new(false);
        for sink in sinks.into_iter().chain([root]) {
            let mut stack = vec![(sink, false)];
            while let Some((id, done)) = stack.pop() {
                if done {
                    let new = self.emit(id)?;
                    self.map.set(id, Some(new));
                } else if !std::mem::replace(&mut open[id], true) {
                    stack.push((id, true));
                    stack.extend(self.inputs(id).into_iter().rev().map(|input| (input, false)));
                }
            }
        }
        self.map[root]
    }

    /// The value that an element of a tuple stands for, where the tuple itself is no value on the devices.
    fn element(&self, id: Id) -> Option<(Id, usize)> {
        let tuple = self.cx.of(id, Opcode::GetTupleElement)?;
        let index = usize::try_from(self.cx.inst(id).int(&AttrKey::Index)?).ok()?;
        let through = self.cx.opcode(tuple) == Opcode::Tuple || is_boundary(self.cx, tuple);
        through.then_some((tuple, index))
    }

    /// What must be there before an instruction.
    fn inputs(&self, id: Id) -> Vec<Id> {
        match self.element(id) {
            Some((tuple, index)) => self.cx.operands(tuple).get(index).copied().into_iter().collect(),
            None => self.cx.operands(id).to_vec(),
        }
    }

    fn emit(&mut self, id: Id) -> Option<Id> {
        let (of, index) = self.element(id).unwrap_or((id, 0));
        match (self.cx.opcode(of), target(self.cx, of)) {
            (_, Some("xla.sdy.GlobalToLocalShape")) => {
                let wanted = sharding::all_in(self.cx.inst(of), "xla.sdy.in_shardings")?.get(index)?.clone();
                let operand = *self.cx.operands(of).get(index)?;
                let local = self.resharded(operand, &wanted)?;
                Some(self.copied_twice(local))
            }
            (_, Some("xla.sdy.LocalToGlobalShape")) => {
                let local = self.map[*self.cx.operands(of).get(index)?]?;
                Some(self.copied_twice(local))
            }
            (_, Some("xla.sdy.FuncResultSharding" | "Sharding")) => {
                let wanted = self.shardings.get(self.cx, id);
                self.resharded(self.cx.operand(id, 0), &wanted)
            }
            (Opcode::Tuple, _) if of != id => self.map[*self.cx.operands(of).get(index)?],
            (Opcode::Tuple, _) => {
                let elements: Vec<Id> = self.locals(id)?;
                let shape = hlo_ir::Shape::tuple(elements.iter().map(|&element| self.cx.shape(element).clone()));
                Some(self.like(id, shape, &elements))
            }
            (Opcode::Call | Opcode::While | Opcode::Conditional, _) => self.call(id),
            (Opcode::Parameter, _) => {
                let shape = self.share_of(id)?;
                Some(self.like(id, shape, &[]))
            }
            _ => self.operation(id),
        }
    }

    /// The share of an instruction's result.
    fn share_of(&self, id: Id) -> Option<ShapeRef> {
        self.mesh.share_of_shape(self.cx.shape(id), &self.shardings.get(self.cx, id))
    }

    /// A copy of an instruction in the new computation.
    fn like(&mut self, id: Id, shape: ShapeRef, operands: &[Id]) -> Id {
        let copy = self.cx.copy_to(self.new, id, operands);
        self.cx.set_shape(copy, shape);
        copy
    }

    fn add(&mut self, shape: ShapeRef, opcode: Opcode, operands: &[Id], attributes: Vec<Attribute>) -> Id {
        let mut inst = Instruction::new(opcode.name(), shape, opcode, operands.iter().copied());
        inst.attributes = attributes;
        self.cx.add(self.new, inst)
    }

    /// Shardy marks each end of a manual computation with a copy, the partitioner makes another one.
    fn copied_twice(&mut self, local: Id) -> Id {
        let shape = self.cx.shape(local).clone();
        let first = self.add(shape.clone(), Opcode::Copy, &[local], Vec::new());
        self.add(shape, Opcode::Copy, &[first], Vec::new())
    }

    /// What stands for the operands.
    fn locals(&self, id: Id) -> Option<Vec<Id>> {
        self.cx.operands(id).iter().map(|&operand| self.map[operand]).collect()
    }

    /// A manual computation, on values that are local already; any other call, loop or branch only on whole arrays.
    fn call(&mut self, id: Id) -> Option<Id> {
        let operands = self.locals(id)?;
        let same = |(&old, &new): (&Id, &Id)| self.cx.shape(old).compatible(self.cx.shape(new));
        if !self.cx.operands(id).iter().zip(&operands).all(same) || !self.shardings.get(self.cx, id).is_whole() {
            return None;
        }
        let shape = self.cx.shape(id).clone();
        let call = self.like(id, shape, &operands);
        rebuild_callees(self.cx, id, call)?;
        if self.cx.opcode(id) == Opcode::Call {
            self.cx.drop_attribute(call, &AttrKey::FrontendAttributes);
        }
        Some(call)
    }

    /// Any other instruction: on shares where its factors allow that, else on whole arrays.
    fn operation(&mut self, id: Id) -> Option<Id> {
        let out = self.shardings.get(self.cx, id);
        let factors = factors::of(self.cx, id);
        let divided = |dim: &usize| !out.dims()[*dim].is_empty();
        let covered = |dim: usize| factors.iter().any(|factor| factor.result == Some(dim));
        if !(0..out.dims().len()).filter(divided).all(covered) {
            return None;
        }
        let old: Vec<Id> = self.cx.operands(id).to_vec();
        let mut wanted: Vec<Vec<Vec<SmolStr>>> =
            old.iter().map(|&operand| vec![Vec::new(); self.cx.rank(operand)]).collect();
        let mut partial = false;
        for factor in &factors {
            let axes = self.axes_of(factor, &old, &out);
            partial |= factor.result.is_none() && !axes.is_empty();
            for &(operand, dim) in &factor.operands {
                wanted[operand][dim].clone_from(&axes);
            }
        }
        let mut operands = Vec::new();
        for (&operand, wanted) in old.iter().zip(wanted) {
            operands.push(self.resharded(operand, &Sharding::of(wanted))?);
        }
        if operands.iter().zip(&old).any(|(&new, &old)| new != old && self.cx.array(old).is_none())
            && calls(self.cx, id)
        {
            return None;
        }
        let shape = self.mesh.share_of_shape(self.cx.shape(id), &out)?;
        let local = self.like(id, shape, &operands);
        self.localize(id, local);
        if partial { self.summed(id, local) } else { Some(local) }
    }

    /// The axes that divide a factor here: those of the result, or of operands that agree where it is summed over.
    fn axes_of(&self, factor: &Factor, operands: &[Id], out: &Sharding) -> Vec<SmolStr> {
        if let Some(dim) = factor.result {
            return out.dims()[dim].clone();
        }
        let axes =
            |&(operand, dim): &(usize, usize)| self.shardings.get(self.cx, operands[operand]).dims()[dim].clone();
        let mut all = factor.operands.iter().map(axes);
        let first = all.next().unwrap_or_default();
        let free = !out.dims().iter().flatten().any(|axis| first.contains(axis));
        if free && all.all(|other| other == first) { first } else { Vec::new() }
    }

    /// Attributes that name sizes name those of the share.
    fn localize(&mut self, old: Id, new: Id) {
        let (whole, share) = (self.cx.dims(old), self.cx.dims(new));
        let is_divided = |dim: usize| whole.get(dim) != share.get(dim);
        match self.cx.inst(new).attribute(&AttrKey::Slice).cloned() {
            Some(AttrValue::Slice(mut bounds)) => {
                for (dim, bound) in bounds.iter_mut().enumerate().filter(|(dim, _)| is_divided(*dim)) {
                    bound.limit = share[dim];
                }
                self.cx.set_attribute(new, AttrKey::Slice, AttrValue::Slice(bounds));
            }
            _ if self.cx.opcode(new) == Opcode::DynamicSlice => {
                self.cx.set_attribute(new, AttrKey::DynamicSliceSizes, AttrValue::ints(share));
            }
            _ => {}
        }
        if self.cx.opcode(new) == Opcode::Gather {
            let (operand, before) = (self.cx.dims(self.cx.operand(new, 0)), self.cx.dims(self.cx.operand(old, 0)));
            let sizes = self.cx.inst(new).ints(&AttrKey::SliceSizes).iter().enumerate();
            let sizes = AttrValue::ints(
                sizes.map(|(dim, &size)| if operand[dim] == before[dim] { size } else { operand[dim] }),
            );
            self.cx.set_attribute(new, AttrKey::SliceSizes, sizes);
        }
    }

    /// Adds the parts that the devices computed.
    fn summed(&mut self, old: Id, local: Id) -> Option<Id> {
        let sum = match self.cx.opcode(old) {
            Opcode::Dot => self.sum(self.cx.element_type(old)),
            Opcode::Reduce | Opcode::Scatter => {
                let reducer = self.cx.to_apply(old)?;
                self.cx.deep_clone(reducer)
            }
            _ => return None,
        };
        let shape = self.cx.shape(local).clone();
        Some(self.add(shape, Opcode::AllReduce, &[local], vec![channel(), apply(sum)]))
    }

    /// A computation that adds two numbers.
    fn sum(&mut self, element_type: ElementType) -> ComputationId {
        let sum = self.cx.add_computation("add");
        let shape = row_major(element_type, []);
        let parameter = |number| {
            Instruction::new("x", shape.clone(), Opcode::Parameter, []).with_payload(hlo_ir::Payload::Parameter(number))
        };
        let (x, y) = (self.cx.add(sum, parameter(0)), self.cx.add(sum, parameter(1)));
        let root = self.cx.add(sum, Instruction::new("add", shape, Opcode::Add, [x, y]));
        self.cx.set_root(root);
        sum
    }

    /// The share of an operand that an instruction wants.
    fn resharded(&mut self, operand: Id, wanted: &Sharding) -> Option<Id> {
        let have = self.shardings.get(self.cx, operand);
        let local = self.map[operand]?;
        if self.cx.array(operand).is_none() || have == *wanted {
            return Some(local);
        }
        let mut moved = (None, None);
        let mut now = local;
        for dim in 0..have.dims().len() {
            let (from, to) = (&have.dims()[dim], &wanted.dims()[dim]);
            if from != to {
                match (from.is_empty(), to.is_empty()) {
                    (false, true) if moved.0.is_none() => moved.0 = Some(dim),
                    (true, false) if moved.1.is_none() => moved.1 = Some(dim),
                    _ => return None,
                }
            }
        }
        match moved {
            (Some(from), None) => {
                let mut dims = self.cx.dims(local);
                dims[from] = self.cx.dims(operand)[from];
                let shape = share(hlo_ir::shape::ArrayShape { dims, ..self.cx.arr(local) });
                now = self.add(shape, Opcode::AllGather, &[now], vec![dimensions([from as i64]), channel()]);
            }
            (None, Some(_)) => now = self.own_part(operand, now, wanted)?,
            (Some(from), Some(to)) if have.dims()[from] == wanted.dims()[to] => {
                now = self.exchanged(now, from, to, operand);
            }
            _ => return None,
        }
        Some(now)
    }

    /// The part of a whole array that belongs to the device.
    fn own_part(&mut self, operand: Id, whole: Id, wanted: &Sharding) -> Option<Id> {
        let shape = self.mesh.share_of_shape(self.cx.shape(operand), wanted)?;
        let index = row_major(ElementType::U32, []);
        let device = self.add(index, Opcode::PartitionId, &[], Vec::new());
        let start = self.add(row_major(ElementType::S32, []), Opcode::Convert, &[device], Vec::new());
        let zero =
            self.cx.constant(start, ElementType::S32, crate::cpu::front::value::Scalar::of(ElementType::S32, 0.0));
        let starts: Vec<Id> = wanted.dims().iter().map(|axes| if axes.is_empty() { zero } else { start }).collect();
        let sizes = self.mesh.share_of(&self.cx.arr(operand), wanted)?.dims;
        let operands: Vec<Id> = std::iter::once(whole).chain(starts).collect();
        Some(self.add(shape, Opcode::DynamicSlice, &operands, vec![Attribute::ints(AttrKey::DynamicSliceSizes, sizes)]))
    }

    /// Every device gives each other one its part along `to` and gets theirs along `from`.
    fn exchanged(&mut self, local: Id, from: usize, to: usize, whole: Id) -> Id {
        let (array, full) = (self.cx.arr(local), self.cx.dims(whole));
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

/// Collectives between partitions have a channel.
fn channel() -> Attribute {
    Attribute::int(AttrKey::ChannelId, 1)
}

fn is_boundary(cx: &Cx<'_>, id: Id) -> bool {
    matches!(target(cx, id), Some("xla.sdy.GlobalToLocalShape" | "xla.sdy.LocalToGlobalShape"))
}

fn calls(cx: &Cx<'_>, id: Id) -> bool {
    matches!(cx.opcode(id), Opcode::While | Opcode::Conditional | Opcode::Call)
}

/// A copy of a manual computation and of the loops and branches in it, each in the order in which the partitioner visits it.
fn rebuilt(cx: &mut Cx<'_>, old: ComputationId) -> Option<ComputationId> {
    let name = cx.computation_name(old).clone();
    let new = cx.add_computation(name);
    let mut map: SideTable<Id, Option<Id>> = SideTable::new(None);
    for id in visit_order(cx, old) {
        let operands: Vec<Id> = cx.operands(id).iter().map(|&operand| map[operand]).collect::<Option<_>>()?;
        let copy = cx.copy_to(new, id, &operands);
        map.set(id, Some(copy));
        let before: Vec<Id> = cx.control_predecessors(id).to_vec();
        before.into_iter().filter_map(|other| map[other]).for_each(|other| cx.add_control(other, copy));
        if calls(cx, id) {
            rebuild_callees(cx, id, copy)?;
        }
    }
    let root = map[cx.root(old)]?;
    cx.set_root(root);
    Some(new)
}

/// Gives a copied instruction copies of the computations that the original calls.
fn rebuild_callees(cx: &mut Cx<'_>, old: Id, new: Id) -> Option<()> {
    for Attribute { key, value } in cx.inst(old).attributes.clone() {
        let value = match value {
            AttrValue::Computation(callee) => AttrValue::Computation(rebuilt(cx, callee)?),
            AttrValue::Computations(callees) => {
                AttrValue::Computations(callees.into_iter().map(|callee| rebuilt(cx, callee)).collect::<Option<_>>()?)
            }
            _ => continue,
        };
        cx.set_attribute(new, key, value);
    }
    Some(())
}
