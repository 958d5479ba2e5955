//! What is left where a rule of the model meets a module that its author did not think of: the rule panics, and the answer is that there is none.
//!
//! A program that its compiler takes must never be refused over its figures, so the estimate falls back on rules that ask for less.

// Tests: `tests/odd.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many attempts are under way.
static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic may be one that [`attempt`] answers for: whoever reports panics need not speak of it.
pub fn is_attempting() -> bool {
    ATTEMPTS.load(Ordering::SeqCst) > 0
}

/// What `work` gives; `None` if it panics.
pub(crate) fn attempt<T>(work: impl FnOnce() -> T) -> Option<T> {
    ATTEMPTS.fetch_add(1, Ordering::SeqCst);
    // Nothing that `work` changes is looked at after a panic.
    let result = catch_unwind(AssertUnwindSafe(work));
    ATTEMPTS.fetch_sub(1, Ordering::SeqCst);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_no_answer() {
        assert_eq!(attempt(|| 1), Some(1));
        assert_eq!(attempt(|| -> u32 { panic!("planted: seen while {}", is_attempting()) }), None);
    }
}
