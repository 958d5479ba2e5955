//! The constraints on layouts: which layout each array is made in, and in which each operand is wanted.
//!
//! A rule may be overruled only by a mandatory one. New rules wait until they have been spread to their neighbours.
//!
//! Source: `BufferLayoutConstraint`, `OperandLayoutConstraint`, `ComputationLayoutConstraint`, `LayoutAssignment::AddMandatoryConstraints`,
//! `SetBufferLayout`, `SetOperandLayout` (xla/service/layout_assignment.cc).

use std::collections::VecDeque;
use std::ops::Range;

use hlo_ir::arena::SideTable;
use hlo_ir::shape::Shape;
use hlo_ir::{AttrKey, ComputationId, Opcode};
use smallvec::{SmallVec, smallvec};

use super::super::cx::{Cx, Id};
use super::branches;
use super::order::Order;
use super::points::{Buffer, Leaves, Points, arrays};
use crate::Target;
use crate::cpu::graph::Rare;

/// Layouts of the arrays of a value; most values are one array.
pub(super) type Layouts = SmallVec<[Order; 1]>;

/// The layout an array is made in.
#[derive(Clone)]
pub(super) struct Making {
    pub(super) layout: Order,
    pub(super) force: Force,
}

/// How much a rule counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Force {
    /// Whether it overrules others.
    pub(super) mandatory: bool,
    /// Whether neighbours hear of it before others.
    pub(super) first: bool,
}

impl Force {
    /// Overrules others, and is heard of first.
    pub(super) const MANDATORY: Self = Self { mandatory: true, first: true };
    /// Overrules no other, and is heard of first.
    pub(super) const WISH: Self = Self { mandatory: false, first: true };
}

/// The layouts in which an operand is wanted, one per array.
#[derive(Clone)]
pub(super) struct Wanting {
    pub(super) layouts: Layouts,
    pub(super) force: Force,
}

/// The layouts in which operands are wanted, one instruction behind the other.
pub(super) struct Wants {
    slots: Vec<Option<Wanting>>,
    /// Where the operands of each instruction begin and how many they are; none if nothing was ever wanted of any.
    places: SideTable<Id, (u32, u32)>,
}

impl Wants {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), places: SideTable::new((0, 0)) }
    }

    fn places(&self, id: Id) -> Range<usize> {
        let (first, count) = self.places[id];
        first as usize..(first + count) as usize
    }

    /// What is wanted of the operands of an instruction; empty if nothing ever was.
    pub(super) fn of(&self, id: Id) -> &[Option<Wanting>] {
        &self.slots[self.places(id)]
    }

    /// The same, with room for so many operands.
    fn room(&mut self, id: Id, operands: usize) -> &mut [Option<Wanting>] {
        if self.places[id].1 == 0 {
            self.places.set(id, (self.slots.len() as u32, operands as u32));
            self.slots.resize(self.slots.len() + operands, None);
        }
        let places = self.places(id);
        &mut self.slots[places]
    }

    /// Forgets what is wanted of the operands of an instruction.
    pub(super) fn forget(&mut self, id: Id) {
        let places = self.places(id);
        self.slots[places].fill(None);
    }
}

/// Layouts of a computation's parameters and result.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Program {
    pub(super) parameters: Vec<Layouts>,
    pub(super) result: Layouts,
}

/// A rule that waits to be spread.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// On an array.
    Making(Buffer),
    /// On an operand.
    Wanting(Id, usize),
    /// On the result of a computation.
    Result(ComputationId),
}

/// All rules, and what they are about.
pub(super) struct Rules<'a, 'g> {
    pub(super) cx: &'a Cx<'g>,
    pub(super) target: Target,
    pub(super) points: Points,
    pub(super) making: Vec<Option<Making>>,
    pub(super) wanting: Wants,
    pub(super) programs: SideTable<ComputationId, Option<Program>>,
    /// Branches of conditionals whose result must have the layouts of another branch.
    pub(super) mismatched: SideTable<ComputationId, bool>,
    /// Bodies of loops.
    pub(super) is_body: SideTable<ComputationId, bool>,
    /// Rules that were added since the last look.
    pub(super) added: Vec<Rule>,
    /// Rules that wait to be spread.
    pub(super) waiting: VecDeque<Rule>,
}

/// The layout an array is made in.
pub(super) fn layout_of(points: &Points, making: &[Option<Making>], buffer: Buffer) -> Order {
    making[buffer].as_ref().map_or_else(|| Order::Rows(points.made[buffer].rank), |rule| rule.layout.clone())
}

/// Layouts of the arrays in a shape.
pub(super) fn layouts(shape: &Shape) -> Layouts {
    arrays(shape).iter().map(|array| Order::of_array(array)).collect()
}

/// Row-major layouts for the arrays in a shape.
pub(super) fn row_major_layouts(shape: &Shape) -> Layouts {
    arrays(shape).iter().map(|array| Order::Rows(array.rank())).collect()
}

impl Rules<'_, '_> {
    /// Says in which layout an array is made, unless a stronger rule stands.
    pub(super) fn make(&mut self, buffer: Buffer, layout: &Order, force: Force) {
        let Some(old) = &mut self.making[buffer] else {
            self.making[buffer] = Some(Making { layout: layout.clone(), force });
            self.added.push(Rule::Making(buffer));
            self.make_aliases(buffer, layout);
            return;
        };
        if old.layout == *layout {
            let both = Force { mandatory: old.force.mandatory | force.mandatory, first: old.force.first | force.first };
            if both == std::mem::replace(&mut old.force, both) {
                return;
            }
        } else if force.mandatory {
            *old = Making { layout: layout.clone(), force };
        } else {
            return;
        }
        if self.points.made[buffer].rank > 1 {
            self.added.push(Rule::Making(buffer));
            self.make_aliases(buffer, layout);
        }
    }

    /// A custom call that writes its result over an operand wants that operand in the same layout.
    fn make_aliases(&mut self, buffer: Buffer, layout: &Order) {
        let made = &self.points.made[buffer];
        let (by, leaf) = (made.by, made.leaf);
        if !self.cx.may_have(by, Rare::Aliasing) {
            return;
        }
        for (output, operand, index) in super::aliases(self.cx, by) {
            if output == leaf && index == 0 && self.cx.array(self.cx.operand(by, operand)).is_some() {
                self.want(by, operand, smallvec![layout.clone()], Force::MANDATORY);
            }
        }
    }

    /// Says in which layouts an operand is wanted, unless another rule stands that this one does not overrule.
    pub(super) fn want(&mut self, id: Id, slot: usize, layouts: Layouts, force: Force) {
        if self.cx.is_scalar(self.cx.operand(id, slot)) {
            return;
        }
        let slots = self.wanting.room(id, self.cx.operands(id).len());
        if slots[slot].as_ref().is_some_and(|old| !force.mandatory || old.layouts == layouts) {
            return;
        }
        slots[slot] = Some(Wanting { layouts, force });
        self.added.push(Rule::Wanting(id, slot));
    }

    /// Says in which layouts all arrays of a result are made.
    pub(super) fn make_all(&mut self, id: Id, layouts: &[Order]) {
        for (buffer, layout) in Leaves::from_slice(self.points.leaves(id)).into_iter().zip(layouts) {
            self.make(buffer, layout, Force::MANDATORY);
        }
    }

    /// What callers and callees impose on each other. `later` says that this is not the first round.
    pub(super) fn add_mandatory(&mut self, computation: ComputationId, later: bool) {
        let (cx, entry) = (self.cx, self.cx.entry());
        let own = self.programs[computation].clone();
        let fixed = computation == entry || (later && !self.mismatched[computation]);
        for id in cx.list(computation).filter(|&id| fixed && cx.opcode(id) == Opcode::Parameter) {
            if let (Some(number), Some(program)) = (cx.inst(id).parameter_number(), &own) {
                let layouts = program.parameters.get(number as usize).cloned().unwrap_or_default();
                self.make_all(id, &layouts);
            }
        }
        for id in cx.calling(computation) {
            match cx.opcode(id) {
                Opcode::Call => self.add_call(id),
                Opcode::While => self.add_while(id),
                Opcode::Conditional => self.add_conditional(id),
                _ => {}
            }
        }
        if own.is_some() && (computation == entry || later) {
            self.added.push(Rule::Result(computation));
        }
    }

    fn add_call(&mut self, id: Id) {
        let Some(program) = self.cx.to_apply(id).and_then(|callee| self.programs[callee].clone()) else { return };
        self.make_all(id, &program.result);
        for (slot, layouts) in program.parameters.into_iter().enumerate() {
            self.want(id, slot, layouts, Force::MANDATORY);
        }
    }

    /// A loop carries the layouts its body produces.
    fn add_while(&mut self, id: Id) {
        let inst = self.cx.inst(id);
        let (Some(body), Some(condition)) = (inst.computation(&AttrKey::Body), inst.computation(&AttrKey::Condition))
        else {
            return;
        };
        let Some(result) = self.programs[body].as_ref().map(|program| program.result.clone()) else { return };
        for callee in [body, condition] {
            if let Some(program) = &mut self.programs[callee] {
                program.parameters = vec![result.clone()];
            }
        }
        self.want(id, 0, result.clone(), Force::MANDATORY);
        self.make_all(id, &result);
    }

    /// All branches produce the layouts of the longest one.
    fn add_conditional(&mut self, id: Id) {
        let cx = self.cx;
        let branches = branches(cx, id);
        let mut best = (0, 0);
        for (number, &branch) in branches.iter().enumerate() {
            let empty = cx.shape(cx.operand(id, number + 1)).as_tuple().is_some_and(<[_]>::is_empty);
            if cx.len(branch) > best.1 && !empty {
                best = (number, cx.len(branch));
            }
        }
        let Some(Some(chosen)) = branches.get(best.0).map(|&branch| self.programs[branch].clone()) else { return };
        for (number, &branch) in branches.iter().enumerate() {
            let Some(program) = &mut self.programs[branch] else { continue };
            if program.result == chosen.result {
                let layouts = program.parameters.first().cloned().unwrap_or_default();
                self.want(id, number + 1, layouts, Force::MANDATORY);
            } else {
                program.result.clone_from(&chosen.result);
                self.mismatched.set(branch, true);
            }
        }
        self.want(id, best.0 + 1, chosen.parameters.first().cloned().unwrap_or_default(), Force::MANDATORY);
        self.make_all(id, &chosen.result);
    }

    /// Custom calls that name the layouts of their operands.
    pub(super) fn add_custom_calls(&mut self, computation: ComputationId) {
        let cx = self.cx;
        if !cx.may_hold(computation, Rare::OperandLayouts) {
            return;
        }
        for id in cx.post_order(computation) {
            let known = cx.may_have(id, Rare::OperandLayouts).then(|| cx.inst(id).operand_layouts()).flatten();
            let Some(operands) = known else { continue };
            self.make_all(id, &layouts(cx.shape(id)));
            for (slot, shape) in operands.iter().enumerate().take(cx.operands(id).len()) {
                self.want(id, slot, layouts(shape), Force::MANDATORY);
                let operand = cx.operand(id, slot);
                if cx.opcode(operand) == Opcode::Copy {
                    self.want(operand, 0, layouts(shape), Force::MANDATORY);
                }
            }
        }
    }
}
