//! Making a module of the graph: first which instruction stands where, then the instructions, on two threads if they are many.

use crate::parallel::join;
use hlo_ir::arena::{Arena, Id as _, SideTable};
use hlo_ir::module::{ModuleParts, Operands, StackTables, TextStyle};
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, AttrValue, Attribute, Computation, ComputationId, Instruction, InstructionId, Module, Opcode};
use smol_str::SmolStr;

use super::convert::{Snapshot, map_callees};
use super::{Body, Graph, Schedule};
use crate::names::Names;

/// What an instruction of a module is made of: operands and control predecessors are yet to come.
pub(super) struct Source {
    pub(super) inst: Instruction,
    /// Callees are those of the graph, not of the module.
    pub(super) names_ours: bool,
    /// Without its operands, which are no part of the module.
    pub(super) alone: bool,
}

impl Source {
    /// What the graph says.
    pub(super) fn ours(inst: Instruction) -> Self {
        Self { inst, names_ours: true, alone: false }
    }
    /// Something of this shape that comes from nothing.
    pub(super) fn alone(shape: ShapeRef, opcode: Opcode) -> Self {
        Self { inst: Instruction::new(SmolStr::default(), shape, opcode, []), names_ours: false, alone: true }
    }
}

/// A module under way: which instruction stands where is known before any is made, so that several threads can make them.
pub(super) struct Export<'g> {
    graph: &'g Graph,
    /// Computation of the module, by computation of the graph.
    computations: SideTable<ComputationId, Option<ComputationId>>,
    bodies: Arena<ComputationId, Computation>,
    /// Instruction of the module, by instruction of the graph.
    map: Vec<Option<InstructionId>>,
    pub(super) to_graph: Vec<InstructionId>,
}

impl<'g> Export<'g> {
    /// A module of these computations, which have no instructions yet.
    pub(super) fn new(graph: &'g Graph, order: &[ComputationId], instructions: usize) -> Self {
        let mut computations = SideTable::new(None);
        for (index, &id) in order.iter().enumerate() {
            computations.set(id, Some(<ComputationId as hlo_ir::arena::Id>::new(index)));
        }
        let mut bodies = Arena::new();
        bodies.reserve(order.len());
        let map = vec![None; graph.instruction_count()];
        Self { graph, computations, bodies, map, to_graph: Vec::with_capacity(instructions) }
    }

    /// The whole graph in the order of a schedule.
    pub(super) fn scheduled(graph: &'g Graph, schedule: &Schedule) -> Self {
        let order = graph.computation_order();
        let mut export = Self::new(graph, &order, order.iter().map(|&id| graph.len(id)).sum());
        for &id in order.iter() {
            let Body { name, attributes, .. } = &graph.bodies[id];
            if schedule[id].is_empty() {
                export.body(id, &graph.post_order(id), name.clone(), attributes.clone());
            } else {
                export.body(id, &schedule[id], name.clone(), attributes.clone());
            }
        }
        export
    }

    /// The computation of the module that `id` becomes.
    pub(super) fn computation(&self, id: ComputationId) -> ComputationId {
        self.computations[id].expect("callees are reachable")
    }

    /// Gives the next computation its instructions.
    pub(super) fn body(
        &mut self,
        id: ComputationId,
        list: &[InstructionId],
        name: SmolStr,
        attributes: Vec<Attribute>,
    ) {
        let first = self.to_graph.len();
        for (place, id) in list.iter().enumerate() {
            self.map[id.index()] = Some(InstructionId::new(first + place));
        }
        self.to_graph.extend_from_slice(list);
        let root = self.map[self.graph.root(id).index()].expect("the root is an instruction of its computation");
        self.close(first, root, name, attributes);
    }

    /// Gives the next computation instructions without operands, which stand for others as far as calls go. Nobody asks for its root.
    pub(super) fn calls(&mut self, list: impl Iterator<Item = InstructionId>) {
        let first = self.to_graph.len();
        self.to_graph.extend(list);
        self.close(first, InstructionId::new(0), SmolStr::default(), Vec::new());
    }

    fn close(&mut self, first: usize, root: InstructionId, name: SmolStr, attributes: Vec<Attribute>) {
        let instructions = (first..self.to_graph.len()).map(InstructionId::new).collect();
        self.bodies.push(Computation { name, instructions, root, attributes, span: None });
    }

    /// An empty list with room for all instructions.
    pub(super) fn room(&self) -> Vec<Instruction> {
        let wanted = self.to_graph.len();
        let mut room = self.graph.room.take_turn().take(wanted);
        room.reserve(wanted);
        room
    }

    /// The instructions, each as `source` gives it for one of the graph, with operands, callees and parent of the module; into `room`.
    pub(super) fn make(
        &self,
        mut room: Vec<Instruction>,
        source: impl Fn(InstructionId) -> Source + Sync,
    ) -> Vec<Instruction> {
        let made = |&id: &InstructionId| {
            let Source { mut inst, names_ours, alone } = source(id);
            if names_ours {
                self.rename_callees(id, &mut inst);
            }
            if alone {
                inst.parent = self.computation(self.graph.parent(id));
            } else {
                self.wire(id, &mut inst);
            }
            inst
        };
        let (large, count) = (self.graph.is_large(), self.to_graph.len());
        // The other thread has to fetch the memory it writes to, so it gets the smaller part.
        let (here, aside) = self.to_graph.split_at(if large { count * 3 / 5 } else { count });
        let (later, ()) =
            join(large, || aside.iter().map(made).collect::<Vec<_>>(), || room.extend(here.iter().map(made)));
        room.extend(later);
        room
    }

    /// Lets the instructions of the graph from number `first` on, as far as they are part of the module, stand in it.
    pub(super) fn settle_from(&self, first: usize, insts: &mut [Instruction]) {
        for (place, inst) in insts.iter_mut().enumerate() {
            if self.map[first + place].is_some() {
                let id = InstructionId::new(first + place);
                self.rename_callees(id, inst);
                self.wire(id, inst);
            }
        }
    }

    /// Lets an instruction name callees of the module.
    fn rename_callees(&self, id: InstructionId, inst: &mut Instruction) {
        if self.graph.may_call(id) {
            map_callees(inst, |callee| self.computation(callee));
        }
    }

    /// Gives what stands for an instruction of the graph its parent, operands and control predecessors.
    fn wire(&self, id: InstructionId, inst: &mut Instruction) {
        inst.parent = self.computation(self.graph.parent(id));
        if self.map[id.index()].is_none() {
            // Stands for its calls alone.
            return;
        }
        let mapped = |id: &InstructionId| self.map[id.index()].expect("operands stand in the same computation");
        inst.operands = Operands::from_slice(self.graph.operands(id));
        inst.operands.iter_mut().for_each(|operand| *operand = mapped(operand));
        let before = self.graph.control_predecessors(id);
        if !before.is_empty() {
            let before: Vec<InstructionId> = before.iter().map(mapped).collect();
            inst.set_attribute(AttrKey::ControlPredecessors, AttrValue::Instructions(before.into()));
        }
    }

    /// Names instructions and computations in their order.
    pub(super) fn name(&mut self, instructions: &mut [Instruction], names: &mut Names) {
        names.expect(instructions.len());
        for index in 0..self.bodies.len() {
            let body = &mut self.bodies[ComputationId::new(index)];
            for id in &body.instructions {
                let name = &mut instructions[id.index()].name;
                *name = names.take(std::mem::take(name));
            }
            body.name = names.take(std::mem::take(&mut body.name));
        }
    }

    pub(super) fn finish(
        self,
        attributes: Vec<Attribute>,
        stack_tables: StackTables,
        instructions: Vec<Instruction>,
    ) -> Snapshot {
        let module = Module::from_parts(ModuleParts {
            name: self.graph.name.clone(),
            attributes,
            stack_tables,
            style: TextStyle::default(),
            instructions: Arena::from(instructions),
            computations: self.bodies,
        });
        Snapshot { module, to_module: self.map, to_graph: self.to_graph }
    }
}
