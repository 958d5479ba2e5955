//! What is wrong with a command line.

// Tests: `tests/errors.rs`.

/// A command line that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);
