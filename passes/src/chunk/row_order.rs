//! Keeps XLA:GPU from reordering whole arrays for the sake of their blocks.
//!
//! XLA:GPU gives an array the order of dimensions that its users want, as far as it can. Where a block of rows is transposed in the loop, that order reaches
//! the array through the slice that reads the block, and through the loop's state: XLA then copies the whole array into the other order in front of the loop.
//! What merges or splits dimensions ends the search, so such rows are read of the array as a matrix, which costs nothing: only the block is reordered.
//!
//! Source: `LayoutAssignment::PropagateOperandConstraint`, `ChooseOperandLayoutFromOutputLayout` (xla/service/layout_assignment.cc),
//! `GpuLayoutAssignment::AddDotBackendConstraints` (xla/service/gpu/transforms/layout_assignment.cc).

// Tests: `passes/tests/chunk_loops.rs`.

use crate::hash::IndexSet;
use hlo_ir::{ArrayShape, AttrKey, InstructionId, Module, Opcode};

use super::emit::Emitter;
use super::region::{Block, Part, Region, Source};
use crate::flow::{block_shape, producer};
use crate::recompute::insertion_point::{shaped, sliced};

/// The blocks that are read of arrays which XLA:GPU would reorder.
pub(super) fn reordered(module: &Module, region: &Region) -> IndexSet<Block> {
    let mut seen: IndexSet<Block> = IndexSet::default();
    for (block, source) in &region.blocks {
        if let Source::Computed(parts) = source
            && reorders(module, region, block)
        {
            seen.extend(blocks(parts));
        }
    }
    let mut next = 0;
    while let Some(block) = seen.get_index(next) {
        next += 1;
        if let Some(Source::Computed(parts)) = region.blocks.get(block) {
            seen.extend(blocks(parts).collect::<Vec<_>>());
        }
    }
    seen.retain(|block| matches!(region.blocks.get(block), Some(Source::Read(_))) && stands_in_rows(module, block));
    seen
}

fn blocks(parts: &[Part]) -> impl Iterator<Item = Block> + '_ {
    parts.iter().filter_map(|part| match part {
        Part::Block(operand) => Some(*operand),
        Part::Whole(_) => None,
    })
}

/// Whether a block is computed by something that wants its operands in an order of its own: it moves dimensions, has its batch dimensions elsewhere than in
/// front, or is a loop, in which anything may stand.
fn reorders(module: &Module, region: &Region, block: &Block) -> bool {
    let inst = module.instruction(producer(module, block.value.inst).0);
    let in_front = |key| inst.ints(key).iter().enumerate().all(|(at, &dim)| dim == at as i64);
    match inst.opcode {
        Opcode::Transpose => !in_front(&AttrKey::Dimensions),
        Opcode::Dot => !in_front(&AttrKey::LhsBatchDims) || !in_front(&AttrKey::RhsBatchDims),
        _ => region.row_loop(block.value.inst, block.dim).is_some(),
    }
}

/// Whether a value that is read stands in memory row by row, whoever reads it, as inputs of the program do, while XLA chooses the order of what it computes;
/// and whether it has dimensions beside each other to merge.
fn stands_in_rows(module: &Module, block: &Block) -> bool {
    let made = module.instruction(producer(module, block.value.inst).0);
    let stands = made.opcode == Opcode::Parameter && made.parent == module.entry();
    let array = module.instruction(block.value.inst).array();
    let Some(array) = array.filter(|array| stands && !array.is_dynamic()) else { return false };
    let rank = array.rank();
    let descends = array.minor_to_major().iter().copied().eq((0..rank as i64).rev());
    descends && as_matrix(array, block.dim).rank() < rank
}

/// An array as a matrix: what lies in front of its rows, the rows, and what a row is.
fn as_matrix(array: &ArrayShape, dim: usize) -> ArrayShape {
    let groups = [&array.dims[..dim], &array.dims[dim..=dim], &array.dims[dim + 1..]];
    let dims = groups.iter().filter(|group| !group.is_empty()).map(|group| group.iter().product());
    ArrayShape::new(array.element_type, dims)
}

impl Emitter<'_> {
    /// Reads the rows of a block of a matrix.
    pub(super) fn read_of_matrix(&mut self, block: Block) -> Option<InstructionId> {
        let value = self.module.instruction(block.value.inst);
        let memory = *self.memory.values.get(&block.value)?;
        let wanted = block_shape(&value.shape, block.dim, block.rows.len(self.len));
        let (all, wanted) = (value.array()?, wanted.as_array()?);
        let name = format!("{}.block", value.name);
        let target = (self.target, name.as_str());
        let matrix = as_matrix(all, block.dim);
        let starts = self.starts_at(block.rows, usize::from(block.dim > 0), matrix.rank());
        let matrix = shaped(self.module, self.patch, target, memory, &matrix)?;
        let mut read = sliced(matrix, as_matrix(wanted, block.dim), &starts);
        read.name = name.as_str().into();
        read.attributes.extend(self.metadata.clone());
        let read = self.patch.add(self.target, read);
        shaped(self.module, self.patch, target, read, wanted)
    }
}
