//! The program of one device: the entry computation and what it calls, on shares.
//!
//! Source: `SpmdPartitioningVisitor` (xla/service/spmd/spmd_partitioner.cc), which builds new computations in the order in which it visits the
//! old ones.

use hlo_ir::arena::SideTable;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, Opcode};

use super::propagate::{Shardings, target};
use super::sharding::{self, Mesh, Sharding};
use super::values::{READS, Value, World, index, leaves};
use crate::cpu::front::calls::visit_order;
use crate::cpu::front::cx::{Cx, Id};
use crate::hash::IndexMap;

/// Builds the entry computation of one device beside the old one. `None` if something in it is not modelled.
pub(super) fn run(cx: &mut Cx<'_>) -> Option<ComputationId> {
    let frontend = match hlo_ir::attribute::find(&cx.attributes, &AttrKey::FrontendAttributes) {
        Some(AttrValue::Raw(text)) => text.to_string(),
        _ => String::new(),
    };
    let (entry, mut mesh) = (cx.entry(), Mesh::read(&frontend));
    if !mesh.is_named() {
        for computation in cx.computation_order() {
            let texts = cx.list(computation).filter_map(|id| cx.inst(id).raw(&AttrKey::Sharding));
            texts.for_each(|text| mesh.note(text));
        }
    }
    let world = World::of(cx, entry)?;
    let shardings = Shardings::of(cx, &world, &mesh, entry)?;
    let scope = Scope::new(cx, entry);
    let new = scope.new;
    let mut work = Partitioner { cx, mesh, world, shardings, scope };
    work.body(entry)?;
    let root = work.result(entry)?;
    work.cx.set_root(root);
    Some(new)
}

pub(super) struct Partitioner<'c, 'g> {
    pub(super) cx: &'c mut Cx<'g>,
    pub(super) mesh: Mesh,
    pub(super) world: World,
    pub(super) shardings: Shardings,
    pub(super) scope: Scope,
}

/// A computation that is being built.
pub(super) struct Scope {
    pub(super) new: ComputationId,
    /// What stands for an instruction of the old computation on each device.
    map: IndexMap<Id, Id>,
    /// Shares in other shardings than their own, and of what each reader has as it wants it; each is made once.
    pub(super) made: IndexMap<(Id, Sharding), Id>,
}

impl Scope {
    fn new(cx: &mut Cx<'_>, old: ComputationId) -> Self {
        let name = cx.computation_name(old).clone();
        Self { new: cx.add_computation(name), map: IndexMap::default(), made: IndexMap::default() }
    }
}

impl Partitioner<'_, '_> {
    /// All instructions in the order of XLA's visit.
    fn body(&mut self, old: ComputationId) -> Option<()> {
        for id in visit_order(self.cx, old) {
            self.emit(id)?;
        }
        Some(())
    }

    fn emit(&mut self, id: Id) -> Option<()> {
        let new = match (self.cx.opcode(id), target(self.cx, id)) {
            (Opcode::Tuple, _) | (_, Some("xla.sdy.GlobalToLocalShape" | "xla.sdy.LocalToGlobalShape"))
                if self.cx.array(id).is_none() =>
            {
                return Some(());
            }
            (Opcode::GetTupleElement, _) => self.element(id)?,
            (_, Some("xla.sdy.GlobalToLocalShape" | "xla.sdy.LocalToGlobalShape")) => self.boundary(id, 0)?,
            (_, Some("xla.sdy.FuncResultSharding")) => self.read_as(id, 0)?,
            (_, Some("Sharding")) => {
                let local = self.read_as(id, 0)?;
                if self.mesh.is_named() { self.copied(local) } else { local }
            }
            (_, Some("SPMDFullToShardShape" | "SPMDShardToFullShape")) => {
                let local = self.local(self.cx.operand(id, 0))?;
                if !self.cx.shape(local).compatible(self.share_of(id, 0)?.as_ref()) {
                    return None;
                }
                self.copied(local)
            }
            (_, Some(_)) if self.is_divided_around(id) => return None,
            (Opcode::Call, _) => self.manual(id)?,
            (Opcode::While, _) => self.repeated(id)?,
            (Opcode::Conditional, _) => self.branched(id)?,
            (Opcode::OptBarrier, _) => {
                let operand = self.handed_on(self.cx.operand(id, 0), |leaf| Value::Of(id, leaf))?;
                self.like(id, self.cx.shape(operand).clone(), &[operand])
            }
            (Opcode::Parameter, _) => self.parameter(id)?,
            _ if self.world.is_free(self.cx, id) => return Some(()),
            _ => self.operation(id)?,
        };
        self.scope.map.insert(id, new);
        Some(())
    }

    /// Whether an operand or result is divided.
    pub(super) fn is_divided_around(&self, id: Id) -> bool {
        let whole = |value| self.shardings.get(self.cx, value).is_whole();
        let operands = (0..self.cx.operands(id).len()).map(|number| self.world.operand(self.cx, id, number));
        !operands.chain((0..leaves(self.cx, id)).map(|leaf| Value::Of(id, leaf))).all(whole)
    }

    /// How an array of the old program is divided.
    pub(super) fn sharding(&self, id: Id) -> Sharding {
        self.shardings.get(self.cx, self.world.value(self.cx, id, 0))
    }

    /// What stands for an array that has one sharding.
    pub(super) fn local(&self, id: Id) -> Option<Id> {
        self.scope.map.get(&World::source(self.cx, id)).copied()
    }

    /// The operand of an instruction in the sharding of its result.
    fn read_as(&mut self, id: Id, number: usize) -> Option<Id> {
        let wanted = self.sharding(id);
        self.resharded(self.cx.operand(id, number), &wanted)
    }

    /// One element of what stands for a tuple.
    fn element(&mut self, id: Id) -> Option<Id> {
        let (tuple, at) = (self.cx.operand(id, 0), index(self.cx, id));
        if self.cx.opcode(tuple) == Opcode::Tuple {
            let operand = self.cx.operand(tuple, at);
            return match self.local(operand) {
                Some(local) => Some(local),
                None if self.world.is_free(self.cx, World::source(self.cx, operand)) => {
                    let whole = Sharding::whole(self.cx.rank(operand));
                    self.resharded(operand, &whole)
                }
                None => None,
            };
        }
        if matches!(target(self.cx, tuple), Some("xla.sdy.GlobalToLocalShape" | "xla.sdy.LocalToGlobalShape")) {
            return self.boundary(tuple, at);
        }
        let local = self.scope.map.get(&tuple).copied()?;
        Some(self.cx.element(local, local, at as i64))
    }

    /// Where a manual computation begins or ends: shares, marked by a copy of Shardy and another one of the partitioner.
    fn boundary(&mut self, id: Id, number: usize) -> Option<Id> {
        let operand = *self.cx.operands(id).get(number)?;
        let local = match target(self.cx, id) {
            Some("xla.sdy.GlobalToLocalShape") => {
                let wanted = sharding::all_in(self.cx.inst(id), "xla.sdy.in_shardings")?.get(number)?.sharding.clone();
                self.resharded(operand, &wanted)?
            }
            _ => self.local(operand)?,
        };
        let first = self.copied(local);
        Some(self.copied(first))
    }

    fn copied(&mut self, local: Id) -> Id {
        let shape = self.cx.shape(local).clone();
        self.add(shape, Opcode::Copy, &[local], Vec::new())
    }

    /// A manual computation, on values that are local already.
    fn manual(&mut self, id: Id) -> Option<Id> {
        let operands: Vec<Id> = self.cx.operands(id).to_vec();
        let operands: Vec<Id> = operands.into_iter().map(|operand| self.whole(operand)).collect::<Option<_>>()?;
        let call = self.like(id, self.cx.shape(id).clone(), &operands);
        rebuild_callees(self.cx, id, call)?;
        self.cx.drop_attribute(call, &AttrKey::FrontendAttributes);
        Some(call)
    }

    /// An array or a tuple that no device has only a part of.
    fn whole(&mut self, id: Id) -> Option<Id> {
        self.cx.array(id)?;
        let local = match self.local(id) {
            Some(local) => local,
            None => self.resharded(id, &Sharding::whole(self.cx.rank(id)))?,
        };
        self.cx.shape(id).compatible(self.cx.shape(local)).then_some(local)
    }

    /// The share of a result.
    pub(super) fn share_of(&self, id: Id, leaf: usize) -> Option<ShapeRef> {
        self.share_of_value(Value::Of(id, leaf))
    }

    fn share_of_value(&self, value: Value) -> Option<ShapeRef> {
        let array = World::array(self.cx, value)?;
        let sharding = self.shardings.get(self.cx, value);
        Some(crate::cpu::front::build::share(self.mesh.share_of(array, &sharding)?))
    }

    /// A copy of an instruction in the new computation.
    pub(super) fn like(&mut self, id: Id, shape: ShapeRef, operands: &[Id]) -> Id {
        let copy = self.cx.copy_to(self.scope.new, id, operands);
        self.cx.set_shape(copy, shape);
        copy
    }

    pub(super) fn add(&mut self, shape: ShapeRef, opcode: Opcode, operands: &[Id], attributes: Vec<Attribute>) -> Id {
        let mut inst = Instruction::new(opcode.name(), shape, opcode, operands.iter().copied());
        inst.attributes = attributes;
        self.cx.add(self.scope.new, inst)
    }

    /// A parameter of the entry, a loop or a branch.
    fn parameter(&mut self, id: Id) -> Option<Id> {
        let share = |leaf| self.share_of_value(self.world.value(self.cx, id, leaf));
        let shape = match self.cx.shape(id).as_tuple() {
            Some(elements) => hlo_ir::Shape::tuple((0..elements.len()).map(share).collect::<Option<Vec<_>>>()?),
            None if self.cx.array(id).is_some() => share(0)?,
            None => return None,
        };
        Some(self.like(id, shape, &[]))
    }

    /// What is forwarded, an array or a tuple, each element in the sharding of what `value` names.
    fn handed_on(&mut self, from: Id, value: impl Fn(usize) -> Value) -> Option<Id> {
        if self.cx.array(from).is_some() {
            let wanted = self.shardings.get(self.cx, value(0));
            return self.resharded(from, &wanted);
        }
        let mut elements = Vec::new();
        for leaf in 0..leaves(self.cx, from) {
            let wanted = self.shardings.get(self.cx, value(leaf));
            elements.push(self.resharded_element(from, leaf, &wanted)?);
        }
        let shape = hlo_ir::Shape::tuple(elements.iter().map(|&element| self.cx.shape(element).clone()));
        Some(self.add(shape, Opcode::Tuple, &elements, Vec::new()))
    }

    /// An element of a tuple in another sharding.
    fn resharded_element(&mut self, tuple: Id, leaf: usize, wanted: &Sharding) -> Option<Id> {
        if self.cx.opcode(tuple) == Opcode::Tuple {
            return self.resharded(self.cx.operand(tuple, leaf), wanted);
        }
        let local = self.scope.map.get(&tuple).copied()?;
        let element = self.cx.element(local, local, leaf as i64);
        let value = self.world.value(self.cx, tuple, leaf);
        let array = World::array(self.cx, value)?.clone();
        let have = self.shardings.get(self.cx, value);
        self.moved(element, &array, &have, wanted)
    }

    /// A loop: its state is divided in one way before, in and after it.
    fn repeated(&mut self, id: Id) -> Option<Id> {
        let state = self.handed_on(self.cx.operand(id, 0), |leaf| Value::Of(id, leaf))?;
        let shape = self.cx.shape(state).clone();
        let copy = self.like(id, shape, &[state]);
        for key in [AttrKey::Condition, AttrKey::Body] {
            let old = self.cx.inst(id).computation(&key)?;
            let new = self.called(old, |leaf| (key == AttrKey::Body).then_some(Value::Of(id, leaf)))?;
            self.cx.set_attribute(copy, key, AttrValue::Computation(new));
        }
        Some(copy)
    }

    /// A branch: what all branches give is divided in one way.
    fn branched(&mut self, id: Id) -> Option<Id> {
        let old: Vec<Id> = self.cx.operands(id).to_vec();
        let mut operands = vec![self.whole(old[0])?];
        let callees = self.cx.callees(id);
        for (&operand, &callee) in old[1..].iter().zip(&callees) {
            let parameter = self.cx.parameter(callee, 0);
            let values: Vec<Value> =
                (0..leaves(self.cx, operand)).map(|leaf| self.world.value(self.cx, parameter, leaf)).collect();
            operands.push(self.handed_on(operand, |leaf| values[leaf])?);
        }
        let shares = (0..leaves(self.cx, id)).map(|leaf| self.share_of(id, leaf)).collect::<Option<Vec<_>>>()?;
        let shape = if self.cx.array(id).is_some() { shares[0].clone() } else { hlo_ir::Shape::tuple(shares) };
        let copy = self.like(id, shape, &operands);
        for Attribute { key, value } in self.cx.inst(id).attributes.clone() {
            let mut build = |old| self.called(old, |leaf| Some(Value::Of(id, leaf)));
            let value = match value {
                AttrValue::Computation(old) => AttrValue::Computation(build(old)?),
                AttrValue::Computations(old) => {
                    AttrValue::Computations(old.into_iter().map(build).collect::<Option<_>>()?)
                }
                _ => continue,
            };
            self.cx.set_attribute(copy, key, value);
        }
        Some(copy)
    }

    /// A body, a condition or a branch; its result as `value` says, whole if that says nothing.
    fn called(&mut self, old: ComputationId, value: impl Fn(usize) -> Option<Value>) -> Option<ComputationId> {
        let scope = Scope::new(self.cx, old);
        let outer = std::mem::replace(&mut self.scope, scope);
        self.body(old)?;
        let from = self.cx.root(old);
        let root = match value(0) {
            Some(_) => self.handed_on(from, |leaf| value(leaf).unwrap_or(Value::Of(from, leaf)))?,
            None => self.resharded(from, &Sharding::whole(self.cx.rank(from)))?,
        };
        self.cx.set_root(root);
        Some(std::mem::replace(&mut self.scope, outer).new)
    }

    /// What the program returns: in the sharding that it asks for, or as it is.
    fn result(&mut self, entry: ComputationId) -> Option<Id> {
        let root = self.cx.root(entry);
        let tuple = self.cx.opcode(root) == Opcode::Tuple;
        let own = |work: &Self, leaf: usize| {
            let asked = Value::Read(root, READS + leaf);
            if work.shardings.wanted(asked).is_some() {
                return asked;
            }
            work.world.value(work.cx, root, leaf)
        };
        let values: Vec<Value> = (0..leaves(self.cx, root)).map(|leaf| own(self, leaf)).collect();
        if tuple || self.cx.array(root).is_some() {
            return self.handed_on(root, |leaf| values[leaf]);
        }
        None
    }
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
        if matches!(cx.opcode(id), Opcode::While | Opcode::Conditional | Opcode::Call) {
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
