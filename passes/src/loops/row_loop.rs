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
use crate::hash::{IndexMap, IndexSet};

/// The loops of a module that were asked about.
#[derive(Default, Debug)]
pub struct RowLoops {
    known: RefCell<IndexMap<InstructionId, Known>>,
    /// What outlives this state; weak, since it knows of loops inside others by the same way.
    kept: Weak<RefCell<Kept>>,
}

impl RowLoops {
    /// Those of a module in one state, some of which may be as they were in another.
    pub(crate) fn with(kept: &KeptLoops) -> Self {
        Self { known: RefCell::default(), kept: Rc::downgrade(&kept.0) }
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
        let Known { facts, found, refused } =
            known.entry(looping).or_insert_with(|| Known::of(of(&self.kept, module, looping)));
        let cuts = |row_loop: &&Arc<RowLoop>| {
            row_loop.roles.get(element) == Some(&Role::Cut(dim)) && (!is_plain || row_loop.is_plain())
        };
        if let Some(found) = found.iter().find(cuts) {
            return Some(found.clone());
        }
        if refused.contains(&(element, dim, is_plain)) {
            return None;
        }
        let new = facts.borrow_mut().to(module, (looping, element, dim), is_plain);
        match &new {
            Some(new) => found.push(new.clone()),
            None => drop(refused.insert((element, dim, is_plain))),
        }
        new
    }
}

impl FindLoops for RowLoops {
    fn find(&self, module: &Module, looping: InstructionId, element: usize, dim: usize) -> Option<Arc<RowLoop>> {
        self.of(module, (looping, element, dim))
    }
}

/// What was said of a loop.
#[derive(Debug)]
struct Known {
    facts: Rc<RefCell<Answers>>,
    found: Vec<Arc<RowLoop>>,
    /// Elements of the state that cannot be cut in a dimension; and whether they can perhaps, where others have their rows in other dimensions or sum over them.
    refused: IndexSet<(usize, usize, bool)>,
}

impl Known {
    fn of(facts: Rc<RefCell<Answers>>) -> Self {
        Self { facts, found: Vec::new(), refused: IndexSet::default() }
    }
}

/// What is known of loops in all states of a module: most changes leave most loops as they are.
#[derive(Default, Debug)]
pub(crate) struct KeptLoops(Rc<RefCell<Kept>>);

type Kept = IndexMap<Form, Rc<RefCell<Answers>>>;

/// A loop, by all that answers depend on: what it computes with the ids in it, what it starts from, and which stacks it writes over zeros.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Form {
    looping: InstructionId,
    content: u64,
    /// The hash of its initial state, which a change may rewrite in its place.
    start: Option<u64>,
    stacks: Vec<usize>,
}

/// What is known of a loop of a module as it is now.
fn of(kept: &Weak<RefCell<Kept>>, module: &Module, looping: InstructionId) -> Rc<RefCell<Answers>> {
    let stacks = stacks_over_zeros(module, looping);
    let (content, start) = (hash::identity(module, looping), module.instruction(looping).operands.first());
    let start = start.map(|&start| hash::identity(module, start));
    let form = Form { looping, content, start, stacks: stacks.clone() };
    let all = kept.upgrade();
    if let Some(known) = all.as_ref().and_then(|all| all.borrow().get(&form).cloned()) {
        debug_assert!(known.try_borrow().is_ok_and(|known| known.fits(module, looping)), "a loop has changed");
        return known;
    }
    let inner = RowLoops { known: RefCell::default(), kept: kept.clone() };
    let facts = Facts::of(module, looping, stacks, Box::new(inner));
    let answers = Rc::new(RefCell::new(Answers { facts, given: IndexMap::default() }));
    if let Some(all) = all {
        keep(&mut all.borrow_mut(), form, answers.clone());
    }
    answers
}

/// Keeps what is known of a loop. What was learned first goes where there is too much.
fn keep(kept: &mut Kept, form: Form, answers: Rc<RefCell<Answers>>) {
    // A loop around this one is just being asked.
    let size_of = |answers: &RefCell<Answers>| answers.try_borrow().map_or(0, |answers| answers.size());
    let mut size: usize = kept.values().map(|answers| size_of(answers)).sum();
    while size > bounds::MODULE
        && let Some((_, first)) = kept.shift_remove_index(0)
    {
        size -= size_of(&first);
    }
    kept.insert(form, answers);
}

/// A loop, and what was asked about it: an element of its state, a dimension in which it is cut, and whether nothing else may be cut or summed up.
#[derive(Debug)]
struct Answers {
    /// `None` if rows of it cannot be told apart at all.
    facts: Option<Facts>,
    given: IndexMap<(usize, usize, bool), Option<Arc<RowLoop>>>,
}

impl Answers {
    fn to(
        &mut self,
        module: &Module,
        (looping, element, dim): (InstructionId, usize, usize),
        is_plain: bool,
    ) -> Option<Arc<RowLoop>> {
        let facts = self.facts.as_mut()?;
        let given = self.given.entry((element, dim, is_plain));
        let mut new = || row_loop(module, facts, (looping, element, dim), is_plain);
        given.or_insert_with(|| new().filter(|new| !is_plain || new.is_plain()).map(Arc::new)).clone()
    }
    /// Whether a loop still starts from what it did, and makes each element from the same others.
    fn fits(&self, module: &Module, looping: InstructionId) -> bool {
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
    fn rows(kept: &KeptLoops, module: &Module) -> Option<Arc<RowLoop>> {
        RowLoops::with(kept).of(module, (named(module, "w"), 1, 0))
    }

    /// The same behind another operand for an instruction, which is undone.
    fn behind(kept: &KeptLoops, module: &mut Module, [user, old, new]: [&str; 3]) -> Option<Arc<RowLoop>> {
        let [user, old, new] = [user, old, new].map(|name| named(module, name));
        let mut other: Instruction = module.instruction(user).clone();
        other.operands.iter_mut().filter(|operand| **operand == old).for_each(|operand| *operand = new);
        let mut patch = Patch::new(module);
        patch.rewrite(user, other);
        let undo = patch.apply(module).expect("the patch fits");
        let found = rows(kept, module);
        undo.revert(module);
        found
    }

    #[test]
    fn loops_that_are_as_they_were_are_not_asked_again() {
        let (mut module, kept) = (text::parse(LOOP).expect("legal"), KeptLoops::default());
        let found = rows(&kept, &module).expect("rows are independent");
        assert_eq!(found.roles(), [Role::Whole, Role::Cut(0), Role::Sum]);
        let is_known = |now: Option<Arc<RowLoop>>| Arc::ptr_eq(&now.expect("rows are independent"), &found);
        assert!(is_known(rows(&kept, &module)));
        assert!(is_known(behind(&kept, &mut module, ["o", "q", "r"])), "what reads the loop does not count");
        let other = behind(&kept, &mut module, ["start", "p", "q"]).expect("rows are independent");
        assert_eq!(other.starts[1], named(&module, "q"), "what it starts from is another value");
        assert!(behind(&kept, &mut module, ["zeros", "nothing", "k"]).is_none(), "what it sums up begins with k");
        assert!(behind(&kept, &mut module, ["go_on", "most", "at"]).is_none(), "nobody knows which rows it writes");
        assert!(is_known(rows(&kept, &module)), "as it was");
    }
}
