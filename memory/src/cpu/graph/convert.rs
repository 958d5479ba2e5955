//! From a module to the graph and back.

use std::cell::RefCell;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::arena::{Arena, Id as _, SideTable};
use hlo_ir::module::{ModuleParts, Operands, StackTables, TextStyle};
use hlo_ir::{
    AttrKey, AttrValue, Attribute, Computation, ComputationId, Instruction, InstructionId, Module, Opcode, Shape,
};
use smol_str::SmolStr;

use super::birth::Births;
use super::room::Room;
use super::{Body, Graph, Rare, Schedule, Seen};
use crate::names::Names;

/// Where a module comes from, which decides the order of its instruction lists: the text has lost it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A program on its way into the compiler; see [`Births`].
    Program,
    /// A dump between two passes: parameters first, then as the text has it.
    Dump,
}

/// Graphs that ever had so many instructions are freed aside.
const LARGE: usize = 100_000;

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
            insts: Arena::new(),
            controls: IndexMap::default(),
            bodies: Arena::new(),
            entry: module.entry(),
            seen: Seen::default(),
            rare: [Seen::default(); Rare::COUNT],
            fused: Vec::new(),
            calls: Seen::default(),
            words: Vec::new(),
            shapes: IndexSet::default(),
            effects: false,
            version: 0,
            clean: None,
            partitioned: false,
            opcodes: Vec::new(),
            origins: Vec::new(),
            readers: Vec::new(),
            merged: Vec::new(),
            walk: RefCell::default(),
            order: RefCell::new(None),
            outside: RefCell::new(None),
            room: RefCell::default(),
        };
        graph.expect(module.instruction_count());
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

    /// Makes room for the graph of a module with that many instructions: fusions copy what they compute, and room that nobody uses costs nothing.
    fn expect(&mut self, instructions: usize) {
        let count = 3 * instructions;
        self.nodes.reserve(count);
        self.insts.reserve(count);
        self.opcodes.reserve(count);
        self.origins.reserve(count);
        self.readers.reserve(count);
    }

    /// Has room made for the modules that copy insertion and the schedule will ask for: fusions double what there is, and copy insertion
    /// leaves their bodies out.
    pub(crate) fn make_room(&mut self) {
        let count = self.outside_fusions().iter().map(|&id| self.len(id)).sum::<usize>();
        if count >= LARGE {
            *self.room.get_mut() = Room::order(vec![count / 2, count / 2, 7 * count / 4]);
        }
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
        self.build(&schedule, false, &mut Names::unique(), |id| self.inst(id).clone()).module
    }

    /// The scheduled module; without `unique`, with the names that instructions wanted. Computations the schedule does not order (fusion bodies, reducers) are written in post-order.
    pub(crate) fn into_scheduled_module(mut self, schedule: &Schedule, unique: bool) -> Module {
        // Asks the instructions for their callees, so it must be known before they go.
        self.computation_order();
        let mut insts = std::mem::take(&mut self.insts);
        let hollow = Instruction::new(SmolStr::default(), Shape::Token.into(), Opcode::Tuple, []);
        let mut names = if unique { Names::unique() } else { Names::as_they_are() };
        // An instruction stands in one computation, so it is asked for once.
        let taken = |id: InstructionId| std::mem::replace(&mut insts[id], hollow.clone());
        let module = self.build(schedule, true, &mut names, taken).module;
        // To be freed with the rest.
        self.insts = insts;
        self.drop_aside();
        module
    }

    /// Frees the graph: a large one on a thread of its own, because nobody need wait for it.
    fn drop_aside(self) {
        if self.nodes.len() >= LARGE {
            // Where no thread can be had, the graph goes with what should have run there.
            let _ = std::thread::Builder::new().spawn(move || drop(self));
        }
    }

    /// The same without names and metadata; which instruction is which tells the rest.
    pub(crate) fn to_bare_scheduled_module(&self, schedule: &Schedule) -> Snapshot {
        self.build(schedule, true, &mut Names::as_they_are(), |id| without_notes(self.inst(id)))
    }

    /// Makes a module of what `source` gives for each instruction, operands and callees yet to be put in.
    fn build(
        &self,
        schedule: &Schedule,
        scheduled: bool,
        names: &mut Names,
        mut source: impl FnMut(InstructionId) -> Instruction,
    ) -> Snapshot {
        let order = self.computation_order();
        let mut export = Export::new(self, &order);
        let mut computations: Arena<ComputationId, Computation> = Arena::new();
        names.expect(export.instructions_to_come);
        computations.reserve(order.len());
        for &id in order.iter() {
            let sequence = if schedule[id].is_empty() { self.post_order(id).to_vec() } else { schedule[id].clone() };
            let parent = export.computation(id);
            let take = |inst| {
                let mut source = source(inst);
                source.name = names.take(source.name);
                export.add(inst, source, parent)
            };
            let list = sequence.into_iter().map(take).collect();
            let Body { name, attributes, root, .. } = &self.bodies[id];
            let root = export.map[root.index()].expect("the root is an instruction of its computation");
            let (name, attributes) = (names.take(name.clone()), attributes.clone());
            computations.push(Computation { name, instructions: list, root, attributes, span: None });
        }
        let mut attributes = self.attributes.clone();
        attributes.retain(|attribute| attribute.key != AttrKey::IsScheduled);
        if scheduled {
            attributes.insert(0, Attribute::new(AttrKey::IsScheduled, AttrValue::Bool(true)));
        }
        export.finish(attributes, self.stack_tables.clone(), computations)
    }
}

/// A module under way.
pub(super) struct Export<'g> {
    graph: &'g Graph,
    /// Computation of the module, by computation of the graph.
    computations: SideTable<ComputationId, Option<ComputationId>>,
    /// How many instructions there are in all.
    instructions_to_come: usize,
    instructions: Arena<InstructionId, Instruction>,
    /// Instruction of the module, by instruction of the graph.
    pub(super) map: Vec<Option<InstructionId>>,
    to_graph: Vec<InstructionId>,
}

impl<'g> Export<'g> {
    pub(super) fn new(graph: &'g Graph, order: &[ComputationId]) -> Self {
        let mut computations = SideTable::new(None);
        for (index, &id) in order.iter().enumerate() {
            computations.set(id, Some(<ComputationId as hlo_ir::arena::Id>::new(index)));
        }
        Self {
            graph,
            computations,
            instructions_to_come: order.iter().map(|&id| graph.len(id)).sum(),
            instructions: Arena::new(),
            map: vec![None; graph.instruction_count()],
            to_graph: Vec::new(),
        }
    }

    /// The computation of the module that `id` becomes.
    pub(super) fn computation(&self, id: ComputationId) -> ComputationId {
        self.computations[id].expect("callees are reachable")
    }

    /// Adds the instruction that `id` becomes; `inst` is what it says apart from operands, and names callees of the graph.
    pub(super) fn add(&mut self, id: InstructionId, mut inst: Instruction, parent: ComputationId) -> InstructionId {
        self.settle(id, &mut inst, parent);
        self.add_again(id, inst)
    }

    /// The same for an instruction that names callees and parent of the module already.
    pub(super) fn add_again(&mut self, id: InstructionId, mut inst: Instruction) -> InstructionId {
        let map = &self.map;
        let mapped = |id: &InstructionId| map[id.index()].expect("an order defines operands before users");
        inst.operands = self.graph.operands(id).iter().map(mapped).collect();
        let before: Vec<InstructionId> = self.graph.control_predecessors(id).iter().map(mapped).collect();
        if !before.is_empty() {
            inst.set_attribute(AttrKey::ControlPredecessors, AttrValue::Instructions(before.into()));
        }
        let new = self.push(id, inst);
        self.map[id.index()] = Some(new);
        new
    }

    /// Adds an instruction without operands that stands for `id` as far as calls go.
    pub(super) fn add_alone(
        &mut self,
        id: InstructionId,
        mut inst: Instruction,
        parent: ComputationId,
    ) -> InstructionId {
        self.settle(id, &mut inst, parent);
        self.push(id, inst)
    }

    /// Lets an instruction of the graph name callees and parent of the module.
    fn settle(&self, id: InstructionId, inst: &mut Instruction, parent: ComputationId) {
        inst.parent = parent;
        if self.graph.may_call(id) {
            map_callees(inst, |callee| self.computation(callee));
        }
    }

    fn push(&mut self, id: InstructionId, inst: Instruction) -> InstructionId {
        if self.instructions.is_empty() {
            self.instructions = Arena::from(self.graph.room.borrow_mut().take(self.instructions_to_come));
            self.instructions.reserve(self.instructions_to_come);
            self.to_graph.reserve(self.instructions_to_come);
        }
        self.to_graph.push(id);
        self.instructions.push(inst)
    }

    /// Says that fewer instructions than all are to be added.
    pub(super) fn expect(&mut self, instructions: usize) {
        self.instructions_to_come = instructions;
    }

    pub(super) fn finish(
        self,
        attributes: Vec<Attribute>,
        stack_tables: StackTables,
        computations: Arena<ComputationId, Computation>,
    ) -> Snapshot {
        let module = Module::from_parts(ModuleParts {
            name: self.graph.name.clone(),
            attributes,
            stack_tables,
            style: TextStyle::default(),
            instructions: self.instructions,
            computations,
        });
        Snapshot { module, to_module: self.map, to_graph: self.to_graph }
    }
}

/// A copy of an instruction without what says only where it comes from.
fn without_notes(inst: &Instruction) -> Instruction {
    let is_note = |key: &AttrKey| matches!(key, AttrKey::Metadata | AttrKey::FrontendAttributes | AttrKey::Origin);
    Instruction {
        attributes: inst.attributes.iter().filter(|attribute| !is_note(&attribute.key)).cloned().collect(),
        name: inst.name.clone(),
        shape: inst.shape.clone(),
        operands: Operands::new(),
        payload: inst.payload.clone(),
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
    /// Instruction of the module by index of the graph's instruction; `None` for those that are not in it.
    pub(super) to_module: Vec<Option<InstructionId>>,
    /// Instruction of the graph by index of the module's instruction.
    pub(crate) to_graph: Vec<InstructionId>,
}

impl Snapshot {
    /// The instruction of the module that an instruction of the graph has become; `None` if it is not in it.
    pub(crate) fn in_module(&self, id: InstructionId) -> Option<InstructionId> {
        self.to_module.get(id.index()).copied().flatten()
    }
}
