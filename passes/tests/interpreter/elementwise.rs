//! Operations on elements at the same position.

use hlo_ir::{AttrKey, Instruction, Module, Opcode};

use super::free;
use super::tensor::Tensor;

/// The result, or `None` if the instruction is not elementwise.
pub(super) fn compute(module: &Module, inst: &Instruction, arrays: &[&Tensor]) -> Option<Tensor> {
    if !inst.opcode.is_elementwise() && inst.opcode != Opcode::Map {
        return None;
    }
    let shape = inst.array().expect("elementwise results are arrays");
    Some(Tensor::build(shape, |index| {
        let operands: Vec<i64> = arrays.iter().map(|array| array.at_or_scalar(index)).collect();
        match inst.opcode {
            _ if free::applies(module, inst) => free::element(module, inst, &operands),
            Opcode::Map => super::scalar(module, inst, &AttrKey::ToApply, &operands)[0],
            _ => element(inst, &operands),
        }
    }))
}

fn element(inst: &Instruction, operands: &[i64]) -> i64 {
    match (inst.opcode, operands) {
        (Opcode::Convert | Opcode::Copy, &[a]) => a,
        (Opcode::Negate, &[a]) => a.wrapping_neg(),
        (Opcode::Abs, &[a]) => a.wrapping_abs(),
        (Opcode::Not, &[a]) => !a,
        (Opcode::Sign, &[a]) => a.signum(),
        // Floats are whole numbers here.
        (Opcode::IsFinite, &[_]) => 1,
        (Opcode::Add, &[a, b]) => a.wrapping_add(b),
        (Opcode::Subtract, &[a, b]) => a.wrapping_sub(b),
        (Opcode::Multiply, &[a, b]) => a.wrapping_mul(b),
        (Opcode::Maximum, &[a, b]) => a.max(b),
        (Opcode::Minimum, &[a, b]) => a.min(b),
        (Opcode::And, &[a, b]) => a & b,
        (Opcode::Or, &[a, b]) => a | b,
        (Opcode::Xor, &[a, b]) => a ^ b,
        (Opcode::Remainder, &[a, b]) => a.checked_rem(b).unwrap_or(a),
        (Opcode::Divide, &[a, b]) => a.checked_div(b).unwrap_or(-1),
        (Opcode::Select, &[flag, a, b]) => {
            if flag != 0 {
                a
            } else {
                b
            }
        }
        (Opcode::Clamp, &[low, a, high]) => a.max(low).min(high),
        (Opcode::Compare, &[a, b]) => i64::from(match inst.word(&AttrKey::Direction) {
            Some("LT") => a < b,
            Some("LE") => a <= b,
            Some("GT") => a > b,
            Some("GE") => a >= b,
            Some("EQ") => a == b,
            _ => a != b,
        }),
        (opcode, _) => panic!("the interpreter does not know {}", opcode.name()),
    }
}
