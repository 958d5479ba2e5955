//! From a module to the graph and back.

use std::cell::RefCell;

use crate::hash::IndexMap;
use hlo_ir::arena::{Arena, Id as _, SideTable};
use hlo_ir::module::{ModuleParts, Payload, StackTables, TextStyle};
use hlo_ir::{AttrKey, AttrValue, Attribute, Computation, ComputationId, Instruction, InstructionId, Module};
use smol_str::{SmolStr, format_smolstr};

use super::birth::Births;
use super::{Body, Graph, Schedule};

/// Where a module comes from, which decides the order of its instruction lists: the text has lost it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A program on its way into the compiler; see [`Births`].
    Program,
    /// A dump between two passes: parameters first, then as the text has it.
    Dump,
}

/// Parameters by number, then the rest as the text has it.
fn text_order(module: &Module, computation: ComputationId) -> Vec<InstructionId> {
    let rest = module.instructions_of(computation).filter(|(_, inst)| inst.parameter_number().is_none());
    module.parameters(computation).into_iter().chain(rest.map(|(id, _)| id)).collect()
}

impl Graph {
    /// The graph of a module.
    pub(crate) fn from_module(module: &Module, origin: Origin) -> Self {
        let mut graph = Self {
            name: module.name.clone(),
            attributes: module.attributes.clone(),
            stack_tables: module.stack_tables.clone(),
            nodes: Arena::new(),
            bodies: Arena::new(),
            entry: module.entry(),
            seen: [0; 4],
            effects: false,
            version: 0,
            partitioned: false,
            opcodes: Vec::new(),
            origins: Vec::new(),
            merged: Vec::new(),
            order: RefCell::new(None),
        };
        let mut computations = SideTable::new(None);
        for &id in module.computation_ids() {
            computations.set(id, Some(graph.add_computation(module.computation(id).name.clone())));
        }
        let mut map = SideTable::new(None);
        let births = Births::of(module);
        for &id in module.computation_ids() {
            let target = computations[id].expect("every live computation was added");
            let order = match origin {
                Origin::Program => births.order(module, id),
                Origin::Dump => text_order(module, id),
            };
            graph.fill(target, module, id, &order, &computations, &mut map);
        }
        graph.entry = computations[module.entry()].expect("the entry is a live computation");
        graph
    }

    /// Copies the instructions of one computation, parameters first.
    fn fill(
        &mut self,
        target: ComputationId,
        module: &Module,
        source: ComputationId,
        order: &[InstructionId],
        computations: &SideTable<ComputationId, Option<ComputationId>>,
        map: &mut SideTable<InstructionId, Option<InstructionId>>,
    ) {
        for &id in order {
            let mut inst = module.instruction(id).clone();
            for operand in &mut inst.operands {
                *operand = map[*operand].expect("text defines operands before users");
            }
            map_callees(&mut inst, |callee| computations[callee].expect("callees are live computations"));
            let new = self.add(target, inst);
            self.origins[new.index()] = Some(id);
            map.set(id, Some(new));
            for &before in module.instruction(id).control_predecessors() {
                let before = map[before].expect("text defines control predecessors before successors");
                self.add_control(before, new);
            }
        }
        let body = module.computation(source);
        self.bodies[target].attributes.clone_from(&body.attributes);
        self.bodies[target].root = map[body.root].expect("the root is an instruction of its computation");
    }

    /// The module in which every computation is printed in post-order: not scheduled.
    pub(crate) fn to_module(&self) -> Module {
        let mut schedule = Schedule::new(Vec::new());
        for id in self.computation_order() {
            schedule.set(id, self.post_order(id).to_vec());
        }
        self.build(&schedule, false, &mut Names::unique()).module
    }

    /// The unscheduled module together with the correspondence of its instructions, for an analysis of who shares memory with whom:
    /// without names, literals, and the attributes that such an analysis does not ask for.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.build(&Schedule::new(Vec::new()), false, &mut Names::left_out())
    }

    /// The scheduled module. Computations the schedule does not order (fusion bodies, reducers) are written in post-order.
    pub(crate) fn to_scheduled_module(&self, schedule: &Schedule) -> Module {
        self.build(schedule, true, &mut Names::unique()).module
    }

    /// The same without names and metadata; which instruction is which tells the rest.
    pub(crate) fn to_bare_scheduled_module(&self, schedule: &Schedule) -> Snapshot {
        self.build(schedule, true, &mut Names::as_they_are())
    }

    fn build(&self, schedule: &Schedule, scheduled: bool, names: &mut Names) -> Snapshot {
        let order = self.computation_order();
        let mut new_computation = SideTable::new(None);
        for (index, &id) in order.iter().enumerate() {
            new_computation.set(id, Some(<ComputationId as hlo_ir::arena::Id>::new(index)));
        }
        let mut to_graph = Vec::with_capacity(self.instruction_count());
        let mut instructions: Arena<InstructionId, Instruction> = Arena::new();
        instructions.reserve(order.iter().map(|&id| self.len(id)).sum());
        let mut computations: Arena<ComputationId, Computation> = Arena::new();
        let mut map = SideTable::new(None);
        for &id in order.iter() {
            let sequence = if schedule[id].is_empty() { self.post_order(id).to_vec() } else { schedule[id].clone() };
            let parent = new_computation[id].expect("numbered above");
            let list = sequence
                .into_iter()
                .map(|inst| {
                    let new = self.export(inst, parent, &map, &new_computation, names);
                    let new = instructions.push(new);
                    to_graph.push(inst);
                    map.set(inst, Some(new));
                    new
                })
                .collect();
            let Body { name, attributes, root, .. } = &self.bodies[id];
            let root = map[*root].expect("the root is an instruction of its computation");
            let (name, attributes) = (names.take(name), attributes.clone());
            computations.push(Computation { name, instructions: list, root, attributes, span: None });
        }
        let mut attributes = self.attributes.clone();
        attributes.retain(|attribute| attribute.key != AttrKey::IsScheduled);
        if scheduled {
            attributes.insert(0, Attribute::new(AttrKey::IsScheduled, AttrValue::Bool(true)));
        }
        let module = Module::from_parts(ModuleParts {
            name: self.name.clone(),
            attributes,
            stack_tables: if names.keeps_notes() { self.stack_tables.clone() } else { StackTables::default() },
            style: TextStyle::default(),
            instructions,
            computations,
        });
        Snapshot { module, to_module: map, to_graph }
    }

    fn export(
        &self,
        id: InstructionId,
        parent: ComputationId,
        map: &SideTable<InstructionId, Option<InstructionId>>,
        computations: &SideTable<ComputationId, Option<ComputationId>>,
        names: &mut Names,
    ) -> Instruction {
        let mapped = |id: InstructionId| map[id].expect("an order defines operands before users");
        let mut inst = match names.left_out {
            true => for_aliases(self.inst(id)),
            false if names.keeps_notes() => self.inst(id).clone(),
            false => without_notes(self.inst(id)),
        };
        inst.parent = parent;
        inst.name = names.take(&inst.name);
        inst.operands.iter_mut().for_each(|operand| *operand = mapped(*operand));
        map_callees(&mut inst, |callee| computations[callee].expect("callees are reachable"));
        let before: Vec<InstructionId> = self.control_predecessors(id).iter().map(|&other| mapped(other)).collect();
        if !before.is_empty() {
            inst.set_attribute(AttrKey::ControlPredecessors, AttrValue::Instructions(before.into()));
        }
        inst
    }
}

/// A copy of an instruction without what says only where it comes from.
fn without_notes(inst: &Instruction) -> Instruction {
    let is_note = |key: &AttrKey| matches!(key, AttrKey::Metadata | AttrKey::FrontendAttributes | AttrKey::Origin);
    Instruction {
        attributes: inst.attributes.iter().filter(|attribute| !is_note(&attribute.key)).cloned().collect(),
        name: inst.name.clone(),
        shape: inst.shape.clone(),
        operands: inst.operands.clone(),
        payload: inst.payload.clone(),
        ..*inst
    }
}

/// A copy of an instruction with what decides whose memory it uses: shape, operands, callees, and what it says about places.
fn for_aliases(inst: &Instruction) -> Instruction {
    let decides = |attribute: &&Attribute| {
        matches!(attribute.value, AttrValue::Computation(_) | AttrValue::Computations(_))
            || matches!(
                attribute.key,
                AttrKey::Index
                    | AttrKey::Dimensions
                    | AttrKey::Kind
                    | AttrKey::BackendConfig
                    | AttrKey::OutputToOperandAliasing
            )
    };
    let payload = match &inst.payload {
        Payload::Literal(_) => Payload::None,
        payload => payload.clone(),
    };
    Instruction {
        attributes: inst.attributes.iter().filter(decides).cloned().collect(),
        name: SmolStr::default(),
        shape: inst.shape.clone(),
        operands: inst.operands.clone(),
        payload,
        ..*inst
    }
}

/// Replaces every computation an instruction names.
fn map_callees(inst: &mut Instruction, map: impl Fn(ComputationId) -> ComputationId) {
    for attribute in &mut inst.attributes {
        match &mut attribute.value {
            AttrValue::Computation(id) => *id = map(*id),
            AttrValue::Computations(ids) => ids.iter_mut().for_each(|id| *id = map(*id)),
            _ => {}
        }
    }
}

/// A module made from the graph, and which instruction is which.
pub(crate) struct Snapshot {
    /// The module.
    pub(crate) module: Module,
    /// Instruction of the module by instruction of the graph; `None` for those no longer in it.
    pub(crate) to_module: SideTable<InstructionId, Option<InstructionId>>,
    /// Instruction of the graph by index of the module's instruction.
    pub(crate) to_graph: Vec<InstructionId>,
}

/// Names handed out so far, each with the number its next duplicate will carry; `None` if duplicates do not matter.
struct Names {
    next: Option<IndexMap<SmolStr, u32>>,
    /// Nobody asks for names, nor for anything that [`for_aliases`] leaves out.
    left_out: bool,
}

impl Names {
    fn unique() -> Self {
        Self { next: Some(IndexMap::default()), left_out: false }
    }
    fn as_they_are() -> Self {
        Self { next: None, left_out: false }
    }
    fn left_out() -> Self {
        Self { next: None, left_out: true }
    }
    /// Whether the module is made to be read; one that is only analyzed needs no metadata.
    fn keeps_notes(&self) -> bool {
        self.next.is_some()
    }
    /// `wanted`, or `wanted.1`, `wanted.2`, ... whichever is free.
    fn take(&mut self, wanted: &SmolStr) -> SmolStr {
        let Some(next) = &mut self.next else { return wanted.clone() };
        let Some(count) = next.get(wanted) else {
            next.insert(wanted.clone(), 1);
            return wanted.clone();
        };
        let mut count = *count;
        let name = loop {
            let name = format_smolstr!("{wanted}.{count}");
            count += 1;
            if !next.contains_key(&name) {
                break name;
            }
        };
        next.insert(wanted.clone(), count);
        next.insert(name.clone(), 1);
        name
    }
}
