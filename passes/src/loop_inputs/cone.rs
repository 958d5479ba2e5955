//! How rows of a value follow from rows of what stands in memory.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::shape::Layout;
use hlo_ir::{ArrayShape, AttrKey, ComputationId, DotDims, ElementType, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::Context;
use crate::bounds;
use crate::flow::{OperandFlow, Rows, is_rounded, is_slow, pull};
use crate::loops::row_slices::RowSlice;
use crate::machine::LINE;
use crate::objective::NEGLIGIBLE;

/// Most elements of something that is computed again as a whole for every row.
const MOST_WHOLE: u64 = 64;
/// Fewest bytes beside each other that are worth reading again and again: four cache lines. Loops over shorter ones ran slower (docs/measured/log.md, "Figures behind constants").
const SHORTEST_RUN: i64 = 4 * LINE as i64;

/// How much of a value is needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Form {
    /// All of it.
    Whole,
    /// Rows of a dimension.
    Part(usize, Rows),
}

impl Form {
    /// Bytes of this much of an array, where a step takes rows of the value.
    fn bytes(self, array: &ArrayShape, taken: RowSlice) -> Option<Bytes> {
        match self {
            Self::Whole => size::array_size(array),
            Self::Part(dim, rows) => size::array_size(&array.with_dim(dim, rows.len(taken.rows))),
        }
    }
}

/// Where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    /// It stands in memory.
    Leaf,
    /// By its own operation, from this much of each operand.
    Operation(Vec<Form>),
    /// It is an `iota` along the rows: rows of it count from where they begin.
    Counted,
}

/// Everything needed for a block of rows.
pub(super) struct Cone {
    pub(super) nodes: IndexMap<(InstructionId, Form), Node>,
}

impl Cone {
    /// For rows of dimension `dim` of `value`; `None` if the value itself has to stand in memory, or too much would be computed again.
    pub(super) fn of(recomputable: Recomputable<'_>, value: InstructionId, dim: usize) -> Option<Self> {
        let module = recomputable.module;
        let mut nodes = IndexMap::default();
        let mut work = vec![(value, Form::Part(dim, Rows::IDENTITY))];
        while let Some((id, form)) = work.pop() {
            if nodes.contains_key(&(id, form)) {
                continue;
            }
            let node = recomputable.node(id, form)?;
            if let Node::Operation(forms) = &node {
                work.extend(module.instruction(id).operands.iter().copied().zip(forms.iter().copied()));
            }
            nodes.insert((id, form), node);
        }
        let cone = Self { nodes };
        let makes = cone.nodes.first().is_some_and(|(_, node)| *node != Node::Leaf);
        // A float of 16 bits that is computed may lose its rounding in a fusion; as a leaf it would be rounded.
        let rounded = cone.leaves().any(|(id, _)| is_rounded(module, id));
        (makes && !rounded && cone.anew().count() <= bounds::CONE).then_some(cone)
    }

    /// The same where each row is computed once: what is costly and read by something else too stays in memory, and so does what is not made `as_often` in front of the loop.
    pub(super) fn once(
        context: &Context<'_>,
        value: InstructionId,
        dim: usize,
        as_often: impl Fn(InstructionId) -> bool,
    ) -> Option<Self> {
        let (module, users) = (context.module, context.users);
        let mut shared = IndexSet::default();
        loop {
            let cone = Self::of(Recomputable { module, once: Some(&shared) }, value, dim)?;
            let here: IndexSet<InstructionId> = cone.anew().map(|(id, _)| id).collect();
            let is_cheap = |id| is_cheap(module, id, module.instruction(id));
            let is_shared = |id: &InstructionId| {
                let costly = *id != value && !is_cheap(*id) && !shared.contains(id);
                costly && (users.get(*id).iter().any(|user| !here.contains(user)) || !as_often(*id))
            };
            let more: Vec<InstructionId> = here.iter().copied().filter(is_shared).collect();
            if more.is_empty() {
                return Some(cone);
            }
            shared.extend(more);
        }
    }

    /// What has to be carried into the loop, in an order that depends on the program alone.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (InstructionId, Form)> {
        self.nodes.iter().filter(|(_, node)| **node == Node::Leaf).map(|(&key, _)| key)
    }

    /// What is computed again.
    pub(super) fn anew(&self) -> impl Iterator<Item = (InstructionId, Form)> {
        self.nodes.iter().filter(|(_, node)| **node != Node::Leaf).map(|(&key, _)| key)
    }

    /// Whether no more bytes are read for a block than the block itself has, but for what is [`NEGLIGIBLE`]. Where it is computed once in either place, it is neither written nor read, so
    /// that less than twice as much may be read for it.
    pub(super) fn reads_no_more(&self, module: &Module, value: InstructionId, taken: RowSlice, once: bool) -> bool {
        let bytes = |id: InstructionId, form: Form| form.bytes(module.instruction(id).array()?, taken);
        let row = bytes(value, Form::Part(taken.dim, Rows::IDENTITY));
        let scalar = |id: InstructionId| module.instruction(id).array().is_some_and(|array| array.rank() == 0);
        // A gather reads what it picks.
        let picks: Vec<_> = self.gathers(module).collect();
        let is_picked = |leaf: &(InstructionId, Form)| picks.iter().any(|(_, from)| from == leaf);
        let read = self.leaves().filter(|leaf| !scalar(leaf.0) && !is_picked(leaf));
        let mut seen: IndexMap<(InstructionId, Option<usize>), Option<Bytes>> = IndexMap::default();
        for (id, form) in read.chain(picks.iter().map(|(gather, _)| *gather)) {
            // Rows beside each other, of one array, lie in the same lines of memory.
            let dim = if let Form::Part(dim, _) = form { Some(dim) } else { None };
            let most = seen.entry((id, dim)).or_default();
            *most = bytes(id, form).max(*most);
        }
        let read: Option<Bytes> = seen.into_values().sum();
        let (Some(Bytes(read)), Some(Bytes(row))) = (read, row) else { return false };
        read <= row + row / NEGLIGIBLE || once && read < row.saturating_add(row)
    }

    /// Operations for each number of a block.
    pub(super) fn operations(&self, module: &Module, value: InstructionId, taken: RowSlice) -> Option<f64> {
        let elements = |id: InstructionId, form: Form| {
            let array = module.instruction(id).array()?;
            let array = match form {
                Form::Whole => array.clone(),
                Form::Part(dim, rows) => array.with_dim(dim, rows.len(taken.rows)),
            };
            Some(array.elements()? as f64)
        };
        let all = self.anew().map(|(id, form)| elements(id, form)).sum::<Option<f64>>()?;
        Some(all / elements(value, Form::Part(taken.dim, Rows::IDENTITY))?)
    }

    /// The gathers, and what each picks its elements from.
    fn gathers(&self, module: &Module) -> impl Iterator<Item = ((InstructionId, Form), (InstructionId, Form))> {
        self.nodes.iter().filter_map(|(&key, node)| {
            let Node::Operation(forms) = node else { return None };
            let inst = module.instruction(key.0);
            (inst.opcode == Opcode::Gather).then(|| (key, (inst.operands[0], forms[0])))
        })
    }
}

impl Cone {
    /// Bytes of the largest block that a step computes, the rows themselves or something that they are made of.
    pub(super) fn largest_part(&self, module: &Module, taken: RowSlice) -> Bytes {
        let parts = self.anew().filter(|(_, form)| *form != Form::Whole);
        let parts = parts.filter_map(|(id, form)| form.bytes(module.instruction(id).array()?, taken));
        parts.max().unwrap_or(Bytes::ZERO)
    }

    /// Whether what every step reads as a whole stays in the cache, is no larger than what it makes of it, or an operand of a product of many rows.
    pub(super) fn has_small_wholes(&self, context: &Context<'_>, taken: RowSlice) -> bool {
        let (module, machine) = (context.module, context.options.machine());
        self.nodes.iter().all(|(&(id, form), node)| {
            let (Node::Operation(forms), Form::Part(dim, rows)) = (node, form) else { return true };
            let inst = module.instruction(id);
            let wholes = inst.operands.iter().zip(forms).enumerate().filter(|(_, (_, form))| **form == Form::Whole);
            wholes.into_iter().all(|(side, (&whole, _))| {
                if inst.opcode == Opcode::Gather && side == 0 {
                    return true;
                }
                if inst.opcode == Opcode::Dot {
                    return rows_of_product(module, inst, (side, dim), rows.len(taken.rows))
                        .is_some_and(|rows| rows >= 2 * machine.few_rows);
                }
                let made = inst.array().and_then(|array| form.bytes(array, taken));
                size::shape_size(module.shape(whole)).is_some_and(|read| read <= machine.cache || Some(read) <= made)
            })
        })
    }

    /// Whether rows of the leaves lie together as rows of the value do, or well enough to be read many times, but for leaves that are [`NEGLIGIBLE`] and those that
    /// are read `as_often` in either place.
    pub(super) fn reads_in_runs(
        &self,
        module: &Module,
        value: InstructionId,
        taken: RowSlice,
        as_often: impl Fn(InstructionId) -> bool,
    ) -> bool {
        let array = |id: InstructionId| module.instruction(id).array();
        // Before XLA assigns layouts, that of a value in between says nothing.
        let descending = |array: &ArrayShape| Layout::descending(array.rank()).minor_to_major;
        let own = array(value).map_or(0, |array| run(array, &descending(array), taken.dim, taken.rows));
        let least = own.min(SHORTEST_RUN);
        let row = array(value).and_then(|array| Form::Part(taken.dim, Rows::IDENTITY).bytes(array, taken));
        let few = row.unwrap_or(Bytes::ZERO).get() / NEGLIGIBLE;
        let leaves_lie_together = self.leaves().all(|(leaf, form)| match (form, array(leaf)) {
            (Form::Part(dim, rows), Some(array)) => {
                let is_small = form.bytes(array, taken).is_some_and(|bytes| bytes.get() <= few);
                is_small || run(array, &array.minor_to_major(), dim, rows.len(taken.rows)) >= least || as_often(leaf)
            }
            _ => true,
        });
        let is_long = |gather| gathered_run(module, gather).is_some_and(|run| run >= least);
        leaves_lie_together && self.gathers(module).all(|((gather, _), _)| is_long(gather) || as_often(gather))
    }
}

/// How many rows of the other side meet the whole operand on `side` in a block of dimension `dim` of a product.
fn rows_of_product(module: &Module, inst: &Instruction, (side, dim): (usize, usize), rows: i64) -> Option<u64> {
    let dims = DotDims::of(inst)?;
    let block = inst.array()?.with_dim(dim, rows).elements()?;
    let whole = module.instruction(inst.operands[side]).array()?;
    let contracted = [dims.lhs_contracting, dims.rhs_contracting][side];
    let inner: i64 = contracted.iter().map(|&dim| whole.dims[dim as usize]).product();
    let columns = whole.elements()? / u64::try_from(inner).ok()?.max(1);
    Some(block / columns.max(1))
}

/// Bytes beside each other in `rows` rows of dimension `dim`, where `order` names the dimensions, the innermost first.
fn run(array: &ArrayShape, order: &[i64], dim: usize, rows: i64) -> i64 {
    let inner = order.iter().take_while(|&&other| other != dim as i64);
    let elements: i64 = inner.map(|&other| array.dims[other as usize]).product();
    elements.saturating_mul(rows).saturating_mul(i64::from(array.element_type.bits())) / 8
}

/// Bytes beside each other that a gather takes from what it picks from.
fn gathered_run(module: &Module, gather: InstructionId) -> Option<i64> {
    let inst = module.instruction(gather);
    let (from, sizes) = (module.instruction(inst.operands[0]).array()?, inst.ints(&AttrKey::SliceSizes));
    let mut elements: i64 = 1;
    for dim in from.minor_to_major().iter().map(|&dim| dim as usize) {
        elements = elements.saturating_mul(*sizes.get(dim)?);
        if sizes[dim] != from.dims[dim] {
            break;
        }
    }
    Some(elements.saturating_mul(i64::from(from.element_type.bits())) / 8)
}

/// What may be computed in a loop.
#[derive(Clone, Copy)]
pub(super) struct Recomputable<'a> {
    pub(super) module: &'a Module,
    /// Where each row is computed once and takes long, or its step does: then sums, products and costly functions are as well made there, but for these,
    /// which others read too.
    pub(super) once: Option<&'a IndexSet<InstructionId>>,
}

impl Recomputable<'_> {
    /// How this much of a value is made; `None` if it cannot be carried either.
    fn node(self, id: InstructionId, form: Form) -> Option<Node> {
        let module = self.module;
        let inst = module.instruction(id);
        let array = inst.array()?;
        // A row number further on has to fit the type of any start.
        if matches!(form, Form::Part(dim, _) if array.dims[dim] > i64::from(i32::MAX)) {
            return None;
        }
        let operation = match form {
            Form::Whole if array.elements().is_none_or(|elements| elements > MOST_WHOLE) => None,
            Form::Whole if inst.opcode == Opcode::Constant => Some(Node::Operation(Vec::new())),
            Form::Whole => is_cheap(module, id, inst).then(|| Node::Operation(vec![Form::Whole; inst.operands.len()])),
            Form::Part(dim, rows) if is_cheap(module, id, inst) || self.is_made_once(id, inst) => {
                part(module, id, inst, dim, rows)
            }
            Form::Part(..) => None,
        };
        Some(operation.unwrap_or(Node::Leaf))
    }

    fn is_made_once(self, id: InstructionId, inst: &Instruction) -> bool {
        let costly = matches!(inst.opcode, Opcode::Dot | Opcode::Reduce) || inst.opcode.is_elementwise();
        let plain = |computation: ComputationId| {
            self.module.instructions_of(computation).all(|(_, inst)| inst.called_computations().next().is_none())
        };
        self.once.is_some_and(|shared| !shared.contains(&id))
            && costly
            && !is_short_float(inst)
            && inst.called_computations().all(plain)
            && is_movable(self.module, id, inst)
    }
}

fn part(module: &Module, id: InstructionId, inst: &Instruction, dim: usize, rows: Rows) -> Option<Node> {
    if inst.opcode == Opcode::Iota && inst.int(&AttrKey::IotaDimension) == i64::try_from(dim).ok() {
        let element = inst.array()?.element_type;
        return (element == ElementType::S32).then_some(Node::Counted);
    }
    let flows = pull(module, id, dim).ok()?;
    let form = |flow: &OperandFlow| match *flow {
        OperandFlow::Whole => Some(Form::Whole),
        OperandFlow::Block { dim, step } => {
            let rows = rows.then(step)?;
            let straight = rows.granule() == 1 && !rows.is_reversed();
            straight.then_some(Form::Part(dim, rows))
        }
    };
    flows.iter().map(form).collect::<Option<Vec<Form>>>().map(Node::Operation)
}

/// Operations that cost no more than the memory that they read, and round as they do everywhere.
fn is_cheap(module: &Module, id: InstructionId, inst: &Instruction) -> bool {
    let moves = matches!(
        inst.opcode,
        Opcode::Broadcast
            | Opcode::Concatenate
            | Opcode::Gather
            | Opcode::Iota
            | Opcode::Pad
            | Opcode::Reshape
            | Opcode::Reverse
            | Opcode::Slice
            | Opcode::Transpose
    );
    let computes = inst.opcode.is_elementwise() && !is_slow(module, id) && !is_short_float(inst);
    (moves || computes) && inst.called_computations().next().is_none() && is_movable(module, id, inst)
}

fn is_movable(module: &Module, id: InstructionId, inst: &Instruction) -> bool {
    inst.control_predecessors().is_empty()
        && inst.attribute(&AttrKey::Sharding).is_none()
        && !hlo_ir::edit::has_side_effect(module, id)
}

fn is_short_float(inst: &Instruction) -> bool {
    inst.array().is_some_and(|array| array.element_type.is_float() && array.element_type.bits() < 32)
}
