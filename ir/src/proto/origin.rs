//! `origin={({"a"}, {"b" {1}})}`, the values that an instruction's parts had before XLA changed the program, to messages and back.
//!
//! Source: `OriginalValue` (xla/hlo/ir/hlo_original_value.cc).

use super::message::common as pb;
use super::scan::{Cursor, Fit, braces, quote};

/// Tuples nested deeper than this are an error instead of a stack overflow.
const MAX_DEPTH: usize = 256;

/// Empty tuples have no elements; more of them in a row than this are damage.
const MAX_GAP: i64 = 1024;

/// Reads the text of the attribute.
pub(super) fn write(cursor: &mut Cursor<'_>) -> Fit<pb::OriginalValue> {
    let mut value = pb::OriginalValue::default();
    cursor.expect("{")?;
    if cursor.eat("[synthetic_call]") {
        value.is_synthetic_call = true;
    } else {
        node(cursor, &mut Vec::new(), &mut value.elements)?;
    }
    cursor.expect("}")?;
    Ok(value)
}

/// `(node, node)`, or a leaf: `{}`, `{"name"}`, `{"name" {1}}`.
fn node(cursor: &mut Cursor<'_>, index: &mut Vec<i64>, elements: &mut Vec<pb::OriginalValueElement>) -> Fit<()> {
    if index.len() > MAX_DEPTH {
        return Err(format!("tuples are nested deeper than {MAX_DEPTH} levels"));
    }
    if cursor.eat("(") {
        index.push(0);
        while !cursor.eat(")") {
            node(cursor, index, elements)?;
            cursor.eat(",");
            *index.last_mut().ok_or("an index is missing")? += 1;
        }
        index.pop();
        return Ok(());
    }
    cursor.expect("{")?;
    let mut element = pb::OriginalValueElement { shape_index: index.clone(), original_array: None };
    if !cursor.eat("}") {
        let instruction_name = cursor.string()?;
        let shape_index = if cursor.peek() == Some(b'{') { cursor.ints()? } else { Vec::new() };
        element.original_array = Some(pb::OriginalArray { instruction_name, shape_index });
        cursor.expect("}")?;
    }
    elements.push(element);
    Ok(())
}

/// The text of a value.
pub(super) fn read(value: &pb::OriginalValue) -> Fit<String> {
    if value.is_synthetic_call {
        return Ok("{[synthetic_call]}".to_owned());
    }
    let mut elements: Vec<&pb::OriginalValueElement> = value.elements.iter().collect();
    elements.sort_by(|a, b| a.shape_index.cmp(&b.shape_index));
    let mut text = String::from("{");
    let mut rest = elements.as_slice();
    node_text(&mut rest, &mut Vec::new(), &mut text)?;
    match rest.first() {
        Some(left) => Err(format!("the element at {:?} has no place", left.shape_index)),
        None => Ok(text + "}"),
    }
}

/// Writes the node at `index`. Elements are sorted by index, so that what lies below it comes next; newer messages hold the leaves only.
fn node_text(rest: &mut &[&pb::OriginalValueElement], index: &mut Vec<i64>, out: &mut String) -> Fit<()> {
    if index.len() > MAX_DEPTH {
        return Err(format!("tuples are nested deeper than {MAX_DEPTH} levels"));
    }
    let own = rest.first().copied().filter(|first| first.shape_index == *index);
    if own.is_some() {
        *rest = &rest[1..];
    }
    let below = |rest: &[&pb::OriginalValueElement], index: &[i64]| {
        let next = rest.first().filter(|next| next.shape_index.starts_with(index))?;
        next.shape_index.get(index.len()).copied()
    };
    if own.is_some() && below(rest, index).is_none() {
        leaf_text(own.and_then(|own| own.original_array.as_ref()), out);
        return Ok(());
    }
    out.push('(');
    let mut child = 0;
    while let Some(next) = below(rest, index) {
        if !(child..child + MAX_GAP).contains(&next) {
            return Err(format!("the element at {:?} has no place", rest[0].shape_index));
        }
        out.push_str(if child == 0 { "" } else { ", " });
        index.push(child);
        node_text(rest, index, out)?;
        index.pop();
        child += 1;
    }
    out.push(')');
    Ok(())
}

/// `{}`, `{"name"}` or `{"name" {1}}`.
fn leaf_text(array: Option<&pb::OriginalArray>, out: &mut String) {
    out.push('{');
    if let Some(array) = array {
        quote(out, array.instruction_name.as_bytes());
        if !array.shape_index.is_empty() {
            out.push(' ');
            out.push_str(&braces(&array.shape_index));
        }
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        for text in [r#"{{"a"}}"#, r#"{({"a"}, ({}, {"b" {1,0}}), (), {"c"})}"#, "{[synthetic_call]}", "{{}}"] {
            let mut cursor = Cursor::new(text);
            let value = write(&mut cursor).expect(text);
            cursor.end().expect(text);
            assert_eq!(read(&value).as_deref(), Ok(text));
        }
    }
    #[test]
    fn nesting_has_an_end() {
        let text = format!("{{{}", "(".repeat(100_000));
        assert!(write(&mut Cursor::new(&text)).is_err_and(|problem| problem.contains("nested deeper")));
    }
}
