//! The region of a loop: every value that is computed block by block, what is read from memory in blocks, and what is needed whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, ConvDims, ElementType, InstructionId, Module, Opcode, graph};
use hlo_memory::size::array_size;
use hlo_memory::{Bytes, Target};

use super::sink::{Kind, Sink};
use crate::bounds;
use crate::flow::{
    Barrier, Frames, OperandFlow, Rows, Value, exactness, exactness_on_blocks, float_product, is_float_sum, is_fusible,
    producer, pull, result_of,
};
use crate::loops::{Role, RowLoop};
use crate::machine::Machine;
use crate::objective::NEGLIGIBLE;
use crate::{Context, Grade};

/// A block: some rows of one dimension of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Block {
    /// The value.
    pub(super) value: Value,
    /// The dimension that is cut.
    pub(super) dim: usize,
    /// Which rows belong to which rows of the loop.
    pub(super) rows: Rows,
}

/// An operand of an instruction that is re-emitted on a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// A block of a value.
    Block(Block),
    /// A whole value.
    Whole(Value),
}

/// How a block comes about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// By re-emitting the instruction that computes the value.
    Computed(Vec<Part>),
    /// By reading rows of the value, which stands in memory for the reason given.
    Read(Barrier),
    /// By reading rows of the operand of a `dynamic-slice`, whose other start indices are given.
    ReadThrough(Value, Vec<Value>),
}

/// Everything that the blocks of some sinks need.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// Every block with its source; users before operands.
    pub(super) blocks: IndexMap<Block, Source>,
    /// Values needed whole.
    pub(super) wholes: IndexSet<Value>,
    /// Kernels of convolutions that are made in the loop of what they are in reverse order: XLA:GPU makes one call of both where they stand together
    /// (`xla/service/gpu/transforms/conv_rewriter.cc`).
    pub(super) reversed: IndexSet<Value>,
    /// The blocks of the operands of each sink, in the order of [`Sink::cut_operands`].
    pub(super) roots: Vec<Vec<Block>>,
    /// Look-through of tuples and calls.
    pub(super) frames: Frames,
    /// The weakest grade among the instructions re-emitted.
    pub(super) grade: Grade,
    /// Blocks of the loop must have a multiple of this many rows.
    pub(super) granule: i64,
    /// Instructions of 16 bits that are computed in 32, as the compiler computes them without the loop.
    pub(super) wide: IndexSet<InstructionId>,
    /// Those that are computed from values in 32 bits and rounded then: what the compiler would do together with these comes out so.
    pub(super) rounded_once: IndexSet<InstructionId>,
    /// Maxima and minima that must not meet the library of the compiler.
    pub(super) guarded: IndexSet<InstructionId>,
    /// The loops over independent rows of which results were asked for in blocks, by the result and its dimension.
    row_loops: IndexMap<(InstructionId, usize), Option<Arc<RowLoop>>>,
    /// The sinks that are loops.
    pub(super) sums: Vec<Arc<RowLoop>>,
}

impl Region {
    /// Instructions computed on blocks whose last bits can depend on the block.
    pub(super) fn inexact(&self, module: &Module) -> IndexSet<InstructionId> {
        self.computed(module).filter(|&op| exactness(module, module.instruction(op)) > Grade::Bitwise).collect()
    }
    /// The same with sums of products, which compilers round once or twice, depending on what else their kernel computes.
    pub(super) fn rounded(&self, module: &Module) -> IndexSet<InstructionId> {
        let inexact = |op| exactness(module, module.instruction(op)) > Grade::Bitwise;
        self.computed(module).filter(|&op| adds_to_product(module, op) || inexact(op)).collect()
    }
    /// Whether a product of floats meets a sum among what is computed on blocks.
    pub(super) fn adds_to_products(&self, module: &Module) -> bool {
        self.computed(module).any(|op| adds_to_product(module, op))
    }
    /// Instructions computed on blocks.
    pub(super) fn computed<'a>(&'a self, module: &'a Module) -> impl Iterator<Item = InstructionId> + 'a {
        let computed = self.blocks.iter().filter(|(_, source)| matches!(source, Source::Computed(_)));
        computed.map(|(block, _)| producer(module, block.value.inst).0)
    }
    /// All loops over independent rows.
    pub(super) fn row_loops(&self) -> impl Iterator<Item = &Arc<RowLoop>> {
        self.row_loops.values().flatten().chain(&self.sums)
    }
    /// The loop over independent rows whose result a value is.
    pub(super) fn row_loop(&self, value: InstructionId, dim: usize) -> Option<Arc<RowLoop>> {
        self.row_loops.get(&(value, dim)).cloned().flatten()
    }
}

fn adds_to_product(module: &Module, op: InstructionId) -> bool {
    let product = |&id: &InstructionId| float_product(module, id).is_some();
    is_float_sum(module, op) && module.instruction(op).operands.iter().any(product)
}

/// Collects the region of `sinks`, which stand in one computation and have equal row counts. `going` are all the sinks whose full-size
/// operands are about to disappear, `sinks` among them: a value that only they need does not count as needed outside. `leaves` must
/// not be computed on blocks. If `members` are given, no others are computed on blocks and no call is looked through.
///
/// # Errors
/// Why the rows of some operand of a sink cannot even be read from memory.
pub(super) fn grow(
    context: &Context<'_>,
    sinks: &[&Sink],
    going: &[&Sink],
    leaves: &IndexSet<InstructionId>,
    members: Option<&SideTable<InstructionId, bool>>,
) -> Result<Region, Barrier> {
    let starts = going.iter().flat_map(|sink| sink.cut_operands(context.module)).map(|(operand, _)| operand);
    let mut inside = graph::cone(context.module, starts);
    for sink in going {
        inside.set(sink.inst, true);
    }
    // Each round makes one more instruction a leaf, so the bound is never met.
    let mut stops = Stops { calls: IndexSet::default(), leaves: leaves.clone(), members };
    if members.is_some() {
        let parent = context.module.instruction(sinks[0].inst).parent;
        let calls = context.module.instructions_of(parent).filter(|(_, inst)| inst.opcode == Opcode::Call);
        stops.calls.extend(calls.map(|(id, _)| id));
    }
    for _ in 0..=context.module.instruction_count() {
        let mut growth = Growth::new(context, &inside, &stops, sinks);
        match growth.run(sinks).and_then(|()| growth.emitted_once()) {
            Ok(()) => return Ok(growth.region),
            Err(Stop::OpaqueCall(call)) => stops.calls.insert(call),
            Err(Stop::Leaf(inst)) => stops.leaves.insert(inst),
            Err(Stop::Refused(barrier)) => return Err(barrier),
        };
    }
    Err(Barrier { code: "bound", text: "the region did not settle".into() })
}

/// What earlier rounds found must not be re-emitted.
struct Stops<'a> {
    calls: IndexSet<InstructionId>,
    leaves: IndexSet<InstructionId>,
    /// What may be computed on blocks at most.
    members: Option<&'a SideTable<InstructionId, bool>>,
}

enum Stop {
    /// Something inside the callee of this call must stand in memory: the call's result is a leaf.
    OpaqueCall(InstructionId),
    /// This instruction must not be re-emitted.
    Leaf(InstructionId),
    Refused(Barrier),
}

struct Growth<'a> {
    context: &'a Context<'a>,
    module: &'a Module,
    /// The sinks and all their cut operands depend on.
    inside: &'a SideTable<InstructionId, bool>,
    stops: &'a Stops<'a>,
    rows: i64,
    work: Vec<Block>,
    /// Elements of loops' states that go on from the blocks before.
    sums: IndexSet<(InstructionId, usize)>,
    region: Region,
}

impl<'a> Growth<'a> {
    fn new(
        context: &'a Context<'a>,
        inside: &'a SideTable<InstructionId, bool>,
        stops: &'a Stops<'a>,
        sinks: &[&Sink],
    ) -> Self {
        let region = Region {
            blocks: IndexMap::default(),
            wholes: IndexSet::default(),
            reversed: IndexSet::default(),
            roots: Vec::new(),
            frames: Frames::new(stops.calls.iter().copied().collect()),
            grade: Grade::Bitwise,
            granule: 1,
            wide: IndexSet::default(),
            rounded_once: IndexSet::default(),
            guarded: IndexSet::default(),
            row_loops: IndexMap::default(),
            sums: sinks.iter().filter_map(|sink| sink.row_loop.clone()).collect(),
        };
        let sums = sinks.iter().flat_map(|sink| sink.sums().map(|element| (sink.inst, element))).collect();
        Self { context, module: context.module, inside, stops, rows: sinks[0].rows, work: Vec::new(), sums, region }
    }

    fn run(&mut self, sinks: &[&Sink]) -> Result<(), Stop> {
        for sink in sinks {
            let operands = sink.cut_operands(self.module);
            let roots = operands.into_iter().map(|(operand, dim)| Block {
                value: self.region.frames.resolve(self.module, operand, 0),
                dim,
                rows: sink.map,
            });
            let roots: Vec<Block> = roots.collect();
            self.work.extend(roots.iter().rev());
            self.region.roots.push(roots);
            if let (Kind::Loop, Some(row_loop)) = (sink.kind, sink.row_loop.clone()) {
                self.note_loop(sink, &row_loop)?;
            }
        }
        while let Some(block) = self.work.pop() {
            if !self.region.blocks.contains_key(&block) {
                let source = self.source(block);
                self.note(block, &source)?;
                self.region.blocks.insert(block, source);
            }
        }
        Ok(())
    }

    /// What a sink that is a loop needs beside blocks.
    fn note_loop(&mut self, sink: &Sink, row_loop: &RowLoop) -> Result<(), Stop> {
        let grade = exactness_on_blocks(self.module, self.module.instruction(sink.inst));
        self.region.grade = self.region.grade.max(grade);
        for element in row_loop.wholes() {
            let value = self.region.frames.resolve(self.module, row_loop.starts[element], 0);
            self.whole(value)?;
        }
        Ok(())
    }

    /// Queues what the source of a block needs, and keeps the books on grade and granule.
    fn note(&mut self, block: Block, source: &Source) -> Result<(), Stop> {
        self.region.granule = lcm(self.region.granule, block.rows.granule())
            .ok_or_else(|| Stop::Refused(Barrier { code: "granule", text: "no block size fits all values".into() }))?;
        match source {
            Source::Computed(parts) => {
                let (op, _) = producer(self.module, block.value.inst);
                let grade = exactness_on_blocks(self.module, self.module.instruction(op));
                self.region.grade = self.region.grade.max(grade);
                if self.context.is_kept_wide(op) {
                    // What the library and what a loop make of it may differ in last bits.
                    self.region.grade = self.region.grade.max(Grade::HloExact);
                    self.region.wide.insert(op);
                } else if self.context.is_rounded_once(op) {
                    self.region.rounded_once.insert(op);
                }
                for (place, part) in parts.iter().enumerate().rev() {
                    match part {
                        Part::Block(block) => self.work.push(*block),
                        Part::Whole(_) if block.value.frame == 0 && self.sums.contains(&(op, place)) => {}
                        Part::Whole(value) => match self.reversed_by(op, place, *value) {
                            Some(operand) => {
                                self.region.reversed.insert(*value);
                                self.whole(operand)?;
                            }
                            None => self.whole(*value)?,
                        },
                    }
                }
            }
            Source::Read(barrier) => self.read(block, barrier)?,
            Source::ReadThrough(_, starts) => {
                for start in starts {
                    self.whole(*start)?;
                }
            }
        }
        Ok(())
    }

    /// A value read in blocks must be an array of fixed size of the computation itself.
    fn read(&self, block: Block, barrier: &Barrier) -> Result<(), Stop> {
        if let Some(call) = self.region.frames.outermost_call(block.value.frame) {
            return Err(Stop::OpaqueCall(call));
        }
        let inst = self.module.instruction(block.value.inst);
        match inst.array() {
            Some(array) if array.is_dynamic() => {
                let text = format!("`{}` has a dynamic dimension", inst.name);
                Err(Stop::Refused(Barrier { code: "dynamic-shape", text }))
            }
            Some(array) if block.rows.fits(self.rows, array.dims[block.dim]) => Ok(()),
            _ => Err(Stop::Refused(barrier.clone())),
        }
    }

    /// What the operand of `op` at a place is in reverse order, if that is the kernel of a convolution, turned along its windows, on a GPU.
    fn reversed_by(&mut self, op: InstructionId, place: usize, kernel: Value) -> Option<Value> {
        let is_asked = self.context.options.target == Target::Gpu && place == 1;
        let mut windows = ConvDims::of(self.module.instruction(op)).filter(|_| is_asked)?.kernel_spatial;
        windows.sort_unstable();
        let reverse = self.module.instruction(kernel.inst);
        let mut turned = reverse.ints(&AttrKey::Dimensions).to_vec();
        turned.sort_unstable();
        let takes = reverse.opcode == Opcode::Reverse && windows.iter().map(|&dim| dim as i64).eq(turned);
        let is_free =
            [AttrKey::ControlPredecessors, AttrKey::Sharding].iter().all(|key| reverse.attribute(key).is_none());
        (takes && is_free).then(|| self.region.frames.resolve(self.module, reverse.operands[0], kernel.frame))
    }

    /// A value needed whole is copied into the loop if it is a constant expression, else handed in from outside.
    fn whole(&mut self, value: Value) -> Result<(), Stop> {
        let outside = value.frame == 0 || is_constant(self.module, value.inst, &mut self.region.frames, value.frame);
        match self.region.frames.outermost_call(value.frame) {
            Some(call) if !outside => Err(Stop::OpaqueCall(call)),
            _ => {
                self.region.wholes.insert(value);
                Ok(())
            }
        }
    }

    fn source(&mut self, block: Block) -> Source {
        let (op, _) = producer(self.module, block.value.inst);
        if let Some(barrier) = self.must_stand(block.value, op) {
            return Source::Read(barrier);
        }
        let key = (block.value.inst, block.dim);
        let Region { row_loops, sums, .. } = &mut self.region;
        let looked_up = || row_loop(self.context, sums, block.value.inst, block.dim);
        if let Some(row_loop) = row_loops.entry(key).or_insert_with(looked_up).clone() {
            return match self.parts(block, &row_loop.starts, &row_loop.flows()) {
                Some(parts) => Source::Computed(parts),
                None => {
                    Source::Read(Barrier { code: "granule", text: "rows of a loop do not line up with blocks".into() })
                }
            };
        }
        let parts = pull(self.module, op, block.dim).and_then(|flows| {
            let name = &self.module.instruction(op).name;
            let barrier = || Barrier { code: "granule", text: format!("rows of `{name}` do not line up with blocks") };
            self.parts(block, &self.module.instruction(op).operands, &flows).ok_or_else(barrier)
        });
        match parts {
            Ok(parts) => self.read_through(op, parts),
            Err(barrier) => Source::Read(barrier),
        }
    }

    /// Why a value is read from memory although it could be computed block by block.
    fn must_stand(&self, value: Value, op: InstructionId) -> Option<Barrier> {
        let inst = self.module.instruction(op);
        let stands = |code, why: &str| Some(Barrier { code, text: format!("`{}` {why}", inst.name) });
        if self.stops.leaves.contains(&op) {
            return stands("needed-twice", "is needed in two forms");
        }
        if !inst.control_predecessors().is_empty() {
            return stands("control", "has control predecessors");
        }
        let wide = || self.context.is_kept_wide(op);
        let exactness = self.context.options.exactness;
        if exactness_on_blocks(self.module, inst) > exactness || (exactness < Grade::HloExact && wide()) {
            return stands("exactness", "would be computed on blocks, which can change its last bits");
        }
        if let Some(members) = self.stops.members {
            let computed = members[op] || self.repeats_input(value, op);
            return if computed { None } else { stands("outside", "is not worth computing on blocks") };
        }
        if value.frame == 0 && self.escapes(op) {
            return stands("needed-outside", "is needed outside the loop as well");
        }
        None
    }

    /// Whether a value only repeats something that stands in memory whatever is done: a block of it needs no copy of all of it.
    fn repeats_input(&self, value: Value, op: InstructionId) -> bool {
        let inst = self.module.instruction(op);
        let input = |&id: &InstructionId| {
            let (below, _) = producer(self.module, id);
            matches!(self.module.instruction(below).opcode, Opcode::Parameter | Opcode::Constant)
        };
        value.frame == 0 && inst.opcode == Opcode::Broadcast && inst.operands.iter().all(input)
    }

    /// Whether the value stands in memory after the rewrite anyway: an instruction that does not serve the sinks keeps it alive and
    /// cannot compute it on the fly; or would compute it in another form, which could come out differently.
    fn escapes(&self, op: InstructionId) -> bool {
        let inst = self.module.instruction(op);
        if matches!(inst.opcode, Opcode::Iota | Opcode::Broadcast) {
            return false;
        }
        let exact = exactness(self.module, inst) == Grade::Bitwise;
        let is_root = |id: InstructionId| self.module.computation(self.module.instruction(id).parent).root == id;
        let mut work = vec![op];
        while let Some(id) = work.pop() {
            if is_root(id) {
                return true;
            }
            for &user in self.context.users.get(id).iter().filter(|&&user| !self.inside[user]) {
                let opcode = self.module.instruction(user).opcode;
                match opcode {
                    Opcode::GetTupleElement => work.push(user),
                    _ if is_fusible(opcode) && is_fusible(inst.opcode) && exact => {}
                    _ => return true,
                }
            }
        }
        false
    }

    fn parts(&mut self, block: Block, operands: &[InstructionId], flows: &[OperandFlow]) -> Option<Vec<Part>> {
        let part = |(&operand, flow): (&InstructionId, &OperandFlow)| {
            let value = self.region.frames.resolve(self.module, operand, block.value.frame);
            Some(match *flow {
                OperandFlow::Whole => Part::Whole(value),
                OperandFlow::Block { dim, step } => {
                    let rows = block.rows.then(step)?;
                    // Half of an odd number of rows is none: what they are taken from is read instead.
                    let array = self.module.instruction(value.inst).array();
                    if array.is_some_and(|array| !rows.fits(self.rows, array.dims[dim])) {
                        return None;
                    }
                    Part::Block(Block { value, dim, rows })
                }
            })
        };
        operands.iter().zip(flows).map(part).collect()
    }

    /// A `dynamic-slice` of a value in memory is read with one `dynamic-slice`, so that no block of the other rows is made.
    fn read_through(&self, op: InstructionId, parts: Vec<Part>) -> Source {
        let [Part::Block(operand), starts @ ..] = parts.as_slice() else { return Source::Computed(parts) };
        if self.module.instruction(op).opcode != Opcode::DynamicSlice || operand.value.frame != 0 {
            return Source::Computed(parts);
        }
        let (below, _) = producer(self.module, operand.value.inst);
        let stands = self.must_stand(operand.value, below).is_some() || pull(self.module, below, operand.dim).is_err();
        // The starts of one `dynamic-slice` have one type. That of the rows is at most `s64`, which cannot hold every `u64`.
        let holds = |value: &Value| {
            let array = self.module.instruction(value.inst).array();
            array.is_some_and(|array| array.element_type != ElementType::U64)
        };
        let whole = |part: &Part| match part {
            Part::Whole(value) => Some(*value).filter(holds),
            Part::Block(_) => None,
        };
        let starts: Option<Vec<Value>> = starts.iter().map(whole).collect();
        match starts {
            Some(starts) if stands => Source::ReadThrough(operand.value, starts),
            _ => Source::Computed(parts),
        }
    }

    /// An instruction whose last bits depend on the block must not be computed in two forms: the forms could differ, and a comparison
    /// behind them could decide differently. A value handed in whole needs no second form at all.
    fn emitted_once(&self) -> Result<(), Stop> {
        // Results of a loop may have their rows in different dimensions.
        let form = |block: &Block| {
            let row_loop = self.region.row_loop(block.value.inst, block.dim);
            let roles = row_loop.map_or_else(|| vec![Role::Cut(block.dim)], |row_loop| row_loop.roles().to_vec());
            (roles, block.rows)
        };
        let mut forms: BTreeMap<Value, (Vec<Role>, Rows)> = BTreeMap::new();
        for (block, source) in &self.region.blocks {
            let Source::Computed(parts) = source else { continue };
            let (op, _) = producer(self.module, block.value.inst);
            let frame = block.value.frame;
            let own = form(block);
            let first = forms.entry(Value { inst: op, frame }).or_insert_with(|| own.clone());
            let inexact = exactness(self.module, self.module.instruction(op)) > Grade::Bitwise;
            let other_form = *first != own;
            let whole_too = !parts.is_empty() && self.region.wholes.contains(&block.value);
            if whole_too || (inexact && other_form) {
                return Err(self.region.frames.outermost_call(frame).map_or(Stop::Leaf(op), Stop::OpaqueCall));
            }
        }
        Ok(())
    }
}

/// The loop over independent rows whose result `value` is.
fn row_loop(context: &Context<'_>, sums: &[Arc<RowLoop>], value: InstructionId, dim: usize) -> Option<Arc<RowLoop>> {
    let (op, element) = result_of(context.module, value)?;
    // A loop that goes on from its sums is the same for all that read its results.
    if let Some(known) = sums.iter().find(|row_loop| row_loop.looping == op) {
        return known.cut_of(context.module, value).filter(|&cut| cut == dim).map(|_| known.clone());
    }
    let key = (op, element, dim);
    let found = context.row_loops.plain(context.module, key);
    found.or_else(|| context.row_loops.of(context.module, key).filter(|_| context.stands_for_loop(op)))
}

/// Whether a value depends on constants only and is small: it is then computed again wherever it is needed.
pub(super) fn is_constant(module: &Module, inst: InstructionId, frames: &mut Frames, frame: usize) -> bool {
    // What each block computes again matters to nobody.
    let most = Bytes(Machine::of(Target::Cpu).least_block().get() / NEGLIGIBLE);
    let mut work = vec![Value { inst, frame }];
    let mut seen = 0;
    while let Some(Value { inst, frame }) = work.pop() {
        let Value { inst, frame } = frames.resolve(module, inst, frame);
        let instruction = module.instruction(inst);
        let small = instruction.array().is_some_and(|a| array_size(a).is_some_and(|bytes| bytes <= most));
        let plain = instruction.opcode.is_elementwise()
            || matches!(instruction.opcode, Opcode::Constant | Opcode::Iota | Opcode::Broadcast | Opcode::Reshape);
        seen += 1;
        if !small || !plain || seen > bounds::CONE || instruction.attribute(&AttrKey::ControlPredecessors).is_some() {
            return false;
        }
        work.extend(instruction.operands.iter().map(|&inst| Value { inst, frame }));
    }
    true
}

/// Least common multiple; `None` if it does not fit.
fn lcm(a: i64, b: i64) -> Option<i64> {
    (a / crate::flow::gcd(a, b)).checked_mul(b)
}
