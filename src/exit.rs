//! The exit codes, part of the command line's contract.

use std::process::ExitCode;

/// How a run ended. The numbers are a contract: scripts rely on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// The work was done.
    Done = 0,
    /// The input cannot be read or is not a legal module, or the result cannot be written.
    Input = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// An error in this tool.
    Internal = 3,
    /// The peak does not fit the budget.
    OverBudget = 4,
    /// `--check` found a rewrite that would help.
    Found = 5,
}

impl Exit {
    /// The process's exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
