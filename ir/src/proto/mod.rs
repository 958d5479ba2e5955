//! `HloProto` and `HloModuleProto`, the binary form of dumps (`--xla_dump_hlo_as_proto`), to modules and back.
//!
//! A message is read by writing it as the text that XLA prints for it and reading that, so both forms of a dump give the same
//! module. What a message holds that the text has no place for is an error or listed in [`Decoded::dropped`]; the other way round in
//! [`Encoded::dropped`]. Nothing is lost in silence.
//!
//! ```
//! use hlo_ir::{proto, text};
//!
//! let source = "\
//! HloModule m, entry_computation_layout={(f32[4]{0})->f32[4]{0}}
//!
//! ENTRY %main (x: f32[4]) -> f32[4] {
//!   %x = f32[4]{0} parameter(0)
//!   ROOT %y = f32[4]{0} negate(%x)
//! }
//! ";
//! let module = text::parse(source).expect("a legal text");
//! let encoded = proto::write(&module).expect("every field has a place");
//! let decoded = proto::read(&encoded.bytes).expect("what was just written");
//! assert_eq!(text::print(&decoded.module), source);
//! ```

// Tests: `ir/tests/proto.rs`.

mod asynchronous;
mod attributes;
mod buffers;
mod convolution;
mod float;
mod instruction;
mod literal;
pub(crate) mod message;
mod metadata;
mod names;
mod origin;
mod read;
mod scan;
mod shape;
pub(crate) mod sharding;
mod unknown;
mod write;

pub(crate) use float::small_bits;

pub use buffers::{Allocation, Assigned, BufferAssignment, LogicalBuffer};

use crate::{Diagnostic, Module};

/// A module as bytes.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// A serialized `HloProto` without buffer assignment.
    pub bytes: Vec<u8>,
    /// What the messages have no field for, such as `allow_spmd_sharding_propagation_to_output`: XLA keeps these outside the module.
    pub dropped: Vec<Diagnostic>,
}

/// A module from bytes.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The module, in the style of XLA's dumps.
    pub module: Module,
    /// XLA's own allocation, if the dump holds one.
    pub buffers: Option<BufferAssignment>,
    /// What the text form has no place for.
    pub dropped: Vec<Diagnostic>,
}

/// Writes a module as a serialized `HloProto`, which XLA reads. An error names every attribute that has no field.
pub fn write(module: &Module) -> Result<Encoded, Vec<Diagnostic>> {
    write::write(module)
}

/// Whether the text of a `frontend_attributes` value can be read: keys with strings or dictionaries.
pub(crate) fn check_frontend_attributes(text: &str) -> Result<(), String> {
    metadata::frontend(text).map(|_| ()).map_err(|problem| format!("cannot be read: {problem}"))
}

/// Whether the text of a `result_accuracy` value can be read: a mode or a tolerance.
pub(crate) fn check_result_accuracy(text: &str) -> Result<(), String> {
    metadata::accuracy(text).map(|_| ())
}

/// Whether XLA can read every string in the text of a value: only some letters may follow a backslash.
pub(crate) fn check_strings(text: &str) -> Result<(), String> {
    if !text.contains('\\') {
        return Ok(());
    }
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\'']) {
        let mut cursor = scan::Cursor::new(&rest[at..]);
        cursor.bytes().map_err(|problem| format!("has a string that cannot be read: {problem}"))?;
        rest = cursor.rest;
    }
    Ok(())
}

/// Reads a serialized `HloProto` or `HloModuleProto`.
pub fn read(bytes: &[u8]) -> Result<Decoded, Vec<Diagnostic>> {
    read::read(bytes)
}

/// Whether bytes are a serialized message rather than text. A message begins with the tag of a name or of a module. That byte is also a
/// newline, and the length behind it may be any character (a name of 13 letters), but only a message is no text: it has zeros, or is not UTF-8.
pub fn looks_like_proto(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x0a) && (bytes.contains(&0) || std::str::from_utf8(bytes).is_err())
}
