//! Recordings of the changes that led to the end of a search, and their replay.
//!
//! The search replays its best end where a restart reached nothing better. A bisection (`--opt-bisect-limit`) replays it with another limit on rewrites: a bisection asks
//! for many limits, and a search for each would take as long as the first one.

use hlo_memory::Estimate;

use super::super::trial_record::Tried;
use super::super::{RunError, RunReport};
use super::recompute::Asked;
use super::speed::Stage;
use super::steps::Made;
use super::worth_its_time::TakenBack;
use super::{Checkpoint, Collect, Search};
use crate::Options;

/// The changes of one search in order, before a limit on rewrites is obeyed.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    made: Vec<Made>,
    /// `None` where nothing was searched.
    end: Option<End>,
}

/// What is known behind the last change.
#[derive(Clone, Debug)]
struct End {
    now: Estimate,
    /// The options that passes were given.
    pass_options: Options,
    recompute_large: bool,
    asked: Asked,
    /// What was tried there.
    tried: Vec<Tried>,
    /// Whether a bound stopped the search.
    limited: bool,
    stage: Stage,
    taken_back: Vec<TakenBack>,
}

impl Recording {
    /// How many changes there are.
    pub const fn len(&self) -> usize {
        self.made.len()
    }
    /// Whether nothing was changed.
    pub const fn is_empty(&self) -> bool {
        self.made.is_empty()
    }
    /// The first changes alone; what is known behind them is not recorded.
    pub(super) fn first(&self, count: usize) -> Self {
        Self { made: self.made[..count].to_vec(), end: None }
    }
    /// The changes made since a search was there.
    pub(super) fn since(&self, start: &Checkpoint) -> impl Iterator<Item = &Made> {
        self.made[start.step_count()..].iter()
    }
}

impl Search<'_> {
    /// The end that the search has come to.
    pub(super) fn recorded(&self) -> Recording {
        let end = End {
            now: self.now.clone(),
            pass_options: self.pass_options.clone(),
            recompute_large: self.recompute_large,
            asked: self.asked,
            tried: self.tried_here(),
            limited: self.limited,
            stage: self.stage,
            taken_back: self.taken_back.clone(),
        };
        Recording { made: self.made().cloned().collect(), end: Some(end) }
    }

    /// Makes what another search of the same module made, up to the limit on rewrites. On error the module is as it was at the beginning.
    pub(in crate::manager) fn replay(mut self, recording: &Recording, collect: Collect) -> Result<RunReport, RunError> {
        let start = self.checkpoint();
        let said = self.restore_end(&start, recording).and_then(|()| {
            self.recording = recording.clone();
            self.obey_limit()?;
            self.make_unseen_changes()?;
            self.end_and_say(collect)
        });
        let remarks = self.or_nothing(said)?;
        Ok(self.report(remarks))
    }

    /// Makes the changes again that led to an end, which the search began at `start` or before.
    pub(super) fn restore_end(&mut self, start: &Checkpoint, recording: &Recording) -> Result<(), RunError> {
        self.restore(start);
        for made in recording.since(start) {
            self.put_back([made.clone()])?;
            self.statistics.passes[made.pass].made += 1;
            self.observer.applied(self.steps.len(), &made.rewrite, self.module);
        }
        let Some(end) = recording.end.clone() else { return Ok(()) };
        self.findings.forget();
        (self.now, self.pass_options, self.recompute_large, self.asked) =
            (end.now, end.pass_options, end.recompute_large, end.asked);
        (self.limited, self.stage, self.taken_back) = (end.limited, end.stage, end.taken_back);
        self.tried_again(end.tried);
        self.commit();
        Ok(())
    }

    /// What was tried in the state that the search is in.
    pub(super) fn tried_here(&self) -> Vec<Tried> {
        let state = self.findings.state();
        self.tried.iter().filter(|tried| tried.state == state).cloned().collect()
    }

    /// The search is back where this was tried.
    pub(super) fn tried_again(&mut self, tried: Vec<Tried>) {
        let state = self.findings.state();
        self.tried.extend(tried.into_iter().map(|tried| Tried { state, ..tried }));
    }
}
