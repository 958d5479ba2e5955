//! What is wrong with a command line.

/// A command line that cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);
