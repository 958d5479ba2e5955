//! Convolutions in the order of XLA:CPU's library: batches first and features last, with kernels of places, input features and output features.
//!
//! XLA transposes what has another order (gradients of kernels, images with channels first), but in the entry computation only
//! (`xla/service/cpu/conv_canonicalization.cc`). In a loop such a convolution is left to nested loops over single numbers: ten times as slow, and
//! a sum of 102,400 terms in a row was 44 times as far from the truth.

// Tests: `passes/tests/chunk_planner.rs`.

use hlo_ir::attribute::AttrValue;
use hlo_ir::{ArrayShape, AttrKey, Attribute, ConvDims, ElementType, Instruction, InstructionId, Opcode, Shape};

use super::emit::Emitter;

/// Where the dimensions of an array go: dimension `i` of the result is dimension `order[i]` of the operand.
type Order = Vec<usize>;

impl Emitter<'_> {
    /// Adds an instruction; a convolution between transposes, if the library could run it in another order than its own.
    pub(super) fn add_in_order(&mut self, mut inst: Instruction) -> InstructionId {
        let at_entry = self.target == self.module.entry();
        let Some([input, kernel, output]) = orders(&inst).filter(|_| self.for_cpu && !at_entry) else {
            return self.patch.add(self.target, inst);
        };
        let element = self.patch.instruction(self.module, inst.operands[0]).array().map(|array| array.element_type);
        let (runs, sorted) =
            (runs_on(element, &inst), [&input, &kernel, &output].iter().all(|order| order.is_sorted()));
        let Some(result) = inst.array().filter(|_| runs && !sorted).cloned() else {
            return self.patch.add(self.target, inst);
        };
        inst.operands[0] = self.transpose(inst.operands[0], &input);
        inst.operands[1] = self.transpose(inst.operands[1], &kernel);
        inst.shape = Shape::Array(permuted(&result, &output)).into();
        let digits: String = (0..input.len() - 2).map(|digit| digit.to_string()).collect();
        let labels = format!("b{digits}f_{digits}io->b{digits}f");
        inst.set_attribute(AttrKey::DimLabels, AttrValue::Raw(labels.into()));
        let convolved = self.patch.add(self.target, inst);
        let back: Order =
            (0..output.len()).map(|dim| output.iter().position(|&from| from == dim).unwrap_or(dim)).collect();
        self.transpose(convolved, &back)
    }

    fn transpose(&mut self, id: InstructionId, order: &[usize]) -> InstructionId {
        let operand = self.patch.instruction(self.module, id);
        let (name, Some(array)) = (operand.name.clone(), operand.array()) else { return id };
        if order.is_sorted() {
            return id;
        }
        let dims = Attribute::ints(AttrKey::Dimensions, order.iter().map(|&dim| dim as i64));
        let shape = Shape::Array(permuted(array, order));
        let mut transpose = Instruction::new(name, shape.into(), Opcode::Transpose, [id]).with(dims);
        transpose.attributes.extend(self.metadata.clone());
        self.patch.add(self.target, transpose)
    }
}

/// The library's order of input, kernel and result of a convolution.
fn orders(inst: &Instruction) -> Option<[Order; 3]> {
    let dims = ConvDims::of(inst)?;
    let outer = |batch, spatial: &[usize], feature| [&[batch], spatial, &[feature]].concat();
    let kernel = [&dims.kernel_spatial[..], &[dims.kernel_input, dims.kernel_output]].concat();
    Some([
        outer(dims.input_batch, &dims.input_spatial, dims.input_feature),
        kernel,
        outer(dims.output_batch, &dims.output_spatial, dims.output_feature),
    ])
}

/// Whether the library runs convolutions of this kind in some order.
fn runs_on(element: Option<ElementType>, inst: &Instruction) -> bool {
    let reversed = match inst.attribute(&AttrKey::Window) {
        Some(AttrValue::Window(window)) => window.iter().any(|dim| dim.reversed),
        _ => false,
    };
    let float = matches!(element, Some(ElementType::F32 | ElementType::F16 | ElementType::Bf16));
    float && !reversed && inst.array().is_some_and(|array| (3..=5).contains(&array.rank()))
}

/// The shape with its dimensions in another order, the last one still the fastest.
fn permuted(array: &ArrayShape, order: &[usize]) -> ArrayShape {
    ArrayShape::new(array.element_type, order.iter().map(|&dim| array.dims[dim]))
}
