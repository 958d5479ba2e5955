//! Sums of buffers that have a key in common.

use hlo_ir::InstructionId;

use super::Group;
use crate::Bytes;
use crate::hash::IndexMap;
use crate::names::Called;

/// Most groups of a list, so that the report of a module with a hundred thousand lines stays readable.
const MOST: usize = 500;

/// Collects sums by key.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_key: IndexMap<String, Sum>,
}

/// A group before its largest buffer has a name.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    key: String,
    bytes: Bytes,
    count: usize,
    /// The instruction that defines the largest buffer, and its size.
    largest: (InstructionId, u64),
}

impl Sum {
    /// The group, with a name for its largest buffer.
    pub(super) fn in_words(&self, called: &dyn Called) -> Group {
        let largest = called.instruction(self.largest.0);
        Group { key: self.key.clone(), bytes: self.bytes, count: self.count, largest }
    }
}

impl Groups {
    /// Adds a buffer.
    pub(super) fn add(&mut self, key: String, id: InstructionId, bytes: u64) {
        let fresh = || Sum { key: String::new(), bytes: Bytes::ZERO, count: 0, largest: (id, 0) };
        let sum = self.by_key.entry(key).or_insert_with(fresh);
        sum.bytes += Bytes(bytes);
        sum.count += 1;
        if bytes > sum.largest.1 {
            sum.largest = (id, bytes);
        }
    }
    /// All groups, largest sum first; equal sums by key. Of very many the smallest become one.
    pub(super) fn sorted(self) -> Vec<Sum> {
        let keyed = |(key, sum)| Sum { key, ..sum };
        let mut groups: Vec<Sum> = self.by_key.into_iter().map(keyed).collect();
        groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.key.cmp(&b.key)));
        if groups.len() > MOST {
            let rest = groups.split_off(MOST - 1);
            groups.push(Sum {
                key: format!("({} others)", rest.len()),
                bytes: rest.iter().map(|group| group.bytes).sum(),
                count: rest.iter().map(|group| group.count).sum(),
                largest: rest[0].largest,
            });
        }
        groups
    }
}

/// The path of an operation's name: everything before its last part, which is the primitive.
pub(super) fn path(op_name: &str) -> &str {
    // A slash inside parentheses belongs to a part: `jit(f)/transpose(jvp(a/b))/mul`.
    let mut depth = 0_i32;
    let mut last = None;
    for (at, c) in op_name.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '/' if depth == 0 => last = Some(at),
            _ => {}
        }
    }
    last.map_or(op_name, |at| &op_name[..at])
}

#[cfg(test)]
mod tests {
    use hlo_ir::arena::Id as _;

    use super::*;

    #[test]
    fn the_primitive_is_no_part_of_the_path() {
        assert_eq!(path("jit(f)/layer_0/mul"), "jit(f)/layer_0");
        assert_eq!(path("jit(f)/transpose(jvp(a/b))/mul"), "jit(f)/transpose(jvp(a/b))");
        assert_eq!(path("x"), "x");
    }

    #[test]
    fn the_smallest_of_very_many_become_one() {
        let mut groups = Groups::default();
        for line in 0..MOST as u64 + 10 {
            groups.add(format!("f.py:{line}"), InstructionId::new(0), 1000 - line);
        }
        let sorted = groups.sorted();
        assert_eq!(sorted.len(), MOST);
        assert_eq!((sorted[MOST - 1].key.as_str(), sorted[MOST - 1].count), ("(11 others)", 11));
    }

    #[test]
    fn groups_are_sorted_by_their_sums() {
        let mut groups = Groups::default();
        for (key, id, bytes) in [("b", 1, 1), ("a", 2, 3), ("b", 3, 5), ("c", 4, 3)] {
            groups.add(key.to_owned(), InstructionId::new(id), bytes);
        }
        let sorted = groups.sorted();
        let seen: Vec<_> =
            sorted.iter().map(|sum| (sum.key.as_str(), sum.bytes.get(), sum.count, sum.largest.0.index())).collect();
        assert_eq!(seen, [("b", 6, 2, 3), ("a", 3, 1, 2), ("c", 3, 1, 4)]);
    }
}
