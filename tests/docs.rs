//! The rules of the pages that people read: how long they and their sentences may be, that links, paths, figures and generated pages are true, and that
//! words are the field's.
//!
//! Pages that are made from the sources are written anew by `DOCS_UPDATE=1 cargo test --test docs`.
//!
//! Pins `CONTRIBUTING.md`, `README.md`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "docs/book.rs"]
mod book;
#[path = "docs/changelog.rs"]
mod changelog;
mod common;
#[path = "docs/figures.rs"]
mod figures;
#[path = "docs/pages.rs"]
mod pages;
#[path = "docs/prose.rs"]
mod prose;
#[path = "referee/session.rs"]
#[allow(dead_code, reason = "this test needs the interpreter only")]
mod session;
#[path = "docs/stamps.rs"]
mod stamps;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{root, run, text};
use pages::{all, constant, first_column, generated, is_generated, is_measured, links, paths, read, rows};
use prose::{sentences, words};
use regex::Regex;

/// Most lines of the README, of any other page, and of a line of the plan in words.
const README: usize = 130;
const PAGE: usize = 150;
const PLAN: (usize, usize) = (60, 45);

/// Most words of a sentence, and of the sentences of a page on average.
const SENTENCE: usize = 45;
const AVERAGE: usize = 30;

/// Words that mean something in this tool only, and the field's words for them.
const DIALECT: [(&str, &str); 12] = [
    (r"pays?|paid|on credit", "cost, commit, tentative"),
    (r"touch(es)?", "post-pass"),
    (r"polish(ed|es)?", "post-pass, faster form"),
    (r"at ease", "without a budget"),
    (r"urgent(ly)?", "for a budget"),
    (r"likes", "equal rewrites"),
    (r"loose(ly)?", "inexact"),
    (r"hand(s|ed)? on", "carry, forward"),
    (r"outlook", "upper bound of a saving"),
    (r"foreseen", "known trials"),
    (r"dear", "costly"),
    (r"stems? from", "comes from"),
];

#[test]
fn the_front_page_and_all_pages_are_short() {
    let lines = |page: &Path| read(page).lines().count();
    assert!(lines(Path::new("README.md")) <= README, "README.md has more than {README} lines");
    for page in all().iter().filter(|page| !is_measured(page) && !is_generated(page)) {
        assert!(lines(page) <= PAGE || page.ends_with("CHANGELOG.md"), "{} has more than {PAGE} lines", page.display());
    }
}

#[test]
fn sentences_are_read_once() {
    let mut long = Vec::new();
    for page in all().iter().filter(|page| !is_measured(page)) {
        let sentences = sentences(&read(page));
        let sum: usize = sentences.iter().map(|sentence| words(sentence)).sum();
        if sum > AVERAGE * sentences.len() {
            long.push(format!("{}: {sum} words in {} sentences", page.display(), sentences.len()));
        }
        let over = sentences.iter().filter(|sentence| words(sentence) > SENTENCE);
        long.extend(over.map(|sentence| format!("{}: {} words: {sentence}", page.display(), words(sentence))));
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn the_plan_is_a_list() {
    let plan = read(Path::new("docs/plan.md"));
    assert!(plan.lines().count() <= PLAN.0, "docs/plan.md has more than {} lines", PLAN.0);
    for line in plan.lines() {
        assert!(words(line) <= PLAN.1, "docs/plan.md: {} words in one line: {line}", words(line));
    }
}

#[test]
fn words_are_those_of_the_field() {
    let mut found = Vec::new();
    for page in all().iter().filter(|page| !page.ends_with("log.md")) {
        let sentences = sentences(&read(page));
        for (word, instead) in DIALECT {
            let pattern = Regex::new(&format!(r"(?i)\b({word})\b")).unwrap();
            let spoken = sentences.iter().filter(|sentence| pattern.is_match(sentence));
            found.extend(spoken.map(|sentence| format!("{}: {word} (say: {instead}) in: {sentence}", page.display())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Words of [`DIALECT`] that also mean what they always mean: bytes of a patch that touch others, costs that are paid once.
const PLAIN_IN_CODE: [&str; 3] = ["pays?|paid|on credit", "touch(es)?", "loose(ly)?"];

#[test]
fn comments_have_the_words_of_the_pages() {
    let patterns: Vec<_> = DIALECT
        .iter()
        .filter(|(word, _)| !PLAIN_IN_CODE.contains(word))
        .map(|(word, instead)| (Regex::new(&format!(r"(?i)//.*\b({word})\b")).unwrap(), instead))
        .collect();
    let mut found = Vec::new();
    for path in
        ["ir/src", "memory/src", "passes/src", "src", "python/src"].iter().flat_map(|folder| pages::sources_of(folder))
    {
        for (number, line) in (1..).zip(std::fs::read_to_string(&path).unwrap().lines()) {
            let spoken = patterns.iter().filter(|(pattern, _)| pattern.is_match(line));
            found.extend(spoken.map(|(_, instead)| format!("{}:{number}: (say: {instead}) {line}", path.display())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn links_lead_somewhere() {
    for page in all() {
        for (target, anchor) in links(&page) {
            assert!(root().join(&target).exists(), "{}: there is no {}", page.display(), target.display());
            if let Some(anchor) = anchor {
                let anchors = prose::anchors(&read(&target));
                assert!(anchors.contains(&anchor), "{}: {} has no #{anchor}", page.display(), target.display());
            }
        }
    }
}

#[test]
fn paths_exist() {
    for page in all().iter().filter(|page| !page.ends_with("log.md")) {
        for path in paths(&read(page)) {
            assert!(root().join(&path).exists(), "{}: there is no {path}", page.display());
        }
    }
}

#[test]
fn the_book_has_every_page() {
    let book: BTreeSet<_> = links(Path::new("docs/SUMMARY.md")).into_iter().map(|(target, _)| target).collect();
    for page in all().into_iter().filter(|page| page.starts_with("docs") && !page.ends_with("SUMMARY.md")) {
        assert!(book.contains(&page), "docs/SUMMARY.md does not list {}", page.display());
    }
}

/// Numbers of the front page are moved there, never written there: its rows are those of a page that a command prints, and what they say of XLA:CPU is
/// that of the families.
#[test]
fn figures_of_the_front_page_were_measured() {
    let page = read(Path::new("docs/measured/front-page.md"));
    let families =
        rows(&read(Path::new("docs/measured/families.md")), "Family (`tests/referee/family_programs.py`), MiB by XLA");
    let shown = rows(&read(Path::new("README.md")), "Program, MiB by XLA");
    assert!((8..=14).contains(&shown.len()), "README.md shows {} programs", shown.len());
    for row in shown {
        assert!(page.contains(&row), "docs/measured/front-page.md does not have: {row}");
        let of_cpu = pages::family_row(&row).unwrap_or_else(|| panic!("another form: {row}"));
        assert!(families.contains(&of_cpu), "docs/measured/families.md does not have: {of_cpu}");
    }
}

/// Bounds in the tables of the pages are the constants of the sources that stand beside them.
#[test]
fn bounds_are_those_of_the_sources() {
    let mut count = 0;
    for page in ["docs/limits.md", "docs/how-it-works.md"] {
        for line in read(Path::new(page)).lines().filter(|line| line.starts_with('|')) {
            for (file, name) in pages::constants(line) {
                let value = constant(&text(&file), &name).unwrap_or_else(|| panic!("{page}: {file} has no {name}"));
                let spellings = prose::spellings(value);
                let stated = spellings.iter().any(|number| line.contains(number));
                assert!(stated, "{page}: {name} is one of {spellings:?}: {line}");
                count += 1;
            }
        }
    }
    assert!(count >= 10, "only {count} bounds are compared");
}

#[test]
fn the_glossary_has_the_terms_of_the_field() {
    let terms = first_column(&read(Path::new("docs/glossary.md")));
    assert!(terms.len() >= 20, "{} terms", terms.len());
    for term in ["rematerialization", "live range", "allocation", "residual", "trip count", "peak", "floor", "grade"] {
        assert!(terms.iter().any(|other| other == term), "the glossary lacks {term}");
    }
}

#[test]
fn every_code_of_the_passes_is_explained() {
    let page = read(Path::new("docs/reason-codes.md"));
    let missing: Vec<_> = pages::codes().into_iter().filter(|code| !page.contains(&format!("`{code}`"))).collect();
    assert!(missing.is_empty(), "docs/reason-codes.md does not have {missing:?}");
}

/// Pages of passes are what `--explain` prints, and the table of rules is that of the sources.
#[test]
fn generated_pages_are_up_to_date() {
    let list = run(["--list-passes"]).stdout;
    let explain = |name: &str| run(["--explain", name]).stdout;
    let expected = generated(&list, explain);
    for (path, page) in &expected {
        let path = root().join(path);
        if std::env::var_os("DOCS_UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, page).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == *page, "{} is old: DOCS_UPDATE=1 cargo test --test docs", path.display());
    }
    for kept in root().join("docs/passes").read_dir().unwrap().map(|entry| entry.unwrap().file_name()) {
        let path = Path::new("docs/passes").join(kept);
        assert!(expected.iter().any(|(page, _)| page == &path), "{} is no pass", path.display());
    }
}

/// The picture is drawn from a report of the founding program.
#[test]
fn the_picture_is_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let done = run(["corpus/founding/s32.before.hlo", "-q", "-o", "/dev/null", "--report", report.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done}");
    let drawing =
        Command::new(session::python()).arg(root().join("examples/drawing.py")).arg(&report).output().unwrap();
    assert!(drawing.status.success(), "{}", String::from_utf8_lossy(&drawing.stderr));
    assert!(
        String::from_utf8(drawing.stdout).unwrap() == text("docs/memory.svg"),
        "docs/memory.svg is old: the README has the command"
    );
}
