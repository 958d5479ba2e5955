//! Scatters as sinks: which of their row dimensions can be cut into blocks without changing the order of updates.

use hlo_ir::{InstructionId, Module, ScatterDims, graph};

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
    /// Elements of the later row dimensions: updates per row.
    pub(super) inner: i64,
    /// The row dimension in the indices.
    pub(super) index_dim: usize,
    /// The row dimension in every updates operand.
    pub(super) update_dim: usize,
    /// The sum behind the scatter.
    pub(super) sum: Sum,
}

impl Sink {
    /// Looks at `scatter`. `Ok(None)` if it has a single row.
    ///
    /// XLA applies updates in row-major order of the row dimensions, and which of two updates of one element comes first can show in the
    /// result. Blocks therefore cut the first row dimension that is not 1. Batching dimensions may stand before it: different
    /// batches never update the same element.
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
        let batching = |dim: usize| dims.scatter_indices_batching_dims.contains(&(dim as i64));
        let Some(position) = row_dims.iter().position(|&dim| indices.dims[dim] != 1 && !batching(dim)) else {
            let single = row_dims.iter().all(|&dim| indices.dims[dim] == 1);
            return if single { Ok(None) } else { refuse("batching", "has only batching dimensions to cut") };
        };
        let (index_dim, update_dims) = (row_dims[position], update_scatter_dims(&dims, updates.rank()));
        let Some(&update_dim) = update_dims.get(position) else {
            return refuse("malformed", "has updates of a wrong rank");
        };
        if updates.dims[update_dim] != indices.dims[index_dim] {
            return refuse("malformed", "has not as many indices as updates");
        }
        let (rows, inner) =
            (indices.dims[index_dim], row_dims[position + 1..].iter().map(|&dim| indices.dims[dim]).product());
        Ok(Some(Self { scatter, rows, inner, index_dim, update_dim, sum: Sum::None }))
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
