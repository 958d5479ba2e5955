//! An all-to-all of one array becomes one of a tuple: the array is cut into a slice per device, and what comes back is put together.
//!
//! Source: `AllToAllDecomposer` (xla/service/all_to_all_decomposer.cc), which XLA:CPU runs with `decompose_to_tuple`.

use hlo_ir::attribute::SliceDim;
use hlo_ir::{AttrKey, Opcode, Shape};

use super::super::build::share;
use super::super::cx::{Cx, Id};
use super::super::visit::each;

/// Decomposes every all-to-all of one array; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::AllToAll, decompose)
}

fn decompose(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let array = cx.array(id)?.clone();
    let (&[operand], &[dim]) = (cx.operands(id), cx.inst(id).ints(&AttrKey::Dimensions)) else { return None };
    let whole = *array.dims.get(usize::try_from(dim).ok()?)?;
    let count = group_size(cx.inst(id).raw(&AttrKey::ReplicaGroups)).unwrap_or(whole).clamp(1, whole.max(1));
    if cx.inst(id).flag(&AttrKey::ConstrainLayout) || whole % count != 0 {
        return None;
    }
    let size = whole / count;
    let mut piece = array.clone();
    piece.dims[dim as usize] = size;
    let piece = share(piece);
    let slices: Vec<Id> = (0..count)
        .map(|at| {
            let mut bounds: Vec<SliceDim> = array.dims.iter().map(|&size| SliceDim::full(size)).collect();
            bounds[dim as usize] = SliceDim { start: at * size, limit: (at + 1) * size, stride: 1 };
            cx.slice(id, piece.clone(), operand, bounds)
        })
        .collect();
    let exchanged = cx.like(id, Shape::tuple(slices.iter().map(|_| piece.clone())), &slices);
    cx.drop_attribute(exchanged, &AttrKey::Dimensions);
    let parts: Vec<Id> = (0..count).map(|at| cx.element(id, exchanged, at)).collect();
    let shape = cx.shape(id).clone();
    Some(cx.concatenate(id, shape, &parts, dim))
}

/// Devices in the first group; `None` where all take part.
fn group_size(groups: Option<&str>) -> Option<i64> {
    let groups = hlo_ir::replica_groups::listed(groups?)?;
    groups.first().map(|group| group.len() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_all_kinds_are_counted() {
        assert_eq!(group_size(Some("{{0,1,2},{3,4,5}}")), Some(3));
        assert_eq!(group_size(Some("[2,4]<=[8]")), Some(4));
        assert_eq!(group_size(Some("mesh['a'=2,'b'=4] {'a'}")), Some(2));
        assert_eq!(group_size(Some("{}")), None);
        assert_eq!(group_size(None), None);
    }
}
