//! Larger lists for a large graph, in memory that was written to before: the system hands out memory page by page when it is first written to,
//! and the one who writes waits. Fusions double a graph, so another thread writes while the passes before them run.

use std::mem;
use std::thread::{Builder, JoinHandle};

use hlo_ir::arena::{Arena, Id};
use hlo_ir::module::Operands;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{ComputationId, Instruction, InstructionId, Opcode, Shape};
use smol_str::SmolStr;

use super::users::Users;
use super::{Body, Graph, ListPosition, REMOVED};
use crate::parallel::{drop_in_background, join};

/// Lists under way.
pub(super) type PendingLists = Option<JoinHandle<Lists>>;

/// Empty lists, as a graph has them.
#[derive(Debug, Default)]
pub(super) struct Lists {
    insts: Vec<Instruction>,
    inputs: Vec<Operands>,
    users: Vec<Users>,
    places: Vec<ListPosition>,
    results: Vec<ShapeRef>,
    origins: Vec<Option<InstructionId>>,
    fused: Vec<Option<ComputationId>>,
    bodies: Vec<Body>,
}

impl Lists {
    fn new(instructions: usize, bodies: usize) -> Self {
        let shape = ShapeRef::from(Shape::Token);
        let place = ListPosition { parent: ComputationId::new(0), slot: REMOVED };
        Self {
            insts: written(instructions, || Instruction::new(SmolStr::default(), shape.clone(), Opcode::Tuple, [])),
            inputs: written(instructions, Operands::new),
            users: written(instructions, Users::new),
            places: written(instructions, || place),
            results: written(instructions, || shape.clone()),
            origins: written(instructions, || None),
            fused: written(instructions, || None),
            bodies: written(bodies, || Body::new(SmolStr::default())),
        }
    }
}

/// An empty list with memory for that many items that was written to, and for a third more that was not.
fn written<T>(count: usize, hollow: impl Fn() -> T) -> Vec<T> {
    let mut list = Vec::with_capacity(count + count / 3);
    list.extend(std::iter::repeat_with(hollow).take(count));
    list.clear();
    list
}

/// Moves what a list holds into `room`, if that is larger; the old memory remains.
fn fill<T>(room: &mut Vec<T>, list: &mut Vec<T>) {
    if room.capacity() > list.len() {
        room.append(list);
        mem::swap(room, list);
    }
}

fn fill_arena<I: Id, T>(room: &mut Vec<T>, arena: &mut Arena<I, T>) {
    let mut list = mem::take(arena).into_items();
    fill(room, &mut list);
    *arena = Arena::from(list);
}

impl Graph {
    /// Has room made for what a graph becomes: training steps grow to three times their size. Where no thread can be had, there is none.
    pub(super) fn prefault_lists(&mut self) {
        let (instructions, bodies) = (25 * self.insts.len() / 8, self.bodies.len() + 3 * self.insts.len() / 8);
        if self.is_large() {
            *self.spare.take_turn() = Builder::new().spawn(move || Lists::new(instructions, bodies)).ok();
        }
    }

    /// Moves into the room that was made.
    pub(crate) fn move_to_prefaulted_lists(&mut self) {
        let Some(Ok(mut room)) = self.spare.take_turn().take().map(JoinHandle::join) else { return };
        let (insts, inputs, users) = (&mut self.insts, &mut self.inputs, &mut self.users);
        let rest = || {
            fill_arena(&mut room.inputs, inputs);
            fill_arena(&mut room.users, users);
        };
        join(true, rest, || fill_arena(&mut room.insts, insts));
        fill_arena(&mut room.places, &mut self.places);
        fill_arena(&mut room.bodies, &mut self.bodies);
        fill(&mut room.results, &mut self.results);
        fill(&mut room.origins, &mut self.origins);
        fill(&mut room.fused, &mut self.fused);
        drop_in_background(true, room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_list_holds_moves_into_larger_room_only() {
        let mut list = vec![1, 2, 3];
        let mut room = written(100, || 0);
        fill(&mut room, &mut list);
        assert_eq!((list.as_slice(), list.capacity() >= 100, room.as_slice()), (&[1, 2, 3][..], true, &[][..]));
        let mut small = written(2, || 0);
        fill(&mut small, &mut list);
        assert_eq!((list.as_slice(), list.capacity() >= 100), (&[1, 2, 3][..], true));
    }
}
