//! Lists of lists in two flat arrays, the store of every one-to-many table of the analysis.

/// For each key a list of items, all in one array.
#[derive(Clone, Debug, Default)]
pub(crate) struct Csr {
    start: Vec<u32>,
    items: Vec<u32>,
}

impl Csr {
    /// Groups `pairs` of (key, item) by key, keeping their order; keys lie in `0..keys`.
    pub(crate) fn new(keys: usize, pairs: &[(u32, u32)]) -> Self {
        let mut start = vec![0_u32; keys + 1];
        for &(key, _) in pairs {
            start[key as usize + 1] += 1;
        }
        for key in 0..keys {
            start[key + 1] += start[key];
        }
        let mut next = start.clone();
        let mut items = vec![0; pairs.len()];
        for &(key, item) in pairs {
            let at = &mut next[key as usize];
            items[*at as usize] = item;
            *at += 1;
        }
        Self { start, items }
    }
    /// The items of a key, in the order they were given; empty for a key beyond the last.
    pub(crate) fn get(&self, key: u32) -> &[u32] {
        let key = key as usize;
        match (self.start.get(key), self.start.get(key + 1)) {
            (Some(&from), Some(&to)) => &self.items[from as usize..to as usize],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_the_order_of_their_pairs() {
        let table = Csr::new(4, &[(2, 7), (0, 1), (2, 5), (0, 9)]);
        assert_eq!(table.get(0), [1, 9]);
        assert!(table.get(1).is_empty());
        assert_eq!(table.get(2), [7, 5]);
        assert!(table.get(9).is_empty());
    }
}
