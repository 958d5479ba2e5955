//! What a compiler says of the forms of a module, and what came of it.

// Tests: `tests/judge.rs`.

use hlo_memory::Bytes;

/// What a compiler says of a module.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// It compiles.
    Compiled(Figures),
    /// It was not compiled: the model is certain.
    Predicted(Figures),
    /// It does not fit the device that is compiled for.
    TooLarge(String),
    /// The compiler fails.
    Failed(String),
}

/// A compiled module.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figures {
    /// Arguments + outputs - aliased + temporaries, of one device.
    pub total: Bytes,
    /// Arguments whose memory an output takes over.
    pub aliased: Bytes,
    /// Estimated time of a run, where there is an estimate.
    pub seconds: Option<f64>,
}

impl Answer {
    /// The figures, unless it does not compile.
    pub const fn figures(&self) -> Option<Figures> {
        match self {
            Self::Compiled(figures) | Self::Predicted(figures) => Some(*figures),
            Self::TooLarge(_) | Self::Failed(_) => None,
        }
    }
    /// Why it does not compile.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Compiled(_) | Self::Predicted(_) => None,
            Self::TooLarge(reason) | Self::Failed(reason) => Some(reason),
        }
    }
}

/// A form that the compiler was asked about.
#[derive(Clone, PartialEq, Debug)]
pub struct Attempt {
    /// How many rewrites it has.
    pub rewrites: usize,
    /// What the search was given.
    pub bounds: Bounds,
    /// What the compiler says of it.
    pub answer: Answer,
    /// Whether it takes longer than is allowed.
    pub is_slow: bool,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// Who was asked.
    pub judge: &'static str,
    /// The compiler on the original.
    pub before: Answer,
    /// The compiler on the form that was kept.
    pub after: Answer,
    /// The rewritten forms it was asked about.
    pub attempts: Vec<Attempt>,
    /// A search under these bounds ends at the form that was kept.
    pub bounds: Bounds,
}

/// What bounds a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// Most rewrites to keep.
    pub limit: Option<usize>,
    /// The budget.
    pub budget: Option<Bytes>,
}
