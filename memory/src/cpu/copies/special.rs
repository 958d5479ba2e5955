//! Copies that have nothing to do with lifetimes: read-only buffers that share with something else, and results of the entry that are arguments,
//! constants, or the same value twice.
//!
//! Source: `CopyInsertion::AddSpecialCaseCopies` (xla/service/copy_insertion.cc).

use std::collections::BTreeMap;

use crate::hash::IndexMap;
use hlo_ir::arena::Id as _;
use hlo_ir::{InstructionId, Opcode};

use super::super::graph::{Graph, Skeleton, Snapshot};
use super::deep::{deep_copy, position_of};
use super::uses::placed_uses;
use crate::assignment::aliases::Buffers;
use crate::assignment::flow::Flow;
use crate::assignment::shape_positions::ShapePosition;
use crate::assignment::values::ValueId;

/// Adds the copies. Takes a skeleton of the graph from before.
pub(super) fn run(graph: &mut Graph, earlier: Option<Skeleton>) {
    let skeleton = graph.skeleton(earlier);
    let wanted = Special::new(&skeleton).collect();
    skeleton.snapshot.module.drop_in_background();
    for (id, positions) in wanted {
        let users = graph.users(id);
        let copied = deep_copy(graph, id, Some(&positions));
        for user in users {
            graph.replace_use(id, user, copied.result);
        }
        if graph.is_root(id) {
            graph.set_root(copied.result);
        }
    }
}

/// Instructions of the graph whose result is to be copied, and the positions to copy.
type Wanted = BTreeMap<InstructionId, Vec<bool>>;

struct Special<'a> {
    snapshot: &'a Snapshot,
    flow: Flow<'a>,
    wanted: Wanted,
}

impl<'a> Special<'a> {
    fn new(Skeleton { snapshot, paths, .. }: &'a Skeleton) -> Self {
        Self { snapshot, flow: Flow::beside(&snapshot.module, paths), wanted: Wanted::new() }
    }

    fn collect(mut self) -> Wanted {
        let buffers = Buffers::of(&self.flow);
        for value in self.flow.values.list().to_vec() {
            self.read_only_in_shared_buffer(&buffers, value);
            self.wrongly_shared(&buffers, value);
        }
        self.results(&buffers);
        self.wanted
    }

    fn want(&mut self, place: ShapePosition) {
        let owner = self.flow.places.owner(place);
        let count = self.flow.places.count(owner) as usize;
        let positions = self.wanted.entry(self.snapshot.to_graph[owner.index()]).or_insert_with(|| vec![false; count]);
        positions[self.flow.places.offset(place) as usize] = true;
    }

    /// Whether the value is a constant or an argument that no result takes over.
    fn is_read_only(&self, value: ValueId) -> bool {
        let place = self.flow.values.place(value);
        let module = &self.snapshot.module;
        let inst = module.instruction(self.flow.places.owner(place));
        match (inst.opcode, inst.parameter_number()) {
            (Opcode::Constant, _) => true,
            (Opcode::Parameter, Some(number)) if inst.parent == module.entry() => {
                let index = self.flow.places.tuple_index(place);
                !module.input_output_aliases().iter().any(|a| a.operand == number && a.operand_index == index)
            }
            _ => false,
        }
    }

    fn read_only_in_shared_buffer(&mut self, buffers: &Buffers, value: ValueId) {
        if buffers.value_count(buffers.of_value(value)) > 1 && self.is_read_only(value) {
            self.want(self.flow.values.place(value));
        }
    }

    /// Operands in one buffer with the result although the instruction cannot work in place.
    fn wrongly_shared(&mut self, buffers: &Buffers, value: ValueId) {
        let buffer = buffers.of_value(value);
        if buffers.value_count(buffer) == 1 {
            return;
        }
        for a_use in placed_uses(&self.flow, value) {
            let operand = self.snapshot.module.instruction(a_use.user).operands[a_use.operand];
            let Some(root) = self.flow.places.root(operand) else { continue };
            let place = root.plus(a_use.offset);
            let conflicts = self.flow.places.of_instruction(a_use.user).any(|result| {
                let other = self.flow.values.at(result);
                other.is_some_and(|other| {
                    other != value
                        && self.flow.values.place(other) == result
                        && buffers.of_value(other) == buffer
                        && !self.flow.can_share(place, result)
                })
            });
            if conflicts {
                self.want(place);
            }
        }
    }

    /// Results of the entry that must be buffers of their own.
    fn results(&mut self, buffers: &Buffers) {
        let module = &self.snapshot.module;
        let root = module.computation(module.entry()).root;
        let shape = module.shape(root);
        let donated: Vec<usize> =
            module.input_output_aliases().iter().filter_map(|alias| position_of(shape, &alias.output)).collect();
        let mut seen: IndexMap<u32, ShapePosition> = IndexMap::default();
        for (position, place) in self.flow.places.of_instruction(root).enumerate() {
            let Some(value) = self.flow.values.at(place) else { continue };
            if self.is_read_only(value) {
                self.want(place);
            }
            match seen.get(&buffers.of_value(value)).copied() {
                Some(first) if donated.contains(&position) => self.want(first),
                Some(_) => self.want(place),
                None => {
                    seen.insert(buffers.of_value(value), place);
                }
            }
        }
    }
}
