//! Serialized protobuf messages that hold no module of XLA: graphs of TensorFlow, models of ONNX, profiles.

use super::{DUMP, Foreign};

/// How TensorFlow gives HLO.
pub(crate) const TENSORFLOW: &str =
    "`tf.function(f, jit_compile=True).experimental_get_compiler_ir(...)(stage=\"hlo\")` is its HLO text";

/// What the fields of a message say about it.
pub(super) fn recognize(bytes: &[u8]) -> Option<Foreign> {
    let fields = fields(bytes)?;
    let first = *fields.first()?;
    if is_graph(&fields) {
        return Some(Foreign { what: "a graph of TensorFlow (GraphDef)", help: TENSORFLOW });
    }
    if is_profile(&fields) {
        return Some(Foreign { what: "a profile of a run (XSpace)", help: DUMP });
    }
    // Both begin with the version of the format. The next field of a model is the name of what wrote it, or the graph itself.
    let version = first.number == 1 && first.bytes.is_empty();
    let second = fields.get(1).filter(|_| version)?;
    match second.number {
        2 if is_name(second.bytes) => Some(ONNX),
        2 => Some(Foreign { what: "a SavedModel of TensorFlow", help: TENSORFLOW }),
        3..=8 => Some(ONNX),
        _ => None,
    }
}

const ONNX: Foreign = Foreign { what: "a model of ONNX", help: DUMP };

/// A graph is a list of nodes, some of them with attributes, and few fields beside it.
fn is_graph(fields: &[Field<'_>]) -> bool {
    let nodes: Vec<_> = fields.iter().filter(|field| field.number == 1).collect();
    let known = fields.iter().all(|field| field.number <= 5) && nodes.iter().all(|node| is_node(node.bytes));
    known && nodes.iter().any(|node| parts(node.bytes, 5).any(|entry| parts(entry.bytes, 2).count() > 0))
}

/// A node has a name, an operation, the names of its inputs and a device.
fn is_node(bytes: &[u8]) -> bool {
    let named = |number| parts(bytes, number).any(|part| is_name(part.bytes));
    let words = parts(bytes, 3).chain(parts(bytes, 4)).all(|part| part.bytes.is_empty() || is_name(part.bytes));
    named(1) && named(2) && words
}

/// The fields of that number in a message.
fn parts(bytes: &[u8], number: u64) -> impl Iterator<Item = Field<'_>> {
    fields(bytes).unwrap_or_default().into_iter().filter(move |part| part.number == number)
}

/// A profile is a list of planes, some of which are called after a host or a device.
fn is_profile(fields: &[Field<'_>]) -> bool {
    let planes = fields.iter().filter(|field| field.number == 1);
    let mut names = planes.flat_map(|plane| parts(plane.bytes, 2));
    names.any(|name| name.bytes.starts_with(b"/host:") || name.bytes.starts_with(b"/device:"))
}

/// Whether bytes are a short printable text.
fn is_name(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| (0x20..0x7f).contains(byte))
}

/// One field of a message.
#[derive(Clone, Copy)]
struct Field<'b> {
    number: u64,
    /// Its bytes; none if it is a number.
    bytes: &'b [u8],
}

/// Fields that are looked at: the first say what a message is.
const MOST: usize = 64;

/// The first fields of a message; `None` if the bytes are none.
fn fields(mut rest: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut found = Vec::new();
    while !rest.is_empty() && found.len() < MOST {
        let key = varint(&mut rest)?;
        let skipped = match key & 7 {
            0 => {
                varint(&mut rest)?;
                0
            }
            1 => 8,
            5 => 4,
            2 => usize::try_from(varint(&mut rest)?).ok()?,
            _ => return None,
        };
        let (bytes, behind) = rest.split_at_checked(skipped)?;
        rest = behind;
        found.push(Field { number: key >> 3, bytes });
    }
    (found.iter().all(|field| field.number > 0)).then_some(found)
}

/// Takes a number of seven bits a byte, lowest first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let length = rest.iter().take(10).position(|&byte| byte < 0x80)? + 1;
    let (bytes, behind) = rest.split_at(length);
    *rest = behind;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 7 | u64::from(byte & 0x7f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    fn what(bytes: &[u8]) -> Option<&'static str> {
        recognize(bytes).map(|foreign| foreign.what)
    }

    #[test]
    fn messages_are_told_by_their_fields() {
        let node =
            [field(1, b"x"), field(2, b"Placeholder"), field(5, &[field(1, b"dtype"), field(2, b"\x30\x01")].concat())]
                .concat();
        let graph = [field(1, &node), field(4, &[8, 1])].concat();
        assert_eq!(what(&graph), Some("a graph of TensorFlow (GraphDef)"));
        assert_eq!(
            what(&[vec![8, 1], field(2, &field(1, &field(4, b"serve")))].concat()),
            Some("a SavedModel of TensorFlow")
        );
        assert_eq!(what(&[vec![8, 8], field(2, b"pytorch"), field(7, b"")].concat()), Some("a model of ONNX"));
        let plane = [vec![8, 0], field(2, b"/host:CPU")].concat();
        assert_eq!(what(&field(1, &plane)), Some("a profile of a run (XSpace)"));
    }

    #[test]
    fn other_bytes_are_none_of_them() {
        assert_eq!(what(b""), None);
        assert_eq!(what(&[0xff; 40]), None);
        // A module: a name, that of its entry, and computations.
        assert_eq!(what(&[field(1, b"m"), field(2, b"main"), field(3, &field(1, b"main"))].concat()), None);
        assert_eq!(what(&field(1, &[field(1, b"m"), field(2, b"main"), field(3, &field(1, b"main"))].concat())), None);
    }
}
