//! The did-you-mean search: which known name is closest to one that is not known.

/// The candidate closest to `name`, if one is close enough to be a slip of the keyboard: two edits from six letters on, one for
/// shorter names, none for names of one or two letters, which are close to everything.
pub(crate) fn closest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let limit = match name.len() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= limit)
        .map(|candidate| (distance(name.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Number of inserted, removed, changed or swapped neighbouring bytes that turn `a` into `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let changed = last[j] + usize::from(a[i] != b[j]);
            row[j + 1] = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                let two_back: &Vec<usize> = &before;
                row[j + 1] = row[j + 1].min(two_back[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_nothing_else() {
        let names = ["add", "broadcast", "tuple", "parameter"];
        assert_eq!(closest("brodcast", names), Some("broadcast"));
        assert_eq!(closest("paramtere", names), Some("parameter"));
        assert_eq!(closest("tupl", names), Some("tuple"));
        assert_eq!(closest("ad", names), None);
        assert_eq!(closest("frobnicate", names), None);
    }
}
