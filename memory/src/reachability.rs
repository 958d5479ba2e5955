//! Which node of an acyclic graph needs which, for graphs too large for a table of all pairs.
//!
//! Every node gets, for a few depth-first walks, the number at which a walk left it and the lowest number of anything it reaches. Whatever
//! a node reaches has its numbers within the node's own range in every walk; so most questions with the answer no are answered from the
//! numbers alone, and a search for the others stays near the path it looks for. Source: GRAIL (Yildirim, Chaoji, Zaki, VLDB 2010).

use std::cell::RefCell;

/// Walks whose numbers are kept: each takes the nodes a node needs in another order.
const WALKS: usize = 3;

/// What one walk says about one node.
#[derive(Clone, Copy, Debug, Default)]
struct Label {
    /// Number at which the walk left the node.
    left: u32,
    /// Lowest number of what the node reaches.
    low: u32,
    /// Lowest number of what this walk first met below the node: the node reaches all from there to its own number.
    first: u32,
}

/// The nodes 0, 1, ... with what each of them needs directly.
#[derive(Debug)]
pub(crate) struct Reachability {
    start: Vec<u32>,
    needs: Vec<u32>,
    labels: Vec<[Label; WALKS]>,
    search: RefCell<Search>,
}

/// Memory of the last search, so that the next one need not clear it.
#[derive(Debug, Default)]
struct Search {
    seen: Vec<u32>,
    round: u32,
    stack: Vec<u32>,
}

impl Reachability {
    /// Analyses `count` nodes; `needs(node)` appends what a node needs, all of it smaller than the node.
    pub(crate) fn of(count: usize, mut append_needs: impl FnMut(usize, &mut Vec<u32>)) -> Self {
        let (mut start, mut needs) = (Vec::with_capacity(count + 1), Vec::new());
        for node in 0..count {
            start.push(needs.len() as u32);
            append_needs(node, &mut needs);
        }
        start.push(needs.len() as u32);
        let search = RefCell::new(Search { seen: vec![0; count], ..Search::default() });
        let mut reach = Self { start, needs, labels: vec![[Label::default(); WALKS]; count], search };
        (0..WALKS).for_each(|walk| reach.walk(walk));
        reach
    }

    fn needs(&self, node: u32) -> &[u32] {
        &self.needs[self.start[node as usize] as usize..self.start[node as usize + 1] as usize]
    }

    /// One depth-first walk from the last node to the first.
    fn walk(&mut self, walk: usize) {
        const NEW: u32 = u32::MAX;
        let count = self.labels.len();
        let mut met = vec![NEW; count];
        let (mut left, mut stack) = (0, Vec::new());
        for root in (0..count as u32).rev() {
            if met[root as usize] != NEW {
                continue;
            }
            met[root as usize] = left;
            stack.push((root, 0));
            while let Some((node, at)) = stack.last_mut() {
                let (node, needs) = (*node, self.needs(*node));
                let Some(&next) = needs.get(turn(*at, needs.len(), walk, node)) else {
                    stack.pop();
                    self.leave(node, walk, met[node as usize], left);
                    left += 1;
                    continue;
                };
                *at += 1;
                if met[next as usize] == NEW {
                    met[next as usize] = left;
                    stack.push((next, 0));
                }
            }
        }
    }

    fn leave(&mut self, node: u32, walk: usize, first: u32, left: u32) {
        let low = self.needs(node).iter().map(|&next| self.labels[next as usize][walk].low).min();
        let low = low.unwrap_or(left).min(left);
        self.labels[node as usize][walk] = Label { left, low, first };
    }

    /// Whether `node` needs `on`, directly or through others. No node needs itself.
    pub(crate) fn needs_to_run(&self, node: usize, on: usize) -> bool {
        if on >= node || !self.may_reach(node as u32, on as u32) {
            return false;
        }
        let mut search = self.search.borrow_mut();
        let Search { seen, round, stack } = &mut *search;
        *round += 1;
        stack.clear();
        stack.push(node as u32);
        while let Some(at) = stack.pop() {
            if self.met_below(at, on as u32) {
                return true;
            }
            for &next in self.needs(at) {
                if next >= on as u32 && seen[next as usize] != *round && self.may_reach(next, on as u32) {
                    seen[next as usize] = *round;
                    stack.push(next);
                }
            }
        }
        false
    }

    /// Whether the numbers allow that `node` reaches `on`.
    fn may_reach(&self, node: u32, on: u32) -> bool {
        let (outer, inner) = (&self.labels[node as usize], &self.labels[on as usize]);
        (0..WALKS).all(|walk| outer[walk].low <= inner[walk].low && inner[walk].left <= outer[walk].left)
    }

    /// Whether a walk met `on` for the first time below `node`.
    fn met_below(&self, node: u32, on: u32) -> bool {
        let (outer, inner) = (&self.labels[node as usize], &self.labels[on as usize]);
        (0..WALKS).any(|walk| outer[walk].first <= inner[walk].left && inner[walk].left <= outer[walk].left)
    }
}

/// Which of `count` neighbours a walk takes at its step `at`; beyond the last, none.
fn turn(at: usize, count: usize, walk: usize, node: u32) -> usize {
    match walk {
        _ if at >= count => count,
        0 => at,
        1 => count - 1 - at,
        // Begins somewhere in the middle, at another place for each node.
        _ => (at + (node.wrapping_mul(2_654_435_761) >> 16) as usize) % count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph in which each node needs up to three earlier ones, drawn by a small generator.
    fn random(count: usize, mut state: u64, near: u64) -> Vec<Vec<u32>> {
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let mut needs = vec![Vec::new()];
        for node in 1..count as u64 {
            let some = draw() % 4;
            needs.push((0..some).map(|_| (node - 1 - draw() % node.min(near)) as u32).collect());
        }
        needs
    }

    #[test]
    fn answers_are_those_of_a_full_search() {
        for seed in 0..40 {
            let graph = random(60, seed, 5 + seed);
            let reach = Reachability::of(graph.len(), |node, needs| needs.extend(&graph[node]));
            for node in 0..graph.len() {
                let mut below = vec![false; graph.len()];
                let mut stack = graph[node].clone();
                while let Some(at) = stack.pop() {
                    if !std::mem::replace(&mut below[at as usize], true) {
                        stack.extend(&graph[at as usize]);
                    }
                }
                for (on, &expected) in below.iter().enumerate() {
                    assert_eq!(reach.needs_to_run(node, on), expected, "seed {seed}: {node} on {on}");
                }
            }
        }
    }
}
