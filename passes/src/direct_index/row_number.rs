//! Components of an index that are the number of their own row.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, InstructionId, Module, Opcode};

use super::affine::{self, Affine};
use super::piecewise::Image;
use super::provenance::Tracer;

/// Most instructions that are looked at on the way to a counter.
const MOST_INSTRUCTIONS: usize = 256;

/// The row dimension (counted without the dimension `vector_dim` of components) whose position component `component` of an index array holds
/// in every row; `None` if that is not proven.
pub(crate) fn row_number(module: &Module, index: InstructionId, vector_dim: usize, component: i64) -> Option<usize> {
    let dims = &module.instruction(index).array()?.dims;
    let is_row = |(dim, _): &(usize, &i64)| *dim != vector_dim;
    let rows: Dims = dims.iter().enumerate().filter(is_row).map(|(_, &size)| size).collect();
    let mut row = 0..;
    let place = |dim| {
        if dim == vector_dim {
            return Affine::constant(component);
        }
        let row = row.next().expect("it never ends");
        Affine::row(row, rows[row])
    };
    let place: Vec<Affine> = (0..dims.len()).map(place).collect();
    let place = affine::position(&place, dims)?;
    counters(module, index).into_iter().find_map(|counter| counted(module, index, &place, counter, &rows))
}

fn counted(module: &Module, index: InstructionId, at: &Affine, counter: InstructionId, rows: &[i64]) -> Option<usize> {
    let origin = Tracer::new(module, counter, rows).trace(index, at, i128::MAX / 8)?;
    let inst = module.instruction(counter);
    let place = affine::coordinates(&origin.at, &inst.array()?.dims, rows)?;
    let value = place.get(usize::try_from(inst.int(&AttrKey::IotaDimension)?).ok()?)?;
    let dim = (0..rows.len()).find(|&dim| rows[dim] > 1 && *value == Affine::row(dim, rows[dim]))?;
    let reached = |piece: &&(i128, i128, Image)| piece.1 >= 0 && piece.0 < i128::from(rows[dim]);
    let kept = origin.function.pieces().iter().filter(reached).all(|piece| piece.2 == Image::Shift(0));
    kept.then_some(dim)
}

/// The counters that an array is computed from.
fn counters(module: &Module, index: InstructionId) -> Vec<InstructionId> {
    let (mut work, mut seen, mut found) = (vec![index], Vec::new(), Vec::new());
    while let Some(id) = work.pop() {
        if seen.contains(&id) || seen.len() == MOST_INSTRUCTIONS {
            continue;
        }
        seen.push(id);
        let inst = module.instruction(id);
        match inst.opcode {
            Opcode::Iota => found.push(id),
            _ => work.extend(inst.operands.iter().rev()),
        }
    }
    found
}
