//! Integer values of constants.

use hlo_ir::ElementType;

use super::{Range, Region};

/// Elements of the largest constant that is read one by one.
const MOST_ELEMENTS: usize = 1 << 16;

/// The values in a region of a constant with this literal; `None` if they cannot be read.
pub(super) fn range(literal: &str, element_type: ElementType, dims: &[i64], region: &Region) -> Option<Range> {
    element_type.integer_range()?;
    let values = values(literal)?;
    let elements = dims.iter().try_fold(1_usize, |product, &dim| product.checked_mul(usize::try_from(dim).ok()?))?;
    if values.len() != elements {
        return None;
    }
    let inside = values.iter().enumerate().filter(|(position, _)| region.contains(&indices(*position, dims)));
    Some(Range::from_pieces(inside.map(|(_, &value)| (value, value))))
}

/// The only value of an integer literal, as of a scalar.
pub fn scalar(literal: &str) -> Option<i128> {
    match values(literal)?[..] {
        [value] => Some(value),
        _ => None,
    }
}

/// All numbers in row-major order. `None` for elided constants (`{...}`) and anything that is not an integer.
fn values(literal: &str) -> Option<Vec<i128>> {
    let without_comments = literal
        .split("/*")
        .enumerate()
        .map(|(index, part)| if index == 0 { part } else { part.split_once("*/").map_or("broken", |(_, rest)| rest) });
    let mut values = Vec::new();
    for part in without_comments {
        for word in
            part.split(|c: char| matches!(c, '{' | '}' | ',') || c.is_whitespace()).filter(|word| !word.is_empty())
        {
            if values.len() == MOST_ELEMENTS {
                return None;
            }
            values.push(match word {
                "true" => 1,
                "false" => 0,
                number => number.parse().ok()?,
            });
        }
    }
    Some(values)
}

/// Indices of the element at a row-major position.
fn indices(mut position: usize, dims: &[i64]) -> Vec<i64> {
    let mut indices = vec![0; dims.len()];
    for (index, &size) in indices.iter_mut().zip(dims).rev() {
        *index = (position % size as usize) as i64;
        position /= size as usize;
    }
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_constant() {
        let column = |index| Region::full(&[2, 2]).with(1, index, index + 1);
        let literal = "{ { 0, -5 }, /*i1=1*/{ 7, 9 } }";
        assert_eq!(range(literal, ElementType::S32, &[2, 2], &column(0)), Some(Range::from_pieces([(0, 0), (7, 7)])));
        assert_eq!(range(literal, ElementType::S32, &[2, 2], &column(1)), Some(Range::from_pieces([(-5, -5), (9, 9)])));
    }

    #[test]
    fn what_is_no_integer_is_unknown() {
        assert_eq!(scalar("-7"), Some(-7));
        assert_eq!(scalar("true"), Some(1));
        for text in ["{...}", "1.5", "nan", "{1, 2}", "", "{ /*broken 1 }"] {
            assert_eq!(scalar(text), None, "{text}");
        }
        assert_eq!(range("1", ElementType::F32, &[], &Region::full(&[])), None);
        assert_eq!(range("{1}", ElementType::S8, &[2], &Region::full(&[2])), None);
    }
}
