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
//!
//! A text that cannot be read gives every problem with its place, and so does a module that is not legal:
//!
//! ```
//! use hlo_ir::{text, verify};
//!
//! let wrong = "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] negate(z)\n}\n";
//! let problems = match text::parse(wrong) {
//!     Ok(module) => verify::verify(&module),
//!     Err(problems) => problems,
//! };
//! let place = problems[0].span.map(|span| text::line_column(wrong, span.start));
//! assert_eq!(place, Some((4, 26)));
//! assert_eq!(problems[0].message, "no instruction before this one in computation `e` is called `z`");
//! ```
//!
//! Who uses what, where it comes from in the user's program, and one value in place of another:
//!
//! ```
//! use hlo_ir::edit::Patch;
//! use hlo_ir::graph::Users;
//! use hlo_ir::literal::Literal;
//! use hlo_ir::{AttrKey, Instruction, Opcode, text};
//!
//! let mut module = text::parse("\
//! HloModule m
//!
//! ENTRY e {
//!   x = f32[1024,1024] parameter(0)
//!   one = f32[] constant(1)
//!   ones = f32[1024,1024] broadcast(one), dimensions={}
//!   y = f32[1024,1024] multiply(x, ones), metadata={op_name=\"scale\" source_file=\"a.py\" source_line=3}
//!   ROOT z = f32[1024,1024] negate(y)
//! }
//! ").expect("a legal text");
//! let users = Users::of(&module);
//! let mut patch = Patch::new(&module);
//! for (id, inst) in module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Multiply) {
//!     assert_eq!(inst.array().and_then(|array| array.elements()), Some(1 << 20));
//!     assert_eq!(module.source_line(id).map(|line| line.line), Some(3));
//!     assert_eq!(users.get(id).len(), 1);
//!     // `ones` is a broadcast of a constant 1: the product is `x`, of which the patch makes a copy.
//!     let splat = module.instruction(module.instruction(inst.operands[1]).operands[0]);
//!     if Literal::of(splat).and_then(|literal| literal.splat()) == Some("1") {
//!         let mut copy = Instruction::new("copy", inst.shape.clone(), Opcode::Copy, [inst.operands[0]]);
//!         if let Some(metadata) = inst.attribute(&AttrKey::Metadata) {
//!             copy.set_attribute(AttrKey::Metadata, metadata.clone());
//!         }
//!         let copy = patch.add(inst.parent, copy);
//!         patch.replace(id, copy);
//!         patch.remove(id);
//!     }
//! }
//! patch.apply(&mut module).expect("the patch fits the module");
//! assert_eq!(text::print(&module), "\
//! HloModule m
//!
//! ENTRY e {
//!   x = f32[1024,1024] parameter(0)
//!   copy = f32[1024,1024] copy(x), metadata={op_name=\"scale\" source_file=\"a.py\" source_line=3}
//!   ROOT z = f32[1024,1024] negate(copy)
//! }
//! ");
//! ```
//!
//! | To | see |
//! |---|---|
//! | read several modules of one file, print without metadata or with canonical names | [`text::pieces`], [`text::print_as`] |
//! | read and write `*.hlo.pb` | [`proto`] |
//! | know the shape that an instruction must have | [`infer::shape`] |
//! | read constants | [`literal::Literal`] |
//! | read dimension numbers of dots, convolutions, gathers and scatters | [`DotDims`], [`ConvDims`], [`GatherDims`], [`ScatterDims`] |
//! | keep something for every instruction | [`arena::SideTable`] |
//! | walk in an order, ask for callers or for all that depends on a value | [`graph`] |

pub mod arena;
pub mod attribute;
pub mod diagnostic;
pub mod dims;
pub mod edit;
pub mod element_type;
pub mod graph;
pub mod hash;
pub mod host;
pub mod infer;
pub mod literal;
mod literal_text;
pub mod metadata;
pub mod module;
pub mod opcode;
pub mod per_device;
pub mod proto;
pub mod replica_groups;
pub mod row_major;
pub mod shape;
pub mod text;
mod user_lines;
pub mod verify;

pub use arena::{ComputationId, InstructionId};
pub use attribute::{AttrKey, AttrValue, Attribute};
pub use diagnostic::{Diagnostic, Span};
pub use dims::{ConvDims, DotDims, GatherDims, ScatterDims};
pub use element_type::ElementType;
pub use literal_text::LiteralText;
pub use module::{Computation, Instruction, Module, Payload, SourceLine, StackFrame};
pub use opcode::Opcode;
pub use shape::{ArrayShape, Layout, Shape};
pub use user_lines::MadeAt;
