//! Scatters as sinks: which of their row dimensions can be cut into blocks without changing the order of updates.

use hlo_ir::{InstructionId, Module, ScatterDims, graph};
use hlo_memory::Bytes;
use hlo_memory::size::array_size;

use super::sum::Sum;
use crate::flow::update_scatter_dims;
use crate::{Grade, Reason};

/// A scatter whose updates can be applied block by block.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    /// The scatter.
    pub(super) scatter: InstructionId,
    /// Extent of the row dimension.
    pub(super) rows: i64,
    /// Elements of the other row dimensions: updates per row.
    pub(super) inner: i64,
    /// The row dimension in the indices.
    pub(super) index_dim: usize,
    /// The row dimension in every updates operand.
    pub(super) update_dim: usize,
    /// The row dimension in the updated operands, if it is a batching dimension: each block then updates rows of its own.
    pub(super) batch_dim: Option<usize>,
    /// The sum behind the scatter.
    pub(super) sum: Sum,
}

impl Sink {
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
        let (batches, plain): (Vec<_>, Vec<_>) = several.partition(|(row, _)| batch_dim(**row).is_some());
        let candidates = batches.into_iter().chain(plain.into_iter().take(1));
        let Some((&index_dim, update_dim)) = candidates.max_by_key(|(row, _)| indices.dims[**row]) else {
            return Ok(None);
        };
        let rows = indices.dims[index_dim];
        let inner = row_dims.iter().filter(|&&row| row != index_dim).map(|&row| indices.dims[row]).product();
        let batch_dim = batch_dim(index_dim);
        Ok(Some(Self { scatter, rows, inner, index_dim, update_dim, batch_dim, sum: Sum::None }))
    }

    /// Bytes that XLA:CPU needs for the indices of a scatter with batching dimensions: it makes the batch numbers components.
    pub(super) fn expanded_indices(&self, module: &Module) -> Option<Bytes> {
        let inst = module.instruction(self.scatter);
        let dims = ScatterDims::of(inst)?;
        let indices = module.instruction(inst.operands[self.inputs(module)]).array()?;
        let components = dims.scatter_dims_to_operand_dims.len().max(1) as u64;
        let batches = dims.input_batching_dims.len() as u64;
        let bytes = array_size(indices)?.get() / components * (components + batches);
        (batches > 0).then_some(Bytes(bytes))
    }
    /// Number of updated operands, which is also the operand number of the indices.
    pub(super) fn inputs(&self, module: &Module) -> usize {
        ScatterDims::input_count(module.instruction(self.scatter).operands.len())
    }
    /// Each operand that is cut into blocks, with its row dimension: the indices, then the updates.
    pub(super) fn cut_operands(&self, module: &Module) -> Vec<(InstructionId, usize)> {
        let operands = &module.instruction(self.scatter).operands[self.inputs(module)..];
        let dim = |position| if position == 0 { self.index_dim } else { self.update_dim };
        operands.iter().enumerate().map(|(position, &operand)| (operand, dim(position))).collect()
    }
    /// Whether this sink or what it starts from depends on the result of `other`.
    pub(super) fn needs(&self, module: &Module, other: &Self) -> bool {
        let start = match self.sum {
            Sum::Inside(term) => Some(term.other),
            _ => None,
        };
        graph::cone(module, [self.scatter].into_iter().chain(start))[other.scatter]
    }
    /// How equal its result stays in a loop of `sinks`, whatever else the loop contains.
    pub(super) fn grade(&self, sinks: &[&Self]) -> Grade {
        match self.sum {
            Sum::None | Sum::Inside(_) => Grade::Bitwise,
            Sum::Behind(partner) if sinks.iter().any(|sink| sink.scatter == partner) => Grade::Bitwise,
            Sum::Behind(_) | Sum::Loose => Grade::HloExact,
        }
    }
}
