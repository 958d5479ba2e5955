//! The shape an instruction must have, from its operands and attributes: what the text parser fills in where a text gives no
//! shape, what the verifier compares written shapes with, and what a pass can ask when it builds an instruction.
//!
//! Source of the rules: xla/service/shape_inference.cc. Layouts are not part of the rules; where the result has the shape of an
//! operand, the operand's layout comes along.

// Tests: `ir/tests/inferred.rs`.

mod control;
mod elementwise;
mod indexed;
mod linear;
mod movement;
mod norm;
mod transfer;
mod window;

use smallvec::SmallVec;

use crate::shape::{Dims, ShapeRef, UNBOUNDED};
use crate::{ArrayShape, AttrKey, ComputationId, ElementType, Instruction, Module, Opcode, Shape};

/// The result shape that operands and attributes imply, or why they do not fit together; `None` where the shape has to be
/// written (`reshape`, `iota`, `custom-call`, ...).
pub fn shape(module: &Module, instruction: &Instruction) -> Option<Result<ShapeRef, String>> {
    let operands = instruction.operands.iter().map(|&operand| &module.instruction(operand).shape).collect();
    let result_of = |id: ComputationId| {
        let computation = module.computation(id);
        module.instruction(computation.root).shape.clone()
    };
    from_operands(&Request { instruction, operands, result_of: &result_of })
}

/// What a rule looks at. The operands stand apart from the module, so that an instruction of a patch can be asked about too.
pub struct Request<'a> {
    /// Opcode and attributes; its operand ids and its shape are not read.
    pub instruction: &'a Instruction,
    /// Shapes of the operands.
    pub operands: SmallVec<[&'a ShapeRef; 4]>,
    /// The shape a called computation returns.
    pub result_of: &'a dyn Fn(ComputationId) -> ShapeRef,
}

/// What a rule says: the shape, or why operands and attributes do not fit.
type Inferred = Result<ShapeRef, String>;

/// [`shape`] for operands that stand apart from a module.
pub fn from_operands(request: &Request<'_>) -> Option<Result<ShapeRef, String>> {
    rule(request.instruction.opcode).map(|rule| rule(request))
}

/// The rule of an opcode.
fn rule(opcode: Opcode) -> Option<fn(&Request<'_>) -> Inferred> {
    use Opcode as O;
    if let Some(rule) = elementwise::rule(opcode) {
        return Some(rule);
    }
    Some(match opcode {
        O::Tuple => movement::tuple,
        O::GetTupleElement => movement::get_tuple_element,
        O::Concatenate => movement::concatenate,
        O::Transpose => movement::transpose,
        O::Reverse => movement::reverse,
        O::Slice => movement::slice,
        O::Pad => movement::pad,
        O::DynamicSlice => indexed::dynamic_slice,
        O::DynamicUpdateSlice => indexed::dynamic_update_slice,
        O::Gather => indexed::gather,
        O::Scatter => indexed::scatter,
        O::Dot => linear::dot,
        O::Fft => linear::fft,
        O::RaggedDot => linear::ragged_dot,
        O::ScaledDot => linear::scaled_dot,
        O::Cholesky => linear::cholesky,
        O::TriangularSolve => linear::triangular_solve,
        O::Convolution => window::convolution,
        O::ReduceWindow => window::reduce_window,
        O::SelectAndScatter => window::select_and_scatter,
        O::Reduce => control::reduce,
        O::Map => control::map,
        O::Sort => control::sort,
        O::While => control::while_loop,
        O::Conditional => control::conditional,
        O::Call | O::Fusion => control::call,
        O::TopK => movement::top_k,
        O::Domain | O::OptBarrier | O::AllReduceDone => movement::first,
        O::AddDependency => transfer::add_dependency,
        O::SetDimensionSize => movement::set_dimension_size,
        O::AllReduce | O::AllReduceStart | O::CollectiveBroadcast => movement::all_operands,
        O::CollectivePermute => transfer::permute,
        O::RaggedAllToAll => transfer::ragged_all_to_all,
        O::BatchNormTraining => norm::training,
        O::BatchNormInference => norm::inference,
        O::BatchNormGrad => norm::gradient,
        O::AfterAll => transfer::after_all,
        O::Outfeed => transfer::outfeed,
        O::Send => transfer::send,
        O::SendDone => transfer::send_done,
        O::RecvDone => transfer::recv_done,
        O::CopyStart => transfer::copy_start,
        O::CopyDone => transfer::copy_done,
        O::AsyncUpdate => transfer::async_update,
        O::RngGetAndUpdateState => transfer::rng_state,
        O::PartitionId | O::ReplicaId => |_| Ok(Shape::array(ElementType::U32, [])),
        O::GetDimensionSize => movement::get_dimension_size,
        O::AllGatherDone | O::CollectivePermuteDone | O::AsyncDone => |request| movement::element(request, 1),
        _ => return None,
    })
}

impl<'a> Request<'a> {
    /// The shape of an operand.
    fn operand(&self, index: usize) -> Result<&'a ShapeRef, String> {
        self.operands.get(index).copied().ok_or_else(|| format!("operand {index} is missing"))
    }
    /// The shape of an operand that must be an array.
    fn array(&self, index: usize) -> Result<&'a ArrayShape, String> {
        let shape = self.operand(index)?;
        shape.as_array().ok_or_else(|| format!("operand {index} has shape {shape}, but an array is needed"))
    }
    fn ints(&self, key: &AttrKey) -> &'a [i64] {
        self.instruction.ints(key)
    }
    /// An integer attribute that must be there.
    fn int(&self, key: &AttrKey) -> Result<i64, String> {
        self.instruction.int(key).ok_or_else(|| format!("attribute {} is missing", key.name()))
    }
    /// A dimension number from an attribute, in range.
    fn dimension(&self, key: &AttrKey, rank: usize) -> Result<usize, String> {
        let value = match self.ints(key) {
            [value] => *value,
            [_, ..] => return Err(format!("attribute {} names several dimensions instead of one", key.name())),
            [] => self.int(key)?,
        };
        check_dimension(key.name(), value, rank)
    }
    /// Dimension numbers from an attribute: in range and each once.
    fn dimensions(&self, key: &AttrKey, rank: usize) -> Result<SmallVec<[usize; 4]>, String> {
        distinct(key.name(), self.ints(key), rank)
    }
    /// What the computation named by an attribute returns.
    fn callee_result(&self, key: &AttrKey) -> Result<ShapeRef, String> {
        let callee = self.instruction.computation(key);
        callee.map(|id| (self.result_of)(id)).ok_or_else(|| format!("attribute {} is missing", key.name()))
    }
}

/// `value` as a dimension number of an array of `rank` dimensions.
fn check_dimension(what: &str, value: i64, rank: usize) -> Result<usize, String> {
    let dim = usize::try_from(value).ok().filter(|&dim| dim < rank);
    dim.ok_or_else(|| format!("{what}: dimension {value} is out of range, the array has {rank} dimensions"))
}

/// `values` as dimension numbers, each in range and once.
fn distinct(what: &str, values: &[i64], rank: usize) -> Result<SmallVec<[usize; 4]>, String> {
    let mut dims = SmallVec::with_capacity(values.len());
    for &value in values {
        let dim = check_dimension(what, value, rank)?;
        if dims.contains(&dim) {
            return Err(format!("{what}: dimension {dim} is named twice"));
        }
        dims.push(dim);
    }
    Ok(dims)
}

/// Whether two sizes agree; an unbounded size agrees with everything.
pub(crate) fn same_size(a: i64, b: i64) -> bool {
    a == b || a == UNBOUNDED || b == UNBOUNDED
}

/// Whether two arrays have the same sizes.
pub(crate) fn same_dims(a: &ArrayShape, b: &ArrayShape) -> bool {
    a.rank() == b.rank() && a.dims.iter().zip(&b.dims).all(|(&a, &b)| same_size(a, b))
}

/// An array with the given sizes and no layout of its own.
fn array(element_type: ElementType, dims: Dims) -> ShapeRef {
    let layout = dims.is_empty().then(crate::Layout::default);
    Shape::Array(ArrayShape { element_type, dims, dynamic: 0, layout }).into()
}
