//! What the passes have to say about the module as it is now.

use std::cell::OnceCell;

use hlo_ir::graph::Users;

use super::{Candidate, Search, allowed};
use crate::{Context, Outcome, Pass, PassKind, small_programs};

impl Search<'_> {
    /// Rewrites of all passes of one kind that the options allow, in pass order.
    pub(super) fn gather(&mut self, kind: PassKind) -> Vec<Candidate> {
        self.findings(kind)
            .into_iter()
            .filter(|candidate| {
                matches!(candidate.finding.outcome, Outcome::Rewrite { .. })
                    && allowed(candidate.finding.grade, &self.told)
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
        let recomputes = self.recomputes;
        let found = self.ask(|_, pass| pass.kind() == kind && (recomputes || !pass.recomputes()));
        self.findings.note(kind, &found);
        found
    }

    /// What some of the passes have to say about the module as it is now.
    pub(super) fn ask(&mut self, is_asked: impl Fn(usize, &dyn Pass) -> bool) -> Vec<Candidate> {
        let users = Users::of(self.module);
        let (form, libraries) = self.libraries.of(self.module);
        let context = Context {
            module: self.module,
            users: &users,
            estimate: &self.now,
            before: self.before.total_with_scratch(),
            repeats: self.repeats,
            options: &self.told,
            origins: Some(&self.origins),
            libraries,
            partitioned: OnceCell::new(),
        };
        let mut found = Vec::new();
        for (index, pass) in self.passes.iter().enumerate().filter(|(index, pass)| is_asked(*index, pass.as_ref())) {
            self.observer.working(&format!("{} looks for waste", pass.name()));
            let statistics = &mut self.statistics.passes[index];
            let findings = statistics.searches.measure(|| pass.find(&context));
            let findings = small_programs::kept_fast(pass.as_ref(), &context, findings);
            statistics.findings += findings.len();
            found.extend(findings.into_iter().map(|finding| Candidate { pass: index, finding }));
        }
        let libraries = context.libraries;
        self.libraries.note(self.module, form, libraries);
        found
    }
}
