//! First and third stage: blocks for parameters, constants, outputs and tuples, temporaries that fit into them, and scratch of applied
//! computations. What is left over goes to the heap.
//!
//! Source: `BufferAssigner::AssignBuffersForComputations`, `AssignSingleHloBuffer`, `MaybeAssignBuffer` and
//! `BufferAssigner::LiveRangeInterferes` (xla/service/buffer_assignment.cc).

// Tests: `memory/tests/rules.rs`.

use std::cmp::Reverse;

use hlo_ir::arena::Id;
use hlo_ir::{InstructionId, Opcode, Shape};

use super::aliases::Buffers;
use super::allocation::{Block, Kind, Slice};
use super::classes::Class;
use super::flow::Flow;
use super::occupancy::Occupancy;
use super::ranges::{Range, Ranges, aliased_places};
use super::reusable::{Pieces, Reusable};
use super::shape_positions::ShapePosition;
use super::values::ValueId;

const NONE: u32 = u32::MAX;

/// The blocks made so far.
pub(crate) struct Greedy<'a, 'm> {
    flow: &'a Flow<'m>,
    buffers: &'a Buffers,
    ranges: &'a Ranges,
    sizes: &'a [u64],
    live_out: Vec<bool>,
    aliased: Vec<ShapePosition>,
    blocks: Vec<Block>,
    occupancy: Vec<Occupancy>,
    pieces: Pieces,
    reusable: Reusable,
    block_of: Vec<u32>,
    heap: Vec<u32>,
}

/// What the greedy stages made.
pub(crate) struct Placed {
    /// Blocks in the order of their creation.
    pub(crate) blocks: Vec<Block>,
    /// Buffers left to the heap.
    pub(crate) heap: Vec<u32>,
}

impl<'a, 'm> Greedy<'a, 'm> {
    /// Nothing placed yet; `sizes` holds the bytes of each buffer.
    pub(crate) fn new(flow: &'a Flow<'m>, buffers: &'a Buffers, ranges: &'a Ranges, sizes: &'a [u64]) -> Self {
        Self {
            flow,
            buffers,
            ranges,
            sizes,
            live_out: live_out(flow, buffers),
            aliased: aliased_places(flow),
            blocks: Vec::new(),
            occupancy: Vec::new(),
            pieces: Pieces::of(ranges.last()),
            reusable: Reusable::default(),
            block_of: vec![NONE; flow.values.table_len()],
            heap: Vec::new(),
        }
    }
    /// Places the buffers of the global computations.
    pub(crate) fn global(mut self) -> Placed {
        for buffer in self.sorted(Class::Global) {
            self.place_global(buffer);
        }
        Placed { blocks: self.blocks, heap: self.heap }
    }
    /// Gives every buffer of the applied computations a block of its own.
    pub(crate) fn thread_local(mut self) -> Vec<Block> {
        for buffer in self.sorted(Class::ThreadLocal) {
            let constant = self.buffers.values(buffer).any(|value| self.opcode(value) == Opcode::Constant);
            self.new_block(buffer, if constant { Kind::Constant } else { Kind::ThreadLocal });
        }
        self.blocks
    }

    /// The buffers of one class: largest first, those that live out before others, then by the earliest instruction in an order that has
    /// callers before callees.
    fn sorted(&self, class: Class) -> Vec<u32> {
        let rank = self.ranks(class);
        let mut keyed: Vec<_> = (0..self.buffers.len())
            .filter(|&buffer| self.class(self.buffers.first_value(buffer)) == class)
            .map(|buffer| {
                let ranks = self.buffers.values(buffer).map(|value| rank[self.owner(value).index()]);
                let size = self.sizes[buffer as usize];
                (Reverse(size), !self.live_out[buffer as usize], ranks.min().unwrap_or(NONE), buffer)
            })
            .collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, _, _, buffer)| buffer).collect()
    }
    /// Position of each instruction of a class: computations from last to first, post-order inside.
    fn ranks(&self, class: Class) -> Vec<u32> {
        let module = self.flow.module;
        let mut rank = vec![NONE; module.instruction_count()];
        let mut next = 0;
        for &computation in module.computation_ids().iter().rev() {
            if self.flow.classes.class(computation) == class {
                for id in self.flow.places.post_order(computation) {
                    rank[id.index()] = next;
                    next += 1;
                }
            }
        }
        rank
    }

    fn place_global(&mut self, buffer: u32) {
        if self.place_fixed(buffer) || self.place_with_operand(buffer) || self.place_in_reusable(buffer) {
            return;
        }
        if self.live_out[buffer as usize] {
            let block = self.new_block(buffer, Kind::Plain);
            self.add_reusable(block);
        } else {
            self.heap.push(buffer);
        }
    }
    /// Constants and entry parameters have blocks of their own.
    fn place_fixed(&mut self, buffer: u32) -> bool {
        let entry = self.flow.module.entry();
        for value in self.buffers.values(buffer) {
            let inst = self.flow.module.instruction(self.owner(value));
            match inst.opcode {
                Opcode::Constant => {
                    self.new_block(buffer, Kind::Constant);
                    return true;
                }
                Opcode::Parameter if inst.parent == entry => {
                    let place = self.flow.values.place(value);
                    let aliased = self.aliased.binary_search(&place).is_ok();
                    let block = self.new_block(buffer, Kind::Parameter { place, aliased });
                    if aliased {
                        self.add_reusable(block);
                    }
                    return true;
                }
                _ => {}
            }
        }
        false
    }
    /// A tuple's table has a block of its own; any other value is first tried where its operands stand.
    fn place_with_operand(&mut self, buffer: u32) -> bool {
        for value in self.buffers.values(buffer) {
            let place = self.flow.values.place(value);
            if matches!(self.flow.places.shape(place), Shape::Tuple(_)) {
                self.new_block(buffer, Kind::Tuple);
                return true;
            }
            if self.flow.places.offset(place) > 0 {
                continue;
            }
            for &operand in &self.flow.module.instruction(self.owner(value)).operands {
                let block = self.value_of(operand).map_or(NONE, |value| self.block_of[value.index()]);
                if block != NONE && self.fits(block, buffer) {
                    self.store(block, buffer);
                    return true;
                }
            }
        }
        false
    }
    fn place_in_reusable(&mut self, buffer: u32) -> bool {
        let (size, live_out) = (self.sizes[buffer as usize], self.live_out[buffer as usize]);
        let ranges = self.buffers.values(buffer).filter_map(|value| self.ranges.get(value));
        let needed = ranges.fold(0, |pieces, range| pieces | self.pieces.needed(range));
        // Blocks are made largest first, so all before a larger one are larger still.
        let found = self
            .reusable
            .candidates(needed)
            .take_while(|&number| !live_out || self.blocks[self.reusable.block(number) as usize].size == size)
            .find(|&number| self.fits(self.reusable.block(number), buffer));
        if let Some(number) = found {
            self.store(self.reusable.block(number), buffer);
            self.reusable.fill(number, self.filled(buffer));
        }
        found.is_some()
    }
    fn add_reusable(&mut self, block: u32) {
        let values = self.blocks[block as usize].slices.iter().map(|slice| slice.value);
        let busy = values.fold(0, |pieces, value| pieces | self.filled_by(value));
        self.reusable.push(block, busy);
    }
    fn filled(&self, buffer: u32) -> u64 {
        self.buffers.values(buffer).fold(0, |pieces, value| pieces | self.filled_by(value))
    }
    fn filled_by(&self, value: ValueId) -> u64 {
        self.ranges.get(value).map_or(0, |range| self.pieces.filled(range))
    }

    /// Whether `buffer` may be stored in `block`.
    fn fits(&self, block: u32, buffer: u32) -> bool {
        let (size, live_out) = (self.sizes[buffer as usize], self.live_out[buffer as usize]);
        let into = &self.blocks[block as usize];
        if size > into.size || !into.is_shareable() || (live_out && size != into.size) {
            return false;
        }
        !self.buffers.values(buffer).any(|value| self.interferes(value, block) || self.copies_from(value, block))
    }
    /// Whether a value is alive together with one stored in `block`, other than to take over from it or to hand over to it.
    fn interferes(&self, value: ValueId, block: u32) -> bool {
        let Some(range) = self.ranges.get(value) else { return false };
        self.occupancy[block as usize].meeting(range).any(|(other, start, end)| {
            let Some(there) = self.ranges.get(other) else { return false };
            if range.end == start {
                !self.takes_over(other, value, range)
            } else if end == range.start {
                !self.takes_over(value, other, there)
            } else {
                true
            }
        })
    }
    /// Whether `user` may be written over `operand`, whose range is given.
    fn takes_over(&self, user: ValueId, operand: ValueId, range: Range) -> bool {
        debug_assert!(operand != user);
        let place = self.flow.values.place(user);
        let inst = self.flow.module.instruction(self.flow.places.owner(place));
        inst.opcode != Opcode::Copy
            && inst.operands.contains(&self.flow.places.owner(range.end_place))
            && self.flow.can_share(range.end_place, place)
    }
    /// Whether a value is a copy of something stored in `block`: a copy exists to have memory of its own.
    fn copies_from(&self, value: ValueId, block: u32) -> bool {
        let inst = self.flow.module.instruction(self.owner(value));
        let Some(&operand) = inst.operands.first() else { return false };
        inst.opcode == Opcode::Copy
            && self
                .flow
                .places
                .of_instruction(operand)
                .any(|place| self.flow.values.at(place).is_some_and(|value| self.block_of[value.index()] == block))
    }

    fn new_block(&mut self, buffer: u32, kind: Kind) -> u32 {
        self.blocks.push(Block::new(self.sizes[buffer as usize], kind));
        self.occupancy.push(Occupancy::default());
        let block = self.blocks.len() as u32 - 1;
        self.store(block, buffer);
        block
    }
    fn store(&mut self, block: u32, buffer: u32) {
        let size = self.sizes[buffer as usize];
        let into = &mut self.blocks[block as usize];
        into.live_out |= self.live_out[buffer as usize];
        into.slices.extend(self.buffers.values(buffer).map(|value| Slice { value, offset: 0, size }));
        let shareable = into.is_shareable();
        for value in self.buffers.values(buffer) {
            self.block_of[value.index()] = block;
            if let Some(range) = self.ranges.get(value).filter(|_| shareable) {
                self.occupancy[block as usize].insert(value, range);
            }
        }
    }

    fn owner(&self, value: ValueId) -> InstructionId {
        self.flow.places.owner(self.flow.values.place(value))
    }
    fn opcode(&self, value: ValueId) -> Opcode {
        self.flow.module.instruction(self.owner(value)).opcode
    }
    fn class(&self, value: ValueId) -> Class {
        self.flow.classes.class(self.flow.module.instruction(self.owner(value)).parent)
    }
    fn value_of(&self, id: InstructionId) -> Option<ValueId> {
        self.flow.values.at(self.flow.places.root(id)?)
    }
}

/// Which buffers hold something the module returns.
fn live_out(flow: &Flow<'_>, buffers: &Buffers) -> Vec<bool> {
    let mut live_out = vec![false; buffers.len() as usize];
    let root = flow.module.computation(flow.module.entry()).root;
    for value in flow.places.of_instruction(root).filter_map(|place| flow.values.at(place)) {
        live_out[buffers.of_value(value) as usize] = true;
    }
    live_out
}
