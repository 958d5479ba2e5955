//! `--diff`: what a run changed, as a unified diff of the module's text.

use std::fmt::Write as _;

use similar::{Change, ChangeTag, TextDiff};

/// Red, green and cyan as terminals know them, and the way back.
const COLORS: [&str; 4] = ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[36m", "\u{1b}[0m"];

/// The unified diff of two texts of the module called `name`; empty when they are equal.
pub(crate) fn unified(name: &str, before: &str, after: &str, color: bool) -> String {
    if before == after {
        return String::new();
    }
    let [red, green, cyan, reset] = if color { COLORS } else { [""; 4] };
    let diff = TextDiff::from_lines(before, after);
    let mut out = format!("{red}--- {name}{reset}\n{green}+++ {name}{reset}\n");
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        let _ = writeln!(out, "{cyan}{}{reset}", hunk.header());
        for change in hunk.iter_changes() {
            write_line(&mut out, &change, [red, green, reset]);
        }
    }
    out
}

/// Writes one line of a hunk.
fn write_line(out: &mut String, change: &Change<&str>, [red, green, reset]: [&str; 3]) {
    let (color, end) = match change.tag() {
        ChangeTag::Delete => (red, reset),
        ChangeTag::Insert => (green, reset),
        ChangeTag::Equal => ("", ""),
    };
    let line = change.value().trim_end_matches('\n');
    let _ = writeln!(out, "{color}{}{line}{end}", change.tag());
    if change.missing_newline() {
        let _ = writeln!(out, "\\ No newline at end of file");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_no_diff() {
        assert_eq!(unified("m", "a\n", "a\n", true), "");
    }

    #[test]
    fn a_changed_line_is_shown_with_its_neighbours() {
        let diff = unified("m", "a\nb\nc\n", "a\nB\nc", false);
        assert_eq!(diff, "--- m\n+++ m\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n");
    }
}
