//! What the instructions of a computation define and use, as a scheduler counts it: every instruction makes new buffers but those that only forward.
//!
//! Source: `TuplePointsToAnalysis` (xla/hlo/analysis/tuple_points_to_analysis.cc).

use std::rc::Rc;

use hlo_ir::{AttrKey, ComputationId, InstructionId, Opcode, Shape};

use super::super::graph::Graph;
use crate::{Bytes, Target, size};

/// The buffers that a value lies in: its own, and those of the elements of a tuple.
struct BufferTree {
    own: usize,
    elements: Vec<Rc<Self>>,
}

impl BufferTree {
    fn collect(&self, found: &mut Vec<usize>) {
        found.push(self.own);
        self.elements.iter().for_each(|element| element.collect(found));
    }
}

/// The buffers of one computation.
pub(super) struct Buffers {
    /// The size of each; what parameters and constants lie in counts as nothing.
    pub(super) sizes: Vec<u64>,
    /// Whether a parameter or a constant lies in it.
    pub(super) ignored: Vec<bool>,
    /// By slot of the instruction: what it defines, and what its operands lie in, each once.
    pub(super) defined: Vec<Vec<usize>>,
    pub(super) used: Vec<Vec<usize>>,
    /// What the root lies in.
    pub(super) live_out: Vec<usize>,
}

impl Buffers {
    pub(super) fn of(graph: &Graph, computation: ComputationId, target: Target) -> Self {
        let slots = graph.slots(computation);
        let mut buffers = Self {
            sizes: Vec::new(),
            ignored: Vec::new(),
            defined: vec![Vec::new(); slots],
            used: vec![Vec::new(); slots],
            live_out: Vec::new(),
        };
        let mut places: Vec<Option<Rc<BufferTree>>> = vec![None; slots];
        for id in graph.post_order(computation) {
            let slot = graph.slot(id);
            buffers.note_uses(graph, id, &places);
            buffers.used[slot].sort_unstable();
            buffers.used[slot].dedup();
            places[slot] = Some(buffers.place(graph, id, &places, size::size_of(target)));
        }
        place_of(&places, graph, graph.root(computation)).collect(&mut buffers.live_out);
        buffers.live_out.sort_unstable();
        buffers.live_out.dedup();
        buffers
    }

    /// Notes what the operands of an instruction lie in. What takes an element of a tuple uses that element alone here: XLA counts all of them, which grows with
    /// the square of the elements.
    fn note_uses(&mut self, graph: &Graph, id: InstructionId, places: &[Option<Rc<BufferTree>>]) {
        let used = &mut self.used[graph.slot(id)];
        if let (Opcode::GetTupleElement, [tuple]) = (graph.opcode(id), graph.operands(id)) {
            let place = place_of(places, graph, *tuple);
            let index = graph.inst(id).int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok());
            used.push(place.own);
            index.and_then(|index| place.elements.get(index)).into_iter().for_each(|element| element.collect(used));
            return;
        }
        for &operand in graph.operands(id) {
            place_of(places, graph, operand).collect(used);
        }
    }

    /// Where the value of an instruction lies.
    fn place(
        &mut self,
        graph: &Graph,
        id: InstructionId,
        places: &[Option<Rc<BufferTree>>],
        size: fn(&Shape) -> Option<Bytes>,
    ) -> Rc<BufferTree> {
        let first = self.sizes.len();
        let of = |operand: usize| place_of(places, graph, graph.operand(id, operand));
        let place = match graph.opcode(id) {
            Opcode::Bitcast | Opcode::OptBarrier | Opcode::AddDependency | Opcode::Domain => return of(0),
            Opcode::GetTupleElement => {
                let index = graph.inst(id).int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok());
                match index.and_then(|index| of(0).elements.get(index).cloned()) {
                    Some(element) => return element,
                    None => self.fresh(graph.shape(id), size),
                }
            }
            Opcode::Tuple => {
                let elements = (0..graph.operands(id).len()).map(of).collect();
                BufferTree { own: self.add(graph.shape(id), size), elements }
            }
            _ => self.fresh(graph.shape(id), size),
        };
        if matches!(graph.opcode(id), Opcode::Parameter | Opcode::Constant) {
            self.ignored[first..].fill(true);
        }
        self.defined[graph.slot(id)] = (first..self.sizes.len()).collect();
        Rc::new(place)
    }

    /// New buffers for a value and all its elements.
    fn fresh(&mut self, shape: &Shape, size: fn(&Shape) -> Option<Bytes>) -> BufferTree {
        let own = self.add(shape, size);
        let elements = match shape {
            Shape::Tuple(elements) => elements.iter().map(|element| Rc::new(self.fresh(element, size))).collect(),
            _ => Vec::new(),
        };
        BufferTree { own, elements }
    }

    fn add(&mut self, shape: &Shape, size: fn(&Shape) -> Option<Bytes>) -> usize {
        self.sizes.push(size(shape).map_or(0, Bytes::get));
        self.ignored.push(false);
        self.sizes.len() - 1
    }

    /// Bytes that an instruction defines.
    pub(super) fn bytes_defined(&self, slot: usize) -> i64 {
        let counted = self.defined[slot].iter().filter(|&&buffer| !self.ignored[buffer]);
        counted.map(|&buffer| self.sizes[buffer] as i64).sum()
    }
}

fn place_of(places: &[Option<Rc<BufferTree>>], graph: &Graph, id: InstructionId) -> Rc<BufferTree> {
    places[graph.slot(id)].clone().expect("operands come first")
}
