//! Values that a program keeps in the memory of the host, on devices: what `MoveToHost` writes stands there until `MoveToDevice` reads it back, and takes nothing of the
//! device.
//!
//! XLA goes down from each `MoveToHost`, through loops, to the reads, and gives everything on the way the memory space of the host. What a `dynamic-update-slice` writes
//! rows of becomes a buffer there from the start. A `MoveToDevice` that no such way leads to does nothing.
//!
//! Source: `HostOffloader` (xla/hlo/transforms/host_offloader.cc).

// Tests: `memory/tests/devices.rs`.

use hlo_ir::graph::Callers;
use hlo_ir::host::{HOST_SPACE, HostMove};
use hlo_ir::shape::{Layout, Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, Attribute, Instruction, InstructionId, Opcode};
use smol_str::format_smolstr;

use super::graph::Graph;
use crate::hash::IndexSet;

/// An array, or an element of a tuple.
type Place = (InstructionId, Option<usize>);

/// Gives what is kept in host memory that memory space, and takes annotations away that move nothing.
pub(crate) fn run(graph: &mut Graph) {
    if !graph.has_seen(Opcode::CustomCall) {
        return;
    }
    let [moved, back] = [HostMove::ToHost, HostMove::ToDevice].map(|kind| all(graph, kind));
    if moved.is_empty() && back.is_empty() {
        return;
    }
    let mut host = Host { callers: graph.callers(), places: IndexSet::default(), starts: IndexSet::default() };
    for id in moved {
        host.follow(graph, id);
    }
    for &(id, index) in &host.places {
        let shape = in_host_memory(graph.shape(id), index);
        graph.set_shape(id, shape);
    }
    for (user, index) in host.starts {
        let buffer = buffer(graph, user, index);
        graph.replace_operand(user, index, buffer);
    }
    for id in back {
        let operand = graph.operand(id, 0);
        if !host.places.contains(&(operand, None)) {
            graph.replace(id, operand);
        }
    }
}

/// The annotations of one kind.
fn all(graph: &Graph, kind: HostMove) -> Vec<InstructionId> {
    let computations = graph.computation_order();
    let ids = computations.iter().flat_map(|&computation| graph.list(computation));
    ids.filter(|&id| HostMove::of(graph.inst(id)) == Some(kind)).collect()
}

/// What stands in host memory.
struct Host {
    callers: Callers,
    places: IndexSet<Place>,
    /// Users of arrays that rows are written into, and which of their operands the arrays are.
    starts: IndexSet<(InstructionId, usize)>,
}

impl Host {
    /// Goes from a value in host memory to all that holds it.
    fn follow(&mut self, graph: &Graph, moved: InstructionId) {
        let mut waiting: Vec<Place> = vec![(moved, None)];
        while let Some(place) = waiting.pop() {
            if !self.places.insert(place) {
                continue;
            }
            let (id, _) = place;
            for user in graph.each_user(id) {
                self.step(graph, place, user, &mut waiting);
            }
            if graph.is_root(id) {
                let index = place.1;
                let callers = &self.callers[graph.parent(id)];
                let loops = callers.iter().filter(|&&site| graph.opcode(site) == Opcode::While);
                loops.for_each(|&site| around(graph, site, index, &mut waiting));
            }
        }
    }

    /// What a user of a value in host memory makes of it.
    fn step(&mut self, graph: &Graph, (id, index): Place, user: InstructionId, waiting: &mut Vec<Place>) {
        use Opcode as O;
        let mut operands = graph.operands(user).iter().enumerate().filter(|(_, operand)| **operand == id);
        match (graph.opcode(user), index) {
            (O::Tuple, None) => waiting.extend(operands.map(|(at, _)| (user, Some(at)))),
            (O::GetTupleElement, Some(at)) => {
                let taken = graph.inst(user).int(&AttrKey::Index).and_then(|taken| usize::try_from(taken).ok());
                waiting.extend((taken == Some(at)).then_some((user, None)));
            }
            (O::While, Some(_)) => around(graph, user, index, waiting),
            (O::OptBarrier, _) => waiting.push((user, index)),
            (O::DynamicUpdateSlice, None) => {
                if operands.any(|(at, _)| at == 1) {
                    self.begin(graph, user, 0);
                }
                waiting.push((user, None));
            }
            (O::DynamicSlice, None) if operands.all(|(at, _)| at == 0) => waiting.push((user, None)),
            (O::Bitcast | O::Reshape | O::Copy, None) => waiting.push((user, None)),
            _ => {}
        }
    }

    /// Goes up from an array that rows are written into to where it is made.
    fn begin(&mut self, graph: &Graph, user: InstructionId, index: usize) {
        let array = graph.operand(user, index);
        if graph.opcode(array) == Opcode::Broadcast {
            self.starts.insert((user, index));
        }
        let Some(index) = graph.inst(array).int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok()) else {
            return;
        };
        let state = graph.operand(array, 0);
        let caller = |parameter| self.callers[graph.parent(parameter)].first().copied();
        let site = if graph.opcode(state) == Opcode::Parameter { caller(state) } else { Some(state) };
        let initial = match site.map(|site| (site, graph.opcode(site))) {
            Some((site, Opcode::While)) => Some(graph.operand(site, 0)),
            Some((tuple, Opcode::Tuple)) => Some(tuple),
            _ => None,
        };
        if let Some(initial) = initial.filter(|&initial| graph.opcode(initial) == Opcode::Tuple) {
            self.places.insert((initial, Some(index)));
            self.begin(graph, initial, index);
        }
    }
}

/// The places where an element of the state of a loop stands.
fn around(graph: &Graph, site: InstructionId, index: Option<usize>, waiting: &mut Vec<Place>) {
    waiting.push((site, index));
    let inside = graph.callees(site).into_iter().flat_map(|callee| graph.parameters(callee));
    waiting.extend(inside.map(|parameter| (parameter, index)));
}

/// A buffer in host memory in place of an array that is made to be written over.
fn buffer(graph: &mut Graph, user: InstructionId, index: usize) -> InstructionId {
    let array = graph.operand(user, index);
    let shape = in_host_memory(graph.shape(array), None);
    let mut made = Instruction::new(format_smolstr!("host_buffer"), shape, Opcode::CustomCall, Vec::new());
    let target = AttrValue::Raw("\"AllocateBuffer\"".into());
    made.attributes.push(Attribute::new(AttrKey::CustomCallTarget, target));
    let made = graph.add(graph.parent(array), made);
    graph.stems_from(made, array);
    made
}

/// A shape with the memory space of the host; of a tuple, in one of its elements.
fn in_host_memory(shape: &Shape, index: Option<usize>) -> ShapeRef {
    match (shape, index) {
        (Shape::Array(array), None) => {
            let mut array = array.clone();
            let layout = array.layout.take().unwrap_or_else(|| Layout::descending(array.dims.len()));
            array.layout = Some(Layout { suffix: format_smolstr!("{}S({HOST_SPACE})", layout.suffix), ..layout });
            Shape::Array(array).into()
        }
        (Shape::Tuple(elements), Some(index)) => {
            let elements = elements.iter().enumerate();
            Shape::tuple(elements.map(
                |(at, element)| {
                    if at == index { in_host_memory(element, None) } else { element.clone() }
                },
            ))
        }
        _ => shape.clone().into(),
    }
}
