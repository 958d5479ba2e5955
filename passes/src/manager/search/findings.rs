//! What the passes have to say about the module as it is now.

use std::cell::OnceCell;

use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::hash;

use super::super::known_findings::Question;
use super::{Candidate, Search, allowed, trial_cache};
use crate::loops::RowLoops;
use crate::{Context, Finding, Outcome, Pass, PassKind, small_programs};

impl Search<'_> {
    /// Rewrites of all passes of one kind that the options allow, in pass order.
    pub(super) fn gather(&mut self, kind: PassKind) -> Vec<Candidate> {
        self.findings(kind)
            .into_iter()
            .filter(|candidate| {
                matches!(candidate.finding.outcome, Outcome::Rewrite { .. })
                    && allowed(candidate.finding.grade, &self.pass_options)
            })
            .collect()
    }

    /// Everything that the passes of one kind have to say about the module as it is now.
    pub(in super::super) fn findings(&mut self, kind: PassKind) -> Vec<Candidate> {
        if let Some(known) = self.findings.recall(kind) {
            return known;
        }
        if self.searches_left == 0 {
            self.limited = true;
            return Vec::new();
        }
        self.searches_left -= 1;
        self.searches += 1;
        let mut found = self.ask_kind(kind);
        if kind == PassKind::Rewrite && (self.time_policy.is_least() || self.takes_most()) {
            let slow = found.iter().filter_map(|candidate| Some((candidate.pass, candidate.patch()?.clone())));
            let slow: Vec<(usize, Patch)> = slow.collect();
            let fast = self.offered_without_budget();
            found.extend(fast.into_iter().filter(|candidate| !trial_cache::is_known(&slow, candidate)));
        }
        self.findings.note(kind, &found);
        found
    }

    /// What the passes of a kind that may be asked have to say.
    fn ask_kind(&mut self, kind: PassKind) -> Vec<Candidate> {
        let asked = self.asked;
        self.ask(|_, pass| pass.kind() == kind && asked.includes(pass))
    }

    /// Rewrites that passes offer where time counts: one of them may bring the peak into a budget too.
    fn offered_without_budget(&mut self) -> Vec<Candidate> {
        let budget = self.pass_options.budget.take();
        let mut found = self.ask_kind(PassKind::Rewrite);
        self.pass_options.budget = budget;
        found.retain(|candidate| candidate.patch().is_some());
        found
    }

    /// What some of the passes have to say about the module as it is now.
    pub(super) fn ask(&mut self, is_asked: impl Fn(usize, &dyn Pass) -> bool) -> Vec<Candidate> {
        let passes = self.passes.iter().enumerate();
        let asked: Vec<usize> =
            passes.filter(|(index, pass)| is_asked(*index, pass.as_ref())).map(|(index, _)| index).collect();
        let form = hash::named_hash(self.module);
        let before = self.before.total_with_scratch();
        let allowed = (&self.pass_options, self.recompute_large);
        let question = Question::of((self.module, form), &self.origins, (&self.now, before), allowed);
        let mut answers = self.estimator.findings.take(question);
        let (known, new): (Vec<usize>, Vec<usize>) = asked.iter().partition(|&&pass| answers.has(pass));
        for pass in known {
            self.statistics.passes[pass].searches.count += 1;
        }
        if !new.is_empty() {
            self.look(form, &new, |index, pass, context| {
                answers.note(index, small_programs::withhold_costly(pass, context, pass.find(context)));
            });
        }
        let mut found = Vec::new();
        for pass in asked {
            let findings = answers.of(pass);
            self.statistics.passes[pass].findings += findings.len();
            found.extend(findings);
        }
        self.estimator.findings.put(answers);
        found
    }

    /// Parts of the rewrites that a pass offers, the least first.
    pub(super) fn parts(&mut self, pass: usize) -> Vec<Vec<Candidate>> {
        let mut found = Vec::new();
        let form = hash::named_hash(self.module);
        self.look(form, &[pass], |_, pass, context| found = pass.find_parts(context));
        let may_be = |candidate: &Candidate| allowed(candidate.finding.grade, &self.pass_options);
        let of =
            |part: Vec<Finding>| part.into_iter().map(|finding| Candidate { pass, finding }).filter(may_be).collect();
        found.into_iter().map(of).collect()
    }

    /// Lets some of the passes look at the module, which has this hash.
    fn look(&mut self, form: u64, asked: &[usize], mut ask: impl FnMut(usize, &dyn Pass, &Context<'_>)) {
        let users = Users::of(self.module);
        let libraries = self.libraries.of(self.module, form);
        let asks_for_stored = asked.iter().any(|&pass| self.passes[pass].recomputes() || self.passes[pass].offloads());
        let stored = asks_for_stored.then(|| self.estimator.stored(self.module)).flatten();
        let stored = stored.map_or_else(OnceCell::new, OnceCell::from);
        let context = Context {
            module: self.module,
            users: &users,
            estimate: &self.now,
            before: self.before.total_with_scratch(),
            recompute_large: self.recompute_large,
            options: &self.pass_options,
            origins: Some(&self.origins),
            libraries,
            partitioned: OnceCell::new(),
            stored,
            row_loops: RowLoops::with(&self.estimator.row_loops),
        };
        for (&index, pass) in asked.iter().map(|index| (index, &self.passes[*index])) {
            self.observer.working(&format!("{} looks for waste", pass.name()));
            self.statistics.passes[index].searches.measure(|| ask(index, pass.as_ref(), &context));
        }
        let libraries = context.libraries;
        self.libraries.note(self.module, form, libraries);
    }
}
