//! Opcodes and their spelling; what XLA adds later is [`Opcode::Unknown`] and kept verbatim.

use std::sync::LazyLock;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Opcodes by spelling. Every instruction that is read asks once; a binary search of the table took 8 % of a parse.
static BY_NAME: LazyLock<IndexMap<&'static str, Opcode, FxBuildHasher>> =
    LazyLock::new(|| TABLE.iter().map(|&(opcode, name)| (name, opcode)).collect());

macro_rules! opcodes {
    ($($variant:ident = $text:literal,)*) => {
        /// What an instruction does; the spelling of each is [`Opcode::name`].
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[allow(missing_docs, reason = "each variant is the HLO opcode of the same name")]
        pub enum Opcode {
            $($variant,)*
            /// An opcode this version does not know: printed back verbatim, a barrier to every analysis.
            Unknown,
        }

        /// Every known opcode with its spelling, in declaration order.
        const TABLE: &[(Opcode, &str)] = &[$((Opcode::$variant, $text),)*];
    };
}

opcodes! {
    Abs = "abs", Acos = "acos", Acosh = "acosh", Add = "add", AddDependency = "add-dependency", AfterAll = "after-all",
    AllGather = "all-gather", AllGatherDone = "all-gather-done", AllGatherStart = "all-gather-start",
    AllReduce = "all-reduce", AllReduceDone = "all-reduce-done", AllReduceStart = "all-reduce-start",
    AllToAll = "all-to-all", And = "and", Asin = "asin", Asinh = "asinh", AsyncDone = "async-done",
    AsyncStart = "async-start", AsyncUpdate = "async-update", Atan2 = "atan2", Atanh = "atanh",
    BatchNormGrad = "batch-norm-grad", BatchNormInference = "batch-norm-inference",
    BatchNormTraining = "batch-norm-training", Bitcast = "bitcast", BitcastConvert = "bitcast-convert",
    Broadcast = "broadcast", Call = "call", Cbrt = "cbrt", Ceil = "ceil", Cholesky = "cholesky", Clamp = "clamp",
    CollectiveBroadcast = "collective-broadcast", CollectivePermute = "collective-permute",
    CollectivePermuteDone = "collective-permute-done", CollectivePermuteStart = "collective-permute-start",
    Compare = "compare", Complex = "complex", Concatenate = "concatenate", Conditional = "conditional",
    Constant = "constant", Convert = "convert", Convolution = "convolution", Copy = "copy", CopyDone = "copy-done",
    CopyStart = "copy-start", Cosh = "cosh", Cosine = "cosine", CountLeadingZeros = "count-leading-zeros",
    CustomCall = "custom-call", Divide = "divide", Domain = "domain", Dot = "dot", DynamicReshape = "dynamic-reshape",
    DynamicSlice = "dynamic-slice", DynamicUpdateSlice = "dynamic-update-slice", Erf = "erf",
    Exponential = "exponential", ExponentialMinusOne = "exponential-minus-one", Fft = "fft", Floor = "floor",
    Fusion = "fusion", Gather = "gather", GetDimensionSize = "get-dimension-size",
    GetTupleElement = "get-tuple-element", Imag = "imag", Infeed = "infeed", Iota = "iota", IsFinite = "is-finite",
    Log = "log", LogPlusOne = "log-plus-one", Logistic = "logistic", Map = "map", Maximum = "maximum",
    Minimum = "minimum", Mulhi = "mulhi", Multiply = "multiply", Negate = "negate", Not = "not",
    OptBarrier = "opt-barrier", Or = "or", Outfeed = "outfeed", Pad = "pad", Parameter = "parameter",
    PartitionId = "partition-id", Popcnt = "popcnt", Power = "power", RaggedAllToAll = "ragged-all-to-all",
    RaggedDot = "ragged-dot", Real = "real", Recv = "recv", RecvDone = "recv-done", Reduce = "reduce",
    ReducePrecision = "reduce-precision", ReduceScatter = "reduce-scatter", ReduceWindow = "reduce-window",
    Remainder = "remainder", ReplicaId = "replica-id", Reshape = "reshape", Reverse = "reverse", Rng = "rng",
    RngBitGenerator = "rng-bit-generator", RngGetAndUpdateState = "rng-get-and-update-state",
    RoundNearestAfz = "round-nearest-afz", RoundNearestEven = "round-nearest-even", Rsqrt = "rsqrt",
    ScaledDot = "scaled-dot", Scan = "scan", Scatter = "scatter", Select = "select",
    SelectAndScatter = "select-and-scatter", Send = "send", SendDone = "send-done",
    SetDimensionSize = "set-dimension-size", ShiftLeft = "shift-left",
    ShiftRightArithmetic = "shift-right-arithmetic", ShiftRightLogical = "shift-right-logical", Sign = "sign",
    Sine = "sine", Sinh = "sinh", Slice = "slice", Sort = "sort", Sqrt = "sqrt",
    StochasticConvert = "stochastic-convert", Subtract = "subtract", Tan = "tan", Tanh = "tanh", TopK = "topk",
    Transpose = "transpose", TriangularSolve = "triangular-solve", Tuple = "tuple", While = "while", Xor = "xor",
}

impl Opcode {
    /// The spelling in HLO text; empty for [`Opcode::Unknown`], whose spelling the instruction keeps.
    pub fn name(self) -> &'static str {
        TABLE.get(self as usize).map_or("", |row| row.1)
    }
    /// The opcode spelled `name`, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        BY_NAME.get(name).copied()
    }
    /// All known opcodes, for tables and did-you-mean.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }
    /// Whether every output element is computed from the operand elements at the same position only
    /// (scalar operands of `clamp` and `select` count as the same position).
    pub fn is_elementwise(self) -> bool {
        use Opcode as O;
        matches!(
            self,
            O::Abs
                | O::Acos
                | O::Acosh
                | O::Add
                | O::And
                | O::Asin
                | O::Asinh
                | O::Atan2
                | O::Atanh
                | O::Cbrt
                | O::Ceil
                | O::Clamp
                | O::Compare
                | O::Complex
                | O::Convert
                | O::Copy
                | O::Cosh
                | O::Cosine
                | O::CountLeadingZeros
                | O::Divide
                | O::Erf
                | O::Exponential
                | O::ExponentialMinusOne
                | O::Floor
                | O::Imag
                | O::IsFinite
                | O::Log
                | O::LogPlusOne
                | O::Logistic
                | O::Maximum
                | O::Minimum
                | O::Mulhi
                | O::Multiply
                | O::Negate
                | O::Not
                | O::Or
                | O::Popcnt
                | O::Power
                | O::Real
                | O::ReducePrecision
                | O::Remainder
                | O::RoundNearestAfz
                | O::RoundNearestEven
                | O::Rsqrt
                | O::Select
                | O::ShiftLeft
                | O::ShiftRightArithmetic
                | O::ShiftRightLogical
                | O::Sign
                | O::Sine
                | O::Sinh
                | O::Sqrt
                | O::StochasticConvert
                | O::Subtract
                | O::Tan
                | O::Tanh
                | O::Xor
        )
    }
    /// Whether the instruction talks to other devices or to the host, or has hidden state: never moved, copied or dropped.
    pub fn has_side_effect(self) -> bool {
        use Opcode as O;
        matches!(
            self,
            O::Infeed
                | O::Outfeed
                | O::Send
                | O::SendDone
                | O::Recv
                | O::RecvDone
                | O::Rng
                | O::RngGetAndUpdateState
                | O::Domain
                | O::Unknown
        ) || self.is_collective()
    }
    /// Whether the instruction communicates between devices.
    pub fn is_collective(self) -> bool {
        use Opcode as O;
        matches!(
            self,
            O::AllGather
                | O::AllGatherStart
                | O::AllGatherDone
                | O::AllReduce
                | O::AllReduceStart
                | O::AllReduceDone
                | O::AllToAll
                | O::CollectiveBroadcast
                | O::CollectivePermute
                | O::CollectivePermuteStart
                | O::CollectivePermuteDone
                | O::RaggedAllToAll
                | O::ReduceScatter
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_has_its_place_in_the_table_and_a_name_of_its_own() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.1);
            assert_eq!(Opcode::from_name(row.1), Some(row.0));
        }
    }
}
