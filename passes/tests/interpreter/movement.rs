//! Constants and operations that only move elements.

use hlo_ir::{AttrKey, AttrValue, Instruction, Opcode};

use super::free;
use super::tensor::{Tensor, wrap};

pub(super) fn compute(inst: &Instruction, arrays: &[&Tensor]) -> Tensor {
    let shape = inst.array().expect("the interpreter moves arrays");
    let dimensions = inst.ints(&AttrKey::Dimensions);
    match inst.opcode {
        Opcode::Constant => constant(inst),
        Opcode::Iota => {
            let dim = inst.int(&AttrKey::IotaDimension).expect("an iota has a dimension") as usize;
            Tensor::build(shape, |index| index[dim])
        }
        Opcode::Broadcast => Tensor::build(shape, |index| {
            let from: Vec<i64> = dimensions.iter().map(|&dim| index[dim as usize]).collect();
            arrays[0].at(&from)
        }),
        Opcode::Reshape | Opcode::Bitcast => Tensor { shape: shape.clone(), data: arrays[0].data.clone() },
        Opcode::Transpose => Tensor::build(shape, |index| {
            let mut from = vec![0; index.len()];
            dimensions.iter().zip(index).for_each(|(&dim, &at)| from[dim as usize] = at);
            arrays[0].at(&from)
        }),
        Opcode::Reverse => Tensor::build(shape, |index| {
            let flip = |(dim, &at): (usize, &i64)| {
                if dimensions.contains(&(dim as i64)) { shape.dims[dim] - 1 - at } else { at }
            };
            arrays[0].at(&index.iter().enumerate().map(flip).collect::<Vec<_>>())
        }),
        Opcode::Slice => slice(inst, arrays[0]),
        Opcode::Pad => pad(inst, arrays),
        Opcode::Concatenate => concatenate(inst, arrays, dimensions[0] as usize),
        Opcode::BitcastConvert => bitcast_convert(inst, arrays[0]),
        opcode => panic!("the interpreter does not know {}", opcode.name()),
    }
}

/// All numbers of the literal in order.
fn constant(inst: &Instruction) -> Tensor {
    let text = inst.literal().expect("a constant has a literal");
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ',')).filter(|word| !word.is_empty());
    let number = |word: &str| match word {
        "true" => 1,
        "false" => 0,
        _ => word.parse::<f64>().unwrap_or_else(|_| panic!("`{word}` is no number")) as i64,
    };
    let shape = inst.array().expect("constants are arrays");
    if free::is_free(shape.element_type) {
        let data = words.map(|word| free::constant(shape.element_type, word)).collect();
        return Tensor { shape: shape.clone(), data };
    }
    Tensor { shape: shape.clone(), data: words.map(number).map(|value| wrap(shape.element_type, value)).collect() }
}

fn slice(inst: &Instruction, operand: &Tensor) -> Tensor {
    let Some(AttrValue::Slice(bounds)) = inst.attribute(&AttrKey::Slice) else { panic!("a slice has bounds") };
    let sizes = bounds.iter().map(|bound| (bound.limit - bound.start + bound.stride - 1) / bound.stride);
    let shape = inst.array().expect("a slice is an array");
    assert_eq!(sizes.collect::<Vec<_>>(), shape.dims.to_vec(), "bounds and shape of {}", inst.name);
    Tensor::build(shape, |index| {
        let from: Vec<i64> = index.iter().zip(bounds).map(|(at, bound)| bound.start + at * bound.stride).collect();
        operand.at(&from)
    })
}

fn pad(inst: &Instruction, arrays: &[&Tensor]) -> Tensor {
    let Some(AttrValue::Padding(padding)) = inst.attribute(&AttrKey::Padding) else { panic!("a pad has padding") };
    Tensor::build(inst.array().expect("a pad is an array"), |index| {
        let mut from = Vec::new();
        for (at, pad) in index.iter().zip(padding) {
            let offset = at - pad.low;
            let step = pad.interior + 1;
            from.push(if offset % step == 0 { offset / step } else { -1 });
        }
        arrays[0].place(&from).map_or(arrays[1].data[0], |place| arrays[0].data[place])
    })
}

fn concatenate(inst: &Instruction, arrays: &[&Tensor], dim: usize) -> Tensor {
    Tensor::build(inst.array().expect("it joins arrays"), |index| {
        let mut from = index.to_vec();
        for array in arrays {
            if from[dim] < array.shape.dims[dim] {
                return array.at(&from);
            }
            from[dim] -= array.shape.dims[dim];
        }
        panic!("the operands fill the result")
    })
}

/// Little-endian pieces of integers.
fn bitcast_convert(inst: &Instruction, operand: &Tensor) -> Tensor {
    let shape = inst.array().expect("a bitcast-convert is an array");
    let (from, to) = (operand.shape.element_type.bits(), shape.element_type.bits());
    let mask = |bits: u32| if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let bits = |value: i64| value as u64 & mask(from);
    Tensor::build(shape, |index| match from.cmp(&to) {
        // Types that are not wrapped count in signed numbers.
        std::cmp::Ordering::Equal => ((bits(operand.at(index)) << (64 - from)) as i64) >> (64 - from),
        std::cmp::Ordering::Greater => {
            let (piece, from_index) = index.split_last().expect("the pieces have a dimension");
            ((bits(operand.at(from_index)) >> (*piece as u32 * to)) & mask(to)) as i64
        }
        std::cmp::Ordering::Less => {
            let piece = |piece: u32| bits(operand.at(&[index, &[i64::from(piece)]].concat())) << (piece * from);
            (0..to / from).map(piece).fold(0, |all, piece| all | piece) as i64
        }
    })
}
