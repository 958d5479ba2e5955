//! Equal instructions are computed once.
//!
//! Source: `HloCSE` (xla/service/hlo_cse.cc).

use std::cell::Cell;
use std::hash::{Hash, Hasher};

use crate::hash::IndexMap;
use hlo_ir::arena::Id as _;
use hlo_ir::shape::{Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, ComputationId, ElementType, Opcode, Payload};
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::cx::{Cx, Id};
use crate::cpu::graph::OpcodeSet;

/// Merges equal constants, then equal instructions; returns whether any were.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for computation in cx.computation_order() {
        changed |= merge_constants(cx, computation);
        changed |= merge_instructions(cx, computation);
    }
    changed
}

/// What makes two constants the same; layouts count after layout assignment.
fn constant_key(cx: &Cx<'_>, id: Id) -> Option<(Shape, u64)> {
    if !cx.is_constant(id) {
        return None;
    }
    let literal = cx.literal(id)?;
    let mut shape = Shape::clone(cx.shape(id));
    if let (false, Shape::Array(array)) = (cx.layout_sensitive, &mut shape) {
        array.layout = None;
    }
    Some((shape, literal.hash()))
}

fn merge_constants(cx: &mut Cx<'_>, computation: ComputationId) -> bool {
    if !cx.has_seen_in(computation, Opcode::Constant) {
        return false;
    }
    let mut first: IndexMap<(Shape, u64), Id> = IndexMap::default();
    let mut changed = false;
    for id in cx.list(computation).filter(|&id| cx.is_constant(id)).collect::<Vec<_>>() {
        let Some(key) = constant_key(cx, id) else { continue };
        let kept = *first.entry(key).or_insert(id);
        if kept != id {
            cx.note_merged(kept, id);
            cx.replace_all_uses(id, kept);
            cx.remove(id);
            changed = true;
        }
    }
    changed
}

/// An instruction that may stand for later ones, and the hash of what it calls, once it was asked for.
struct Kept {
    id: Id,
    callees: Cell<Option<u64>>,
}

impl Kept {
    fn callees(&self, cx: &Cx<'_>) -> u64 {
        let hash = self.callees.get().unwrap_or_else(|| hash_callees(cx, self.id));
        self.callees.set(Some(hash));
        hash
    }
}

fn merge_instructions(cx: &mut Cx<'_>, computation: ComputationId) -> bool {
    if !cx.has_seen_in(computation, Opcode::Iota) && all_differ(cx, computation) {
        // Most bodies of fusions.
        return false;
    }
    let order = cx.post_order(computation);
    let mut seen = Representatives { known: IndexMap::default(), passed: vec![false; cx.slots(computation)] };
    let mut changed = false;
    for id in order {
        if !cx.is_alive(id) {
            continue;
        }
        if reads_alone(cx, id) {
            seen.passed[cx.slot(id)] = true;
            changed |= reads_iota(cx, id) && mergeable(cx, id) && merge_equal_iotas(cx, id);
            continue;
        }
        if !mergeable(cx, id) {
            continue;
        }
        let Some(kept) = seen.find_or_enter(cx, id) else {
            changed |= merge_equal_iotas(cx, id);
            continue;
        };
        seen.enter_passed_user(cx, kept);
        cx.note_merged(kept, id);
        cx.replace_all_uses(id, kept);
        cx.remove_with_operands(id);
        changed = true;
    }
    changed
}

/// Whether every instruction that computes from something does it by an opcode of its own, so that there is nothing to compare with.
fn all_differ(cx: &Cx<'_>, computation: ComputationId) -> bool {
    let mut seen = OpcodeSet::default();
    let opcodes = cx.list(computation).filter(|&id| !is_free(cx, id)).map(|id| cx.opcode(id));
    for opcode in opcodes {
        if seen.has(opcode) {
            return false;
        }
        seen.add(opcode);
    }
    true
}

/// Instructions that may stand for later ones.
struct Representatives {
    /// By hash.
    known: IndexMap<u64, SmallVec<[Kept; 1]>>,
    /// By slot, those that were not entered because nothing else reads one of their operands.
    passed: Vec<bool>,
}

impl Representatives {
    /// The earlier instruction that is equal to `id`; if there is none, `id` may be that to later ones.
    fn find_or_enter(&mut self, cx: &Cx<'_>, id: Id) -> Option<Id> {
        let bucket = self.known.entry(hash(cx, id)).or_default();
        let own = (!bucket.is_empty()).then(|| hash_callees(cx, id));
        let is_equal =
            |other: &&Kept| cx.is_alive(other.id) && own == Some(other.callees(cx)) && equal(cx, other.id, id);
        let found = bucket.iter().find(is_equal).map(|kept| kept.id);
        if found.is_none() {
            bucket.push(Kept { id, callees: Cell::new(own) });
        }
        found
    }

    /// Enters the only user of an instruction that is about to get more of them.
    fn enter_passed_user(&mut self, cx: &Cx<'_>, id: Id) {
        let only = cx.user(id, 0).filter(|_| cx.user_count(id) == 1);
        if let Some(user) = only
            && std::mem::take(&mut self.passed[cx.slot(user)])
            && mergeable(cx, user)
        {
            self.known.entry(hash(cx, user)).or_default().push(Kept { id: user, callees: Cell::new(None) });
        }
    }
}

/// Whether `id` is the only user of an operand, so that nothing is equal to it. Equal iotas do not tell instructions apart.
fn reads_alone(cx: &Cx<'_>, id: Id) -> bool {
    cx.operands(id).iter().any(|&operand| cx.user_count(operand) == 1 && cx.opcode(operand) != Opcode::Iota)
}

/// Whether an instruction computes from nothing, such as a constant or a parameter.
fn is_free(cx: &Cx<'_>, id: Id) -> bool {
    cx.operands(id).is_empty() && !matches!(cx.opcode(id), Opcode::PartitionId | Opcode::ReplicaId)
}

fn mergeable(cx: &Cx<'_>, id: Id) -> bool {
    !is_free(cx, id) && !cx.has_control(id) && !cx.has_side_effect(id)
}

fn reads_iota(cx: &Cx<'_>, id: Id) -> bool {
    cx.operands(id).iter().any(|&operand| cx.opcode(operand) == Opcode::Iota)
}

/// Operands of one instruction that are equal iotas become one.
fn merge_equal_iotas(cx: &mut Cx<'_>, id: Id) -> bool {
    let is_iota = |&number: &usize| cx.opcode(cx.operand(id, number)) == Opcode::Iota;
    let iotas: SmallVec<[usize; 4]> = (0..cx.operands(id).len()).filter(is_iota).collect();
    let mut changed = false;
    for (place, &first) in iotas.iter().enumerate() {
        for &second in &iotas[place + 1..] {
            let (a, b) = (cx.operand(id, first), cx.operand(id, second));
            if a != b && same_operand(cx, a, b) {
                cx.replace_operand(id, second, a);
                if cx.is_dead(b) {
                    cx.remove(b);
                }
                changed = true;
            }
        }
    }
    changed
}

fn is_commutative(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(opcode, O::Add | O::Multiply | O::Maximum | O::Minimum | O::And | O::Or | O::Xor | O::Mulhi)
}

/// Operands in the order in which they are compared; iotas do not tell instructions apart by identity.
fn operand_key(cx: &Cx<'_>, id: Id) -> SmallVec<[usize; 8]> {
    let number = |&operand: &Id| if cx.opcode(operand) == Opcode::Iota { 0 } else { operand.index() + 1 };
    let mut key: SmallVec<[usize; 8]> = cx.operands(id).iter().map(number).collect();
    if is_commutative(cx.opcode(id)) {
        key.sort_unstable();
    }
    key
}

fn hash(cx: &Cx<'_>, id: Id) -> u64 {
    let mut hasher = FxHasher::default();
    let inst = cx.inst(id);
    (inst.opcode, operand_key(cx, id)).hash(&mut hasher);
    inst.array().map(|array| &array.dims).hash(&mut hasher);
    inst.ints(&AttrKey::Dimensions).hash(&mut hasher);
    // What tells thousands of pieces of one array or tuple apart; none of it is a note.
    if matches!(inst.opcode, Opcode::Slice | Opcode::GetTupleElement | Opcode::Pad) {
        for key in [AttrKey::Slice, AttrKey::Index, AttrKey::Padding] {
            inst.attribute(&key).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Part of what tells computations apart: without it, a thousand fusions that read a thousand slices of one array would be compared with
/// each other one by one.
fn hash_callees(cx: &Cx<'_>, id: Id) -> u64 {
    let mut hasher = FxHasher::default();
    for callee in cx.inst(id).called_computations() {
        for id in cx.post_order(callee) {
            let inst = cx.inst(id);
            (inst.opcode, cx.operands(id).len(), inst.attribute(&AttrKey::Slice)).hash(&mut hasher);
            cx.literal(id).map(|literal| literal.hash()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn same_operand(cx: &Cx<'_>, a: Id, b: Id) -> bool {
    a == b
        || (cx.opcode(a) == Opcode::Iota
            && cx.opcode(b) == Opcode::Iota
            && cx.inst(a).int(&AttrKey::IotaDimension) == cx.inst(b).int(&AttrKey::IotaDimension)
            && shapes_equal(cx, cx.shape(a), cx.shape(b)))
}

fn shapes_equal(cx: &Cx<'_>, a: &ShapeRef, b: &ShapeRef) -> bool {
    cx.shapes_agree(a, b)
}

fn equal(cx: &Cx<'_>, a: Id, b: Id) -> bool {
    let (x, y) = (cx.inst(a), cx.inst(b));
    x.opcode == y.opcode && shapes_equal(cx, &x.shape, &y.shape) && same_attributes(cx, a, b) && same_operands(cx, a, b)
}

fn same_operands(cx: &Cx<'_>, a: Id, b: Id) -> bool {
    let (x, y) = (cx.operands(a), cx.operands(b));
    let in_order = || x.iter().zip(y).all(|(&p, &q)| same_operand(cx, p, q));
    let swapped = || is_commutative(cx.opcode(a)) && same_operand(cx, x[0], y[1]) && same_operand(cx, x[1], y[0]);
    x.len() == y.len() && (in_order() || swapped())
}

/// Attributes that say where an instruction comes from, not what it does.
fn is_note(key: &AttrKey) -> bool {
    matches!(key, AttrKey::Metadata | AttrKey::Origin | AttrKey::Statistics)
}

/// Whether a `type` attribute only repeats the comparison's default.
fn is_default_compare(cx: &Cx<'_>, id: Id, value: &AttrValue) -> bool {
    let AttrValue::Word(word) = value else { return false };
    let element_type = cx.operands(id).first().map_or(ElementType::Pred, |&operand| cx.element_type(operand));
    let default = match element_type {
        t if t.is_float() || t.is_complex() => "FLOAT",
        t if t.is_signed() => "SIGNED",
        _ => "UNSIGNED",
    };
    **word == *default
}

fn attributes<'a>(cx: &'a Cx<'_>, id: Id) -> impl Iterator<Item = (&'a AttrKey, &'a AttrValue)> {
    cx.inst(id).attributes.iter().map(|attribute| (&attribute.key, &attribute.value)).filter(move |(key, value)| {
        !(is_note(key) || **key == AttrKey::CompareType && is_default_compare(cx, id, value))
    })
}

fn same_attributes(cx: &Cx<'_>, a: Id, b: Id) -> bool {
    let same_value = |x: &AttrValue, y: &AttrValue| match (x, y) {
        (AttrValue::Computation(p), AttrValue::Computation(q)) => same_computation(cx, *p, *q),
        (AttrValue::Computations(p), AttrValue::Computations(q)) => {
            p.len() == q.len() && p.iter().zip(q).all(|(&p, &q)| same_computation(cx, p, q))
        }
        _ => x == y,
    };
    let find = |key: &AttrKey| attributes(cx, b).find(|(other, _)| *other == key).map(|(_, value)| value);
    attributes(cx, a).count() == attributes(cx, b).count()
        && attributes(cx, a).all(|(key, value)| find(key).is_some_and(|other| same_value(value, other)))
}

/// Whether two computations do the same, instruction by instruction from their roots.
///
/// Source: `HloComputation::EqualInternal`.
pub(crate) fn same_computation(cx: &Cx<'_>, a: ComputationId, b: ComputationId) -> bool {
    if a == b {
        return true;
    }
    let (order_a, order_b) = (cx.post_order(a), cx.post_order(b));
    if order_a.len() != order_b.len() {
        return false;
    }
    // A map, not a table by id: most computations compared are tiny, and a table would be as long as the module.
    let mut partner: IndexMap<Id, Id> = IndexMap::default();
    for (&x, &y) in order_a.iter().zip(order_b.iter()) {
        partner.insert(x, y);
        if !same_step(cx, x, y, &partner) {
            return false;
        }
    }
    partner.get(&cx.root(a)) == Some(&cx.root(b))
}

fn same_step(cx: &Cx<'_>, x: Id, y: Id, partner: &IndexMap<Id, Id>) -> bool {
    let payload = |id: Id| match &cx.inst(id).payload {
        Payload::Literal(_) => None,
        other => Some(other.clone()),
    };
    let (ops_x, ops_y) = (cx.operands(x), cx.operands(y));
    cx.opcode(x) == cx.opcode(y)
        && shapes_equal(cx, cx.shape(x), cx.shape(y))
        && payload(x) == payload(y)
        && cx.literal(x) == cx.literal(y)
        && same_attributes(cx, x, y)
        && ops_x.len() == ops_y.len()
        && ops_x.iter().zip(ops_y).all(|(&p, &q)| partner.get(&p) == Some(&q))
}
