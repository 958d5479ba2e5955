//! Values that differ from step to step by constants only: an affine function of the step, or a table read at the step.

use hlo_ir::module::Payload;
use hlo_ir::{ElementType, Instruction, InstructionId, Module, Shape};

/// A scalar that is known for every step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Sequence {
    /// The same in every step.
    Always(i64),
    /// `base + step * k`.
    Affine { base: i64, step: i64 },
    /// One literal for each step.
    Table(Vec<String>),
}

impl Sequence {
    /// Integers in the order of the steps.
    pub(super) fn of(values: &[i64]) -> Self {
        let base = values[0];
        let Some(step) = values.get(1).and_then(|second| second.checked_sub(base)) else { return Self::Always(base) };
        let affine = values.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
        match (affine, step) {
            (true, 0) => Self::Always(base),
            (true, step) => Self::Affine { base, step },
            (false, _) => Self::Table(values.iter().map(i64::to_string).collect()),
        }
    }

    /// The values of scalar constants of one type.
    pub(super) fn of_constants(module: &Module, ids: &[InstructionId]) -> Self {
        let integers: Option<Vec<i64>> =
            ids.iter().map(|&id| hlo_ir::literal::scalar_integer(module.instruction(id))?.try_into().ok()).collect();
        let element = module.instruction(ids[0]).array().map(|array| array.element_type);
        let range = element.filter(|element| element.is_integer()).and_then(ElementType::integer_range);
        match (integers, range) {
            (Some(values), Some(range)) => Self::of_range(&values, range),
            _ => Self::Table(ids.iter().map(|&id| token(module.instruction(id))).collect()),
        }
    }
    /// Integers of a type that holds a range of numbers and wraps around: a step down is a long step up in unsigned types.
    fn of_range(values: &[i64], (low, high): (i128, i128)) -> Self {
        let Self::Affine { base, step } = Self::of(values) else { return Self::of(values) };
        let wrapped = (i128::from(step) - low).rem_euclid(high - low + 1) + low;
        match i64::try_from(wrapped) {
            Ok(step) => Self::Affine { base, step },
            // Only a step down in 64 bits without sign.
            Err(_) => Self::Table(values.iter().map(i64::to_string).collect()),
        }
    }
}

/// A literal as it can stand in an array.
fn token(inst: &Instruction) -> String {
    let text = inst.literal().unwrap_or_default().trim();
    let float = inst.array().is_some_and(|array| array.element_type.is_float());
    // XLA's parser reads the sign of a zero only with its fraction.
    if float && text == "-0" { "-0.0".to_owned() } else { text.to_owned() }
}

/// A constant array of one literal for each step.
pub(super) fn table(element: ElementType, values: &[String]) -> Instruction {
    let text = format!("{{{}}}", values.join(", "));
    constant(Shape::array(element, [values.len() as i64]), &text)
}

/// A constant.
pub(super) fn constant(shape: hlo_ir::shape::ShapeRef, text: &str) -> Instruction {
    Instruction::new("step_constant", shape, hlo_ir::Opcode::Constant, []).with_payload(Payload::Literal(text.into()))
}

/// The literal that changes nothing when it is joined to another value, as an operand of `opcode`.
pub(super) fn neutral(opcode: hlo_ir::Opcode, element: ElementType) -> Option<String> {
    use hlo_ir::Opcode as O;
    // Smaller floats have no infinity, or saturate.
    let float = matches!(element, ElementType::F16 | ElementType::Bf16 | ElementType::F32 | ElementType::F64);
    let range = element.integer_range();
    let pred = element == ElementType::Pred;
    let text = match opcode {
        // Only -0.0 leaves every float as it is: 0.0 would turn -0.0 into 0.0.
        O::Add if float => "-0.0".to_owned(),
        O::Add | O::Xor | O::Or if range.is_some() => "0".to_owned(),
        O::Or | O::Xor | O::Maximum if pred => "false".to_owned(),
        O::And | O::Multiply | O::Minimum if pred => "true".to_owned(),
        O::Multiply if float || range.is_some() => "1".to_owned(),
        O::And => range.map(|(low, high)| if low < 0 { "-1".to_owned() } else { high.to_string() })?,
        O::Maximum if float => "-inf".to_owned(),
        O::Minimum if float => "inf".to_owned(),
        O::Maximum => range?.0.to_string(),
        O::Minimum => range?.1.to_string(),
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_affine_or_a_table() {
        assert_eq!(Sequence::of(&[3, 3, 3]), Sequence::Always(3));
        assert_eq!(Sequence::of(&[9, 6, 3]), Sequence::Affine { base: 9, step: -3 });
        assert_eq!(Sequence::of(&[0, 0, 1]), Sequence::Table(vec!["0".into(), "0".into(), "1".into()]));
    }

    #[test]
    fn steps_are_numbers_of_their_type() {
        let of = |values: &[i64], element: ElementType| {
            Sequence::of_range(values, element.integer_range().expect("an integer"))
        };
        assert_eq!(of(&[9, 7, 5], ElementType::U8), Sequence::Affine { base: 9, step: 254 });
        assert_eq!(of(&[100, -100], ElementType::S8), Sequence::Affine { base: 100, step: 56 });
        assert_eq!(of(&[-100, 100], ElementType::S8), Sequence::Affine { base: -100, step: -56 });
        assert_eq!(of(&[9, 7], ElementType::S32), Sequence::Affine { base: 9, step: -2 });
        assert_eq!(of(&[9, 7], ElementType::U64), Sequence::Table(vec!["9".into(), "7".into()]));
    }

    #[test]
    fn neutral_elements_keep_the_sign_of_zero() {
        assert_eq!(neutral(hlo_ir::Opcode::Add, ElementType::F32).as_deref(), Some("-0.0"));
        assert_eq!(neutral(hlo_ir::Opcode::And, ElementType::U8).as_deref(), Some("255"));
        assert_eq!(neutral(hlo_ir::Opcode::Maximum, ElementType::S8).as_deref(), Some("-128"));
        assert_eq!(neutral(hlo_ir::Opcode::Add, ElementType::C64), None);
    }
}
