//! V10 and V13: the written shape of an instruction against the one its operands and attributes imply.
//!
//! Dynamic dimensions are compared by their bounds only, and layouts not at all.

use crate::infer::{self, same_dims, same_size};
use crate::literal::Literal;
use crate::{ArrayShape, AttrKey, ElementType, Instruction, Module, Opcode, Payload, Shape};

/// V10. Floats of an instruction that mixes several types (`mix`) may be written as any: what follows from them then need not be what they
/// imply, but its sizes are.
pub(super) fn check(module: &Module, inst: &Instruction, mix: bool) -> Result<(), String> {
    match infer::shape(module, inst) {
        Some(Ok(implied)) if fits(inst.opcode, &inst.shape, &implied, mix) => Ok(()),
        Some(Ok(implied)) => {
            let (written, implied) = (inst.shape.without_layout(), implied.without_layout());
            Err(format!("the shape is written as {written}, but must be {implied}"))
        }
        Some(Err(_)) if mix => Ok(()),
        Some(Err(message)) => Err(message),
        None => check_written(module, inst),
    }
}

/// Whether a written shape is the implied one.
fn fits(opcode: Opcode, written: &Shape, implied: &Shape, mix: bool) -> bool {
    match (written, implied) {
        (Shape::Array(written), Shape::Array(implied)) => {
            let (one, other) = (written.element_type, implied.element_type);
            let rounded = mix && one.is_float() && other.is_float();
            same_dims(written, implied) && (rounded || same_elements(opcode, one, other))
        }
        (Shape::Tuple(written), Shape::Tuple(implied)) => {
            written.len() == implied.len() && written.iter().zip(implied).all(|(a, b)| fits(opcode, a, b, mix))
        }
        (Shape::Buffer(written), Shape::Buffer(implied)) => fits(opcode, written, implied, mix),
        (Shape::Token, Shape::Token) | (Shape::Opaque, Shape::Opaque) => true,
        _ => false,
    }
}

/// Element types must be the same; but a dot or convolution may return any type, and XLA:TPU rounds or widens floats
/// on the way through instructions that only move data.
fn same_elements(opcode: Opcode, written: ElementType, implied: ElementType) -> bool {
    use Opcode as O;
    let moves = matches!(
        opcode,
        O::Copy | O::Slice | O::DynamicSlice | O::Broadcast | O::Reshape | O::Transpose | O::Concatenate | O::Reverse
    );
    written == implied
        || matches!(opcode, O::Dot | O::RaggedDot | O::ScaledDot | O::Convolution)
        || moves && written.is_float() && implied.is_float()
}

/// Rules for opcodes whose shape has to be written.
fn check_written(module: &Module, inst: &Instruction) -> Result<(), String> {
    use Opcode as O;
    let rule: fn(&Instruction, &ArrayShape, &ArrayShape) -> Result<(), String> = match inst.opcode {
        O::Convert | O::StochasticConvert | O::ReducePrecision => convert,
        O::BitcastConvert => bitcast_convert,
        O::Bitcast => bitcast,
        O::Reshape => reshape,
        O::Broadcast => broadcast,
        O::Iota => return iota(inst),
        _ => return super::exchange::check(module, inst),
    };
    let operand = module.shape(inst.operands[0]);
    let (Some(operand), Some(result)) = (operand.as_array(), inst.array()) else {
        return Err(format!("it makes {} of {operand}, but both must be arrays", inst.shape));
    };
    rule(inst, operand, result)
}

fn convert(_: &Instruction, operand: &ArrayShape, result: &ArrayShape) -> Result<(), String> {
    if operand.element_type.is_complex() && !result.element_type.is_complex() {
        return Err(format!("it makes {result} of {operand}, but complex numbers cannot become others"));
    }
    if same_dims(operand, result) {
        return Ok(());
    }
    Err(format!("it makes {result} of {operand}, but the sizes must be the same"))
}

/// The same bits: a wider element becomes an innermost dimension of narrower ones, and the other way round.
fn bitcast_convert(inst: &Instruction, operand: &ArrayShape, result: &ArrayShape) -> Result<(), String> {
    let (from, to) = (i64::from(operand.element_type.bits()), i64::from(result.element_type.bits()));
    let splits = |narrow: &ArrayShape, wide: &ArrayShape, ratio: i64| {
        let rank = wide.rank();
        narrow.rank() == rank + 1
            && same_size(narrow.dims[rank], ratio)
            && narrow.dims.iter().zip(&wide.dims).all(|(&a, &b)| same_size(a, b))
    };
    let fits = match from.cmp(&to) {
        std::cmp::Ordering::Equal => return convert(inst, operand, result),
        std::cmp::Ordering::Greater => splits(result, operand, from / to),
        std::cmp::Ordering::Less => splits(operand, result, to / from),
    };
    if fits { Ok(()) } else { Err(format!("{operand} and {result} do not have the same bits")) }
}

/// The same memory: equally many bytes. Layout annotations may add padding, so those are left alone.
fn bitcast(_: &Instruction, operand: &ArrayShape, result: &ArrayShape) -> Result<(), String> {
    let annotated = |shape: &ArrayShape| shape.layout.as_ref().is_some_and(|layout| !layout.suffix.is_empty());
    if annotated(operand) || annotated(result) || operand.is_dynamic() || result.is_dynamic() {
        return Ok(());
    }
    let bits = |shape: &ArrayShape| Some(u128::from(shape.elements()?) * u128::from(shape.element_type.storage_bits()));
    if bits(operand) == bits(result) {
        return Ok(());
    }
    Err(format!("{operand} and {result} do not take the same number of bytes"))
}

fn reshape(inst: &Instruction, operand: &ArrayShape, result: &ArrayShape) -> Result<(), String> {
    if !same_elements(inst.opcode, result.element_type, operand.element_type) {
        return Err(format!("it makes {result} of {operand}, but the element types must be the same"));
    }
    match (operand.elements(), result.elements()) {
        (Some(from), Some(to)) if from != to => Err(format!("it makes {to} elements ({result}) of {from} ({operand})")),
        _ => Ok(()),
    }
}

/// Operand dimension `i` becomes result dimension `dimensions[i]`.
fn broadcast(inst: &Instruction, operand: &ArrayShape, result: &ArrayShape) -> Result<(), String> {
    let mapping = inst.ints(&AttrKey::Dimensions);
    if !same_elements(inst.opcode, result.element_type, operand.element_type) {
        return Err(format!("it makes {result} of {operand}, but the element types must be the same"));
    }
    if mapping.len() != operand.rank() {
        return Err(format!("dimensions has {} entries for the {} of {operand}", mapping.len(), operand.rank()));
    }
    for (from, &to) in mapping.iter().enumerate() {
        let size = usize::try_from(to).ok().and_then(|to| result.dims.get(to));
        if !size.is_some_and(|&size| same_size(size, operand.dims[from])) {
            return Err(format!("dimension {from} of {operand} cannot become dimension {to} of {result}"));
        }
    }
    if (1..mapping.len()).any(|at| mapping[..at].contains(&mapping[at])) {
        return Err("two dimensions of the operand become the same one".into());
    }
    Ok(())
}

fn iota(inst: &Instruction) -> Result<(), String> {
    let dim = inst.int(&AttrKey::IotaDimension).and_then(|dim| usize::try_from(dim).ok());
    match (inst.array(), dim) {
        (Some(array), _) if array.element_type == ElementType::Pred => Err("an iota does not count in pred".into()),
        (Some(array), Some(dim)) if dim < array.rank() => Ok(()),
        _ => Err(format!("{} has no dimension iota_dimension to count along", inst.shape)),
    }
}

/// V13.
pub(super) fn check_literal(inst: &Instruction) -> Result<(), String> {
    match (inst.opcode, &inst.payload) {
        (Opcode::Constant, Payload::Literal(text)) if text.trim() != "{...}" => text.fits(&inst.shape, check_value),
        (Opcode::Constant, _) if inst.shape.as_array().is_none() && inst.shape.as_tuple().is_none() => {
            Err(format!("a constant cannot have shape {}", inst.shape))
        }
        _ => Ok(()),
    }
}

/// Help for an array constant with one value outside of braces, as in `f32[2,3] constant(1.5)`: XLA takes it, but not as most people mean it. An array
/// without elements has no place for it, and XLA refuses it too.
///
/// Source: `HloParserImpl::ParseDenseLiteral`, which puts values one after the other into an array of zeros and counts them only in braces.
pub(super) fn lone_value(array: &ArrayShape, inst: &Instruction) -> Option<String> {
    let value = inst.literal()?.trim();
    let takes_none = array.is_scalar() || array.dims.contains(&0) || array.element_type.is_complex();
    if takes_none || value.is_empty() || value.contains(['{', '}', ',']) {
        return None;
    }
    Some(format!(
        "XLA reads {value} as the first element and 0 as all others; write every element in braces, or broadcast a scalar constant"
    ))
}

/// The literal of an array, or `(literal, literal)` for a tuple. Shapes end the recursion: they are not nested deeply.
pub(super) fn check_value(shape: &Shape, text: &str) -> Result<(), String> {
    let elements = match shape {
        Shape::Array(array) => return Literal::new(text.trim(), array).check(),
        Shape::Tuple(elements) => elements,
        _ => return Err(format!("a constant cannot have shape {shape}")),
    };
    let inside = text.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let parts = crate::text::parts(inside.ok_or("the literal of a tuple must stand in parentheses")?);
    if parts.len() != elements.len() {
        return Err(format!("the literal has {} in the place of {} parts", parts.len(), elements.len()));
    }
    elements.iter().zip(parts).try_for_each(|(element, part)| check_value(element, part))
}
