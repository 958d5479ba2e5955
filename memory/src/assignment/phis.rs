//! Removal of phis through which only one value can arrive: a tuple element that a loop forwards unchanged is its initial value.
//!
//! Source: `PhiGraph::Optimize` (xla/service/hlo_phi_graph.cc).

use smallvec::SmallVec;

use super::shape_positions::ShapePosition;
use super::values::ValueId;

/// A merge of values at one place.
#[derive(Clone, Debug)]
pub(crate) struct Phi {
    /// Where the values meet.
    pub(crate) place: ShapePosition,
    /// The values that arrive, phis among them.
    pub(crate) inputs: SmallVec<[ValueId; 3]>,
}

/// For each phi the value that takes its place: itself if it must stay. Values below `plain` are no phis.
pub(crate) fn clean_up(plain: usize, phis: &[Phi]) -> Vec<ValueId> {
    let mut graph = Graph::new(plain, phis);
    while graph.round() {}
    (0..phis.len()).map(|phi| graph.resolve(graph.id(phi))).collect()
}

struct Graph<'p> {
    plain: usize,
    phis: &'p [Phi],
    replacement: Vec<ValueId>,
    /// The search that last met each phi, and the round in which a search last met it.
    seen: Vec<u32>,
    checked: Vec<u32>,
    search: u32,
    rounds: u32,
}

impl<'p> Graph<'p> {
    fn new(plain: usize, phis: &'p [Phi]) -> Self {
        let replacement = (0..phis.len()).map(|phi| ValueId((plain + phi) as u32)).collect();
        let unseen = vec![0; phis.len()];
        Self { plain, phis, replacement, seen: unseen.clone(), checked: unseen, search: 0, rounds: 0 }
    }
    fn id(&self, phi: usize) -> ValueId {
        ValueId((self.plain + phi) as u32)
    }
    /// What stands for a value now.
    fn resolve(&self, mut value: ValueId) -> ValueId {
        while let Some(phi) = value.index().checked_sub(self.plain) {
            if self.replacement[phi] == value {
                break;
            }
            value = self.replacement[phi];
        }
        value
    }
    /// One pass over all phis in id order; whether one was replaced.
    fn round(&mut self) -> bool {
        self.rounds += 1;
        let mut changed = false;
        for phi in 0..self.phis.len() {
            if self.replacement[phi] != self.id(phi) {
                continue;
            }
            if let Some(only) = self.only_input(phi) {
                self.replacement[phi] = only;
                changed = true;
            } else if self.checked[phi] != self.rounds {
                changed |= self.close(phi);
            }
        }
        changed
    }
    /// The one input of a phi, not counting the phi itself.
    fn only_input(&self, phi: usize) -> Option<ValueId> {
        let mut inputs = self.phis[phi].inputs.iter().map(|&input| self.resolve(input));
        let itself = self.id(phi);
        let first = inputs.find(|&input| input != itself)?;
        inputs.all(|input| input == first || input == itself).then_some(first)
    }
    /// Replaces all phis that reach `phi` through each other if only one other value arrives among them.
    fn close(&mut self, phi: usize) -> bool {
        self.search += 1;
        let mut met = vec![phi];
        let mut next = 0;
        let mut only = None;
        self.seen[phi] = self.search;
        while let Some(&phi) = met.get(next) {
            next += 1;
            self.checked[phi] = self.rounds;
            for &input in &self.phis[phi].inputs {
                let input = self.resolve(input);
                match input.index().checked_sub(self.plain) {
                    Some(phi) if self.seen[phi] == self.search => {}
                    Some(phi) => {
                        self.seen[phi] = self.search;
                        met.push(phi);
                    }
                    None if only.is_some_and(|only| only != input) => return false,
                    None => only = Some(input),
                }
            }
        }
        let Some(only) = only else { return false };
        for phi in met {
            self.replacement[phi] = only;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values 0..10 are plain, phi `k` is value `10 + k`.
    fn cleaned(inputs: &[&[u32]]) -> Vec<u32> {
        let phi =
            |list: &&[u32]| Phi { place: ShapePosition(0), inputs: list.iter().map(|&value| ValueId(value)).collect() };
        let phis: Vec<Phi> = inputs.iter().map(phi).collect();
        clean_up(10, &phis).into_iter().map(|value| value.0).collect()
    }

    #[test]
    fn a_phi_of_one_value_and_itself_is_that_value() {
        assert_eq!(cleaned(&[&[3, 10], &[10, 3]]), [3, 3]);
    }

    #[test]
    fn phis_that_only_feed_each_other_are_the_one_value_that_enters() {
        assert_eq!(cleaned(&[&[11, 12], &[12, 4], &[10, 11]]), [4, 4, 4]);
    }

    #[test]
    fn two_values_keep_the_phi() {
        assert_eq!(cleaned(&[&[3, 4], &[10, 11]]), [10, 10]);
    }
}
