//! Which rows of a value belong to which rows of the loop: an affine map, composed step by step along the data flow.

/// How the rows of an operand follow from the rows of the result, for one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Rows `[a, b)` of the result need rows `[offset + a*mul/div, offset + b*mul/div)` of the operand.
    Affine {
        /// Operand rows per `div` result rows.
        mul: i64,
        /// Blocks of the result must have a multiple of this many rows.
        div: i64,
        /// First operand row.
        offset: i64,
    },
    /// Rows `[a, b)` of the result need rows `[extent-b, extent-a)` of the operand.
    Mirror {
        /// Size of the dimension.
        extent: i64,
    },
}

impl Step {
    /// The same rows.
    pub const SAME: Self = Self::Affine { mul: 1, div: 1, offset: 0 };

    /// `mul` operand rows for every `div` result rows, in lowest terms.
    pub(crate) fn scale(mul: i64, div: i64) -> Self {
        let common = gcd(mul, div);
        Self::Affine { mul: mul / common, div: div / common, offset: 0 }
    }
}

/// The rows of a value that belong to rows `[start, start+len)` of the loop: `[offset + start*mul/div, offset + (start+len)*mul/div)`, or
/// `[offset - (start+len)*mul/div, offset - start*mul/div)` if `reversed`. `mul/div` is in lowest terms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rows {
    mul: i64,
    div: i64,
    offset: i64,
    reversed: bool,
}

impl Rows {
    /// The rows of the loop themselves.
    pub const IDENTITY: Self = Self { mul: 1, div: 1, offset: 0, reversed: false };

    /// The rows an operand must supply when the result supplies these; `None` if they do not start at whole rows or do not fit `i64`.
    #[must_use]
    pub fn then(self, step: Step) -> Option<Self> {
        let (mul, div, offset) = match step {
            Step::Mirror { extent } => {
                let offset = extent.checked_sub(self.offset)?;
                return Some(Self { offset, reversed: !self.reversed, ..self });
            }
            Step::Affine { mul, div, offset } => (mul, div, offset),
        };
        let scaled = self.offset.checked_mul(mul)?;
        if scaled % div != 0 {
            return None;
        }
        let offset = (scaled / div).checked_add(offset)?;
        let (top, bottom) = (self.mul.checked_mul(mul)?, self.div.checked_mul(div)?);
        let common = gcd(top, bottom);
        Some(Self { mul: top / common, div: bottom / common, offset, reversed: self.reversed })
    }
    /// The rows of a result of which `step` takes these rows from its operand: the opposite of [`Rows::then`]; `None` if there are none.
    #[must_use]
    pub fn before(self, step: Step) -> Option<Self> {
        let Step::Affine { mul, div, offset } = step else { return self.then(step) };
        let scaled = self.offset.checked_sub(offset)?.checked_mul(div)?;
        if mul == 0 || scaled % mul != 0 {
            return None;
        }
        let (top, bottom) = (self.mul.checked_mul(div)?, self.div.checked_mul(mul)?);
        let common = gcd(top, bottom);
        let result = Self { mul: top / common, div: bottom / common, offset: scaled / mul, reversed: self.reversed };
        (result.then(step) == Some(self)).then_some(result)
    }
    /// Whether the rows that belong to `total` rows of the loop are all rows of a dimension of `extent`.
    pub fn covers(self, total: i64, extent: i64) -> bool {
        let rows = i128::from(total) * i128::from(self.mul) == i128::from(extent) * i128::from(self.div);
        rows && self.fits(total, extent)
    }
    /// Whether later rows of the loop mean earlier rows of the value.
    pub const fn is_reversed(self) -> bool {
        self.reversed
    }
    /// Blocks of the loop must have a multiple of this many rows.
    pub const fn granule(self) -> i64 {
        self.div
    }
    /// How many rows belong to `len` rows of the loop, a multiple of [`Rows::granule`].
    pub fn len(self, len: i64) -> i64 {
        debug_assert_eq!(len % self.div, 0, "a block is a multiple of the granule");
        (i128::from(len) * i128::from(self.mul) / i128::from(self.div)) as i64
    }
    /// The first of the rows that belong to rows `[start, start+len)` of the loop.
    pub fn start(self, start: i64, len: i64) -> i64 {
        let (base, step) = self.stride(len);
        base + (i128::from(step) * i128::from(start) / i128::from(len)) as i64
    }
    /// First row of block 0 and distance from block to block, for blocks of `len` rows of the loop.
    pub fn stride(self, len: i64) -> (i64, i64) {
        let rows = self.len(len);
        if self.reversed { (self.offset - rows, -rows) } else { (self.offset, rows) }
    }
    /// Whether the rows that belong to `total` rows of the loop lie inside a dimension of `extent` rows.
    pub fn fits(self, total: i64, extent: i64) -> bool {
        let rows = i128::from(total) * i128::from(self.mul);
        let (exact, rows) = (rows % i128::from(self.div) == 0, rows / i128::from(self.div));
        let (offset, extent) = (i128::from(self.offset), i128::from(extent));
        let (first, last) = if self.reversed { (offset - rows, offset) } else { (offset, offset + rows) };
        exact && first >= 0 && last <= extent
    }
}

/// Greatest common divisor of two positive numbers.
pub(crate) fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_compose() {
        // A slice that skips 5 rows of a mirrored dimension of 100 rows, reshaped so that each row becomes three.
        let rows = Rows::IDENTITY
            .then(Step::scale(6, 2))
            .and_then(|rows| rows.then(Step::Affine { mul: 1, div: 1, offset: 5 }))
            .and_then(|rows| rows.then(Step::Mirror { extent: 100 }))
            .expect("small numbers");
        assert_eq!((rows.len(4), rows.start(0, 4), rows.start(8, 4)), (12, 83, 59));
        assert_eq!(rows.stride(4), (83, -12));
        assert!(rows.fits(31, 100));
        assert!(!rows.fits(32, 100));
    }

    /// Every composition of two small steps against the rows that they mean, one after the other.
    #[test]
    fn two_steps_mean_what_each_means() {
        let scales = (1..4).flat_map(|mul| (1..4).map(move |div| (mul, div)));
        let affine = |((mul, div), offset)| Step::Affine { mul, div, offset };
        let steps: Vec<Step> = scales.flat_map(|scale| (0..5).map(move |offset| affine((scale, offset)))).collect();
        let rows_of = |start: i64, step: Step| match step {
            Step::Affine { mul, div, offset } => offset * div + start * mul,
            Step::Mirror { .. } => unreachable!("none is tried"),
        };
        let mut composed = 0;
        for (&first, &second) in steps.iter().flat_map(|first| steps.iter().map(move |second| (first, second))) {
            let Some(rows) = Rows::IDENTITY.then(first).and_then(|rows| rows.then(second)) else { continue };
            let (Step::Affine { div: one, .. }, Step::Affine { div: other, .. }) = (first, second) else { continue };
            for start in (0..5).map(|block| block * one * other) {
                let between = rows_of(start, first) / one;
                assert_eq!(rows.start(start, one * other), rows_of(between, second) / other, "{first:?} {second:?}");
            }
            composed += 1;
        }
        assert!(composed > 1000, "{composed}");
    }

    #[test]
    fn steps_are_taken_back() {
        let from = Rows::IDENTITY.then(Step::scale(6, 2)).expect("small numbers");
        for step in [Step::SAME, Step::scale(3, 5), Step::scale(5, 3), Step::Mirror { extent: 12 }] {
            assert_eq!(from.before(step).and_then(|rows| rows.then(step)), Some(from), "{step:?}");
        }
        assert_eq!(Rows::IDENTITY.before(Step::Affine { mul: 2, div: 1, offset: 1 }), None, "half a row");
        assert!(from.covers(4, 12));
        assert!(!from.covers(4, 13));
    }

    #[test]
    fn a_mirrored_mirror_is_straight() {
        let once = Rows::IDENTITY.then(Step::Mirror { extent: 9 }).expect("fits");
        assert_eq!(once.then(Step::Mirror { extent: 9 }), Some(Rows::IDENTITY));
    }

    #[test]
    fn blocks_must_start_at_whole_rows() {
        let odd = Rows::IDENTITY.then(Step::Affine { mul: 1, div: 1, offset: 1 }).expect("fits");
        assert_eq!(odd.then(Step::scale(1, 4)), None);
        assert_eq!(Rows::IDENTITY.then(Step::scale(1, 4)).map(Rows::granule), Some(4));
    }
}
