//! When values are computed again outside of loops: behind everything else, or before it.
//!
//! A loop over blocks lets what lies between its inputs and its results disappear at once, and computes little of it twice. What a layer keeps for another
//! layer far behind it, it cannot reach. So loops are looked for first, and values are computed again in what they leave. Where sums may not be split there are few
//! loops over a whole step, and small ones can stand in the way; then the other order is tried too.

use super::super::RunError;
use super::{Candidate, Search, allowed};
use crate::Outcome;
use crate::Pass;

/// Which passes are asked, the fewest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Asked {
    /// Those that compute nothing again outside of loops, and leave what others look for.
    First,
    /// Those too that compute values again outside of loops.
    Recomputing,
    /// Those too that keep values in the memory of the host.
    Offloading,
    /// All.
    All,
}

impl Asked {
    /// Whether a pass is among them.
    pub(super) fn includes(self, pass: &dyn Pass) -> bool {
        match self {
            Self::First => !pass.recomputes() && !pass.offloads() && !pass.comes_last(),
            Self::Recomputing => !pass.offloads() && !pass.comes_last(),
            Self::Offloading => !pass.comes_last(),
            Self::All => true,
        }
    }
}

impl Search<'_> {
    /// Goes on with values that are computed again outside of loops.
    pub(super) fn descend_with_recomputation(&mut self) -> Result<(), RunError> {
        if !self.fits() && self.allow_recomputation()? { self.descend_repeatedly() } else { Ok(()) }
    }

    /// Goes on with what takes memory of the host, and with what keeps passes from seeing what they look for.
    pub(super) fn descend_with_last(&mut self) -> Result<(), RunError> {
        let is_last = |pass: &dyn Pass| pass.offloads() || pass.comes_last();
        if self.fits() || !self.passes.iter().any(|pass| is_last(pass.as_ref())) {
            return Ok(());
        }
        let is_offered = self.is_offered_by(is_last);
        // What all have to say is said at the end, whether or not there is more to do.
        self.asked = Asked::All;
        self.findings.forget();
        if is_offered { self.descend() } else { Ok(()) }
    }

    /// Lets values be computed again outside of loops from now on. Whether that changes anything.
    pub(super) fn allow_recomputation(&mut self) -> Result<bool, RunError> {
        let changes = self.asked < Asked::Recomputing && self.could_recompute()?;
        self.asked = self.asked.max(Asked::Recomputing);
        if changes {
            self.findings.forget();
        }
        Ok(changes)
    }

    /// Whether there are values that could be computed again in the module as it is now, or behind what the compiler does before all else, such as taking
    /// annotations away.
    pub(super) fn could_recompute(&mut self) -> Result<bool, RunError> {
        let could_here = |search: &mut Self| search.is_offered_by(|pass| pass.recomputes());
        if could_here(self) {
            return Ok(true);
        }
        let start = self.checkpoint();
        self.changes_behind_first()?;
        let could = self.made().count() > start.step_count() && could_here(self);
        self.restore(&start);
        Ok(could)
    }

    /// Whether such passes have rewrites of the module as it is now that the user allows.
    fn is_offered_by(&mut self, which: impl Fn(&dyn Pass) -> bool) -> bool {
        let found = self.ask(|_, pass| which(pass));
        let is_offered = |outcome: &Outcome| matches!(outcome, Outcome::Rewrite { .. });
        found.iter().any(|candidate| {
            is_offered(&candidate.finding.outcome) && allowed(candidate.finding.grade, &self.pass_options)
        })
    }

    /// What passes that compute values again cannot do, where they were not asked because none can do anything.
    pub(in super::super) fn refused_recomputation(&mut self) -> Vec<Candidate> {
        if self.asked >= Asked::Recomputing {
            return Vec::new();
        }
        let mut found = self.ask(|_, pass| pass.recomputes());
        found.retain(|candidate| matches!(candidate.finding.outcome, Outcome::Missed(_)));
        found
    }
}
