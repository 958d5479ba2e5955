//! Turns a panic into the message and the exit code of an internal error.

// Tests: `tests/mutated.rs`.

use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use crate::Exit;
use crate::messages::{Level, Messages};

/// Runs `work`; when it panics, says so in one message on standard error and answers [`Exit::Internal`]. Where the memory model stops at a
/// module, it says so itself.
pub(crate) fn guard(messages: Messages, work: impl FnOnce() -> Exit) -> Exit {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !hlo_memory::guard::is_attempting() {
            report(messages, info);
        }
    }));
    let exit = panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or(Exit::Internal);
    panic::set_hook(previous);
    exit
}

/// The message of an internal error.
fn report(messages: Messages, info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
    let what = format!("internal error: {}{place}", text.unwrap_or("no message"));
    messages.plain(Level::Error, "internal", &what, None);
    messages.remark("This is an error in hlo-opt, not in your program.\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_internal_error() {
        assert_eq!(guard(Messages::Json, || panic!("planted")), Exit::Internal);
        assert_eq!(guard(Messages::Json, || Exit::Found), Exit::Found);
    }
}
