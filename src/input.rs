//! Reads a module, text or binary, from a file or from standard input.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use hlo_ir::proto::BufferAssignment;
use hlo_ir::{Diagnostic, proto, text};

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
        "`{source_name}` is not UTF-8 text: line {line}, offset {byte} (and it is no serialized HloProto or HloModuleProto)"
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
    /// Byte offsets are 32 bits wide.
    #[error("`{0}` is larger than 4 GiB")]
    TooLarge(Source),
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

/// Reads the whole input; its content, not its name, says whether it is text or a serialized message.
pub(crate) fn read(source: &Source) -> Result<Input, InputError> {
    let bytes = match source {
        Source::Stdin => read_stdin(),
        Source::File(path) if path.is_dir() => return Err(InputError::Directory(source.clone())),
        Source::File(path) => std::fs::read(path),
    }
    .map_err(|error| InputError::Read(source.clone(), error))?;
    if u32::try_from(bytes.len()).is_err() {
        return Err(InputError::TooLarge(source.clone()));
    }
    if proto::looks_like_proto(&bytes) {
        let decoded = proto::read(&bytes).map_err(|problems| InputError::Proto(source.clone(), problems))?;
        let name = format!("{source} (as text)");
        let text = text::print(&decoded.module);
        return Ok(Input { name, text, dropped: decoded.dropped, buffers: decoded.buffers });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..byte].split(|&byte| byte == b'\n').count();
        InputError::NotText { source_name: source.clone(), line, byte }
    })?;
    Ok(Input { name: source.to_string(), text, dropped: Vec::new(), buffers: None })
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}
