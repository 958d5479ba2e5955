//! The tie itself: a value that is forwarded untouched, but only once another value is there.
//!
//! XLA:GPU and XLA:TPU schedule in front of the pass that removes optimization barriers (`cse_barrier_expander` behind scheduling in XLA:GPU's dumps), and a
//! barrier moves no data. XLA:CPU removes them before it schedules, so that a `select` stands there, by a predicate that is never true.

// Tests: `passes/tests/loop_starts.rs`, `passes/tests/rematerialize.rs`, `passes/tests/tie.rs`.

use crate::hash::IndexMap;
use hlo_ir::arena::SideTable;
use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::module::Payload;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{
    AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
    attribute::SliceDim,
};
use hlo_memory::{Bytes, Target, size};

use crate::flow::{feeds_sum, is_rounded};
use crate::roll::fp_contraction;
use crate::{Condition, Context, Finding, Grade, Outcome};

/// Whether something can wait for this value: an array with elements that have bits.
pub(crate) fn can_wait_for(module: &Module, id: InstructionId) -> bool {
    use ElementType as E;
    let has_bits = |element: E| {
        element == E::Pred || element.is_integer() || matches!(element, E::F16 | E::Bf16 | E::F32 | E::F64)
    };
    let array = module.instruction(id).array().filter(|array| !array.is_dynamic() && has_bits(array.element_type));
    array.is_some_and(|array| array.elements().is_some_and(|count| count > 0))
}

/// Whether this value can be forwarded by a `select`.
pub(crate) fn can_tie(module: &Module, id: InstructionId) -> bool {
    let array = module.instruction(id).array();
    array.is_some_and(|array| !array.is_dynamic() && !array.element_type.is_complex())
}

/// A number that a value is not, if it is a constant: of two equal ones XLA's front end takes either, whatever the predicate.
fn other_than(inst: &Instruction) -> &'static str {
    let element = inst.array().map_or(ElementType::Pred, |array| array.element_type);
    let is_zero = inst.literal().is_some_and(|text| matches!(text.trim(), "0" | "0.0" | "false"));
    match element {
        ElementType::Pred if is_zero => "true",
        _ if is_zero => "1",
        _ => element.zero(),
    }
}

/// Adds ties to one computation.
pub(crate) struct Ties<'a> {
    module: &'a Module,
    target: Target,
    pub(crate) patch: Patch,
    /// The predicate that is never true, for each value waited for.
    never: IndexMap<InstructionId, InstructionId>,
    /// What waits, and for what.
    pairs: Vec<(InstructionId, InstructionId)>,
    /// The last barrier that each value waited for goes through, where it is passed on, on a device.
    barriers: IndexMap<InstructionId, InstructionId>,
}

impl<'a> Ties<'a> {
    pub(crate) fn new(module: &'a Module, target: Target) -> Self {
        let (never, barriers) = (IndexMap::default(), IndexMap::default());
        Self { module, target, patch: Patch::new(module), never, pairs: Vec::new(), barriers }
    }

    /// `value`, but only when `after` is there.
    pub(crate) fn tie(&mut self, value: InstructionId, after: InstructionId) -> InstructionId {
        self.tie_behind(value, after, after)
    }
    /// The same, where on a device the value waited for is to be read behind the barrier ([`Self::passed_on`]). One that several wait for goes through all barriers.
    ///
    /// XLA's algebraic simplifier drops operands of a barrier that are read neither behind it nor elsewhere (`HandleOptimizationBarrier` in
    /// xla/hlo/transforms/simplifiers/algebraic_simplifier.cc), and once layouts are chosen, other users may read another form of the value.
    pub(crate) fn tie_and_pass_on(&mut self, value: InstructionId, after: InstructionId) -> InstructionId {
        let now = self.behind_last(after).unwrap_or(after);
        let tied = self.tie_behind(value, after, now);
        if self.target != Target::Cpu {
            self.barriers.insert(after, self.patch.instruction(self.module, tied).operands[0]);
        }
        tied
    }
    /// Values that others wait for, each with what is to be read in its place. Readers follow on all that waits.
    pub(crate) fn passed_on(&mut self) -> Vec<(InstructionId, InstructionId)> {
        let waited_for: Vec<InstructionId> = self.barriers.keys().copied().collect();
        waited_for.into_iter().filter_map(|after| Some((after, self.behind_last(after)?))).collect()
    }
    /// A value that others wait for, as the last barrier forwards it.
    fn behind_last(&mut self, after: InstructionId) -> Option<InstructionId> {
        let barrier = *self.barriers.get(&after)?;
        let inst = self.module.instruction(after);
        let mut held = element(barrier, 1, inst.shape.clone());
        held.name = format!("{}.held", inst.name).into();
        held.attributes.extend(staying(inst));
        let held = self.patch.add(inst.parent, held);
        self.patch.set_origin(held, after);
        Some(held)
    }
    /// `value`, but only when `after` is there, which is `now` by now.
    fn tie_behind(&mut self, value: InstructionId, after: InstructionId, now: InstructionId) -> InstructionId {
        let inst = self.module.instruction(value);
        let mut tied = match self.target {
            Target::Cpu => self.select(value, after),
            Target::Gpu | Target::Tpu => self.behind_barrier((value, inst), now),
        };
        tied.name = format!("{}.tied", inst.name).into();
        tied.attributes.extend(staying(inst));
        self.pairs.push((value, after));
        let tied = self.patch.add(inst.parent, tied);
        self.patch.set_origin(tied, value);
        tied
    }
    /// The same of a value that the patch adds and that stands for another one, on a device.
    pub(crate) fn tie_new(
        &mut self,
        (new, inst): (InstructionId, &Instruction),
        original: InstructionId,
        after: InstructionId,
    ) -> InstructionId {
        let mut tied = self.behind_barrier((new, inst), after);
        tied.name = format!("{}.tied", inst.name).into();
        self.pairs.push((original, after));
        let tied = self.patch.add(inst.parent, tied);
        self.patch.set_origin(tied, original);
        tied
    }
    /// `original`, or what stands for it by now, but only when a value that the patch adds is there, on a device.
    pub(crate) fn wait(&mut self, now: InstructionId, original: InstructionId, after: InstructionId) -> InstructionId {
        let inst = self.module.instruction(original);
        let mut tied = self.behind_barrier((now, inst), after);
        tied.name = format!("{}.tied", inst.name).into();
        self.pairs.push((original, original));
        let tied = self.patch.add(inst.parent, tied);
        self.patch.set_origin(tied, original);
        tied
    }
    fn select(&mut self, value: InstructionId, after: InstructionId) -> Instruction {
        let inst = self.module.instruction(value);
        let (to, shape) = (inst.parent, inst.shape.clone());
        let element = inst.array().map_or(ElementType::Pred, |array| array.element_type);
        let never = self.never(to, after);
        let mask_shape: ShapeRef = match inst.array() {
            Some(array) => Shape::Array(array.with_element_type(ElementType::Pred)).into(),
            None => shape.clone(),
        };
        let never = self.spread(to, never, mask_shape);
        let other = self.constant(to, element, other_than(inst));
        let other = self.spread(to, other, shape.clone());
        Instruction::new("", shape, Opcode::Select, [never, other, value])
    }
    fn behind_barrier(&mut self, (value, inst): (InstructionId, &Instruction), after: InstructionId) -> Instruction {
        let both: ShapeRef =
            Shape::tuple([inst.shape.clone(), self.patch.instruction(self.module, after).shape.clone()]);
        let tuple = Instruction::new("tie_both", both.clone(), Opcode::Tuple, [value, after]);
        let tuple = self.patch.add(inst.parent, tuple);
        let barrier = self.patch.add(inst.parent, Instruction::new("tie_barrier", both, Opcode::OptBarrier, [tuple]));
        element(barrier, 0, inst.shape.clone())
    }

    /// Whether the compiler may decide anew what it makes of a product and a sum, or of a scatter and a sum: the tie would stand between
    /// them, read what only the sum read, or tell apart what XLA took for one value. The same where a reduction follows (see
    /// [`fp_contraction::reaches_reduce`]), and where a float of less than 32 bits, computed, waits in memory (see [`is_rounded`]).
    pub(crate) fn may_contract(&self, users: &Users) -> bool {
        self.pairs.iter().any(|&(value, after)| {
            let mut sums = users.get(after).iter();
            feeds_sum(self.module, users, value)
                || feeds_sum(self.module, users, after)
                || is_rounded(self.module, value)
                || self.barriers.contains_key(&after) && is_rounded(self.module, after)
                || fp_contraction::reaches_reduce(self.module, users, after)
                || sums.any(|&sum| fp_contraction::adds_scatter_into_zeros(self.module, sum))
        })
    }

    /// A predicate that is false once `after` is there.
    fn never(&mut self, to: ComputationId, after: InstructionId) -> InstructionId {
        if let Some(&known) = self.never.get(&after) {
            return known;
        }
        let number = self.number(to, after);
        let zero = self.constant(to, ElementType::S32, "0");
        let scalar = || Shape::array(ElementType::S32, []);
        let clamped = self.patch.add(to, Instruction::new("tie_zero", scalar(), Opcode::Clamp, [zero, number, zero]));
        let compare =
            Instruction::new("tie_never", Shape::array(ElementType::Pred, []), Opcode::Compare, [clamped, zero])
                .with(Attribute::word(AttrKey::Direction, "NE"));
        let never = self.patch.add(to, compare);
        self.never.insert(after, never);
        never
    }

    /// Some integer made of the first element of `after`.
    fn number(&mut self, to: ComputationId, after: InstructionId) -> InstructionId {
        let Some(array) = self.module.instruction(after).array().cloned() else { return after };
        let mut value = after;
        if !array.is_scalar() {
            let ones = Shape::array(array.element_type, array.dims.iter().map(|_| 1));
            let bounds = array.dims.iter().map(|_| SliceDim { start: 0, limit: 1, stride: 1 }).collect();
            let slice = Instruction::new("tie_element", ones, Opcode::Slice, [value])
                .with(Attribute::new(AttrKey::Slice, AttrValue::Slice(bounds)));
            value = self.patch.add(to, slice);
            let scalar = Shape::array(array.element_type, []);
            value = self.patch.add(to, Instruction::new("tie_element", scalar, Opcode::Reshape, [value]));
        }
        let mut element = array.element_type;
        // Bits, not values: no conversion of a NaN or an infinity to an integer is left to the compiler.
        if element.is_float() && element != ElementType::F32 {
            element = ElementType::F32;
            value =
                self.patch.add(to, Instruction::new("tie_float", Shape::array(element, []), Opcode::Convert, [value]));
        }
        let target = Shape::array(ElementType::S32, []);
        match element {
            ElementType::S32 => value,
            ElementType::F32 => {
                self.patch.add(to, Instruction::new("tie_bits", target, Opcode::BitcastConvert, [value]))
            }
            _ => self.patch.add(to, Instruction::new("tie_bits", target, Opcode::Convert, [value])),
        }
    }

    fn constant(&mut self, to: ComputationId, element: ElementType, text: &str) -> InstructionId {
        let inst = Instruction::new("tie_constant", Shape::array(element, []), Opcode::Constant, []);
        self.patch.add(to, inst.with_payload(Payload::Literal(text.into())))
    }
    /// A scalar in every element of a shape.
    fn spread(&mut self, to: ComputationId, scalar: InstructionId, shape: ShapeRef) -> InstructionId {
        if shape.as_array().is_some_and(hlo_ir::ArrayShape::is_scalar) {
            return scalar;
        }
        let spread = Instruction::new("tie_spread", shape, Opcode::Broadcast, [scalar]);
        self.patch.add(to, spread.with(Attribute::ints(AttrKey::Dimensions, [])))
    }
}

/// An element of what a barrier forwards.
fn element(barrier: InstructionId, index: i64, shape: ShapeRef) -> Instruction {
    Instruction::new("", shape, Opcode::GetTupleElement, [barrier]).with(Attribute::int(AttrKey::Index, index))
}

/// What a value keeps that is forwarded: its lines, and how it lies across devices.
fn staying(inst: &Instruction) -> impl Iterator<Item = Attribute> + '_ {
    let stays = [AttrKey::Metadata, AttrKey::Sharding, AttrKey::FrontendAttributes];
    inst.attributes.iter().filter(move |attribute| stays.contains(&attribute.key)).cloned()
}

/// A finding that applies these ties.
pub(crate) fn finding(
    context: &Context<'_>,
    instruction: InstructionId,
    wasted: Bytes,
    ties: Ties<'_>,
    note: String,
) -> Finding {
    let grade = if ties.may_contract(context.users) { Grade::HloExact } else { Grade::Bitwise };
    let condition = Condition {
        text: "no value is tied to something computed from it, and the tie forwards every bit".to_owned(),
        discharged_by: "structure",
    };
    let outcome = Outcome::Rewrite { patch: ties.patch, note, conditions: vec![condition] };
    Finding { instruction, grade, wasted, outcome }
}

/// Bytes of a value; a tuple counts as nothing.
pub(crate) fn bytes(module: &Module, id: InstructionId) -> Bytes {
    match module.instruction(id).array() {
        Some(_) => size::shape_size(module.shape(id)).unwrap_or_default(),
        None => Bytes::ZERO,
    }
}

/// Values that are computed from constants only.
pub(crate) fn constants(module: &Module, computation: ComputationId) -> SideTable<InstructionId, bool> {
    let mut constant = SideTable::new(false);
    for (id, inst) in module.instructions_of(computation) {
        let free = inst.parameter_number().is_none() && inst.called_computations().next().is_none();
        let pure = free && !hlo_ir::edit::has_side_effect(module, id);
        constant.set(id, pure && inst.operands.iter().all(|&operand| constant[operand]));
    }
    constant
}

/// Where each instruction stands.
pub(crate) fn positions(module: &Module, computation: ComputationId) -> SideTable<InstructionId, usize> {
    let mut position = SideTable::new(0);
    for (number, &id) in module.computation(computation).instructions.iter().enumerate() {
        position.set(id, number);
    }
    position
}
