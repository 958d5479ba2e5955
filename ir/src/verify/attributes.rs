//! V8 and V9: number of operands and needed attributes, by table.

use crate::attribute::AttrForm;
use crate::diagnostic::shortened;
use crate::{AttrKey as K, AttrValue, Instruction, Opcode as O};

/// How many operands an opcode takes.
enum Arity {
    Exactly(usize),
    AtLeast(usize),
    /// A positive even number.
    Even,
    /// An odd number, at least 3.
    Odd,
    Any,
}

#[expect(clippy::match_same_arms, reason = "one row per family of opcodes")]
fn arity(opcode: O) -> Arity {
    use Arity::{Any, AtLeast, Even, Exactly, Odd};
    match opcode {
        O::Parameter | O::Constant | O::Iota | O::PartitionId | O::ReplicaId | O::RngGetAndUpdateState => Exactly(0),
        O::Select | O::Clamp | O::RaggedDot | O::SelectAndScatter | O::BatchNormTraining => Exactly(3),
        O::ScaledDot => Exactly(4),
        O::BatchNormInference | O::BatchNormGrad => Exactly(5),
        O::Compare | O::Complex | O::Dot | O::Pad | O::Gather | O::TriangularSolve | O::SetDimensionSize => Exactly(2),
        O::AddDependency | O::StochasticConvert | O::Outfeed | O::Send => Exactly(2),
        O::Add | O::Subtract | O::Multiply | O::Divide | O::Remainder | O::Power | O::Atan2 | O::Mulhi => Exactly(2),
        O::Maximum | O::Minimum | O::And | O::Or | O::Xor => Exactly(2),
        O::ShiftLeft | O::ShiftRightArithmetic | O::ShiftRightLogical => Exactly(2),
        O::GetTupleElement | O::Broadcast | O::Reshape | O::Transpose | O::Reverse | O::Slice | O::While => Exactly(1),
        O::Bitcast | O::BitcastConvert | O::Cholesky | O::Fft | O::GetDimensionSize | O::TopK | O::Domain => Exactly(1),
        O::OptBarrier | O::CopyStart | O::CopyDone | O::Infeed | O::Recv | O::RecvDone | O::SendDone => Exactly(1),
        O::AllReduceDone | O::AllGatherDone | O::CollectivePermuteDone | O::AsyncDone | O::AsyncUpdate => Exactly(1),
        O::RngBitGenerator => Exactly(1),
        O::RaggedAllToAll => Exactly(6),
        O::Concatenate | O::Sort | O::Map | O::Conditional | O::DynamicSlice | O::DynamicReshape => AtLeast(1),
        O::AllReduce | O::AllReduceStart | O::AllGather | O::AllGatherStart | O::ReduceScatter => AtLeast(1),
        O::AllToAll | O::CollectiveBroadcast | O::CollectivePermute | O::CollectivePermuteStart | O::Scan => AtLeast(1),
        // The newest form of a convolution has more than two operands.
        O::DynamicUpdateSlice | O::Convolution | O::Rng => AtLeast(2),
        O::Reduce | O::ReduceWindow => Even,
        O::Scatter => Odd,
        _ if opcode.is_elementwise() => Exactly(1),
        _ => Any,
    }
}

/// V8.
pub(super) fn check_arity(inst: &Instruction) -> Result<(), String> {
    let count = inst.operands.len();
    let (fits, wanted) = match arity(inst.opcode) {
        Arity::Exactly(wanted) => (count == wanted, wanted.to_string()),
        Arity::AtLeast(wanted) => (count >= wanted, format!("at least {wanted}")),
        Arity::Even => (count >= 2 && count.is_multiple_of(2), "an even number of".into()),
        Arity::Odd => (count >= 3 && !count.is_multiple_of(2), "an odd number (3 or more) of".into()),
        Arity::Any => return Ok(()),
    };
    let plural = if wanted == "1" { "" } else { "s" };
    if inst.opcode == O::Dot && inst.attribute(&K::unknown("sparsity")).is_some() {
        return Err("sparse products (`sparsity`) of earlier versions of XLA are not understood".to_owned());
    }
    if fits { Ok(()) } else { Err(format!("`{}` takes {wanted} operand{plural}, not {count}", inst.opcode_name())) }
}

/// The attributes an opcode cannot do without. Lists that may be left out when empty are not among them.
fn needed(opcode: O) -> &'static [K] {
    match opcode {
        O::Compare => &[K::Direction],
        O::Iota => &[K::IotaDimension],
        O::Reverse
        | O::Transpose
        | O::Concatenate
        | O::AllGather
        | O::AllGatherStart
        | O::GetDimensionSize
        | O::SetDimensionSize => &[K::Dimensions],
        O::Sort | O::Reduce | O::ReduceScatter => &[K::Dimensions, K::ToApply],
        O::Slice => &[K::Slice],
        O::Pad => &[K::Padding],
        O::DynamicSlice => &[K::DynamicSliceSizes],
        O::Gather => &[K::OffsetDims, K::CollapsedSliceDims, K::StartIndexMap, K::IndexVectorDim, K::SliceSizes],
        O::Scatter => {
            &[K::UpdateWindowDims, K::InsertedWindowDims, K::ScatterDimsToOperandDims, K::IndexVectorDim, K::ToApply]
        }
        O::Convolution => &[K::DimLabels],
        O::SelectAndScatter => &[K::Select, K::ScatterComputation],
        O::Map | O::Call | O::ReduceWindow | O::AllReduce | O::AllReduceStart | O::Scan => &[K::ToApply],
        O::While => &[K::Condition, K::Body],
        O::Fusion => &[K::Kind, K::Calls],
        O::CustomCall => &[K::CustomCallTarget],
        O::GetTupleElement => &[K::Index],
        O::Fft => &[K::FftType, K::FftLength],
        O::TopK => &[K::K],
        O::ReducePrecision => &[K::ExponentBits, K::MantissaBits],
        O::RngBitGenerator => &[K::Algorithm],
        _ => &[],
    }
}

/// V9.
pub(super) fn check(inst: &Instruction) -> Result<(), String> {
    for key in needed(inst.opcode) {
        if inst.attribute(key).is_none() {
            return Err(format!("`{}` needs attribute {}", inst.opcode_name(), key.name()));
        }
    }
    for attribute in &inst.attributes {
        if let AttrValue::Raw(text) = &attribute.value
            && (shapes_the_result(inst.opcode, &attribute.key) || is_number_or_flag(&attribute.key))
        {
            return Err(format!("attribute {} cannot be {}", attribute.key.name(), shortened(text)));
        }
    }
    match (inst.opcode, inst.word(&K::Direction)) {
        (O::Compare, Some("EQ" | "NE" | "LT" | "LE" | "GT" | "GE")) => Ok(()),
        (O::Compare, _) => Err("attribute direction must be EQ, NE, LT, LE, GT or GE".into()),
        (O::Conditional, _) => check_branches(inst),
        (O::CollectivePermute | O::CollectivePermuteStart, _) => super::exchange::check_routes(inst),
        (O::Fusion, _) => one_of(inst, &K::Kind, &["kLoop", "kInput", "kOutput", "kCustom"]),
        (O::Rng, _) => one_of(inst, &K::unknown("distribution"), &["rng_uniform", "rng_normal"]),
        (O::TriangularSolve, _) if inst.attribute(&K::TransposeA).is_some() => {
            one_of(inst, &K::TransposeA, &["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
        }
        _ if inst.flag(&K::UseGlobalDeviceIds) && inst.attribute(&K::ChannelId).is_none() => {
            Err("use_global_device_ids needs a channel_id".into())
        }
        _ if matches!(inst.attribute(&K::ControlPredecessors), Some(AttrValue::Instructions(ids)) if ids.is_empty()) => {
            Err("control-predecessors must name an instruction or be left out".into())
        }
        _ => Ok(()),
    }
}

/// The value of an attribute is one of some words, whatever the case of their letters.
fn one_of(inst: &Instruction, key: &K, words: &[&str]) -> Result<(), String> {
    let word = inst.word(key).or_else(|| inst.raw(key)).unwrap_or("missing");
    if words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    Err(format!("attribute {} is {word}, but must be one of {}", key.name(), words.join(", ")))
}

/// Whether an attribute is a number or a flag, which no version of XLA writes in another way.
fn is_number_or_flag(key: &K) -> bool {
    matches!(K::from_name(key.name()).1, AttrForm::Int | AttrForm::Bool)
}

/// Whether an attribute of this opcode decides what it computes, so that its value must have been understood.
fn shapes_the_result(opcode: O, key: &K) -> bool {
    let keys = needed(opcode).iter().chain(match opcode {
        O::Dot => &[K::LhsBatchDims, K::RhsBatchDims, K::LhsContractingDims, K::RhsContractingDims][..],
        O::Gather => &[K::OperandBatchingDims, K::StartIndicesBatchingDims, K::IndicesAreSorted],
        O::Scatter => &[K::InputBatchingDims, K::ScatterIndicesBatchingDims, K::UniqueIndices, K::IndicesAreSorted],
        O::Broadcast | O::Map | O::AllToAll => &[K::Dimensions],
        O::RaggedDot | O::ScaledDot => {
            &[K::LhsBatchDims, K::RhsBatchDims, K::LhsContractingDims, K::RhsContractingDims]
        }
        O::Convolution => &[K::Window, K::FeatureGroupCount, K::BatchGroupCount],
        O::ReduceWindow | O::SelectAndScatter => &[K::Window],
        O::Conditional => &[K::TrueComputation, K::FalseComputation, K::BranchComputations],
        O::CustomCall | O::AsyncStart => &[K::CalledComputations, K::Calls, K::OutputToOperandAliasing],
        _ => &[],
    });
    keys.into_iter().any(|wanted| wanted == key && !matches!(key, K::CustomCallTarget | K::DimLabels))
}

fn check_branches(inst: &Instruction) -> Result<(), String> {
    let pair = inst.computation(&K::TrueComputation).is_some() && inst.computation(&K::FalseComputation).is_some();
    let list = matches!(inst.attribute(&K::BranchComputations), Some(AttrValue::Computations(ids)) if !ids.is_empty());
    match (pair, list) {
        (true, false) | (false, true) => Ok(()),
        _ => Err("`conditional` needs true_computation and false_computation, or branch_computations".into()),
    }
}
