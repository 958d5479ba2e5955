//! Which rows a loop stacks: the fewest bytes from which everything that is read follows, a minimum cut.
//!
//! Every value of a step is stored, in a stack, or computed again from its operands. Storing costs what moving its bytes takes, computing what
//! `cost.rs` says, and what cannot be computed again must be stored where something needs it (`recompute/cut.rs`). So the cheapest choice
//! takes no more time than the loops as they are, unless memory is worth more than its traffic.

use crate::hash::IndexMap;
use hlo_ir::{ElementType, InstructionId, Module, Opcode};
use hlo_memory::{Target, size};

use super::cone::{Node, node};
use super::grow::Stackable;
use crate::cost::Costs;
use crate::flow::Value;
use crate::loops::{Readers, Stack, Stacks};
use crate::recompute::cut::{NEVER, Network};
use crate::{Grade, Options};

/// What stacking a byte costs, in bytes of traffic: the stack is filled before the loop, written in it and read by the loop behind it.
const STACKED: u64 = 3;

/// What storing and computing cost, as bytes of memory traffic that take as long.
pub(super) struct Prices<'a> {
    pub(super) costs: Costs<'a>,
    pub(super) target: Target,
    /// How many times its usual price a stacked byte costs: more where memory is asked for at the cost of run time.
    pub(super) memory: u64,
}

/// What is chosen of a loop's stacks.
#[derive(Clone)]
pub(super) struct Choice {
    /// The stacks to drop, by index; stacks to add are put behind those that are there.
    pub(super) dropped: Vec<usize>,
    /// What a step of both loops takes longer than before, as bytes of traffic.
    pub(super) slower: u64,
}

/// The cheapest choice at these prices.
pub(super) fn choose(
    module: &Module,
    stacks: &mut Stacks,
    readers: &Readers,
    options: &Options,
    stackable: &Stackable,
    prices: &Prices<'_>,
) -> Choice {
    let is_read = |index: usize| readers.list.iter().any(|reader| reader.reads.iter().any(|read| read.stack == index));
    let may_go = |at: usize| !(options.exactness == Grade::Bitwise && stacks.list[at].is_rounded());
    let droppable: Vec<usize> = (0..stacks.list.len()).filter(|&at| readers.only_read[at] && may_go(at)).collect();
    let sinks: Vec<usize> = droppable.iter().copied().filter(|&at| is_read(at)).collect();
    let mut network = Network::new();
    let computing = grow(&mut network, module, stacks, [&sinks, &droppable], options, stackable, prices);
    let storing = |value: &Value| prices.storing(module, value.inst, 1);
    let before = total(sinks.iter().map(|&at| storing(&stacks.list[at].row)));
    let chosen = network.choose();
    let again = total(chosen.again.iter().map(|value| computing.get(value).copied().unwrap_or(0)));
    let after = again.saturating_mul(readers.list.len() as u64).saturating_add(total(chosen.kept.iter().map(storing)));
    let mut dropped = sinks;
    for value in chosen.kept {
        match droppable.iter().find(|&&at| stacks.list[at].row == value) {
            Some(kept) => dropped.retain(|at| at != kept),
            None => stacks.add(module, value),
        }
    }
    Choice { dropped, slower: after.saturating_sub(before) }
}

fn total(prices: impl Iterator<Item = u64>) -> u64 {
    prices.fold(0, u64::saturating_add)
}

/// Adds to a network what the rows of `sinks` follow from, and gives what computing each takes.
fn grow(
    network: &mut Network<Value>,
    module: &Module,
    stacks: &mut Stacks,
    [sinks, droppable]: [&[usize]; 2],
    options: &Options,
    stackable: &Stackable,
    prices: &Prices<'_>,
) -> IndexMap<Value, u64> {
    let mut computing = IndexMap::default();
    let exact = options.exactness == Grade::Bitwise;
    let mut steps: Vec<[Value; 2]> = Vec::new();
    let rows = sinks.iter().map(|&at| stacks.list[at].row);
    let mut work: Vec<Value> = rows.filter(|&row| network.need(row)).collect();
    while let Some(value) = work.pop() {
        let found = node(module, stacks, value, droppable);
        let has_stack = droppable.iter().any(|&at| stacks.list[at].row == value);
        let is_new = || module.instruction(value.inst).opcode != Opcode::Reshape;
        let can_stack = has_stack || (is_new() && stackable.reach(module, &stacks.body.frames, value));
        let stored = if can_stack { prices.storing(module, value.inst, prices.memory) } else { NEVER };
        network.keep(value, stored);
        let operands = match found {
            Some(Node::Row(_) | Node::Given(_) | Node::GivenRow(_) | Node::Counter) => continue,
            Some(Node::Before(_, next)) => {
                steps.push([value, next]);
                vec![next]
            }
            Some(Node::Operation(operands)) if !(exact && computes_floats(module, value.inst)) => {
                operands.into_iter().collect()
            }
            _ => {
                network.compute(value, NEVER);
                continue;
            }
        };
        let price = prices.computing(module, value.inst);
        network.compute(value, price);
        computing.insert(value, price);
        work.extend(operands.into_iter().filter(|&operand| price < NEVER && network.follows(value, operand)));
    }
    // What follows from itself, one step before, could be followed back to the beginning: a row of it must be stored, and from that row the next step's
    // follows.
    network.break_cycles(&steps);
    computing
}

impl Prices<'_> {
    /// What stacking a row costs where memory is worth so many times its usual price. A `bf16` counts as an `f32` on CPU, where XLA widens the whole array before the loop that reads it.
    fn storing(&self, module: &Module, id: InstructionId, memory: u64) -> u64 {
        let array = module.instruction(id).array().filter(|array| !array.is_dynamic());
        let widened = array.map(|array| match array.element_type {
            ElementType::Bf16 if self.target == Target::Cpu => array.with_element_type(ElementType::F32),
            _ => array.clone(),
        });
        let bytes = widened.as_ref().and_then(size::array_size);
        bytes.map_or(NEVER, |bytes| bytes.0.saturating_mul(STACKED.saturating_mul(memory)).min(NEVER))
    }

    /// What computing a value once more costs, its operands apart. Kernels take slices in, and read in another order at the price of another read. The
    /// result of a product is written and read besides.
    fn computing(&self, module: &Module, id: InstructionId) -> u64 {
        let inst = module.instruction(id);
        let bytes = || inst.array().and_then(size::array_size).map_or(NEVER, |bytes| bytes.0);
        let traffic = || self.costs.of(id).map_or(NEVER, |traffic| traffic as u64);
        let price = match inst.opcode {
            Opcode::Dot => traffic().saturating_add(bytes().saturating_mul(2)),
            Opcode::Slice => 0,
            Opcode::Transpose | Opcode::Concatenate => bytes(),
            _ => traffic(),
        };
        price.min(NEVER)
    }
}

/// Whether a value is computed with floats, so that computing it elsewhere may round otherwise.
fn computes_floats(module: &Module, id: InstructionId) -> bool {
    !crate::recompute::bits::keeps_bits(module.instruction(id), |operand| module.instruction(operand))
}

impl Stacks {
    /// A stack of a value that has none yet, behind all others.
    fn add(&mut self, module: &Module, value: Value) {
        let row = module.instruction(value.inst).array().expect("only arrays have a price");
        let dims = [self.rows].into_iter().chain(row.dims.iter().copied());
        let array = hlo_ir::ArrayShape::new(row.element_type, dims);
        let element = self.initial.len() + self.list.len() - self.known;
        let number = self.list[0].number;
        self.list.push(Stack { element, array, row: value, number });
    }
}
