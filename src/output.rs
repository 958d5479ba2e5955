//! Writes results so that a file is either the whole new text or untouched: everything goes to a temporary file in the same folder, and
//! renaming it comes last, when nothing else can fail any more.

// Tests: `tests/cli.rs`.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Where a result goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sink {
    /// `-` or nothing.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Sink {
    /// The sink of an `--output` argument.
    pub(crate) fn new(argument: Option<PathBuf>) -> Self {
        match argument {
            Some(path) if path != Path::new("-") => Self::File(path),
            _ => Self::Stdout,
        }
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Why `path` can never be written, as far as it can be known before any work: it is a directory, or its folder is missing.
pub(crate) fn obstacle(path: &Path) -> Option<String> {
    if path.is_dir() {
        return Some(format!("cannot write `{}`: it is a directory", path.display()));
    }
    let folder = folder_of(path);
    (!folder.is_dir()).then(|| format!("cannot write `{}`: there is no folder `{}`", path.display(), folder.display()))
}

/// The folder a file stands in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A failed write.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{sink}`: {error}")]
pub(crate) struct OutputError {
    sink: Sink,
    /// What the operating system said.
    pub(crate) error: io::Error,
}

/// Results that are complete but not yet visible.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    files: Vec<Prepared>,
    stdout: Vec<Vec<u8>>,
}

/// One file result.
#[derive(Debug)]
enum Prepared {
    /// Will replace the file of that name.
    Temporary(NamedTempFile, PathBuf),
    /// A device or pipe: there is nothing to replace.
    Direct(PathBuf, Vec<u8>),
}

impl Outputs {
    /// Takes a result; what can fail for a file fails here.
    pub(crate) fn prepare(&mut self, sink: &Sink, content: impl Into<Vec<u8>>) -> Result<(), OutputError> {
        match sink {
            Sink::Stdout => self.stdout.push(content.into()),
            Sink::File(path) => {
                let prepared =
                    prepare(path, content.into()).map_err(|error| OutputError { sink: sink.clone(), error })?;
                self.files.push(prepared);
            }
        }
        Ok(())
    }

    /// Makes everything visible: standard output first, since it can fail and a rename hardly can.
    pub(crate) fn commit(self) -> Result<(), OutputError> {
        print(&self.stdout).map_err(|error| OutputError { sink: Sink::Stdout, error })?;
        for prepared in self.files {
            prepared.commit()?;
        }
        Ok(())
    }
}

impl Prepared {
    fn commit(self) -> Result<(), OutputError> {
        let (path, result) = match self {
            Self::Temporary(file, path) => (path.clone(), file.persist(path).map(drop).map_err(|error| error.error)),
            Self::Direct(path, content) => (path.clone(), write_direct(&path, &content)),
        };
        result.map_err(|error| OutputError { sink: Sink::File(path), error })
    }
}

/// Writes `content` next to the file it will become.
fn prepare(path: &Path, content: Vec<u8>) -> io::Result<Prepared> {
    // A symbolic link keeps pointing where it does: what it names is replaced, not the link.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let existing = fs::metadata(&path).ok();
    if existing.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        return Ok(Prepared::Direct(path, content));
    }
    let permissions = existing.map(|metadata| metadata.permissions());
    if permissions.as_ref().is_some_and(Permissions::readonly) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
    }
    let mut file = temporary(folder_of(&path))?;
    file.write_all(&content)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    Ok(Prepared::Temporary(file, path))
}

/// A temporary file that gets the permissions of an ordinary new file when it stays.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".hlo-opt-");
    #[cfg(unix)]
    builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
    builder.tempfile_in(folder)
}

fn write_direct(path: &Path, content: &[u8]) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(content)
}

/// Prints on standard output. A reader that went away has seen all it wanted: that is success.
pub(crate) fn print(products: &[Vec<u8>]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let result = products.iter().try_for_each(|product| out.write_all(product)).and_then(|()| out.flush());
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
