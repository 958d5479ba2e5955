//! Select-and-scatter: a windowed reduction finds the coordinates of the selected elements, and a scatter puts the sources there.
//!
//! Source: `SelectAndScatterExpander` (xla/service/select_and_scatter_expander.cc).

use hlo_ir::shape::Shape;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, Opcode, Payload};

use super::super::algsimp::window_of;
use super::super::build::{apply, row_major, share};
use super::super::calls::inline_one;
use super::super::cx::{Cx, Id};
use super::super::value::Scalar;
use super::super::visit::each;

/// Expands every select-and-scatter; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::SelectAndScatter, expand)
}

fn expand(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let &[operand, source, init] = cx.operands(id) else { return None };
    let select = cx.inst(id).computation(&AttrKey::Select)?;
    let combine = cx.inst(id).computation(&AttrKey::ScatterComputation)?;
    let rank = cx.rank(operand);
    let coordinates = share(cx.arr(operand).with_element_type(ElementType::S32));
    let mut operands = vec![operand];
    for dim in 0..rank as i64 {
        operands.push(cx.iota(id, coordinates.clone(), dim));
    }
    let reducer = reducer(cx, select, cx.element_type(operand), rank)?;
    let none = cx.constant(id, ElementType::S32, Scalar::Int(-1));
    operands.push(init);
    operands.extend(std::iter::repeat_n(none, rank));
    let found = share(cx.arr(source).with_element_type(ElementType::S32));
    let shapes = std::iter::once(cx.shape(source).clone()).chain(std::iter::repeat_n(found, rank));
    let window = window_of(cx, id);
    let chosen = cx.reduce_window(id, Shape::tuple(shapes), &operands, window, reducer);
    let indices = index_array(cx, id, chosen, source, rank);
    let shape = cx.shape(id).clone();
    let base = cx.broadcast(id, shape.clone(), init, &[]);
    let all = || AttrValue::ints(0..rank as i64);
    let attributes = [
        Attribute::ints(AttrKey::UpdateWindowDims, []),
        Attribute::new(AttrKey::InsertedWindowDims, all()),
        Attribute::new(AttrKey::ScatterDimsToOperandDims, all()),
        Attribute::int(AttrKey::IndexVectorDim, cx.rank(source) as i64),
        apply(combine),
    ];
    Some(cx.make(id, shape, Opcode::Scatter, &[base, indices, source], attributes))
}

/// The coordinates, side by side in the last dimension.
fn index_array(cx: &mut Cx<'_>, id: Id, chosen: Id, source: Id, rank: usize) -> Id {
    let sizes = cx.dims(source);
    let with = |last: i64| row_major(ElementType::S32, sizes.iter().copied().chain([last]));
    let mut columns = Vec::new();
    for index in 1..=rank as i64 {
        let element = cx.element(id, chosen, index);
        columns.push(cx.reshape(id, with(1), element));
    }
    cx.concatenate(id, with(rank as i64), &columns, sizes.len() as i64)
}

/// Keeps the left value and its coordinates if it is a real element and selected, or if the right one is none.
fn reducer(cx: &mut Cx<'_>, select: ComputationId, element_type: ElementType, rank: usize) -> Option<ComputationId> {
    let computation = cx.add_computation("reduce_window");
    let (value, number, truth) =
        (row_major(element_type, []), row_major(ElementType::S32, []), row_major(ElementType::Pred, []));
    let count = rank + 1;
    let parameters: Vec<Id> = (0..2 * count)
        .map(|index| {
            let shape = if index % count == 0 { value.clone() } else { number.clone() };
            let inst = Instruction::new("parameter", shape, Opcode::Parameter, []);
            cx.add(computation, inst.with_payload(Payload::Parameter(index as i64)))
        })
        .collect();
    let at = parameters[0];
    let none = cx.constant(at, ElementType::S32, Scalar::Int(-1));
    let left = cx.compare(at, parameters[1], none, "NE");
    let right = cx.compare(at, parameters[count + 1], none, "NE");
    let missing = cx.elementwise(at, truth.clone(), Opcode::Not, &[right]);
    let call = cx.make(at, truth.clone(), Opcode::Call, &[at, parameters[count]], [apply(select)]);
    let kept = cx.elementwise(at, truth.clone(), Opcode::And, &[call, left]);
    let kept = cx.elementwise(at, truth, Opcode::Or, &[kept, missing]);
    let results: Vec<Id> = (0..count)
        .map(|index| {
            let shape = cx.shape(parameters[index]).clone();
            cx.elementwise(at, shape, Opcode::Select, &[kept, parameters[index], parameters[count + index]])
        })
        .collect();
    let root = cx.tuple(at, &results);
    cx.set_root(root);
    inline_one(cx, call)?;
    Some(computation)
}
