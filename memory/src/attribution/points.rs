//! The timeline with a bounded number of points: of every interval the step with the largest value stays, so the peak always does.

/// Most points of a timeline in a report.
pub const POINTS: usize = 2000;

/// The steps to show: the first of the largest values of each of at most [`POINTS`] intervals of equal length.
pub(super) fn steps(timeline: &[u64]) -> Vec<usize> {
    let width = timeline.len().div_ceil(POINTS).max(1);
    let largest = |(index, interval): (usize, &[u64])| {
        let most = interval.iter().max()?;
        Some(index * width + interval.iter().position(|bytes| bytes == most)?)
    };
    timeline.chunks(width).enumerate().filter_map(largest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_timelines_stay_whole_and_long_ones_keep_their_peaks() {
        assert_eq!(steps(&[1, 5, 2]), [0, 1, 2]);
        assert!(steps(&[]).is_empty());
        let mut long = vec![7; 300_000];
        long[123_456] = 9;
        let kept = steps(&long);
        assert!(kept.len() <= POINTS && kept.contains(&123_456));
        assert!(kept.is_sorted());
    }
}
