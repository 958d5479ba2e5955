//! What a bitcast amounts to when layouts are forgotten: transposes, reshapes and a bitcast-convert.
//!
//! A bitcast keeps every byte where it is. So the operand's elements, read in the order of its layout, are the result's elements in the order
//! of the result's layout (XLA: `shape_util.cc`, `DecomposeBitcast`).

use hlo_ir::shape::Dims;
use hlo_ir::{ArrayShape, Opcode};

/// One operation of the chain: its opcode, the row-major shape it gives, and the dimensions of a transpose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) opcode: Opcode,
    pub(super) shape: ArrayShape,
    /// For each dimension of the result that of the operand; empty but for a transpose.
    pub(super) dimensions: Dims,
}

/// The chain that takes `from` to `to`, both with the layouts that the compiler chose; empty if nothing happens. `None` if the elements are
/// smaller than a byte and change their type, or if there are more bytes on one side than on the other: what fills up tiles is counted there.
pub(super) fn steps(from: &ArrayShape, to: &ArrayShape) -> Option<Vec<Step>> {
    let bits = |shape: &ArrayShape| Some(u128::from(shape.elements()?) * u128::from(shape.element_type.bits()));
    if bits(from) != bits(to) {
        return None;
    }
    let mut chain = Chain { now: ArrayShape::new(from.element_type, from.dims.iter().copied()), steps: Vec::new() };
    let (narrow, wide) = (to.element_type.bits(), from.element_type.bits());
    if from.element_type != to.element_type && (narrow % 8 != 0 || wide % 8 != 0) {
        return None;
    }
    if narrow == wide && from.element_type != to.element_type {
        chain.push(Opcode::BitcastConvert, ArrayShape::new(to.element_type, from.dims.iter().copied()));
    }
    if let Some(dimensions) = transposed(from, to).filter(|_| narrow == wide) {
        chain.transpose(dimensions);
        return Some(chain.steps);
    }
    chain.sort_by_memory(from);
    if narrow != wide {
        chain.convert(to);
    }
    chain.reshape(in_memory_order(to));
    chain.sort_by_text(to);
    Some(chain.steps)
}

/// For each dimension of `to` the one of `from` that stands at the same place in memory, if all of them have the same size.
fn transposed(from: &ArrayShape, to: &ArrayShape) -> Option<Dims> {
    let (order, places) = (major_to_minor(from), places(to));
    if from.rank() != to.rank() {
        return None;
    }
    let dims: Dims = places.iter().map(|&place| order[place as usize]).collect();
    dims.iter().zip(&to.dims).all(|(&dim, &size)| from.dims[dim as usize] == size).then_some(dims)
}

/// Dimension numbers from the slowest varying to the fastest. Dimensions of one element stand where they are in the text: their place in
/// memory means nothing.
fn major_to_minor(shape: &ArrayShape) -> Dims {
    let mut order: Dims = shape.minor_to_major().iter().rev().copied().collect();
    let mut large: Vec<i64> = order.iter().copied().filter(|&dim| shape.dims[dim as usize] != 1).collect();
    large.reverse();
    let mut next = || large.pop();
    let in_text = 0..shape.rank() as i64;
    order = in_text.map(|dim| if shape.dims[dim as usize] == 1 { dim } else { next().unwrap_or(dim) }).collect();
    order
}

/// For each dimension its place in memory, counted from the slowest.
fn places(shape: &ArrayShape) -> Dims {
    let mut places: Dims = shape.dims.iter().map(|_| 0).collect();
    for (place, &dim) in major_to_minor(shape).iter().enumerate() {
        places[dim as usize] = place as i64;
    }
    places
}

/// Sizes from the slowest varying dimension to the fastest.
fn in_memory_order(shape: &ArrayShape) -> Dims {
    major_to_minor(shape).iter().map(|&dim| shape.dims[dim as usize]).collect()
}

struct Chain {
    now: ArrayShape,
    steps: Vec<Step>,
}

impl Chain {
    fn push(&mut self, opcode: Opcode, shape: ArrayShape) {
        self.now = shape.clone();
        self.steps.push(Step { opcode, shape, dimensions: Dims::new() });
    }
    fn transpose(&mut self, dimensions: Dims) {
        if dimensions.iter().enumerate().all(|(at, &dim)| at as i64 == dim) {
            return;
        }
        let dims: Dims = dimensions.iter().map(|&dim| self.now.dims[dim as usize]).collect();
        self.now = ArrayShape::new(self.now.element_type, dims);
        self.steps.push(Step { opcode: Opcode::Transpose, shape: self.now.clone(), dimensions });
    }
    fn reshape(&mut self, dims: Dims) {
        if self.now.dims != dims {
            self.push(Opcode::Reshape, ArrayShape::new(self.now.element_type, dims));
        }
    }
    fn sort_by_memory(&mut self, from: &ArrayShape) {
        self.transpose(major_to_minor(from));
    }
    fn sort_by_text(&mut self, to: &ArrayShape) {
        self.transpose(places(to));
    }
    /// To elements of another size: bitcast-convert splits one element into a new last dimension, or joins the last dimension to one.
    fn convert(&mut self, to: &ArrayShape) {
        let (before, after) = (i64::from(self.now.element_type.bits()), i64::from(to.element_type.bits()));
        let count: i64 = self.now.dims.iter().product();
        if before > after {
            self.push(Opcode::BitcastConvert, {
                let dims = self.now.dims.iter().copied().chain([before / after]);
                ArrayShape::new(to.element_type, dims)
            });
        } else {
            let ratio = after / before;
            self.reshape(Dims::from_slice(&[count / ratio, ratio]));
            self.push(Opcode::BitcastConvert, ArrayShape::new(to.element_type, [count / ratio]));
        }
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::{ElementType, Layout};

    use super::*;

    fn shape(element_type: ElementType, dims: &[i64], minor_to_major: &[i64]) -> ArrayShape {
        let layout = Layout { minor_to_major: Dims::from_slice(minor_to_major), ..Layout::default() };
        ArrayShape { layout: Some(layout), ..ArrayShape::new(element_type, dims.iter().copied()) }
    }

    /// Where in memory the element at `index` stands, in elements.
    fn address(shape: &ArrayShape, index: &[i64]) -> i64 {
        let order = shape.minor_to_major();
        order.iter().rev().fold(0, |address, &dim| address * shape.dims[dim as usize] + index[dim as usize])
    }

    /// All indices of an array, in row-major order.
    fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
        dims.iter().fold(vec![Vec::new()], |all, &size| {
            let longer = |index: &Vec<i64>| (0..size).map(|at| [index.as_slice(), &[at]].concat()).collect::<Vec<_>>();
            all.iter().flat_map(longer).collect()
        })
    }

    /// Row-major values after the chain, when each element's value is its place in memory before.
    fn carried(from: &ArrayShape, chain: &[Step]) -> Vec<i64> {
        let mut values: Vec<i64> = indices(&from.dims).iter().map(|index| address(from, index)).collect();
        let mut now = ArrayShape::new(from.element_type, from.dims.iter().copied());
        for step in chain {
            // Reshapes and converts of equal width keep row-major values as they are.
            if step.opcode == Opcode::Transpose {
                let source = |index: &Vec<i64>| {
                    let mut old = vec![0; index.len()];
                    step.dimensions.iter().zip(index).for_each(|(&dim, &at)| old[dim as usize] = at);
                    values[address(&now, &old) as usize]
                };
                values = indices(&step.shape.dims).iter().map(source).collect();
            }
            now = step.shape.clone();
        }
        values
    }

    #[test]
    fn every_element_keeps_its_place_in_memory() {
        let f32 = ElementType::F32;
        let pairs = [
            (shape(f32, &[4, 6], &[0, 1]), shape(f32, &[24], &[0])),
            (shape(f32, &[24], &[0]), shape(f32, &[4, 6], &[0, 1])),
            (shape(f32, &[4, 6], &[0, 1]), shape(f32, &[6, 4], &[1, 0])),
            (shape(f32, &[2, 3, 4], &[1, 2, 0]), shape(f32, &[4, 2, 3], &[2, 0, 1])),
            (shape(f32, &[2, 3, 4], &[0, 2, 1]), shape(f32, &[8, 3], &[1, 0])),
            (shape(f32, &[2, 1, 3], &[0, 1, 2]), shape(f32, &[3, 2, 1], &[0, 1, 2])),
            (shape(f32, &[1, 5, 1], &[1, 0, 2]), shape(f32, &[5], &[0])),
        ];
        for (from, to) in pairs {
            let chain = steps(&from, &to).expect("whole bytes");
            let wanted: Vec<i64> = indices(&to.dims).iter().map(|index| address(&to, index)).collect();
            assert_eq!(carried(&from, &chain), wanted, "{from} to {to}: {chain:?}");
        }
    }

    #[test]
    fn what_only_looks_like_a_change_is_none() {
        let f32 = ElementType::F32;
        let opcodes = |from: &ArrayShape, to: &ArrayShape| -> Vec<Opcode> {
            steps(from, to).expect("whole bytes").iter().map(|step| step.opcode).collect()
        };
        let (column, row) = (shape(f32, &[7, 1], &[1, 0]), shape(f32, &[7, 1], &[0, 1]));
        assert_eq!(opcodes(&column, &row), []);
        assert_eq!(opcodes(&row, &shape(f32, &[1, 7], &[1, 0])), [Opcode::Reshape]);
        assert_eq!(opcodes(&shape(f32, &[2, 3], &[0, 1]), &shape(f32, &[3, 2], &[1, 0])), [Opcode::Transpose]);
        assert_eq!(opcodes(&shape(f32, &[2, 3], &[1, 0]), &shape(f32, &[6], &[0])), [Opcode::Reshape]);
    }

    #[test]
    fn elements_of_another_size_split_and_join() {
        let (words, bytes) = (shape(ElementType::U32, &[4], &[0]), shape(ElementType::U8, &[2, 8], &[1, 0]));
        let opcodes = |chain: Vec<Step>| chain.into_iter().map(|step| step.opcode).collect::<Vec<_>>();
        assert_eq!(opcodes(steps(&words, &bytes).expect("bytes")), [Opcode::BitcastConvert, Opcode::Reshape]);
        assert_eq!(opcodes(steps(&bytes, &words).expect("bytes")), [Opcode::Reshape, Opcode::BitcastConvert]);
        assert_eq!(steps(&shape(ElementType::S4, &[8], &[0]), &bytes), None);
    }
}
