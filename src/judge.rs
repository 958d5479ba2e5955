//! Lets a judge, the target's compiler, decide which form of a module is kept: the search goes by a model of that compiler, and models err.
//!
//! Without a budget the form of the fewest bytes stays; where the compiler needs more than the model promised, fewer rewrites are looked at too. With
//! a budget the first form stays that the compiler finds within it: the original, then what the model finds for the budget, then what it finds for less
//! as the compiler's figures ask for.

// Tests: `tests/judge.rs`.

use hlo_ir::Module;
use hlo_memory::{Bytes, Estimate};
use hlo_passes::Options;

use crate::answer::{Answer, Attempt, Bounds, Figures, Verdict};
use crate::{Failure, Optimized, Pipeline, api};

/// A compiler that needs this much more than the model promised, or than with fewer rewrites, met a rewrite it does not like: the bad one is looked for.
const TRUST: f64 = 1.05;

/// Searches for one budget. Each aims at the error of the one before, which halves it or better, so that the fourth is within a sixteenth of the first's.
const MOST_SEARCHES: usize = 4;

/// Who knows what a module really takes.
pub trait Judge {
    /// What reports call it.
    fn name(&self) -> &'static str;
    /// What the compiler makes of a module. An error says why it could not be asked at all.
    fn ask(&mut self, module: &Module) -> Result<Answer, String>;
    /// The same of the module as it was given.
    fn ask_original(&mut self, module: &Module) -> Result<Answer, String> {
        self.ask(module)
    }
    /// Whether the original need not be asked about where the model is certain of it: compiling takes time.
    fn trusts_the_model(&self) -> bool {
        false
    }
}

/// What the run was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The passes.
    pub pipeline: &'a Pipeline,
    /// Target, exactness and limits.
    pub options: &'a Options,
    /// How many times as slow as the original a form may be by the compiler's estimate; forms without one are taken.
    pub max_slowdown: Option<f64>,
}

/// Why nothing was decided.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JudgeError {
    /// The compiler could not be asked, or fails on the module as it is.
    #[error("{0}")]
    Unasked(String),
    /// A form could not be made.
    #[error(transparent)]
    Run(#[from] Failure),
}

/// Keeps the form that the judge finds best: `first`, one with fewer rewrites or for another budget, or the original. Where nothing was rewritten and there
/// is no budget, there is nothing to decide.
pub fn decide(first: Optimized, request: Request<'_>, judge: &mut dyn Judge) -> Result<Optimized, JudgeError> {
    if first.report.rewrites.is_empty() && request.options.budget.is_none() {
        return Ok(first);
    }
    let answer = if may_be_certain(&first, request, judge) {
        Some(judge.ask(first.after()).map_err(JudgeError::Unasked)?)
    } else {
        None
    };
    if let Some(answer) = answer.as_ref().filter(|answer| confirms(answer, &first)) {
        return Ok(confirmed(first, answer, request, judge));
    }
    let before = judge.ask_original(first.before()).map_err(JudgeError::Unasked)?;
    if let Answer::Failed(reason) = &before {
        return Err(JudgeError::Unasked(reason.clone()));
    }
    let mut forms = Forms { request, judge, before, attempts: Vec::new(), best: None, first: answer };
    if first.report.rewrites.is_empty() {
        return Ok(forms.original(first));
    }
    let input = first.before().clone();
    match request.options.budget {
        Some(budget) => forms.within(first, budget)?,
        None => forms.lowest(first)?,
    }
    forms.verdict(&input)
}

/// Whether the model's word for the original will do, if the compiler confirms what it says of the result: it knows all of both forms, the peak falls by more
/// than a compiler is allowed to be off, and neither a budget nor a time is asked for.
fn may_be_certain(first: &Optimized, request: Request<'_>, judge: &dyn Judge) -> bool {
    let (before, after) = (&first.report.before, &first.report.after);
    let falls = before.total.get() as f64 > TRUST * after.total_with_scratch().get() as f64;
    let asks_for_more = request.options.budget.is_some() || request.max_slowdown.is_some();
    let is_known = [before, after].into_iter().all(Estimate::is_certain) && before.aliased == after.aliased;
    judge.trusts_the_model() && !asks_for_more && is_known && falls && !first.report.rewrites.is_empty()
}

/// Whether the compiler needs what the model says, and less than the original by more than it may be off.
fn confirms(answer: &Answer, first: &Optimized) -> bool {
    let (before, after) = (&first.report.before, &first.report.after);
    answer.figures().is_some_and(|figures| {
        let total = figures.total.get() as f64;
        figures.aliased == after.aliased
            && total <= TRUST * after.total.get() as f64
            && TRUST * total < before.total.get() as f64
    })
}

/// The form that the search found, with the model's figure for the original.
fn confirmed(first: Optimized, answer: &Answer, request: Request<'_>, judge: &dyn Judge) -> Optimized {
    let bounds = Bounds { limit: request.options.bisect_limit, budget: None };
    let (rewrites, before) = (first.report.rewrites.len(), &first.report.before);
    let predicted = Figures { total: before.total, aliased: before.aliased, seconds: None };
    let verdict = Verdict {
        judge: judge.name(),
        before: Answer::Predicted(predicted),
        after: answer.clone(),
        attempts: vec![Attempt { rewrites, bounds, answer: answer.clone(), is_slow: false }],
        bounds,
    };
    Optimized { verdict: Some(Box::new(verdict)), ..first }
}

/// Forms and what was said of them.
struct Forms<'a> {
    request: Request<'a>,
    judge: &'a mut dyn Judge,
    before: Answer,
    attempts: Vec<Attempt>,
    best: Option<Best>,
    /// The answer about the first form, if it was asked about already.
    first: Option<Answer>,
}

/// The best form that was tried, if one is better than the original.
struct Best {
    charge: Bytes,
    form: Optimized,
    answer: Answer,
    bounds: Bounds,
}

impl Forms<'_> {
    /// What a form costs: the compiler's total, and what it leaves out unless there is a budget, which is held against the compiler's figure; `None` of a
    /// form that must not be taken.
    fn charge(&self, answer: &Answer, estimate: &Estimate) -> Option<Bytes> {
        let figures = answer.figures()?;
        let before = self.before.figures();
        // A rewrite that lost a donated buffer would change what callers may do with their arrays.
        let keeps_donations = before.is_none_or(|before| before.aliased == figures.aliased);
        let hidden = if self.request.options.budget.is_some() { Bytes::ZERO } else { estimate.hidden_scratch };
        (keeps_donations && !self.is_slow(figures)).then_some(figures.total + hidden)
    }

    /// Whether a form takes longer than is allowed, as far as that is known.
    fn is_slow(&self, figures: Figures) -> bool {
        let before = self.before.figures().and_then(|before| before.seconds);
        let times = before.zip(figures.seconds).zip(self.request.max_slowdown);
        times.is_some_and(|((before, after), most)| after > before * most)
    }

    /// Asks about a form, and keeps it if it is the best so far. What it costs.
    fn attempt(&mut self, form: Optimized, bounds: Bounds) -> Result<Option<Bytes>, JudgeError> {
        let original = self.charge(&self.before, &form.report.before);
        let answer = match self.first.take() {
            Some(answer) => answer,
            None => self.judge.ask(form.after()).map_err(JudgeError::Unasked)?,
        };
        let charge = self.charge(&answer, &form.report.after);
        let is_slow = answer.figures().is_some_and(|figures| self.is_slow(figures));
        self.attempts.push(Attempt { rewrites: form.report.rewrites.len(), bounds, answer: answer.clone(), is_slow });
        let least = self.best.as_ref().map(|best| best.charge).or(original);
        if let Some(charge) = charge.filter(|&charge| least.is_none_or(|least| charge < least)) {
            self.best = Some(Best { charge, form, answer, bounds });
        }
        Ok(charge)
    }

    /// Looks for the form of the fewest bytes: all rewrites, and fewer where the compiler needs more than was promised.
    fn lowest(&mut self, first: Optimized) -> Result<(), JudgeError> {
        let (full, all) = (first.clone(), first.report.rewrites.len());
        let promised = first.report.after.total_with_scratch().get() as f64;
        let original = self.charge(&self.before, &first.report.before);
        self.attempt(first, Bounds { limit: self.request.options.bisect_limit, budget: None })?;
        let (mut low, mut high, mut least) = (0, all, original.unwrap_or(Bytes(u64::MAX)));
        while high - low > 1 && self.best.as_ref().is_none_or(|best| best.charge.get() as f64 > TRUST * promised) {
            let middle = usize::midpoint(low, high);
            let bounds = Bounds { limit: Some(middle), budget: None };
            let form = api::with_limit(&full, self.request.pipeline, &self.options(bounds))?;
            // A form that takes about as much as the best has nothing bad in it: what helps may come behind.
            match self.attempt(form, bounds)? {
                Some(charge) if charge.get() as f64 <= TRUST * least.get() as f64 => {
                    (low, least) = (middle, least.min(charge));
                }
                _ => high = middle,
            }
        }
        Ok(())
    }

    /// Looks for a form within the budget: the compiler's figures say how much less the model must be asked for. Where there is none, forms that a run without
    /// a budget looks at may be smaller.
    fn within(&mut self, first: Optimized, budget: Bytes) -> Result<(), JudgeError> {
        if self.charge(&self.before, &first.report.before).is_some_and(|charge| charge <= budget) {
            return Ok(());
        }
        let (input, mut form, mut told, mut is_last) = (first.before().clone(), first, budget, false);
        for _ in 0..MOST_SEARCHES {
            let (estimate, text) = (form.report.after.clone(), form.text.clone());
            let bounds = Bounds { limit: self.request.options.bisect_limit, budget: Some(told) };
            let Some(charge) = self.attempt(form, bounds)? else { break };
            if charge <= budget {
                return Ok(());
            }
            // A search that misses what it is asked for ends where it stands: one for less may get further, a second one would not.
            let misses = self.request.options.peak(&estimate) > told;
            if (misses && is_last) || budget <= estimate.floor {
                break;
            }
            is_last = misses;
            told = corrected(budget, charge, estimate.floor, self.request.options.peak(&estimate));
            form = self.search(&input, Bounds { budget: Some(told), ..bounds })?;
            if form.text == text {
                break;
            }
        }
        let plain = self.search(&input, Bounds { limit: self.request.options.bisect_limit, budget: None })?;
        if plain.report.rewrites.is_empty() { Ok(()) } else { self.lowest(plain) }
    }

    /// A form of the module.
    fn search(&self, input: &Module, bounds: Bounds) -> Result<Optimized, JudgeError> {
        Ok(api::optimize_module(input.clone(), self.request.pipeline, &self.options(bounds))?)
    }

    /// The options of a search for a form.
    fn options(&self, bounds: Bounds) -> Options {
        Options { bisect_limit: bounds.limit, budget: bounds.budget, ..self.request.options.clone() }
    }

    /// The module as it is, with what the compiler says of it.
    fn original(self, form: Optimized) -> Optimized {
        let Self { judge, before, attempts, .. } = self;
        let judge = judge.name();
        let verdict =
            Verdict { judge, after: before.clone(), before, attempts, bounds: Bounds { limit: Some(0), budget: None } };
        Optimized { verdict: Some(Box::new(verdict)), ..form }
    }

    /// The best form with everything that was said.
    fn verdict(mut self, input: &Module) -> Result<Optimized, JudgeError> {
        if let Some(best) = self.best.take() {
            let Best { form, answer: after, bounds, .. } = best;
            let judge = self.judge.name();
            let verdict = Verdict { judge, before: self.before, after, attempts: self.attempts, bounds };
            return Ok(Optimized { verdict: Some(Box::new(verdict)), ..form });
        }
        let nothing = Pipeline::parse("").expect("no names are no unknown names");
        let form = api::optimize_module(input.clone(), &nothing, self.request.options)?;
        Ok(self.original(form))
    }
}

/// What to ask the model for, so that a form that it finds as wrong as this one fits: what lies above the floor shrinks by as much as the compiler's
/// figure has to.
fn corrected(budget: Bytes, charge: Bytes, floor: Bytes, estimated: Bytes) -> Bytes {
    let above = |bytes: Bytes| (bytes - floor).get() as f64;
    let part = above(budget) / above(charge).max(1.0);
    floor + Bytes((above(estimated) * part) as u64)
}
