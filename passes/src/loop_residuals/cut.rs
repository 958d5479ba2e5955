//! Which rows a loop stacks: the fewest bytes from which everything that is read follows, a minimum cut.
//!
//! Every value of a step is stored, in a stack, or computed again from its operands. Storing costs its bytes, computing a little for each
//! number, and what cannot be computed again must be stored where something needs it (`recompute/cut.rs`).

use hlo_ir::{ElementType, InstructionId, Module, Opcode};
use hlo_memory::{Target, size};

use super::cone::{Node, node};
use super::grow::Outlets;
use super::products::multiplications;
use super::readers::Readers;
use super::stacks::{Stack, Stacks};
use crate::flow::{Value, is_slow};
use crate::recompute::cut::{NEVER, Network};
use crate::{Grade, Options};

/// What a stacked byte costs, where a simple operation on one number costs [`OPERATION`]: a row of `f32` is worth 64 operations, about what
/// writing and reading it takes beside operations that a kernel shares.
const STORED: u64 = 64;
/// What a simple operation on one number costs.
const OPERATION: u64 = 4;
/// What a multiplication of a product costs, with its addition: a row of `f32` is worth a contraction of 256 numbers.
const MULTIPLICATION: u64 = 1;
/// How much more a function costs, or a movement of data that no kernel takes in.
const SLOW: u64 = 4;
/// What is weighed against each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prices {
    /// Whether products may be computed again.
    pub(super) products: bool,
    /// How many times its usual price a stacked byte costs: more where memory is asked for at the cost of run time.
    pub(super) memory: u64,
}

/// The stacks to drop, by index; stacks to add are put behind those that are there.
pub(super) fn choose(
    module: &Module,
    stacks: &mut Stacks,
    readers: &Readers,
    options: &Options,
    outlets: &Outlets,
    prices: Prices,
) -> Vec<usize> {
    let is_read = |index: usize| readers.list.iter().any(|reader| reader.reads.iter().any(|read| read.stack == index));
    let may_go = |at: usize| !(options.exactness == Grade::Bitwise && stacks.list[at].is_rounded());
    let droppable: Vec<usize> = (0..stacks.list.len()).filter(|&at| readers.only_read[at] && may_go(at)).collect();
    let sinks: Vec<usize> = droppable.iter().copied().filter(|&at| is_read(at)).collect();
    let mut network = Network::new();
    grow(&mut network, module, stacks, [&sinks, &droppable], options, outlets, prices);
    let mut dropped = sinks;
    for value in network.choose().kept {
        match droppable.iter().find(|&&at| stacks.list[at].row == value) {
            Some(kept) => dropped.retain(|at| at != kept),
            None => stacks.add(module, value),
        }
    }
    dropped
}

/// Adds to a network what the rows of `sinks` follow from.
fn grow(
    network: &mut Network<Value>,
    module: &Module,
    stacks: &mut Stacks,
    [sinks, droppable]: [&[usize]; 2],
    options: &Options,
    outlets: &Outlets,
    prices: Prices,
) {
    let exact = options.exactness == Grade::Bitwise;
    let mut steps: Vec<[Value; 2]> = Vec::new();
    let rows = sinks.iter().map(|&at| stacks.list[at].row);
    let mut work: Vec<Value> = rows.filter(|&row| network.need(row)).collect();
    while let Some(value) = work.pop() {
        let found = node(module, stacks, value, droppable);
        let has_stack = droppable.iter().any(|&at| stacks.list[at].row == value);
        let is_new = || module.instruction(value.inst).opcode != Opcode::Reshape;
        let can_stack = has_stack || (is_new() && outlets.reach(module, &stacks.body.frames, value));
        let stored = if can_stack { storing(module, value.inst, options.target, prices.memory) } else { NEVER };
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
        let price = computing(module, value.inst, prices.products);
        network.compute(value, price);
        work.extend(operands.into_iter().filter(|&operand| price < NEVER && network.follows(value, operand)));
    }
    // What follows from itself, one step before, could be followed back to the beginning: a row of it must be stored, and from that row the next step's
    // follows.
    network.end_rings(&steps);
}

/// What stacking a row costs. A `bf16` counts as an `f32` on CPU, where XLA widens the whole array before the loop that reads it.
fn storing(module: &Module, id: InstructionId, target: Target, times: u64) -> u64 {
    let array = module.instruction(id).array().filter(|array| !array.is_dynamic());
    let widened = array.map(|array| match array.element_type {
        ElementType::Bf16 if target == Target::Cpu => array.with_element_type(ElementType::F32),
        _ => array.clone(),
    });
    let bytes = widened.as_ref().and_then(size::array_size);
    bytes.map_or(NEVER, |bytes| bytes.0.saturating_mul(STORED.saturating_mul(times)).min(NEVER))
}

/// What computing a value once more costs, its operands apart.
fn computing(module: &Module, id: InstructionId, products: bool) -> u64 {
    let inst = module.instruction(id);
    let times = match inst.opcode {
        Opcode::Dot if products => return multiplications(module, id).saturating_mul(MULTIPLICATION).min(NEVER),
        Opcode::Dot => return NEVER,
        Opcode::Constant | Opcode::Iota | Opcode::Broadcast | Opcode::Reshape => 0,
        Opcode::Transpose | Opcode::Concatenate | Opcode::Slice => SLOW,
        _ if is_slow(module, id) => SLOW,
        _ => 1,
    };
    let elements = inst.array().and_then(hlo_ir::ArrayShape::elements).unwrap_or(NEVER);
    elements.saturating_mul(OPERATION * times).min(NEVER)
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
