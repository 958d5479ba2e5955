//! Turns a panic into the message and the exit code of an internal error.

use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use crate::Exit;

/// Runs `work`; when it panics, says so in one line on standard error and answers [`Exit::Internal`].
pub(crate) fn guard(work: impl FnOnce() -> Exit) -> Exit {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(report));
    let exit = panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or(Exit::Internal);
    panic::set_hook(previous);
    exit
}

/// The message of an internal error. Errors of the write itself have nowhere to go.
fn report(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let what = text.unwrap_or("no message");
    let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
    let _ =
        writeln!(std::io::stderr(), "internal error: {what}{place}\nThis is an error in hlo-opt, not in your program.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_internal_error() {
        assert_eq!(guard(|| panic!("planted")), Exit::Internal);
        assert_eq!(guard(|| Exit::Found), Exit::Found);
    }
}
