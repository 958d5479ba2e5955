//! `origin={({"a"}, {"b" {1}})}`, the values that an instruction's parts had before XLA changed the program, to messages and back.
//!
//! Source: `OriginalValue` (xla/hlo/ir/hlo_original_value.cc).

use super::message::common as pb;
use super::scan::{Cursor, Fit, braces, quote};

/// Tuples nested deeper than this are an error instead of a stack overflow.
const MAX_DEPTH: usize = 256;

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
    let at = elements.len();
    elements.push(pb::OriginalValueElement { shape_index: index.clone(), original_array: None });
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
    if cursor.eat("}") {
        return Ok(());
    }
    let instruction_name = cursor.string()?;
    let shape_index = if cursor.peek() == Some(b'{') { cursor.ints()? } else { Vec::new() };
    elements[at].original_array = Some(pb::OriginalArray { instruction_name, shape_index });
    cursor.expect("}")
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
    node_text(&mut rest, 0, &mut text)?;
    if let Some(left) = rest.first() {
        return Err(format!("the element at {:?} has no place", left.shape_index));
    }
    Ok(text + "}")
}

/// Writes the first of `rest` with everything below it. Sorted by index, what is below a node follows it.
fn node_text(rest: &mut &[&pb::OriginalValueElement], depth: usize, out: &mut String) -> Fit<()> {
    let (&first, behind) = rest.split_first().ok_or("it has no elements")?;
    if first.shape_index.len() != depth || depth > MAX_DEPTH {
        return Err(format!("the element at {:?} has no place", first.shape_index));
    }
    *rest = behind;
    let below = |rest: &[&pb::OriginalValueElement]| {
        rest.first()
            .is_some_and(|next| next.shape_index.len() > depth && next.shape_index.starts_with(&first.shape_index))
    };
    if below(rest) {
        let mut separator = "(";
        while below(rest) {
            out.push_str(separator);
            separator = ", ";
            node_text(rest, depth + 1, out)?;
        }
        out.push(')');
        return Ok(());
    }
    out.push('{');
    if let Some(array) = &first.original_array {
        quote(out, array.instruction_name.as_bytes());
        if !array.shape_index.is_empty() {
            out.push(' ');
            out.push_str(&braces(&array.shape_index));
        }
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        for text in [r#"{{"a"}}"#, r#"{({"a"}, ({}, {"b" {1,0}}))}"#, "{[synthetic_call]}", "{{}}"] {
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
