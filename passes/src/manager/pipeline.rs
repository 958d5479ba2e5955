//! Which passes run: the default pipeline, or the ones the user names.

use hlo_ir::Module;

use crate::{Context, Finding, Pass, PassKind};

/// Every pass as a plain run uses it, in the order of the registry: clean-ups and other forms are kept only where a rewrite gains because of them.
pub fn default_pipeline() -> Vec<Box<dyn Pass>> {
    let planned = |pass: Box<dyn Pass>| match pass.kind() {
        PassKind::CleanUp | PassKind::Form => Box::new(Enabling(pass)) as Box<dyn Pass>,
        _ => pass,
    };
    crate::registry().into_iter().map(planned).collect()
}

/// The passes named, in that order.
pub fn by_names<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Vec<Box<dyn Pass>>, UnknownPass> {
    names.into_iter().map(|name| by_name(name.as_ref())).collect()
}

fn by_name(name: &str) -> Result<Box<dyn Pass>, UnknownPass> {
    let mut valid = Vec::new();
    for pass in crate::all() {
        if pass.name() == name {
            return Ok(pass);
        }
        valid.push(pass.name());
    }
    let suggestion = valid.iter().copied().min_by_key(|other| distance(name, other));
    let suggestion = suggestion.filter(|other| distance(name, other) <= other.len().div_ceil(3));
    Err(UnknownPass { name: name.to_owned(), suggestion, valid })
}

/// A pass name that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no pass `{name}`{}; the passes are {}", did_you_mean(*.suggestion), .valid.join(", "))]
pub struct UnknownPass {
    /// What was asked for.
    pub name: String,
    /// The pass that may have been meant.
    pub suggestion: Option<&'static str>,
    /// Every pass there is, in alphabetical order.
    pub valid: Vec<&'static str>,
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// Letters to insert, delete or replace to get from `a` to `b` (Levenshtein distance).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A pass whose changes are kept only when a rewrite gains because of them.
struct Enabling(Box<dyn Pass>);

impl Pass for Enabling {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn summary(&self) -> &'static str {
        self.0.summary()
    }
    fn explanation(&self) -> &'static str {
        self.0.explanation()
    }
    fn kind(&self) -> PassKind {
        PassKind::Enabling
    }
    fn accompanies(&self) -> bool {
        self.0.accompanies()
    }
    fn comes_first(&self, module: &Module) -> bool {
        self.0.comes_first(module)
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        self.0.find_where_needed(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_list_the_valid_ones() {
        let error = by_names(["dead-kode"]).err().expect("no such pass");
        assert_eq!(error.suggestion, Some("dead-code"));
        assert!(error.to_string().contains("(did you mean `dead-code`?); the passes are "), "{error}");
        assert_eq!(by_names(["zzz"]).err().expect("no such pass").suggestion, None);
    }

    #[test]
    fn names_are_kept_in_order() {
        let passes = by_names(["inline-calls", "dead-code"]).expect("both exist");
        assert_eq!(passes.iter().map(|pass| pass.name()).collect::<Vec<_>>(), ["inline-calls", "dead-code"]);
        assert!(by_names(Vec::<String>::new()).expect("no names is fine").is_empty());
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!((distance("", "abc"), distance("abc", "abc"), distance("chunk", "chnk")), (3, 0, 1));
    }
}
