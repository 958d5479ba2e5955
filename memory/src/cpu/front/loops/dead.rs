//! Elements of a loop's state that nothing needs.
//!
//! XLA finds fewer of them than there are: an element goes alone if no other element is computed from it, and otherwise only together with
//! everything that its computation has anything in common with, a constant included. So an element that is computed from a needed one stays,
//! and with it all that it is computed from, as the derivatives do that an iteration carries beside its values.
//!
//! Source: `TryRemoveDeadWhileParams` (xla/service/while_loop_simplifier.cc).

// Tests: `memory/tests/expanded.rs`.

use crate::hash::IndexMap;
use hlo_ir::{AttrKey, Opcode};
use smallvec::SmallVec;

use super::super::cx::{Cx, Id};
use super::{Loop, elements};

/// Drops elements that nothing needs, as far as XLA finds them; returns whether there were any.
pub(super) fn drop(cx: &mut Cx<'_>, at: &Loop) -> bool {
    let Some(count) = at.len(cx).filter(|&count| count > 0) else { return false };
    let root = at.root(cx);
    if cx.opcode(root) != Opcode::Tuple || cx.operands(root).len() != count || !at.reads_elements_only(cx) {
        return false;
    }
    let kept = needed(cx, at, count);
    if kept.iter().all(|&kept| kept) {
        return false;
    }
    elements::keep(cx, at, &kept, &IndexMap::default());
    true
}

/// A set of elements, a bit each.
#[derive(Clone, Default)]
struct Elements(SmallVec<[u64; 2]>);

impl Elements {
    fn none(count: usize) -> Self {
        Self(SmallVec::from_elem(0, count.div_ceil(64)))
    }
    fn add(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }
    fn remove(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }
    fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }
    fn extend(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }
}

/// What is found out about a body and its condition on one walk.
struct Facts {
    /// Elements of the state that each instruction is computed from.
    reads: IndexMap<Id, Elements>,
    /// Instructions that have something in common.
    groups: Groups,
    /// Elements that the condition or a side effect needs.
    acting: Elements,
}

fn needed(cx: &Cx<'_>, at: &Loop, count: usize) -> Vec<bool> {
    let Facts { reads, mut groups, acting } = facts(cx, at, count);
    let behind = read_behind(cx, at, count);
    let outputs = cx.operands(at.root(cx));
    let mut feeds_others = Elements::none(count);
    let mut members: IndexMap<Id, Elements> = IndexMap::default();
    for (index, &output) in outputs.iter().enumerate() {
        let mut others = reads.get(&output).cloned().unwrap_or_else(|| Elements::none(count));
        others.remove(index);
        feeds_others.extend(&others);
        members.entry(groups.of(output)).or_insert_with(|| Elements::none(count)).add(index);
    }
    for state in [at.body_state, at.condition_state] {
        for user in cx.users(state) {
            let Some(index) = at.element_read(cx, user).filter(|&index| index < count) else { continue };
            members.entry(groups.of(user)).or_insert_with(|| Elements::none(count)).add(index);
        }
    }
    let used = |index: usize| behind.has(index) || acting.has(index);
    let mut kept: Vec<bool> = (0..count).map(|index| feeds_others.has(index) || used(index)).collect();
    let holds = |index: usize| acting.has(index) || (behind.has(index) && !at.passes(cx, index));
    for group in members.values() {
        let indices = || (0..count).filter(|&index| group.has(index));
        if !indices().any(holds) {
            indices().for_each(|index| kept[index] = false);
        }
    }
    kept
}

fn facts(cx: &Cx<'_>, at: &Loop, count: usize) -> Facts {
    let acting = Elements::none(count);
    let mut facts = Facts { reads: IndexMap::default(), groups: Groups::default(), acting };
    let root = at.root(cx);
    for (callee, state) in [(at.body, at.body_state), (at.condition, at.condition_state)] {
        for id in cx.post_order(callee) {
            if id == state || id == root {
                continue;
            }
            let mut reads = Elements::none(count);
            if let Some(index) = at.element_read(cx, id).filter(|&index| index < count) {
                reads.add(index);
                facts.groups.join(cx.operand(root, index), id);
            } else {
                for &operand in cx.operands(id) {
                    facts.groups.join(operand, id);
                    facts.reads.get(&operand).into_iter().for_each(|more| reads.extend(more));
                }
            }
            if cx.has_side_effect(id) || id == cx.root(at.condition) {
                facts.acting.extend(&reads);
            }
            facts.reads.insert(id, reads);
        }
    }
    facts
}

/// Elements that something behind the loop reads.
fn read_behind(cx: &Cx<'_>, at: &Loop, count: usize) -> Elements {
    let mut behind = Elements::none(count);
    let users = cx.users(at.id);
    if cx.is_root(at.id) || users.iter().any(|&user| cx.opcode(user) != Opcode::GetTupleElement) {
        (0..count).for_each(|index| behind.add(index));
    } else {
        let read = users.iter().filter_map(|&user| cx.inst(user).int(&AttrKey::Index));
        read.map(|index| index as usize).filter(|&index| index < count).for_each(|index| behind.add(index));
    }
    behind
}

/// Disjoint sets of instructions.
#[derive(Default)]
struct Groups {
    /// Another member, nearer to the one that names the set; instructions that are not listed name their own.
    above: IndexMap<Id, Id>,
}

impl Groups {
    /// The instruction that names the set of `id`.
    fn of(&mut self, id: Id) -> Id {
        let mut name = id;
        while let Some(&above) = self.above.get(&name) {
            name = above;
        }
        let mut at = id;
        while let Some(above) = self.above.get_mut(&at) {
            at = std::mem::replace(above, name);
            if at == name {
                break;
            }
        }
        name
    }
    fn join(&mut self, a: Id, b: Id) {
        let (a, b) = (self.of(a), self.of(b));
        if a != b {
            self.above.insert(b, a);
        }
    }
}
