//! Ways to compute values again, tried by bisection: what computes more of the same again saves more and takes longer.
//!
//! Of the ways that a pass offers in one computation those are wanted that save most and are not too slow. In order of what they save, all that are too slow come first,
//! and each takes an estimate. So the middle one is tried first; what computes more again than one that is too slow is too slow as well, and what computes less than one
//! that is fast enough saves less.

// Tests: `passes/tests/layers.rs`.

use hlo_ir::ComputationId;
use hlo_memory::Bytes;

use super::{Candidate, Search};
use crate::hash::IndexMap;

/// A candidate at its place in the order.
pub(super) struct Ordered {
    pub(super) candidate: Candidate,
    /// The most that it could save, if that is known.
    pub(super) most: Option<Bytes>,
    /// The pass and the computation it computes values again in, and what all instructions take then, as traffic in bytes.
    work: Option<(Place, f64)>,
}

type Place = (usize, ComputationId);

/// The least work, at each place, that was too slow, and how slow.
#[derive(Default)]
pub(super) struct TooSlow(IndexMap<Place, (f64, f64)>);

impl TooSlow {
    /// Notes that a candidate is too slow.
    pub(super) fn note(&mut self, one: &Ordered, slowdown: f64) {
        if let Some((place, work)) = one.work
            && self.0.get(&place).is_none_or(|&(other, _)| work < other)
        {
            self.0.insert(place, (work, slowdown));
        }
    }

    /// How slow a candidate is at least, if one that works no more is too slow.
    pub(super) fn slowdown_of(&self, one: &Ordered) -> Option<f64> {
        let (place, work) = one.work?;
        self.0.get(&place).filter(|(least, _)| work >= *least).map(|&(_, slowdown)| slowdown)
    }
}

impl Search<'_> {
    /// The candidates in the order in which they are tried: of a long step, those that compute values again in one computation by bisection.
    pub(super) fn bisected(&mut self, candidates: Vec<(Candidate, Option<Bytes>)>, is_long: bool) -> Vec<Ordered> {
        let ordered = candidates.into_iter().map(|(candidate, most)| {
            let parent = self.module.instruction(candidate.finding.instruction).parent;
            let work = if is_long { self.work_with(&candidate) } else { None };
            let work = work.map(|work| ((candidate.pass, parent), work));
            Ordered { candidate, most, work }
        });
        let ordered: Vec<Ordered> = ordered.collect();
        let mut places: IndexMap<Place, Vec<(usize, f64)>> = IndexMap::default();
        for (index, one) in ordered.iter().enumerate() {
            if let Some((place, work)) = one.work {
                places.entry(place).or_default().push((index, work));
            }
        }
        let mut rank: Vec<usize> = (0..ordered.len()).collect();
        for slots in places.into_values() {
            let mut by_work = slots.clone();
            by_work.sort_by(|(_, one), (_, other)| one.total_cmp(other));
            for ((slot, _), middle) in slots.into_iter().zip(middles(by_work.len())) {
                rank[by_work[middle].0] = slot;
            }
        }
        let mut ranked: Vec<(usize, Ordered)> = rank.into_iter().zip(ordered).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, one)| one).collect()
    }
}

/// All numbers below `count`: the middle one, then those in the middle of the rest, and so on.
fn middles(count: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut parts = std::collections::VecDeque::from([(0, count)]);
    while let Some((from, to)) = parts.pop_front() {
        if from < to {
            let middle = usize::midpoint(from, to);
            found.push(middle);
            parts.extend([(from, middle), (middle + 1, to)]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use hlo_ir::Module;
    use hlo_ir::edit::Patch;

    use super::*;
    use crate::{Finding, Grade, Outcome};

    #[test]
    fn what_works_more_than_what_is_too_slow_is_too_slow() {
        let module =
            hlo_ir::text::parse("HloModule m\n\nENTRY e {\n  ROOT a = f32[] parameter(0)\n}\n").expect("legal text");
        let one = |work: f64, pass: usize| Ordered { work: Some(((pass, module.entry()), work)), ..free(&module) };
        let mut too_slow = TooSlow::default();
        too_slow.note(&one(6.0, 0), 1.3);
        too_slow.note(&one(5.0, 0), 1.2);
        too_slow.note(&free(&module), 1.1);
        let slowdowns = [one(4.0, 0), one(5.0, 0), one(7.0, 0), one(7.0, 1), free(&module)];
        assert_eq!(slowdowns.map(|one| too_slow.slowdown_of(&one)), [None, Some(1.2), Some(1.2), None, None]);
    }

    /// A candidate that computes nothing again.
    fn free(module: &Module) -> Ordered {
        let outcome = Outcome::Rewrite { patch: Patch::new(module), note: String::new(), conditions: Vec::new() };
        let instruction = module.computation(module.entry()).root;
        let finding = Finding { instruction, grade: Grade::Bitwise, wasted: Bytes(1), outcome };
        Ordered { candidate: Candidate { pass: 0, finding }, most: None, work: None }
    }

    #[test]
    fn the_middle_comes_first_and_all_come_once() {
        assert_eq!(middles(7), [3, 1, 5, 0, 2, 4, 6]);
        assert_eq!(middles(2), [1, 0]);
        assert_eq!(middles(0), [] as [usize; 0]);
    }
}
