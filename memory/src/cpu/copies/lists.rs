//! The values of each buffer in the order in which they are defined, as circular lists that can be joined.
//!
//! Source: `CopyRemover::ValueNode` and its lists (xla/service/copy_removal.h, xla/service/copy_removal.cc).

use std::cell::OnceCell;
use std::cmp::Ordering as Order;

use hlo_ir::{InstructionId, Module, Opcode};
use smallvec::SmallVec;

use super::ordering::Ordering;
use super::uses::{PlacedUse, placed_uses};
use crate::assignment::aliases::Buffers;
use crate::assignment::flow::Flow;
use crate::assignment::values::ValueId;

/// A value in its list.
#[derive(Clone, Debug, Default)]
struct Node {
    next: u32,
    previous: u32,
    is_head: bool,
    /// Found when first asked for: only values that copies read or make are asked about.
    uses: OnceCell<Vec<PlacedUse>>,
}

/// The lists of all buffers; a value is its own node.
pub(super) struct Lists<'a> {
    flow: &'a Flow<'a>,
    nodes: Vec<Node>,
}

impl<'a> Lists<'a> {
    pub(super) fn of(flow: &'a Flow<'a>, buffers: &Buffers, ordering: &Ordering<'_>) -> Self {
        let numbers = numbers(flow.module);
        let number = |value: ValueId| numbers[hlo_ir::arena::Id::index(ordering.definition(value))];
        let mut lists = Self { flow, nodes: vec![Node::default(); flow.values.table_len()] };
        for buffer in 0..buffers.len() {
            let mut values: SmallVec<[ValueId; 8]> = buffers.values(buffer).collect();
            values.sort_by_key(|&value| number(value));
            sort_by_definition(&mut values, |a, b| {
                let (first, second) = (number(a), number(b));
                match (ordering.is_defined_before(a, b), ordering.is_defined_before(b, a)) {
                    (true, false) => Order::Less,
                    (false, true) => Order::Greater,
                    // Both can hold between exclusive branches; XLA then trusts the question it asks first.
                    _ => first.cmp(&second),
                }
            });
            lists.link(&values);
        }
        lists
    }

    fn link(&mut self, values: &[ValueId]) {
        let count = values.len();
        for (k, &value) in values.iter().enumerate() {
            let node = &mut self.nodes[value.index()];
            node.next = values[(k + 1) % count].0;
            node.previous = values[(k + count - 1) % count].0;
            node.is_head = k == 0;
        }
    }

    /// The value behind `value` in the circle.
    pub(super) fn follower(&self, value: ValueId) -> ValueId {
        ValueId(self.nodes[value.index()].next)
    }
    /// The value before `value` in the circle.
    pub(super) fn leader(&self, value: ValueId) -> ValueId {
        ValueId(self.nodes[value.index()].previous)
    }
    /// Whether `value` is the first of its list.
    pub(super) fn is_head(&self, value: ValueId) -> bool {
        self.nodes[value.index()].is_head
    }
    /// Whether `value` is the last of its list.
    pub(super) fn is_tail(&self, value: ValueId) -> bool {
        self.is_head(self.follower(value))
    }
    /// The next value of the list; `None` behind the last.
    pub(super) fn next(&self, value: ValueId) -> Option<ValueId> {
        (!self.is_tail(value)).then(|| self.follower(value))
    }
    /// The previous value of the list; `None` before the first.
    pub(super) fn previous(&self, value: ValueId) -> Option<ValueId> {
        (!self.is_head(value)).then(|| self.leader(value))
    }
    /// The uses of a value, those of removed copies included.
    pub(super) fn uses(&self, value: ValueId) -> &[PlacedUse] {
        self.nodes[value.index()].uses.get_or_init(|| placed_uses(self.flow, value))
    }

    /// Puts the whole list that begins with `head` behind `at`, a value of another list.
    pub(super) fn splice_after(&mut self, head: ValueId, at: ValueId) {
        self.nodes[head.index()].is_head = false;
        let (tail, after) = (self.leader(head), self.follower(at));
        self.connect(tail, after);
        self.connect(at, head);
    }

    /// Takes `copy`, the value of a removed copy instruction, out of its list; the value before it takes over the uses.
    /// Returns that value and the uses it took over.
    pub(super) fn remove(&mut self, copy: ValueId, instruction: InstructionId) -> (ValueId, Vec<PlacedUse>) {
        let source = self.leader(copy);
        self.connect(source, self.follower(copy));
        let moved = self.take_uses(copy);
        let mut uses = self.take_uses(source);
        if let Some(own) = uses.iter().position(|a_use| a_use.user == instruction) {
            uses.remove(own);
        }
        uses.extend_from_slice(&moved);
        self.nodes[copy.index()].uses = OnceCell::from(Vec::new());
        self.nodes[source.index()].uses = OnceCell::from(uses);
        (source, moved)
    }

    fn take_uses(&mut self, value: ValueId) -> Vec<PlacedUse> {
        self.nodes[value.index()].uses.take().unwrap_or_else(|| placed_uses(self.flow, value))
    }

    fn connect(&mut self, a: ValueId, b: ValueId) {
        self.nodes[a.index()].next = b.0;
        self.nodes[b.index()].previous = a.0;
    }
}

/// A stable insertion sort: definition order is total in practice, but nothing guarantees it, and the standard sort may panic then.
fn sort_by_definition(values: &mut [ValueId], order: impl Fn(ValueId, ValueId) -> Order) {
    for end in 1..values.len() {
        let mut at = end;
        while at > 0 && order(values[at], values[at - 1]) == Order::Less {
            values.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Numbers of instructions: from the entry, parameters first, then in post-order, each instruction after what it calls.
fn numbers(module: &Module) -> Vec<u32> {
    let mut numbering = Numbering {
        module,
        numbers: vec![0; module.instruction_count()],
        visited: vec![false; module.computation_count()],
        next: 0,
    };
    numbering.computation(module.entry());
    numbering.numbers
}

struct Numbering<'m> {
    module: &'m Module,
    numbers: Vec<u32>,
    visited: Vec<bool>,
    next: u32,
}

impl Numbering<'_> {
    /// The depth is that of nested calls, which a module's text already nests.
    fn computation(&mut self, id: hlo_ir::ComputationId) {
        if std::mem::replace(&mut self.visited[hlo_ir::arena::Id::index(id)], true) {
            return;
        }
        for parameter in self.module.parameters(id) {
            self.number(parameter);
        }
        for (inst, body) in self.module.instructions_of(id) {
            if body.opcode == Opcode::Parameter {
                continue;
            }
            // Attribute order of a while is condition, body: the order in which they run.
            for callee in body.called_computations() {
                self.computation(callee);
            }
            self.number(inst);
        }
    }

    fn number(&mut self, id: InstructionId) {
        self.numbers[hlo_ir::arena::Id::index(id)] = self.next;
        self.next += 1;
    }
}
