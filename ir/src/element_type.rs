//! Element types of arrays, their spelling and their width.

/// An element type; [`ElementType::name`] is its spelling in HLO text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "each variant is the HLO type of the same name")]
pub enum ElementType {
    Pred,
    S1,
    S2,
    S4,
    S8,
    S16,
    S32,
    S64,
    U1,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    F8e5m2,
    F8e4m3,
    F8e4m3fn,
    F8e4m3b11fnuz,
    F8e3m4,
    F8e5m2fnuz,
    F8e4m3fnuz,
    F8e8m0fnu,
    F4e2m1fn,
    F6e3m2fn,
    F6e2m3fn,
    C64,
    C128,
}

use ElementType as T;

/// Every element type with its spelling and its storage width in bits.
const TABLE: &[(ElementType, &str, u32)] = &[
    (T::Pred, "pred", 8),
    (T::S1, "s1", 1),
    (T::S2, "s2", 2),
    (T::S4, "s4", 4),
    (T::S8, "s8", 8),
    (T::S16, "s16", 16),
    (T::S32, "s32", 32),
    (T::S64, "s64", 64),
    (T::U1, "u1", 1),
    (T::U2, "u2", 2),
    (T::U4, "u4", 4),
    (T::U8, "u8", 8),
    (T::U16, "u16", 16),
    (T::U32, "u32", 32),
    (T::U64, "u64", 64),
    (T::F16, "f16", 16),
    (T::Bf16, "bf16", 16),
    (T::F32, "f32", 32),
    (T::F64, "f64", 64),
    (T::F8e5m2, "f8e5m2", 8),
    (T::F8e4m3, "f8e4m3", 8),
    (T::F8e4m3fn, "f8e4m3fn", 8),
    (T::F8e4m3b11fnuz, "f8e4m3b11fnuz", 8),
    (T::F8e3m4, "f8e3m4", 8),
    (T::F8e5m2fnuz, "f8e5m2fnuz", 8),
    (T::F8e4m3fnuz, "f8e4m3fnuz", 8),
    (T::F8e8m0fnu, "f8e8m0fnu", 8),
    (T::F4e2m1fn, "f4e2m1fn", 4),
    (T::F6e3m2fn, "f6e3m2fn", 6),
    (T::F6e2m3fn, "f6e2m3fn", 6),
    (T::C64, "c64", 64),
    (T::C128, "c128", 128),
];

impl ElementType {
    /// The spelling in HLO text, such as `f32`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }
    /// The type spelled `name`, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }
    /// All element types, for tables and did-you-mean.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }
    /// Bits of information of one element: 4 for `s4`, 1 for `u1`, but 8 for `pred`.
    pub fn bits(self) -> u32 {
        TABLE[self as usize].2
    }
    /// Bits one element occupies in memory without an `E(n)` layout annotation: sub-byte types take a whole byte.
    pub fn storage_bits(self) -> u32 {
        self.bits().max(8)
    }
    /// Whether this is `s1` .. `s64`.
    pub fn is_signed(self) -> bool {
        (T::S1..=T::S64).contains(&self)
    }
    /// Whether this is `u1` .. `u64`.
    pub fn is_unsigned(self) -> bool {
        (T::U1..=T::U64).contains(&self)
    }
    /// Whether this is a signed or unsigned integer; `pred` is neither.
    pub fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }
    /// Whether this is a real floating-point type.
    pub fn is_float(self) -> bool {
        (T::F16..=T::F6e2m3fn).contains(&self)
    }
    /// Whether this is `c64` or `c128`.
    pub fn is_complex(self) -> bool {
        matches!(self, T::C64 | T::C128)
    }
    /// Zero, as a literal is written.
    pub fn zero(self) -> &'static str {
        match self {
            T::Pred => "false",
            T::C64 | T::C128 => "(0, 0)",
            _ => "0",
        }
    }
    /// Smallest and largest value of an integer type or `pred`; `None` for other types.
    pub fn integer_range(self) -> Option<(i128, i128)> {
        let bits = self.bits();
        match self {
            T::Pred => Some((0, 1)),
            _ if self.is_signed() => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            _ if self.is_unsigned() => Some((0, (1 << bits) - 1)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_declaration_order() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.1);
            assert_eq!(ElementType::from_name(row.1), Some(row.0));
        }
    }
}
