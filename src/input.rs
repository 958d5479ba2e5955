//! Reads a module, text or binary, compressed or not, from a file or from standard input.

// Tests: `tests/inputs.rs`.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use hlo_ir::proto::BufferAssignment;
use hlo_ir::{Diagnostic, proto, text};

use crate::foreign::{self, Foreign};
use crate::unpack::{self, Packing, UnpackError};

/// Where the module comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// `-` or nothing.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// The source of an INPUT argument.
    pub(crate) fn new(argument: Option<PathBuf>) -> Self {
        match argument {
            Some(path) if path != Path::new("-") => Self::File(path),
            _ => Self::Stdin,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("<stdin>"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Why there is no input.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// The operating system refused.
    #[error("cannot read `{0}`: {1}")]
    Read(Source, io::Error),
    /// A directory where a file was expected.
    #[error("cannot read `{0}`: it is a directory")]
    Directory(Source),
    /// Not text.
    #[error(
        "`{source_name}` is not UTF-8 text: line {line}, offset {byte} (and it is no serialized HloProto, HloModuleProto or HloSnapshot)"
    )]
    NotText {
        /// The input.
        source_name: Source,
        /// Line of the first bad byte, counted from 1.
        line: usize,
        /// Its offset in the file.
        byte: usize,
    },
    /// A binary dump that cannot be read.
    #[error("`{0}` is a binary dump that cannot be read")]
    Proto(Source, Vec<Diagnostic>),
    /// An archive that cannot be unpacked.
    #[error("`{0}` is compressed by {1} and cannot be unpacked: {2}")]
    Packed(Source, Packing, UnpackError),
    /// A file of another kind.
    #[error("`{0}` is no HLO: it is {1}")]
    Foreign(Source, Foreign),
    /// Byte offsets are 32 bits wide.
    #[error("`{0}` is larger than 4 GiB")]
    TooLarge(Source),
}

impl InputError {
    /// Name of the input, and what to do.
    pub(crate) fn advice(&self) -> Option<(String, String)> {
        let (source, help) = match self {
            Self::Foreign(source, foreign) => (source, foreign.help),
            Self::Packed(source, _, UnpackError::TooLarge { .. }) => {
                (source, "if that is right, unpack it and give the file")
            }
            Self::Packed(source, _, UnpackError::Window) => (source, "`zstd -d --long=31 FILE` unpacks it"),
            _ => return None,
        };
        Some((source.to_string(), help.to_owned()))
    }
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Input {
    /// What messages call it.
    pub(crate) name: String,
    /// Its text; of a binary dump, the text that XLA would have dumped.
    pub(crate) text: String,
    /// What a binary dump holds that the text has no place for.
    pub(crate) dropped: Vec<Diagnostic>,
    /// The allocation that XLA made, if a binary dump holds it.
    pub(crate) buffers: Option<BufferAssignment>,
}

/// Reads the whole input; its content, not its name, says whether it is compressed, and whether text or a serialized message.
pub(crate) fn read(source: &Source) -> Result<Input, InputError> {
    let bytes = match source {
        Source::Stdin => read_stdin(),
        Source::File(path) if path.is_dir() => return Err(InputError::Directory(source.clone())),
        Source::File(path) => std::fs::read(path),
    }
    .map_err(|error| InputError::Read(source.clone(), error))?;
    match unpack::packing(&bytes) {
        None => of_bytes(bytes, source, ""),
        Some(packing) => {
            let content = unpack::unpack(&bytes, packing);
            let content = content.map_err(|error| InputError::Packed(source.clone(), packing, error))?;
            of_bytes(content, source, " (unpacked)")
        }
    }
}

/// The input that bytes are; `state` follows the source's name where places are those of other bytes than the file's.
fn of_bytes(bytes: Vec<u8>, source: &Source, state: &str) -> Result<Input, InputError> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(InputError::TooLarge(source.clone()));
    }
    if proto::looks_like_proto(&bytes) {
        return of_message(&bytes, source);
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        if let Some(foreign) = foreign::of_bytes(error.as_bytes()) {
            return InputError::Foreign(source.clone(), foreign);
        }
        let byte = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..byte].split(|&byte| byte == b'\n').count();
        InputError::NotText { source_name: source.clone(), line, byte }
    })?;
    let foreign = if text.contains('\0') { foreign::of_bytes(text.as_bytes()) } else { foreign::of_text(&text) };
    match foreign {
        Some(foreign) => Err(InputError::Foreign(source.clone(), foreign)),
        None => Ok(Input { name: format!("{source}{state}"), text, dropped: Vec::new(), buffers: None }),
    }
}

/// The input that a serialized message is.
fn of_message(bytes: &[u8], source: &Source) -> Result<Input, InputError> {
    let decoded = proto::read(bytes).map_err(|problems| match foreign::of_message(bytes) {
        Some(foreign) => InputError::Foreign(source.clone(), foreign),
        None => InputError::Proto(source.clone(), problems),
    })?;
    let name = format!("{source} (as text)");
    let text = text::print(&decoded.module);
    Ok(Input { name, text, dropped: decoded.dropped, buffers: decoded.buffers })
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}
