//! A buffer that is alive at the peak: what it is for, and who reads it next.

// Tests: `memory/tests/attribution.rs`.

use hlo_ir::{InstructionId, StackFrame};
use smol_str::SmolStr;

use crate::{Bytes, LiveBuffer};

/// A buffer alive at the peak and why it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Its instruction, shape, size and origin.
    pub buffer: LiveBuffer,
    /// That instruction in the compiled module.
    pub owner: InstructionId,
    /// The computation its instruction stands in.
    pub computation: SmolStr,
    /// What it is for.
    pub role: Role,
    /// Bytes that hold no elements: tiles, alignment of packed elements, memory of a larger buffer it is stored in.
    pub padding: Bytes,
    /// The first and the last step at which it holds its memory.
    pub steps: (u32, u32),
    /// Who reads it next, at the peak or behind it.
    pub next_user: Option<NextUser>,
    /// Another instruction that must use the same memory.
    pub aliased_with: Option<SmolStr>,
    /// The loop that carries it from one iteration to the next.
    pub carried_by: Option<SmolStr>,
    /// The user's call stack, innermost frame first.
    pub stack: Vec<StackFrame>,
}

/// What a buffer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// An entry parameter.
    Argument {
        /// Its number.
        number: i64,
        /// Whether an output takes over its memory.
        donated: bool,
    },
    /// A constant.
    Constant,
    /// Something the module returns.
    Output,
    /// A temporary in the block of temporaries.
    Temporary,
    /// A temporary stored in the memory of an output or of a donated argument.
    InOutput,
}

impl Role {
    /// The number of the entry parameter, if it is one.
    pub const fn argument(self) -> Option<i64> {
        match self {
            Self::Argument { number, .. } => Some(number),
            _ => None,
        }
    }
    /// The role in one word, as reports spell it. One of `argument`, `donated-argument`, `constant`, `output`, `temporary` and
    /// `temporary-in-output`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Argument { donated: false, .. } => "argument",
            Self::Argument { donated: true, .. } => "donated-argument",
            Self::Constant => "constant",
            Self::Output => "output",
            Self::Temporary => "temporary",
            Self::InOutput => "temporary-in-output",
        }
    }
}

/// The next reader of a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NextUser {
    /// Its name.
    pub instruction: SmolStr,
    /// The computation it stands in.
    pub computation: SmolStr,
    /// The step at which it runs.
    pub step: u32,
}
