//! `hlo-ir`: HLO modules in memory.
//!
//! A [`Module`] owns two dense arenas, one of [`Computation`]s and one of [`Instruction`]s, addressed by `u32` newtype ids
//! ([`ComputationId`], [`InstructionId`]). An instruction names its operands by id; a computation holds the list of its
//! instructions in text order, which for a scheduled module is the schedule. Whatever a pass learns about a module lives in side tables
//! keyed by id ([`arena::SideTable`]), never in the module itself.
//!
//! Reading and writing text is [`text`]; changing a module is [`edit`] and nothing else; [`graph`] answers who uses whom; and
//! [`verify`] says whether a module is legal.

pub mod arena;
pub mod attribute;
pub mod diagnostic;
pub mod dims;
pub mod edit;
pub mod element_type;
pub mod graph;
pub mod hash;
pub mod infer;
pub mod literal;
pub mod module;
pub mod opcode;
pub mod shape;
pub mod text;
pub mod verify;

pub use arena::{ComputationId, InstructionId};
pub use attribute::{AttrKey, AttrValue, Attribute};
pub use diagnostic::{Diagnostic, Span};
pub use dims::{DotDims, GatherDims, ScatterDims};
pub use element_type::ElementType;
pub use module::{Computation, Instruction, Module, Payload, SourceLine};
pub use opcode::Opcode;
pub use shape::{ArrayShape, Layout, Shape};
