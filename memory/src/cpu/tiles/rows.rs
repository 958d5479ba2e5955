//! Gathers and scatters of rows on XLA:TPU take tables and make results in which a row is contiguous, padded to whole lanes; a table that is kept
//! otherwise is copied for them.
//!
//! Read off the compiler's modules: an embedding of 64 columns takes twice its bytes there, one of 32 columns four times.

// Tests: `memory/tests/tpu.rs`.

use hlo_ir::shape::Layout;
use hlo_ir::{AttrKey, InstructionId, Opcode, Shape};

use super::super::front::{Cx, hoist_invariants};
use super::super::graph::Graph;
use super::{LANES, packing, sublanes};
use crate::hash::IndexMap;
use smol_str::format_smolstr;

/// Lays out what gathers and scatters of rows read and write, for which every array has its tiles already.
pub(super) fn run(graph: &mut Graph) {
    for computation in graph.outside_fusions() {
        let ids: Vec<InstructionId> = graph.list(computation).collect();
        let mut copies = IndexMap::default();
        for id in ids {
            for number in tables(graph, id) {
                lay_out_operand(graph, id, number, &mut copies);
            }
            if makes_rows(graph, id) {
                lay_out_result(graph, id);
            }
        }
    }
    // What no iteration of a loop changes is copied once, such as a table.
    hoist_invariants(&mut Cx::new(graph));
}

/// Operand numbers that a gather or scatter of rows reads in place: a table, or the rows to be added.
fn tables(graph: &Graph, id: InstructionId) -> Vec<usize> {
    let Some(body) = graph.fused(id) else { return in_place(graph, id) };
    let moved = graph
        .list(body)
        .flat_map(|inner| in_place(graph, inner).into_iter().map(move |number| (inner, number)).collect::<Vec<_>>());
    let parameter = |(inner, number)| graph.inst(graph.operand(inner, number)).parameter_number();
    moved.filter_map(parameter).map(|number| number as usize).collect()
}

fn in_place(graph: &Graph, id: InstructionId) -> Vec<usize> {
    match graph.opcode(id) {
        Opcode::Gather if takes_whole_rows(graph, id) => vec![0],
        Opcode::Scatter if graph.operands(id).len() == 3 && takes_whole_rows(graph, id) => vec![0, 2],
        _ => Vec::new(),
    }
}

/// Whether the windows of a gather or scatter have the whole last dimension. A gather of rows that would pad to more than twice their size reads columns
/// instead (f32 tables of 48 and of 64 columns were tried).
fn takes_whole_rows(graph: &Graph, id: InstructionId) -> bool {
    let Some(table) = graph.array(graph.operand(id, 0)) else { return false };
    let Some(&columns) = table.dims.last() else { return false };
    let window = if graph.opcode(id) == Opcode::Gather {
        graph.inst(id).ints(&AttrKey::SliceSizes).last().copied()
    } else {
        let updates = graph.array(graph.operand(id, 2));
        let last = graph.inst(id).ints(&AttrKey::UpdateWindowDims).last();
        updates.zip(last).and_then(|(updates, &dim)| updates.dims.get(dim as usize).copied())
    };
    let pays = graph.opcode(id) == Opcode::Scatter || padded(columns) <= columns.saturating_mul(2);
    table.rank() > 1 && columns > 1 && window == Some(columns) && pays
}

fn padded(columns: i64) -> i64 {
    columns.saturating_add(LANES - 1) / LANES * LANES
}

/// Whether the result is what a gather or scatter of rows makes, or that with other types or names of dimensions.
fn makes_rows(graph: &Graph, id: InstructionId) -> bool {
    let mut root = graph.fused(id).map_or(id, |body| graph.root(body));
    while let (Opcode::Bitcast | Opcode::Convert | Opcode::Reshape, &[operand]) =
        (graph.opcode(root), graph.operands(root))
    {
        root = operand;
    }
    !in_place(graph, root).is_empty()
}

/// The operand itself is kept in rows if nothing else reads it and something here computes it, or if it is what a loop adds rows to; else a copy is made.
fn lay_out_operand(
    graph: &mut Graph,
    id: InstructionId,
    number: usize,
    copies: &mut IndexMap<InstructionId, InstructionId>,
) {
    let operand = graph.operand(id, number);
    let given = matches!(
        graph.opcode(operand),
        Opcode::Parameter | Opcode::GetTupleElement | Opcode::Constant | Opcode::Bitcast
    );
    let Some(array) = graph.array(operand) else { return };
    let wanted = in_rows(array);
    if array.layout.as_ref().is_some_and(|layout| layout.minor_to_major == wanted.minor_to_major) {
        return;
    }
    let is_state = graph.opcode(operand) == Opcode::GetTupleElement && number == 0 && makes_rows(graph, id);
    if (given && !is_state) || graph.user_count(operand) > 1 {
        let shape = Shape::Array(hlo_ir::ArrayShape { layout: Some(wanted), ..array.clone() }).into();
        let make = || Cx::new(graph).elementwise(id, shape, Opcode::Copy, &[operand]);
        let copy = *copies.entry(operand).or_insert_with(make);
        graph.replace_operand(id, number, copy);
    } else {
        set_rows(graph, operand);
    }
}

/// The result is in rows; who reads it otherwise reads a copy that pads less.
fn lay_out_result(graph: &mut Graph, id: InstructionId) {
    let Some(array) = graph.array(id) else { return };
    let compact = Shape::Array(array.clone());
    let differs = array.layout.as_ref().is_some_and(|layout| layout.minor_to_major != in_rows(array).minor_to_major);
    set_rows(graph, id);
    let users: Vec<InstructionId> = graph.each_user(id).collect();
    let becomes_state = matches!(users[..], [user] if graph.opcode(user) == Opcode::Tuple && graph.is_root(user));
    if !differs || becomes_state {
        return;
    }
    let copy = Cx::new(graph).elementwise(id, compact.into(), Opcode::Copy, &[id]);
    for user in users {
        graph.replace_use(id, user, copy);
    }
    if graph.is_root(id) {
        graph.set_root(copy);
    }
}

fn set_rows(graph: &mut Graph, id: InstructionId) {
    if let Some(array) = graph.array(id) {
        let shape = Shape::Array(hlo_ir::ArrayShape { layout: Some(in_rows(array)), ..array.clone() });
        graph.set_shape(id, shape.into());
    }
}

/// The tiled layout whose fastest dimension is the last one.
fn in_rows(array: &hlo_ir::ArrayShape) -> Layout {
    let rank = array.rank();
    if rank < 2 {
        return array.layout.clone().unwrap_or_else(|| Layout::descending(rank));
    }
    let suffix = format_smolstr!("T({},{LANES})", sublanes(array.dims[rank - 2], packing(array.element_type)));
    Layout { suffix, ..Layout::descending(rank) }
}
