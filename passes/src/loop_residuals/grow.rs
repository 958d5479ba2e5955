//! Stacks that a loop does not have yet: elements of its state, and the values in them handed out of the calls in its body.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode, Shape, graph};

use crate::flow::{Frames, Value};
use crate::loops::{Stack, Stacks, is_free, is_sharded, state};

/// What the body of a loop can stack.
#[derive(Default)]
pub(super) struct Stackable {
    /// Instructions of the body itself that stand for a value.
    known: IndexMap<Value, InstructionId>,
    /// Computations whose one call can be given more results.
    open: IndexSet<ComputationId>,
}

impl Stackable {
    /// Of a loop whose state can be made larger; none of others.
    pub(super) fn of(module: &Module, stacks: &mut Stacks) -> Self {
        if !is_free(module, stacks.site) {
            return Self::default();
        }
        let mut known = IndexMap::default();
        let body = module.instruction(stacks.body.parameter).parent;
        for (id, _) in module.instructions_of(body).filter(|(_, inst)| inst.array().is_some()) {
            let value = stacks.body.top(module, id);
            known.entry(value).or_insert(id);
        }
        let callers = graph::callers(module);
        let is_open = |id: &ComputationId| {
            let root = module.instruction(module.computation(*id).root);
            callers[*id].len() == 1 && root.opcode == Opcode::Tuple && !is_sharded(root)
        };
        Self { known, open: module.computation_ids().iter().copied().filter(is_open).collect() }
    }

    /// Whether a value can be stacked.
    pub(super) fn reach(&self, module: &Module, frames: &Frames, value: Value) -> bool {
        let target = |call: InstructionId| module.instruction(call).computation(&AttrKey::ToApply);
        let open = |call: InstructionId| target(call).is_some_and(|target| self.open.contains(&target));
        self.known.contains_key(&value) || (!self.known.is_empty() && frames.calls_of(value.frame).all(open))
    }
}

/// Adds the new stacks to the loop; returns the instruction behind it that holds each.
pub(super) fn patch(
    module: &Module,
    patch: &mut Patch,
    stacks: &Stacks,
    stackable: &Stackable,
) -> Option<Vec<InstructionId>> {
    let new = &stacks.list[stacks.known..];
    if new.is_empty() {
        return Some(Vec::new());
    }
    let rows = handed_out(module, patch, stacks, stackable, new)?;
    let mut grower = Grower { module, patch, stacks, stackable };
    let written = new.iter().zip(rows).map(|(stack, row)| grower.write(stack, row)).collect::<Option<Vec<_>>>()?;
    let empty: Vec<InstructionId> = new.iter().map(|stack| grower.empty(stack)).collect();
    grower.widen(&empty, &written)?;
    new.iter().map(|stack| grower.taken(stacks.site, stack)).collect()
}

/// The instruction of the body that holds each row: what a call hands out already, or one more of its results.
fn handed_out(
    module: &Module,
    patch: &mut Patch,
    stacks: &Stacks,
    stackable: &Stackable,
    new: &[Stack],
) -> Option<Vec<InstructionId>> {
    let mut more: IndexMap<InstructionId, Vec<(InstructionId, ShapeRef)>> = IndexMap::default();
    let mut rows = Vec::new();
    for stack in new {
        if let Some(&known) = stackable.known.get(&stack.row) {
            rows.push(known);
            continue;
        }
        let shape = module.instruction(stack.row.inst).shape.clone();
        let mut at = stack.row.inst;
        for call in stacks.body.frames.calls_of(stack.row.frame) {
            let inst = module.instruction(call);
            let root = module.computation(inst.computation(&AttrKey::ToApply)?).root;
            let added = more.entry(call).or_default();
            let index = module.instruction(root).operands.len() + added.len();
            added.push((at, shape.clone()));
            let taken = Instruction::new("residual.handed", shape.clone(), Opcode::GetTupleElement, [call]);
            at = patch.add(inst.parent, taken.with(Attribute::int(AttrKey::Index, i64::try_from(index).ok()?)));
        }
        rows.push(at);
    }
    for (call, added) in more {
        let root = module.computation(module.instruction(call).computation(&AttrKey::ToApply)?).root;
        for id in [call, root] {
            let mut inst = longer(module, id, added.iter().map(|(_, shape)| shape.clone()))?;
            if id == root {
                inst.operands.extend(added.iter().map(|&(value, _)| value));
            }
            patch.rewrite(id, inst);
        }
    }
    Some(rows)
}

/// An instruction with more elements in its shape.
pub(super) fn longer(
    module: &Module,
    id: InstructionId,
    shapes: impl IntoIterator<Item = ShapeRef>,
) -> Option<Instruction> {
    let inst = module.instruction(id);
    let elements = inst.shape.as_tuple()?.iter().cloned().chain(shapes);
    Some(Instruction { shape: Shape::tuple(elements), ..inst.clone() })
}

struct Grower<'a> {
    module: &'a Module,
    patch: &'a mut Patch,
    stacks: &'a Stacks,
    stackable: &'a Stackable,
}

impl Grower<'_> {
    /// The new stack behind one step: its row is written where those of the others are.
    fn write(&mut self, stack: &Stack, row: InstructionId) -> Option<InstructionId> {
        let Self { module, stacks, .. } = *self;
        let parameter = stacks.body.parameter;
        let body = module.instruction(parameter).parent;
        let before = self.taken(parameter, stack)?;
        let flat = stack.array.with_dim(0, 1);
        let row = Instruction::new("residual.row", Shape::Array(flat).into(), Opcode::Reshape, [row]);
        let row = self.patch.add(body, row);
        let number = *self.stackable.known.get(&stack.number)?;
        let element = module.instruction(number).array()?.element_type;
        let zero = Instruction::new("residual.zero", Shape::array(element, []), Opcode::Constant, [])
            .with_payload(Payload::Literal("0".into()));
        let zero = self.patch.add(body, zero);
        let starts = (0..stack.array.rank()).map(|dim| if dim == 0 { number } else { zero });
        let operands: Vec<InstructionId> = [before, row].into_iter().chain(starts).collect();
        let shape = Shape::Array(stack.array.clone()).into();
        let written = Instruction::new("residual.stacked", shape, Opcode::DynamicUpdateSlice, operands);
        let written = self.patch.add(body, written);
        self.patch.set_origin(written, stack.row.inst);
        Some(written)
    }

    /// What the loop begins with.
    fn empty(&mut self, stack: &Stack) -> InstructionId {
        let parent = self.module.instruction(self.stacks.site).parent;
        let element = stack.array.element_type;
        let zero = Instruction::new("residual.nothing", Shape::array(element, []), Opcode::Constant, [])
            .with_payload(Payload::Literal(element.zero().into()));
        let zero = self.patch.add(parent, zero);
        let shape = Shape::Array(stack.array.clone()).into();
        let empty = Instruction::new("residual.empty", shape, Opcode::Broadcast, [zero]);
        self.patch.add(parent, empty.with(Attribute::ints(AttrKey::Dimensions, [])))
    }

    /// Makes the state longer, everywhere it stands.
    fn widen(&mut self, empty: &[InstructionId], written: &[InstructionId]) -> Option<()> {
        let Self { module, stacks, .. } = *self;
        let site = module.instruction(stacks.site);
        let root = module.computation(site.computation(&AttrKey::Body)?).root;
        for id in [stacks.site, site.operands[0]].into_iter().chain(state(module, stacks.site)) {
            let shapes = stacks.list[stacks.known..].iter().map(|stack| Shape::Array(stack.array.clone()).into());
            let mut inst = longer(module, id, shapes)?;
            if id == site.operands[0] {
                inst.operands.extend(empty.iter().copied());
            } else if id == root {
                inst.operands.extend(written.iter().copied());
            }
            self.patch.rewrite(id, inst);
        }
        Some(())
    }

    /// The stack as an element of `tuple`.
    fn taken(&mut self, tuple: InstructionId, stack: &Stack) -> Option<InstructionId> {
        let index = Attribute::int(AttrKey::Index, i64::try_from(stack.element).ok()?);
        let shape = Shape::Array(stack.array.clone()).into();
        let taken = Instruction::new("residual.stack", shape, Opcode::GetTupleElement, [tuple]).with(index);
        Some(self.patch.add(self.module.instruction(tuple).parent, taken))
    }
}
