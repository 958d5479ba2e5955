//! Windowed reductions of small constants.

use hlo_ir::attribute::WindowDim;
use hlo_ir::shape::ArrayShape;
use hlo_ir::{ElementType, Opcode};

use super::eval::{gather, position};
use super::literal::MOST_ELEMENTS;
use super::{Scalar, scalar};

/// Reduces the elements in each window with `opcode`, starting from `init`. `None` if that is too much work.
pub(super) fn reduce(
    opcode: Opcode,
    from: &ArrayShape,
    shape: &ArrayShape,
    window: &[WindowDim],
    values: &[Scalar],
    init: Scalar,
) -> Option<Vec<Scalar>> {
    let inside = ArrayShape::new(ElementType::Pred, window.iter().map(|dim| dim.size));
    if inside.elements()?.checked_mul(shape.elements()?)? > 16 * MOST_ELEMENTS {
        return None;
    }
    let mut known = true;
    let result = gather(shape, |index| {
        let mut sum = init;
        gather(&inside, |offset| {
            if let Some(at) = source(from, window, index, offset) {
                match scalar::binary(opcode, shape.element_type, sum, values[position(from, &at)]) {
                    Some(new) => sum = new,
                    None => known = false,
                }
            }
            init
        });
        sum
    });
    known.then_some(result)
}

/// The element at an offset inside a window; `None` where there is only padding.
fn source(from: &ArrayShape, window: &[WindowDim], index: &[i64], offset: &[i64]) -> Option<Vec<i64>> {
    let along = |dim: usize| {
        let w = &window[dim];
        let step = if w.reversed { w.size - 1 - offset[dim] } else { offset[dim] };
        let at = index[dim] * w.stride + step * w.rhs_dilate - w.pad_low;
        (at >= 0 && at % w.lhs_dilate == 0 && at / w.lhs_dilate < from.dims[dim]).then_some(at / w.lhs_dilate)
    };
    (0..window.len()).map(along).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_slide_over_padding_and_dilation() {
        let from = ArrayShape::new(ElementType::S32, [3]);
        let values = [1, 2, 4].map(Scalar::Int);
        let sums = |window: WindowDim, size: i64| {
            let shape = ArrayShape::new(ElementType::S32, [size]);
            reduce(Opcode::Add, &from, &shape, &[window], &values, Scalar::Int(0)).unwrap()
        };
        let running = WindowDim { size: 3, pad_low: 2, ..WindowDim::default() };
        assert_eq!(sums(running, 3), [1, 3, 7].map(Scalar::Int));
        let spread = WindowDim { size: 2, lhs_dilate: 2, ..WindowDim::default() };
        assert_eq!(sums(spread, 4), [1, 2, 2, 4].map(Scalar::Int));
    }
}
