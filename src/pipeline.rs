//! Which passes run: the standard pipeline, or the list given with `--passes`.

// Tests: `tests/corpus.rs`.

use hlo_passes::Pass;
use hlo_passes::manager::{self, UnknownPass};

/// The passes of a run, in order.
#[derive(Default)]
pub struct Pipeline {
    passes: Vec<Box<dyn Pass>>,
}

/// Why a list of passes makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PipelineError {
    /// No pass has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownPass),
    /// The pass takes no options.
    #[error("pass `{0}` takes no options")]
    Options(String),
    /// A name is missing between two commas.
    #[error("a pass name is missing in `{0}`")]
    Empty(String),
}

impl Pipeline {
    /// The passes that run when nothing else is asked for.
    pub fn standard() -> Self {
        Self { passes: manager::default_pipeline() }
    }
    /// No passes: the module is only read, checked and written.
    pub fn empty() -> Self {
        Self::default()
    }
    /// The passes of a comma-separated list, in its order; the empty list is [`Pipeline::empty`].
    pub fn parse(list: &str) -> Result<Self, PipelineError> {
        if list.trim().is_empty() {
            return Ok(Self::empty());
        }
        let passes = list.split(',').map(|item| named(item.trim(), list)).collect::<Result<_, _>>()?;
        Ok(Self { passes })
    }
    /// The passes.
    pub fn passes(&self) -> &[Box<dyn Pass>] {
        &self.passes
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.passes.iter().map(|pass| pass.name())).finish()
    }
}

/// The pass of one item of `list`.
fn named(item: &str, list: &str) -> Result<Box<dyn Pass>, PipelineError> {
    let (name, options) = item.split_once('{').unwrap_or((item, ""));
    if name.is_empty() {
        return Err(PipelineError::Empty(list.to_owned()));
    }
    let pass = find(name)?;
    if options.is_empty() || options == "}" { Ok(pass) } else { Err(PipelineError::Options(name.to_owned())) }
}

/// The pass called `name`.
pub(crate) fn find(name: &str) -> Result<Box<dyn Pass>, PipelineError> {
    let found = manager::by_names([name])?;
    Ok(found.into_iter().next().expect("one name gives one pass"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_list_is_no_pass_at_all() {
        assert!(Pipeline::parse("").is_ok_and(|pipeline| pipeline.passes().is_empty()));
    }

    #[test]
    fn a_list_keeps_its_order() {
        let names: Vec<_> = hlo_passes::all().iter().map(|pass| pass.name()).rev().collect();
        let pipeline = Pipeline::parse(&names.join(", ")).unwrap();
        assert_eq!(pipeline.passes().iter().map(|pass| pass.name()).collect::<Vec<_>>(), names);
    }

    #[test]
    fn unknown_and_missing_names_are_errors() {
        assert!(matches!(Pipeline::parse("nothing-of-this-name"), Err(PipelineError::Unknown(_))));
        assert_eq!(Pipeline::parse(",").map(|_| ()), Err(PipelineError::Empty(",".to_owned())));
    }
}
