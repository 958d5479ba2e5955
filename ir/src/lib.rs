//! `hlo-ir`: HLO modules in memory.
//!
//! A [`Module`] owns two dense arenas, one of [`Computation`]s and one of [`Instruction`]s, addressed by `u32` newtype ids
//! ([`ComputationId`], [`InstructionId`]). An instruction names its operands by id; a computation holds the list of its
//! instructions in text order, which for a scheduled module is the schedule. Whatever a pass learns about a module lives in side tables
//! keyed by id ([`arena::SideTable`]), never in the module itself.
//!
//! Reading and writing text is [`text`]; changing a module is [`edit`] and nothing else; [`graph`] answers who uses whom; and
//! [`verify`] says whether a module is legal.
//!
//! Parse a dump, walk it, edit an instruction, print it:
//!
//! ```
//! use hlo_ir::edit::Patch;
//! use hlo_ir::{AttrKey, AttrValue, Opcode, text};
//! use hlo_ir::verify::verify;
//!
//! let dump = "\
//! HloModule jit_f, entry_computation_layout={(f32[8]{0}, f32[8]{0})->pred[8]{0}}
//!
//! ENTRY %main (x: f32[8], y: f32[8]) -> pred[8] {
//!   %x = f32[8]{0} parameter(0), metadata={op_name=\"x\"}
//!   %y = f32[8]{0} parameter(1)
//!   ROOT %lt = pred[8]{0} compare(%x, %y), direction=LT
//! }
//! ";
//! let mut module = text::parse(dump).expect("a legal text");
//! assert!(verify(&module).is_empty());
//! assert_eq!(text::print(&module), dump);
//!
//! // Walk: which instruction compares, and what?
//! let (id, compare) = module
//!     .instructions_of(module.entry())
//!     .find(|(_, inst)| inst.opcode == Opcode::Compare)
//!     .expect("the module has a compare");
//! let x = module.instruction(compare.operands[0]);
//! assert_eq!((x.name.as_str(), x.metadata("op_name")), ("x", Some("x")));
//!
//! // Edit: x < y is y > x.
//! let mut swapped = compare.clone();
//! swapped.operands.reverse();
//! swapped.set_attribute(AttrKey::Direction, AttrValue::Word("GT".into()));
//! let mut patch = Patch::new(&module);
//! patch.rewrite(id, swapped);
//! let undo = patch.apply(&mut module).expect("the patch fits the module");
//! assert!(text::print(&module).contains("ROOT %lt = pred[8]{0} compare(%y, %x), direction=GT"));
//!
//! undo.revert(&mut module);
//! assert_eq!(text::print(&module), dump);
//! ```

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
pub mod proto;
pub mod shape;
pub mod text;
pub mod verify;

pub use arena::{ComputationId, InstructionId};
pub use attribute::{AttrKey, AttrValue, Attribute};
pub use diagnostic::{Diagnostic, Span};
pub use dims::{ConvDims, DotDims, GatherDims, ScatterDims};
pub use element_type::ElementType;
pub use module::{Computation, Instruction, Module, Payload, SourceLine, StackFrame};
pub use opcode::Opcode;
pub use shape::{ArrayShape, Layout, Shape};
