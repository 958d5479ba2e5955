//! Literals that stand outside a `constant`, each array behind its own shape: `s32[2]{0} {1, 2}`, `( s32[] 1, pred[2]{0} {0, 1} )`.
//!
//! Source: `ParseLiteral` without a shape (xla/hlo/parser/hlo_parser.cc).

use super::{leading_shape, skip_blank};
use crate::Shape;
use crate::shape::ShapeRef;

/// Tuples nested deeper than this are an error instead of a stack overflow.
const MAX_DEPTH: u32 = 64;

/// The shape of the whole and its value in the form that a `constant` has.
pub(crate) fn shaped_literal(text: &str) -> Result<(ShapeRef, String), String> {
    nested(text.trim(), 0)
}

fn nested(text: &str, depth: u32) -> Result<(ShapeRef, String), String> {
    if depth > MAX_DEPTH {
        return Err(format!("tuples are nested deeper than {MAX_DEPTH} levels"));
    }
    let Some(inside) = text.strip_prefix('(') else {
        let (value, shape) = leading_shape(text)?;
        return if value.is_empty() {
            Err("a value expected behind the shape".into())
        } else {
            Ok((shape, value.to_owned()))
        };
    };
    let inside = inside.strip_suffix(')').ok_or("the tuple does not end")?;
    let (mut shapes, mut values) = (Vec::new(), Vec::new());
    for part in parts(inside) {
        let (shape, value) = nested(part.trim(), depth + 1)?;
        shapes.push(shape);
        values.push(value);
    }
    Ok((Shape::tuple(shapes), format!("({})", values.join(", "))))
}

/// What stands between the commas outside all braces, brackets and parentheses.
pub(crate) fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut at, mut found) = (0_i64, 0, 0, Vec::new());
    while let Some(&byte) = text.as_bytes().get(at) {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            // A comment may hold any of these.
            b'/' => at = (text.len() - skip_blank(&text[at..]).len()).max(at + 1) - 1,
            _ => {}
        }
        at += 1;
    }
    if !text.trim().is_empty() {
        found.push(&text[start..]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_and_values_come_apart() {
        let (shape, value) =
            shaped_literal("( s32[2,2]{1,0} {{1,2},{3,4}}, (pred[] true, c64[] (1, 2)) )").expect("a literal");
        assert_eq!(shape.to_string(), "(s32[2,2]{1,0}, (pred[], c64[]))");
        assert_eq!(value, "({{1,2},{3,4}}, (true, (1, 2)))");
        for wrong in ["s32[2]{0}", "(s32[] 1", "3", "s32[2] {1,2}"] {
            assert!(shaped_literal(wrong).is_err(), "{wrong}");
        }
        assert!(shaped_literal(&"(".repeat(100_000)).is_err());
    }
}
