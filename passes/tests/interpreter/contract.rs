//! Contractions, sorts, and stand-ins for transforms and factorisations.

use hlo_ir::{AttrKey, DotDims, Instruction, Module};

use super::free;
use super::tensor::{Tensor, indices, wrap};

pub(super) fn dot(inst: &Instruction, arrays: &[&Tensor]) -> Tensor {
    let dims = DotDims::of(inst).expect("this is a dot");
    let (lhs, rhs) = (arrays[0], arrays[1]);
    let shape = inst.array().expect("a dot is an array");
    let lhs_free = lhs.shape.rank() - dims.lhs_batch.len() - dims.lhs_contracting.len();
    let sizes: Vec<i64> = dims.lhs_contracting.iter().map(|&dim| lhs.shape.dims[dim as usize]).collect();
    // Batch and contracted components stand at named dimensions, free ones fill the others in order.
    let place = |rank: usize, batch: (&[i64], &[i64]), inner: (&[i64], &[i64]), free: &[i64]| {
        let mut free = free.iter();
        let pick = |dim: i64| {
            let named = [batch, inner].into_iter().find_map(|(dims, values)| {
                let position = dims.iter().position(|&named| named == dim)?;
                Some(values[position])
            });
            named.unwrap_or_else(|| *free.next().expect("free dimensions suffice"))
        };
        (0..rank as i64).map(pick).collect::<Vec<i64>>()
    };
    Tensor::build(shape, |index| {
        let (batch, free) = index.split_at(dims.lhs_batch.len());
        let (left, right) = free.split_at(lhs_free);
        let product = |inner: &Vec<i64>| {
            let a = lhs.at(&place(lhs.shape.rank(), (dims.lhs_batch, batch), (dims.lhs_contracting, inner), left));
            let b = rhs.at(&place(rhs.shape.rank(), (dims.rhs_batch, batch), (dims.rhs_contracting, inner), right));
            (a, b)
        };
        let products = indices(&sizes);
        if free::is_free(shape.element_type) {
            // A product gives the same bits in either order.
            let term = |sum, (a, b): (i64, i64)| free::mix(shape.element_type, &[sum, a.min(b), a.max(b)]);
            return products.iter().map(product).fold(0, term);
        }
        products.iter().map(product).fold(0, |sum: i64, (a, b)| sum.wrapping_add(a.wrapping_mul(b)))
    })
}

pub(super) fn convolution(inst: &Instruction, arrays: &[&Tensor]) -> Tensor {
    let (lhs, rhs) = (arrays[0], arrays[1]);
    let labels = inst.raw(&AttrKey::DimLabels).expect("a convolution has labels");
    let (inputs, output) = labels.split_once("->").expect("labels name the output");
    let (left, right) = inputs.split_once('_').expect("labels name both sides");
    let find = |labels: &str, label: char| labels.find(label).expect("labels are complete");
    let window = super::windowed::window_of(inst);
    let groups = inst.int(&AttrKey::FeatureGroupCount).unwrap_or(1);
    let features = lhs.shape.dims[find(left, 'f')] / groups;
    let shape = inst.array().expect("a convolution is an array");
    let outputs = shape.dims[find(output, 'f')] / groups;
    let mut sizes: Vec<i64> = window.iter().map(|window| window.size).collect();
    sizes.push(features);
    let digit = |k: usize| char::from(b'0' + k as u8);
    Tensor::build(shape, |index| {
        let feature = index[find(output, 'f')];
        let mut sum = 0_i64;
        for inner in indices(&sizes) {
            let (offsets, input) = inner.split_at(window.len());
            let (mut a, mut b) = (vec![0; lhs.shape.rank()], vec![0; rhs.shape.rank()]);
            a[find(left, 'b')] = index[find(output, 'b')];
            a[find(left, 'f')] = feature / outputs * features + input[0];
            b[find(right, 'i')] = input[0];
            b[find(right, 'o')] = feature;
            for (k, window) in window.iter().enumerate() {
                let at =
                    index[find(output, digit(k))] * window.stride + offsets[k] * window.rhs_dilate - window.pad_low;
                a[find(left, digit(k))] = if at % window.lhs_dilate == 0 { at / window.lhs_dilate } else { -1 };
                b[find(right, digit(k))] = offsets[k];
            }
            sum = lhs.place(&a).map_or(sum, |place| sum.wrapping_add(lhs.data[place].wrapping_mul(rhs.at(&b))));
        }
        sum
    })
}

/// Stable, by the comparator on (left, right) of each operand.
pub(super) fn sort(module: &Module, inst: &Instruction, arrays: &[&Tensor]) -> Vec<Tensor> {
    let dim = inst.ints(&AttrKey::Dimensions)[0] as usize;
    let dims = &arrays[0].shape.dims;
    let mut results: Vec<Tensor> = arrays.iter().map(|&array| array.clone()).collect();
    let mut lines = dims.to_vec();
    lines[dim] = 1;
    for line in indices(&lines) {
        let place = |k: i64| {
            let mut at = line.clone();
            at[dim] = k;
            arrays[0].place(&at).expect("the line is inside")
        };
        let mut order: Vec<usize> = (0..dims[dim]).map(place).collect();
        order.sort_by(|&a, &b| {
            let less = |a: usize, b: usize| {
                let pairs: Vec<i64> = arrays.iter().flat_map(|array| [array.data[a], array.data[b]]).collect();
                super::scalar(module, inst, &AttrKey::ToApply, &pairs)[0] != 0
            };
            less(b, a).cmp(&less(a, b))
        });
        for (k, from) in order.into_iter().enumerate() {
            results.iter_mut().zip(arrays).for_each(|(result, array)| result.data[place(k as i64)] = array.data[from]);
        }
    }
    results
}

/// The largest elements of each row, and where they stood.
pub(super) fn top_k(inst: &Instruction, arrays: &[&Tensor]) -> Vec<Tensor> {
    let shapes = inst.shape.as_tuple().expect("a topk has two results");
    let shape = |k: usize| shapes[k].as_array().expect("both are arrays");
    let row = |index: &[i64]| {
        let (_, prefix) = index.split_last().expect("a topk has rows");
        let size = *arrays[0].shape.dims.last().expect("a topk has rows");
        let mut row: Vec<(i64, i64)> = (0..size).map(|at| (-arrays[0].at(&[prefix, &[at]].concat()), at)).collect();
        row.sort_unstable();
        row[index[prefix.len()] as usize]
    };
    vec![Tensor::build(shape(0), |index| -row(index).0), Tensor::build(shape(1), |index| row(index).1)]
}

/// A number that depends on every element and its place.
fn mixed(elements: impl Iterator<Item = i64>) -> i64 {
    elements.fold(17_i64, |mixed, element| mixed.wrapping_mul(31).wrapping_add(element)) % 1_000_003
}

/// Stands in for a transform or factorisation of the minor dimensions: each result element depends on all of them.
pub(super) fn mix_minor(inst: &Instruction, arrays: &[&Tensor]) -> Tensor {
    let shape = inst.array().expect("the result is an array");
    let minor =
        inst.ints(&AttrKey::FftLength).len().max(if inst.attribute(&AttrKey::FftLength).is_some() { 1 } else { 2 });
    let sizes = &arrays[0].shape.dims[shape.rank() - minor..];
    Tensor::build(shape, |index| {
        let (batch, own) = index.split_at(shape.rank() - minor);
        let all = indices(sizes).into_iter().map(|at| arrays[0].at(&[batch, &at].concat()));
        wrap(shape.element_type, mixed(own.iter().copied().chain(all)))
    })
}

/// Stands in for `triangular-solve`: each unknown depends on the whole matrix and on its own right-hand side.
pub(super) fn mix_system(inst: &Instruction, arrays: &[&Tensor]) -> Tensor {
    let (matrix, sides) = (arrays[0], arrays[1]);
    let rank = sides.shape.rank();
    let solved = if inst.flag(&AttrKey::LeftSide) { rank - 2 } else { rank - 1 };
    Tensor::build(inst.array().expect("the result is an array"), |index| {
        let matrix_part = indices(&matrix.shape.dims[rank - 2..]).into_iter();
        let coefficients = matrix_part.map(|at| matrix.at(&[&index[..rank - 2], &at].concat()));
        let line = (0..sides.shape.dims[solved]).map(|k| {
            let mut at = index.to_vec();
            at[solved] = k;
            sides.at(&at)
        });
        mixed([index[solved]].into_iter().chain(coefficients).chain(line))
    })
}
