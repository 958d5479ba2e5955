//! Which passes run: the default pipeline, or the ones the user names.

use crate::inline_calls::InlineCalls;
use crate::{Context, Finding, Pass, PassKind};

/// Every pass that a plain run uses. The manager takes the best rewrite wherever it stands, so the order decides only between equals.
pub fn default_pipeline() -> Vec<Box<dyn Pass>> {
    vec![
        // The smallest change to the text: of two rewrites with the same gain it should win.
        Box::new(crate::direct_index::DirectIndex),
        Box::new(crate::chunk::Chunk),
        Box::new(crate::loop_residuals::LoopResiduals),
        Box::new(crate::loop_inputs::LoopInputs),
        // After the block loops: where both gain the same, no loop around all copies is needed.
        Box::new(crate::roll::Roll),
        // Behind roll: a loop also makes the module smaller.
        Box::new(crate::tie::Tie),
        // Behind the loops: where those gain as much, the values stay as the program has them.
        Box::new(crate::own_slice::OwnSlice),
        // Changes nothing: it only speaks.
        Box::new(crate::replication::Replication),
        // Elements of tuples inside a loop's state are seen by no pass that looks at loops. Before the next one: where this is enough, calls stay calls.
        Box::new(Enabling(Box::new(crate::flat_state::FlatState))),
        // Calls hide producers from the rewrites above. A call is inlined only where a rewrite then gains; others stay calls.
        Box::new(Enabling(Box::new(InlineCalls::where_needed()))),
        // Rows that are batches can be cut into blocks.
        Box::new(Enabling(Box::new(crate::row_index::RowIndex))),
        // What loops write once is copied all the same where a product wants it transposed.
        Box::new(Enabling(Box::new(crate::dot_operands::DotOperands))),
        // Nothing can be rewritten in what the compiler made of a program; its plain form is taken where a rewrite of that gains.
        Box::new(Enabling(Box::new(crate::unfuse::Unfuse))),
        // A dead user can hold a value that a rewrite wants to drop. Last, because inlining may leave dead code behind.
        Box::new(Enabling(Box::new(crate::dead_code::DeadCode))),
    ]
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
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        self.0.find(context)
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
