//! Which dimensions of an instruction's operands and result are divided together.
//!
//! Source: `createOpShardingRule` (shardy/dialect/sdy/transforms/propagation/op_sharding_rule_registry.cc); only the rules that keep whole
//! dimensions are modelled.

use hlo_ir::dims::{DotDims, GatherDims, ScatterDims};
use hlo_ir::{AttrKey, AttrValue, Opcode};

use crate::cpu::front::cx::{Cx, Id};
use crate::cpu::front::dims::unmodified_by_reshape;

/// Dimensions that belong together: at most one of the result, at most one of each operand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Factor {
    /// Dimension of the result; a factor without one is summed over.
    pub(super) result: Option<usize>,
    /// (operand, its dimension).
    pub(super) operands: Vec<(usize, usize)>,
}

fn factor(result: impl Into<Option<usize>>, operands: impl IntoIterator<Item = (usize, usize)>) -> Factor {
    Factor { result: result.into(), operands: operands.into_iter().collect() }
}

/// The factors of an instruction; a dimension in none of them cannot be divided.
pub(super) fn of(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    use Opcode as O;
    let rank = cx.rank(id);
    let paired = |kept: &dyn Fn(usize) -> bool| -> Vec<Factor> {
        (0..rank).filter(|&dim| kept(dim)).map(|dim| factor(dim, [(0, dim)])).collect()
    };
    let dims = |id: Id| cx.dims(id);
    match cx.opcode(id) {
        O::Broadcast => {
            let map = cx.dimensions(id);
            let source = |dim: usize| map.iter().position(|&to| to as usize == dim);
            (0..rank).map(|dim| factor(dim, source(dim).map(|from| (0, from)))).collect()
        }
        O::Iota => {
            let along = cx.inst(id).int(&AttrKey::IotaDimension).unwrap_or(0) as usize;
            (0..rank).filter(|&dim| dim != along).map(|dim| factor(dim, [])).collect()
        }
        O::Transpose => {
            cx.dimensions(id).iter().enumerate().map(|(to, &from)| factor(to, [(0, from as usize)])).collect()
        }
        O::Reshape => unmodified_by_reshape(&dims(cx.operand(id, 0)), &dims(id))
            .into_iter()
            .map(|(from, to)| factor(to as usize, [(0, from as usize)]))
            .collect(),
        O::Slice | O::DynamicSlice => {
            let from = dims(cx.operand(id, 0));
            paired(&|dim| from.get(dim) == dims(id).get(dim))
        }
        O::Reverse | O::Concatenate => {
            let gone = cx.dimensions(id);
            let operands = cx.operands(id).len();
            let all = |dim: usize| (0..operands).map(move |operand| (operand, dim));
            (0..rank).filter(|&dim| !gone.contains(&(dim as i64))).map(|dim| factor(dim, all(dim))).collect()
        }
        O::Pad => {
            let Some(AttrValue::Padding(padding)) = cx.inst(id).attribute(&AttrKey::Padding) else { return Vec::new() };
            paired(&|dim| padding.get(dim).is_some_and(|pad| pad.low == 0 && pad.high == 0 && pad.interior == 0))
        }
        O::Reduce => reduce(cx, id),
        O::Dot => dot(cx, id),
        O::Gather => gather(cx, id).unwrap_or_default(),
        O::Scatter => scatter(cx, id).unwrap_or_default(),
        opcode if opcode.is_elementwise() => {
            let operands = cx.operands(id);
            let all = |dim: usize| (0..operands.len()).filter(|&k| cx.rank(operands[k]) == rank).map(move |k| (k, dim));
            (0..rank).map(|dim| factor(dim, all(dim))).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether data only moves along: such instructions pass shardings on first.
pub(super) fn passes_through(opcode: Opcode) -> bool {
    opcode.is_elementwise() || matches!(opcode, Opcode::Transpose | Opcode::Reshape)
}

fn reduce(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    let &[input, _] = cx.operands(id) else { return Vec::new() };
    let gone = cx.dimensions(id);
    let mut kept = 0..;
    (0..cx.rank(input))
        .map(|dim| factor(if gone.contains(&(dim as i64)) { None } else { kept.next() }, [(0, dim)]))
        .collect()
}

fn dot(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    let Some(dims) = DotDims::of(cx.inst(id)) else { return Vec::new() };
    let both = |a: &[i64], b: &[i64]| -> Vec<(usize, usize)> {
        a.iter().zip(b).map(|(&a, &b)| (a as usize, b as usize)).collect()
    };
    let mut next = 0..;
    let mut found: Vec<Factor> =
        both(dims.lhs_batch, dims.rhs_batch).into_iter().map(|(a, b)| factor(next.next(), [(0, a), (1, b)])).collect();
    let sides = [(0, dims.lhs_batch, dims.lhs_contracting), (1, dims.rhs_batch, dims.rhs_contracting)];
    for (operand, batch, contracting) in sides {
        let free = |dim: &usize| !batch.contains(&(*dim as i64)) && !contracting.contains(&(*dim as i64));
        let rank = cx.rank(cx.operand(id, operand));
        found.extend((0..rank).filter(free).map(|dim| factor(next.next(), [(operand, dim)])));
    }
    found.extend(
        both(dims.lhs_contracting, dims.rhs_contracting).into_iter().map(|(a, b)| factor(None, [(0, a), (1, b)])),
    );
    found
}

/// Rows of the indices are rows of the result; of the operand only dimensions that are taken whole.
fn gather(cx: &Cx<'_>, id: Id) -> Option<Vec<Factor>> {
    let dims = GatherDims::of(cx.inst(id))?;
    let (operand, indices) = (cx.dims(cx.operand(id, 0)), cx.operand(id, 1));
    let rows = (0..cx.rank(indices)).filter(|&dim| dim as i64 != dims.index_vector_dim);
    let batch = (0..cx.rank(id)).filter(|&dim| !dims.offset_dims.contains(&(dim as i64)));
    let mut found: Vec<Factor> = rows.zip(batch).map(|(from, to)| factor(to, [(1, from)])).collect();
    let window = (0..operand.len()).filter(|&dim| {
        let dim = dim as i64;
        !dims.collapsed_slice_dims.contains(&dim) && !dims.operand_batching_dims.contains(&dim)
    });
    for (from, &to) in window.zip(dims.offset_dims) {
        if dims.slice_sizes.get(from) == operand.get(from) {
            found.push(factor(to as usize, [(0, from)]));
        }
    }
    Some(found)
}

/// Rows of the updates are rows of the indices and are summed over; of the result only dimensions that are updated whole.
fn scatter(cx: &Cx<'_>, id: Id) -> Option<Vec<Factor>> {
    let dims = ScatterDims::of(cx.inst(id))?;
    let &[_, indices, updates] = cx.operands(id) else { return None };
    let rows = (0..cx.rank(indices)).filter(|&dim| dim as i64 != dims.index_vector_dim);
    let batch = (0..cx.rank(updates)).filter(|&dim| !dims.update_window_dims.contains(&(dim as i64)));
    let mut found: Vec<Factor> = rows.zip(batch).map(|(from, update)| factor(None, [(1, from), (2, update)])).collect();
    let result = cx.dims(id);
    let window = (0..result.len()).filter(|&dim| {
        let dim = dim as i64;
        !dims.inserted_window_dims.contains(&dim) && !dims.input_batching_dims.contains(&dim)
    });
    for (to, &update) in window.zip(dims.update_window_dims) {
        if cx.dims(updates).get(update as usize) == result.get(to) {
            found.push(factor(to, [(0, to), (2, update as usize)]));
        }
    }
    Some(found)
}
