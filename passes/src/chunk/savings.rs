//! What a loop saves: the full-size values that XLA would have to materialize and that nothing reads behind the loop.

// Tests: `passes/tests/chunk_time.rs`.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::arena::{Id as _, SideTable};
use hlo_ir::module::Payload;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, InstructionId, Module, Opcode, Shape, edit, literal};
use hlo_memory::size::array_size;
use hlo_memory::{Bytes, Target};

use super::region::{Block, Part, Region, Source};
use super::sink::Sink;
use crate::Context;
use crate::flow::{Rows, Value, is_fusible, producer};

/// Instructions of a computation whose values are not held in memory any more once some sinks are replaced.
pub(super) struct DeadAfter {
    /// Instructions that XLA merges into one have one number.
    value_numbers: SideTable<InstructionId, usize>,
    /// What still holds the value of each number that is still there.
    holders: IndexMap<usize, Holders>,
}

/// Instructions that need a value after the rewrite.
#[derive(Default)]
struct Holders {
    users: IndexSet<usize>,
    /// Whether some of them need it in memory.
    firm: bool,
}

impl DeadAfter {
    pub(super) fn of(context: &Context<'_>, computation: ComputationId, sinks: &[&Sink]) -> Self {
        let module = context.module;
        let gone = unneeded(context, computation, sinks);
        let value_numbers = value_numbers(module, computation);
        let mut holders: IndexMap<usize, Holders> = IndexMap::default();
        for (id, inst) in module.instructions_of(computation).filter(|&(id, _)| !gone[id]) {
            holders.entry(value_numbers[id]).or_default().firm |= module.computation(computation).root == id;
            for &operand in &inst.operands {
                let holder = holders.entry(value_numbers[operand]).or_default();
                holder.users.insert(value_numbers[id]);
                holder.firm |= !is_fusible(inst.opcode) || !is_fusible(module.instruction(operand).opcode);
            }
        }
        Self { value_numbers, holders }
    }
    /// Whether neither `id` nor an equal instruction has a value in memory after the rewrite: it is gone, or it has one user left that
    /// computes it on the fly.
    pub(super) fn is_gone(&self, id: InstructionId) -> bool {
        self.holders.get(&self.value_numbers[id]).is_none_or(|holders| !holders.firm && holders.users.len() <= 1)
    }
}

/// Instructions that are dead once `sinks` are replaced.
fn unneeded(context: &Context<'_>, computation: ComputationId, sinks: &[&Sink]) -> SideTable<InstructionId, bool> {
    let module = context.module;
    let kept: IndexSet<InstructionId> =
        module.instructions_of(computation).flat_map(|(_, inst)| inst.control_predecessors()).copied().collect();
    let mut gone = SideTable::new(false);
    let mut work: Vec<InstructionId> = Vec::new();
    for sink in sinks {
        gone.set(sink.inst, true);
        work.extend(&module.instruction(sink.inst).operands);
    }
    let root = module.computation(computation).root;
    while let Some(id) = work.pop() {
        let unused = context.users.get(id).iter().all(|&user| gone[user]);
        if unused && !gone[id] && id != root && !kept.contains(&id) && edit::removable(module, id) {
            gone.set(id, true);
            work.extend(&module.instruction(id).operands);
        }
    }
    gone
}

/// What two instructions must have in common to be equal expressions.
#[derive(PartialEq, Eq, Hash)]
struct Expression<'m> {
    opcode: Opcode,
    shape: &'m Shape,
    payload: &'m Payload,
    operands: Vec<usize>,
    attributes: Vec<&'m Attribute>,
    /// Constants whose values the dump left out equal only themselves.
    elided: Option<InstructionId>,
}

/// Numbers instructions such that equal expressions get equal numbers (metadata aside).
pub(super) fn value_numbers(module: &Module, computation: ComputationId) -> SideTable<InstructionId, usize> {
    let mut number = SideTable::new(usize::MAX);
    let mut known: IndexMap<Expression<'_>, usize> = IndexMap::default();
    for (id, inst) in module.instructions_of(computation) {
        let expression = Expression {
            opcode: inst.opcode,
            shape: &inst.shape,
            payload: &inst.payload,
            operands: inst.operands.iter().map(|&operand| number[operand]).collect(),
            attributes: inst.attributes.iter().filter(|attribute| attribute.key != AttrKey::Metadata).collect(),
            elided: literal::is_elided(inst).then_some(id),
        };
        let next = known.len();
        number.set(id, *known.entry(expression).or_insert(next));
    }
    number
}

/// Names a value among equal values; values inside a called computation are told apart by the call.
pub(super) type Identity = (usize, Option<InstructionId>);

/// The values of which a block is in memory inside the loop: what sinks and other instructions that are not fused read. Each is listed
/// once for each form.
pub(super) struct Materialized {
    blocks: IndexMap<(Identity, usize, Rows), (Value, Origin)>,
    /// Indices that XLA:CPU computes from those of scatters with batching dimensions.
    expanded: Vec<(Identity, Bytes)>,
}

/// Whether a value exists at full size only for the sinks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Computed,
    /// It stands in memory anyway; only the block is a copy.
    Read,
}

impl Materialized {
    pub(super) fn of(context: &Context<'_>, sinks: &[&Sink], region: &Region, dead: &DeadAfter) -> Self {
        let module = context.module;
        let mut held: IndexSet<Block> = IndexSet::default();
        let mut expanded = Vec::new();
        for (sink, roots) in sinks.iter().zip(&region.roots) {
            let bytes = sink.expanded_indices(module).filter(|_| context.options.target == Target::Cpu);
            held.extend(roots.iter().skip(usize::from(bytes.is_some())));
            expanded.extend(bytes.map(|bytes| ((dead.value_numbers[sink.inst], None), bytes)));
        }
        for (block, source) in &region.blocks {
            let (op, _) = producer(module, block.value.inst);
            if let (Source::Computed(parts), false) = (source, is_fusible(module.instruction(op).opcode)) {
                held.insert(*block);
                held.extend(parts.iter().filter_map(|part| match part {
                    Part::Block(block) => Some(*block),
                    Part::Whole(_) => None,
                }));
            }
        }
        let stored = held.into_iter().map(|block| storage(module, region, block));
        let named = stored.map(|(block, origin)| {
            ((identity(region, dead, block.value), block.dim, block.rows), (block.value, origin))
        });
        Self { blocks: named.collect(), expanded }
    }
    /// Bytes of one of `rows` rows of everything a block holds.
    pub(super) fn row_bytes(&self, module: &Module, rows: i64) -> u64 {
        let blocks = self.blocks.values().map(|(value, _)| full_bytes(module, *value));
        let bytes = blocks.chain(self.expanded.iter().map(|(_, bytes)| *bytes));
        bytes.map(|bytes| bytes.get().div_ceil(rows as u64)).fold(0, u64::saturating_add)
    }
    /// The values that disappear, with their full size.
    pub(super) fn gone(&self, module: &Module, region: &Region, dead: &DeadAfter) -> IndexMap<Identity, Bytes> {
        let computed = self.blocks.iter().filter(|(_, (_, origin))| *origin == Origin::Computed);
        let named = computed.map(|((identity, ..), (value, _))| (*identity, *value));
        let holder = |value: &Value| region.frames.outermost_call(value.frame).unwrap_or(value.inst);
        let gone = named.filter(|(_, value)| dead.is_gone(holder(value)));
        gone.map(|(identity, value)| (identity, full_bytes(module, value)))
            .chain(self.expanded.iter().copied())
            .collect()
    }
}

fn full_bytes(module: &Module, value: Value) -> Bytes {
    module.instruction(value.inst).array().and_then(array_size).unwrap_or_default()
}

fn identity(region: &Region, dead: &DeadAfter, value: Value) -> Identity {
    match region.frames.outermost_call(value.frame) {
        None => (dead.value_numbers[value.inst], None),
        call => (value.inst.index(), call),
    }
}

/// The block whose memory a block occupies: reshapes and the like are views.
fn storage(module: &Module, region: &Region, mut block: Block) -> (Block, Origin) {
    loop {
        match &region.blocks[&block] {
            Source::Computed(parts) => match (is_view(module, block.value.inst), parts.as_slice()) {
                (true, [Part::Block(below)]) => block = *below,
                _ => return (block, Origin::Computed),
            },
            Source::Read(_) | Source::ReadThrough(..) => return (block, Origin::Read),
        }
    }
}

/// Whether the instruction only renames memory.
pub(super) fn is_view(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let from = inst.operands.first().and_then(|&operand| module.instruction(operand).array());
    let (Some(from), Some(to)) = (from, inst.array()) else { return false };
    match inst.opcode {
        Opcode::Bitcast => true,
        Opcode::BitcastConvert | Opcode::Convert => from.element_type == to.element_type,
        Opcode::Reshape => {
            [from, to].iter().all(|shape| shape.layout.as_ref().is_none_or(hlo_ir::Layout::is_descending))
        }
        Opcode::Transpose => {
            let order = inst.ints(&AttrKey::Dimensions);
            to.minor_to_major().iter().map(|&dim| order[dim as usize]).eq(from.minor_to_major())
        }
        Opcode::Slice => match inst.attribute(&AttrKey::Slice) {
            Some(AttrValue::Slice(bounds)) => bounds.iter().zip(&from.dims).all(|(bound, &size)| bound.is_full(size)),
            _ => false,
        },
        _ => false,
    }
}
