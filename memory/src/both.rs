//! Two computations at once, where they are long enough for a thread of their own.

use std::panic::resume_unwind;
use std::thread;

/// Bytes of the second thread's stack, as many as programs usually begin with.
const STACK: usize = 8 << 20;

/// What both give; if `large`, `aside` runs on a thread of its own, unless the system has none left.
pub(crate) fn both<A: Send, B>(large: bool, aside: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    if !large {
        return (aside(), here());
    }
    let mut job = Some(aside);
    let slot = &mut job;
    let run = move || slot.take().map(|job| job());
    let (done, here) = thread::scope(|scope| {
        let started = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        let here = here();
        (started.ok().and_then(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))), here)
    });
    let late = || job.take().map(|job| job());
    (done.or_else(late).expect("the job runs on one thread or the other"), here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_answers_come_back_in_their_places() {
        for large in [false, true] {
            assert_eq!(both(large, || "aside", || 1), ("aside", 1));
        }
    }
}
