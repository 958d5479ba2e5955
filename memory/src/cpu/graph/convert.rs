//! From a module to the graph and back.

// Tests: `memory/tests/control.rs`.

use std::sync::OnceLock;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::arena::{Arena, Id as _, SideTable};
use hlo_ir::module::Operands;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode, Shape};
use smol_str::SmolStr;

use super::creation_order::CreationOrder;
use super::export::{Export, Source};
use super::prefaulted_instructions::PrefaultedInstructions;
use super::{Graph, OpcodeSet, Rare, Schedule, Working};
use crate::cpu::Traced;
use crate::names::Names;
use crate::parallel::{drop_in_background, join, prefetch};

/// Where a module comes from, which decides the order of its instruction lists: the text has lost it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A program on its way into the compiler; see [`CreationOrder`]. It goes there through StableHLO, which has no control dependencies.
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
            inputs: Arena::new(),
            users: Arena::new(),
            places: Arena::new(),
            insts: Arena::new(),
            controls: IndexMap::default(),
            bodies: Arena::new(),
            entry: module.entry(),
            seen: OpcodeSet::default(),
            rare: [OpcodeSet::default(); Rare::COUNT],
            fused: Vec::new(),
            calls: OpcodeSet::default(),
            words: Vec::new(),
            shapes: IndexSet::default(),
            effects: false,
            version: 0,
            stirred: Vec::new(),
            changed: Vec::new(),
            clean: None,
            partitioned: hlo_ir::per_device::is_per_device(module),
            opcodes: Vec::new(),
            results: Vec::new(),
            origins: Vec::new(),
            readers: Vec::new(),
            merged: Vec::new(),
            walk: Working::default(),
            order: OnceLock::new(),
            outside: OnceLock::new(),
            room: Working::default(),
            spare: Working::default(),
        };
        graph.expect(module.instruction_count());
        let mut computations = SideTable::new(None);
        for &id in module.computation_ids() {
            computations.set(id, Some(graph.add_computation(module.computation(id).name.clone())));
        }
        let mut map = SideTable::new(None);
        let births = CreationOrder::of(module);
        for &id in module.computation_ids() {
            let target = computations[id].expect("every live computation was added");
            let order = match origin {
                Origin::Program => births.order(module, id),
                Origin::Dump => text_order(module, id),
            };
            graph.fill(target, module, id, &order, &computations, &mut map);
            if origin == Origin::Dump {
                graph.fill_control(module, &order, &map);
            }
        }
        graph.entry = computations[module.entry()].expect("the entry is a live computation");
        graph.prefault_lists();
        graph
    }

    /// Makes room for the graph of a module with that many instructions: fusions copy what they compute, and room that nobody uses costs nothing.
    fn expect(&mut self, instructions: usize) {
        let count = 4 * instructions;
        self.inputs.reserve(count);
        self.users.reserve(count);
        self.places.reserve(count);
        self.insts.reserve(count);
        self.opcodes.reserve(count);
        self.results.reserve(count);
        self.origins.reserve(count);
        self.readers.reserve(count);
    }

    /// Has room made for the modules that copy insertion and the schedule will ask for: fusions double what there is, and copy insertion
    /// leaves their bodies out.
    pub(crate) fn make_room(&mut self) {
        let count = self.outside_fusions().iter().map(|&id| self.len(id)).sum::<usize>();
        if count >= LARGE {
            let all = self.computation_order().iter().map(|&id| self.len(id)).sum::<usize>();
            *self.room.take_turn() = PrefaultedInstructions::order(vec![7 * count / 8, 7 * all / 4]);
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
        let copied = |&id: &InstructionId| module.instruction(id).clone();
        prefetch(order, copied, |&id, mut inst| {
            for operand in &mut inst.operands {
                *operand = map[*operand].expect("text defines operands before users");
            }
            map_callees(&mut inst, |callee| computations[callee].expect("callees are live computations"));
            let new = self.add(target, inst);
            self.origins[new.index()] = Some(id);
            map.set(id, Some(new));
        });
        let body = module.computation(source);
        self.bodies[target].attributes.clone_from(&body.attributes);
        self.bodies[target].root = map[body.root].expect("the root is an instruction of its computation");
    }

    /// Copies the control dependencies of one computation, all of whose instructions are there: parameters stand first in the list, whatever they
    /// wait for.
    fn fill_control(
        &mut self,
        module: &Module,
        order: &[InstructionId],
        map: &SideTable<InstructionId, Option<InstructionId>>,
    ) {
        for &id in order {
            for &before in module.instruction(id).control_predecessors() {
                let ends = map[before].zip(map[id]);
                let (before, after) = ends.expect("control dependencies stay in one computation");
                self.add_control(before, after);
            }
        }
    }

    /// The module in which every computation is printed in post-order: not scheduled.
    pub(crate) fn to_module(&self) -> Module {
        let mut schedule = Schedule::new(Vec::new());
        for id in self.computation_order() {
            schedule.set(id, self.post_order(id).to_vec());
        }
        let mut export = Export::scheduled(self, &schedule);
        let mut instructions = export.make(Vec::new(), |id| Source::ours(self.inst(id).clone()));
        export.name(&mut instructions, &mut Names::unique());
        export.finish(self.header(false), self.stack_tables.clone(), instructions).module
    }

    /// The scheduled module and what its instructions derive from; without `unique`, with the names that instructions wanted. Computations the schedule does not order (fusion bodies, reducers) are written in post-order.
    pub(crate) fn into_scheduled_module(mut self, schedule: &Schedule, unique: bool) -> Traced {
        // Asks the instructions for their callees, so it must be known before they go.
        self.computation_order();
        let mut insts = std::mem::take(&mut self.insts).into_items();
        let mut export = Export::scheduled(&self, schedule);
        // First where they stand, because that is where their operands stand; then nothing is left but to move them.
        let half = insts.len() / 2;
        let (earlier, later) = insts.split_at_mut(half);
        join(self.is_large(), || export.settle_from(half, later), || export.settle_from(0, earlier));
        let hollow = Instruction::new(SmolStr::default(), Shape::Token.into(), Opcode::Tuple, []);
        let mut instructions = export.room();
        // An instruction stands in one computation, so it is asked for once.
        let taken = |id: &InstructionId| std::mem::replace(&mut insts[id.index()], hollow.clone());
        instructions.extend(export.to_graph.iter().map(taken));
        if unique {
            export.name(&mut instructions, &mut Names::unique());
        }
        let Snapshot { module, to_graph, .. } =
            export.finish(self.header(true), self.stack_tables.clone(), instructions);
        let origins = to_graph.into_iter().map(|id| self.origin(id)).collect();
        let merged = std::mem::take(&mut self.merged);
        // To be freed with the rest.
        self.insts = Arena::from(insts);
        drop_in_background(self.is_large(), self);
        Traced { module, origins, merged }
    }

    /// Whether there is enough to do for two threads.
    pub(super) fn is_large(&self) -> bool {
        self.users.len() >= LARGE
    }

    /// The same without names and metadata; which instruction is which tells the rest.
    pub(crate) fn to_bare_scheduled_module(&self, schedule: &Schedule) -> Snapshot {
        let export = Export::scheduled(self, schedule);
        let instructions = export.make(Vec::new(), |id| Source::ours(without_notes(self.inst(id))));
        export.finish(self.header(true), self.stack_tables.clone(), instructions)
    }

    /// Header attributes of a module made of the graph.
    pub(super) fn header(&self, scheduled: bool) -> Vec<Attribute> {
        let mut attributes = self.attributes.clone();
        attributes.retain(|attribute| attribute.key != AttrKey::IsScheduled);
        if scheduled {
            attributes.insert(0, Attribute::new(AttrKey::IsScheduled, AttrValue::Bool(true)));
        }
        attributes
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
pub(super) fn map_callees(inst: &mut Instruction, map: impl Fn(ComputationId) -> ComputationId) {
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
