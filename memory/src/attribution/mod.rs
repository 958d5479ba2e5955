//! Who holds the memory at the peak, and why: the buffers alive there with their origin, role and next reader, sums by source line and by
//! operation path, what the gap above the floor consists of, and the course of memory over the program.
//!
//! The figures are read off a finished assignment; nothing here decides where anything is stored.

// Tests: `memory/tests/attribution.rs`.

mod collect;
mod groups;
mod points;
mod scratch;
pub mod what_if;

use smol_str::SmolStr;

use crate::Bytes;
pub use crate::holder::{Holder, NextUser, Role};

pub use self::collect::HOLDERS;
pub(crate) use self::collect::explained;
pub use self::points::POINTS;
pub(crate) use self::scratch::most_hidden;
pub use self::what_if::{Change, WhatIf};

/// What explains an estimate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Details {
    /// Who holds the memory at the peak.
    pub attribution: Attribution,
    /// What changes of the program's interface would save.
    pub what_ifs: Vec<WhatIf>,
}

/// Who holds the memory at the peak.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attribution {
    /// The step of the schedule at which the peak is.
    pub peak_step: u32,
    /// Number of steps of the schedule.
    pub steps: u32,
    /// Buffers alive at the peak, largest first, at most [`HOLDERS`].
    pub holders: Vec<Holder>,
    /// Number of buffers alive at the peak that are not listed.
    pub unlisted: usize,
    /// Their bytes.
    pub unlisted_bytes: Bytes,
    /// All buffers alive at the peak by source line, largest sum first.
    pub by_source: Vec<Group>,
    /// All buffers alive at the peak by the path of their operation's name, largest sum first.
    pub by_path: Vec<Group>,
    /// What the gap consists of.
    pub gap: Gap,
    /// Memory inside library fusions that is in no figure, largest first; it comes on top while the fusion runs.
    pub hidden_scratch: Vec<Hidden>,
    /// Memory over the program, at most [`POINTS`] points; the largest value of every interval is kept.
    pub points: Vec<Point>,
}

/// Buffers with something in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// What they have in common; a word in parentheses for buffers without the property.
    pub key: String,
    /// Sum of their sizes.
    pub bytes: Bytes,
    /// How many they are.
    pub count: usize,
    /// Name of the largest.
    pub largest: SmolStr,
}

/// What lies between the floor and the total; the parts add up to exactly that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gap {
    /// Temporaries in use at the peak, by source line, largest sum first.
    pub temporaries: Vec<Group>,
    /// Bytes of the block of temporaries that nothing uses at the peak: alignment, holes, and space that only other moments need.
    pub idle: Bytes,
    /// Constants.
    pub constants: Bytes,
    /// Scratch of applied computations (reducers, comparators).
    pub thread_local: Bytes,
}

/// Estimated memory of a library fusion that the compiler's report leaves out, and so do our figures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hidden {
    /// The fusion.
    pub instruction: SmolStr,
    /// The computation it stands in.
    pub computation: SmolStr,
    /// `file:line` of the user's program, if the module carries it.
    pub source: Option<String>,
    /// Its scratch.
    pub bytes: Bytes,
}

/// Memory at one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// The step.
    pub step: u32,
    /// Bytes alive.
    pub bytes: Bytes,
    /// The instruction that runs.
    pub instruction: SmolStr,
    /// The computation it stands in.
    pub computation: SmolStr,
    /// `file:line` of the user's program, if the module carries it.
    pub source: Option<String>,
}
