//! The body of the loop: one copy, with constants and slice positions that depend on the step.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::arena::SideTable;
use hlo_ir::edit::Patch;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{
    AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
};

use super::chains::Accumulation;
use super::lockstep::{Copies, Role, starts};
use super::places::Places;
use super::sequence::{Sequence, constant, table};
use super::state::State;
use super::{Rolled, bytes};

/// Writes the body.
pub(super) struct Body<'a> {
    module: &'a Module,
    rolled: &'a Rolled,
    patch: &'a mut Patch,
    state: &'a State,
    places: &'a Places,
    to: ComputationId,
    metadata: Option<&'a Attribute>,
    /// Parts of the state at the start of the step.
    parts: Vec<InstructionId>,
    /// What stands for each column.
    columns: Vec<Option<InstructionId>>,
    /// Values from outside that are computed again inside.
    cloned: IndexMap<InstructionId, InstructionId>,
    sequences: IndexMap<(Sequence, ElementType), InstructionId>,
}

impl<'a> Body<'a> {
    pub(super) fn new(
        module: &'a Module,
        rolled: &'a Rolled,
        patch: &'a mut Patch,
        state: &'a State,
        places: &'a Places,
        to: ComputationId,
        metadata: Option<&'a Attribute>,
    ) -> Self {
        let columns = vec![None; rolled.copies.columns.len()];
        let (parts, cloned, sequences) = (Vec::new(), IndexMap::default(), IndexMap::default());
        Self { module, rolled, patch, state, places, to, metadata, parts, columns, cloned, sequences }
    }

    fn add(&mut self, mut inst: Instruction) -> InstructionId {
        inst.attributes.extend(self.metadata.cloned());
        self.patch.add(self.to, inst)
    }

    /// Emits everything; the next state is the root.
    pub(super) fn build(&mut self) {
        let state = self.state.parameter(self.patch, self.to, self.metadata);
        let count = self.state.parts.len();
        self.parts = (0..count).map(|index| self.state.get(self.patch, self.to, state, index, self.metadata)).collect();
        for number in self.in_order() {
            let inst = self.copy(number);
            self.columns[number] = Some(inst);
        }
        let next = self.next();
        let root = Instruction::new("next_state", self.state.shape(), Opcode::Tuple, next);
        self.add(root);
    }

    /// Computed columns, operands first.
    fn in_order(&self) -> Vec<usize> {
        let copies = &self.rolled.copies;
        let first = copies.columns[0].ids[0];
        let position = super::seeds::positions(self.module, self.module.instruction(first).parent);
        let mut order: Vec<usize> = copies.computed().map(|(number, _)| number).collect();
        order.sort_by_key(|&number| position[copies.columns[number].ids[0]]);
        order
    }

    /// What the step reads in a column.
    fn value(&mut self, number: usize) -> InstructionId {
        if let Some(known) = self.columns[number] {
            return known;
        }
        let column = &self.rolled.copies.columns[number];
        let value = match column.role {
            Role::Shared => self.shared(column.ids[0]),
            Role::Carried(_) => self.parts[self.places.carried[&number]],
            Role::Constants => {
                let sequence = Sequence::of_constants(self.module, &column.ids);
                let element = self.module.instruction(column.ids[0]).array().map(|array| array.element_type);
                self.sequence(&sequence, element.expect("constants of a column are arrays"))
            }
            Role::Computed(_) | Role::Open => unreachable!("operands are emitted before their users"),
        };
        self.columns[number] = Some(value);
        value
    }

    /// The instruction of a copy, for any step.
    fn copy(&mut self, number: usize) -> InstructionId {
        let column = &self.rolled.copies.columns[number];
        let Role::Computed(operands) = &column.role else { unreachable!("only computed columns are copied") };
        let operands: Vec<InstructionId> = operands.iter().map(|&operand| self.value(operand)).collect();
        let old = self.module.instruction(column.ids[0]);
        let all: Option<Vec<Vec<i64>>> = column.ids.iter().map(|&id| starts(self.module, id)).collect();
        let moving = all.filter(|all| old.opcode == Opcode::Slice && all.iter().any(|starts| *starts != all[0]));
        let mut new = Instruction { operands: operands.iter().copied().collect(), span: None, ..old.clone() };
        if let Some(all) = moving {
            for dim in 0..all[0].len() {
                let starts: Vec<i64> = all.iter().map(|starts| starts[dim]).collect();
                let start = self.sequence(&Sequence::of(&starts), index_type(&all));
                new.operands.push(start);
            }
            new.opcode = Opcode::DynamicSlice;
            let sizes = old.array().map(|array| array.dims.clone()).unwrap_or_default();
            new.attributes.retain(|attribute| attribute.key != AttrKey::Slice);
            new.attributes.insert(0, Attribute::new(AttrKey::DynamicSliceSizes, AttrValue::ints(sizes)));
        }
        let id = self.patch.add(self.to, new);
        self.patch.set_origin(id, column.ids[0]);
        id
    }

    /// A value from outside: computed again if that is smaller than carrying it.
    fn shared(&mut self, id: InstructionId) -> InstructionId {
        if let Some(&place) = self.places.shared.get(&id) {
            return self.parts[place];
        }
        if let Some(&known) = self.cloned.get(&id) {
            return known;
        }
        let old = self.module.instruction(id);
        let operands: Vec<InstructionId> = old.operands.iter().map(|&operand| self.shared(operand)).collect();
        let new = Instruction { operands: operands.into_iter().collect(), span: None, ..old.clone() };
        let new = self.patch.add(self.to, new);
        self.cloned.insert(id, new);
        new
    }

    /// A scalar that depends on the step.
    fn sequence(&mut self, sequence: &Sequence, element: ElementType) -> InstructionId {
        let key = (sequence.clone(), element);
        if let Some(&known) = self.sequences.get(&key) {
            return known;
        }
        let value = match sequence {
            Sequence::Always(value) => self.number(element, *value),
            Sequence::Affine { base, step } => self.affine(element, *base, *step),
            Sequence::Table(values) => {
                let table = self.patch.add(self.to, table(element, values));
                let row = Instruction::new(
                    "step_row",
                    Shape::array(element, [1]),
                    Opcode::DynamicSlice,
                    [table, self.parts[0]],
                )
                .with(Attribute::ints(AttrKey::DynamicSliceSizes, [1]));
                let row = self.add(row);
                self.add(Instruction::new("step_value", Shape::array(element, []), Opcode::Reshape, [row]))
            }
        };
        self.sequences.insert(key, value);
        value
    }
    fn number(&mut self, element: ElementType, value: i64) -> InstructionId {
        self.patch.add(self.to, constant(Shape::array(element, []), &value.to_string()))
    }
    /// `base + step * k`, wrapping like the type.
    fn affine(&mut self, element: ElementType, base: i64, step: i64) -> InstructionId {
        let scalar = || Shape::array(element, []);
        let mut value = self.parts[0];
        if element != ElementType::S32 {
            value = self.add(Instruction::new("step_number", scalar(), Opcode::Convert, [value]));
        }
        if step != 1 {
            let step = self.number(element, step);
            value = self.add(Instruction::new("step_offset", scalar(), Opcode::Multiply, [value, step]));
        }
        if base != 0 {
            let base = self.number(element, base);
            value = self.add(Instruction::new("step_start", scalar(), Opcode::Add, [value, base]));
        }
        value
    }

    /// The parts of the state at the end of the step.
    fn next(&mut self) -> Vec<InstructionId> {
        let (rolled, places) = (self.rolled, self.places);
        let mut next = self.parts.clone();
        let one = self.number(ElementType::S32, 1);
        next[0] = self.add(Instruction::new(
            "next_step",
            Shape::array(ElementType::S32, []),
            Opcode::Add,
            [self.parts[0], one],
        ));
        for (&number, &place) in &places.carried {
            let Role::Carried(from) = rolled.copies.columns[number].role else { continue };
            next[place] = self.value(from);
        }
        for ((columns, accumulation), &place) in rolled.live_outs.accumulations.iter().zip(&places.accumulated) {
            next[place] = self.join(columns, accumulation, self.parts[place]);
        }
        for (stack, &place) in rolled.live_outs.stacks.iter().zip(&places.stacked) {
            let value = self.value(stack.column);
            let old = self.module.instruction(stack.result);
            let dim = old.ints(&AttrKey::Dimensions).first().copied().unwrap_or(0) as usize;
            next[place] = self.store(self.parts[place], value, dim, stack.reversed);
        }
        for (each, &place) in rolled.live_outs.each.iter().zip(&places.each) {
            let value = self.value(each.column);
            let row = self.row(value);
            next[place] = self.store(self.parts[place], row, 0, false);
        }
        for (&column, &place) in rolled.live_outs.last_copies.iter().zip(&places.last_copies) {
            next[place] = self.value(column);
        }
        next
    }

    /// Joins the values of a step to what was joined so far.
    fn join(&mut self, columns: &[usize], accumulation: &Accumulation, so_far: InstructionId) -> InstructionId {
        let last = accumulation.links.len() - columns.len();
        columns.iter().zip(&accumulation.links[last..]).fold(so_far, |so_far, (&column, &link)| {
            let value = self.value(column);
            let link = self.module.instruction(link);
            let operands = if accumulation.place == 0 { [so_far, value] } else { [value, so_far] };
            self.patch
                .add(self.to, Instruction { operands: operands.into_iter().collect(), span: None, ..link.clone() })
        })
    }

    /// A value with a first dimension of 1.
    fn row(&mut self, value: InstructionId) -> InstructionId {
        let inst = self.patch.instruction(self.module, value);
        let Some(array) = inst.array() else { return value };
        let shape = Shape::array(array.element_type, [1].into_iter().chain(array.dims.iter().copied()));
        self.add(Instruction::new("step_row", shape, Opcode::Reshape, [value]))
    }

    /// Writes a step's piece at its place of a stack.
    fn store(&mut self, stack: InstructionId, piece: InstructionId, dim: usize, reversed: bool) -> InstructionId {
        let shape: ShapeRef = self.patch.instruction(self.module, stack).shape.clone();
        let dims =
            self.patch.instruction(self.module, piece).array().map(|array| array.dims.clone()).unwrap_or_default();
        let (len, last) = (dims[dim], self.rolled.copies.len as i64 - 1);
        let (base, step) = if reversed { (len * last, -len) } else { (0, len) };
        let fits = i32::try_from(len * (last + 1)).is_ok();
        let element = if fits { ElementType::S32 } else { ElementType::S64 };
        let moving = self.sequence(&Sequence::Affine { base, step }, element);
        let fixed = self.sequence(&Sequence::Always(0), element);
        let starts = (0..dims.len()).map(|other| if other == dim { moving } else { fixed });
        let operands: Vec<InstructionId> = [stack, piece].into_iter().chain(starts).collect();
        self.add(Instruction::new("step_stack", shape, Opcode::DynamicUpdateSlice, operands))
    }
}

/// Values from outside that the loop carries: what every copy reads, unless it is computed from constants or is a broadcast, which the
/// body computes again.
pub(super) fn carried_inputs(module: &Module, copies: &Copies) -> Vec<InstructionId> {
    let mut carried = IndexSet::default();
    let mut constant: SideTable<InstructionId, bool> = SideTable::new(false);
    let shared = copies.columns.iter().filter(|column| matches!(column.role, Role::Shared)).map(|column| column.ids[0]);
    for id in shared {
        collect(module, id, &mut carried, &mut constant);
    }
    carried.into_iter().collect()
}

fn collect(
    module: &Module,
    id: InstructionId,
    carried: &mut IndexSet<InstructionId>,
    known: &mut SideTable<InstructionId, bool>,
) {
    if std::mem::replace(&mut known[id], true) {
        return;
    }
    let inst = module.instruction(id);
    let grows = inst.operands.iter().all(|&operand| bytes(module, operand) < bytes(module, id));
    let again = match inst.opcode {
        Opcode::Constant | Opcode::Iota => true,
        Opcode::Broadcast => grows,
        _ => false,
    };
    if again && inst.control_predecessors().is_empty() {
        inst.operands.iter().for_each(|&operand| collect(module, operand, carried, known));
    } else {
        carried.insert(id);
    }
}

/// A type that holds all start positions: all operands of a `dynamic-slice` have one type.
fn index_type(starts: &[Vec<i64>]) -> ElementType {
    let fits = starts.iter().flatten().all(|&start| i32::try_from(start).is_ok());
    if fits { ElementType::S32 } else { ElementType::S64 }
}
