//! What is kept of a loop's steps, and how many of them are run again at a time.

use crate::hash::IndexSet;
use hlo_ir::edit::{acts, runs_any};
use hlo_ir::{ArrayShape, AttrKey, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::loops::{Counted, Order, Reader, Readers, Stacks};
use crate::objective::NEGLIGIBLE;

/// Steps of a loop that are run again in the loop that reads its stacks.
pub(super) struct Plan<'a> {
    pub(super) stacks: &'a Stacks,
    pub(super) reader: &'a Reader,
    /// The stacks that go, by index, and the instruction of the body that is the row of each.
    pub(super) dropped: Vec<(usize, InstructionId)>,
    /// What their rows follow from: elements of the state that each step makes from those of the step before.
    pub(super) carried: Vec<usize>,
    /// The same of those that count, and of those that no step changes.
    pub(super) counters: Vec<usize>,
    pub(super) given: Vec<usize>,
    /// Steps of a block.
    pub(super) length: i64,
    /// What the stacks take less than what is kept and a block of them.
    pub(super) saved: Bytes,
}

impl Plan<'_> {
    /// Number of whole blocks.
    pub(super) fn blocks(&self) -> i64 {
        self.stacks.rows / self.length
    }
    /// Steps behind them.
    pub(super) fn rest(&self) -> i64 {
        self.stacks.rows % self.length
    }
    /// Rows of what is kept: step `t` writes row `t / length`, rounded up, so that the row of a block holds what its first step begins with.
    pub(super) fn rows(&self) -> i64 {
        rows(self.stacks.rows, self.length)
    }
}

fn rows(steps: i64, length: i64) -> i64 {
    (steps + length - 2) / length + 1
}

/// The best plan for one of the loops that read the stacks; with `exchanges`, even if steps exchange values between devices.
pub(super) fn plan<'a>(
    module: &Module,
    stacks: &'a mut Stacks,
    readers: &'a Readers,
    exchanges: bool,
) -> Option<Plan<'a>> {
    let mut best: Option<Steps<'a>> = None;
    let rows = stacks.rows;
    if stacks.body.counters.values().any(|counter| i32::try_from(counter.start.abs() + rows).is_err()) {
        return None;
    }
    for reader in readers.list.iter().filter(|reader| goes_back(module, rows, reader)) {
        let droppable: Vec<usize> =
            (0..stacks.list.len()).filter(|&at| may_go(module, stacks, readers, reader, at)).collect();
        // Where blocks have one step, nothing has to lead from one step to the next.
        for is_single in [true, false] {
            let mut needed = Needed { exchanges, ..Needed::default() };
            let steps = steps(module, stacks, reader, &droppable, is_single, &mut needed);
            best = steps.filter(|steps| best.as_ref().is_none_or(|best| steps.saved > best.saved)).or(best);
        }
    }
    let Steps { reader, dropped, carried, counters, given, length, saved } = best?;
    Some(Plan { stacks, reader, dropped, carried, counters, given, length, saved })
}

/// A plan without the loop that it is for.
struct Steps<'a> {
    reader: &'a Reader,
    dropped: Vec<(usize, InstructionId)>,
    carried: Vec<usize>,
    counters: Vec<usize>,
    given: Vec<usize>,
    length: i64,
    saved: Bytes,
}

/// Whether a loop makes as many steps as the one that it reads the stacks of.
fn goes_back(module: &Module, rows: i64, reader: &Reader) -> bool {
    Counted::of(module, reader.site).and_then(|counted| counted.steps) == Some(rows)
}

/// Whether a stack is only read by this loop, the rows in the order opposite to that in which they were written, and written by an instruction of the body itself.
fn may_go(module: &Module, stacks: &Stacks, readers: &Readers, reader: &Reader, at: usize) -> bool {
    let Some(Counted { mut body, .. }) = Counted::of(module, reader.site) else { return false };
    let mut reads = reader.reads.iter().filter(|read| read.stack == at).peekable();
    let others = readers.list.iter().filter(|other| other.site != reader.site);
    let opposite = match stacks.order {
        Order::Forward => Order::Backward,
        Order::Backward => Order::Forward,
    };
    readers.only_read[at]
        && reads.peek().is_some()
        && others.flat_map(|other| &other.reads).all(|read| read.stack != at)
        && reads.all(|read| {
            let number = body.top(module, read.row);
            body.order(module, number, stacks.rows) == Some(opposite)
        })
}

/// The row that a step writes, as an instruction of the body. What else takes the stack there finds nothing that stands for it, so that no change comes of it.
fn written(module: &Module, stacks: &mut Stacks, at: usize) -> Option<InstructionId> {
    let row = stacks.list[at].row;
    let body = module.instruction(stacks.body.parameter).parent;
    let mut ids = module.instructions_of(body).map(|(id, _)| id);
    ids.find(|&id| module.instruction(id).array().is_some() && stacks.body.top(module, id) == row)
}

/// What running steps again takes, for the length of a block with which it takes least.
fn steps<'a>(
    module: &Module,
    stacks: &mut Stacks,
    reader: &'a Reader,
    droppable: &[usize],
    is_single: bool,
    needed: &mut Needed,
) -> Option<Steps<'a>> {
    let mut dropped = Vec::new();
    for &at in droppable {
        let Some(row) = written(module, stacks, at) else { continue };
        if let Some(more) = needed.with(module, stacks, row, is_single) {
            *needed = more;
            dropped.push((at, row));
        }
    }
    let bytes = |array: &ArrayShape| size::array_size(array).unwrap_or(Bytes::ZERO);
    let all: Bytes = dropped.iter().map(|&(at, _)| bytes(&stacks.list[at].array)).sum();
    let state = needed.carried.iter().map(|&element| module.instruction(stacks.initial[element]).array());
    let state: Bytes = state.collect::<Option<Vec<_>>>()?.into_iter().map(bytes).sum();
    let count = u64::try_from(stacks.rows).ok().filter(|&count| count > 0)?;
    let row = Bytes(all.get() / count);
    let length = length(stacks.rows, is_single, [state, row])?;
    let saved = Bytes(all.get().saturating_sub(kept(stacks.rows, length, [state, row])));
    let Needed { carried, counters, given, .. } = std::mem::take(needed);
    let [carried, counters, given] = [carried, counters, given].map(|set| set.into_iter().collect());
    (!dropped.is_empty()).then_some(Steps { reader, dropped, carried, counters, given, length, saved })
}

/// The steps of a block with which checkpoints and rows of a block take least: about the square root of the steps, times that of what a checkpoint takes for each byte of
/// a row. A length that does not divide the steps needs everything written twice, so it has to save clearly more, a hundredth of the stacks.
fn length(steps: i64, is_single: bool, [state, row]: [Bytes; 2]) -> Option<i64> {
    if is_single || steps < 2 {
        return (steps > 1).then_some(1);
    }
    let taken = |length: i64| kept(steps, length, [state, row]);
    let ratio = state.get() as f64 / row.get().max(1) as f64;
    let root = ((steps as f64 * ratio).sqrt() as i64).clamp(1, steps - 1);
    let any =
        [root, root + 1].into_iter().filter(|length| (2..steps).contains(length)).min_by_key(|&any| taken(any))?;
    let divisors =
        (1..=steps.isqrt()).filter(|divisor| steps % divisor == 0).flat_map(|divisor| [divisor, steps / divisor]);
    let dividing = divisors.filter(|length| (2..steps).contains(length)).min_by_key(|&length| (taken(length), length));
    let all = row.get().saturating_mul(u64::try_from(steps).unwrap_or(u64::MAX));
    let worth = |&dividing: &i64| taken(dividing) <= taken(any).saturating_add(all / NEGLIGIBLE);
    Some(dividing.filter(worth).unwrap_or(any))
}

/// Bytes of checkpoints and of the rows of a block.
fn kept(steps: i64, length: i64, [state, row]: [Bytes; 2]) -> u64 {
    let times = |bytes: Bytes, rows: i64| bytes.get().saturating_mul(u64::try_from(rows).unwrap_or(u64::MAX));
    times(state, rows(steps, length)).saturating_add(times(row, length))
}

/// What rows follow from, by elements of the loop's state.
#[derive(Clone, Default)]
struct Needed {
    carried: IndexSet<usize>,
    counters: IndexSet<usize>,
    given: IndexSet<usize>,
    /// The instructions of a step that they are computed by.
    seen: IndexSet<InstructionId>,
    /// Whether these may exchange values between devices.
    exchanges: bool,
}

impl Needed {
    /// What one more row needs besides; `None` if it cannot be computed again.
    fn with(&self, module: &Module, stacks: &mut Stacks, row: InstructionId, is_single: bool) -> Option<Self> {
        let mut needed = self.clone();
        let mut next = needed.seen.len();
        needed.seen.insert(row);
        while let Some(&id) = needed.seen.get_index(next) {
            next += 1;
            if let Some(element) = element(module, stacks, id) {
                if needed.take(module, stacks, element)? && !is_single {
                    needed.seen.insert(stacks.body.results[element]);
                }
            } else if id == stacks.body.parameter || is_bound(module, id, needed.exchanges) {
                return None;
            } else {
                needed.seen.extend(module.instruction(id).operands.iter().copied());
            }
        }
        Some(needed)
    }

    /// Adds an element of the state. Whether a step makes it of the one before; `None` if it is a stack or no array.
    fn take(&mut self, module: &Module, stacks: &mut Stacks, element: usize) -> Option<bool> {
        if stacks.list.iter().any(|stack| stack.element == element) {
            return None;
        }
        module.instruction(stacks.initial[element]).array()?;
        let counts = stacks.body.counters.contains_key(&element);
        let set = match (counts, stacks.body.forwards(module, element)) {
            (true, _) => &mut self.counters,
            (false, true) => &mut self.given,
            (false, false) => &mut self.carried,
        };
        set.insert(element);
        Some(counts || self.carried.contains(&element))
    }
}

/// Whether an instruction has a side effect, so that it is not run again. That others wait for it, or it for others, `recompute/body.rs` refuses.
fn is_bound(module: &Module, id: InstructionId, exchanges: bool) -> bool {
    let is_allowed = |inner: InstructionId| exchanges && module.instruction(inner).opcode.is_collective();
    runs_any(module, id, |inner| acts(module, inner) && !is_allowed(inner))
}

/// The element of the state that an instruction of the body takes.
fn element(module: &Module, stacks: &Stacks, id: InstructionId) -> Option<usize> {
    let inst = module.instruction(id);
    let taken = inst.opcode == Opcode::GetTupleElement && inst.operands[0] == stacks.body.parameter;
    taken.then(|| inst.int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok())).flatten()
}
