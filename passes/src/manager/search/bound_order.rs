//! The order by upper bounds: what candidates could save at most, where they are too many to estimate each.

use hlo_memory::{Bytes, Estimator as _};

use super::{Candidate, Search};
use crate::Outcome;
use crate::manager::scope::{self, Scope};

impl Search<'_> {
    /// The candidates with the most that each could save, the largest first; as they are, and without bounds, where all can be estimated.
    /// Changes that may reorder the whole program could save anything, and come where their pass's reckoning puts them.
    pub(super) fn by_bound(&mut self, candidates: Vec<Candidate>) -> Vec<(Candidate, Option<Bytes>)> {
        let large = scope::is_large(candidates.len(), self.statistics.instructions.0);
        let saving_bound = large.then(|| self.estimator.saving_bound(self.module)).flatten();
        let Some(saving_bound) = saving_bound else {
            return candidates.into_iter().map(|candidate| (candidate, None)).collect();
        };
        let scope = Scope::new(self.module, saving_bound);
        let everything = self.now.total_with_scratch() - self.now.floor;
        let bound = |candidate: Candidate| {
            let most = match &candidate.finding.outcome {
                Outcome::Rewrite { patch, .. } | Outcome::Withheld { patch, .. } => {
                    scope.most_saved_by(&*self.passes[candidate.pass], patch)
                }
                Outcome::Missed(_) => Some(Bytes::ZERO),
            };
            let reckoned = most.unwrap_or(everything).min(candidate.finding.wasted);
            (reckoned, candidate, Some(most.unwrap_or(everything)))
        };
        let mut bounded: Vec<_> = candidates.into_iter().map(bound).collect();
        bounded.sort_by_key(|(reckoned, ..)| std::cmp::Reverse(*reckoned));
        bounded.into_iter().map(|(_, candidate, most)| (candidate, most)).collect()
    }
}
