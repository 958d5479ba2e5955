//! Copies wherever values could interfere: around loops, at the end of branches, before in-place updates, and at donated arguments.
//!
//! Source: `CopyInsertion::AddCopiesToResolveInterference` (xla/service/copy_insertion.cc).

use crate::hash::IndexSet;
use hlo_ir::{AttrKey, AttrValue, InstructionId, Opcode};

use super::super::fusion::control_flow_computations;
use super::super::graph::{Graph, Snapshot};
use super::super::in_place;
use super::deep::{DeepCopy, deep_copy, position_of, positions};
use crate::assignment::classes::Classes;
use crate::assignment::order::Users;
use crate::assignment::shape_positions::{ShapePosition, ShapePositions};
use crate::assignment::values::Values;

/// Adds the copies.
pub(super) fn run(graph: &mut Graph) {
    let computations = control_flow_computations(graph);
    // The analysis is only asked about loops and branches.
    let merges = |id| matches!(graph.opcode(id), Opcode::While | Opcode::Conditional);
    let asked = computations.iter().any(|&id| graph.list(id).any(merges));
    let snapshot = asked.then(|| graph.outline(&computations).unwrap_or_else(|| graph.skeleton(None).snapshot));
    let before = snapshot.as_ref().map(Before::of);
    for computation in computations {
        for id in graph.post_order(computation) {
            match (graph.opcode(id), &before) {
                (Opcode::While, Some(before)) => copy_loop_state(graph, before, id),
                (Opcode::Conditional, Some(before)) => copy_branch_results(graph, before, id),
                (Opcode::Send | Opcode::Recv | Opcode::CopyStart, _) => {}
                _ => copy_updated_operands(graph, id),
            }
        }
    }
    copy_donated_arguments(graph);
}

/// What the module was like before any copy was added.
struct Before<'a> {
    snapshot: &'a Snapshot,
    places: ShapePositions<'a>,
    values: Values,
}

impl<'a> Before<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let classes = Classes::of(&snapshot.module);
        let users = Users::of(&snapshot.module, &classes);
        let places = ShapePositions::of(&snapshot.module, &classes, &users);
        let values = Values::of(&snapshot.module, &classes, &users, &places);
        Self { snapshot, places, values }
    }

    fn place(&self, id: InstructionId) -> Option<ShapePosition> {
        self.places.root(self.snapshot.in_module(id)?)
    }

    /// Per position of a loop's state: whether the body changes it.
    fn changed_by_loop(&self, id: InstructionId, init: InstructionId, count: usize) -> Vec<bool> {
        let (Some(loop_), Some(init)) = (self.place(id), self.place(init)) else { return vec![false; count] };
        let value = |place: ShapePosition, k: usize| self.values.at(place.plus(k as u32));
        (0..count).map(|k| value(loop_, k) != value(init, k)).collect()
    }

    /// Per position of a conditional's result: whether different branches give different values.
    fn differs_by_branch(&self, id: InstructionId, count: usize) -> Vec<bool> {
        let Some(result) = self.place(id) else { return vec![false; count] };
        let is_phi = |k: usize| {
            let place = result.plus(k as u32);
            let value = self.values.at(place);
            value.is_some_and(|value| self.values.is_phi(value) && self.values.place(value) == place)
        };
        (0..count).map(is_phi).collect()
    }
}

/// Copies what a loop changes: its initial value, and inside the body the parameter and the result, the former before the latter.
fn copy_loop_state(graph: &mut Graph, before: &Before<'_>, id: InstructionId) {
    let init = graph.operand(id, 0);
    let wanted = before.changed_by_loop(id, init, positions(graph.shape(id)));
    let Some(body) = graph.inst(id).computation(&AttrKey::Body) else { return };
    if !wanted.contains(&true) {
        return;
    }
    let copied = deep_copy(graph, init, Some(&wanted));
    graph.replace_use(init, id, copied.result);
    let Some(&parameter) = graph.parameters(body).first() else { return };
    let (root, users) = (graph.root(body), graph.users(parameter));
    let first = deep_copy(graph, parameter, Some(&wanted));
    let last = deep_copy(graph, root, Some(&wanted));
    order(graph, &first, &last);
    for user in users {
        graph.replace_use(parameter, user, first.result);
    }
    graph.set_root(last.result);
}

/// Lets each copy of `first` run before the copy of `last` at the same position.
fn order(graph: &mut Graph, first: &DeepCopy, last: &DeepCopy) {
    for (&a, &b) in first.copies.iter().zip(&last.copies) {
        if let (Some(a), Some(b)) = (a, b) {
            graph.add_control(a, b);
        }
    }
}

fn copy_branch_results(graph: &mut Graph, before: &Before<'_>, id: InstructionId) {
    let wanted = before.differs_by_branch(id, positions(graph.shape(id)));
    if !wanted.contains(&true) {
        return;
    }
    for branch in graph.callees(id) {
        let root = graph.root(branch);
        let users = graph.users(root);
        let copied = deep_copy(graph, root, Some(&wanted));
        for user in users {
            graph.replace_use(root, user, copied.result);
        }
        graph.set_root(copied.result);
    }
}

/// Copies each operand that the instruction updates in place.
fn copy_updated_operands(graph: &mut Graph, id: InstructionId) {
    let numbers: IndexSet<usize> = in_place::pairs(graph, id).into_iter().map(|(number, _)| number).collect();
    for number in numbers {
        let copied = deep_copy(graph, graph.operand(id, number), None);
        graph.replace_operand(id, number, copied.result);
    }
}

/// Copies arguments whose memory a result takes over, and those results, the former before the latter.
fn copy_donated_arguments(graph: &mut Graph) {
    let Some(aliases) = graph.attributes.iter().find(|attribute| attribute.key == AttrKey::InputOutputAlias) else {
        return;
    };
    let AttrValue::Aliases(aliases) = aliases.value.clone() else { return };
    let entry = graph.entry();
    let mut copied: Vec<Option<DeepCopy>> = Vec::new();
    for (number, parameter) in graph.parameters(entry).into_iter().enumerate() {
        let shape = graph.shape(parameter).clone();
        let mut wanted = vec![false; positions(&shape)];
        let own = aliases.iter().filter(|alias| alias.operand == number as i64);
        own.filter_map(|alias| position_of(&shape, &alias.operand_index)).for_each(|position| wanted[position] = true);
        copied.push(wanted.contains(&true).then(|| copy_argument(graph, parameter, &wanted)));
    }
    let root = graph.root(entry);
    let shape = graph.shape(root).clone();
    let mut wanted = vec![false; positions(&shape)];
    aliases.iter().filter_map(|alias| position_of(&shape, &alias.output)).for_each(|position| wanted[position] = true);
    if copied.iter().all(Option::is_none) {
        return;
    }
    let results = deep_copy(graph, root, Some(&wanted));
    for alias in aliases.iter() {
        let argument = copied.get(alias.operand as usize).and_then(Option::as_ref);
        let from = argument.and_then(|copy| {
            let parameter = graph.parameters(entry)[alias.operand as usize];
            copy.copies[position_of(graph.shape(parameter), &alias.operand_index)?]
        });
        let to = position_of(&shape, &alias.output).and_then(|position| results.copies[position]);
        if let (Some(from), Some(to)) = (from, to) {
            graph.add_control(from, to);
        }
    }
    graph.set_root(results.result);
}

fn copy_argument(graph: &mut Graph, parameter: InstructionId, wanted: &[bool]) -> DeepCopy {
    let users = graph.users(parameter);
    let copied = deep_copy(graph, parameter, Some(wanted));
    if graph.is_root(parameter) {
        graph.set_root(copied.result);
    }
    for user in users {
        graph.replace_use(parameter, user, copied.result);
    }
    copied
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::graph::Origin;

    /// Of the four elements of each loop's state the first is forwarded, the second counts, the third and fourth change places; the second loop
    /// gets one value at both of these.
    const LOOPS: &str = "HloModule m

body {
  s = (f32[], s32[], f32[4], f32[4]) parameter(0)
  a = f32[] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  y = f32[4] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (f32[], s32[], f32[4], f32[4]) tuple(a, j, y, x)
}

test {
  s = (f32[], s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}

body2 {
  s = (f32[], s32[], f32[4], f32[4]) parameter(0)
  inner = (f32[], s32[], f32[4], f32[4]) while(s), condition=test, body=body
  a = f32[] get-tuple-element(inner), index=0
  i = s32[] get-tuple-element(inner), index=1
  x = f32[4] get-tuple-element(inner), index=2
  y = f32[4] get-tuple-element(inner), index=3
  ROOT t = (f32[], s32[], f32[4], f32[4]) tuple(a, i, x, y)
}

test2 {
  s = (f32[], s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}

body3 {
  s = (f32[], s32[], f32[4], f32[4]) parameter(0)
  a = f32[] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  y = f32[4] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (f32[], s32[], f32[4], f32[4]) tuple(a, j, y, x)
}

test3 {
  s = (f32[], s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  a = f32[] parameter(0)
  i = s32[] constant(0)
  x = f32[4] broadcast(a), dimensions={}
  y = f32[4] negate(x)
  s = (f32[], s32[], f32[4], f32[4]) tuple(a, i, x, y)
  w = (f32[], s32[], f32[4], f32[4]) while(s), condition=test2, body=body2
  z = f32[4] get-tuple-element(w), index=2
  sum = f32[4] add(z, y)
  r = (f32[], s32[], f32[4], f32[4]) tuple(a, i, sum, sum)
  ROOT v = (f32[], s32[], f32[4], f32[4]) while(r), condition=test3, body=body3
}
";

    fn changes(graph: &Graph, snapshot: &Snapshot, loop_: InstructionId) -> Vec<bool> {
        Before::of(snapshot).changed_by_loop(loop_, graph.operand(loop_, 0), positions(graph.shape(loop_)))
    }

    #[test]
    fn the_outline_of_a_graph_tells_what_loops_change() {
        // The third loop is the first once more.
        let module = hlo_ir::text::parse(LOOPS).unwrap();
        let graph = Graph::from_module(&module, Origin::Dump);
        let computations = control_flow_computations(&graph);
        let (outline, whole) = (graph.outline(&computations).unwrap(), graph.skeleton(None).snapshot);
        assert!(outline.module.instruction_count() < whole.module.instruction_count());
        let loops = computations.iter().flat_map(|&id| graph.list(id)).filter(|&id| graph.opcode(id) == Opcode::While);
        let told: Vec<Vec<bool>> = loops
            .map(|id| {
                let told = changes(&graph, &outline, id);
                assert_eq!(told, changes(&graph, &whole, id));
                told
            })
            .collect();
        // The tuple itself, then its elements; one value at two places that are exchanged does not change.
        let (all, one) = (vec![true, false, true, true, true], vec![true, false, true, false, false]);
        assert_eq!(told, [all.clone(), all, one]);
    }
}
