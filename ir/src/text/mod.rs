//! HLO text: [`parse`] reads it, [`print()`] writes it, [`print_as`] leaves out what a reader does not need. The two meet only in the IR.
//!
//! The format, by example (comments `// ...` and `/* ... */` may stand between any two tokens, line ends mean nothing):
//!
//! ```text
//! HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[]}
//!
//! %sum (a: f32[], b: f32[]) -> f32[] {
//!   %a = f32[] parameter(0)
//!   %b = f32[] parameter(1)
//!   ROOT %add = f32[] add(%a, %b)
//! }
//!
//! ENTRY %main (x: f32[8]) -> f32[] {
//!   %x = f32[8]{0} parameter(0), metadata={op_name="x"}
//!   %zero = f32[] constant(0)
//!   ROOT %reduce = f32[] reduce(%x, %zero), dimensions={0}, to_apply=%sum
//! }
//! ```
//!
//! The header may be missing, the percent signs and the `(parameters) -> result` part too; a text may also be one instruction
//! alone. Operands, callees and control predecessors must be defined before they are used. The instruction marked `ROOT` is the
//! root, else the last one; the computation marked `ENTRY` is the entry, else the last one. Operand shapes of older dumps are
//! checked and dropped. Attributes whose value this version has no form for, literals, and opcodes it does not know are
//! kept verbatim, and what no pass touched is printed back as it was read.
//!
//! The shape written in front of a `send`, `send-done`, `recv-done`, `outfeed` or `after-all` does not matter, as in XLA: these have the one
//! that their operands imply.
//!
//! Known gaps against XLA: a module is not renumbered or renamed on reading; a near miss of a known opcode is an error
//! even if a later XLA should know it.

// Tests: `ir/tests/corpus.rs`, `ir/tests/external.rs`, `ir/tests/generated.rs`, `ir/tests/limits.rs`, `ir/tests/probes.rs`, `tests/mutated.rs`.

mod attribute;
mod computation;
mod errors;
mod instruction;
mod interned_text;
mod lex;
mod literal;
mod module;
mod print;
mod shape;
mod shaped;
mod similar;
mod split;
mod stack;
mod state;
mod style;
mod window;

pub(crate) use lex::skip_blank;
pub use print::print;
pub(crate) use shaped::{parts, shaped_literal};
pub(crate) use similar::closest;
pub use split::{Piece, join, pieces};
pub use style::{Style, print_as};

use state::State;

use crate::shape::ShapeRef;
use crate::{Diagnostic, Module};

/// Reads one module. Several problems may be reported at once; there is at least one when it fails.
pub fn parse(text: &str) -> Result<Module, Vec<Diagnostic>> {
    if u32::try_from(text.len()).is_err() {
        return Err(vec![errors::text_too_long()]);
    }
    let mut state = State::new(text);
    if let Err(error) = module::module(&mut state) {
        state.note(error);
    }
    if !state.problems.is_empty() {
        return Err(state.problems);
    }
    state.module.style.final_blank_line = text.ends_with("\n\n");
    Ok(state.module)
}

/// Reads `{(shape, ...)->shape}`, the value of `entry_computation_layout`.
pub(crate) fn program_layout(text: &str) -> Option<(Vec<ShapeRef>, ShapeRef)> {
    shape::program_layout(text).ok().map(|(_, layout)| layout)
}

/// Reads a shape at the start of a text; also what stands behind it and the blanks.
pub(crate) fn leading_shape(text: &str) -> Result<(&str, ShapeRef), String> {
    shape::Shapes::default().shape(text).map(|(rest, shape)| (skip_blank(rest), shape)).map_err(|error| match error {
        nom::Err::Error(problem) | nom::Err::Failure(problem) => {
            problem.report.map_or_else(|| "a shape expected".to_owned(), |report| report.message.clone())
        }
        nom::Err::Incomplete(_) => unreachable!("complete parsers never ask for more input"),
    })
}

/// Line and column of a byte of `text`, both counted from 1, columns in bytes. An offset behind the end is the end.
pub fn line_column(text: &str, offset: u32) -> (usize, usize) {
    let before = &text.as_bytes()[..text.len().min(offset as usize)];
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |at| at + 1) + 1;
    (line, column)
}
