//! Fields that newer versions of XLA write and this version has no struct member for.
//!
//! A decoder skips what it does not know. Encoding what it decoded and comparing field numbers with the input finds what was skipped,
//! without a second list of all fields: a number that stands in the input with a value that is not the default, but nowhere at the same
//! place of the encoding, was not known. Nested messages are looked into only where their bytes differ.

use std::collections::BTreeMap;

/// Paths of field numbers, such as `1.3.2.104`, that `original` has and `encoded` lacks, each once.
pub(super) fn fields(original: &[u8], encoded: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    compare(&[original], &[encoded], "", 0, &mut found);
    found
}

/// The messages of XLA nest shapes in shapes, and those have a limit; deeper fields are not looked at.
const MAX_DEPTH: u32 = 64;

/// Compares the fields of all messages that stand at one place.
fn compare(originals: &[&[u8]], encoded: &[&[u8]], path: &str, depth: u32, found: &mut Vec<String>) {
    let (Some(originals), Some(encoded)) = (split(originals), split(encoded)) else { return };
    for (number, values) in originals {
        let path = if path.is_empty() { number.to_string() } else { format!("{path}.{number}") };
        let Some(known) = encoded.get(&number) else {
            if values.iter().any(|value| value.bytes.iter().any(|&byte| byte != 0)) {
                found.push(path);
            }
            continue;
        };
        if values != *known && depth < MAX_DEPTH {
            let (values, known) = (delimited(&values), delimited(known));
            compare(&values, &known, &path, depth + 1, found);
        }
    }
}

/// One field's value on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Value<'b> {
    /// Whether it may be a message: bytes with a length before them.
    is_delimited: bool,
    bytes: &'b [u8],
}

/// The values that may be messages.
fn delimited<'b>(values: &[Value<'b>]) -> Vec<&'b [u8]> {
    values.iter().filter(|value| value.is_delimited).map(|value| value.bytes).collect()
}

/// The fields of some messages by number; `None` if the bytes are no messages.
fn split<'b>(messages: &[&'b [u8]]) -> Option<BTreeMap<u64, Vec<Value<'b>>>> {
    let mut fields: BTreeMap<u64, Vec<Value<'b>>> = BTreeMap::new();
    for message in messages {
        let mut rest = *message;
        while !rest.is_empty() {
            let key = varint(&mut rest)?;
            let value = value(key & 7, &mut rest)?;
            fields.entry(key >> 3).or_default().push(value);
        }
    }
    Some(fields)
}

/// Takes the value of a wire type.
fn value<'b>(wire_type: u64, rest: &mut &'b [u8]) -> Option<Value<'b>> {
    let start = *rest;
    let length = match wire_type {
        0 => {
            varint(rest)?;
            return Some(Value { is_delimited: false, bytes: &start[..start.len() - rest.len()] });
        }
        1 => 8,
        2 => usize::try_from(varint(rest)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (bytes, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(Value { is_delimited: wire_type == 2, bytes })
}

/// Takes a number of seven bits a byte, lowest first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_the_encoding_lacks_is_found_where_it_stands() {
        // { 1: { 2: 7, 9: 5 }, 1: { 2: 8 }, 4: "x" } against what knows neither 1.9 nor 4.
        let original = [0x0a, 4, 0x10, 7, 0x48, 5, 0x0a, 2, 0x10, 8, 0x22, 1, b'x'];
        let encoded = [0x0a, 2, 0x10, 7, 0x0a, 2, 0x10, 8];
        assert_eq!(fields(&original, &encoded), ["1.9", "4"]);
        assert_eq!(fields(&encoded, &encoded), [""; 0]);
    }
    #[test]
    fn defaults_packing_and_order_do_not_count() {
        // An explicit zero, unpacked numbers and another order of a map's entries.
        assert_eq!(fields(&[0x08, 0], &[]), [""; 0]);
        assert_eq!(fields(&[0x10, 1, 0x10, 2], &[0x12, 2, 1, 2]), [""; 0]);
        assert_eq!(fields(&[0x0a, 2, 0x08, 2, 0x0a, 0], &[0x0a, 0, 0x0a, 2, 0x08, 2]), [""; 0]);
    }
    #[test]
    fn bytes_that_are_no_message_are_left_alone() {
        assert_eq!(fields(&[0x0a, 9, 1], &[0x0a, 0]), [""; 0]);
        assert_eq!(fields(&[0x0a, 1, 0xff], &[0x0a, 1, 0xfe]), [""; 0]);
    }
}
