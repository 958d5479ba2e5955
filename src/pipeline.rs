//! Which passes run: the standard pipeline, or the list given with `--passes`.

use hlo_passes::Pass;

/// The passes of a run, in order.
#[derive(Default)]
pub struct Pipeline {
    passes: Vec<Box<dyn Pass>>,
}

/// Why a list of passes makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PipelineError {
    /// No pass has this name.
    #[error("there is no pass `{name}`{}", closest(.suggestion.as_deref(), .known))]
    Unknown {
        /// The name as given.
        name: String,
        /// The pass with the most similar name, if one is similar.
        suggestion: Option<String>,
        /// Every name.
        known: Vec<&'static str>,
    },
    /// The pass takes no options.
    #[error("pass `{0}` takes no options")]
    Options(String),
    /// A name is missing between two commas.
    #[error("a pass name is missing in `{0}`")]
    Empty(String),
}

/// The help behind an unknown name.
fn closest(suggestion: Option<&str>, known: &[&str]) -> String {
    match suggestion {
        Some(name) => format!("; did you mean `{name}`?"),
        None => format!("; there are: {}", known.join(", ")),
    }
}

impl Pipeline {
    /// The passes that run when nothing else is asked for.
    pub fn standard() -> Self {
        Self { passes: hlo_passes::manager::default_pipeline() }
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
    let mut passes = hlo_passes::all();
    if let Some(index) = passes.iter().position(|pass| pass.name() == name) {
        return Ok(passes.swap_remove(index));
    }
    let known: Vec<_> = passes.iter().map(|pass| pass.name()).collect();
    let similar = known.iter().map(|known| (likeness(known, name), *known)).filter(|(score, _)| *score > 0.6);
    let suggestion = similar.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known.to_owned());
    Err(PipelineError::Unknown { name: name.to_owned(), suggestion, known })
}

/// Share of the characters of two words that agree in order, from 0 to 1.
fn likeness(a: &str, b: &str) -> f32 {
    similar::TextDiff::from_chars(a, b).ratio()
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
        assert!(matches!(Pipeline::parse("nothing-of-this-name"), Err(PipelineError::Unknown { .. })));
        assert_eq!(Pipeline::parse(",").map(|_| ()), Err(PipelineError::Empty(",".to_owned())));
    }
}
