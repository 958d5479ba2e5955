//! What packagers install beside the command: completions for shells, and the manual page. Both are made from the declaration of the flags.

// Tests: `tests/cli.rs`.

use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::RawArgs;

/// The completion script of a shell.
pub(crate) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut RawArgs::command(), "hlo-opt", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The manual page, in roff.
pub(crate) fn manual() -> io::Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(RawArgs::command()).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
