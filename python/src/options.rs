//! The keywords of the Python calls and what they mean to the library.

use hlo_opt::{Assumption, Bytes, Grade, Objective, Options, Pipeline, Target};

use crate::failure::Stop;

/// The keywords of `optimize`, as given.
#[derive(Default)]
pub(crate) struct Settings<'a> {
    /// `cpu`, `tpu` or `gpu`.
    pub(crate) target: &'a str,
    /// `bitwise`, `hlo-exact` or `reassociate`.
    pub(crate) exactness: &'a str,
    /// Names of promises.
    pub(crate) assume: Vec<String>,
    /// A list for [`Pipeline::parse`]; `None` runs the standard passes.
    pub(crate) passes: Option<&'a str>,
    /// Most bytes of block temporaries per loop.
    pub(crate) chunk_bytes: Option<u64>,
    /// Bytes; smaller savings are left alone.
    pub(crate) min_saving: u64,
    /// Verify after every pass.
    pub(crate) verify_each: bool,
    /// Bytes; rewriting stops when the peak fits.
    pub(crate) budget: Option<u64>,
    /// `memory`, `balanced` or `time`; empty for the default.
    pub(crate) objective: &'a str,
    /// Bytes of the host's memory that the program may use.
    pub(crate) host_memory: u64,
    /// Whether a compiler judges the result.
    pub(crate) is_judged: bool,
    /// Most rewrites to keep.
    pub(crate) bisect_limit: Option<usize>,
    /// Whether remarks say what other options would give, for which the module is searched again.
    pub(crate) advise: bool,
}

impl Settings<'_> {
    /// The library's options, or which keyword makes no sense.
    #[allow(clippy::needless_update, reason = "an option that the library gains keeps its default here")]
    pub(crate) fn options(&self) -> Result<Options, Stop> {
        if self.chunk_bytes == Some(0) {
            return Err(Stop::Usage("chunk_bytes must be more than 0".to_owned()));
        }
        Ok(Options {
            target: target(self.target)?,
            exactness: grade(self.exactness)?,
            assumptions: self.assume.iter().map(|name| assumption(name)).collect::<Result<_, _>>()?,
            chunk_bytes: self.chunk_bytes.map(Bytes),
            min_saving: Bytes(self.min_saving),
            verify_each: self.verify_each,
            budget: self.budget.map(Bytes),
            objective: objective(self.objective)?,
            host_memory: Bytes(self.host_memory),
            is_judged: self.is_judged,
            bisect_limit: self.bisect_limit,
            advise: self.advise,
            ..Options::default()
        })
    }

    /// The passes to run, or which name is unknown.
    pub(crate) fn pipeline(&self) -> Result<Pipeline, Stop> {
        self.passes.map_or_else(
            || Ok(Pipeline::standard()),
            |list| Pipeline::parse(list).map_err(|error| Stop::Usage(error.to_string())),
        )
    }
}

/// The target of this name.
pub(crate) fn target(name: &str) -> Result<Target, Stop> {
    match name {
        "cpu" => Ok(Target::Cpu),
        "tpu" => Ok(Target::Tpu),
        "gpu" => Ok(Target::Gpu),
        _ => Err(unknown("target", name, "cpu, tpu, gpu")),
    }
}

fn grade(name: &str) -> Result<Grade, Stop> {
    match name {
        "bitwise" => Ok(Grade::Bitwise),
        "hlo-exact" => Ok(Grade::HloExact),
        "reassociate" => Ok(Grade::Reassociate),
        _ => Err(unknown("exactness", name, "bitwise, hlo-exact, reassociate")),
    }
}

fn objective(name: &str) -> Result<Objective, Stop> {
    match name {
        "memory" => Ok(Objective::Memory),
        "" | "balanced" => Ok(Objective::Balanced),
        "time" => Ok(Objective::Time),
        _ => Err(unknown("objective", name, "memory, balanced, time")),
    }
}

fn assumption(name: &str) -> Result<Assumption, Stop> {
    match name {
        "indices-in-bounds" => Ok(Assumption::IndicesInBounds),
        _ => Err(unknown("assumption", name, "indices-in-bounds")),
    }
}

fn unknown(what: &str, name: &str, known: &str) -> Stop {
    Stop::Usage(format!("unknown {what} `{name}`; known are {known}"))
}
