//! Builds the loop: a `while` that carries a counter, the accumulators and the values it reads, then the rest rows.

// Tests: `passes/tests/chunk.rs`.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::Patch;
use hlo_ir::graph::cone;
use hlo_ir::module::Payload;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{
    AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
};
use hlo_memory::Target;
use smol_str::{SmolStr, format_smolstr};

use super::accumulate;
use super::apply::apply;
use super::bf16_accumulator::{self, Combiners};
use super::emit::{At, Emitted, Emitter, Memory};
use super::excess;
use super::faithful::guarded;
use super::planned::Planned;
use super::region::{Region, Source, is_constant};
use super::row_order::reordered;
use super::sink::{Kind, Sink, Sum, Term};
use super::size::BlockSize;
use super::wide_epilogue::WideEpilogue;
use crate::flow::{Value, is_zeros, result_of};
use crate::recompute::insertion_point::{metadata, number};
use crate::{Context, Grade};

/// What replaces the sinks of loops.
pub(super) struct Built {
    pub(super) patch: Patch,
    /// How equal stays what is computed behind the loops.
    pub(super) grade: Grade,
}

/// The patch that replaces the sinks of each plan by a loop over blocks; `None` if two loops would need each other's results.
pub(super) fn build(context: &Context<'_>, planned: &mut [Planned<'_>]) -> Option<Built> {
    let (module, target) = (context.module, context.options.target);
    let mut patch = Patch::new(module);
    let mut results = IndexMap::default();
    let mut behind = WideEpilogue::of(planned);
    for plan in in_order(module, planned)? {
        let Planned { sinks, region, size, .. } = &mut planned[plan];
        // Asked for what is made only: it takes to know what the library computes.
        region.guarded = guarded(context, region, sinks);
        let first = module.instruction(sinks[0].inst);
        let wide = bf16_accumulator::combiners(module, target, sinks, &mut patch);
        let mut builder = Builder {
            module,
            sinks,
            size: *size,
            patch: &mut patch,
            results: &mut results,
            parent: first.parent,
            name: first.name.clone(),
            metadata: metadata(first),
            index_type: index_type(module, region, sinks, *size),
            target,
            wide,
        };
        let memory = builder.memory(region);
        let accumulators = builder.while_loop(region, &memory);
        let mut accumulators = builder.rest(region, &memory, accumulators);
        builder.retype(&mut accumulators, ElementType::Bf16);
        let written = builder.replace(region, &accumulators);
        behind.follow(context, &mut patch, &mut results, written);
    }
    let grade = if behind.is_wide() { Grade::HloExact } else { Grade::Bitwise };
    Some(Built { patch, grade })
}

/// Positions of the plans, each behind those whose results it needs.
fn in_order(module: &Module, planned: &[Planned<'_>]) -> Option<Vec<usize>> {
    if let [_] = planned {
        return Some(vec![0]);
    }
    let cones: Vec<_> =
        planned.iter().map(|plan| cone(module, plan.sinks.iter().flat_map(|sink| sink.starts()))).collect();
    let needs = |a: usize, b: usize| planned[b].sinks.iter().any(|sink| cones[a][sink.inst]);
    let mut left: Vec<usize> = (0..planned.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let free = |&&plan: &&usize| left.iter().all(|&other| other == plan || !needs(plan, other));
        let next = *left.iter().find(free)?;
        left.retain(|&plan| plan != next);
        order.push(next);
    }
    Some(order)
}

/// `s64` if a row number, counted in any value involved, or another start index does not fit `s32`: a wrapped start would silently
/// read another block.
fn index_type(module: &Module, region: &Region, sinks: &[&Sink], size: BlockSize) -> ElementType {
    let extents = region.blocks.keys().filter_map(|block| {
        let array = module.instruction(block.value.inst).array()?;
        Some(array.dims[block.dim])
    });
    let largest = extents.chain(sinks.iter().map(|sink| sink.rows)).chain([size.count]).max().unwrap_or(0);
    let narrow = |start: &Value| {
        let array = module.instruction(start.inst).array();
        let range = array.and_then(|array| array.element_type.integer_range());
        range.is_some_and(|(low, high)| low >= i128::from(i32::MIN) && high <= i128::from(i32::MAX))
    };
    let narrow_starts = region.blocks.values().all(|source| match source {
        Source::ReadThrough(_, starts) => starts.iter().all(narrow),
        Source::Computed(_) | Source::Read(_) => true,
    });
    if narrow_starts && i32::try_from(largest).is_ok() { ElementType::S32 } else { ElementType::S64 }
}

/// One part of what the loop carries.
struct Part {
    name: SmolStr,
    shape: ShapeRef,
}

fn whole_shape(parts: &[Part]) -> ShapeRef {
    Shape::tuple(parts.iter().map(|part| part.shape.clone()))
}

/// What the loop carries, in order: the counter, the accumulators, the values in memory, their other readings.
struct Builder<'a> {
    module: &'a Module,
    sinks: &'a [&'a Sink],
    size: BlockSize,
    patch: &'a mut Patch,
    /// What stands for the sinks of loops built before.
    results: &'a mut IndexMap<InstructionId, InstructionId>,
    parent: ComputationId,
    name: SmolStr,
    metadata: Option<Attribute>,
    index_type: ElementType,
    target: Target,
    wide: Combiners,
}

impl Builder<'_> {
    /// Adds an instruction with the metadata of the first sink.
    fn add(&mut self, to: ComputationId, mut inst: Instruction) -> InstructionId {
        inst.attributes.extend(self.metadata.clone());
        self.patch.add(to, inst)
    }
    /// Part `index` of the state.
    fn part(&mut self, to: ComputationId, state: InstructionId, parts: &[Part], index: usize) -> InstructionId {
        let Part { name, shape } = &parts[index];
        let inst = Instruction::new(name.clone(), shape.clone(), Opcode::GetTupleElement, [state]);
        self.add(to, inst.with(Attribute::int(AttrKey::Index, index as i64)))
    }
    /// What now stands for an instruction of the original: uses inside the patch are not redirected by it.
    fn now(&self, id: InstructionId) -> InstructionId {
        self.results.get(&id).copied().unwrap_or(id)
    }
    fn shape(&self, id: InstructionId) -> ShapeRef {
        self.patch.instruction(self.module, id).shape.clone()
    }

    /// The values in memory that the region reads, as the parent computation knows them.
    fn memory(&mut self, region: &mut Region) -> Memory {
        let mut in_blocks: IndexSet<Value> = IndexSet::default();
        for (block, source) in &region.blocks {
            match source {
                Source::Computed(_) => {}
                Source::Read(_) => drop(in_blocks.insert(block.value)),
                Source::ReadThrough(value, _) => drop(in_blocks.insert(*value)),
            }
        }
        let mut memory = Memory::default();
        for value in in_blocks {
            match self.as_bits(value.inst) {
                Some(bits) => memory.bits.insert(value, bits),
                None => memory.values.insert(value, self.now(value.inst)),
            };
        }
        for value in &region.wholes {
            if !is_constant(self.module, value.inst, &mut region.frames, value.frame) {
                memory.values.insert(*value, self.now(value.inst));
            }
        }
        memory
    }
    /// The same bits as integers, for types that XLA:CPU would convert as a whole before it slices them, where a call of each block's own would mean
    /// one device.
    fn as_bits(&mut self, inst: InstructionId) -> Option<InstructionId> {
        let array = self.module.instruction(inst).array()?;
        let for_one_device = self.target != Target::Cpu || !self.module.is_partitioned();
        if for_one_device || array.element_type != ElementType::Bf16 {
            return None;
        }
        let shape = Shape::Array(array.with_element_type(ElementType::U16));
        let name = format_smolstr!("{}.bits", self.module.instruction(inst).name);
        Some(self.add(self.parent, Instruction::new(name, shape.into(), Opcode::BitcastConvert, [self.now(inst)])))
    }

    /// Operands that the sinks update, sink by sink.
    fn initial(&mut self, region: &Region) -> Vec<InstructionId> {
        let mut initial = Vec::new();
        for sink in self.sinks {
            let operands = sink.outer_operands(self.module);
            match (sink.kind, sink.sum) {
                (Kind::Scatter { .. }, Sum::Inside(term)) => initial.push(self.started_sum(sink, term)),
                (Kind::Scatter { .. } | Kind::Loop, _) => {
                    initial.extend(operands.iter().map(|&operand| self.now(operand)));
                }
                (Kind::Write { .. } | Kind::Reduce { .. } | Kind::Contraction { .. }, _) => {
                    initial.extend(self.started(region, sink, operands.first().copied()));
                }
            }
        }
        initial
    }
    /// Converts the accumulators that are wider inside the loop.
    fn retype(&mut self, accumulators: &mut [InstructionId], to: ElementType) {
        let mut next = 0;
        for sink in self.sinks {
            if self.wide.contains_key(&sink.inst) {
                let converted = bf16_accumulator::in_type(self.module, self.patch, accumulators[next], to);
                accumulators[next] = converted.map_or(accumulators[next], |inst| self.add(self.parent, inst));
            }
            next += sink.inputs(self.module);
        }
    }
    /// An array of zeros to write into or add to, or of the initial value of a reduction.
    fn started(&mut self, region: &Region, sink: &Sink, value: Option<InstructionId>) -> Option<InstructionId> {
        let mut array = self.module.instruction(sink.inst).array()?.clone();
        if is_written_wide(region, sink) {
            array = array.with_element_type(ElementType::F32);
        }
        let value = value.map(|value| self.now(value));
        let source = metadata(self.module.instruction(sink.inst)).or_else(|| self.metadata.clone());
        let add = |mut inst: Instruction| {
            inst.attributes.extend(source.clone());
            self.patch.add(self.parent, inst)
        };
        Some(accumulate::start(sink, &array, value, add))
    }
    /// `other + operand`, which is `other` itself when the scatter starts from zeros.
    fn started_sum(&mut self, sink: &Sink, term: Term) -> InstructionId {
        let operand = self.module.instruction(sink.inst).operands[0];
        if is_zeros(self.module, operand) {
            return self.now(term.other);
        }
        let add = self.module.instruction(term.add);
        let name = format_smolstr!("{}.start", add.name);
        let operands = [self.now(term.other), self.now(operand)].into_iter().collect();
        self.patch.add(self.parent, Instruction { name, operands, span: None, ..add.clone() })
    }

    /// Emits the `while` and returns the accumulators behind it.
    fn while_loop(&mut self, region: &mut Region, memory: &Memory) -> Vec<InstructionId> {
        let zero = self.patch.add(self.parent, number("block_constant", self.index_type, 0));
        let mut initial = self.initial(region);
        self.retype(&mut initial, ElementType::F32);
        let held = memory.values.values().chain(memory.bits.values()).copied();
        let carried: Vec<InstructionId> = [zero].into_iter().chain(initial.iter().copied()).chain(held).collect();
        let parts: Vec<Part> = carried.iter().enumerate().map(|(index, &id)| self.named_part(index, id)).collect();
        let body = self.body(region, memory, &parts, initial.len());
        let condition = self.condition(&parts);
        let name = format_smolstr!("{}.init", self.name);
        let start = self.add(self.parent, Instruction::new(name, whole_shape(&parts), Opcode::Tuple, carried));
        let name = format_smolstr!("{}.while", self.name);
        let looping = Instruction::new(name, whole_shape(&parts), Opcode::While, [start])
            .with(Attribute::new(AttrKey::Condition, AttrValue::Computation(condition)))
            .with(Attribute::new(AttrKey::Body, AttrValue::Computation(body)));
        let looping = self.add(self.parent, looping);
        (1..=initial.len()).map(|index| self.part(self.parent, looping, &parts, index)).collect()
    }
    /// Part `index` of the state, whose first value is `id`.
    fn named_part(&self, index: usize, id: InstructionId) -> Part {
        let accumulators = self.sinks.iter().flat_map(|sink| vec![sink.inst; sink.inputs(self.module)]);
        let name = match index.checked_sub(1).map(|index| accumulators.clone().nth(index)) {
            None => "block_number".into(),
            Some(Some(scatter)) => format_smolstr!("{}.so_far", self.module.instruction(scatter).name),
            Some(None) => format_smolstr!("{}.carried", self.patch.instruction(self.module, id).name),
        };
        Part { name, shape: self.shape(id) }
    }

    fn condition(&mut self, parts: &[Part]) -> ComputationId {
        let condition = self.patch.add_computation(format_smolstr!("{}.condition", self.name));
        let state = self.state(condition, parts);
        let counter = self.part(condition, state, parts, 0);
        let count = self.patch.add(condition, number("block_constant", self.index_type, self.size.count));
        let less =
            Instruction::new("more_blocks", Shape::array(ElementType::Pred, []), Opcode::Compare, [counter, count])
                .with(Attribute::word(AttrKey::Direction, "LT"));
        self.add(condition, less);
        condition
    }
    fn state(&mut self, computation: ComputationId, parts: &[Part]) -> InstructionId {
        let name = format_smolstr!("{}.state", self.name);
        let state = Instruction::new(name, whole_shape(parts), Opcode::Parameter, []);
        self.add(computation, state.with_payload(Payload::Parameter(0)))
    }

    fn body(&mut self, region: &mut Region, memory: &Memory, parts: &[Part], updated: usize) -> ComputationId {
        let body = self.patch.add_computation(format_smolstr!("{}.body", self.name));
        let state = self.state(body, parts);
        let carried: Vec<InstructionId> = (0..parts.len()).map(|index| self.part(body, state, parts, index)).collect();
        let (accumulators, held) = carried[1..].split_at(updated);
        let mut inside = memory.clone();
        let places = inside.values.values_mut().chain(inside.bits.values_mut());
        places.zip(held).for_each(|(place, &id)| *place = id);
        let sinks = self.sinks;
        let mut emitter = self.emitter(region, inside, body, At::Counter(carried[0]), self.size.rows);
        let one = emitter.constant(1);
        let next = emitter.scalar("next_block", Opcode::Add, [carried[0], one]);
        let accumulators = apply(&mut emitter, sinks, accumulators);
        let results = [next].into_iter().chain(accumulators).chain(held.iter().copied());
        let root = Instruction::new("next_state", whole_shape(parts), Opcode::Tuple, results);
        self.add(body, root);
        body
    }

    fn emitter<'e>(
        &'e mut self,
        region: &'e mut Region,
        memory: Memory,
        target: ComputationId,
        at: At,
        len: i64,
    ) -> Emitter<'e> {
        let is_gpu = self.target == Target::Gpu;
        Emitter {
            reordered: if is_gpu { reordered(self.module, region) } else { IndexSet::default() },
            for_cpu: self.target == Target::Cpu && !self.module.is_partitioned(),
            module: self.module,
            region,
            patch: self.patch,
            target,
            at,
            len,
            index_type: self.index_type,
            wide: &self.wide,
            memory,
            metadata: self.metadata.clone(),
            done: Emitted::default(),
        }
    }

    /// Applies the rows behind the last full block.
    fn rest(&mut self, region: &mut Region, memory: &Memory, accumulators: Vec<InstructionId>) -> Vec<InstructionId> {
        if self.size.rest == 0 {
            return accumulators;
        }
        let (sinks, parent) = (self.sinks, self.parent);
        let at = At::Row(self.size.rows * self.size.count);
        let mut emitter = self.emitter(region, memory.clone(), parent, at, self.size.rest);
        let results = apply(&mut emitter, sinks, &accumulators);
        self.shield(results)
    }
    /// Keeps XLA from taking a sum into the scatter of the rest rows, where it would start from other values than in the original.
    fn shield(&mut self, mut results: Vec<InstructionId>) -> Vec<InstructionId> {
        let mut next = 0;
        for sink in self.sinks {
            if matches!(sink.sum, Sum::Behind(_) | Sum::Inexact) {
                let (shape, name) = (self.shape(results[next]), format_smolstr!("{}.result", self.name));
                results[next] =
                    self.add(self.parent, Instruction::new(name, shape, Opcode::OptBarrier, [results[next]]));
            }
            next += sink.inputs(self.module);
        }
        results
    }

    /// Lets the users of the sinks use the accumulators. Returns the arrays written in 32 bits that the sinks have in 16.
    fn replace(&mut self, region: &Region, accumulators: &[InstructionId]) -> Vec<(InstructionId, InstructionId)> {
        let mut rest = accumulators;
        let mut wide = Vec::new();
        for sink in self.sinks {
            let (own, others) = rest.split_at(sink.inputs(self.module));
            rest = others;
            if sink.kind == Kind::Loop {
                self.replace_sums(sink, own);
                continue;
            }
            let scatter = self.module.instruction(sink.inst);
            let result = if is_written_wide(region, sink) {
                wide.push((sink.inst, own[0]));
                excess::rounded(self.module, self.patch, own[0])
            } else if let (Some(_), &[only]) = (scatter.array(), own) {
                only
            } else {
                let name = format_smolstr!("{}.results", scatter.name);
                self.add(self.parent, Instruction::new(name, scatter.shape.clone(), Opcode::Tuple, own.iter().copied()))
            };
            let old = match sink.sum {
                Sum::Inside(term) => term.add,
                _ => sink.inst,
            };
            self.patch.replace(old, result);
            self.results.insert(old, result);
        }
        wide
    }
    /// Lets the users of a loop's sums use the accumulators.
    fn replace_sums(&mut self, sink: &Sink, accumulators: &[InstructionId]) {
        let sums: Vec<usize> = sink.sums().collect();
        for (id, _) in self.module.instructions_of(self.parent) {
            let element = result_of(self.module, id).filter(|(of, _)| *of == sink.inst).map(|(_, element)| element);
            if let Some(at) = element.and_then(|element| sums.iter().position(|&sum| sum == element)) {
                self.patch.replace(id, accumulators[at]);
                self.results.insert(id, accumulators[at]);
            }
        }
    }
}

/// Whether the blocks of a written array are computed in 32 bits and written so: behind the loop the compiler's library would have gone on with these.
fn is_written_wide(region: &Region, sink: &Sink) -> bool {
    matches!(sink.kind, Kind::Write { .. }) && region.wide.contains(&sink.inst)
}
