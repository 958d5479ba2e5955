//! Whether an instruction's result may be written over one of its operands.
//!
//! Source: `AliasInfo::MayAlias` and `HloDataflowAnalysis::CanShareOperandBufferWithUser`
//! (xla/hlo/analysis/alias_info.cc, xla/hlo/analysis/hlo_dataflow_analysis.cc), without the hints of a GPU back end.

use hlo_ir::{AttrKey, Instruction, InstructionId, Module, Opcode, Shape};

use super::flow::Flow;
use super::places::Place;

impl Flow<'_> {
    /// Whether the value at `user`'s place may take over the memory of the value at `operand`'s place. The instruction of `operand`
    /// must be an operand of the instruction of `user`.
    pub(crate) fn can_share(&self, operand: Place, user: Place) -> bool {
        let operands = &self.module.instruction(self.places.owner(user)).operands;
        self.can_share_now(operand, user, operands, self.users.count(self.places.owner(operand)))
    }

    /// The same for a graph that has changed since the analysis: `operands` are those that the instruction of `user` has now, and `readers`
    /// counts the instructions that use the instruction of `operand` now.
    pub(crate) fn can_share_now(
        &self,
        operand: Place,
        user: Place,
        operands: &[InstructionId],
        readers: usize,
    ) -> bool {
        let (op_id, user_id) = (self.places.owner(operand), self.places.owner(user));
        let inst = self.module.instruction(user_id);
        if self.module.instruction(op_id).opcode == Opcode::Constant
            || !same_shape(self.places.shape(operand), self.places.shape(user))
        {
            return false;
        }
        if self.updates_in_place(operand, user) {
            return true;
        }
        match inst.opcode {
            Opcode::Fusion => operands.iter().position(|&id| id == op_id).is_some_and(|k| self.fusion_shares(k, inst)),
            Opcode::While | Opcode::Conditional => true,
            Opcode::DynamicUpdateSlice | Opcode::Scatter | Opcode::SetDimensionSize => {
                only_position(operands, op_id) == Some(0)
            }
            Opcode::TriangularSolve => only_position(operands, op_id) == Some(1),
            Opcode::Sort => readers == 1 && self.sort_shares(op_id, operands, user),
            Opcode::Call => self.call_shares(operand, inst, user_id),
            _ => {
                let k = operands.iter().position(|&id| id == op_id);
                k.is_some_and(|k| self.paths.is_elementwise(self.module, inst, k))
            }
        }
    }

    /// Whether the value at `operand` is what `user` must update in place to make its place.
    fn updates_in_place(&self, operand: Place, user: Place) -> bool {
        let value = self.values.at(operand);
        value.is_some() && self.in_place.sources(user).any(|source| self.values.at(source) == value)
    }

    /// A loop fusion may overwrite an operand that it reads elementwise on every path; an output fusion may add to it.
    fn fusion_shares(&self, k: usize, fusion: &Instruction) -> bool {
        let elementwise = || self.paths.is_elementwise(self.module, fusion, k);
        match fusion.word(&AttrKey::Kind) {
            Some("kLoop" | "kInput") => self.paths.is_elementwise_or_tuple(fusion, k),
            Some("kOutput") => accumulates(self.module, fusion, k).unwrap_or_else(elementwise),
            _ => elementwise(),
        }
    }

    fn sort_shares(&self, operand: InstructionId, operands: &[InstructionId], user: Place) -> bool {
        let index = self.places.tuple_index(user);
        operands.len() == 1
            || only_position(operands, operand).is_some_and(|k| index.first().is_some_and(|&first| first == k as i64))
    }

    /// A call shares if its only other reader is the callee's root, elementwise.
    fn call_shares(&self, operand: Place, call: &Instruction, call_id: InstructionId) -> bool {
        let Some(callee) = call.called_computations().next() else { return false };
        let root = self.module.computation(callee).root;
        let Some(value) = self.values.at(operand) else { return false };
        let uses = self.uses(value);
        let [a, b] = uses[..] else { return false };
        let (inner, outer) = if a.user == root { (a, b) } else { (b, a) };
        let root_inst = self.module.instruction(root);
        inner.user == root && outer.user == call_id && self.paths.is_elementwise(self.module, root_inst, inner.operand)
    }
}

/// The position of `operand` among the operands, if it stands there exactly once.
fn only_position(operands: &[InstructionId], operand: InstructionId) -> Option<usize> {
    let mut positions = (0..operands.len()).filter(|&k| operands[k] == operand);
    positions.next().filter(|_| positions.next().is_none())
}

/// Whether an output fusion whose root adds to a dot or convolution reads operand `k` as the other summand only.
/// `None` if the root is no addition.
fn accumulates(module: &Module, fusion: &Instruction, k: usize) -> Option<bool> {
    let body = fusion.computation(&AttrKey::Calls)?;
    let root = module.computation(body).root;
    let add = module.instruction(root);
    if add.opcode != Opcode::Add {
        return None;
    }
    let is_product = |id: &InstructionId| matches!(module.instruction(*id).opcode, Opcode::Dot | Opcode::Convolution);
    let Some(product) = add.operands.iter().position(is_product) else { return Some(false) };
    let Some(&summand) = add.operands.get(1 - product.min(1)) else { return Some(false) };
    let uses = module.instructions_of(body).flat_map(|(_, inst)| &inst.operands).filter(|&&id| id == summand).count();
    Some(module.instruction(summand).parameter_number() == Some(k as i64) && uses == 1)
}

/// Whether two shapes agree in type, dimensions and layout.
fn same_shape(a: &Shape, b: &Shape) -> bool {
    match (a, b) {
        (Shape::Array(a), Shape::Array(b)) => a.compatible(b) && same_layout(a, b),
        (Shape::Tuple(a), Shape::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_shape(a, b)),
        (Shape::Buffer(a), Shape::Buffer(b)) => same_shape(a, b),
        (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
        _ => false,
    }
}

/// A layout that is not written is the row-major one.
fn same_layout(a: &hlo_ir::ArrayShape, b: &hlo_ir::ArrayShape) -> bool {
    match (&a.layout, &b.layout) {
        (Some(a), Some(b)) => a == b,
        (Some(one), None) | (None, Some(one)) => one.is_descending() && one.suffix.is_empty(),
        (None, None) => true,
    }
}
