//! How equal the results stay: what XLA may make of floats that are computed in the loop, where it sees them together with their readers.
//!
//! Measured with XLA:CPU: a sum of spread-out numbers becomes a product, a quotient by them a product with a reciprocal, a sum of joined arrays
//! two sums, and a large reduction goes to a library together with what is computed before it, whose maximum drops NaN.

use std::collections::BTreeMap;

use crate::hash::IndexSet;
use hlo_ir::graph::Users;
use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, InstructionId, Module, Opcode};

use super::cone::{Cone, Form, Node};
use crate::Grade;
use crate::flow::{exactness, exactness_on_blocks, is_fusible, is_real};
use crate::loops::row_slices::RowSlice;

/// The grade of computing these `cones` of `value` where rows are `taken`.
pub(super) fn grade(
    module: &Module,
    users: &Users,
    value: InstructionId,
    (cones, taken): (&BTreeMap<usize, Cone>, &[RowSlice]),
) -> Grade {
    let reduced = taken.iter().any(|taken| reaches_order(module, users, taken.slice));
    let changes = taken.iter().any(|taken| {
        let cone = &cones[&taken.dim];
        let floats = floats(module, cone, value, taken.dim);
        cone.anew().any(|(id, _)| joins(module, id) || rounds_by_shape(module, id))
            || floats.into_iter().any(|(id, form)| {
                let moves = only_moves(module, id, form, taken.rows);
                !moves && (reduced || is_seen_through(module, id))
            })
    });
    if changes { Grade::HloExact } else { Grade::Bitwise }
}

/// What is computed anew of a value as floats: not behind a comparison, whose result is the same however it is made.
fn floats(module: &Module, cone: &Cone, value: InstructionId, dim: usize) -> IndexSet<(InstructionId, Form)> {
    let mut found = IndexSet::default();
    let mut work = vec![(value, Form::Part(dim, crate::flow::Rows::IDENTITY))];
    while let Some((id, form)) = work.pop() {
        let exact = !is_real(module, id);
        let node = cone.nodes.get(&(id, form)).filter(|node| !exact && **node != Node::Leaf);
        if let Some(node) = node
            && found.insert((id, form))
            && let Node::Operation(forms) = node
        {
            work.extend(module.instruction(id).operands.iter().copied().zip(forms.iter().copied()));
        }
    }
    found
}

/// Whether a compiler may join an operation on floats with another one behind it: a product with a sum, which then rounds once, or a
/// conversion with a product of matrices, which may then add in another order.
fn joins(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let rounds = matches!(
        inst.opcode,
        Opcode::Add | Opcode::Subtract | Opcode::Multiply | Opcode::Divide | Opcode::Power | Opcode::Convert
    );
    is_real(module, id) && rounds
}

/// Whether last bits of a result depend on how much of it a kernel computes.
fn rounds_by_shape(module: &Module, id: InstructionId) -> bool {
    exactness_on_blocks(module, module.instruction(id)) > Grade::Bitwise
}

/// Whether XLA looks through an operation for something that rounds otherwise, where it sees its readers.
fn is_seen_through(module: &Module, id: InstructionId) -> bool {
    use Opcode as O;
    let opcode = module.instruction(id).opcode;
    matches!(opcode, O::Broadcast | O::Concatenate | O::Constant | O::Iota | O::Pad | O::Reshape | O::Transpose)
}

/// Whether rows of the result are rows of the operand, element after element; dimensions of one element, such as a single row, may be anywhere.
fn only_moves(module: &Module, id: InstructionId, form: Form, rows: i64) -> bool {
    let inst = module.instruction(id);
    let (Some(to), Some(from)) =
        (inst.array(), inst.operands.first().and_then(|&from| module.instruction(from).array()))
    else {
        return false;
    };
    let one =
        |dim: usize| to.dims[dim] == 1 || matches!(form, Form::Part(cut, part) if cut == dim && part.len(rows) == 1);
    match inst.opcode {
        Opcode::Copy | Opcode::Slice => true,
        Opcode::Reshape => long(&from.dims) == long(&to.dims),
        Opcode::Transpose => {
            let order = inst.ints(&AttrKey::Dimensions).iter().enumerate();
            order.filter(|(dim, _)| !one(*dim)).map(|(_, from)| from).is_sorted()
        }
        _ => false,
    }
}

/// The dimensions of more than one element.
fn long(dims: &[i64]) -> Dims {
    dims.iter().copied().filter(|&dim| dim != 1).collect()
}

/// Whether a float operation whose result depends on the order in which it is computed reads what is computed on the fly from `id`.
fn reaches_order(module: &Module, users: &Users, id: InstructionId) -> bool {
    let mut seen = IndexSet::from_iter([id]);
    let mut next = 0;
    while let Some(&id) = seen.get_index(next) {
        next += 1;
        for &user in users.get(id) {
            let inst = module.instruction(user);
            let hides = matches!(inst.opcode, Opcode::Call | Opcode::Conditional | Opcode::CustomCall | Opcode::Fusion);
            if hides || exactness(module, inst) > Grade::Bitwise {
                return true;
            }
            if is_fusible(inst.opcode) {
                seen.insert(user);
            }
        }
    }
    false
}
