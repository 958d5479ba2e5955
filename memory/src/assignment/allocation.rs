//! One allocation: a block of memory and the values stored in it.
//!
//! Source: `BufferAllocation` (xla/service/buffer_assignment.h).

// Tests: `memory/tests/rules.rs`.

use super::shape_positions::ShapePosition;
use super::values::ValueId;

/// What an allocation is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// An entry parameter, or one array inside it.
    Parameter {
        /// The place of the parameter.
        place: ShapePosition,
        /// Whether an output shares its memory.
        aliased: bool,
    },
    /// A constant.
    Constant,
    /// Scratch of an applied computation.
    ThreadLocal,
    /// A tuple's pointer table.
    Tuple,
    /// Anything else: outputs and temporaries.
    Plain,
}

/// A value inside an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slice {
    /// The value.
    pub(crate) value: ValueId,
    /// Where it begins, in bytes from the start of the allocation.
    pub(crate) offset: u64,
    /// Bytes of its buffer.
    pub(crate) size: u64,
}

/// A block of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Bytes.
    pub(crate) size: u64,
    /// What it is for.
    pub(crate) kind: Kind,
    /// Whether it holds a value that the module returns.
    pub(crate) live_out: bool,
    /// The values stored in it.
    pub(crate) slices: Vec<Slice>,
}

impl Block {
    /// A block without values.
    pub(crate) const fn new(size: u64, kind: Kind) -> Self {
        Self { size, kind, live_out: false, slices: Vec::new() }
    }
    /// Whether the block is scratch of the run: not visible outside and not constant.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self.kind, Kind::Tuple | Kind::Plain) && !self.live_out
    }
    /// Whether other buffers may be stored in it at all.
    pub(crate) fn is_shareable(&self) -> bool {
        matches!(self.kind, Kind::Plain | Kind::Parameter { aliased: true, .. })
    }
}
