//! What of a program carries a sharding: arrays, followed through tuples, loops and branches, and the places where one is forwarded.
//!
//! Constants, and broadcasts of one number, have a sharding at each use of their own.
//!
//! Source: `DataFlowEdgeOp` and `ConstantOrScalarSplitterPass` (shardy/dialect/sdy).

use hlo_ir::arena::SideTable;
use hlo_ir::shape::ArrayShape;
use hlo_ir::{AttrKey, ComputationId, Opcode};

use super::factors::{self, Factor};
use crate::cpu::front::cx::{Cx, Id};
use crate::hash::IndexMap;

/// An array of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Value {
    /// A result of an instruction, and which.
    Of(Id, usize),
    /// What an instruction reads as its operand of this number, where each reader may have its own.
    Read(Id, usize),
}

/// Where arrays meet: an instruction, or an element of a loop, a branch or a barrier.
pub(super) struct Node {
    pub(super) at: Id,
    /// Whether values are only forwarded.
    pub(super) is_edge: bool,
    pub(super) operands: Vec<Value>,
    pub(super) results: Vec<Value>,
    pub(super) factors: Vec<Factor>,
}

/// The computations that work on whole arrays, and who calls them.
pub(super) struct World {
    callers: IndexMap<ComputationId, (Id, usize)>,
    /// Whether an instruction depends on constants only.
    fixed: SideTable<Id, bool>,
    root: Id,
}

impl World {
    /// Looks at the entry and everything it calls. `None` if a tuple holds a tuple.
    pub(super) fn of(cx: &Cx<'_>, entry: ComputationId) -> Option<Self> {
        let mut found = Self { callers: IndexMap::default(), fixed: SideTable::new(false), root: cx.root(entry) };
        let mut open = vec![entry];
        while let Some(computation) = open.pop() {
            for &id in cx.post_order(computation).iter() {
                if cx.shape(id).as_tuple().is_some_and(|shapes| shapes.iter().any(|shape| shape.as_tuple().is_some())) {
                    return None;
                }
                found.note(cx, id);
                if matches!(cx.opcode(id), Opcode::While | Opcode::Conditional) {
                    for (number, callee) in cx.callees(id).into_iter().enumerate() {
                        found.callers.insert(callee, (id, number));
                        open.push(callee);
                    }
                }
            }
        }
        Some(found)
    }

    fn note(&mut self, cx: &Cx<'_>, id: Id) {
        let keeps = matches!(cx.opcode(id), Opcode::Broadcast | Opcode::Reshape | Opcode::Slice)
            || cx.opcode(id).is_elementwise();
        let fixed = matches!(cx.opcode(id), Opcode::Constant | Opcode::Iota)
            || (keeps && cx.array(id).is_some() && cx.operands(id).iter().all(|&operand| self.fixed[operand]));
        if fixed {
            self.fixed.set(id, true);
        }
    }

    /// Whether every reader of an instruction has it divided as the reader wants it.
    pub(super) fn is_free(&self, cx: &Cx<'_>, id: Id) -> bool {
        cx.rank(id) > 0 && (self.fixed[id] || cx.scalar_broadcast(id).is_some())
    }

    /// The instruction that makes an array that tuples only forward.
    pub(super) fn source(cx: &Cx<'_>, mut id: Id) -> Id {
        while let Some(tuple) = cx.of(id, Opcode::GetTupleElement).filter(|&tuple| cx.opcode(tuple) == Opcode::Tuple) {
            id = cx.operand(tuple, index(cx, id));
        }
        id
    }

    /// The instruction and the number of its result that an element of an instruction is.
    pub(super) fn value(&self, cx: &Cx<'_>, id: Id, leaf: usize) -> Value {
        match cx.opcode(id) {
            Opcode::GetTupleElement => self.value(cx, cx.operand(id, 0), index(cx, id)),
            Opcode::Tuple => self.value(cx, cx.operand(id, leaf), 0),
            Opcode::Parameter => match self.callers.get(&cx.parent(id)) {
                Some(&(caller, _)) if cx.opcode(caller) == Opcode::While => Value::Of(caller, leaf),
                Some(&(caller, branch)) => match self.value(cx, cx.operand(caller, branch + 1), leaf) {
                    Value::Of(source, _) if self.is_free(cx, source) => Value::Of(id, leaf),
                    value => value,
                },
                None => Value::Of(id, leaf),
            },
            _ => Value::Of(id, leaf),
        }
    }

    /// What `user` reads from an element of `id`; `number` tells its reads apart.
    pub(super) fn read(&self, cx: &Cx<'_>, user: Id, number: usize, (id, leaf): (Id, usize)) -> Value {
        match self.value(cx, id, leaf) {
            Value::Of(source, _) if self.is_free(cx, source) => Value::Read(user, number),
            value => value,
        }
    }

    /// What `user` reads as one of its operands.
    pub(super) fn operand(&self, cx: &Cx<'_>, user: Id, number: usize) -> Value {
        self.read(cx, user, number, (cx.operand(user, number), 0))
    }

    /// What enters element `leaf` of a loop from its body, or of a branch from branch `number`; `None` is what enters a loop first.
    pub(super) fn entering(&self, cx: &Cx<'_>, id: Id, leaf: usize, number: usize) -> (Value, (Id, usize)) {
        let from = match cx.opcode(id) {
            Opcode::While if number == 1 => cx.root(cx.callees(id)[0]),
            Opcode::Conditional => cx.root(cx.callees(id)[number]),
            _ => cx.operand(id, 0),
        };
        (self.read(cx, id, READS * (number + 1) + leaf, (from, leaf)), (from, leaf))
    }

    /// All places in the order in which they stand in the program; loops stand before their bodies.
    pub(super) fn nodes(&self, cx: &Cx<'_>, entry: ComputationId) -> Vec<Node> {
        let mut nodes = Vec::new();
        self.collect(cx, entry, &mut nodes);
        if cx.opcode(self.root) == Opcode::Tuple {
            for number in 0..cx.operands(self.root).len() {
                let value = self.value(cx, cx.operand(self.root, number), 0);
                nodes.push(Self::edge(cx, self.root, vec![value], Value::Read(self.root, READS + number)));
            }
        } else {
            let value = self.value(cx, self.root, 0);
            nodes.push(Self::edge(cx, self.root, vec![value], Value::Read(self.root, READS)));
        }
        nodes
    }

    fn collect(&self, cx: &Cx<'_>, computation: ComputationId, nodes: &mut Vec<Node>) {
        for &id in cx.post_order(computation).iter() {
            match cx.opcode(id) {
                Opcode::Parameter | Opcode::Tuple | Opcode::GetTupleElement | Opcode::Call => {}
                Opcode::While | Opcode::Conditional | Opcode::OptBarrier => {
                    for leaf in 0..leaves(cx, id) {
                        let ways = match cx.opcode(id) {
                            Opcode::While => 2,
                            Opcode::Conditional => cx.callees(id).len(),
                            _ => 1,
                        };
                        let from = (0..ways).map(|number| self.entering(cx, id, leaf, number).0).collect();
                        nodes.push(Self::edge(cx, id, from, Value::Of(id, leaf)));
                    }
                    if cx.opcode(id) != Opcode::OptBarrier {
                        cx.callees(id).into_iter().for_each(|callee| self.collect(cx, callee, nodes));
                    }
                }
                _ if self.is_free(cx, id) || self.fixed[id] => {}
                _ => {
                    let operands = (0..cx.operands(id).len()).map(|number| self.operand(cx, id, number)).collect();
                    let results = (0..leaves(cx, id)).map(|leaf| Value::Of(id, leaf)).collect();
                    nodes.push(Node { at: id, is_edge: false, operands, results, factors: factors::of(cx, id) });
                }
            }
        }
    }

    fn edge(cx: &Cx<'_>, at: Id, operands: Vec<Value>, result: Value) -> Node {
        let dims = Self::array(cx, result).map(|array| array.dims.to_vec()).unwrap_or_default();
        let factors = factors::identity(&dims, operands.len());
        Node { at, is_edge: true, operands, results: vec![result], factors }
    }

    /// The array that a value is.
    pub(super) fn array<'c>(cx: &'c Cx<'_>, value: Value) -> Option<&'c ArrayShape> {
        let (id, leaf) = match value {
            Value::Of(id, leaf) => (id, leaf),
            Value::Read(user, number) if number < READS => (cx.operand(user, number), 0),
            Value::Read(user, number) => (user, number % READS),
        };
        match cx.shape(id).as_tuple() {
            Some(elements) => elements.get(leaf)?.as_array(),
            None => cx.array(id),
        }
    }

    /// The instruction whose elements the program returns.
    pub(super) fn root(&self) -> Id {
        self.root
    }
}

/// Numbers of reads from here on are elements of what enters a loop, a branch or the result of the program.
pub(super) const READS: usize = 1 << 20;

/// How many arrays an instruction makes.
pub(super) fn leaves(cx: &Cx<'_>, id: Id) -> usize {
    cx.shape(id).as_tuple().map_or(1, <[_]>::len)
}

/// Which element of its operand an instruction takes.
pub(super) fn index(cx: &Cx<'_>, id: Id) -> usize {
    cx.inst(id).int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok()).unwrap_or(0)
}
