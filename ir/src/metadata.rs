//! What `metadata={...}` says of an instruction, and what of the same instruction where its computation stands in the place of a call.
//!
//! JAX writes no place in the source into a function that several programs share, and a name within the function only. XLA gives both when it
//! inlines the call (`xla/service/call_inliner.cc`).

use crate::{AttrKey, AttrValue, Instruction};

/// Keys that name a place in the user's program.
const PLACES: [&str; 2] = ["stack_frame_id", "source_file"];

/// Finds `key=value` or `key="value"` in the text of a metadata attribute.
pub(crate) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = text;
    loop {
        let at = rest.find(key)?;
        let starts_word = rest[..at].chars().next_back().is_none_or(|c| matches!(c, '{' | ' ' | ','));
        let after = &rest[at + key.len()..];
        if let (true, Some(value)) = (starts_word, after.strip_prefix('=')) {
            return match value.strip_prefix('"') {
                Some(quoted) => quoted.get(..end_of_string(quoted)),
                None => value.split([' ', ',', '}']).next(),
            };
        }
        rest = after;
    }
}

/// Where a string ends that began with the quote before `text`: a quote after a backslash belongs to it.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().find(|&(_, next)| {
        let ends = next == '"' && !escaped;
        escaped = next == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at)
}

/// The metadata of an instruction that says `inner`, in the place of a call that says `call`: the name of the call goes before its own, and the
/// call's place in the source stands for one it lacks. `None` if neither says anything.
pub fn in_place_of(call: Option<&str>, inner: Option<&str>) -> Option<AttrValue> {
    let text = match (call, inner) {
        (Some(call), Some(inner)) => joined(call, inner),
        (call, inner) => call.or(inner)?.to_owned(),
    };
    Some(AttrValue::Raw(text.into()))
}

impl Instruction {
    /// Says of an instruction what [`in_place_of`] a call says.
    pub fn stand_in_place_of(&mut self, call: Option<&str>) {
        if let Some(metadata) = call.and_then(|call| in_place_of(Some(call), self.raw(&AttrKey::Metadata))) {
            self.set_attribute(AttrKey::Metadata, metadata);
        }
    }
}

fn joined(call: &str, inner: &str) -> String {
    let base = if PLACES.iter().any(|key| value(inner, key).is_some()) { inner } else { call };
    let name = match (value(call, "op_name"), value(inner, "op_name")) {
        (Some(outer), Some(own)) if !is_inside(own, outer) => format!("{outer}/{own}"),
        (outer, own) => own.or(outer).unwrap_or_default().to_owned(),
    };
    let rest = base.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(base);
    match value(base, "op_name") {
        Some(old) => base.replacen(&format!("op_name=\"{old}\""), &format!("op_name=\"{name}\""), 1),
        None if name.is_empty() => base.to_owned(),
        None => format!("{{op_name=\"{name}\"{}{rest}}}", if rest.is_empty() { "" } else { " " }),
    }
}

/// Whether a name is a path that begins with the path `outer`, as names from the root are.
fn is_inside(own: &str, outer: &str) -> bool {
    own.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(call: &str, inner: &str) -> String {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        match in_place_of(text(call).as_deref(), text(inner).as_deref()) {
            Some(AttrValue::Raw(text)) => text.to_string(),
            _ => String::new(),
        }
    }

    #[test]
    fn what_stands_in_the_place_of_a_call_is_named_and_placed_by_it() {
        let call = "{op_name=\"jit(f)/jit(g)\" stack_frame_id=5}";
        assert_eq!(said(call, "{op_name=\"exp\"}"), "{op_name=\"jit(f)/jit(g)/exp\" stack_frame_id=5}");
        assert_eq!(said(call, ""), call, "a constant");
        assert_eq!(said("", "{op_name=\"exp\"}"), "{op_name=\"exp\"}");
        assert_eq!(said("", ""), "");
    }

    #[test]
    fn what_an_instruction_says_itself_comes_first() {
        let own = "{op_name=\"jit(f)/jit(g)/exp\" source_file=\"g.py\" source_line=3}";
        assert_eq!(
            said("{op_name=\"jit(f)\" stack_frame_id=5}", own),
            own,
            "names from the root already, as older versions of JAX do"
        );
        let placed = "{stack_frame_id=7}";
        assert_eq!(said("{op_name=\"f\" stack_frame_id=5}", placed), "{op_name=\"f\" stack_frame_id=7}");
        assert_eq!(said("{stack_frame_id=5}", "{op_type=\"x\"}"), "{stack_frame_id=5}");
    }

    #[test]
    fn a_name_that_begins_with_the_letters_of_the_call_is_no_part_of_its_path() {
        assert_eq!(
            said("{op_name=\"a\" stack_frame_id=5}", "{op_name=\"add\"}"),
            "{op_name=\"a/add\" stack_frame_id=5}"
        );
        assert_eq!(said("{op_name=\"a\"}", "{op_name=\"a\" stack_frame_id=2}"), "{op_name=\"a\" stack_frame_id=2}");
    }

    #[test]
    fn escaped_quotes_belong_to_a_name() {
        let call = r#"{op_name="jit(f)/\"a b\"" stack_frame_id=5}"#;
        assert_eq!(value(call, "op_name"), Some(r#"jit(f)/\"a b\""#));
        assert_eq!(value(call, "stack_frame_id"), Some("5"));
        assert_eq!(said(call, r#"{op_name="c\\"}"#), r#"{op_name="jit(f)/\"a b\"/c\\" stack_frame_id=5}"#);
    }
}
