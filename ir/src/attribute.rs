//! Attributes: `key=value` pairs behind an instruction or in the module header.
//!
//! One table ([`KEYS`]) names every key this crate understands and the form of its value. A key that is not in the table, or a
//! value that does not have the expected form, is kept as [`AttrValue::Raw`] text and printed back verbatim.

// Tests: `ir/tests/generated.rs`.

use std::sync::{Arc, LazyLock};

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use smol_str::SmolStr;

use crate::shape::{Dims, ShapeRef};
use crate::{ComputationId, InstructionId};

/// How the value of a key is written; selects the parser and the printer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttrForm {
    /// `3`
    Int,
    /// `true`
    Bool,
    /// `{0,1}`
    Ints,
    /// A bare word such as `EQ` or `kLoop`.
    Word,
    /// A computation name.
    Computation,
    /// `{a, b}`, computation names.
    Computations,
    /// `{a, b}`, instruction names.
    Instructions,
    /// `{[0:4], [0:8:2]}`
    Slice,
    /// `0_1x2_3_1`
    Padding,
    /// `{size=3x3 stride=2x2 ...}`
    Window,
    /// `{{0}: (1, {})}`; a third part `may-alias` or `must-alias` stands in the module header.
    Aliases,
    /// `{(0, {}), (1, {0})}`
    Donors,
    /// Anything else, verbatim up to the comma that ends it.
    Raw,
}

/// [`KEYS`] by spelling, for the parser.
static BY_NAME: LazyLock<IndexMap<&'static str, (AttrKey, AttrForm), FxBuildHasher>> =
    LazyLock::new(|| KEYS.iter().map(|(key, name, form)| (*name, (key.clone(), *form))).collect());

macro_rules! keys {
    ($($variant:ident = $text:literal: $form:ident,)*) => {
        /// Name of an attribute.
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs, reason = "each variant is the HLO attribute of the same name")]
        pub enum AttrKey {
            $($variant,)*
            /// A key that is not in the table. In a box, since every attribute holds a key and few need this.
            Unknown(Box<SmolStr>),
        }

        /// Every key of the table with its spelling and the form of its value.
        pub const KEYS: &[(AttrKey, &str, AttrForm)] = &[$((AttrKey::$variant, $text, AttrForm::$form),)*];

        impl AttrKey {
            /// The spelling in HLO text.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Unknown(name) => name,
                }
            }
            /// The key spelled `name` and the form of its value.
            pub fn from_name(name: &str) -> (Self, AttrForm) {
                match BY_NAME.get(name) {
                    Some((key, form)) => (key.clone(), *form),
                    None => (Self::unknown(name), AttrForm::Raw),
                }
            }
            /// The key spelled `name`, which is not in the table.
            pub fn unknown(name: &str) -> Self {
                Self::Unknown(Box::new(name.into()))
            }
        }
    };
}

keys! {
    // Instructions, roughly in XLA's print order.
    Dimensions = "dimensions": Ints,
    IotaDimension = "iota_dimension": Int,
    InferredDimension = "inferred_dimension": Int,
    Slice = "slice": Slice,
    DynamicSliceSizes = "dynamic_slice_sizes": Ints,
    Padding = "padding": Padding,
    Window = "window": Window,
    DimLabels = "dim_labels": Raw,
    FeatureGroupCount = "feature_group_count": Int,
    BatchGroupCount = "batch_group_count": Int,
    OffsetDims = "offset_dims": Ints,
    CollapsedSliceDims = "collapsed_slice_dims": Ints,
    StartIndexMap = "start_index_map": Ints,
    OperandBatchingDims = "operand_batching_dims": Ints,
    StartIndicesBatchingDims = "start_indices_batching_dims": Ints,
    UpdateWindowDims = "update_window_dims": Ints,
    InsertedWindowDims = "inserted_window_dims": Ints,
    ScatterDimsToOperandDims = "scatter_dims_to_operand_dims": Ints,
    InputBatchingDims = "input_batching_dims": Ints,
    ScatterIndicesBatchingDims = "scatter_indices_batching_dims": Ints,
    IndexVectorDim = "index_vector_dim": Int,
    SliceSizes = "slice_sizes": Ints,
    IndicesAreSorted = "indices_are_sorted": Bool,
    UniqueIndices = "unique_indices": Bool,
    LhsBatchDims = "lhs_batch_dims": Ints,
    LhsContractingDims = "lhs_contracting_dims": Ints,
    RhsBatchDims = "rhs_batch_dims": Ints,
    RhsContractingDims = "rhs_contracting_dims": Ints,
    OperandPrecision = "operand_precision": Raw,
    Algorithm = "algorithm": Word,
    Direction = "direction": Word,
    CompareType = "type": Word,
    IsStable = "is_stable": Bool,
    FftType = "fft_type": Word,
    FftLength = "fft_length": Ints,
    Lower = "lower": Bool,
    LeftSide = "left_side": Bool,
    UnitDiagonal = "unit_diagonal": Bool,
    TransposeA = "transpose_a": Word,
    ExponentBits = "exponent_bits": Int,
    MantissaBits = "mantissa_bits": Int,
    K = "k": Int,
    Largest = "largest": Bool,
    Index = "index": Int,
    Kind = "kind": Word,
    Calls = "calls": Computation,
    ToApply = "to_apply": Computation,
    Condition = "condition": Computation,
    Body = "body": Computation,
    TrueComputation = "true_computation": Computation,
    FalseComputation = "false_computation": Computation,
    BranchComputations = "branch_computations": Computations,
    CalledComputations = "called_computations": Computations,
    Select = "select": Computation,
    ScatterComputation = "scatter": Computation,
    CustomCallTarget = "custom_call_target": Raw,
    CustomCallHasSideEffect = "custom_call_has_side_effect": Bool,
    OperandLayoutConstraints = "operand_layout_constraints": Raw,
    OutputToOperandAliasing = "output_to_operand_aliasing": Aliases,
    ParameterReplication = "parameter_replication": Raw,
    ChannelId = "channel_id": Int,
    ReplicaGroups = "replica_groups": Raw,
    ConstrainLayout = "constrain_layout": Bool,
    UseGlobalDeviceIds = "use_global_device_ids": Bool,
    IsComposite = "is_composite": Bool,
    Sharding = "sharding": Raw,
    FrontendAttributes = "frontend_attributes": Raw,
    ControlPredecessors = "control-predecessors": Instructions,
    Statistics = "statistics": Raw,
    ResultAccuracy = "result_accuracy": Raw,
    Origin = "origin": Raw,
    Metadata = "metadata": Raw,
    BackendConfig = "backend_config": Raw,
    // Computations.
    ExecutionThread = "execution_thread": Raw,
    // Module header.
    IsScheduled = "is_scheduled": Bool,
    InputOutputAlias = "input_output_alias": Aliases,
    BufferDonor = "buffer_donor": Donors,
    EntryComputationLayout = "entry_computation_layout": Raw,
    ReplicaCount = "replica_count": Int,
    NumPartitions = "num_partitions": Int,
}

/// Bounds of one dimension of a `slice`, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SliceDim {
    /// First element taken.
    pub start: i64,
    /// One past the last element considered.
    pub limit: i64,
    /// Distance between taken elements, at least 1.
    pub stride: i64,
}

impl SliceDim {
    /// The whole of a dimension of `size` elements.
    pub const fn full(size: i64) -> Self {
        Self { start: 0, limit: size, stride: 1 }
    }
    /// Whether this takes every element of a dimension of `size` elements.
    pub fn is_full(&self, size: i64) -> bool {
        *self == Self::full(size)
    }
}

/// Padding of one dimension of a `pad`, in elements; negative values crop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PadDim {
    /// Elements before the first.
    pub low: i64,
    /// Elements behind the last.
    pub high: i64,
    /// Elements between neighbours.
    pub interior: i64,
}

/// One dimension of a convolution or reduce window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WindowDim {
    /// Elements in the window.
    pub size: i64,
    /// Distance between windows.
    pub stride: i64,
    /// Padding before the first element.
    pub pad_low: i64,
    /// Padding behind the last element.
    pub pad_high: i64,
    /// Dilation of the input.
    pub lhs_dilate: i64,
    /// Dilation of the window.
    pub rhs_dilate: i64,
    /// Whether the window runs backwards.
    pub reversed: bool,
}

impl Default for WindowDim {
    fn default() -> Self {
        Self { size: 1, stride: 1, pad_low: 0, pad_high: 0, lhs_dilate: 1, rhs_dilate: 1, reversed: false }
    }
}

/// One entry of an aliasing table: output index <- (operand or parameter number, index inside it).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Alias {
    /// Tuple index in the output.
    pub output: Dims,
    /// Operand number (instruction) or parameter number (module header).
    pub operand: i64,
    /// Tuple index inside that operand.
    pub operand_index: Dims,
    /// `may-alias` or `must-alias` as written; empty on instructions and where the text omits it.
    pub kind: SmolStr,
}

/// Value of an attribute: 24 bytes, since memory is what reading a large dump waits for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "each variant is described at the AttrForm of the same name")]
pub enum AttrValue {
    Int(i64),
    Bool(bool),
    Ints(Arc<[i64]>),
    Word(Arc<str>),
    Computation(ComputationId),
    Computations(Box<[ComputationId]>),
    Instructions(Box<[InstructionId]>),
    Slice(Box<[SliceDim]>),
    Padding(Box<[PadDim]>),
    Window(Arc<Vec<WindowDim>>),
    Aliases(Arc<Vec<Alias>>),
    Donors(Arc<Vec<(i64, Dims)>>),
    Shape(ShapeRef),
    Raw(SmolStr),
}

impl AttrValue {
    /// `{0,1}`.
    pub fn ints(values: impl IntoIterator<Item = i64>) -> Self {
        Self::Ints(values.into_iter().collect())
    }
    /// A bare word or a verbatim text; `None` for values of another form.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Word(text) => Some(text),
            Self::Raw(text) => Some(text),
            _ => None,
        }
    }
}

/// A key with its value, in the order of the text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attribute {
    /// Name.
    pub key: AttrKey,
    /// Value.
    pub value: AttrValue,
}

impl Attribute {
    /// Pairs `key` with `value`.
    pub const fn new(key: AttrKey, value: AttrValue) -> Self {
        Self { key, value }
    }
    /// `key={0,1}`.
    pub fn ints(key: AttrKey, values: impl IntoIterator<Item = i64>) -> Self {
        Self::new(key, AttrValue::ints(values))
    }
    /// `key=3`.
    pub const fn int(key: AttrKey, value: i64) -> Self {
        Self::new(key, AttrValue::Int(value))
    }
    /// `key=EQ`.
    pub fn word(key: AttrKey, value: &str) -> Self {
        Self::new(key, AttrValue::Word(value.into()))
    }
}

/// The first attribute of `attributes` with this key.
pub fn find<'a>(attributes: &'a [Attribute], key: &AttrKey) -> Option<&'a AttrValue> {
    attributes.iter().find(|attribute| attribute.key == *key).map(|attribute| &attribute.value)
}
