//! A cache of estimates, by the form of the module, that all searches of a run share.
//!
//! Searches with other flags, restarts, and searches behind enabling changes reach the same forms again. The forms that the search will ask for next are estimated in
//! advance on all cores; the answers do not depend on how many there are.

use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use crate::hash::IndexMap;
use hlo_ir::edit::Patch;
use hlo_ir::{InstructionId, Module, hash, verify};
use hlo_memory::attribution::Holder;
use hlo_memory::{Estimate, EstimateError, Estimator, SavingBound, Stored, Target, side_by_side};

use super::known_findings::KnownFindings;
use crate::Machine;
use crate::bounds;
use crate::loops::RowLoopCache;
use crate::run_time::{estimate_and_look, run_time};

/// What an estimator says of a form.
pub(super) type Answer = Result<Estimate, EstimateError>;
/// What was said of a form.
#[derive(Clone)]
struct CachedAnswer {
    estimate: Answer,
    seconds: Seconds,
    /// What is written to memory, where passes ask for that.
    stored: Option<Arc<Stored>>,
}

/// Seconds of a run.
#[derive(Clone, Copy)]
enum Seconds {
    Unasked,
    Known(f64),
    /// Nobody can say.
    Unknown,
}

impl Seconds {
    fn of(found: Option<f64>) -> Self {
        found.map_or(Self::Unknown, Self::Known)
    }
}

/// What was said of forms, by all that it could depend on.
type Known = RwLock<IndexMap<u64, CachedAnswer>>;

/// An estimator that remembers its answers by all that they could depend on.
pub(super) struct Memoized<'a> {
    estimator: &'a dyn Estimator,
    /// The machine that runs are timed on.
    machine: &'a Machine,
    known: Known,
    /// What passes found, which searches with other options on the same module may ask for again.
    pub(super) findings: KnownFindings,
    /// The loops over independent rows that they found.
    pub(super) row_loops: RowLoopCache,
}

impl<'a> Memoized<'a> {
    pub(super) fn of(estimator: &'a dyn Estimator, machine: &'a Machine) -> Self {
        let (findings, row_loops) = (KnownFindings::default(), RowLoopCache::default());
        Self { estimator, machine, known: Known::default(), findings, row_loops }
    }

    /// Whether this form of a module was estimated, which none is that is not legal.
    pub(super) fn knows(&self, module: &Module) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains_key(&hash::named_hash(module))
    }

    /// Seconds of a run of a module, if they can be estimated.
    pub(super) fn seconds(&self, module: &Module) -> Option<f64> {
        let form = hash::named_hash(module);
        // Whoever asks for the time of a form will ask for its memory too: one compilation answers both.
        let _ = answer(&self.known, module, self.estimator, self.machine);
        match recall(&self.known, form).map_or(Seconds::Unasked, |said| said.seconds) {
            Seconds::Known(seconds) => return Some(seconds),
            Seconds::Unknown => return None,
            Seconds::Unasked => {}
        }
        let seconds = run_time(module, self.machine.target, self.machine).ok().map(|time| time.seconds);
        if let Some(said) = self.known.write().unwrap_or_else(PoisonError::into_inner).get_mut(&form) {
            said.seconds = Seconds::of(seconds);
        }
        seconds
    }

    /// What the compiler writes to memory, if that is known.
    pub(super) fn stored(&self, module: &Module) -> Option<Arc<Stored>> {
        let _ = answer(&self.known, module, self.estimator, self.machine);
        recall(&self.known, hash::named_hash(module)).and_then(|said| said.stored)
    }

    /// How many changes of a module are estimated [ahead](Self::ahead) at a time. Each holds two modules, of less than 100,000 instructions of about a KiB: together a GiB
    /// and a half at worst.
    pub(super) fn at_a_time(&self, module: &Module) -> usize {
        let worth = module.instruction_count() >= bounds::SMALL / bounds::MAX_ATTEMPTS && !module.is_large();
        match self.estimator.shared() {
            Some(_) if worth => thread::available_parallelism().map_or(1, usize::from).min(bounds::MAX_ATTEMPTS),
            _ => 1,
        }
    }

    /// Estimates what each of these changes makes of a module, each on a thread of its own, if they are several. `None` where a change cannot be made or there is no
    /// thread: what is to be said of that is found by making it.
    pub(super) fn ahead(&self, module: &Module, patches: &[&Patch]) -> Vec<Option<Answer>> {
        let Some(estimator) = self.estimator.shared().filter(|_| patches.len() > 1) else {
            return vec![None; patches.len()];
        };
        let (known, machine) = (&self.known, self.machine);
        let estimated = |patch: &Patch| {
            let mut form = module.clone();
            patch.clone().apply(&mut form).ok()?;
            verify::verify(&form).is_empty().then(|| answer(known, &form, estimator, machine))
        };
        side_by_side(patches, estimated).into_iter().map(Option::flatten).collect()
    }
}

fn recall(known: &Known, form: u64) -> Option<CachedAnswer> {
    known.read().unwrap_or_else(PoisonError::into_inner).get(&form).cloned()
}

/// What is known of a form, or what an estimator says of it, which is then known.
fn answer(known: &Known, module: &Module, estimator: &dyn Estimator, machine: &Machine) -> Answer {
    let form = hash::named_hash(module);
    if let Some(said) = recall(known, form) {
        return said.estimate;
    }
    let mut stored = None;
    let is_asked = machine.target == Target::Gpu;
    let (estimate, time) = estimate_and_look(module, estimator, machine, &mut |compiled| {
        stored = is_asked.then(|| Arc::new(compiled.stored()));
    });
    let seconds = time.map_or(Seconds::Unasked, |time| Seconds::Known(time.seconds));
    let said = CachedAnswer { estimate: estimate.clone(), seconds, stored };
    known.write().unwrap_or_else(PoisonError::into_inner).insert(form, said);
    estimate
}

impl Estimator for Memoized<'_> {
    fn estimate(&self, module: &Module) -> Answer {
        answer(&self.known, module, self.estimator, self.machine)
    }
    fn saving_bound(&self, module: &Module) -> Option<SavingBound> {
        self.estimator.saving_bound(module)
    }
    fn holders(&self, module: &Module) -> Vec<(Holder, Option<InstructionId>)> {
        self.estimator.holders(module)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hlo_ir::Instruction;
    use hlo_memory::{ModelEstimator, Target};

    use super::*;

    const TEXT: &str = "HloModule m\n\nENTRY e {\n  p = f32[8]{0} parameter(0)\n  s = f32[8]{0} sine(p)\n  ROOT t = f32[8]{0} tanh(s)\n}\n";

    /// Counts what it is asked.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Counted {
        fn times(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Estimator for Counted {
        fn estimate(&self, module: &Module) -> Answer {
            self.0.fetch_add(1, Ordering::SeqCst);
            ModelEstimator::default().estimate(module)
        }
        fn shared(&self) -> Option<&(dyn Estimator + Sync)> {
            Some(self)
        }
    }

    fn memoized(estimator: &dyn Estimator) -> Memoized<'_> {
        Memoized::of(estimator, Machine::of(Target::Cpu))
    }

    #[test]
    fn the_same_form_is_estimated_once() {
        let other = TEXT.replace("tanh", "cosine");
        let renamed = "HloModule m\n\nENTRY e {\n  p = f32[8]{0} parameter(0)\n  u = f32[8]{0} sine(p)\n  ROOT t = f32[8]{0} tanh(u)\n}\n";
        let counted = Counted::default();
        let memoized = memoized(&counted);
        for (times, text) in [(1, TEXT), (1, TEXT), (2, &*other), (3, renamed), (3, &*other)] {
            let module = hlo_ir::text::parse(text).unwrap();
            assert_eq!(memoized.estimate(&module), ModelEstimator::default().estimate(&module));
            assert_eq!(counted.times(), times, "{text}");
        }
    }

    #[test]
    fn changes_are_estimated_ahead_once() {
        let module = hlo_ir::text::parse(TEXT).unwrap();
        let root = module.computation(module.entry()).root;
        let argument = module.instruction(root).operands[0];
        let to = |opcode, shape: hlo_ir::shape::ShapeRef| {
            let mut patch = Patch::new(&module);
            let made = Instruction::new("made", shape, opcode, [argument]);
            let made = patch.add(module.entry(), made);
            patch.replace(root, made);
            patch
        };
        let same = module.instruction(root).shape.clone();
        let (cosine, negate) = (to(hlo_ir::Opcode::Cosine, same.clone()), to(hlo_ir::Opcode::Negate, same));
        let broken = to(hlo_ir::Opcode::Negate, hlo_ir::Shape::Token.into());
        let counted = Counted::default();
        let memoized = memoized(&counted);
        let found = memoized.ahead(&module, &[&cosine, &broken, &negate]);
        assert!(found[1].is_none(), "whoever makes the change is told why it is none");
        assert_eq!(counted.times(), 2);
        for (patch, found) in [(&cosine, &found[0]), (&negate, &found[2])] {
            let mut form = module.clone();
            patch.clone().apply(&mut form).unwrap();
            assert_eq!(found.as_ref(), Some(&ModelEstimator::default().estimate(&form)));
            assert_eq!(found.as_ref(), Some(&memoized.estimate(&form)));
        }
        assert_eq!(counted.times(), 2, "both were known");
        assert_eq!(memoized.ahead(&module, &[&cosine]), [None], "one alone is estimated when it is asked for");
    }

    #[test]
    fn times_come_with_estimates_and_without() {
        let module = hlo_ir::text::parse(TEXT).unwrap();
        let time = run_time(&module, Target::Cpu, Machine::of(Target::Cpu)).unwrap().seconds;
        let (model, counted) = (ModelEstimator::default(), Counted::default());
        // `Counted` shows nobody what it estimates.
        for estimator in [&model as &dyn Estimator, &counted] {
            let memoized = memoized(estimator);
            memoized.estimate(&module).unwrap();
            assert_eq!([memoized.seconds(&module), memoized.seconds(&module)], [Some(time); 2]);
        }
    }
}
