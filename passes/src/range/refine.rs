//! What a condition says about the values it was computed from.
//!
//! `select(i < 0, i + d, i)`: where the first branch is taken `i` is negative, elsewhere it is not. Each branch is evaluated again under
//! such constraints, along elementwise operations only, so that they speak of the same element.

// Tests: `passes/tests/range.rs`.

use hlo_ir::{AttrKey, InstructionId, Opcode};

use super::{FrameId, Range, Ranges, Value};
use crate::bounds;

/// Values that an instruction can have where a condition holds.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    id: InstructionId,
    allowed: Range,
}

impl Ranges<'_> {
    /// A `select`, under constraints that hold around it.
    pub(super) fn select(&mut self, frame: FrameId, value: &Value, outer: &[Constraint]) -> Option<Range> {
        let [condition, on_true, on_false] = self.module.instruction(value.id).operands[..] else { return None };
        let possible = self.same_place(frame, value, condition);
        let same_shape = self.array(condition, &[])?.dims == self.array(value.id, &[])?.dims;
        let mut range = Range::empty();
        for (truth, branch) in [(true, on_true), (false, on_false)] {
            if !possible.contains(truth.into()) {
                continue;
            }
            let mut constraints = outer.to_vec();
            if same_shape && outer.len() < bounds::LEVELS {
                let at = Value { id: condition, ..value.clone() };
                constraints.extend(self.constraints(frame, &at, truth, bounds::BRANCHING));
            }
            let at = Value { id: branch, ..value.clone() };
            range = range.union(&self.refined(frame, &at, &constraints, bounds::BRANCHING));
        }
        Some(range)
    }

    /// Range of a value at a place where constraints hold.
    fn refined(&mut self, frame: FrameId, value: &Value, constraints: &[Constraint], levels: usize) -> Range {
        let mut range = self.evaluate(frame, value.clone());
        if constraints.is_empty() || levels == 0 || self.steps_left == 0 {
            return range;
        }
        self.steps_left -= 1;
        let inst = self.module.instruction(value.id);
        let again = match inst.opcode {
            Opcode::Select if constraints.len() < bounds::LEVELS && self.level + bounds::BRANCHING < bounds::LEVELS => {
                self.level += bounds::BRANCHING;
                let range = self.select(frame, value, constraints);
                self.level -= bounds::BRANCHING;
                range
            }
            opcode if opcode.is_elementwise() && opcode != Opcode::Select => {
                let mut operand = |ranges: &mut Self, operand: InstructionId| {
                    let same = ranges.array(operand, &[]).map(|array| &array.dims)
                        == ranges.array(value.id, &[]).map(|array| &array.dims);
                    let at = Value { id: operand, ..value.clone() };
                    if same {
                        ranges.refined(frame, &at, constraints, levels - 1)
                    } else {
                        ranges.same_place(frame, value, operand)
                    }
                };
                self.elementwise(frame, value, &mut operand)
            }
            _ => None,
        };
        if let Some(again) = again {
            range = range.intersect(&again);
        }
        for constraint in constraints.iter().filter(|constraint| self.same(constraint.id, value.id, bounds::BRANCHING))
        {
            range = range.intersect(&constraint.allowed);
        }
        range
    }

    /// What holds where the condition at `value` is `truth`. All constraints hold together.
    fn constraints(&mut self, frame: FrameId, value: &Value, truth: bool, levels: usize) -> Vec<Constraint> {
        let inst = self.module.instruction(value.id);
        let mut found = vec![Constraint { id: value.id, allowed: Range::point(truth.into()) }];
        if levels == 0 || self.steps_left == 0 {
            return found;
        }
        self.steps_left -= 1;
        let at = |id: InstructionId| Value { id, ..value.clone() };
        match (inst.opcode, &inst.operands[..]) {
            (Opcode::Not, &[x]) => found.extend(self.constraints(frame, &at(x), !truth, levels - 1)),
            (Opcode::And | Opcode::Or, &[a, b]) => {
                let both = (inst.opcode == Opcode::And) == truth;
                let first = self.constraints(frame, &at(a), truth, levels - 1);
                let second = self.constraints(frame, &at(b), truth, levels - 1);
                if both {
                    found.extend(first.into_iter().chain(second));
                } else if !self.same_place(frame, value, a).contains(truth.into()) {
                    found.extend(second);
                } else if !self.same_place(frame, value, b).contains(truth.into()) {
                    found.extend(first);
                } else {
                    found.extend(either(&first, &second));
                }
            }
            (Opcode::Xor, &[a, b]) => self.unequal(frame, value, (a, b), truth, levels, &mut found),
            (Opcode::Compare, &[a, b]) => self.compared(frame, value, (a, b), truth, levels, &mut found),
            _ => {}
        }
        found
    }

    /// Two conditions differ (or agree) and one of them is known.
    fn unequal(
        &mut self,
        frame: FrameId,
        value: &Value,
        (a, b): (InstructionId, InstructionId),
        differ: bool,
        levels: usize,
        found: &mut Vec<Constraint>,
    ) {
        for (one, other) in [(a, b), (b, a)] {
            if let Some(known) = self.same_place(frame, value, other).as_point() {
                let at = Value { id: one, ..value.clone() };
                found.extend(self.constraints(frame, &at, (known == 1) != differ, levels - 1));
            }
        }
    }

    fn compared(
        &mut self,
        frame: FrameId,
        value: &Value,
        (a, b): (InstructionId, InstructionId),
        truth: bool,
        levels: usize,
        found: &mut Vec<Constraint>,
    ) {
        let (Some(direction), Some(array)) =
            (self.module.instruction(value.id).word(&AttrKey::Direction), self.array(a, &[]))
        else {
            return;
        };
        if array.element_type == hlo_ir::ElementType::Pred && matches!(direction, "EQ" | "NE") {
            self.unequal(frame, value, (a, b), (direction == "NE") == truth, levels, found);
        }
        if array.element_type.integer_range().is_none() {
            return;
        }
        let direction = if truth { direction } else { opposite(direction) };
        let (of_a, of_b) = (self.same_place(frame, value, a), self.same_place(frame, value, b));
        self.constrain(a, &allowed(direction, &of_b), found);
        self.constrain(b, &allowed(mirrored(direction), &of_a), found);
    }

    /// Notes a constraint, also on the narrower value that was only widened.
    fn constrain(&self, id: InstructionId, allowed: &Range, found: &mut Vec<Constraint>) {
        found.push(Constraint { id, allowed: allowed.clone() });
        let inst = self.module.instruction(id);
        let types = inst.operands.first().and_then(|&from| Some((self.array(from, &[])?, self.array(id, &[])?)));
        let Some((from, to)) = types.map(|(from, to)| (from.element_type, to.element_type)) else { return };
        let widens = from.integer_range().is_some() && Range::full(from).is_subset(&Range::full(to));
        if inst.opcode == Opcode::Convert && widens && to.integer_range().is_some() {
            found.push(Constraint { id: inst.operands[0], allowed: allowed.clone() });
        }
    }

    /// Whether two instructions of one computation compute the same value.
    fn same(&self, a: InstructionId, b: InstructionId, levels: usize) -> bool {
        if a == b {
            return true;
        }
        let (x, y) = (self.module.instruction(a), self.module.instruction(b));
        let pure = !x.opcode.has_side_effect()
            && !hlo_ir::literal::is_elided(x)
            && !matches!(x.opcode, Opcode::Parameter | Opcode::Call | Opcode::CustomCall | Opcode::RngBitGenerator);
        let attributes = |inst: &hlo_ir::Instruction| {
            inst.attributes.iter().filter(|attribute| attribute.key != AttrKey::Metadata).cloned().collect::<Vec<_>>()
        };
        levels > 0
            && pure
            && (x.parent, x.opcode, &x.payload, &x.shape) == (y.parent, y.opcode, &y.payload, &y.shape)
            && x.operands.len() == y.operands.len()
            && x.operands.iter().zip(&y.operands).all(|(&a, &b)| self.same(a, b, levels - 1))
            && attributes(x) == attributes(y)
    }
}

/// What holds if all of one list holds or all of the other.
fn either(first: &[Constraint], second: &[Constraint]) -> Vec<Constraint> {
    let mut found = Vec::new();
    for a in first {
        // Of several constraints on one value any pair is sound; the widest union that is still one is enough.
        for b in second.iter().filter(|b| b.id == a.id) {
            found.push(Constraint { id: a.id, allowed: a.allowed.union(&b.allowed) });
        }
    }
    found
}

/// The comparison that holds where `direction` does not.
fn opposite(direction: &str) -> &'static str {
    match direction {
        "LT" => "GE",
        "LE" => "GT",
        "GT" => "LE",
        "GE" => "LT",
        "EQ" => "NE",
        "NE" => "EQ",
        _ => "",
    }
}

/// The comparison with its sides exchanged.
fn mirrored(direction: &str) -> &str {
    match direction {
        "LT" => "GT",
        "LE" => "GE",
        "GT" => "LT",
        "GE" => "LE",
        same => same,
    }
}

/// Values that compare so with some value of `other`.
fn allowed(direction: &str, other: &Range) -> Range {
    let Some((low, high)) = other.hull() else { return Range::empty() };
    match direction {
        "LT" => Range::new(i128::MIN, high.saturating_sub(1)),
        "LE" => Range::new(i128::MIN, high),
        "GT" => Range::new(low.saturating_add(1), i128::MAX),
        "GE" => Range::new(low, i128::MAX),
        "EQ" => other.clone(),
        "NE" if low == high => {
            Range::from_pieces([(i128::MIN, low.saturating_sub(1)), (low.saturating_add(1), i128::MAX)])
        }
        _ => Range::all(),
    }
}
