//! What a loop over blocks can end in: scatters whose updates keep their order, arrays written block by block, and reductions and
//! contractions along the rows.

// Tests: `passes/tests/chunk_batches.rs`.

use std::sync::Arc;

use hlo_ir::{InstructionId, Module, ScatterDims};
use hlo_memory::Bytes;
use hlo_memory::size::array_size;

use crate::flow::{Rows, contracted, counts_batches, update_scatter_dims};
use crate::loops::{Role, RowLoop};
use crate::{Grade, Reason};

/// What becomes of an `add` that is the only user of an adding scatter of floats.
///
/// XLA takes it into the scatter: `add(other, scatter(operand, ..))` becomes `scatter(other + operand, ..)`, which rounds differently. A sum of
/// two such scatters becomes one scatter if their updates are fewer than the elements of the operand, and stays otherwise. XLA does
/// none of this to a loop, so the loop must do the same to keep the bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sum {
    /// There is none.
    None,
    /// The loop starts from the sum.
    Inside(Term),
    /// It stays behind the loop, and behind this scatter in another accumulator of the same loop, as XLA would leave it.
    Behind(InstructionId),
    /// It stays behind the loop, though XLA would take it in or could: equal bits are not certain.
    Inexact,
}

/// An `add` and the operand of it that is not the scatter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Term {
    /// The `add`.
    pub(super) add: InstructionId,
    /// Its other operand.
    pub(super) other: InstructionId,
    /// Whether XLA takes the sum in as well: it may not if the other operand becomes a scatter too, by a sum of its own; and the next sum behind this
    /// one XLA takes in too, or takes the loop into another scatter there.
    pub(super) is_taken_in: bool,
}

/// How a sink takes its blocks in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A scatter applies the updates of a block to its accumulator.
    Scatter {
        /// The row dimension in the indices.
        index_dim: usize,
        /// The row dimension in every updates operand.
        update_dim: usize,
    },
    /// The value is needed as a whole: its blocks are written into an array.
    Write {
        /// The row dimension.
        dim: usize,
    },
    /// A `reduce` with one input, along the rows: the results of the blocks are combined.
    Reduce {
        /// The row dimension of the input.
        dim: usize,
    },
    /// A `dot` or `convolution` that contracts the rows: the products of the blocks are added.
    Contraction {
        /// The row dimension of the left side.
        lhs: usize,
        /// The row dimension of the right side.
        rhs: usize,
    },
    /// A loop that treats its rows independently and sums over them: it goes on from the sums of the blocks before.
    Loop,
}

/// An instruction whose result can be made block by block.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    /// The instruction.
    pub(super) inst: InstructionId,
    /// Rows of the loop.
    pub(super) rows: i64,
    /// Its own rows that belong to rows of the loop.
    pub(super) map: Rows,
    /// How it takes blocks in.
    pub(super) kind: Kind,
    /// Scatters: elements of the other row dimensions, that is, updates per row.
    pub(super) inner: i64,
    /// Scatters: the row dimension in the updated operands, if it is a batching dimension: each block then updates rows of its own.
    pub(super) batch_dim: Option<usize>,
    /// Scatters: the sum behind.
    pub(super) sum: Sum,
    /// Loops: what becomes of their state.
    pub(super) row_loop: Option<Arc<RowLoop>>,
}

impl Sink {
    /// A sink that is no scatter.
    pub(super) const fn plain(inst: InstructionId, rows: i64, map: Rows, kind: Kind) -> Self {
        Self { inst, rows, map, kind, inner: 1, batch_dim: None, sum: Sum::None, row_loop: None }
    }
    /// A loop that sums over so many rows.
    pub(super) fn of_loop(row_loop: Arc<RowLoop>, rows: i64, map: Rows) -> Self {
        let inst = row_loop.looping;
        Self { row_loop: Some(row_loop), ..Self::plain(inst, rows, map, Kind::Loop) }
    }

    /// Looks at `scatter`. `Ok(None)` if it has a single row.
    ///
    /// XLA applies updates in row-major order of the row dimensions, and which of two updates of one element comes first can show in the
    /// result. Blocks therefore cut the first row dimension that is not 1; or a batching dimension, as different batches never
    /// update the same element. The larger of them wins; the former if equal, because it needs no block of the operand.
    pub(super) fn of(module: &Module, scatter: InstructionId) -> Result<Option<Self>, Reason> {
        let inst = module.instruction(scatter);
        let refuse = |code, why: &str| Err(Reason { code, message: format!("`{}` {why}", inst.name) });
        if !inst.control_predecessors().is_empty() {
            return refuse("control", "has control predecessors");
        }
        let inputs = ScatterDims::input_count(inst.operands.len());
        let array = |index: usize| inst.operands.get(index).and_then(|&id| module.instruction(id).array());
        let (Some(dims), Some(indices), Some(updates)) = (ScatterDims::of(inst), array(inputs), array(inputs + 1))
        else {
            return refuse("malformed", "lacks operands");
        };
        let row_dims: Vec<usize> = (0..indices.rank()).filter(|&dim| dim as i64 != dims.index_vector_dim).collect();
        let update_dims = update_scatter_dims(&dims, updates.rank());
        let fits = |(&row, &update): (&usize, &usize)| indices.dims[row] == updates.dims[update];
        if row_dims.len() != update_dims.len() || !row_dims.iter().zip(&update_dims).all(fits) {
            return refuse("malformed", "has not as many indices as updates");
        }
        let batch_dim = |row: usize| {
            let pair = dims.scatter_indices_batching_dims.iter().position(|&dim| dim == row as i64)?;
            Some(*dims.input_batching_dims.get(pair)? as usize)
        };
        let several = row_dims.iter().zip(update_dims).filter(|(row, _)| indices.dims[**row] != 1);
        let (mut batches, plain): (Vec<_>, Vec<_>) = several.partition(|(row, _)| batch_dim(**row).is_some());
        let all = batches.len();
        batches.retain(|(row, _)| counts_batches(indices, indices.dims[**row]));
        let is_narrow = batches.len() < all && plain.is_empty();
        let candidates = batches.into_iter().chain(plain.into_iter().take(1));
        let Some((&index_dim, update_dim)) = candidates.max_by_key(|(row, _)| indices.dims[**row]) else {
            return if is_narrow {
                refuse("narrow-batch", "has more batches than its indices can count")
            } else {
                Ok(None)
            };
        };
        let rows = indices.dims[index_dim];
        let inner = row_dims.iter().filter(|&&row| row != index_dim).map(|&row| indices.dims[row]).product();
        let kind = Kind::Scatter { index_dim, update_dim };
        Ok(Some(Self { inner, batch_dim: batch_dim(index_dim), ..Self::plain(scatter, rows, Rows::IDENTITY, kind) }))
    }

    /// Bytes that XLA:CPU needs for the indices of a scatter with batching dimensions: it makes the batch numbers components.
    pub(super) fn expanded_indices(&self, module: &Module) -> Option<Bytes> {
        let inst = module.instruction(self.inst);
        let dims = ScatterDims::of(inst)?;
        let indices = module.instruction(inst.operands[self.inputs(module)]).array()?;
        let components = dims.scatter_dims_to_operand_dims.len().max(1) as u64;
        let batches = dims.input_batching_dims.len() as u64;
        let bytes = array_size(indices)?.get() / components * (components + batches);
        (batches > 0).then_some(Bytes(bytes))
    }
    /// Number of accumulators; for scatters the updated operands, so it is the operand number of the indices too.
    pub(super) fn inputs(&self, module: &Module) -> usize {
        match self.kind {
            Kind::Scatter { .. } => ScatterDims::input_count(module.instruction(self.inst).operands.len()),
            Kind::Loop => self.sums().count(),
            Kind::Write { .. } | Kind::Reduce { .. } | Kind::Contraction { .. } => 1,
        }
    }
    /// Loops: the elements of the state that sum over the rows.
    pub(super) fn sums(&self) -> impl Iterator<Item = usize> {
        self.row_loop.iter().flat_map(|row_loop| row_loop.sums())
    }
    /// What is cut into blocks, with its row dimension. Scatters: the indices, then the updates; written arrays: the array itself; loops: what they start from.
    pub(super) fn cut_operands(&self, module: &Module) -> Vec<(InstructionId, usize)> {
        let operands = &module.instruction(self.inst).operands;
        match self.kind {
            Kind::Scatter { index_dim, update_dim } => {
                let dim = |position| if position == 0 { index_dim } else { update_dim };
                let cut = operands[self.inputs(module)..].iter().enumerate();
                cut.map(|(position, &operand)| (operand, dim(position))).collect()
            }
            Kind::Write { dim } => vec![(self.inst, dim)],
            Kind::Reduce { dim } => vec![(operands[0], dim)],
            Kind::Contraction { lhs, rhs } => vec![(operands[0], lhs), (operands[1], rhs)],
            Kind::Loop => {
                let starts = self.row_loop.iter().flat_map(|row_loop| row_loop.starts.iter().zip(row_loop.roles()));
                let cut = |(&start, role): (&InstructionId, &Role)| match role {
                    Role::Cut(dim) => Some((start, *dim)),
                    Role::Whole | Role::Sum => None,
                };
                starts.filter_map(cut).collect()
            }
        }
    }
    /// Operands that the loop starts from or uses whole.
    pub(super) fn outer_operands(&self, module: &Module) -> Vec<InstructionId> {
        let operands = &module.instruction(self.inst).operands;
        match self.kind {
            Kind::Scatter { .. } => operands[..self.inputs(module)].to_vec(),
            Kind::Reduce { .. } => operands[1..].to_vec(),
            Kind::Write { .. } | Kind::Contraction { .. } => Vec::new(),
            Kind::Loop => {
                let starts = |row_loop: &Arc<RowLoop>| row_loop.sums().map(|at| row_loop.starts[at]).collect();
                self.row_loop.as_ref().map(starts).unwrap_or_default()
            }
        }
    }
    /// The sink and what it starts from: what it depends on is their cone.
    pub(super) fn starts(&self) -> impl Iterator<Item = InstructionId> + use<> {
        let start = match self.sum {
            Sum::Inside(term) => Some(term.other),
            _ => None,
        };
        [self.inst].into_iter().chain(start)
    }
    /// How equal its result stays in a loop of `sinks`, whatever else the loop contains.
    pub(super) fn grade(&self, module: &Module, sinks: &[&Self]) -> Grade {
        match (self.kind, self.sum) {
            (Kind::Reduce { .. } | Kind::Contraction { .. }, _) => super::accumulate::grade(module, self),
            (Kind::Loop, _) => self.row_loop.as_deref().map_or(Grade::Assume, |row_loop| grade_of(module, row_loop)),
            (_, Sum::None) => Grade::Bitwise,
            (_, Sum::Inside(term)) if term.is_taken_in => Grade::Bitwise,
            (_, Sum::Behind(partner)) if sinks.iter().any(|sink| sink.inst == partner) => Grade::Bitwise,
            (_, Sum::Inside(_) | Sum::Behind(_) | Sum::Inexact) => Grade::HloExact,
        }
    }
}

/// How equal sums over rows stay that a loop adds up block by block.
pub(super) fn grade_of(module: &Module, row_loop: &RowLoop) -> Grade {
    if row_loop.rounds_sums(module) { Grade::Reassociate } else { Grade::Bitwise }
}

/// The contracted dimension of the other side that goes with dimension `dim` of operand `side` of a product, if it is contracted. Convolutions contract
/// features of the input; in the gradient for a kernel that is where the examples of a batch stand.
pub(super) fn contracted_with(module: &Module, product: InstructionId, side: usize, dim: usize) -> Option<Kind> {
    let pairs = contracted(module.instruction(product))?;
    let own = |&&(lhs, rhs): &&(usize, usize)| if side == 0 { lhs == dim } else { rhs == dim };
    let &(lhs, rhs) = pairs.iter().filter(|_| side < 2).find(own)?;
    Some(Kind::Contraction { lhs, rhs })
}

#[cfg(test)]
mod tests {
    use hlo_ir::{Opcode, text};

    use super::*;

    /// The dimensions along which a convolution of this type with these attributes is cut, for each dimension of each side.
    fn cuts(element: &str, kernel: &str, attributes: &str) -> Vec<Kind> {
        let text = format!(
            "HloModule m\n\nENTRY e {{\n  x = {element}[8,5,5,32]{{3,2,1,0}} parameter(0)\n  k = {element}[{kernel}]{{3,2,1,0}} parameter(1)
  ROOT y = {element}[3,3,8,16]{{3,2,1,0}} convolution(x, k), window={{size=3x3}}, dim_labels={attributes}\n}}\n"
        );
        let module = text::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        let product = module.live_instructions().find(|(_, inst)| inst.opcode == Opcode::Convolution).expect("one").0;
        let places = (0..3).flat_map(|side| (0..4).map(move |dim| (side, dim)));
        places.filter_map(|(side, dim)| contracted_with(&module, product, side, dim)).collect()
    }

    #[test]
    fn convolutions_contract_features_that_no_group_divides() {
        let both = vec![Kind::Contraction { lhs: 3, rhs: 2 }; 2];
        assert_eq!(cuts("f32", "3,3,32,16", "b01f_01io->01bf"), both);
        assert_eq!(cuts("s32", "3,3,32,16", "b01f_01io->01bf"), both);
        assert_eq!(cuts("pred", "3,3,32,16", "b01f_01io->01bf"), []);
        assert_eq!(cuts("f32", "3,3,16,16", "b01f_01io->01bf, feature_group_count=2"), []);
        assert_eq!(cuts("f32", "3,3,32,16", "b01f_01io->01bf, batch_group_count=2"), both);
    }
}
