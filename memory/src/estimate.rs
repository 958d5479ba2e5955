//! What every estimate of a module's memory says, and the interface behind which estimators are interchangeable.

// Tests: `memory/tests/corpus.rs`.

use std::borrow::Cow;
use std::cell::RefCell;

use hlo_ir::arena::{Id as _, SideTable};
use hlo_ir::proto::BufferAssignment;
use hlo_ir::{InstructionId, Module, Opcode};
use smol_str::SmolStr;

use crate::Bytes;
use crate::SavingBound;
use crate::assignment::{Assignment, assign_for, assigned};
use crate::attribution::{self, Details, Holder};
use crate::cpu::Doubts;
use crate::guard::attempt;
use crate::parallel::join;

/// The compiler whose memory use is estimated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Target {
    /// XLA:CPU.
    #[default]
    Cpu,
    /// XLA:TPU.
    Tpu,
    /// XLA:GPU.
    Gpu,
}

/// How far a figure can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// The module is scheduled: the number, to the byte, that the XLA:CPU of jaxlib 0.10.2 makes of it. Text does not say which version scheduled it,
    /// and others may differ by some small buffers.
    Exact,
    /// The module is unscheduled: what the compiler does to it was modelled.
    Predicted,
    /// The module is unscheduled and goes to another compiler than XLA:CPU: its rules for what it fuses were modelled, and nothing else of it.
    Rough,
    /// The module is scheduled for another target than XLA:CPU: sizes and live ranges follow the text, the placement is our own.
    LiveRange,
    /// The dump holds the allocation that XLA made: its own sizes and places.
    XlaAssignment,
}

impl Model {
    /// The model as reports spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Predicted => "predicted",
            Self::Rough => "rough",
            Self::LiveRange => "live-range",
            Self::XlaAssignment => "xla-assignment",
        }
    }
}

/// A buffer alive at the peak.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveBuffer {
    /// Name of the instruction that defines it (in the module the compiler would see after its passes).
    pub instruction: SmolStr,
    /// Its shape as text.
    pub shape: String,
    /// Its size.
    pub bytes: Bytes,
    /// JAX's name for the operation, if the module carries metadata.
    pub op_name: Option<SmolStr>,
    /// `file:line` of the user's program, if the module carries it.
    pub source: Option<String>,
}

/// The program point at which most bytes are alive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Peak {
    /// The instruction that runs there.
    pub instruction: SmolStr,
    /// The computation it stands in.
    pub computation: SmolStr,
    /// Bytes alive there.
    pub bytes: Bytes,
}

/// The memory of one module; all sizes as XLA's memory-usage report counts them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// Exact or predicted.
    pub model: Model,
    /// Sum of all allocations: XLA's `Total bytes`.
    pub total: Bytes,
    /// Entry parameters.
    pub arguments: Bytes,
    /// Buffers that live out, aliased parameters included.
    pub outputs: Bytes,
    /// Parameters whose memory an output reuses (donated arguments).
    pub aliased: Bytes,
    /// Constants.
    pub constants: Bytes,
    /// Temporaries.
    pub temporaries: Bytes,
    /// Scratch of applied computations (reducers, comparators).
    pub thread_local: Bytes,
    /// What the library fusion that needs most of it takes for itself while it runs. XLA:CPU's figures leave it out, and so does `total`;
    /// the process needs it all the same.
    pub hidden_scratch: Bytes,
    /// Arguments + outputs - aliased: no program with this interface can need less.
    pub floor: Bytes,
    /// What stands in the memory of the host, on devices; at most, since buffers there may share memory. No part of `total`.
    pub host: Bytes,
    /// Where the peak is.
    pub peak: Peak,
    /// Buffers alive at the peak, largest first; the model lists the first [`crate::assignment::LARGEST_ROWS`].
    pub largest: Vec<LiveBuffer>,
    /// Live bytes at each point of the schedule.
    pub timeline: Vec<Bytes>,
    /// What XLA may need beyond `total` for what the model does not know about this module, as the caveats say; zero for what it knows.
    pub slack: Bytes,
    /// Error margin of a rough model: most programs need no more than this beyond `total`. Zero for other models.
    pub error_margin: Bytes,
    /// Whether the figures are for all devices together, since how the program is divided among them is not known.
    pub of_all_devices: bool,
    /// What the model does not know about this module; empty when the figure deserves full trust.
    pub caveats: Vec<String>,
}

impl Estimate {
    /// Area under the timeline in byte-steps, the tie-breaker between programs of equal peak.
    pub fn area(&self) -> u128 {
        self.timeline.iter().map(|bytes| u128::from(bytes.get())).sum()
    }
    /// The part of the area above a level, in byte-steps.
    pub fn area_above(&self, level: Bytes) -> u128 {
        self.timeline.iter().map(|bytes| u128::from((*bytes - level).get())).sum()
    }
    /// What XLA needs if the model is right about all that it knows.
    pub fn likely(&self) -> Bytes {
        self.total + self.slack
    }
    /// What XLA needs at most, as far as is known.
    pub fn certain(&self) -> Bytes {
        self.likely() + self.error_margin
    }
    /// Whether the model knows all of the module that it describes.
    pub fn is_certain(&self) -> bool {
        self.caveats.is_empty()
            && self.certain() == self.total
            && !self.of_all_devices
            && matches!(self.model, Model::Predicted | Model::Exact)
    }
    /// What decides between programs: XLA's total and what it leaves out.
    pub fn total_with_scratch(&self) -> Bytes {
        self.total + self.hidden_scratch
    }
}

/// Why a module has no estimate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EstimateError {
    /// The size of a value does not fit 64 bits or is unbounded.
    #[error("the size of `{0}` is unbounded or exceeds 2^64 bytes")]
    Unsized(SmolStr),
    /// A rule of the model met something it cannot handle.
    #[error("the memory model cannot handle `{0}`")]
    Unsupported(String),
    /// The figures of one form of a program are for one device, those of another for all together.
    #[error("figures of one device and of all devices together do not compare")]
    OtherDevices,
}

/// Anything that can say how much memory a module needs: the built-in model, or XLA itself.
pub trait Estimator {
    /// Estimates `module`.
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError>;
    /// The same; `look` may be shown what the estimate was made of.
    fn estimate_and(
        &self,
        module: &Module,
        _look: &mut dyn FnMut(&Compiled<'_>, &Estimate),
    ) -> Result<Estimate, EstimateError> {
        self.estimate(module)
    }
    /// What changes of parts of `module` could save at most; `None` if the estimator cannot say.
    fn saving_bound(&self, _module: &Module) -> Option<SavingBound> {
        None
    }
    /// Who holds memory at the peak, largest first, each with the instruction of the module that it derives from, if one is known; empty if the
    /// estimator cannot say.
    fn holders(&self, _module: &Module) -> Vec<(Holder, Option<InstructionId>)> {
        Vec::new()
    }
    /// The estimator as several threads may ask it at a time, if they may.
    fn shared(&self) -> Option<&(dyn Estimator + Sync)> {
        None
    }
}

/// The built-in model of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ModelEstimator {
    /// The compiler that is modelled.
    pub target: Target,
}

impl Estimator for ModelEstimator {
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError> {
        estimate(module, self.target)
    }
    fn estimate_and(
        &self,
        module: &Module,
        look: &mut dyn FnMut(&Compiled<'_>, &Estimate),
    ) -> Result<Estimate, EstimateError> {
        estimate_and(module, self.target, look)
    }
    fn saving_bound(&self, module: &Module) -> Option<SavingBound> {
        SavingBound::of(module, self.target).ok()
    }
    fn holders(&self, module: &Module) -> Vec<(Holder, Option<InstructionId>)> {
        holders(module, self.target).unwrap_or_default()
    }
    fn shared(&self) -> Option<&(dyn Estimator + Sync)> {
        Some(self)
    }
}

/// Estimates `module` with the built-in model: exact if it is scheduled, predicted otherwise.
pub fn estimate(module: &Module, target: Target) -> Result<Estimate, EstimateError> {
    estimate_and(module, target, &mut |_, _| ())
}

/// The same, and lets `look` see what the compiler makes of the module, unless a rule of the model stops at it: one compilation for both.
pub fn estimate_and(
    module: &Module,
    target: Target,
    look: &mut dyn FnMut(&Compiled<'_>, &Estimate),
) -> Result<Estimate, EstimateError> {
    let look = RefCell::new(look);
    Compiled::ask(module, target, |compiled, assignment| {
        let estimate = compiled.trusted(assignment, || (assignment.estimate_called(compiled.unnamed), ())).0;
        if !compiled.is_stopped {
            look.borrow_mut()(compiled, &estimate);
        }
        estimate
    })
}

/// Who holds memory at the peak of `module`, and which of its instructions each derives from.
fn holders(module: &Module, target: Target) -> Result<Vec<(Holder, Option<InstructionId>)>, EstimateError> {
    let of = |compiled: &Module, unnamed, origin: &dyn Fn(InstructionId) -> Option<InstructionId>| {
        let held = attribution::explained(&assign_for(compiled, target)?, unnamed).1.holders;
        Ok(held.into_iter().map(|holder| (origin(holder.owner), holder)).map(|(id, holder)| (holder, id)).collect())
    };
    if module.is_scheduled() {
        return of(module, false, &Some);
    }
    let traced = crate::cpu::compile_traced(module, target);
    of(&traced.module, true, &|id| traced.origins[id.index()])
}

/// Estimates `module` and says who holds its memory at the peak, why, and what changes of its interface would save.
pub fn details(module: &Module, target: Target) -> Result<(Estimate, Details), EstimateError> {
    let explained = || {
        Compiled::ask(module, target, |compiled, assignment| {
            let explained = compiled.trusted(assignment, || attribution::explained(assignment, compiled.unnamed));
            (explained, attribution::what_if::arguments(&compiled.module))
        })
    };
    let narrower = || attribution::what_if::narrower(module);
    let (narrower, explained) = join(module.is_large(), narrower, explained);
    let ((estimate, attribution), arguments) = explained?;
    let what_ifs = attribution::what_if::all(module, target, &estimate, narrower, &arguments, &again(target));
    Ok((estimate, Details { attribution, what_ifs }))
}

/// Estimates a module that was changed.
fn again(target: Target) -> impl Fn(&Module) -> Option<Estimate> {
    move |module| estimate(module, target).ok()
}

/// The same from the allocation that XLA itself wrote into a binary dump of `module`.
pub fn details_given(
    module: &Module,
    target: Target,
    given: &BufferAssignment,
) -> Result<(Estimate, Details), EstimateError> {
    let assignment = assigned(module, given)?;
    let (estimate, attribution) = attribution::explained(&assignment, false);
    // What a change would save is the difference of two estimates by the same model.
    let modelled = self::estimate(module, target);
    let (narrower, arguments) = (attribution::what_if::narrower(module), attribution::what_if::arguments(module));
    let what_ifs = modelled
        .map(|modelled| attribution::what_if::all(module, target, &modelled, narrower, &arguments, &again(target)))
        .unwrap_or_default();
    Ok((estimate, Details { attribution, what_ifs }))
}

/// What is said where the model cannot follow a module.
const STOPPED: &str = "the model of the compiler cannot follow this module: figures are those of its live ranges in the order of its text";

/// Which instructions of a module are written to memory.
pub type Stored = SideTable<InstructionId, bool>;

/// A scheduled module: the one given, or what the compiler makes of it.
pub struct Compiled<'m> {
    module: Cow<'m, Module>,
    /// The instruction of the given module whose work each instruction does; empty where they are the same.
    origins: Vec<Option<InstructionId>>,
    /// Whether this is the module as it was given, although that is not scheduled.
    is_stopped: bool,
    target: Target,
    model: Model,
    doubts: Doubts,
    /// Instructions carry the names that they wanted, of which one may stand for several.
    unnamed: bool,
}

impl<'m> Compiled<'m> {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The instruction of the given module whose work an instruction does, as far as known.
    pub fn origin(&self, id: InstructionId) -> Option<InstructionId> {
        if self.origins.is_empty() { Some(id) } else { self.origins.get(id.index()).copied().flatten() }
    }

    /// The instructions of the given module whose results are written to memory, as far as they are followed: all others are made in the kernels that read them.
    pub fn stored(&self) -> Stored {
        let mut is_fused = SideTable::new(false);
        for (_, inst) in self.module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Fusion) {
            inst.called_computations().for_each(|body| is_fused.set(body, true));
        }
        let mut stored = SideTable::new(false);
        for (id, inst) in self.module.live_instructions() {
            if !is_fused[inst.parent]
                && inst.array().is_some()
                && inst.opcode != Opcode::Bitcast
                && let Some(origin) = self.origin(id)
            {
                stored.set(origin, true);
            }
        }
        stored
    }

    /// What `answer` makes of the assignment of a module; where a rule of the model stops at it, of the assignment of the module as it stands.
    fn ask<T>(
        module: &'m Module,
        target: Target,
        answer: impl Fn(&Self, &Assignment<'_>) -> T,
    ) -> Result<T, EstimateError> {
        let modelled = || Self::ask_model(module, target, &answer);
        let as_it_stands = || {
            let compiled = Self::as_it_stands(module, target);
            compiled.assignment().map(|assignment| answer(&compiled, &assignment))
        };
        let stopped = || EstimateError::Unsupported(module.name.to_string());
        attempt(modelled).or_else(|| attempt(as_it_stands)).unwrap_or_else(|| Err(stopped()))
    }

    /// The same by the model alone. Few instructions are named, so the module is `unnamed`: making all names different takes longer than placing
    /// all buffers.
    fn ask_model<T>(
        module: &'m Module,
        target: Target,
        answer: &impl Fn(&Self, &Assignment<'_>) -> T,
    ) -> Result<T, EstimateError> {
        let compiled = Self::of(module, target, true);
        if let Ok(answer) = compiled.assignment().map(|assignment| answer(&compiled, &assignment)) {
            compiled.drop_in_background();
            return Ok(answer);
        }
        // The error names an instruction.
        let compiled = Self::of(module, target, false);
        let assignment = compiled.assignment()?;
        Ok(answer(&compiled, &assignment))
    }

    fn drop_in_background(self) {
        if let Cow::Owned(module) = self.module {
            module.drop_in_background();
        }
    }

    fn of(module: &'m Module, target: Target, unnamed: bool) -> Self {
        let unnamed = unnamed && !module.is_scheduled();
        let (module, origins, model, doubts) = match (module.is_scheduled(), target) {
            (true, Target::Cpu) => (Cow::Borrowed(module), Vec::new(), Model::Exact, Doubts::default()),
            (true, Target::Tpu | Target::Gpu) => {
                (Cow::Borrowed(module), Vec::new(), Model::LiveRange, Doubts::default())
            }
            (false, _) => {
                let (compiled, doubts) = crate::cpu::compile_for(module, target, !unnamed);
                let model = if target == Target::Cpu { Model::Predicted } else { Model::Rough };
                (Cow::Owned(compiled.module), compiled.origins, model, doubts)
            }
        };
        Self { module, origins, is_stopped: false, target, model, doubts, unnamed }
    }

    /// The module in the order of its text, whatever a compiler would make of it.
    fn as_it_stands(module: &'m Module, target: Target) -> Self {
        let model = if target == Target::Cpu && !module.is_scheduled() { Model::Predicted } else { Model::LiveRange };
        // How much more there may be is not known.
        let doubts = Doubts { caveats: vec![STOPPED.to_owned()], slack: Bytes(u64::MAX), of_all_devices: false };
        let (module, origins) = (Cow::Borrowed(module), Vec::new());
        Self { module, origins, is_stopped: true, target, model, doubts, unnamed: false }
    }

    fn assignment(&self) -> Result<Assignment<'_>, EstimateError> {
        assign_for(&self.module, self.target)
    }

    /// The figures of an assignment with what can be said about their trust, and what comes with them.
    fn trusted<T>(&self, assignment: &Assignment<'_>, figures: impl FnOnce() -> (Estimate, T)) -> (Estimate, T) {
        let hidden = || (self.target == Target::Cpu).then(|| attribution::most_hidden(assignment));
        let (hidden, (mut estimate, with)) = join(self.module.is_large(), hidden, figures);
        estimate.model = self.model;
        estimate.hidden_scratch = hidden.unwrap_or(estimate.hidden_scratch);
        estimate.caveats.extend(self.doubts.caveats.iter().cloned());
        estimate.slack += self.doubts.slack;
        if self.model == Model::Rough {
            estimate.error_margin = error_margin(&estimate, self.target);
        }
        estimate.of_all_devices = self.doubts.of_all_devices;
        (estimate, with)
    }
}

/// The margin within which XLA needs no more than the total of a rough model: 38 of 40 programs on GPU, 30 of 35 on TPU (`docs/measured/rough-models.md`). Arguments
/// and results are known, so it is no more than there are temporaries.
fn error_margin(estimate: &Estimate, target: Target) -> Bytes {
    let percent = match target {
        Target::Cpu => 0,
        Target::Gpu => 15,
        Target::Tpu => 40,
    };
    Bytes(estimate.total.get() / 100 * percent).min(estimate.temporaries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "HloModule m\n\nENTRY e {\n  p = f32[8] parameter(0)\n  n = f32[8] negate(p)\n  m = f32[8] tanh(n)\n  \
                           ROOT t = (f32[8], f32[8]) tuple(n, m)\n}\n";

    #[test]
    fn where_the_model_stops_the_module_is_taken_as_it_stands() {
        let module = hlo_ir::text::parse(PROGRAM).unwrap();
        let stops = |compiled: &Compiled<'_>, assignment: &Assignment<'_>| {
            assert!(matches!(compiled.module, Cow::Borrowed(_)), "planted: what the model made of the module");
            compiled.trusted(assignment, || (assignment.estimate_called(compiled.unnamed), ())).0
        };
        let estimate = Compiled::ask(&module, Target::Cpu, stops).unwrap();
        assert_eq!(estimate.model, Model::Predicted);
        assert_eq!(estimate.caveats, [STOPPED]);
        assert_eq!(estimate.certain(), Bytes(u64::MAX), "no budget is met for certain");
        // The argument, both results, and the table of the tuple.
        assert_eq!(estimate.total, Bytes(3 * 32 + 16));
        assert_eq!(estimate.floor, estimate.total);
    }

    #[test]
    fn where_nothing_helps_there_is_no_figure() {
        let module = hlo_ir::text::parse(PROGRAM).unwrap();
        let stops = |_: &Compiled<'_>, _: &Assignment<'_>| -> Estimate { panic!("planted") };
        assert_eq!(Compiled::ask(&module, Target::Cpu, stops), Err(EstimateError::Unsupported("m".to_owned())));
    }
}
