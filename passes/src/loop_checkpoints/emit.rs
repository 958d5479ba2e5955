//! Builds the change: the loop that keeps checkpoints, and behind it a loop over blocks, each run again and then read.

use crate::hash::IndexMap;
use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, ComputationId, ElementType, InstructionId, Module, Opcode, Shape};

use super::plan::Plan;
use super::rows::{row, set_row, with_length, with_rows, zeros};
use crate::loops::Reader;
use crate::recompute::body::{self, Known};
use crate::recompute::counted_loop::{CountedLoop, Part, Step, steps};

/// What stands for elements of a loop's state.
type Elements = IndexMap<usize, InstructionId>;

/// The change.
pub(super) fn patch(module: &Module, plan: &Plan<'_>) -> Option<Patch> {
    let first = module.instruction(plan.stacks.body.parameter).parent;
    let writer = Writer { module, plan, first };
    let mut patch = Patch::new(module);
    let forward = writer.forward(&mut patch)?;
    writer.replace(&mut patch, plan.stacks.site, &forward.results);
    let backward = writer.backward(&mut patch, &forward)?;
    writer.replace(&mut patch, plan.reader.site, &backward);
    Some(patch)
}

#[derive(Clone, Copy)]
struct Writer<'a> {
    module: &'a Module,
    plan: &'a Plan<'a>,
    /// The body of the loop that writes the stacks.
    first: ComputationId,
}

/// What stands behind the first loop.
struct Forward {
    results: Elements,
    /// What each block begins with, for every element that is carried.
    checkpoints: Vec<InstructionId>,
}

/// The state of the loop over blocks.
struct Blocks {
    /// Elements of the reading loop's state, which come first.
    kept: Vec<usize>,
    /// Where values stand that no step of the first loop changes.
    places: IndexMap<usize, usize>,
    /// Where the checkpoints begin.
    before: usize,
}

/// The state of the steps that are run again: elements of the first loop's, those first that a step changes, and behind them a stack for each that is dropped.
struct Replay {
    elements: Vec<usize>,
    changing: usize,
    parts: Vec<Part>,
}

/// A block: where it is written, its number among those of the first loop, its steps, and what they begin with.
struct Block<'a> {
    to: ComputationId,
    number: InstructionId,
    length: i64,
    state: &'a [InstructionId],
}

impl Writer<'_> {
    fn looping(&self, of: InstructionId, parent: ComputationId, steps: i64) -> CountedLoop<'_> {
        CountedLoop { module: self.module, parent, of, steps }
    }
    fn parent(&self) -> ComputationId {
        self.module.instruction(self.plan.stacks.site).parent
    }

    /// The loop with checkpoints in the place of its stacks.
    fn forward(&self, patch: &mut Patch) -> Option<Forward> {
        let Self { module, plan, first } = *self;
        let stacks = plan.stacks;
        let dropped: Vec<usize> = plan.dropped.iter().map(|&(at, _)| stacks.list[at].element).collect();
        let kept: Vec<usize> = (0..stacks.initial.len()).filter(|element| !dropped.contains(element)).collect();
        let mut parts: Vec<Part> = kept.iter().map(|&element| self.part(stacks.initial[element])).collect();
        for &element in &plan.carried {
            let array = with_rows(module.instruction(stacks.initial[element]).array()?, plan.rows());
            parts.push((zeros(patch, self.parent(), &array), Shape::Array(array).into()));
        }
        let results = self.looping(stacks.site, self.parent(), stacks.rows).write(patch, &parts, |patch, step| {
            let place = |element: usize| kept.iter().position(|&other| other == element);
            let mut known = body::elements(module, first, |element| Some(step.state[place(element)?]));
            let wanted: Vec<InstructionId> = kept.iter().map(|&element| stacks.body.results[element]).collect();
            body::write(module, patch, (first, step.computation), &wanted, &mut known)?;
            let mut next: Vec<InstructionId> = wanted.iter().map(|result| known[result]).collect();
            let row = self.block_behind(patch, step);
            for (at, &element) in plan.carried.iter().enumerate() {
                let (stack, value) = (step.state[kept.len() + at], step.state[place(element)?]);
                next.push(set_row(patch, module, step.computation, stack, value, row)?);
            }
            Some(next)
        })?;
        let (kept_results, checkpoints) = results.split_at(kept.len());
        let results = kept.into_iter().zip(kept_results.iter().copied()).collect();
        Some(Forward { results, checkpoints: checkpoints.to_vec() })
    }

    /// The number of a step in blocks, rounded up: the first block that begins no earlier.
    fn block_behind(&self, patch: &mut Patch, step: &Step<'_>) -> InstructionId {
        let length = self.plan.length;
        if length == 1 {
            return step.number;
        }
        let to = step.computation;
        let (most, length) = (steps(to).constant(patch, length - 1), steps(to).constant(patch, length));
        let sum = steps(to).scalar(patch, Opcode::Add, [step.number, most]);
        steps(to).scalar(patch, Opcode::Divide, [sum, length])
    }

    /// The loop over blocks in the place of the loop that reads the stacks.
    fn backward(&self, patch: &mut Patch, forward: &Forward) -> Option<Elements> {
        let Self { module, plan, .. } = *self;
        let reader = plan.reader;
        let initial = module.instruction(reader.initial).operands.clone();
        let behind: IndexMap<InstructionId, InstructionId> = self.results_behind(forward);
        let begins = |id: InstructionId| behind.get(&id).copied().unwrap_or(id);
        let kept: Vec<usize> = (0..initial.len()).filter(|&element| !self.is_dropped(initial[element])).collect();
        let mut parts: Vec<Part> = kept.iter().map(|&at| (begins(initial[at]), self.part(initial[at]).1)).collect();
        let mut places = IndexMap::default();
        for &element in &plan.given {
            let first = plan.stacks.initial[element];
            let same = |&&(_, other): &&(usize, InstructionId)| other == first || self.takes(other, element);
            let known = reader.given.iter().find(same).and_then(|given| kept.iter().position(|&at| at == given.0));
            places.insert(element, known.unwrap_or(parts.len()));
            if known.is_none() {
                parts.push(self.part(first));
            }
        }
        let before = parts.len();
        for &checkpoint in &forward.checkpoints {
            parts.push((checkpoint, patch.instruction(module, checkpoint).shape.clone()));
        }
        let blocks = Blocks { kept, places, before };
        let parent = self.parent();
        if plan.rest() > 0 {
            let number = steps(parent).constant(patch, plan.blocks());
            let first: Vec<InstructionId> = parts.iter().map(|part| part.0).collect();
            let next = self.block(patch, &Block { to: parent, number, length: plan.rest(), state: &first }, &blocks)?;
            for (part, next) in parts.iter_mut().zip(next) {
                part.0 = next;
            }
        }
        let results = self.looping(reader.site, parent, plan.blocks()).write(patch, &parts, |patch, step| {
            let last = steps(step.computation).constant(patch, plan.blocks() - 1);
            let number = steps(step.computation).scalar(patch, Opcode::Subtract, [last, step.number]);
            let block = Block { to: step.computation, number, length: plan.length, state: step.state };
            self.block(patch, &block, &blocks)
        })?;
        Some(blocks.kept.into_iter().zip(results).collect())
    }

    /// One step of the loop over blocks: what it makes of its state.
    fn block(&self, patch: &mut Patch, block: &Block<'_>, blocks: &Blocks) -> Option<Vec<InstructionId>> {
        let rows = self.again(patch, block, blocks)?;
        let elements: Elements = blocks.kept.iter().copied().zip(block.state.iter().copied()).collect();
        let mut next = self.read(patch, block, &elements, &rows)?;
        next.extend_from_slice(&block.state[blocks.kept.len()..]);
        Some(next)
    }

    /// For each value that was taken out of the first loop's final state, what stands for it.
    fn results_behind(&self, forward: &Forward) -> IndexMap<InstructionId, InstructionId> {
        let takers = self.takers(self.plan.stacks.site);
        takers.filter_map(|(id, element)| Some((id, *forward.results.get(&element)?))).collect()
    }
    fn takers(&self, site: InstructionId) -> impl Iterator<Item = (InstructionId, usize)> {
        let list = self.module.instructions_of(self.parent());
        let taken = list.filter(move |(_, inst)| inst.opcode == Opcode::GetTupleElement && inst.operands[0] == site);
        taken.filter_map(|(id, inst)| Some((id, usize::try_from(inst.int(&AttrKey::Index)?).ok()?)))
    }
    fn takes(&self, id: InstructionId, element: usize) -> bool {
        self.takers(self.plan.stacks.site).any(|taken| taken == (id, element))
    }
    fn is_dropped(&self, id: InstructionId) -> bool {
        let mut dropped = self.plan.dropped.iter().map(|&(at, _)| self.plan.stacks.list[at].element);
        dropped.any(|element| self.takes(id, element))
    }

    /// Runs the steps of a block once more; returns the rows of each stack, `[length, ...]`, by index.
    fn again(&self, patch: &mut Patch, block: &Block<'_>, blocks: &Blocks) -> Option<Elements> {
        let Self { module, plan, first } = *self;
        let stacks = plan.stacks;
        let Replay { elements, changing, parts } = self.replay(patch, block, blocks)?;
        let is_single = block.length == 1;
        let changing = if is_single { 0 } else { changing };
        let next = elements[..changing].iter().map(|&element| stacks.body.results[element]);
        let wanted: Vec<InstructionId> = next.chain(plan.dropped.iter().map(|&(_, row)| row)).collect();
        let results = self.looping(stacks.site, block.to, block.length).write(patch, &parts, |patch, step| {
            let to = step.computation;
            let place = |element: usize| elements.iter().position(|&other| other == element);
            let mut known = body::elements(module, first, |element| Some(step.state[place(element)?]));
            body::write(module, patch, (first, to), &wanted, &mut known)?;
            let made: Vec<InstructionId> = wanted.iter().map(|result| known[result]).collect();
            let mut next = step.state.to_vec();
            next[..changing].copy_from_slice(&made[..changing]);
            for (stack, &value) in next[elements.len()..].iter_mut().zip(&made[changing..]) {
                *stack = if is_single { value } else { set_row(patch, module, to, *stack, value, step.number)? };
            }
            Some(next)
        })?;
        Some(plan.dropped.iter().map(|&(at, _)| at).zip(results[elements.len()..].iter().copied()).collect())
    }

    /// The state that the steps of a block are run again with.
    fn replay(&self, patch: &mut Patch, block: &Block<'_>, blocks: &Blocks) -> Option<Replay> {
        let Self { module, plan, .. } = *self;
        let initial = |element: usize| self.part(plan.stacks.initial[element]).1;
        let to = block.to;
        let length = steps(to).constant(patch, plan.length);
        let step = steps(to).scalar(patch, Opcode::Multiply, [block.number, length]);
        let mut elements: Vec<usize> = plan.carried.iter().chain(&plan.counters).copied().collect();
        let changing = elements.len();
        elements.extend(blocks.places.keys());
        let mut values = Vec::new();
        for (&element, &checkpoint) in plan.carried.iter().zip(&block.state[blocks.before..]) {
            values.push(row(patch, module, to, checkpoint, block.number, initial(element).as_array()?)?);
        }
        for &element in &plan.counters {
            values.push(self.counter(patch, to, step, element)?);
        }
        values.extend(blocks.places.values().map(|&place| block.state[place]));
        let mut parts: Vec<Part> =
            elements.iter().zip(values).map(|(&element, value)| (value, initial(element))).collect();
        for &(at, _) in &plan.dropped {
            let array = with_length(&plan.stacks.list[at].array, block.length);
            parts.push((zeros(patch, to, &array), Shape::Array(array).into()));
        }
        Some(Replay { elements, changing, parts })
    }

    /// What a counter of the first loop is in a step.
    fn counter(
        &self,
        patch: &mut Patch,
        to: ComputationId,
        step: InstructionId,
        element: usize,
    ) -> Option<InstructionId> {
        let stacks = self.plan.stacks;
        let counter = stacks.body.counters.get(&element)?;
        let start = steps(to).constant(patch, counter.start);
        let opcode = if counter.step == 1 { Opcode::Add } else { Opcode::Subtract };
        let value = steps(to).scalar(patch, opcode, [start, step]);
        let array = self.module.instruction(stacks.initial[element]).array()?;
        if array.element_type == ElementType::S32 {
            return Some(value);
        }
        Some(steps(to).convert(patch, value, array.element_type))
    }

    /// The steps of the reading loop that read the rows of a block; returns the elements of its state behind them.
    fn read(
        &self,
        patch: &mut Patch,
        block: &Block<'_>,
        elements: &Elements,
        rows: &Elements,
    ) -> Option<Vec<InstructionId>> {
        let Self { module, plan, .. } = *self;
        let reader: &Reader = plan.reader;
        let shape_of = |patch: &Patch, id: InstructionId| patch.instruction(module, id).shape.clone();
        let all = elements.values().chain(rows.values());
        let parts: Vec<Part> = all.map(|&value| (value, shape_of(patch, value))).collect();
        let results = self.looping(reader.site, block.to, block.length).write(patch, &parts, |patch, step| {
            let to = step.computation;
            let place = |element: usize| elements.get_index_of(&element);
            let mut known: Known = body::elements(module, reader.body, |element| Some(step.state[place(element)?]));
            let last = steps(to).constant(patch, block.length - 1);
            let number = steps(to).scalar(patch, Opcode::Subtract, [last, step.number]);
            for read in reader.reads.iter().filter(|read| rows.contains_key(&read.stack)) {
                let stack = step.state[elements.len() + rows.get_index_of(&read.stack)?];
                let shape = module.instruction(read.site).array()?;
                known.insert(read.site, row(patch, module, to, stack, number, shape)?);
            }
            let results = &module.instruction(module.computation(reader.body).root).operands;
            let wanted: Vec<InstructionId> = elements.keys().map(|&element| results[element]).collect();
            body::write(module, patch, (reader.body, to), &wanted, &mut known)?;
            let mut next: Vec<InstructionId> = wanted.iter().map(|result| known[result]).collect();
            next.extend_from_slice(&step.state[elements.len()..]);
            Some(next)
        })?;
        Some(results[..elements.len()].to_vec())
    }

    fn part(&self, id: InstructionId) -> Part {
        (id, self.module.instruction(id).shape.clone())
    }

    /// Puts new results in the place of those of a loop.
    fn replace(&self, patch: &mut Patch, site: InstructionId, results: &Elements) {
        for (id, element) in self.takers(site) {
            match results.get(&element) {
                Some(&new) => patch.replace(id, new),
                None => patch.remove(id),
            }
        }
        patch.remove_moved(site);
        patch.remove(self.module.instruction(site).operands[0]);
    }
}
