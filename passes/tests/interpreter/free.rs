//! Floats as terms: with this switched on, an operation on floats has no meaning but its name and its operands.
//!
//! A term is stood in for by a fingerprint as wide as the type. Two programs whose results have equal fingerprints build every result by the
//! same operations on the same elements in the same order, up to chance. What decides about places is still computed: comparisons and
//! conversions to integers answer something, always the same for the same term.

use std::cell::Cell;

use hlo_ir::{AttrKey, ElementType, Instruction, Module, Opcode};

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static SUMS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with floats as terms; `sums_are_bags` if additions may stand in any order and zeros among them do not count.
pub(crate) fn with<T>(sums_are_bags: bool, work: impl FnOnce() -> T) -> T {
    ON.set(true);
    SUMS.set(sums_are_bags);
    let result = work();
    ON.set(false);
    result
}

/// Whether elements of this type are terms.
pub(super) fn is_free(element_type: ElementType) -> bool {
    ON.get() && !element_type.is_integer() && element_type != ElementType::Pred
}

/// Whether an elementwise instruction works on terms or makes them.
pub(super) fn applies(module: &Module, inst: &Instruction) -> bool {
    let of = |inst: &Instruction| inst.array().is_some_and(|array| is_free(array.element_type));
    let moves = matches!(inst.opcode, Opcode::Select | Opcode::Copy | Opcode::Map | Opcode::Compare);
    ON.get() && !moves && (of(inst) || inst.operands.iter().any(|&operand| of(module.instruction(operand))))
}

/// The fingerprint of a list, as wide as the type.
pub(super) fn mix(element_type: ElementType, parts: &[i64]) -> i64 {
    let step = |state: u64, part: &i64| {
        let mixed = (state ^ *part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(17)
    };
    let whole = parts.iter().fold(0x2545_f491_4f6c_dd1d, step);
    fit(element_type, whole)
}

/// The low bits that an element of the type has room for, as a signed number.
fn fit(element_type: ElementType, bits: u64) -> i64 {
    let spare = 64 - element_type.bits().min(64);
    ((bits << spare) as i64) >> spare
}

fn name(inst: &Instruction) -> i64 {
    let direction = inst.word(&AttrKey::Direction).unwrap_or_default();
    let text = inst.opcode_name().bytes().chain(direction.bytes());
    text.fold(7_i64, |all, byte| all.wrapping_mul(257).wrapping_add(i64::from(byte)))
}

/// An elementwise operation on terms.
pub(super) fn element(module: &Module, inst: &Instruction, operands: &[i64]) -> i64 {
    let element_type = inst.array().expect("elementwise results are arrays").element_type;
    if let (Opcode::Convert, &[operand], &[term]) = (inst.opcode, inst.operands.as_slice(), operands) {
        let from = module.instruction(operand).array().map(|array| array.element_type);
        // A float in a longer type is the same number, and the same once more when it is made short again.
        if is_free(element_type) && from.is_some_and(is_free) && fit(element_type, term as u64) == term {
            return term;
        }
    }
    if let (Opcode::Add, true, &[a, b]) = (inst.opcode, SUMS.get() && is_free(element_type), operands) {
        return fit(element_type, a.wrapping_add(b) as u64);
    }
    if let Some(other) = beside_neutral(inst.opcode, element_type, operands) {
        return other;
    }
    let mut operands = operands.to_vec();
    if matches!(inst.opcode, Opcode::Add | Opcode::Multiply | Opcode::Maximum | Opcode::Minimum) {
        // These give the same bits in either order.
        operands.sort_unstable();
    }
    let parts: Vec<i64> = [name(inst), element_type.bits().into()].into_iter().chain(operands).collect();
    let term = mix(ElementType::F64, &parts);
    if is_free(element_type) {
        return mix(element_type, &[term]);
    }
    // A number near the bounds of small arrays, as a program that computes indices from floats would get.
    term.rem_euclid(24) - 4
}

/// What an operation gives back with every bit, because the other operand is its neutral element.
fn beside_neutral(opcode: Opcode, element_type: ElementType, operands: &[i64]) -> Option<i64> {
    let neutral = match opcode {
        Opcode::Add => "-0",
        Opcode::Multiply => "1",
        Opcode::Maximum => "-inf",
        Opcode::Minimum => "inf",
        _ => return None,
    };
    let neutral = constant(element_type, neutral);
    match *operands {
        [a, b] if b == neutral => Some(a),
        [a, b] if a == neutral => Some(b),
        _ => None,
    }
}

/// A literal.
pub(super) fn constant(element_type: ElementType, word: &str) -> i64 {
    let value: f64 = word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"));
    if SUMS.get() && value == 0.0 {
        return 0;
    }
    mix(element_type, &[value.to_bits() as i64])
}
