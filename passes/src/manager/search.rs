//! The search: which rewrites are tried, which are taken, which are put back.

// Tests: `tests/freedom.rs`.

mod advice;
mod best;
mod bisection;
mod bound_order;
mod candidate_order;
mod companions;
mod enabling;
mod equal_rewrites;
mod findings;
mod freedom;
mod just_enough;
mod libraries;
mod limit;
mod measure;
mod near_budget;
mod pairs;
mod recompute;
mod replay;
mod representatives;
mod restarts;
mod speed;
mod steps;
mod time;
mod trial_cache;
mod worth_its_time;

use std::time::Instant;

use crate::hash::IndexSet;
use hlo_ir::edit::{Patch, Undo};
use hlo_ir::{InstructionId, Module, verify};
use hlo_memory::{Bytes, Estimate, EstimateError, Estimator as _, Model, Target};

use super::candidate::{Candidate, allowed};
use super::findings_cache::FindingsCache;
use super::memoized::{Answer, Memoized};
use super::scope;
use super::trial::{self, Claim, Score};
use super::trial_record::{Trial, Tried};
use super::watch::{Observer, Statistics};
use super::{Remark, Rewrite, RunError, RunReport};
use crate::objective::{MATTERS, NEGLIGIBLE};
use crate::origins::Origins;
use crate::{Grade, Options, Outcome, Pass, PassKind, bounds};
use candidate_order::PastSavings;
use freedom::{Freedom, TimePolicy};
use libraries::KnownLibraries;
use near_budget::NearBudget;
use recompute::Asked;
pub use replay::Recording;
use restarts::{Checkpoint, Restarts};
use speed::Stage;
use steps::{Made, Step};
use time::Accepted;
pub(super) use worth_its_time::TakenBack;

/// A rewrite that was made and is kept out of the result by [`Options::bisect_limit`].
pub(super) struct LeftOut {
    pub(super) number: usize,
    pub(super) rewrite: Rewrite,
    /// Its instruction in the input.
    pub(super) origin: InstructionId,
}

/// What is to be said of the end of a search.
pub(super) type Collect = fn(&mut Search<'_>) -> Vec<Remark>;

/// The state of one run.
pub(super) struct Search<'a> {
    pub(super) module: &'a mut Module,
    pub(super) passes: &'a [Box<dyn Pass>],
    pub(super) options: &'a Options,
    /// Those that passes are given: the freedom that is granted at a time.
    pub(super) pass_options: Options,
    /// Whether rewrites may recompute large values: all rewrites that do not were found.
    pub(super) recompute_large: bool,
    /// Which passes are asked.
    asked: Asked,
    /// How much run time the budget is worth at a time.
    time_policy: TimePolicy,
    pub(super) estimator: &'a Memoized<'a>,
    observer: &'a mut dyn Observer,
    statistics: Statistics,
    start: Instant,
    pub(super) origins: Origins,
    before: Estimate,
    /// Seconds of a run of the input, where something is timed.
    seconds_before: Option<f64>,
    /// The lowest end so far, where it takes longer than the input, on devices.
    accepted: Option<Accepted>,
    /// What misses the budget by the error margin alone.
    near_budget: NearBudget,
    /// Memory of the module as it is now.
    pub(super) now: Estimate,
    steps: Vec<Step>,
    /// The first so many steps stay: the total fell after them.
    committed: usize,
    /// Memory after the committed steps.
    committed_estimate: Estimate,
    trials_left: usize,
    /// How many there were at the beginning.
    trials: usize,
    /// What the passes said about the states that a step back may lead to.
    findings: FindingsCache,
    /// Changes measured on the module as it was when [`Self::best`] looked last, by pass.
    measured: Vec<(usize, Patch)>,
    /// What was tried on the module in its states since the last committed step, and what came of it.
    tried: Vec<Tried>,
    /// The state after the last committed step.
    committed_state: u64,
    /// Whether a bound stopped the search.
    pub(super) limited: bool,
    /// What the user's limit on rewrites took away again.
    pub(super) left_out: Vec<LeftOut>,
    /// Rewrites that were made, and took a larger part of the time than they saved of the memory.
    pub(super) taken_back: Vec<TakenBack>,
    /// Ways that were not taken.
    restarts: Restarts,
    savings: PastSavings,
    /// Enabling changes that led to nothing better than what was found without them.
    without_gain: IndexSet<candidate_order::Key>,
    libraries: KnownLibraries,
    /// Searches for waste so far.
    searches: usize,
    /// Searches for waste that are left.
    searches_left: usize,
    /// Instructions of the input, those of called computations once for each call: what it grows to where calls are inlined.
    inlined_size: usize,
    /// How far the changes for speed are.
    stage: Stage,
    /// What the search made before the user's limit was obeyed.
    recording: Recording,
}

impl<'a> Search<'a> {
    /// Estimates the input.
    pub(super) fn begin(
        module: &'a mut Module,
        passes: &'a [Box<dyn Pass>],
        options: &'a Options,
        estimator: &'a Memoized<'a>,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, RunError> {
        let start = Instant::now();
        let size = module.live_instructions().count().max(1);
        let mut statistics = Statistics::of(passes.iter().map(|pass| pass.name()), size);
        observer.begun(module);
        observer.working("estimating the input");
        let before = statistics.estimates.measure(|| estimator.estimate(module))?;
        let is_timed = options.target != Target::Cpu || passes.iter().any(|pass| pass.is_timed());
        let seconds_before = (is_timed && !module.is_scheduled()).then(|| estimator.seconds(module)).flatten();
        let trials = (bounds::WORK / size).max(1);
        Ok(Self {
            origins: Origins::new(module),
            inlined_size: scope::inlined_size(module),
            module,
            passes,
            options,
            pass_options: Freedom::full(options, false).of(options),
            recompute_large: false,
            asked: Asked::First,
            time_policy: TimePolicy::NoTime,
            estimator,
            observer,
            statistics,
            start,
            now: before.clone(),
            committed_estimate: before.clone(),
            before,
            seconds_before,
            accepted: None,
            near_budget: NearBudget::default(),
            steps: Vec::new(),
            committed: 0,
            trials_left: trials,
            trials,
            findings: FindingsCache::default(),
            measured: Vec::new(),
            tried: Vec::new(),
            committed_state: 0,
            limited: false,
            left_out: Vec::new(),
            taken_back: Vec::new(),
            restarts: Restarts::default(),
            savings: PastSavings::default(),
            without_gain: IndexSet::default(),
            libraries: KnownLibraries::default(),
            searches: 0,
            searches_left: usize::MAX,
            stage: Stage::Open,
            recording: Recording::default(),
        })
    }

    /// Searches of the passes may look at so many instructions together.
    pub(super) fn searched_at_most(&mut self, instructions: usize) {
        self.searches_left = instructions / self.inlined_size.max(1);
    }

    /// Searches to the end. On error the module is as it was at the beginning.
    pub(super) fn finish(mut self, collect: Collect) -> Result<RunReport, RunError> {
        let said = self.search_and_say(collect);
        let remarks = self.or_nothing(said)?;
        let remarks = self.with_advice(remarks);
        Ok(self.report(remarks))
    }

    /// On error the module becomes what it was at the beginning.
    fn or_nothing<T>(&mut self, result: Result<T, RunError>) -> Result<T, RunError> {
        if result.is_err() {
            self.roll_back(0);
        }
        result
    }

    fn report(self, remarks: Vec<Remark>) -> RunReport {
        let mut statistics = self.statistics;
        statistics.instructions.1 = self.module.live_instructions().count();
        statistics.total = self.start.elapsed();
        let is_timed = self.options.target != Target::Cpu && !self.steps.is_empty();
        let slowdown = if is_timed { time::slowdown(self.estimator, self.module, self.seconds_before) } else { None };
        let rewrites = self.steps.into_iter().map(|step| step.made.rewrite).collect();
        let recording = self.recording;
        RunReport { before: self.before, after: self.now, slowdown, rewrites, remarks, statistics, recording }
    }

    /// Searches, obeys the user's limit, and says what is to be said of the end.
    fn search_and_say(&mut self, collect: Collect) -> Result<Vec<Remark>, RunError> {
        self.search()?;
        self.settle_speed()?;
        self.recording = self.recorded();
        self.obey_limit()?;
        self.end_and_say(collect)
    }

    /// Says what is to be said of the end.
    fn end_and_say(&mut self, collect: Collect) -> Result<Vec<Remark>, RunError> {
        self.said_without_speed(|search| {
            search.end()?;
            Ok(collect(search))
        })
    }

    /// Searches, and lets what was made run faster.
    fn search(&mut self) -> Result<(), RunError> {
        self.prepare()?;
        if self.fits() {
            return self.speed_up().map(|_| ());
        }
        self.descend_freely()
    }

    /// Searches once with this much freedom: never again from a step that was not taken.
    fn search_once(&mut self, freedom: Freedom) -> Result<(), RunError> {
        self.prepare()?;
        self.allow(freedom);
        let start = self.checkpoint();
        self.descend()?;
        if self.allow_large_recomputation() {
            self.descend()?;
        }
        if self.allow_recomputation()? {
            self.descend()?;
        }
        self.descend_with_last()?;
        self.keep_what_counts(&start);
        self.stage = Stage::Settled;
        self.speed_up().map(|_| ())
    }

    /// Writes the module in the form that is searched.
    fn prepare(&mut self) -> Result<(), RunError> {
        self.change_form()?;
        if self.fits() { Ok(()) } else { self.clean_up() }
    }

    /// Measures what the remarks speak of, and verifies the result.
    fn end(&mut self) -> Result<(), RunError> {
        self.settle()?;
        match verify::verify(self.module).into_iter().next() {
            Some(violation) if !self.steps.is_empty() => {
                Err(RunError::Broken { pass: "the pipeline", message: violation.message })
            }
            _ => Ok(()),
        }
    }

    /// Writes the module in the form that the user asked for, whatever that form needs; what follows looks at that form.
    fn change_form(&mut self) -> Result<(), RunError> {
        while let Some(candidate) = self.gather(PassKind::Form).into_iter().next() {
            if self.steps.len() >= bounds::STEPS || !self.take(candidate)? {
                break;
            }
            self.commit();
        }
        Ok(())
    }

    /// Takes one rewrite after the other until none is left or the peak fits; only committed steps stay.
    fn descend(&mut self) -> Result<(), RunError> {
        while !self.fits() && self.room() >= self.min_step_saving().max(Bytes(1)) {
            let Some(candidate) = self.next_step()? else { break };
            self.take_with_equal_rewrites(candidate)?;
        }
        self.roll_back(self.committed);
        self.now = self.committed_estimate.clone();
        Ok(())
    }

    /// What lies above the floor: the most that all rewrites together can save.
    fn room(&self) -> Bytes {
        self.now.total_with_scratch() - self.now.floor
    }

    /// Whether XLA's own figure rises above that of the input, and above what it is by now, for less than it is worth.
    pub(super) fn rises(&self, estimate: &Estimate) -> bool {
        estimate.total > self.committed_estimate.total && trial::rises(estimate, &self.before)
    }

    /// The score of the module in a form that was estimated: what counts lies within a twentieth of the peak, since less is not worth several steps.
    fn score(&self, estimate: &Estimate) -> Score {
        let peak = self.committed_estimate.timeline.iter().max().copied().unwrap_or_default();
        let least = self.min_step_saving().max(Bytes(peak.get() / MATTERS)).max(Bytes(1));
        Score::of(estimate, self.rises(estimate), peak - least)
    }

    /// XLA's figure for the input, in bytes.
    pub(super) fn input_total(&self) -> Bytes {
        self.before.total
    }

    /// Whether the user named a budget and the peak is within it, with all that XLA may need beyond the estimate, unless a compiler judges that.
    pub(super) fn fits(&self) -> bool {
        self.fits_in(&self.now)
    }

    fn fits_in(&self, estimate: &Estimate) -> bool {
        self.options.goal().is_some_and(|goal| self.options.peak(estimate) <= goal)
    }

    /// The smallest saving of one step that counts: what the user says, and where the model is rough no less than a hundredth.
    pub(super) fn min_step_saving(&self) -> Bytes {
        let now = &self.committed_estimate;
        let rough = Bytes(if now.model == Model::Rough { now.total_with_scratch().get() / NEGLIGIBLE } else { 0 });
        self.options.min_saving.max(rough)
    }

    /// The smallest saving of all steps together that counts where a search began: where the model is rough no less than its errors can be.
    fn least_of_all(&self, start: &Estimate) -> Bytes {
        match (start.model, self.options.target) {
            // XLA:TPU moves buffers out of its main memory, and fuses most by rules of its own.
            (Model::Rough, Target::Tpu) => {
                Bytes((start.total_with_scratch().get() / MATTERS).max(start.temporaries.get() / 3))
            }
            (Model::Rough, _) => Bytes(start.total_with_scratch().get() / MATTERS),
            _ => Bytes::ZERO,
        }
    }

    /// Puts back what was made since, if all of it saves less than the model of memory may be off.
    fn keep_what_counts(&mut self, start: &Checkpoint) {
        let least = self.least_of_all(start.estimate());
        if !self.fits() && self.now.total_with_scratch() + least > start.total_with_scratch() {
            self.restore(start);
        }
    }

    /// What a step may raise the total by that lowers what lies at the peak in other places only: where several hold as much, each must be changed before the
    /// peak falls. What a loop adds for its counter and its blocks is negligible. Such steps are put back unless the peak falls.
    fn tentative_rise(&self) -> Bytes {
        let is_short = self.is_small() && self.steps.len() < self.committed + bounds::MAX_ATTEMPTS;
        Bytes(if is_short { self.now.total_with_scratch().get() / NEGLIGIBLE } else { 0 })
    }

    /// Memory with the candidate applied, as far as it is not `known`; the module is left as it is. `None` if there is no figure.
    fn try_out(&mut self, candidate: &Candidate, known: Option<Answer>) -> Result<Option<Estimate>, RunError> {
        let (Outcome::Rewrite { patch, .. } | Outcome::Withheld { patch, .. }) = &candidate.finding.outcome else {
            return Ok(None);
        };
        if self.trials_left == 0 {
            self.limited = true;
            return Ok(None);
        }
        self.trials_left -= 1;
        self.tell_of_trial(candidate);
        let claim = self.claim(candidate);
        let statistics = &mut self.statistics;
        statistics.passes[candidate.pass].tried += 1;
        let estimate = match known {
            Some(known) if !trial::is_checked(self.options) => {
                statistics.patches.count += 1;
                self.judged(|_| known)
            }
            known => {
                let apply = || trial::apply(self.module, claim, patch.clone(), self.options, self.estimator);
                let undo = statistics.patches.measure(apply)?;
                let estimate = self.measure();
                undo.revert(self.module);
                let is_of_this = known.is_none_or(|known| self.comparable(known) == estimate);
                debug_assert!(is_of_this, "what was estimated ahead is another candidate's");
                estimate
            }
        };
        let outcome = match &estimate {
            Ok(estimate) if estimate.total_with_scratch() < self.now.total_with_scratch() && self.rises(estimate) => {
                Trial::Rises(estimate.total)
            }
            Ok(estimate) => Trial::Total(estimate.total_with_scratch()),
            Err(error) => Trial::Failed(error.to_string()),
        };
        self.note(candidate, outcome);
        Ok(estimate.ok())
    }

    fn tell_of_trial(&mut self, candidate: &Candidate) {
        let name = &self.module.instruction(self.origins.of(candidate.finding.instruction)).name;
        let pass = self.passes[candidate.pass].name();
        self.observer.working(&format!("{} rewrites made, trying {pass} {name}", self.steps.len()));
    }

    /// Applies the candidate for good. `false`, and nothing changed, if the result has no estimate.
    fn take(&mut self, candidate: Candidate) -> Result<bool, RunError> {
        self.take_if(candidate, |_, _| true)
    }

    /// The same if the result is wanted.
    fn take_if(
        &mut self,
        candidate: Candidate,
        is_wanted: impl FnOnce(&Self, &Estimate) -> bool,
    ) -> Result<bool, RunError> {
        let claim = self.claim(&candidate);
        let again = candidate.clone();
        let mut rewrite = self.rewrite_of(&candidate, claim);
        let Outcome::Rewrite { patch, .. } = candidate.finding.outcome else { return Ok(false) };
        let Some((undo, estimate)) = self.apply_and_estimate(claim, patch, rewrite.grade)? else {
            return Ok(false);
        };
        if !is_wanted(self, &estimate) {
            undo.revert(self.module);
            self.origins.truncate(self.module.instruction_count());
            return Ok(false);
        }
        rewrite.saved = self.now.total_with_scratch() - estimate.total_with_scratch();
        rewrite.taken = estimate.total_with_scratch() - self.now.total_with_scratch();
        self.now = estimate;
        self.observer.applied(self.steps.len() + 1, &rewrite, self.module);
        self.statistics.passes[candidate.pass].made += 1;
        let before = self.findings.step();
        let (pass, instruction) = (candidate.pass, claim.instruction);
        let made = Made { rewrite, pass, instruction, candidate: again };
        self.steps.push(Step { undo, before, made });
        let least = self.min_step_saving().max(Bytes(1));
        let gained =
            self.now.total_with_scratch() + least <= self.committed_estimate.total_with_scratch() || self.fits();
        if claim.kind == PassKind::Speed || (claim.kind == PassKind::Rewrite && gained && !self.rises(&self.now)) {
            self.commit();
            self.note_near_budget();
        }
        Ok(true)
    }

    /// Applies a patch and estimates the result.
    fn apply_and_estimate(
        &mut self,
        claim: Claim,
        patch: Patch,
        grade: Grade,
    ) -> Result<Option<(Undo, Estimate)>, RunError> {
        let origins = patch.clone();
        let undo = self
            .statistics
            .patches
            .measure(|| trial::apply(self.module, claim, patch, self.options, self.estimator))?;
        let estimate = match claim.kind {
            // It is not expected to change anything; what follows is measured.
            PassKind::Enabling => Ok(self.now.clone()),
            PassKind::Form => Ok(self.measure().unwrap_or_else(|error| unknown(&self.now, &error))),
            _ => self.measure(),
        };
        let Ok(estimate) = estimate else {
            undo.revert(self.module);
            return Ok(None);
        };
        self.origins.extend(&origins, claim.instruction, grade.is_inexact());
        Ok(Some((undo, estimate)))
    }

    /// Applies what the clean-up passes find as long as the total does not rise.
    pub(super) fn clean_up(&mut self) -> Result<(), RunError> {
        let mut refused = 0;
        while let Some(candidate) = self.gather(PassKind::CleanUp).into_iter().nth(refused) {
            if self.steps.len() >= bounds::STEPS || self.trials_left == 0 {
                self.limited = true;
                break;
            }
            self.trials_left -= 1;
            let (taken, estimate) = (self.steps.len(), self.now.clone());
            if !self.take(candidate)? {
                refused += 1;
            } else if self.now.total_with_scratch() > estimate.total_with_scratch() {
                self.roll_back(taken);
                self.now = estimate;
                refused += 1;
            } else {
                self.commit();
            }
        }
        Ok(())
    }

    /// Tries what is still on offer, and what is not allowed, so that the remarks speak of the final module and of measured bytes.
    fn settle(&mut self) -> Result<(), RunError> {
        if self.fits() || self.is_cut_short() {
            // What is still on offer was not wanted; there is nothing to measure.
            return Ok(());
        }
        let mut findings = self.findings(PassKind::Rewrite);
        findings.retain(|candidate| self.trial(candidate).is_none());
        let room = self.room();
        if room < self.min_step_saving() {
            for candidate in &findings {
                self.pass_over(candidate, room);
            }
            return Ok(());
        }
        for (candidate, most) in self.by_bound(findings) {
            match most {
                Some(most) if most < self.min_step_saving() => self.pass_over(&candidate, most),
                // Where bounds are needed, nothing is measured for a remark alone.
                Some(_) => {}
                None => _ = self.try_out(&candidate, None)?,
            }
        }
        Ok(())
    }

    fn claim(&self, candidate: &Candidate) -> Claim {
        let pass = &self.passes[candidate.pass];
        Claim::of(pass.name(), pass.kind(), &candidate.finding)
    }
}

/// The figures of the form before, said to be that: another form is kept also where there is no model of it.
fn unknown(now: &Estimate, error: &EstimateError) -> Estimate {
    let mut estimate = now.clone();
    estimate.caveats.push(format!("figures are those of the input, because of its new form there are none: {error}"));
    estimate
}
