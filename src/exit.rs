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
    /// The graver of two ends: how a run of several modules ended.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        const GRAVITY: [Exit; 6] =
            [Exit::Done, Exit::Found, Exit::OverBudget, Exit::Usage, Exit::Input, Exit::Internal];
        let gravity = |exit: Self| GRAVITY.iter().position(|&entry| entry == exit);
        if gravity(other) > gravity(self) { other } else { self }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graver_end_wins() {
        assert_eq!(Exit::Found.or(Exit::Done), Exit::Found);
        assert_eq!(Exit::Found.or(Exit::Input), Exit::Input);
        assert_eq!(Exit::Internal.or(Exit::Input), Exit::Internal);
    }
}
