//! Sums of buffers that have a key in common.

use crate::hash::IndexMap;
use smol_str::SmolStr;

use super::Group;
use crate::Bytes;

/// Most groups of a list, so that the report of a module with a hundred thousand lines stays readable.
const MOST: usize = 500;

/// Collects sums by key.
#[derive(Debug, Default)]
pub(super) struct Groups {
    by_key: IndexMap<String, (Group, u64)>,
}

impl Groups {
    /// Adds a buffer.
    pub(super) fn add(&mut self, key: String, name: &SmolStr, bytes: u64) {
        let fresh = || (Group { key: String::new(), bytes: Bytes::ZERO, count: 0, largest: name.clone() }, 0);
        let (group, most) = self.by_key.entry(key).or_insert_with(fresh);
        group.bytes += Bytes(bytes);
        group.count += 1;
        if bytes > *most {
            (group.largest, *most) = (name.clone(), bytes);
        }
    }
    /// All groups, largest sum first; equal sums by key. Of very many the smallest become one.
    pub(super) fn sorted(self) -> Vec<Group> {
        let named = |(key, (group, _)): (String, (Group, u64))| Group { key, ..group };
        let mut groups: Vec<Group> = self.by_key.into_iter().map(named).collect();
        groups.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.key.cmp(&b.key)));
        if groups.len() > MOST {
            let rest = groups.split_off(MOST - 1);
            groups.push(Group {
                key: format!("({} others)", rest.len()),
                bytes: rest.iter().map(|group| group.bytes).sum(),
                count: rest.iter().map(|group| group.count).sum(),
                largest: rest[0].largest.clone(),
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
            groups.add(format!("f.py:{line}"), &"x".into(), 1000 - line);
        }
        let sorted = groups.sorted();
        assert_eq!(sorted.len(), MOST);
        assert_eq!((sorted[MOST - 1].key.as_str(), sorted[MOST - 1].count), ("(11 others)", 11));
    }

    #[test]
    fn groups_are_sorted_by_their_sums() {
        let mut groups = Groups::default();
        for (key, name, bytes) in [("b", "small", 1), ("a", "x", 3), ("b", "large", 5), ("c", "y", 3)] {
            groups.add(key.to_owned(), &name.into(), bytes);
        }
        let sorted = groups.sorted();
        let seen: Vec<_> =
            sorted.iter().map(|g| (g.key.as_str(), g.bytes.get(), g.count, g.largest.as_str())).collect();
        assert_eq!(seen, [("b", 6, 2, "large"), ("a", 3, 1, "x"), ("c", 3, 1, "y")]);
    }
}
