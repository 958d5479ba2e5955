//! Functions of one integer that are `v + a` or constant on intervals: what a program does to an index before it uses it.
//!
//! `select(v < 0, v + 128, v)` is `v + 128` on the negative numbers and `v` elsewhere; a clamp adds constant ends; a narrowing convert
//! shifts what does not fit by a multiple of 2^bits. Whatever is neither is unknown on its interval.

use std::cmp::Ordering;

use hlo_ir::{ElementType, Opcode};

use crate::bounds;

/// What a function does on an interval.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Image {
    /// `v + a`.
    Shift(i128),
    /// Always the same.
    Constant(i128),
    /// Anything.
    Unknown,
}

/// A function of the values `v` of one integer type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Piecewise {
    /// Intervals in ascending order that cover the type, and what happens there.
    pieces: Vec<(i128, i128, Image)>,
}

impl Piecewise {
    /// `v` itself; `None` for types that are no integers.
    pub(super) fn identity(element_type: ElementType) -> Option<Self> {
        let (low, high) = element_type.integer_range()?;
        Some(Self { pieces: vec![(low, high, Image::Shift(0))] })
    }
    /// The same for every `v` of the domain of `domain`.
    pub(super) fn constant(value: i128, domain: &Self) -> Self {
        let (low, high) = (domain.pieces[0].0, domain.pieces[domain.pieces.len() - 1].1);
        Self { pieces: vec![(low, high, Image::Constant(value))] }
    }
    /// The intervals and what happens there.
    pub(super) fn pieces(&self) -> &[(i128, i128, Image)] {
        &self.pieces
    }
    /// The value, if it is the same everywhere.
    pub(super) fn as_constant(&self) -> Option<i128> {
        match self.pieces[..] {
            [(_, _, Image::Constant(value))] => Some(value),
            _ => None,
        }
    }

    /// Replaces each piece by the pieces that `image` makes of it, and joins equal neighbours.
    fn map(&self, image: impl Fn(i128, i128, Image) -> Vec<(i128, i128, Image)>) -> Self {
        let mut joined: Vec<(i128, i128, Image)> = Vec::new();
        for (low, high, piece) in self.pieces.iter().flat_map(|&(low, high, piece)| image(low, high, piece)) {
            match joined.last_mut() {
                Some(last) if last.2 == piece && last.1 + 1 == low => last.1 = high,
                _ if low <= high => joined.push((low, high, piece)),
                _ => {}
            }
        }
        if joined.len() > bounds::PIECES {
            let (low, high) = (joined[0].0, joined[joined.len() - 1].1);
            joined = vec![(low, high, Image::Unknown)];
        }
        Self { pieces: joined }
    }
    /// Both functions on common intervals.
    pub(super) fn zip(&self, other: &Self) -> Vec<(i128, i128, Image, Image)> {
        let mut zipped = Vec::new();
        for &(low, high, a) in &self.pieces {
            for &(other_low, other_high, b) in &other.pieces {
                let (from, to) = (low.max(other_low), high.min(other_high));
                if from <= to {
                    zipped.push((from, to, a, b));
                }
            }
        }
        zipped
    }
    fn combine(&self, other: &Self, image: impl Fn(i128, i128, Image, Image) -> Vec<(i128, i128, Image)>) -> Self {
        let pieces = self.zip(other).into_iter().flat_map(|(low, high, a, b)| image(low, high, a, b)).collect();
        Self { pieces }.map(|low, high, image| vec![(low, high, image)])
    }

    /// An elementwise operation of one operand.
    pub(super) fn unary(&self, opcode: Opcode, from: ElementType, to: ElementType) -> Self {
        self.map(|low, high, image| match opcode {
            Opcode::Copy => vec![(low, high, image)],
            Opcode::Convert if to == ElementType::Pred && from != ElementType::Pred => {
                compared(low, high, image, Image::Constant(0), "NE")
            }
            Opcode::Convert | Opcode::BitcastConvert => wrapped(low, high, image, to),
            Opcode::Not if to == ElementType::Pred => match image {
                Image::Constant(value) => vec![(low, high, Image::Constant(1 - value))],
                _ => vec![(low, high, Image::Unknown)],
            },
            _ => vec![(low, high, Image::Unknown)],
        })
    }
    /// An elementwise operation of two operands, other than a comparison.
    pub(super) fn binary(&self, other: &Self, opcode: Opcode, to: ElementType) -> Self {
        self.combine(other, |low, high, a, b| {
            use Image::{Constant, Shift, Unknown};
            let wrap = |image| wrapped(low, high, image, to);
            match (opcode, a, b) {
                (Opcode::Add, Constant(a), Constant(b)) => wrap(Constant(a + b)),
                (Opcode::Add, Shift(a), Constant(b)) | (Opcode::Add, Constant(b), Shift(a)) => wrap(Shift(a + b)),
                (Opcode::Subtract, Constant(a), Constant(b)) | (Opcode::Subtract, Shift(a), Shift(b)) => {
                    wrap(Constant(a - b))
                }
                (Opcode::Subtract, Shift(a), Constant(b)) => wrap(Shift(a - b)),
                (Opcode::Minimum, a, b) => lesser(low, high, a, b),
                (Opcode::Maximum, a, b) => greater(low, high, a, b),
                (Opcode::And, Constant(a), Constant(b)) => vec![(low, high, Constant(a & b))],
                (Opcode::Or, Constant(a), Constant(b)) => vec![(low, high, Constant(a | b))],
                (Opcode::Xor, Constant(a), Constant(b)) => vec![(low, high, Constant(a ^ b))],
                // One side decides alone.
                (Opcode::And, Constant(0), Unknown) | (Opcode::And, Unknown, Constant(0)) => {
                    vec![(low, high, Constant(0))]
                }
                (Opcode::Or, Constant(1), Unknown) | (Opcode::Or, Unknown, Constant(1)) if to == ElementType::Pred => {
                    vec![(low, high, Constant(1))]
                }
                _ => vec![(low, high, Unknown)],
            }
        })
    }
    /// A comparison, as 0 and 1.
    pub(super) fn compare(&self, other: &Self, direction: &str) -> Self {
        self.combine(other, |low, high, a, b| compared(low, high, a, b, direction))
    }
    /// `select(condition, on_true, on_false)` with `self` as the condition.
    pub(super) fn select(&self, on_true: &Self, on_false: &Self) -> Self {
        // Both branches are packed into one function of the condition's intervals.
        let chosen = |wanted: i128, branch: &Self| {
            self.combine(branch, move |low, high, condition, image| {
                let image = if condition == Image::Constant(wanted) { image } else { Image::Unknown };
                vec![(low, high, image)]
            })
        };
        let (first, second) = (chosen(1, on_true), chosen(0, on_false));
        let known =
            first.combine(&second, |low, high, a, b| vec![(low, high, if a == Image::Unknown { b } else { a })]);
        let agreed =
            on_true.combine(on_false, |low, high, a, b| vec![(low, high, if a == b { a } else { Image::Unknown })]);
        known.combine(&agreed, |low, high, a, b| vec![(low, high, if a == Image::Unknown { b } else { a })])
    }
}

/// The image reduced to what `to` can hold: parts that do not fit are shifted by 2^bits, once; what is further away is unknown.
fn wrapped(low: i128, high: i128, image: Image, to: ElementType) -> Vec<(i128, i128, Image)> {
    let Some((least, most)) = to.integer_range() else { return vec![(low, high, Image::Unknown)] };
    let count = most - least + 1;
    match image {
        Image::Constant(value) => vec![(low, high, Image::Constant((value - least).rem_euclid(count) + least))],
        Image::Unknown => vec![(low, high, Image::Unknown)],
        Image::Shift(shift) => {
            // Borders of v: below it two wraps away, one wrap away, inside, one wrap away, further.
            let starts = [least - count, least, most + 1, most + count + 1].map(|border| border - shift);
            let images = [
                Image::Unknown,
                Image::Shift(shift + count),
                Image::Shift(shift),
                Image::Shift(shift - count),
                Image::Unknown,
            ];
            let mut pieces = Vec::new();
            let mut from = low;
            for (index, image) in images.into_iter().enumerate() {
                let to = starts.get(index).map_or(high, |start| high.min(start - 1));
                if from <= to {
                    pieces.push((from, to, image));
                    from = to + 1;
                }
            }
            pieces
        }
    }
}

/// The interval cut where `v + shift` is below, at and above `value`.
fn cut(low: i128, high: i128, shift: i128, value: i128) -> impl Iterator<Item = (i128, i128, Ordering)> {
    let at = value - shift;
    let parts = [
        (low, high.min(at - 1), Ordering::Less),
        (low.max(at), high.min(at), Ordering::Equal),
        (low.max(at + 1), high, Ordering::Greater),
    ];
    parts.into_iter().filter(|(low, high, _)| low <= high)
}

/// Parts of the interval with how `a` compares to `b` there; `None` where that is not known.
fn ordered(low: i128, high: i128, a: Image, b: Image) -> Option<Vec<(i128, i128, Ordering)>> {
    match (a, b) {
        (Image::Constant(a), Image::Constant(b)) | (Image::Shift(a), Image::Shift(b)) => {
            Some(vec![(low, high, a.cmp(&b))])
        }
        (Image::Shift(shift), Image::Constant(value)) => Some(cut(low, high, shift, value).collect()),
        (Image::Constant(value), Image::Shift(shift)) => {
            Some(cut(low, high, shift, value).map(|(low, high, order)| (low, high, order.reverse())).collect())
        }
        _ => None,
    }
}

fn compared(low: i128, high: i128, a: Image, b: Image, direction: &str) -> Vec<(i128, i128, Image)> {
    let Some(parts) = ordered(low, high, a, b) else { return vec![(low, high, Image::Unknown)] };
    let image = |order: Ordering| {
        let holds = match direction {
            "LT" => order.is_lt(),
            "LE" => order.is_le(),
            "GT" => order.is_gt(),
            "GE" => order.is_ge(),
            "EQ" => order.is_eq(),
            "NE" => order.is_ne(),
            _ => return Image::Unknown,
        };
        Image::Constant(holds.into())
    };
    parts.into_iter().map(|(low, high, order)| (low, high, image(order))).collect()
}

/// The smaller image, the first one where they are equal.
fn lesser(low: i128, high: i128, a: Image, b: Image) -> Vec<(i128, i128, Image)> {
    let Some(parts) = ordered(low, high, a, b) else { return vec![(low, high, Image::Unknown)] };
    parts.into_iter().map(|(low, high, order)| (low, high, if order.is_le() { a } else { b })).collect()
}

fn greater(low: i128, high: i128, a: Image, b: Image) -> Vec<(i128, i128, Image)> {
    let Some(parts) = ordered(low, high, a, b) else { return vec![(low, high, Image::Unknown)] };
    parts.into_iter().map(|(low, high, order)| (low, high, if order.is_ge() { a } else { b })).collect()
}

#[cfg(test)]
mod tests {
    use hlo_ir::ElementType as T;

    use super::Image::{Constant, Shift, Unknown};
    use super::*;

    fn constant(value: i128) -> Piecewise {
        Piecewise::constant(value, &Piecewise::identity(T::S8).expect("an integer"))
    }

    /// The function at one place; `None` where it is unknown.
    fn at(function: &Piecewise, v: i128) -> Option<i128> {
        let covering = |(low, high, _): &&(i128, i128, Image)| (*low..=*high).contains(&v);
        match function.pieces.iter().find(covering).expect("the pieces cover the type").2 {
            Shift(shift) => Some(v + shift),
            Constant(value) => Some(value),
            Unknown => None,
        }
    }

    #[test]
    fn wrapping_negative_indices() {
        let v = Piecewise::identity(T::S8).expect("an integer");
        let wrap = v.compare(&constant(0), "LT").select(&v.binary(&constant(100), Opcode::Add, T::S8), &v);
        assert_eq!(wrap.pieces, [(-128, -1, Shift(100)), (0, 127, Shift(0))]);
        let clipped = wrap.binary(&constant(0), Opcode::Maximum, T::S8).binary(&constant(99), Opcode::Minimum, T::S8);
        for v in -128..=127_i128 {
            let wrapped = if v < 0 { v + 100 } else { v };
            assert_eq!((at(&wrap, v), at(&clipped, v)), (Some(wrapped), Some(wrapped.clamp(0, 99))), "{v}");
        }
    }

    #[test]
    fn arithmetic_wraps_exactly() {
        let v = Piecewise::identity(T::S8).expect("an integer");
        let sum = v.binary(&constant(100), Opcode::Add, T::S8);
        assert_eq!(sum.pieces, [(-128, 27, Shift(100)), (28, 127, Shift(-156))]);
        let narrow = Piecewise::identity(T::S64).expect("an integer").unary(Opcode::Convert, T::S64, T::S32);
        let middle: Vec<_> = narrow.pieces[1..4].iter().map(|piece| piece.2).collect();
        assert_eq!(middle, [Shift(1 << 32), Shift(0), Shift(-(1 << 32))]);
        assert_eq!((narrow.pieces[0].2, narrow.pieces[4].2), (Unknown, Unknown));
        let wide = v.unary(Opcode::Convert, T::S8, T::S32);
        assert_eq!(wide.pieces, [(-128, 127, Shift(0))]);
    }

    #[test]
    fn unknown_conditions_leave_equal_branches() {
        let v = Piecewise::identity(T::S8).expect("an integer");
        let unknown = v.binary(&v, Opcode::Multiply, T::Pred);
        assert_eq!(unknown.pieces, [(-128, 127, Unknown)]);
        assert_eq!(unknown.select(&v, &v), v);
        assert_eq!(unknown.select(&v, &constant(3)).pieces, [(-128, 127, Unknown)]);
    }
}
