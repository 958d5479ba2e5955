//! Writes a loop that treats its rows independently for a block of them.

use std::collections::BTreeMap;

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode, Shape};

use super::emit::Emit;
use crate::flow::{block_shape, restrict};
use crate::loops::row_form::{Form, Node, Trace, state_element};
use crate::loops::{Role, RowLoop};

/// Adds the loop over `rows` rows to `target`; `starts` are the values it starts from.
pub(crate) fn write(
    module: &Module,
    patch: &mut Patch,
    target: ComputationId,
    row_loop: &RowLoop,
    rows: i64,
    starts: Vec<InstructionId>,
) -> Option<InstructionId> {
    let inst = module.instruction(row_loop.looping);
    let elements = inst.shape.as_tuple()?.iter().zip(row_loop.roles());
    let elements = elements.map(|(shape, role)| match role {
        Role::Cut(dim) => block_shape(shape, *dim, rows),
        Role::Whole | Role::Sum => shape.clone(),
    });
    let shape = Shape::tuple(elements.collect::<Vec<ShapeRef>>());
    let name = |of: &str| format!("{}.block_{of}", inst.name);
    let body = computation(module, patch, &row_loop.body, &name("body"), &shape, rows)?;
    let condition = computation(module, patch, &row_loop.condition, &name("condition"), &shape, rows)?;
    let mut start = Instruction::new(name("init"), shape.clone(), Opcode::Tuple, starts);
    start.attributes.extend(inst.attributes.iter().find(|a| a.key == AttrKey::Metadata).cloned());
    let start = patch.add(target, start);
    let mut looping = inst.clone();
    looping.name = format!("{}.block", inst.name).into();
    looping.shape = shape;
    looping.span = None;
    looping.operands = [start].into_iter().collect();
    looping.set_attribute(AttrKey::Body, AttrValue::Computation(body));
    looping.set_attribute(AttrKey::Condition, AttrValue::Computation(condition));
    Some(patch.add(target, looping))
}

/// Adds a computation of the loop, for a state of this shape.
fn computation(
    module: &Module,
    patch: &mut Patch,
    trace: &Trace,
    name: &str,
    state: &ShapeRef,
    rows: i64,
) -> Option<ComputationId> {
    let target = patch.add_computation(name);
    let parameter = Instruction::new(format!("{name}.state"), state.clone(), Opcode::Parameter, []);
    let parameter = patch.add(target, parameter.with_payload(Payload::Parameter(0)));
    let mut step = Step { module, patch, target, trace, parameter, rows, emitted: BTreeMap::new() };
    for &node in trace.nodes.keys() {
        step.emit(node)?;
    }
    let roots: Option<Vec<InstructionId>> = trace.roots.iter().map(|&root| step.emit(root)).collect();
    let (roots, root) = (roots?, module.computation(trace.computation).root);
    if let (Some(_), &[only]) = (module.instruction(root).array(), roots.as_slice()) {
        patch.set_root(target, only);
    } else {
        let tuple = Instruction::new("next_state", state.clone(), Opcode::Tuple, roots);
        let tuple = patch.add(target, tuple);
        patch.set_root(target, tuple);
    }
    Some(target)
}

struct Step<'a> {
    module: &'a Module,
    patch: &'a mut Patch,
    target: ComputationId,
    trace: &'a Trace,
    parameter: InstructionId,
    rows: i64,
    emitted: BTreeMap<Node, InstructionId>,
}

impl Emit for Step<'_> {
    type Key = Node;

    fn emitted(&mut self) -> &mut BTreeMap<Node, InstructionId> {
        &mut self.emitted
    }

    fn needs(&self, node: Node) -> Option<Vec<Node>> {
        self.trace.nodes.get(&node).cloned()
    }

    fn emit_one(&mut self, (value, form): Node, operands: &[InstructionId]) -> Option<InstructionId> {
        let inst = self.module.instruction(value.inst);
        if let Form::Loop(element, dim) = form {
            let inner = self.trace.loops.get(&(value.inst, element, dim))?.clone();
            let written = write(self.module, self.patch, self.target, &inner, self.rows, operands.to_vec())?;
            self.patch.set_origin(written, value.inst);
            return Some(written);
        }
        let written = if state_element(self.module, value).is_some() {
            element_of(inst, form, self.rows, self.parameter)
        } else if inst.opcode == Opcode::GetTupleElement {
            element_of(inst, form, self.rows, *operands.first()?)
        } else {
            match form {
                Form::Total if inst.opcode == Opcode::DynamicUpdateSlice => self.added_row(inst, operands)?,
                Form::Whole | Form::Sum | Form::Total | Form::Loop(..) => {
                    Instruction { operands: operands.iter().copied().collect(), span: None, ..inst.clone() }
                }
                Form::Block(dim, block) => restrict(inst, dim, block.len(self.rows), operands.to_vec()),
            }
        };
        let id = self.patch.add(self.target, written);
        self.patch.set_origin(id, value.inst);
        Some(id)
    }
}

impl Step<'_> {
    /// A row written back after the sum of a block was added to it, where the original writes the sum of all rows once.
    fn added_row(&mut self, inst: &Instruction, operands: &[InstructionId]) -> Option<Instruction> {
        let [all, added, starts @ ..] = operands else { return None };
        let update = self.module.instruction(*inst.operands.get(1)?);
        let array = update.array()?;
        let like = |name: &str, opcode, operands: Vec<InstructionId>| {
            let mut like = Instruction::new(format!("{}.{name}", inst.name), update.shape.clone(), opcode, operands);
            like.attributes.extend(inst.attributes.iter().find(|a| a.key == AttrKey::Metadata).cloned());
            like
        };
        let read = like("so_far", Opcode::DynamicSlice, [all].into_iter().chain(starts).copied().collect());
        let sizes = array.dims.iter().copied();
        let read = self.patch.add(self.target, read.with(Attribute::ints(AttrKey::DynamicSliceSizes, sizes)));
        let sum = self.patch.add(self.target, like("sum", Opcode::Add, vec![read, *added]));
        let operands = [*all, sum].into_iter().chain(starts.iter().copied()).collect();
        Some(Instruction { operands, span: None, ..inst.clone() })
    }
}

/// A `get-tuple-element` like `inst`, of `tuple`, in the given form.
fn element_of(inst: &Instruction, form: Form, rows: i64, tuple: InstructionId) -> Instruction {
    let mut element = inst.clone();
    if let Form::Block(dim, block) = form {
        element.shape = block_shape(&inst.shape, dim, block.len(rows));
    }
    element.operands = [tuple].into_iter().collect();
    element.span = None;
    element
}

/// A `get-tuple-element` like `inst`, of an instruction that makes blocks of several results.
pub(crate) fn element(inst: &Instruction, dim: usize, rows: i64, looping: InstructionId, index: i64) -> Instruction {
    let mut element = inst.clone();
    element.name = format!("{}.block", inst.name).into();
    element.shape = block_shape(&inst.shape, dim, rows);
    element.operands = [looping].into_iter().collect();
    element.span = None;
    element.set_attribute(AttrKey::Index, AttrValue::Int(index));
    element
}
