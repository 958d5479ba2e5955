//! Evaluation of instructions whose operands are constants, as far as rules look at the results.
//!
//! What is not computed here (dots, gathers, sorts, large arrays) gets a fingerprint of the expression instead of its elements: equal
//! expressions stay equal, and no rule mistakes them for zeros or ones.
//!
//! Source: `HloEvaluator` (xla/hlo/evaluator).

use std::hash::{Hash, Hasher};

use hlo_ir::attribute::{PadDim, SliceDim};
use hlo_ir::shape::ArrayShape;
use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::literal::MOST_ELEMENTS;
use super::scalar::{self, Scalar};
use super::{Literal, mix, raw, window};
use crate::cpu::front::algsimp::window_of;
use crate::cpu::front::cx::{Cx, Id};
use crate::cpu::front::dims::permute;

/// The constant that `id` computes from operands that are constants, broadcasts of constants or iotas. `None` if XLA's evaluator
/// does not evaluate it either.
pub(crate) fn evaluate(cx: &Cx<'_>, id: Id) -> Option<Literal> {
    let shape = cx.array(id)?;
    if !has_evaluator(cx.opcode(id)) {
        return None;
    }
    let small = |id: &Id| cx.elements(*id) <= MOST_ELEMENTS;
    if !small(&id) || !cx.operands(id).iter().all(small) {
        return Some(match uniform(cx, id) {
            Some(value) => Literal::uniform(shape.element_type, value),
            None => Literal::fingerprint(shape.element_type, expression_hash(cx, id)),
        });
    }
    Some(match compute(cx, id, shape) {
        Some(values) => Literal::known(shape.element_type, values),
        None => Literal::fingerprint(shape.element_type, expression_hash(cx, id)),
    })
}

/// The one value of all elements, computed from operands each of which has one value.
fn uniform(cx: &Cx<'_>, id: Id) -> Option<Scalar> {
    use Opcode as O;
    let one = |operand: &Id| match cx.opcode(*operand) {
        O::Broadcast => cx.literal(cx.operand(*operand, 0))?.one_value(),
        _ => cx.literal(*operand)?.one_value(),
    };
    let values: Vec<Scalar> = cx.operands(id).iter().map(one).collect::<Option<_>>()?;
    match cx.opcode(id) {
        O::Reshape | O::Transpose | O::Slice | O::Reverse => values.first().copied(),
        O::Concatenate | O::Pad => values.windows(2).all(|pair| pair[0].same(pair[1])).then(|| values[0]),
        O::Select => Some(values[if values.first()?.is(1.0) { 1 } else { 2 }]),
        _ => elementwise(cx, id, &values.iter().map(|&value| vec![value]).collect::<Vec<_>>())?.first().copied(),
    }
}

fn has_evaluator(opcode: Opcode) -> bool {
    use Opcode as O;
    !opcode.is_collective()
        && !opcode.has_side_effect()
        && !matches!(
            opcode,
            O::CustomCall
                | O::While
                | O::Cholesky
                | O::TriangularSolve
                | O::RngBitGenerator
                | O::PartitionId
                | O::ReplicaId
                | O::OptBarrier
                | O::BatchNormGrad
                | O::BatchNormInference
                | O::BatchNormTraining
                | O::Fft
        )
}

/// A number that equal expressions share.
fn expression_hash(cx: &Cx<'_>, id: Id) -> u64 {
    if let Some(literal) = cx.literal(id) {
        return literal.hash();
    }
    let mut hasher = Plain(0x5eed);
    let inst = cx.inst(id);
    (inst.opcode, &inst.shape).hash(&mut hasher);
    for attribute in inst.attributes.iter().filter(|attribute| attribute.key != AttrKey::Metadata) {
        attribute.hash(&mut hasher);
    }
    cx.operands(id).iter().fold(hasher.0, |hash, &operand| mix(hash, expression_hash(cx, operand)))
}

/// A hasher that is the same in every run.
struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0, u64::from(byte));
        }
    }
}

/// The elements of an operand.
fn operand_values(cx: &Cx<'_>, id: Id) -> Option<Vec<Scalar>> {
    match cx.opcode(id) {
        Opcode::Constant => cx.literal(id)?.values().map(<[Scalar]>::to_vec),
        Opcode::Iota => {
            let dim = cx.inst(id).int(&AttrKey::IotaDimension)? as usize;
            let element_type = cx.element_type(id);
            Some(gather(cx.array(id)?, |index| {
                scalar::round_to(element_type, Scalar::of(element_type, index[dim] as f64))
            }))
        }
        Opcode::Broadcast => {
            let operand = cx.operand(id, 0);
            let (values, from, dims) = (operand_values(cx, operand)?, cx.array(operand)?, cx.dimensions(id));
            Some(gather(cx.array(id)?, |index| {
                let picked: Vec<i64> = dims.iter().map(|&dim| index[dim as usize]).collect();
                values[position(from, &picked)]
            }))
        }
        _ => None,
    }
}

/// Every element of an array, in row-major order, from its index.
pub(super) fn gather(array: &ArrayShape, mut element: impl FnMut(&[i64]) -> Scalar) -> Vec<Scalar> {
    let count = array.elements().unwrap_or(0) as usize;
    let mut index = vec![0_i64; array.rank()];
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(element(&index));
        for dim in (0..index.len()).rev() {
            index[dim] += 1;
            if index[dim] < array.dims[dim] {
                break;
            }
            index[dim] = 0;
        }
    }
    values
}

/// Row-major position of an index.
pub(super) fn position(array: &ArrayShape, index: &[i64]) -> usize {
    index.iter().zip(&array.dims).fold(0, |position, (&at, &size)| position * size as usize + at as usize)
}

fn compute(cx: &Cx<'_>, id: Id, shape: &ArrayShape) -> Option<Vec<Scalar>> {
    use Opcode as O;
    let operands: Vec<Vec<Scalar>> =
        cx.operands(id).iter().map(|&operand| operand_values(cx, operand)).collect::<Option<_>>()?;
    match cx.opcode(id) {
        O::Reshape | O::Copy => operands.into_iter().next(),
        O::Transpose => {
            let (from, back) = (cx.arr(cx.operand(id, 0)), super::super::dims::inverse(&cx.dimensions(id)));
            Some(gather(shape, |index| operands[0][position(&from, &permute(index, &back))]))
        }
        O::Slice => slice(cx, id, shape, &operands[0]),
        O::Reverse => {
            let dims = cx.dimensions(id);
            Some(gather(shape, |index| {
                let mirrored: Vec<i64> = (0_i64..)
                    .zip(index)
                    .map(|(dim, &at)| if dims.contains(&dim) { shape.dims[dim as usize] - 1 - at } else { at })
                    .collect();
                operands[0][position(shape, &mirrored)]
            }))
        }
        O::Concatenate => concatenate(cx, id, shape, &operands),
        O::Pad => pad(cx, id, shape, &operands),
        O::Reduce => reduce(cx, id, shape, &operands),
        O::ReduceWindow => {
            let [values, init] = &operands[..] else { return None };
            let opcode = cx.binary_of_parameters(cx.to_apply(id)?)?;
            let from = cx.array(cx.operand(id, 0))?;
            window::reduce(opcode, from, shape, &window_of(cx, id), values, *init.first()?)
        }
        O::Select => select(cx, id, shape, &operands),
        _ => elementwise(cx, id, &operands),
    }
}

fn slice(cx: &Cx<'_>, id: Id, shape: &ArrayShape, values: &[Scalar]) -> Option<Vec<Scalar>> {
    let Some(AttrValue::Slice(bounds)) = cx.inst(id).attribute(&AttrKey::Slice) else { return None };
    let from = cx.array(cx.operand(id, 0))?;
    let at = |(bound, &index): (&SliceDim, &i64)| bound.start + index * bound.stride;
    Some(gather(shape, |index| values[position(from, &bounds.iter().zip(index).map(at).collect::<Vec<_>>())]))
}

fn concatenate(cx: &Cx<'_>, id: Id, shape: &ArrayShape, operands: &[Vec<Scalar>]) -> Option<Vec<Scalar>> {
    let dim = *cx.dimensions(id).first()? as usize;
    let shapes: Vec<ArrayShape> = cx.operands(id).iter().map(|&operand| cx.arr(operand)).collect();
    Some(gather(shape, |index| {
        let mut index = index.to_vec();
        let mut which = 0;
        while which + 1 < shapes.len() && index[dim] >= shapes[which].dims[dim] {
            index[dim] -= shapes[which].dims[dim];
            which += 1;
        }
        operands[which][position(&shapes[which], &index)]
    }))
}

fn pad(cx: &Cx<'_>, id: Id, shape: &ArrayShape, operands: &[Vec<Scalar>]) -> Option<Vec<Scalar>> {
    let Some(AttrValue::Padding(padding)) = cx.inst(id).attribute(&AttrKey::Padding) else { return None };
    let from = cx.array(cx.operand(id, 0))?;
    let source = |(pad, (&at, &size)): (&PadDim, (&i64, &i64))| {
        let step = pad.interior + 1;
        let offset = at - pad.low;
        (offset >= 0 && offset % step == 0 && offset / step < size).then_some(offset / step)
    };
    let value = *operands.get(1)?.first()?;
    Some(gather(shape, |index| {
        let inside: Option<Vec<i64>> = padding.iter().zip(index.iter().zip(&from.dims)).map(source).collect();
        inside.map_or(value, |inside| operands[0][position(from, &inside)])
    }))
}

fn reduce(cx: &Cx<'_>, id: Id, shape: &ArrayShape, operands: &[Vec<Scalar>]) -> Option<Vec<Scalar>> {
    let [values, init] = operands else { return None };
    let opcode = cx.binary_of_parameters(cx.to_apply(id)?)?;
    let (dims, from) = (cx.dimensions(id), cx.array(cx.operand(id, 0))?);
    let mut result = vec![*init.first()?; shape.elements()? as usize];
    let mut known = true;
    let mut next = values.iter();
    gather(from, |index| {
        let kept: Vec<i64> = (0_i64..).zip(index).filter(|(dim, _)| !dims.contains(dim)).map(|(_, &at)| at).collect();
        let (slot, value) = (position(shape, &kept), next.next().copied().unwrap_or(Scalar::Int(0)));
        match scalar::binary(opcode, shape.element_type, result[slot], value) {
            Some(sum) => result[slot] = sum,
            None => known = false,
        }
        value
    });
    known.then_some(result)
}

fn select(cx: &Cx<'_>, id: Id, shape: &ArrayShape, operands: &[Vec<Scalar>]) -> Option<Vec<Scalar>> {
    let [predicate, on_true, on_false] = operands else { return None };
    let scalar = cx.is_scalar(cx.operand(id, 0));
    let pick = |k: usize| if predicate[if scalar { 0 } else { k }].is(1.0) { on_true[k] } else { on_false[k] };
    Some((0..shape.elements()? as usize).map(pick).collect())
}

fn elementwise(cx: &Cx<'_>, id: Id, operands: &[Vec<Scalar>]) -> Option<Vec<Scalar>> {
    let (inst, result_type) = (cx.inst(id), cx.element_type(id));
    let operand_type = cx.element_type(*cx.operands(id).first()?);
    match (inst.opcode, operands) {
        (Opcode::Convert, [a]) => {
            Some(a.iter().map(|&value| scalar::convert(operand_type, result_type, value)).collect())
        }
        (Opcode::BitcastConvert, [a]) => {
            a.iter().map(|&value| raw::bitcast(operand_type, result_type, value)).collect()
        }
        (Opcode::Compare, [a, b]) => {
            let direction = inst.word(&AttrKey::Direction)?;
            let truth = |(&x, &y)| scalar::compare(direction, x, y).map(|truth| Scalar::Int(i128::from(truth)));
            a.iter().zip(b).map(truth).collect()
        }
        (Opcode::IsFinite, [a]) => {
            Some(a.iter().map(|value| Scalar::Int(i128::from(value.float().is_finite()))).collect())
        }
        (Opcode::Clamp, [low, value, high]) => {
            let bound = |list: &[Scalar], k: usize| list[if list.len() == 1 { 0 } else { k }];
            let clamp = |(k, &x): (usize, &Scalar)| {
                let raised = scalar::binary(Opcode::Maximum, result_type, x, bound(low, k))?;
                scalar::binary(Opcode::Minimum, result_type, raised, bound(high, k))
            };
            value.iter().enumerate().map(clamp).collect()
        }
        (opcode, [a]) if result_type == operand_type => {
            a.iter().map(|&value| scalar::unary(opcode, result_type, value)).collect()
        }
        (opcode, [a, b]) if result_type == operand_type => {
            a.iter().zip(b).map(|(&x, &y)| scalar::binary(opcode, result_type, x, y)).collect()
        }
        _ => None,
    }
}
