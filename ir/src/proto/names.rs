//! Enumerations of XLA's messages and how HLO text spells them.

use super::scan::Fit;
use crate::{ElementType, Instruction, Module};

/// Spellings with their numbers.
pub(super) type Table = &'static [(&'static str, i32)];

pub(super) const FFT_TYPE: Table = &[("FFT", 0), ("IFFT", 1), ("RFFT", 2), ("IRFFT", 3)];
pub(super) const TRANSPOSE: Table = &[("NO_TRANSPOSE", 1), ("TRANSPOSE", 2), ("ADJOINT", 3)];
pub(super) const DISTRIBUTION: Table = &[("rng_uniform", 1), ("rng_normal", 2)];
pub(super) const RNG_ALGORITHM: Table = &[("rng_default", 0), ("rng_three_fry", 1), ("rng_philox", 2)];
pub(super) const PRECISION: Table = &[("default", 0), ("high", 1), ("highest", 2)];
pub(super) const ACCURACY_MODE: Table = &[("default", 0), ("highest", 1)];
pub(super) const PADDING_TYPE: Table = &[("PADDING_INVALID", 0), ("PADDING_VALID", 1), ("PADDING_SAME", 2)];
pub(super) const CUSTOM_CALL_SCHEDULE: Table =
    &[("SCHEDULE_NONE", 0), ("SCHEDULE_LATEST", 1), ("SCHEDULE_EARLIEST", 2)];
pub(super) const CONVOLUTION_KIND: Table = &[("unset", 0), ("fprop", 1), ("dgrad", 2), ("wgrad", 3)];
pub(super) const API_VERSION: Table = &[
    ("API_VERSION_UNSPECIFIED", 0),
    ("API_VERSION_ORIGINAL", 1),
    ("API_VERSION_STATUS_RETURNING", 2),
    ("API_VERSION_STATUS_RETURNING_UNIFIED", 3),
    ("API_VERSION_TYPED_FFI", 4),
];
pub(super) const DOT_ALGORITHM: Table = &[
    ("unset", 0),
    ("dot_any_f8_any_f8_f32", 1),
    ("dot_any_f8_any_f8_f32_fast_accum", 2),
    ("dot_f16_f16_f16", 3),
    ("dot_f16_f16_f32", 4),
    ("dot_bf16_bf16_bf16", 5),
    ("dot_bf16_bf16_f32", 6),
    ("dot_bf16_bf16_f32_x3", 7),
    ("dot_bf16_bf16_f32_x6", 8),
    ("dot_tf32_tf32_f32", 9),
    ("dot_tf32_tf32_f32_x3", 10),
    ("dot_f32_f32_f32", 11),
    ("dot_f64_f64_f64", 12),
    ("dot_bf16_bf16_f32_x9", 13),
];

/// The number of a spelling; the case of letters does not matter.
pub(super) fn number(table: Table, word: &str) -> Fit<i32> {
    let known = table.iter().find(|row| row.0.eq_ignore_ascii_case(word)).map(|row| row.1);
    known.ok_or_else(|| format!("`{word}` is not known"))
}

/// The spelling of a number.
pub(super) fn spelling(table: Table, number: i32) -> Fit<&'static str> {
    let known = table.iter().find(|row| row.1 == number).map(|row| row.0);
    known.ok_or_else(|| format!("number {number} is not known"))
}

/// How a `compare` without `type` compares.
pub(super) fn default_comparison(module: &Module, inst: &Instruction) -> &'static str {
    let operand = inst.operands.first().and_then(|&operand| module.instruction(operand).array());
    comparison_of(operand.map(|array| array.element_type))
}

/// How values of a type are compared unless told otherwise.
pub(super) fn comparison_of(element_type: Option<ElementType>) -> &'static str {
    match element_type {
        Some(element_type) if element_type.is_signed() => "SIGNED",
        Some(element_type) if element_type.is_float() || element_type.is_complex() => "FLOAT",
        _ => "UNSIGNED",
    }
}
