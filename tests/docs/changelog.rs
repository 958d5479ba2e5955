//! The changelog: sections of Keep a Changelog, and one line for each change, which one reads at a glance.

use std::collections::BTreeSet;

use regex::Regex;

use crate::common::text;
use crate::prose::words;

/// Most words of a line.
const LINE: usize = 40;

#[test]
fn each_change_has_one_line_in_a_section() {
    let log = text("CHANGELOG.md");
    let release = Regex::new(r"^## \[(Unreleased|\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d)").unwrap();
    let sections = ["### Added", "### Changed", "### Deprecated", "### Removed", "### Fixed", "### Security"];
    let mut seen = BTreeSet::new();
    let changes = log.lines().skip_while(|line| !line.starts_with("## "));
    for line in changes.filter(|line| !line.is_empty()) {
        let is_heading = release.is_match(line) || sections.contains(&line) || line.starts_with("#### ");
        assert!(is_heading || line.starts_with("- "), "CHANGELOG.md: a change has one line: {line}");
        assert!(is_heading || words(line) <= LINE, "CHANGELOG.md: {} words: {line}", words(line));
        assert!(is_heading || seen.insert(line), "CHANGELOG.md has this twice: {line}");
    }
    assert!(log.contains("\n## [Unreleased]\n"), "CHANGELOG.md: where do changes go?");
    assert!(seen.len() > 100, "CHANGELOG.md is not read");
}
