//! How many multiplications a product of matrices or a convolution takes.

use hlo_ir::attribute::WindowDim;
use hlo_ir::{ArrayShape, AttrKey, AttrValue, ConvDims, DotDims, InstructionId, Module, Opcode};
use hlo_memory::Target;

use crate::flow::first_array;

/// Multiplications of a product on a target, each with an addition, `u64::MAX` if there are more. `None` for what is no product.
///
/// A convolution on a device meets numbers of its input alone, neither its padding nor what dilates it, as XLA's `HloCostAnalysis` counts. XLA:CPU's (Eigen) multiply the zeros
/// there too.
pub(crate) fn multiplications(module: &Module, id: InstructionId, target: Target) -> Option<u64> {
    let inst = module.instruction(id);
    match inst.opcode {
        Opcode::Dot => of_dot(module, id),
        // XLA:GPU makes convolutions calls of its library, with the same labels.
        Opcode::Convolution | Opcode::CustomCall => of_convolution(module, id, target),
        _ => None,
    }
}

fn operand(module: &Module, id: InstructionId, index: usize) -> Option<&ArrayShape> {
    module.instruction(id).operands.get(index).and_then(|&operand| module.instruction(operand).array())
}

fn extent(array: &ArrayShape, dim: usize) -> Option<u64> {
    array.dims.get(dim).and_then(|&dim| u64::try_from(dim).ok())
}

fn of_dot(module: &Module, id: InstructionId) -> Option<u64> {
    let inst = module.instruction(id);
    let (dims, left) = (DotDims::of(inst)?, operand(module, id, 0)?);
    let results = inst.array()?.elements()?;
    let mut contracted = dims.lhs_contracting.iter().map(|&dim| extent(left, dim as usize));
    contracted.try_fold(results, |product, extent| Some(product.saturating_mul(extent?)))
}

fn of_convolution(module: &Module, id: InstructionId, target: Target) -> Option<u64> {
    let inst = module.instruction(id);
    let dims = ConvDims::of_labels(inst.raw(&AttrKey::DimLabels)?)?;
    let (result, image, kernel) = (first_array(&inst.shape)?, operand(module, id, 0)?, operand(module, id, 1)?);
    let all = result.elements()?.saturating_mul(kernel.elements()? / extent(kernel, dims.kernel_output)?.max(1));
    let Some(AttrValue::Window(window)) = inst.attribute(&AttrKey::Window).filter(|_| target != Target::Cpu) else {
        return Some(all);
    };
    // Calls of libraries may say anything.
    if window.iter().any(|dim| dim.size.min(dim.stride).min(dim.lhs_dilate).min(dim.rhs_dilate) < 1) {
        return Some(all);
    }
    let met = window.iter().enumerate().try_fold(all as f64, |count, (place, window)| {
        let (from, to) = (*dims.input_spatial.get(place)?, *dims.output_spatial.get(place)?);
        let (from, to) = (*image.dims.get(from)?, *result.dims.get(to)?);
        let pairs = to.saturating_mul(window.size).max(1);
        Some(count * pairs_inside(from, to, window) as f64 / pairs as f64)
    })?;
    Some(met.round() as u64)
}

/// Pairs of a position of the result and one of the window that meet a number of the input, in one dimension.
fn pairs_inside(input: i64, result: i64, window: &WindowDim) -> i64 {
    let (inside, outside) = ((window.size, window.rhs_dilate), (result, window.stride));
    // Every position of one side is looked at, and which of the other meet the input there.
    let (few, many) = if inside.0 <= outside.0 { (inside, outside) } else { (outside, inside) };
    let last = (input - 1).saturating_mul(window.lhs_dilate);
    let start = |at: i64| at.saturating_mul(few.1).saturating_sub(window.pad_low);
    (0..few.0).map(|at| places_inside(start(at), many, last, window.lhs_dilate)).sum()
}

/// How many of `count` places, `start`, `start + step` and so on, are multiples of `dilation` from 0 to `last`.
fn places_inside(start: i64, (count, step): (i64, i64), last: i64, dilation: i64) -> i64 {
    let before = if start < 0 { (start.saturating_neg() - 1) / step + 1 } else { 0 };
    let end = if last < start { 0 } else { (last.saturating_sub(start) / step + 1).min(count) };
    let is_number = |place: i64| start.saturating_add(place.saturating_mul(step)) % dilation == 0;
    // Which places hold numbers repeats every `dilation` of them.
    let first = (before..end).take(usize::try_from(dilation).unwrap_or(usize::MAX)).filter(|&place| is_number(place));
    first.map(|place| (end - 1 - place) / dilation + 1).sum()
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    fn counted(image: &str, kernel: &str, window: &str, result: &str, target: Target) -> u64 {
        let source = format!(
            "HloModule m\n\nENTRY main {{\n  x = f32[{image}] parameter(0)\n  w = f32[{kernel}] parameter(1)\n  \
             ROOT y = f32[{result}] convolution(x, w), window={{{window}}}, dim_labels=b0f_0io->b0f\n}}\n"
        );
        let module = text::parse(&source).expect("a module");
        multiplications(&module, module.computation(module.entry()).root, target).expect("a product")
    }

    /// Looks at every pair.
    fn by_hand(input: i64, result: i64, window: &WindowDim) -> i64 {
        let place = |out: i64, at: i64| out * window.stride + at * window.rhs_dilate - window.pad_low;
        let meets =
            |place: i64| place >= 0 && place <= (input - 1) * window.lhs_dilate && place % window.lhs_dilate == 0;
        let pairs = (0..result).flat_map(|out| (0..window.size).map(move |at| place(out, at)));
        pairs.filter(|&place| meets(place)).count() as i64
    }

    #[test]
    fn pairs_are_those_that_meet_a_number() {
        let numbers = [1, 2, 3, 5];
        for (input, result) in numbers.into_iter().flat_map(|n| [1, 4, 9].map(|result| (n, result))) {
            for (size, stride) in numbers.into_iter().flat_map(|n| numbers.map(|stride| (n, stride))) {
                for (lhs_dilate, rhs_dilate) in [(1, 1), (2, 1), (1, 3), (4, 2), (6, 4), (3, 3)] {
                    for pad_low in [-2, 0, 1, 7] {
                        let window =
                            WindowDim { size, stride, pad_low, lhs_dilate, rhs_dilate, ..WindowDim::default() };
                        assert_eq!(pairs_inside(input, result, &window), by_hand(input, result, &window), "{window:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn devices_multiply_neither_padding_nor_dilation() {
        let padded = |target| counted("1,5,4", "3,4,16", "size=3 pad=1_1", "1,5,16", target);
        // The first and the last of five positions miss one of three numbers.
        assert_eq!((padded(Target::Gpu), padded(Target::Tpu)), (13 * 4 * 16, 13 * 4 * 16));
        assert_eq!(padded(Target::Cpu), 15 * 4 * 16);
        let spread = |target| counted("1,4,8", "2,8,3", "size=2 pad=1_1 lhs_dilate=2", "1,8,3", target);
        assert_eq!((spread(Target::Gpu), spread(Target::Cpu)), (8 * 8 * 3, 16 * 8 * 3));
    }
}
