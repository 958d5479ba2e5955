//! Sums over the rows inside a loop: what an iteration adds to an element of its state is linear in sums over the rows, so blocks of rows may add their parts one
//! after the other.
//!
//! ```text
//! total = f32[64,64] add(so_far, dot(x, g)), contracting rows              each block adds the product of its rows
//! rows  = f32[12,64,64] dynamic-update-slice(zeros, dot(x, g), t, 0, 0)    each block adds it to row t
//! ```

// Tests: `passes/tests/chunk_loops.rs`.

use hlo_ir::{AttrKey, InstructionId, Module, Opcode};

use super::row_form::{Form, Node, Role, is_movable, state_element};
use crate::flow::{Rows, Value, contracted, is_product, is_real, sums_from_zero};

/// What a tracer of a loop's body answers about values that sums are made from.
pub(super) trait Tracing {
    /// What an operand of a value stands for.
    fn operand(&mut self, module: &Module, value: Value, number: usize) -> Option<Value>;
    /// Whether a value can be made in a form from what these roles allow.
    fn makes(&mut self, module: &Module, node: Node, roles: &[Role]) -> bool;
    /// Whether a value can be made in a form if elements of the state are cut that are not so far.
    fn could_make(&mut self, module: &Module, node: Node, roles: &[Role]) -> bool;
    /// Whether an element of the state is added to what makes a value.
    fn is_total(&mut self, module: &Module, value: Value) -> bool;
    /// Whether each iteration writes another row of an element, over zeros.
    fn is_stack(&self, element: usize) -> bool;
    /// The loop inside whose sum over the rows a value is, and whether it sums from zeros.
    fn sum_of_loop(&mut self, module: &Module, value: Value, roles: &[Role]) -> Option<(Node, bool)>;
}

/// What an element of the state that sums over the rows are added to is made from: its value so far, and sums. `None` if more happens to it.
pub(super) fn total(tracer: &mut impl Tracing, module: &Module, value: Value, roles: &[Role]) -> Option<Vec<Node>> {
    if state_element(module, value).is_some() {
        return Some(Vec::new());
    }
    let (opcode, operands) = operands(tracer, module, value)?;
    match (opcode, operands.as_slice()) {
        (Opcode::GetTupleElement, _) => {
            let (inside, from_zeros) = tracer.sum_of_loop(module, value, roles)?;
            (!from_zeros).then(|| vec![inside])
        }
        (Opcode::Add, &[left, right]) => {
            let [so_far, added] = if tracer.is_total(module, left) { [left, right] } else { [right, left] };
            let form = |value| (value, if value == so_far { Form::Total } else { Form::Sum });
            (so_far != added).then(|| vec![form(left), form(right)])
        }
        (Opcode::DynamicUpdateSlice, [so_far, row, starts @ ..]) => {
            let element = state_element(module, *so_far)?;
            let starts = starts.iter().map(|&start| (start, Form::Whole));
            let parts = || [(*so_far, Form::Total), (*row, Form::Sum)].into_iter().chain(starts).collect();
            tracer.is_stack(element).then(parts)
        }
        _ => None,
    }
}

/// What a sum over the rows is made from; `None` if it is none.
pub(super) fn parts(tracer: &mut impl Tracing, module: &Module, value: Value, roles: &[Role]) -> Option<Vec<Node>> {
    if state_element(module, value).is_some() {
        return None;
    }
    let inst = module.instruction(value.inst);
    let (opcode, operands) = operands(tracer, module, value)?;
    match (opcode, operands.as_slice()) {
        (Opcode::GetTupleElement, _) => {
            let (inside, from_zeros) = tracer.sum_of_loop(module, value, roles)?;
            from_zeros.then(|| vec![inside])
        }
        (opcode, &[left, right]) if is_product(opcode) => product(tracer, module, value.inst, [left, right], roles),
        (Opcode::Reduce, &[summed, start]) if sums_from_zero(module, value.inst) => {
            let dims = inst.ints(&AttrKey::Dimensions).iter().map(|&dim| dim as usize);
            let rows = dims.map(|dim| (summed, Form::Block(dim, Rows::IDENTITY)));
            let rows = rows.collect::<Vec<_>>().into_iter().find(|&rows| tracer.could_make(module, rows, roles));
            Some(vec![rows.unwrap_or((summed, Form::Sum)), (start, Form::Whole)])
        }
        (Opcode::Add | Opcode::Subtract, &[left, right]) => Some(vec![(left, Form::Sum), (right, Form::Sum)]),
        (Opcode::Multiply, &[left, right]) if tracer.makes(module, (left, Form::Whole), roles) => {
            Some(vec![(left, Form::Whole), (right, Form::Sum)])
        }
        // A quotient of integers drops the rest of each part.
        (Opcode::Multiply | Opcode::Divide, &[left, right])
            if (opcode == Opcode::Multiply || is_real(module, value.inst))
                && tracer.makes(module, (right, Form::Whole), roles) =>
        {
            Some(vec![(left, Form::Sum), (right, Form::Whole)])
        }
        (opcode, &[only]) => is_linear(module, opcode, value.inst).then(|| vec![(only, Form::Sum)]),
        _ => None,
    }
}

/// The opcode of a value that may be written again, and what its operands stand for.
fn operands(tracer: &mut impl Tracing, module: &Module, value: Value) -> Option<(Opcode, Vec<Value>)> {
    let inst = module.instruction(value.inst);
    let operands = (0..inst.operands.len()).filter_map(|at| tracer.operand(module, value, at)).collect();
    is_movable(module, value).then_some((inst.opcode, operands))
}

/// The sides of a product that sums up over rows which both of them have.
fn product(
    tracer: &mut impl Tracing,
    module: &Module,
    product: InstructionId,
    [left, right]: [Value; 2],
    roles: &[Role],
) -> Option<Vec<Node>> {
    let pairs = contracted(module.instruction(product))?;
    let rows = |value: Value, dim: usize| (value, Form::Block(dim, Rows::IDENTITY));
    let mut pairs = pairs.into_iter().map(|(lhs, rhs)| [rows(left, lhs), rows(right, rhs)]);
    pairs.find(|sides| sides.iter().all(|&side| tracer.could_make(module, side, roles))).map(Vec::from)
}

/// Whether an instruction of a sum is the sum of the same of its parts, rounding aside. One that rounds to fewer bits rounds each part, as micro-batches by hand do.
fn is_linear(module: &Module, opcode: Opcode, inst: InstructionId) -> bool {
    let element = |id: InstructionId| module.instruction(id).array().map(|array| array.element_type);
    match opcode {
        Opcode::Reshape | Opcode::Transpose | Opcode::Copy | Opcode::Negate | Opcode::Broadcast | Opcode::Slice => true,
        Opcode::Convert => {
            let types = element(module.instruction(inst).operands[0]).zip(element(inst));
            types.is_some_and(|(from, to)| from.is_float() && to.is_float())
        }
        _ => false,
    }
}
