//! Components of an index that are the number of their own row.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, InstructionId, Module, Opcode};

use super::affine::{self, Affine};
use super::piecewise::Image;
use super::provenance::Tracer;
use crate::bounds;

/// The row dimension (counted without the dimension `vector_dim` of components) whose position component `component` of an index array holds
/// in every row; `None` if that is not proven.
pub(crate) fn row_number(module: &Module, index: InstructionId, vector_dim: usize, component: usize) -> Option<usize> {
    let dims = &module.instruction(index).array()?.dims;
    let is_row = |(dim, _): &(usize, &i64)| *dim != vector_dim;
    let rows: Dims = dims.iter().enumerate().filter(is_row).map(|(_, &size)| size).collect();
    let at = affine::of_component(component, vector_dim, dims)?;
    counters(module, index).into_iter().find_map(|counter| counted(module, index, &at, counter, &rows))
}

fn counted(module: &Module, index: InstructionId, at: &Affine, counter: InstructionId, rows: &[i64]) -> Option<usize> {
    let inst = module.instruction(counter);
    let (array, dim) = (inst.array()?, usize::try_from(inst.int(&AttrKey::IotaDimension)?).ok()?);
    // A counter of more rows than its type has numbers begins anew.
    let (_, largest) = array.element_type.integer_range()?;
    if i128::from(*array.dims.get(dim)?) - 1 > largest {
        return None;
    }
    // How far an index may be wrapped around says only whether it is as given, which is not asked here.
    let origin = Tracer::new(module, counter, rows).trace(index, at, 1)?;
    let place = affine::coordinates(&origin.at, &array.dims, rows)?;
    let row = (0..rows.len()).find(|&row| rows[row] > 1 && place.get(dim) == Some(&Affine::row(row, rows[row])))?;
    let reached = |piece: &&(i128, i128, Image)| piece.1 >= 0 && piece.0 < i128::from(rows[row]);
    let kept = origin.function.pieces().iter().filter(reached).all(|piece| piece.2 == Image::Shift(0));
    kept.then_some(row)
}

/// The counters that an array is computed from.
fn counters(module: &Module, index: InstructionId) -> Vec<InstructionId> {
    let (mut work, mut seen, mut found) = (vec![index], Vec::new(), Vec::new());
    while let Some(id) = work.pop() {
        if seen.contains(&id) || seen.len() == bounds::CONE {
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
