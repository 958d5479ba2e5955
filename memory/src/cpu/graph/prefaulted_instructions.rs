//! Memory for the modules that will be made of a large graph. The system hands out memory when it is first written to, page by page, and the one
//! who writes waits; so another thread writes first, while passes run.

use std::mem;
use std::thread::{Builder, JoinHandle};

use hlo_ir::shape::ShapeRef;
use hlo_ir::{Instruction, Opcode, Shape};
use smol_str::SmolStr;

/// Instructions under way or at hand.
#[derive(Debug, Default)]
pub(super) enum PrefaultedInstructions {
    /// Nobody asked for any, or all was given away.
    #[default]
    None,
    /// Another thread makes it.
    Pending(JoinHandle<Vec<Vec<Instruction>>>),
    /// Empty lists.
    Here(Vec<Vec<Instruction>>),
}

impl PrefaultedInstructions {
    /// Has room made for lists of so many instructions. Where no thread can be had, there is none.
    pub(super) fn order(counts: Vec<usize>) -> Self {
        let make = move || counts.into_iter().map(list).collect();
        Builder::new().spawn(make).map_or(Self::None, Self::Pending)
    }

    /// An empty list: the smallest with so much room, or the largest, which may have none.
    pub(super) fn take(&mut self, wanted: usize) -> Vec<Instruction> {
        let mut lists = match mem::take(self) {
            Self::None => return Vec::new(),
            // What went wrong there does not matter here.
            Self::Pending(thread) => thread.join().unwrap_or_default(),
            Self::Here(lists) => lists,
        };
        let waste = |list: &Vec<Instruction>| {
            let room = list.capacity();
            if room < wanted { (1, usize::MAX - room) } else { (0, room) }
        };
        let best = (0..lists.len()).min_by_key(|&place| waste(&lists[place]));
        let list = best.map(|place| lists.swap_remove(place)).unwrap_or_default();
        *self = Self::Here(lists);
        list
    }
}

/// An empty list whose memory was written to.
fn list(count: usize) -> Vec<Instruction> {
    let shape = ShapeRef::from(Shape::Token);
    let hollow = || Instruction::new(SmolStr::default(), shape.clone(), Opcode::Tuple, []);
    let mut list: Vec<Instruction> = std::iter::repeat_with(hollow).take(count).collect();
    list.clear();
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_suffices_is_given_away_and_then_there_is_none() {
        let mut room = PrefaultedInstructions::order(vec![70, 90, 80, 80]);
        let lists = [71, 10, 95, 1, 1].map(|wanted| room.take(wanted));
        assert_eq!(lists.map(|list| (list.len(), list.capacity())), [(0, 80), (0, 70), (0, 90), (0, 80), (0, 0)]);
    }
}
