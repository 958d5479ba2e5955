//! Loops that treat their rows independently, such as a binary search for every row or the steps of a scan for every example: such a `while` computes a block
//! of rows from a block of its state, by the same iterations. What a loop sums up over all rows, such as the gradient of weights, goes on from the sum of the
//! blocks before.

// Tests: `passes/tests/chunk_time.rs`, `passes/tests/chunk_loops.rs`.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use hlo_ir::{InstructionId, Module, hash};

use super::row_form::{FindLoops, Role, RowLoop};
use super::row_roles::{Facts, row_loop};
use super::row_trace::stacks_over_zeros;
use crate::bounds;
use crate::hash::IndexMap;

/// The loops of a module that were asked about, as the module is now.
#[derive(Default, Debug)]
pub struct RowLoops {
    known: RefCell<IndexMap<InstructionId, Known>>,
    /// Weak, because facts in the cache find loops inside their loop by the same cache.
    cache: Weak<RefCell<Cached>>,
}

impl RowLoops {
    /// Those of a module in a state in which many of its loops may be as they were in another.
    pub(crate) fn with(cache: &RowLoopCache) -> Self {
        Self { known: RefCell::default(), cache: Rc::downgrade(&cache.0) }
    }
    /// The loop over independent rows that cuts an element of a loop's state in a dimension, if it sums over nothing and has all rows in that dimension.
    pub(crate) fn plain(
        &self,
        module: &Module,
        (looping, element, dim): (InstructionId, usize, usize),
    ) -> Option<Arc<RowLoop>> {
        self.find(module, (looping, element, dim), true)
    }
    /// The loop over independent rows that cuts an element of a loop's state in a dimension.
    pub(crate) fn of(
        &self,
        module: &Module,
        (looping, element, dim): (InstructionId, usize, usize),
    ) -> Option<Arc<RowLoop>> {
        self.find(module, (looping, element, dim), false)
    }
    fn find(
        &self,
        module: &Module,
        (looping, element, dim): (InstructionId, usize, usize),
        is_plain: bool,
    ) -> Option<Arc<RowLoop>> {
        let mut known = self.known.borrow_mut();
        let Known { answers, found } = known
            .entry(looping)
            .or_insert_with(|| Known { answers: answers(&self.cache, module, looping), found: Vec::new() });
        let cuts = |row_loop: &&Arc<RowLoop>| {
            row_loop.roles.get(element) == Some(&Role::Cut(dim)) && (!is_plain || row_loop.is_plain())
        };
        if let Some(found) = found.iter().find(cuts) {
            return Some(found.clone());
        }
        let new = answers.borrow_mut().find(module, (looping, element, dim), is_plain);
        found.extend(new.clone());
        new
    }
}

impl FindLoops for RowLoops {
    fn find(&self, module: &Module, looping: InstructionId, element: usize, dim: usize) -> Option<Arc<RowLoop>> {
        self.of(module, (looping, element, dim))
    }
}

/// A loop as the module is now.
#[derive(Debug)]
struct Known {
    answers: Rc<RefCell<Answers>>,
    /// What was found since the module is as it is: who asks for another element that is cut in one of these means the same loop.
    found: Vec<Arc<RowLoop>>,
}

/// Answers about the loops of all states of a module: most changes leave most loops as they are.
#[derive(Default, Debug)]
pub(crate) struct RowLoopCache(Rc<RefCell<Cached>>);

type Cached = IndexMap<CacheKey, Rc<RefCell<Answers>>>;

/// A loop, by all that answers depend on.
#[derive(PartialEq, Eq, Hash, Debug)]
struct CacheKey {
    looping: InstructionId,
    /// Hash of the loop, its condition and its body.
    content: u64,
    /// Hash of its initial state, a tuple that a change may rewrite in its place.
    start: Option<u64>,
    /// Elements of the state that it writes row by row over zeros: values in front of the loop say so.
    stacks: Vec<usize>,
}

/// Answers about a loop as the module is now, from the cache where they are still true.
fn answers(cache: &Weak<RefCell<Cached>>, module: &Module, looping: InstructionId) -> Rc<RefCell<Answers>> {
    let stacks = stacks_over_zeros(module, looping);
    let start = module.instruction(looping).operands.first();
    let key = CacheKey {
        looping,
        content: hash::instruction_hash(module, looping),
        start: start.map(|&start| hash::instruction_hash(module, start)),
        stacks: stacks.clone(),
    };
    let cached = cache.upgrade();
    if let Some(known) = cached.as_ref().and_then(|cached| cached.borrow().get(&key).cloned()) {
        debug_assert!(known.try_borrow().is_ok_and(|known| known.are_of(module, looping)), "the loop has changed");
        return known;
    }
    let inner = RowLoops { known: RefCell::default(), cache: cache.clone() };
    let facts = Facts::of(module, looping, stacks, Box::new(inner));
    let new = Rc::new(RefCell::new(Answers { facts, given: IndexMap::default() }));
    if let Some(cached) = cached {
        insert(&mut cached.borrow_mut(), key, new.clone());
    }
    new
}

/// Adds answers to the cache. The oldest go where there are too many.
fn insert(cached: &mut Cached, key: CacheKey, answers: Rc<RefCell<Answers>>) {
    // Those about a loop around this one cannot be borrowed: they are just being found.
    let size_of = |answers: &RefCell<Answers>| answers.try_borrow().map_or(0, |answers| answers.size());
    let mut size: usize = cached.values().map(|answers| size_of(answers)).sum();
    while size > bounds::MODULE
        && let Some((_, first)) = cached.shift_remove_index(0)
    {
        size -= size_of(&first);
    }
    cached.insert(key, answers);
}

/// Answers about a loop: for an element of its state, a dimension in which it is cut, and whether nothing else may be cut or summed up.
#[derive(Debug)]
struct Answers {
    /// `None` if rows of it cannot be told apart at all.
    facts: Option<Facts>,
    given: IndexMap<(usize, usize, bool), Option<Arc<RowLoop>>>,
}

impl Answers {
    fn find(
        &mut self,
        module: &Module,
        (looping, element, dim): (InstructionId, usize, usize),
        is_plain: bool,
    ) -> Option<Arc<RowLoop>> {
        let facts = self.facts.as_mut()?;
        let find = || {
            let found = row_loop(module, facts, (looping, element, dim), is_plain)?;
            (!is_plain || found.is_plain()).then(|| Arc::new(found))
        };
        self.given.entry((element, dim, is_plain)).or_insert_with(find).clone()
    }
    /// Whether a loop still starts from what it did, and computes each element from the same others.
    fn are_of(&self, module: &Module, looping: InstructionId) -> bool {
        let fresh = Facts::of(module, looping, stacks_over_zeros(module, looping), Box::new(RowLoops::default()));
        let starts = |row_loop: &Arc<RowLoop>| {
            module.instruction(module.instruction(looping).operands[0]).operands[..] == row_loop.starts[..]
        };
        self.facts.as_ref().map(Facts::dependences) == fresh.as_ref().map(Facts::dependences)
            && self.given.values().flatten().all(starts)
    }
    /// Values in all traces, which is what takes memory.
    fn size(&self) -> usize {
        self.given.values().flatten().map(|row_loop| row_loop.body.nodes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::edit::Patch;
    use hlo_ir::{Instruction, Module, text};

    use super::*;

    /// Of 8 rows each step sums up one column, over zeros.
    const LOOP: &str = "HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  s = (s32[], f32[8,16], f32[4,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,16] get-tuple-element(s), index=1
  stack = f32[4,16] get-tuple-element(s), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  n = s32[] add(i, one)
  y = f32[8,16] tanh(x)
  sum = f32[16] reduce(y, none), dimensions={0}, to_apply=add
  row = f32[1,16] reshape(sum)
  next = f32[4,16] dynamic-update-slice(stack, row, i, zero)
  ROOT t = (s32[], f32[8,16], f32[4,16]) tuple(n, y, next)
}

cond {
  s = (s32[], f32[8,16], f32[4,16]) parameter(0)
  at = s32[] get-tuple-element(s), index=0
  most = s32[] constant(4)
  ROOT go_on = pred[] compare(at, most), direction=LT
}

ENTRY e {
  p = f32[8,16] parameter(0)
  q = f32[8,16] parameter(1)
  k = f32[] parameter(2)
  nothing = f32[] constant(0)
  begin = s32[] constant(0)
  zeros = f32[4,16] broadcast(nothing), dimensions={}
  start = (s32[], f32[8,16], f32[4,16]) tuple(begin, p, zeros)
  w = (s32[], f32[8,16], f32[4,16]) while(start), condition=cond, body=body
  r = f32[8,16] get-tuple-element(w), index=1
  ROOT o = f32[8,16] add(r, q)
}
";

    fn named(module: &Module, name: &str) -> InstructionId {
        module.live_instructions().find(|(_, inst)| inst.name == name).expect("it is there").0
    }

    /// What is found of the rows of the loop, in a state of its own.
    fn rows(cache: &RowLoopCache, module: &Module) -> Option<Arc<RowLoop>> {
        RowLoops::with(cache).of(module, (named(module, "w"), 1, 0))
    }

    /// The same behind another operand for an instruction, which is undone.
    fn behind(cache: &RowLoopCache, module: &mut Module, [user, old, new]: [&str; 3]) -> Option<Arc<RowLoop>> {
        let [user, old, new] = [user, old, new].map(|name| named(module, name));
        let mut other: Instruction = module.instruction(user).clone();
        other.operands.iter_mut().filter(|operand| **operand == old).for_each(|operand| *operand = new);
        let mut patch = Patch::new(module);
        patch.rewrite(user, other);
        let undo = patch.apply(module).expect("the patch fits");
        let found = rows(cache, module);
        undo.revert(module);
        found
    }

    #[test]
    fn loops_that_are_as_they_were_are_not_asked_again() {
        let (mut module, cache) = (text::parse(LOOP).expect("legal"), RowLoopCache::default());
        let found = rows(&cache, &module).expect("rows are independent");
        assert_eq!(found.roles(), [Role::Whole, Role::Cut(0), Role::Sum]);
        let is_known = |now: Option<Arc<RowLoop>>| Arc::ptr_eq(&now.expect("rows are independent"), &found);
        assert!(is_known(rows(&cache, &module)));
        assert!(is_known(behind(&cache, &mut module, ["o", "q", "r"])), "what reads the loop does not count");
        assert!(!is_known(behind(&cache, &mut module, ["sum", "y", "x"])), "another body");
        let other = behind(&cache, &mut module, ["start", "p", "q"]).expect("rows are independent");
        assert_eq!(other.starts[1], named(&module, "q"), "what it starts from is another value");
        assert!(behind(&cache, &mut module, ["zeros", "nothing", "k"]).is_none(), "what it sums up begins with k");
        assert!(behind(&cache, &mut module, ["go_on", "most", "at"]).is_none(), "nobody knows which rows it writes");
        assert!(is_known(rows(&cache, &module)), "as it was");
    }
}
