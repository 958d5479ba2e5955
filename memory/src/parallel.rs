//! Work for other threads, where there is enough of it for a thread of its own.

use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;

/// Bytes of a thread's stack, as many as programs usually begin with.
const STACK: usize = 8 << 20;

/// What both give; if `large`, `aside` runs on a thread of its own, unless the system has none left.
pub(crate) fn join<A: Send, B>(large: bool, aside: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
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

/// What `work` makes of each item, on a thread of its own; `None` where no thread can be had, and where it panics.
pub fn side_by_side<I: Copy + Send, T: Send>(items: &[I], work: impl Fn(I) -> T + Sync) -> Vec<Option<T>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |item| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || work(item));
        let started: Vec<_> = items.iter().map(|&item| start(item)).collect();
        started.into_iter().map(|thread| thread.ok()?.join().ok()).collect()
    })
}

/// Items that another thread makes at a time.
const PIECE: usize = 4096;
/// Pieces that wait at most.
const WAITING: usize = 4;

/// Hands what `make` gives for each item to `take`, in order. If the items are many, another thread makes them ahead, piece by piece.
pub(crate) fn prefetch<I: Sync, T: Send>(items: &[I], make: impl Fn(&I) -> T + Sync, mut take: impl FnMut(&I, T)) {
    if items.len() < 4 * PIECE {
        return items.iter().for_each(|item| take(item, make(item)));
    }
    let all = |piece: &[I]| -> Vec<T> { piece.iter().map(&make).collect() };
    thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel(WAITING);
        // Where no thread can be had, nothing will come, and the same if nobody wants any more.
        let _ = thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, move || items.chunks(PIECE).try_for_each(|piece| send.send(all(piece))));
        for piece in items.chunks(PIECE) {
            let ready = receive.recv().unwrap_or_else(|_| all(piece));
            piece.iter().zip(ready).for_each(|(item, done)| take(item, done));
        }
    });
}

/// Frees something; on a thread of its own if it is `large`, because nobody need wait for it.
pub(crate) fn drop_in_background<T: Send + 'static>(large: bool, what: T) {
    if large {
        // Where no thread can be had, it goes with what should have run there.
        let _ = thread::Builder::new().spawn(move || drop(what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_ahead_comes_in_order() {
        for count in [0, 5, 9 * PIECE + 1] {
            let items: Vec<usize> = (0..count).collect();
            let mut taken = Vec::new();
            prefetch(&items, |item| 2 * item, |&item, made| taken.push((item, made)));
            assert!(taken.iter().copied().eq((0..count).map(|item| (item, 2 * item))), "{count}");
        }
    }

    #[test]
    fn what_is_made_side_by_side_keeps_its_place() {
        let made = side_by_side(&[1, 2, 3], |item| if item == 2 { panic!("planted") } else { 2 * item });
        assert_eq!(made, [Some(2), None, Some(6)]);
    }

    #[test]
    fn both_answers_come_back_in_their_places() {
        for large in [false, true] {
            assert_eq!(join(large, || "aside", || 1), ("aside", 1));
        }
    }
}
