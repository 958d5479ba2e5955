//! The counters of a loop: elements of its state that every step changes by one.
//!
//! A loop may count the same thing several times: TensorFlow's has a number of its step, one of the element it takes, and the length of every list that
//! it writes. All of them follow from the number of the step.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::literal::scalar_integer;
use hlo_ir::{AttrKey, ComputationId, ElementType, InstructionId, Module, Opcode};

use super::body::{Body, Counter, LARGEST_COUNT};
use crate::bounds;
use crate::flow::Value;

/// The counters of a loop, and how many steps it makes, if one of its counters says so.
pub(crate) struct Counted {
    pub(crate) body: Body,
    pub(crate) steps: Option<i64>,
}

impl Counted {
    /// A loop that begins with a tuple.
    pub(crate) fn of(module: &Module, site: InstructionId) -> Option<Self> {
        of(module, site, &mut Before::default())
    }
}

/// How far each element of a loop's state has counted when the loop ends, by the loop.
#[derive(Default)]
struct Before {
    known: IndexMap<InstructionId, IndexMap<usize, i64>>,
    level: usize,
}

impl Before {
    /// What an element of the state of a loop has counted to when it ends.
    fn end(&mut self, module: &Module, site: InstructionId, element: usize) -> Option<i64> {
        if let Some(ends) = self.known.get(&site) {
            return ends.get(&element).copied();
        }
        if self.level == bounds::LEVELS {
            return None;
        }
        self.level += 1;
        let counted = of(module, site, self);
        self.level -= 1;
        let ends = counted.map(|Counted { body, steps }| {
            let end = |counter: &Counter| counter.start.checked_add(counter.step.checked_mul(steps?)?);
            body.counters.iter().filter_map(|(&element, counter)| Some((element, end(counter)?))).collect()
        });
        self.known.entry(site).or_insert(ends.unwrap_or_default()).get(&element).copied()
    }
}

fn of(module: &Module, site: InstructionId, before: &mut Before) -> Option<Counted> {
    let inst = module.instruction(site);
    let tuple = module.instruction(*inst.operands.first()?);
    if inst.opcode != Opcode::While || tuple.opcode != Opcode::Tuple {
        return None;
    }
    let mut body = Body::new(module, inst.computation(&AttrKey::Body)?)?;
    if body.results.len() != tuple.operands.len() {
        return None;
    }
    let bounds = bounds(module, inst.computation(&AttrKey::Condition)?);
    for (element, &initial) in tuple.operands.iter().enumerate() {
        // What counts up to a bound cannot overflow, whatever its type.
        let is_bound = bounds.iter().flatten().any(|bound| bound.0 == element);
        if let Some(step) = step(module, &mut body, element)
            && (is_wide(module, initial) || (is_bound && step == 1))
            && let Some(start) = start(module, initial, before)
        {
            body.counters.insert(element, Counter { step, start });
        }
    }
    let steps = bounds.and_then(|bounds| steps(&body, &bounds));
    body.steps = steps;
    Some(Counted { body, steps })
}

/// How many steps a loop makes that goes on while each of these elements is below its bound.
fn steps(body: &Body, bounds: &[(usize, i64)]) -> Option<i64> {
    let counts = |&(element, bound): &(usize, i64)| {
        let counter = body.counters.get(&element).filter(|counter| counter.step == 1)?;
        Some(bound.checked_sub(counter.start)?.max(0))
    };
    let all: Option<Vec<i64>> = bounds.iter().map(counts).collect();
    all?.into_iter().min()
}

/// What every step adds to an element, if it is 1 or -1.
fn step(module: &Module, body: &mut Body, element: usize) -> Option<i64> {
    let next = body.top(module, body.results[element]);
    let sum = module.instruction(next.inst);
    let &[a, b] = &sum.operands[..] else { return None };
    let ways: &[(InstructionId, InstructionId, i64)] = match sum.opcode {
        Opcode::Add => &[(a, b, 1), (b, a, 1)],
        Opcode::Subtract => &[(a, b, -1)],
        _ => return None,
    };
    ways.iter().find_map(|&(state, by, sign)| {
        let (value, by) = (body.resolve(module, state, next), body.resolve(module, by, next));
        let by = scalar_integer(module.instruction(by.inst)).filter(|by| by.abs() == 1)?;
        (body.element(module, value) == Some(element)).then_some(sign * i64::try_from(by).ok()?)
    })
}

/// An initial value: a number, or what a loop before has counted to.
fn start(module: &Module, initial: InstructionId, before: &mut Before) -> Option<i64> {
    let inst = module.instruction(initial);
    let number = if inst.opcode == Opcode::GetTupleElement {
        before.end(module, inst.operands[0], usize::try_from(inst.int(&AttrKey::Index)?).ok()?)?
    } else {
        i64::try_from(scalar_integer(inst)?).ok()?
    };
    (number.abs() <= LARGEST_COUNT).then_some(number)
}

fn is_wide(module: &Module, id: InstructionId) -> bool {
    let array = module.instruction(id).array();
    array.is_some_and(|array| array.is_scalar() && matches!(array.element_type, ElementType::S32 | ElementType::S64))
}

/// The elements that a condition compares with constants, all of which must hold: `element < constant`.
fn bounds(module: &Module, condition: ComputationId) -> Option<Vec<(usize, i64)>> {
    let mut side = Body::new(module, condition)?;
    let mut work = vec![side.top(module, module.computation(condition).root)];
    let (mut found, mut seen) = (Vec::new(), IndexSet::default());
    while let Some(at) = work.pop() {
        let at = side.strip(module, at);
        if !seen.insert(at) {
            continue;
        }
        let inst = module.instruction(at.inst);
        if inst.opcode == Opcode::And {
            work.extend(inst.operands.iter().map(|&operand| side.resolve(module, operand, at)));
        } else {
            found.push(bound_of(module, &mut side, at)?);
        }
    }
    Some(found)
}

fn bound_of(module: &Module, side: &mut Body, at: Value) -> Option<(usize, i64)> {
    let compare = module.instruction(at.inst);
    let (below, above) = match (compare.opcode, compare.word(&AttrKey::Direction)) {
        (Opcode::Compare, Some("LT")) => (0, 1),
        (Opcode::Compare, Some("GT")) => (1, 0),
        _ => return None,
    };
    let [below, above] = [below, above].map(|side| compare.operands[side]);
    let (below, above) = (side.resolve(module, below, at), side.resolve(module, above, at));
    let bound = scalar_integer(module.instruction(above.inst))?;
    Some((side.element(module, below)?, i64::try_from(bound).ok()?))
}

/// The element with the least bound that a condition compares with constants, and that bound: the loop goes on only while `element < bound`.
pub(crate) fn bound(module: &Module, condition: ComputationId) -> Option<(usize, i64)> {
    bounds(module, condition)?.into_iter().min_by_key(|bound| bound.1)
}
