//! Sentences, words and anchors of a page in Markdown.

use std::collections::BTreeSet;

use regex::Regex;

/// The sentences of a page; code blocks, tables, headings and comments are none. A code span is one word.
pub(crate) fn sentences(page: &str) -> Vec<String> {
    let code = Regex::new(r"`[^`]*`").unwrap();
    let link = Regex::new(r"!?\[([^\]]*)\]\([^)]*\)").unwrap();
    let ends = Regex::new(r"[.!?][)*_]*(\s+|$)").unwrap();
    let mut found = Vec::new();
    for unit in units(page) {
        let plain = code.replace_all(&unit, "CODE");
        let plain = link.replace_all(&plain, "$1");
        let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        found.extend(ends.split(&plain).filter(|sentence| words(sentence) > 0).map(str::to_owned));
    }
    found
}

/// Paragraphs and items of lists.
pub(crate) fn units(page: &str) -> Vec<String> {
    let item = Regex::new(r"^\s*([-*]|\d+\.)\s+").unwrap();
    let mut units = vec![String::new()];
    let (mut fenced, mut blank) = (false, true);
    for line in page.lines() {
        let code = line.starts_with("    ") && blank;
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            units.push(String::new());
        } else if fenced || code {
            continue;
        } else if line.trim().is_empty() || ["|", "#", "<!--"].iter().any(|mark| line.starts_with(mark)) {
            units.push(String::new());
        } else {
            if item.is_match(line) {
                units.push(String::new());
            }
            let unit = units.last_mut().expect("there is a first unit");
            unit.push(' ');
            unit.push_str(&item.replace(line, ""));
        }
        blank = line.trim().is_empty();
    }
    units
}

/// Words of a sentence: what holds a letter or a digit.
pub(crate) fn words(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

/// Anchors of a page's headings, as code hosts make them.
pub(crate) fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| -> String {
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// How a number of the sources may be written in a table: itself, as a percentage, in KiB, MiB or GiB.
pub(crate) fn spellings(value: f64) -> Vec<String> {
    let mut found = vec![grouped(value), format!("{} %", value * 100.0)];
    for (unit, name) in [(1_u64 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB")] {
        found.push(format!("{} {name}", value / unit as f64));
    }
    found
}

/// With a comma before every three digits, as pages have it.
fn grouped(value: f64) -> String {
    let digits = value.to_string();
    if value.fract() != 0.0 || digits.len() <= 4 && value < 1000.0 {
        return digits;
    }
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[test]
fn the_reader_reads() {
    let page = "# Head. Line\n\nOne `a. b` two. Three\nfour!\n\n    code here\n\n- five\n  six. [Seven](eight)\n- nine\n\n| a | b |\n\n```\nx\n```\nTen.\n";
    assert_eq!(sentences(page), ["One CODE two", "Three four", "five six", "Seven", "nine", "Ten"]);
    assert_eq!(words("One CODE - two"), 3);
    assert!(anchors("## What a *rewrite* may cost\n").contains("what-a-rewrite-may-cost"));
    assert!(spellings(16_000_000.0).contains(&"16,000,000".to_owned()));
    assert!(spellings(0.3).contains(&"30 %".to_owned()) && spellings(134_217_728.0).contains(&"128 MiB".to_owned()));
}
