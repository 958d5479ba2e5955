//! The order in which candidates are estimated where one estimate of each takes long.
//!
//! Those that saved most when they were last estimated come first; the rest is left out once it saved less then than the best one does now, because what one step
//! saves, another one seldom saves more of afterwards. Candidates never estimated come in the order of the bytes their pass says they are about, and the rest of
//! that pass is left out once it could not save more by that.

use std::cmp::Reverse;

use crate::hash::IndexMap;
use hlo_ir::InstructionId;
use hlo_memory::Bytes;

use super::Candidate;
use super::trial_cache::label;
use crate::bounds;
use crate::manager::scope::is_large;

/// What candidates saved when they were last tried.
#[derive(Default)]
pub(super) struct PastSavings(IndexMap<Key, Bytes>);

/// What tells a candidate from others in all states of a module: its pass, its instruction, and what is done there.
pub(super) type Key = (usize, InstructionId, String);

impl PastSavings {
    /// Notes what a candidate saves.
    pub(super) fn note(&mut self, candidate: &Candidate, saved: Bytes) {
        self.0.insert(key(candidate), saved);
    }

    /// Whether a candidate saved no more when it was last tried than the best one does now, or is not expected to by their pass.
    pub(super) fn is_outdone(&self, candidate: &Candidate, best: &Candidate, saved: Bytes) -> bool {
        match self.of(candidate) {
            Some(then) => then <= saved,
            None => candidate.pass == best.pass && candidate.finding.wasted <= saved,
        }
    }

    fn of(&self, candidate: &Candidate) -> Option<Bytes> {
        self.0.get(&key(candidate)).copied()
    }

    /// The candidates in the order in which they are tried on a module of so many instructions, and whether the rest may be left out.
    pub(super) fn order<T>(
        &self,
        mut candidates: Vec<(Candidate, T)>,
        instructions: usize,
    ) -> (Vec<(Candidate, T)>, bool) {
        let count = candidates.len();
        // Above another bound, candidates are judged by what they touch.
        let lazy = is_long_step(count, instructions) && !is_large(count, instructions);
        if lazy {
            candidates.sort_by_cached_key(|(candidate, _)| match self.of(candidate) {
                None => (false, Reverse(candidate.finding.wasted)),
                Some(then) => (true, Reverse(then)),
            });
        }
        (candidates, lazy)
    }
}

/// Whether the estimates of so many candidates of a module of so many instructions take long.
pub(super) fn is_long_step(candidates: usize, instructions: usize) -> bool {
    candidates.saturating_mul(instructions) > bounds::COMPARISON_WORK / bounds::MAX_ATTEMPTS
}

pub(super) fn key(candidate: &Candidate) -> Key {
    (candidate.pass, candidate.finding.instruction, label(&candidate.finding.outcome).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Finding, Grade, Outcome, Reason};

    /// Candidates at the instructions of a module, one each.
    fn candidates() -> Vec<(Candidate, ())> {
        let text = "HloModule m\n\nENTRY %e {\n  %a = f32[] parameter(0)\n  %b = f32[] negate(%a)\n  ROOT %c = f32[] negate(%b)\n}\n";
        let module = hlo_ir::text::parse(text).expect("legal text");
        let at = |instruction| {
            let outcome = Outcome::Missed(Reason { code: "none", message: String::new() });
            let finding = Finding { instruction, grade: Grade::Bitwise, wasted: Bytes(4), outcome };
            (Candidate { pass: 0, finding }, ())
        };
        module.live_instructions().map(|(id, _)| at(id)).collect()
    }

    #[test]
    fn what_saved_most_comes_first_behind_what_was_never_tried() {
        let mut savings = PastSavings::default();
        let all = candidates();
        let ids: Vec<_> = all.iter().map(|(candidate, ())| candidate.finding.instruction).collect();
        savings.note(&all[0].0, Bytes(5));
        savings.note(&all[1].0, Bytes(6));
        let order = |instructions| {
            let (ordered, lazy) = savings.order(all.clone(), instructions);
            (ordered.iter().map(|(candidate, ())| candidate.finding.instruction).collect::<Vec<_>>(), lazy)
        };
        assert_eq!(order(bounds::COMPARISON_WORK / 2), (vec![ids[2], ids[1], ids[0]], true));
        assert_eq!(order(3), (ids.clone(), false), "all are tried in short steps");
        assert_eq!(order(1_000_000), (ids.clone(), false), "long ones have bounds");
        let outdone = |candidate: usize, saved| savings.is_outdone(&all[candidate].0, &all[0].0, Bytes(saved));
        assert!(outdone(1, 6) && !outdone(1, 5));
        assert!(outdone(2, 4) && !outdone(2, 3), "never tried: its pass reckons four");
        let of_another = Candidate { pass: 1, ..all[2].0.clone() };
        assert!(!savings.is_outdone(&of_another, &all[0].0, Bytes(4)), "passes do not reckon alike");
    }
}
