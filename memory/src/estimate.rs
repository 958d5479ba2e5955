//! What every estimate of a module's memory says, and the interface behind which estimators are interchangeable.

use hlo_ir::Module;
use smol_str::SmolStr;

use crate::Bytes;

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
    /// The module is scheduled: XLA's own number to the byte.
    Exact,
    /// The module is unscheduled: what the compiler does to it was modelled.
    Predicted,
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
    /// Arguments + outputs - aliased: no program with this interface can need less.
    pub floor: Bytes,
    /// Where the peak is.
    pub peak: Peak,
    /// Buffers alive at the peak, largest first; the model lists the first [`crate::assignment::LARGEST_ROWS`].
    pub largest: Vec<LiveBuffer>,
    /// Live bytes at each point of the schedule.
    pub timeline: Vec<Bytes>,
    /// What the model does not know about this module; empty when the figure deserves full trust.
    pub caveats: Vec<String>,
}

impl Estimate {
    /// Area under the timeline in byte-steps, the tie-breaker between programs of equal peak.
    pub fn area(&self) -> u128 {
        self.timeline.iter().map(|bytes| u128::from(bytes.get())).sum()
    }
}

/// Why a module has no estimate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EstimateError {
    /// The size of a value does not fit 64 bits or is unbounded.
    #[error("the size of `{0}` is unbounded or exceeds 2^64 bytes")]
    Unsized(SmolStr),
    /// The target has no model yet.
    #[error("there is no memory model for this target yet")]
    NoModel,
    /// A rule of the model met something it cannot handle.
    #[error("the memory model cannot handle `{0}`")]
    Unsupported(String),
}

/// Anything that can say how much memory a module needs: the built-in model, or XLA itself.
pub trait Estimator {
    /// Estimates `module`.
    fn estimate(&self, module: &Module) -> Result<Estimate, EstimateError>;
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
}

/// Estimates `module` with the built-in model: exact if it is scheduled, predicted otherwise.
pub fn estimate(module: &Module, target: Target) -> Result<Estimate, EstimateError> {
    if target != Target::Cpu {
        return Err(EstimateError::NoModel);
    }
    let (model, compiled) = if module.is_scheduled() {
        (Model::Exact, None)
    } else {
        (Model::Predicted, Some(crate::cpu::compile(module)?))
    };
    let mut estimate = crate::assignment::assign(compiled.as_ref().unwrap_or(module))?.estimate();
    estimate.model = model;
    if model == Model::Predicted {
        estimate.caveats.extend(crate::cpu::caveats(module));
    }
    Ok(estimate)
}
