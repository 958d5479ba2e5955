//! Whether a loop over blocks may change which floating-point operations share a kernel, where sharing can show in the last bits.
//!
//! XLA contracts a product and a sum that share a kernel into one operation with one rounding, and sums in another order what it computes on the fly. A product and a sum
//! that follow each other alone, both inside the loop or both outside, share a kernel (or do not) as before. These can change:
//!
//! - a product inside whose sum stays outside, or the other way round, and a product with several users of which some leave;
//! - a sum of two products: the compiler joins one of them, and all that shares the kernel decides which;
//! - a reduction outside of something that now stands in memory, or no longer does;
//! - a quotient, function or rounding of floats that a library computed together with a reduction or product outside (softmax);
//! - a sum of which a part is needed: XLA computes that part only, unless the sum stands in memory;
//! - an array full of one number, of which the compiler knows every element unless a loop carries it;
//! - a product with rows picked from a table of one row: what is the same everywhere is multiplied in another order;
//! - numbers that lie a few places apart: they are multiplied together with those between them, and then not joined with a sum.

// Tests: `passes/tests/chunk_grades.rs`.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, ElementType, GatherDims, InstructionId, Module, Opcode};

use super::region::{Region, Source};
use super::savings::value_numbers;
use super::sink::{Kind, Sink};
use crate::flow::{
    Frames, Sources, exactness, float_product, is_cheap_to_read, is_expensive, is_float_sum, is_fusible, is_real,
    is_rounded, is_slow, is_total, is_transcendental, is_transparent, keeps_product, parameters, producer,
};
use crate::machine::VECTOR;
use crate::{Context, Grade};

/// Whether bits could change for this reason.
pub(super) fn may_contract(context: &Context<'_>, sinks: &[&Sink], region: &Region) -> bool {
    let around = RegionContext::of(context, sinks, region);
    let read = around.touched.iter().filter(|&&id| around.materialized[id] && !around.sinks.contains(&id));
    let mut border = read.chain(around.sinks.iter().filter(|&&id| around.is_read(id)));
    let rounds = border.any(|&id| is_rounded(context.module, id));
    rounds
        || joins_columns(context.module, region)
        || around.read.iter().any(|&id| around.is_full_of_one(id) || around.is_cut_sum(id))
        || around.multiplies_one_row()
        || around.picks_by_size()
        || around.touched.iter().any(|&id| {
            (around.computed[id] && joins_two(context.module, id))
                || float_product(context.module, id).is_some_and(|product| around.parts(product))
                || (around.moves(id) && around.is_reduced(id))
                || around.joins_in_another_kernel(id)
                || around.leaves_library(id)
        })
}

/// Whether a loop cuts an array of floats into columns that lie a few places apart, and adds to a product. (Random seeds 11,010,743 and 11,012,437;
/// `a / (1 + b * b)` of `f32[1000,8]`, one column at a time.)
fn joins_columns(module: &Module, region: &Region) -> bool {
    let columns = region.blocks.iter().any(|(block, source)| match source {
        Source::Computed(_) => false,
        Source::Read(_) => is_of_few_columns(module, block.value.inst, block.dim),
        Source::ReadThrough(value, _) => is_of_few_columns(module, value.inst, block.dim),
    });
    columns && region.adds_to_products(module)
}

/// Whether LLVM reads an array as a whole to compute with one of its columns (seen with 5 to 8 on x86): no more floats lie together that differ in `dim` or in dimensions inside
/// of it than a vector has.
fn is_of_few_columns(module: &Module, id: InstructionId, dim: usize) -> bool {
    let Some(array) = module.instruction(id).array().filter(|_| is_real(module, id)) else { return false };
    let order = array.minor_to_major();
    let inside = order.iter().take_while(|&&other| other != dim as i64).map(|&other| array.dims[other as usize]);
    array.dims[dim] > 1 && inside.fold(array.dims[dim], i64::saturating_mul) <= VECTOR
}

/// Whether a gather takes the same slice whatever the index is.
fn has_one_row(module: &Module, op: InstructionId) -> bool {
    let inst = module.instruction(op);
    let table = inst.operands.first().and_then(|&table| module.instruction(table).array());
    let taken = GatherDims::of(inst).filter(|_| inst.opcode == Opcode::Gather);
    taken.zip(table).is_some_and(|(taken, table)| {
        taken.start_index_map.iter().all(|&dim| taken.slice_sizes.get(dim as usize) == table.dims.get(dim as usize))
    })
}

/// Whether an instruction is a sum of two products.
fn joins_two(module: &Module, op: InstructionId) -> bool {
    let product = |&id: &InstructionId| float_product(module, id).is_some();
    is_float_sum(module, op) && module.instruction(op).operands.iter().all(product)
}

/// A region and what lies around it. Equal instructions count as one, since XLA merges them.
struct RegionContext<'a> {
    context: &'a Context<'a>,
    module: &'a Module,
    sources: Sources<'a>,
    /// What the loop replaces.
    sinks: IndexSet<InstructionId>,
    /// Instructions computed on blocks.
    computed: SideTable<InstructionId, bool>,
    /// Values that stand in memory because of the loop: it reads or writes them.
    materialized: SideTable<InstructionId, bool>,
    /// Values that the loop reads, in part or whole.
    read: IndexSet<InstructionId>,
    /// All of these.
    touched: IndexSet<InstructionId>,
    /// Every instruction with its equals.
    equals: IndexMap<InstructionId, Vec<InstructionId>>,
}

impl<'a> RegionContext<'a> {
    fn of(context: &'a Context<'a>, sinks: &[&Sink], region: &Region) -> Self {
        let mut around = Self {
            context,
            module: context.module,
            sources: Sources::of(context.module),
            sinks: sinks.iter().map(|sink| sink.inst).collect(),
            computed: SideTable::new(false),
            materialized: SideTable::new(false),
            read: IndexSet::default(),
            touched: IndexSet::default(),
            equals: IndexMap::default(),
        };
        for (block, source) in &region.blocks {
            let (op, _) = producer(around.module, block.value.inst);
            match source {
                Source::Computed(_) => around.computed.set(op, true),
                Source::Read(_) => around.reads(block.value.inst),
                Source::ReadThrough(value, _) => around.reads(value.inst),
            }
            around.touched.insert(op);
        }
        for whole in &region.wholes {
            around.reads(whole.inst);
        }
        for written in sinks.iter().filter(|sink| matches!(sink.kind, Kind::Write { .. })) {
            around.stands(written.inst);
        }
        let computations: IndexSet<ComputationId> =
            around.touched.iter().map(|&id| around.module.instruction(id).parent).collect();
        for computation in computations {
            around.equals.extend(equals(around.module, computation));
        }
        around
    }
    fn reads(&mut self, value: InstructionId) {
        self.read.insert(value);
        self.stands(value);
    }
    fn stands(&mut self, value: InstructionId) {
        let (op, _) = producer(self.module, value);
        self.materialized.set(op, true);
        self.touched.insert(op);
    }
    fn equals(&self, id: InstructionId) -> Vec<InstructionId> {
        self.equals.get(&id).cloned().unwrap_or_else(|| vec![id])
    }
    /// Whether an instruction and its equals are computed on blocks only.
    fn is_inside(&self, id: InstructionId) -> bool {
        self.equals(id).iter().all(|&equal| self.computed[equal])
    }
    /// Whether an instruction or an equal one is left as it was.
    fn is_outside(&self, id: InstructionId) -> bool {
        self.equals(id).iter().any(|&equal| !self.computed[equal] && !self.sinks.contains(&equal))
    }
    /// Who uses an instruction or one of its equals, with the calls that hand it back; one of each kind.
    fn users(&self, id: InstructionId) -> IndexSet<InstructionId> {
        let mut users = IndexSet::default();
        for equal in self.equals(id) {
            users.extend(self.context.users.get(equal).iter().map(|&user| self.equals(user)[0]));
            let parent = self.module.instruction(equal).parent;
            if self.module.computation(parent).root == equal {
                users.extend(self.sources.callers(parent).iter().filter(|&&call| is_transparent(self.module, call)));
            }
        }
        users
    }

    /// Whether a value that the loop reads may be an array of floats that are one constant, with which XLA computes where it sees it.
    fn is_full_of_one(&self, id: InstructionId) -> bool {
        let several = self.module.instruction(id).array().is_some_and(|array| array.rank() > 0);
        several && is_real(self.module, id) && self.sources.may_be_full_of_one(id)
    }

    /// Whether a value that the loop reads holds sums of floats of which it needs a part only: XLA sums up no more than that part, and by other means,
    /// where it sees both. (The last column of a cumulative sum, random seed 20,014,926.)
    fn is_cut_sum(&self, id: InstructionId) -> bool {
        let behind = Frames::new(Vec::new()).resolve(self.module, id, 0).inst;
        let made = producer(self.module, behind).0;
        if exactness(self.module, self.module.instruction(made)) == Grade::Bitwise {
            return false;
        }
        let mut seen = IndexSet::from_iter([id]);
        let mut next = 0;
        while let Some(&id) = seen.get_index(next) {
            next += 1;
            for &user in self.context.users.get(id) {
                if is_transparent(self.module, user) {
                    seen.extend(parameters(self.module, user, id));
                } else if self.touched.contains(&user) && is_fusible(self.module.instruction(user).opcode) {
                    // What is read through a dynamic slice is touched, but not computed.
                    seen.insert(user);
                }
            }
        }
        // With constant starts, XLA makes a slice of a dynamic one.
        let cuts = |&user: &InstructionId| {
            matches!(self.module.instruction(user).opcode, Opcode::Slice | Opcode::DynamicSlice)
        };
        seen.iter().any(cuts)
    }

    /// Whether products of floats are computed on blocks beside a row that is picked from a table of one row. (Random seed 15,004,950.)
    fn multiplies_one_row(&self) -> bool {
        let computed = || self.touched.iter().copied().filter(|&id| self.computed[id]);
        computed().any(|id| is_real(self.module, id) && has_one_row(self.module, id))
            && computed().any(|id| float_product(self.module, id).is_some())
    }

    /// Whether the larger or smaller of two 16-bit floats is selected on blocks. LLVM makes a maximum of that where it computes several at a time,
    /// which takes subnormal numbers for zeros, and how many it does depends on the size of blocks. (Random seed 15,015,656; of `f32` it always is one.)
    fn picks_by_size(&self) -> bool {
        self.touched.iter().any(|&id| {
            let inst = self.module.instruction(id);
            let is_16_bit =
                |array: &hlo_ir::ArrayShape| matches!(array.element_type, ElementType::Bf16 | ElementType::F16);
            self.computed[id]
                && inst.opcode == Opcode::Select
                && inst.array().is_some_and(is_16_bit)
                && self.sources.may_pick_by_size(id)
        })
    }

    /// Whether the program does more with a value than to hand it back.
    fn is_read(&self, id: InstructionId) -> bool {
        let result = self.module.computation(self.module.entry()).root;
        let hands_back = |user: InstructionId| user == result && self.module.instruction(user).opcode == Opcode::Tuple;
        self.users(id).into_iter().any(|user| !hands_back(user))
    }

    /// Whether a product meets a sum otherwise than alone and inside the loop.
    fn parts(&self, product: InstructionId) -> bool {
        let (mut alone, mut summed) = (true, false);
        let mut links = IndexSet::from_iter([product]);
        let mut next = 0;
        while let Some(&id) = links.get_index(next) {
            next += 1;
            let users = self.users(id);
            alone &= users.len() == 1 && (self.is_inside(id) || is_passage(self.module.instruction(id).opcode));
            for user in users {
                let opcode = self.module.instruction(user).opcode;
                if sums_up(self.module, user) {
                    summed = true;
                    alone &= self.is_inside(user);
                } else if self.context.users.get(id).contains(&user) && is_transparent(self.module, user) {
                    links.extend(parameters(self.module, user, id));
                } else if keeps_product(opcode) || is_passage(opcode) {
                    links.insert(user);
                }
            }
        }
        summed && !alone
    }

    /// Whether a value stands in memory after the rewrite and did not before, or the other way round.
    fn moves(&self, id: InstructionId) -> bool {
        let (before, after) = self.stands_in_memory(id);
        before != after && self.users(id).into_iter().any(|user| self.is_outside(user))
    }
    /// Whether a value stands in memory before and after the rewrite.
    fn stands_in_memory(&self, id: InstructionId) -> (bool, bool) {
        let users = self.users(id);
        let after: IndexSet<InstructionId> = users.iter().copied().filter(|&user| self.is_outside(user)).collect();
        let opaque = !is_fusible(self.module.instruction(id).opcode);
        (opaque || self.is_held(id, &users), opaque || self.materialized[id] || self.is_held(id, &after))
    }
    /// Whether a value with these users waits for them in memory.
    fn is_held(&self, id: InstructionId, users: &IndexSet<InstructionId>) -> bool {
        let fused = |user: &InstructionId| is_fusible(self.module.instruction(*user).opcode);
        let shared = users.len() > 1 && is_expensive(self.module, id);
        shared || !(is_cheap_to_read(self.module, id) || users.iter().all(fused))
    }
    /// Whether a quotient, function or rounding of floats is computed inside and a sum that it is made of, or that is made of it, outside. XLA:CPU may
    /// have left both to a library, which computes such functions otherwise than XLA's own kernels, and does not round what it widens again.
    fn leaves_library(&self, id: InstructionId) -> bool {
        let differs = is_slow(self.module, id) || is_rounded(self.module, id);
        let inside = self.computed[id] && is_real(self.module, id);
        inside
            && differs
            && self.module.instruction(id).opcode.is_elementwise()
            && (self.is_reduced(id) || self.follows_sum(id))
    }
    /// Whether a value is computed on the fly from a sum outside.
    fn follows_sum(&self, id: InstructionId) -> bool {
        let sums = |&below: &InstructionId| exactness(self.module, self.module.instruction(below)) > Grade::Bitwise;
        self.made_of(id, |_| true).iter().skip(1).any(|below| !self.computed[*below] && sums(below))
    }
    /// Whether a sum of two products outside is computed on the fly for a value that the loop reads, or that now is written or no longer is. Another
    /// reader alone can change the shape that XLA computes it in, and with it which product is joined.
    fn joins_in_another_kernel(&self, id: InstructionId) -> bool {
        let (before, after) = self.stands_in_memory(id);
        let in_kernel = |below| self.stands_in_memory(below) != (true, true);
        let changes = before != after || self.read.contains(&id);
        changes && self.made_of(id, in_kernel).into_iter().any(|below| joins_two(self.module, below))
    }
    /// A value, what it is computed from on the fly as long as `goes_on` says so, and the operands of these.
    fn made_of(&self, id: InstructionId, goes_on: impl Fn(InstructionId) -> bool) -> IndexSet<InstructionId> {
        let mut seen = IndexSet::from_iter([id]);
        let mut next = 0;
        while let Some(&id) = seen.get_index(next) {
            next += 1;
            let inst = self.module.instruction(id);
            if next == 1 || ((is_passage(inst.opcode) || is_fusible(inst.opcode)) && goes_on(id)) {
                seen.extend(&inst.operands);
            }
        }
        seen
    }
    /// Whether something outside sums up what it computes from a value on the fly, and could do so otherwise when that changes.
    fn is_reduced(&self, id: InstructionId) -> bool {
        let mut work = vec![(id, true)];
        let mut seen = IndexSet::default();
        while let Some((id, plain)) = work.pop() {
            let plain = plain && !is_transcendental(self.module.instruction(id).opcode);
            for user in self.users(id).into_iter().filter(|&user| self.is_outside(user)) {
                let inst = self.module.instruction(user);
                if exactness(self.module, inst) > Grade::Bitwise {
                    if !(plain && is_total(self.module, user)) {
                        return true;
                    }
                    continue;
                }
                let on_the_fly = is_passage(inst.opcode) || self.stands_in_memory(user) != (true, true);
                if on_the_fly && seen.insert((user, plain)) {
                    work.push((user, plain));
                }
            }
        }
        false
    }
}

/// Every instruction that has equals, with them.
fn equals(module: &Module, computation: ComputationId) -> IndexMap<InstructionId, Vec<InstructionId>> {
    let number = value_numbers(module, computation);
    let mut classes: IndexMap<usize, Vec<InstructionId>> = IndexMap::default();
    for (id, _) in module.instructions_of(computation) {
        classes.entry(number[id]).or_default().push(id);
    }
    let several = classes.into_values().filter(|ids| ids.len() > 1);
    several.flat_map(|ids| ids.clone().into_iter().map(move |id| (id, ids.clone()))).collect()
}

/// Whether an instruction only hands values on.
const fn is_passage(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Parameter | Opcode::Tuple | Opcode::GetTupleElement | Opcode::Call | Opcode::OptBarrier)
}

fn sums_up(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    is_float_sum(module, id)
        || (matches!(inst.opcode, Opcode::Reduce | Opcode::ReduceWindow) && exactness(module, inst) > Grade::Bitwise)
}
