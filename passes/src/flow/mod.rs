//! Dimension flow: which rows of its operands an instruction needs to compute a block of its result.
//!
//! [`pull`] is the one question: given an instruction and a dimension of its result, it answers for every operand whether a block of one
//! of its dimensions suffices (and which rows of it, [`Step`]) or the whole value is needed, or it says why the result cannot be computed
//! block by block ([`Barrier`]). Elementwise opcodes share the rule `elementwise`; every other opcode that has a rule has one row in
//! [`RULES`]; an opcode without a rule is a barrier. [`restrict()`] builds the instruction that computes the block, [`Rows`] composes the
//! steps along a path, and [`Frames`] looks through tuples, barriers and calls.

// Tests: `passes/tests/flow.rs`.

mod contract;
mod exactness;
mod fused;
mod indexed;
mod movement;
mod restrict;
mod rows;
mod scatter_sum;
mod selection;
mod sources;
mod value;
mod windowed;

use hlo_ir::{ArrayShape, Instruction, InstructionId, Module, Opcode, Shape};

pub(crate) use contract::contracted;
pub use exactness::{
    exactness, exactness_on_blocks, float_product, is_cheap_to_read, is_expensive, is_float_sum, is_fusible,
    is_product, is_real, is_rounded, is_sensitive, is_slow, is_total, is_transcendental, keeps_product,
};
pub use fused::feeds_sum;
pub(crate) use indexed::{counts_batches, update_scatter_dims};
pub use restrict::{block_shape, restrict};
pub(crate) use rows::gcd;
pub use rows::{Rows, Step};
pub(crate) use scatter_sum::{
    adds_floats, is_summed, is_summed_again, is_summed_elsewhere, sums_from_zero, takes_sums_on_cpu,
};
pub(crate) use selection::{add_anew, is_for_library, picks, reduces, selection};
pub(crate) use sources::Sources;
pub use value::{Frames, Value, is_transparent, producer};
pub(crate) use value::{is_zeros, parameters, result_of};

/// What an instruction needs of one operand to compute a block of its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandFlow {
    /// The rows of dimension `dim` that `step` says.
    Block {
        /// The operand's dimension.
        dim: usize,
        /// How its rows follow from the rows of the result.
        step: Step,
    },
    /// All of it.
    Whole,
}

impl OperandFlow {
    /// The same rows of dimension `dim`.
    pub(crate) const fn same(dim: usize) -> Self {
        Self::Block { dim, step: Step::SAME }
    }
}

/// Why a value cannot be computed block by block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Barrier {
    /// Stable code such as `sorted-dimension`.
    pub code: &'static str,
    /// One sentence.
    pub text: String,
}

/// What a rule answers: one flow per operand.
pub type Flows = Result<Vec<OperandFlow>, Barrier>;

/// An instruction and the dimension of its result that is cut into blocks.
pub(crate) struct Query<'a> {
    module: &'a Module,
    inst: &'a Instruction,
    /// The result; the first element of a tuple, whose elements all share the dimension.
    result: &'a ArrayShape,
    dim: usize,
}

impl<'a> Query<'a> {
    /// Size of the dimension in question.
    fn extent(&self) -> i64 {
        self.result.dims[self.dim]
    }
    /// The shape of operand `index`.
    fn operand(&self, index: usize) -> Result<&'a ArrayShape, Barrier> {
        let id = self.inst.operands.get(index);
        id.and_then(|&id| self.module.instruction(id).array()).ok_or_else(|| self.malformed())
    }
    /// `flow` for the first `blocks` operands, whole for the others.
    fn first(&self, blocks: usize, flow: OperandFlow) -> Vec<OperandFlow> {
        (0..self.inst.operands.len()).map(|index| if index < blocks { flow } else { OperandFlow::Whole }).collect()
    }
    /// The same rows of the same dimension of every operand.
    fn all(&self) -> Vec<OperandFlow> {
        self.first(self.inst.operands.len(), OperandFlow::same(self.dim))
    }
    fn barrier<T>(&self, code: &'static str, why: &str) -> Result<T, Barrier> {
        Err(Barrier { code, text: format!("`{}` ({}) {why}", self.inst.name, self.inst.opcode_name()) })
    }
    /// The instruction lacks something its opcode demands; the verifier reports it, flow only declines.
    fn malformed(&self) -> Barrier {
        Barrier { code: "malformed", text: format!("`{}` lacks an operand or attribute of its opcode", self.inst.name) }
    }
}

type Rule = fn(&Query<'_>) -> Flows;

/// The table of rules: the opcodes of a row share one rule. Elementwise opcodes ([`Opcode::is_elementwise`]) have none: [`pull`] gives them the rule `elementwise`.
const RULES: &[(&[Opcode], Rule)] = &[
    (&[Opcode::Map], movement::elementwise),
    (&[Opcode::BitcastConvert], movement::bitcast_convert),
    (&[Opcode::Bitcast], movement::bitcast),
    (&[Opcode::Broadcast], movement::broadcast),
    (&[Opcode::Iota], movement::iota),
    (&[Opcode::Reshape], movement::reshape),
    (&[Opcode::Transpose], movement::transpose),
    (&[Opcode::Slice], movement::slice),
    (&[Opcode::Pad], movement::pad),
    (&[Opcode::Reverse], movement::reverse),
    (&[Opcode::Concatenate], movement::concatenate),
    (&[Opcode::DynamicSlice], indexed::dynamic_slice),
    (&[Opcode::DynamicUpdateSlice], indexed::dynamic_update_slice),
    (&[Opcode::Gather], indexed::gather),
    (&[Opcode::Scatter], indexed::scatter),
    (&[Opcode::Reduce], windowed::reduce),
    (&[Opcode::ReduceWindow], windowed::reduce_window),
    (&[Opcode::SelectAndScatter], windowed::select_and_scatter),
    (&[Opcode::Dot], contract::dot),
    (&[Opcode::Convolution], contract::convolution),
    (&[Opcode::Sort], contract::sort),
    (&[Opcode::TopK], contract::top_k),
    (&[Opcode::Fft], contract::fft),
    (&[Opcode::Cholesky], contract::cholesky),
    (&[Opcode::TriangularSolve], contract::triangular_solve),
];

/// What the operands of `inst` must supply so that a block of dimension `dim` of its result can be computed; for an instruction with a
/// tuple result, of dimension `dim` of every element.
///
/// # Errors
/// A [`Barrier`] when the block needs more than blocks and whole values, or `inst` is opaque: then the value must exist in memory.
pub fn pull(module: &Module, inst: InstructionId, dim: usize) -> Flows {
    let instruction = module.instruction(inst);
    let Some(result) = first_array(&instruction.shape) else {
        return Err(opaque(instruction));
    };
    let query = Query { module, inst: instruction, result, dim };
    if dim >= result.rank() {
        return Err(query.malformed());
    }
    if is_dynamic(&instruction.shape) || instruction.operands.iter().any(|&id| is_dynamic(module.shape(id))) {
        return query.barrier("dynamic-shape", "has a dynamic dimension");
    }
    if instruction.opcode.is_elementwise() {
        return movement::elementwise(&query);
    }
    match RULES.iter().find(|(opcodes, _)| opcodes.contains(&instruction.opcode)) {
        Some((_, rule)) => rule(&query),
        None => Err(opaque(instruction)),
    }
}

/// Whether the table of rules has a row for this opcode; elementwise opcodes share a rule outside the table.
pub fn has_rule(opcode: Opcode) -> bool {
    RULES.iter().any(|(opcodes, _)| opcodes.contains(&opcode))
}

fn opaque(inst: &Instruction) -> Barrier {
    let (code, why) = match inst.opcode {
        Opcode::Parameter | Opcode::Constant | Opcode::GetTupleElement => ("leaf", "stands in memory"),
        opcode if opcode.is_collective() => ("collective", "communicates between devices"),
        opcode if opcode.has_side_effect() => ("side-effect", "has a side effect or is unknown"),
        _ => ("opaque", "is not known to work row by row"),
    };
    Barrier { code, text: format!("`{}` ({}) {why}", inst.name, inst.opcode_name()) }
}

/// The array of a shape, or the first element of a tuple of arrays.
pub(crate) fn first_array(shape: &Shape) -> Option<&ArrayShape> {
    match shape {
        Shape::Tuple(elements) => elements.first()?.as_array(),
        other => other.as_array(),
    }
}

fn is_dynamic(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => array.is_dynamic(),
        Shape::Tuple(elements) => elements.iter().any(|element| is_dynamic(element)),
        _ => false,
    }
}
