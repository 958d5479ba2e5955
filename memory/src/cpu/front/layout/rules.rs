//! The constraints on layouts: which layout each array is made in, and in which each operand is wanted.
//!
//! A rule on an array may be overruled only by a mandatory one; rules on operands are always mandatory here, because the CPU wants every
//! operand row-major from the start. New rules wait until they have been spread to their neighbours.
//!
//! Source: `BufferLayoutConstraint`, `OperandLayoutConstraint`, `ComputationLayoutConstraint`, `LayoutAssignment::AddMandatoryConstraints`
//! (xla/service/layout_assignment.cc), `CpuLayoutAssignment::AddBackendConstraints` (xla/service/cpu/cpu_layout_assignment.cc).

use std::collections::VecDeque;
use std::ops::Range;

use hlo_ir::arena::SideTable;
use hlo_ir::shape::Shape;
use hlo_ir::{AttrKey, ComputationId, ElementType, Opcode};
use smallvec::{SmallVec, smallvec};

use super::super::cx::{Cx, Id};
use super::branches;
use super::order::Order;
use super::points::{Buffer, Leaves, Points, arrays};
use crate::cpu::graph::Rare;

/// Layouts of the arrays of a value; most values are one array.
pub(super) type Layouts = SmallVec<[Order; 1]>;

/// The layout an array is made in.
#[derive(Clone)]
pub(super) struct Making {
    pub(super) layout: Order,
    pub(super) mandatory: bool,
    pub(super) first: bool,
}

/// The layouts in which an operand is wanted, one per array.
#[derive(Clone)]
pub(super) struct Wanting {
    pub(super) layouts: Layouts,
    pub(super) first: bool,
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
    /// Says in which layout an array is made, unless a stronger rule stands. `first` says that neighbours hear of it before others.
    pub(super) fn make(&mut self, buffer: Buffer, layout: &Order, mandatory: bool, first: bool) {
        let Some(old) = &mut self.making[buffer] else {
            self.making[buffer] = Some(Making { layout: layout.clone(), mandatory, first });
            self.added.push(Rule::Making(buffer));
            self.make_aliases(buffer, layout);
            return;
        };
        if old.layout == *layout {
            if (old.mandatory || !mandatory) && (old.first || !first) {
                return;
            }
            old.mandatory |= mandatory;
            old.first |= first;
        } else if mandatory {
            *old = Making { layout: layout.clone(), mandatory, first };
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
                self.want(by, operand, smallvec![layout.clone()], true);
            }
        }
    }

    /// Says in which layouts an operand is wanted.
    pub(super) fn want(&mut self, id: Id, slot: usize, layouts: Layouts, first: bool) {
        if self.cx.is_scalar(self.cx.operand(id, slot)) {
            return;
        }
        let slots = self.wanting.room(id, self.cx.operands(id).len());
        if slots[slot].as_ref().is_some_and(|old| old.layouts == layouts) {
            return;
        }
        slots[slot] = Some(Wanting { layouts, first });
        self.added.push(Rule::Wanting(id, slot));
    }

    /// Says in which layouts all arrays of a result are made.
    pub(super) fn make_all(&mut self, id: Id, layouts: &[Order]) {
        for (buffer, layout) in Leaves::from_slice(self.points.leaves(id)).into_iter().zip(layouts) {
            self.make(buffer, layout, true, true);
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
            self.want(id, slot, layouts, true);
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
        self.want(id, 0, result.clone(), true);
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
                self.want(id, number + 1, layouts, true);
            } else {
                program.result.clone_from(&chosen.result);
                self.mismatched.set(branch, true);
            }
        }
        self.want(id, best.0 + 1, chosen.parameters.first().cloned().unwrap_or_default(), true);
        self.make_all(id, &chosen.result);
    }

    /// What the CPU wants: every operand row-major, and the results of matrix products too; collectives along one dimension their own way.
    pub(super) fn add_backend(&mut self, computation: ComputationId) {
        let cx = self.cx;
        for id in cx.list(computation) {
            if let Some(layout) = outermost_first(cx, id) {
                self.make_all(id, &[Order::of(&layout)]);
                continue;
            }
            let library = is_library_call(cx, id);
            if library {
                self.make_all(id, &row_major_layouts(cx.shape(id)));
            }
            for slot in 0..cx.operands(id).len() {
                let operand = cx.operand(id, slot);
                let constrained = self.wanting.of(id).get(slot).is_some_and(Option::is_some);
                if !library && (constrained || Points::forwards(cx, id)) {
                    continue;
                }
                match cx.array(operand) {
                    Some(array) => self.want(id, slot, smallvec![Order::Rows(array.rank())], true),
                    None if library => self.want(id, slot, row_major_layouts(cx.shape(operand)), true),
                    None => {}
                }
            }
        }
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
                self.want(id, slot, layouts(shape), true);
                let operand = cx.operand(id, slot);
                if cx.opcode(operand) == Opcode::Copy {
                    self.want(operand, 0, layouts(shape), true);
                }
            }
        }
    }
}

/// The layout of a collective that puts pieces together or takes one out: the dimension it does that along lies outermost.
fn outermost_first(cx: &Cx<'_>, id: Id) -> Option<hlo_ir::shape::Dims> {
    if !matches!(cx.opcode(id), Opcode::AllGather | Opcode::ReduceScatter) {
        return None;
    }
    let along = *cx.inst(id).ints(&AttrKey::Dimensions).first()?;
    let layout = cx.array(id)?.minor_to_major();
    Some(layout.iter().copied().filter(|&dim| dim != along).chain([along]).collect())
}

/// Whether the code generator insists on row-major operands and results: matrix products that are more than matrix-vector products or
/// tiny ones, convolutions of the matrix library, top-k.
///
/// Source: `DotOperandsAndResultMustHaveRowMajorLayout` (xla/service/cpu/dot_op_emitter.cc).
fn is_library_call(cx: &Cx<'_>, id: Id) -> bool {
    match cx.opcode(id) {
        Opcode::Dot => is_matrix_product(cx, id),
        Opcode::Convolution => super::super::expand::is_canonical_convolution(cx, id),
        Opcode::CustomCall => cx.inst(id).raw(&AttrKey::CustomCallTarget) == Some("\"TopK\""),
        _ => false,
    }
}

fn is_matrix_product(cx: &Cx<'_>, id: Id) -> bool {
    use ElementType as T;
    let Some((lhs, rhs)) = cx.both(id, Opcode::Dot) else { return false };
    if !cx.inst(id).ints(&AttrKey::LhsBatchDims).is_empty() {
        return true;
    }
    let (result, element_type) = (cx.dims(id), cx.element_type(id));
    let vector = result.len() <= 1 || (result.len() == 2 && result.contains(&1));
    let small = |id: Id| cx.rank(id) <= 1 || (cx.rank(id) == 2 && cx.dims(id).iter().any(|&size| size <= 3));
    let number = element_type.is_float() || element_type.is_integer();
    if number && (vector || (small(lhs) && small(rhs))) {
        return false;
    }
    let known = matches!(element_type, T::F16 | T::F32 | T::F64 | T::C64 | T::C128 | T::S32);
    known && [lhs, rhs, id].iter().all(|&id| cx.rank(id) == 2) && !cx.is_empty_array(lhs) && !cx.is_empty_array(rhs)
}
