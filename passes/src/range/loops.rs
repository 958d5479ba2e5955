//! Invariants of `while` loops.
//!
//! One element of a loop's state is described by the first of these that holds:
//! - *carried*: the body forwards it untouched, so it is the initial value;
//! - *counter*: the body adds a positive step and the condition says `i < bound`, so it lies between its start and the bound;
//! - *closed*: a set that holds the initial value and that the body does not leave, tried with a few growing candidates.

// Tests: `passes/tests/range.rs`.

use crate::hash::IndexSet;
use hlo_ir::{AttrKey, InstructionId, Opcode};

use super::{Frame, FrameId, Path, Range, Ranges, Value};
use crate::bounds;

/// An element of the state of a loop, seen from the frame its operand is evaluated in.
struct Element {
    site: InstructionId,
    parent: FrameId,
    path: Path,
}

impl Ranges<'_> {
    /// The value a loop ends with.
    pub(super) fn loop_result(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        let element = Element { site: value.id, parent: frame, path: value.path.clone() };
        let init = *self.module.instruction(value.id).operands.first()?;
        if self.is_carried(&element)? {
            return Some(self.evaluate(frame, Value { id: init, ..value.clone() }));
        }
        if let Some((_, after)) = self.counter(&element) {
            return Some(after);
        }
        self.closed_state(&element)
    }

    /// The parameter of a loop's body or condition in any iteration, asked from outside the loop. `at` is a frame of the loop.
    pub(super) fn loop_argument(&mut self, at: FrameId, value: &Value) -> Option<Range> {
        if let Some(range) = self.loop_state(at, value) {
            return Some(range);
        }
        let Frame::Loop { site, parent, .. } = *self.frames.get_index(at)? else { return None };
        self.closed_state(&Element { site, parent, path: value.path.clone() })
    }

    /// The parameter of a loop's body or condition as far as assumptions, carried values and counters say. Closed sets are not asked
    /// for: their proof comes here.
    pub(super) fn loop_state(&mut self, at: FrameId, value: &Value) -> Option<Range> {
        let Frame::Loop { callee, site, parent, known } = self.frames.get_index(at)?.clone() else { return None };
        if let Some((_, range)) = known.filter(|(path, _)| *path == value.path) {
            return Some(range);
        }
        let element = Element { site, parent, path: value.path.clone() };
        if self.is_carried(&element)? {
            let id = *self.module.instruction(site).operands.first()?;
            return Some(self.evaluate(parent, Value { id, ..value.clone() }));
        }
        let (inside, after) = self.counter(&element)?;
        let is_body = self.module.instruction(site).computation(&AttrKey::Body) == Some(callee);
        Some(if is_body { inside } else { after })
    }

    /// Whether the body returns the element as it got it.
    fn is_carried(&mut self, element: &Element) -> Option<bool> {
        let body = self.module.instruction(element.site).computation(&AttrKey::Body)?;
        let frame = self.loop_frame(element, &AttrKey::Body, None)?;
        let root = self.module.computation(body).root;
        let (at, id, path) = self.resolve(frame, root, element.path.clone());
        Some(at == frame && self.module.instruction(id).opcode == Opcode::Parameter && path == element.path)
    }

    /// The range of a counter inside the body, and after the body has run, if the element is one.
    fn counter(&mut self, element: &Element) -> Option<(Range, Range)> {
        let inst = self.module.instruction(element.site);
        let initial = self.evaluate_whole(element.parent, *inst.operands.first()?, &element.path);
        let step = self.step_of_counter(element)?;
        let last = self.last_of_counter(element)?;
        let (start, end) = initial.hull()?;
        let after = end.max(last.checked_add(step.high()?)?);
        let array = self.array(element.site, &element.path)?;
        let fits = Range::new(start, after).is_subset(&Range::full(array.element_type));
        (fits && step.low()? > 0).then(|| (Range::new(start, last.max(start)), Range::new(start, after)))
    }

    /// What the body adds to the element.
    fn step_of_counter(&mut self, element: &Element) -> Option<Range> {
        let body = self.module.instruction(element.site).computation(&AttrKey::Body)?;
        let frame = self.loop_frame(element, &AttrKey::Body, None)?;
        let (at, id, path) = self.resolve(frame, self.module.computation(body).root, element.path.clone());
        let sum = self.module.instruction(id);
        let [a, b] = sum.operands[..] else { return None };
        if sum.opcode != Opcode::Add || !path.is_empty() {
            return None;
        }
        let step = if self.is_state(at, a, frame, element) { b } else { a };
        let other = if step == a { b } else { a };
        self.is_state(at, other, frame, element).then(|| self.evaluate_whole(at, step, &[]))
    }

    /// The largest value for which the condition lets the body run.
    fn last_of_counter(&mut self, element: &Element) -> Option<i128> {
        let condition = self.module.instruction(element.site).computation(&AttrKey::Condition)?;
        let frame = self.loop_frame(element, &AttrKey::Condition, None)?;
        let mut work = vec![(frame, self.module.computation(condition).root)];
        let mut last = None;
        let mut seen = IndexSet::default();
        while let Some((at, id)) = work.pop() {
            let (at, id, _) = self.resolve(at, id, Path::new());
            if !seen.insert((at, id)) {
                continue;
            }
            let inst = self.module.instruction(id);
            let [a, b] = inst.operands[..] else { continue };
            if inst.opcode == Opcode::And {
                work.extend([(at, a), (at, b)]);
                continue;
            }
            let (bound, strict) = match (inst.opcode, inst.word(&AttrKey::Direction)) {
                (Opcode::Compare, Some("LT")) if self.is_state(at, a, frame, element) => (b, 1),
                (Opcode::Compare, Some("LE")) if self.is_state(at, a, frame, element) => (b, 0),
                (Opcode::Compare, Some("GT")) if self.is_state(at, b, frame, element) => (a, 1),
                (Opcode::Compare, Some("GE")) if self.is_state(at, b, frame, element) => (a, 0),
                _ => continue,
            };
            let bound = self.evaluate_whole(at, bound, &[]).high()? - strict;
            last = Some(last.map_or(bound, |last: i128| last.min(bound)));
        }
        last
    }

    /// Whether an instruction is the element of the state that `frame` was made for.
    fn is_state(&mut self, at: FrameId, id: InstructionId, frame: FrameId, element: &Element) -> bool {
        let (at, id, path) = self.resolve(at, id, Path::new());
        at == frame && self.module.instruction(id).opcode == Opcode::Parameter && path == element.path
    }

    /// A set that holds the initial value and that the body does not leave.
    fn closed_state(&mut self, element: &Element) -> Option<Range> {
        let inst = self.module.instruction(element.site);
        let mut candidate = self.evaluate_whole(element.parent, *inst.operands.first()?, &element.path);
        let root = self.module.computation(inst.computation(&AttrKey::Body)?).root;
        for _ in 0..bounds::MAX_ATTEMPTS {
            let known = Some((element.path.clone(), candidate.clone()));
            let frame = self.loop_frame(element, &AttrKey::Body, known)?;
            let next = self.evaluate_whole(frame, root, &element.path);
            if next.is_subset(&candidate) {
                return Some(candidate);
            }
            candidate = candidate.union(&next);
        }
        None
    }

    fn loop_frame(&mut self, element: &Element, which: &AttrKey, known: Option<(Path, Range)>) -> Option<FrameId> {
        let callee = self.module.instruction(element.site).computation(which)?;
        Some(self.frame(Frame::Loop { callee, site: element.site, parent: element.parent, known }))
    }

    /// The instruction that makes a value, looking through tuples, barriers, copies and calls.
    fn resolve(&mut self, mut frame: FrameId, mut id: InstructionId, mut path: Path) -> (FrameId, InstructionId, Path) {
        for _ in 0..bounds::CONE {
            let inst = self.module.instruction(id);
            let first = inst.operands.first().copied();
            let next = match (inst.opcode, first) {
                (Opcode::GetTupleElement, Some(tuple)) => {
                    path.insert(0, inst.int(&AttrKey::Index).unwrap_or(0));
                    Some(tuple)
                }
                (Opcode::Tuple, _) if !path.is_empty() => inst.operands.get(path.remove(0) as usize).copied(),
                (Opcode::OptBarrier | Opcode::Copy, first) => first,
                (Opcode::Call, _) => inst.computation(&AttrKey::ToApply).map(|callee| {
                    frame = self.frame(Frame::Call { callee, site: id, first: 0, parent: frame });
                    self.module.computation(callee).root
                }),
                (Opcode::Parameter, _) => self.frames.get_index(frame).cloned().and_then(|inside| match inside {
                    Frame::Call { callee, site, first, parent } if callee == inst.parent => {
                        frame = parent;
                        let number = inst.parameter_number().and_then(|number| usize::try_from(number).ok())?;
                        self.module.instruction(site).operands.get(first + number).copied()
                    }
                    _ => None,
                }),
                _ => None,
            };
            let Some(next) = next else { break };
            id = next;
        }
        (frame, id, path)
    }
}
