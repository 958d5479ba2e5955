//! The pages of the repository, what they name, and those that are made from the sources.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::common::{root, text};

/// Every page, from the root of the repository.
pub(crate) fn all() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "corpus/README.md"].map(PathBuf::from).into();
    collect(Path::new("docs"), &mut pages);
    assert!(pages.len() > 30, "the pages are not where this test looks for them");
    pages
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    entries.sort();
    for path in entries.into_iter().map(|name| folder.join(name)) {
        if root().join(&path).is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// The text of a page.
pub(crate) fn read(page: &Path) -> String {
    text(page.to_str().unwrap())
}

/// Tables of figures and logs: written by the commands that measure.
pub(crate) fn is_measured(page: &Path) -> bool {
    page.starts_with("docs/measured")
}

/// Pages that a test writes from the sources, and the list of the book.
pub(crate) fn is_generated(page: &Path) -> bool {
    page.starts_with("docs/passes")
        || ["docs/passes.md", "docs/rules.md", "docs/SUMMARY.md"].iter().any(|name| page == Path::new(name))
}

/// Relative links of a page: the file from the root of the repository, and the anchor.
pub(crate) fn links(page: &Path) -> Vec<(PathBuf, Option<String>)> {
    links_of(page, &read(page))
}

/// Relative links of a text that stands in the place of a page.
pub(crate) fn links_of(page: &Path, text: &str) -> Vec<(PathBuf, Option<String>)> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let source = without_code(text);
    let mut found = Vec::new();
    for target in link.captures_iter(&source).map(|link| link.get(1).unwrap().as_str()) {
        if target.contains("://") {
            continue;
        }
        let (file, anchor) =
            target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor.to_owned())));
        let file = if file.is_empty() { page.to_owned() } else { normal(&page.parent().unwrap().join(file)) };
        found.push((file, anchor));
    }
    found
}

/// `a/../b` is `b`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(parts.pop(), "{} leaves the repository", path.display()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts
}

fn without_code(page: &str) -> String {
    let fenced = Regex::new(r"(?s)```.*?```").unwrap();
    let spans = Regex::new(r"`[^`\n]*`").unwrap();
    spans.replace_all(&fenced.replace_all(page, ""), "").into_owned()
}

/// Files of the repository that a page names in code spans.
pub(crate) fn paths(page: &str) -> Vec<String> {
    let span =
        Regex::new(r"`((?:docs|src|tests|passes|memory|ir|python|corpus|examples|benches|fuzz)/[\w./-]*)`").unwrap();
    let placeholder = Regex::new(r"[A-Z]{3,}|_pass\b|your").unwrap();
    let named = span.captures_iter(page).map(|span| span[1].to_owned());
    named
        .filter(|path| !placeholder.is_match(path.trim_end_matches("README.md")))
        .filter(|path| in_corpus(path).is_none())
        .collect()
}

/// A program of the corpus is named without its endings.
fn in_corpus(path: &str) -> Option<()> {
    let program = path.strip_prefix("corpus/").filter(|path| !path.contains('.') && path.matches('/').count() == 1)?;
    root().join("corpus").join(format!("{program}.before.hlo")).exists().then_some(())
}

/// Rows of the table whose first heading is this, without the heading.
pub(crate) fn rows(page: &str, heading: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| !line.starts_with(&format!("| {heading} |"))).skip(2);
    lines.take_while(|line| line.starts_with('|')).map(str::to_owned).collect()
}

/// The row of a family that a row of the front page repeats: name, floor, grade, totals by XLA:CPU and run time stand in it first.
pub(crate) fn family_row(row: &str) -> Option<String> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let ["", name, floor, grade, totals, time, ..] = cells[..] else { return None };
    let (before, after) = totals.split_once(" -> ").unwrap_or((totals, totals));
    Some(format!("| {name} | {before} | {after} | {floor} | {grade} | {time} |"))
}

/// The first cells of all tables of a page.
pub(crate) fn first_column(page: &str) -> Vec<String> {
    let cell = |line: &str| line.split('|').nth(1).map(|cell| cell.trim().to_owned());
    page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Term")).filter_map(cell).collect()
}

/// Constants that a row of a table names: a file and, behind it, a name in capitals.
pub(crate) fn constants(line: &str) -> Vec<(String, String)> {
    let span = Regex::new(r"`([\w/.-]+\.rs)` `([A-Z_]+)`").unwrap();
    span.captures_iter(line).map(|span| (span[1].to_owned(), span[2].to_owned())).collect()
}

/// The value of a constant of a source file: a number, or one that is shifted.
pub(crate) fn constant(source: &str, name: &str) -> Option<f64> {
    let pattern = format!(r"const {name}: [\w:]+ = (?:Bytes\()?([\d_.e]+)(?: << (\d+))?\)?;");
    let found = Regex::new(&pattern).unwrap().captures(source)?;
    let number: f64 = found[1].replace('_', "").parse().ok()?;
    let shift: u32 = found.get(2).map_or(0, |shift| shift.as_str().parse().unwrap());
    Some(number * f64::from(1_u32 << shift))
}

/// Reason codes that stand in the sources of the passes.
pub(crate) fn codes() -> BTreeSet<String> {
    let code = Regex::new(r#"\bcode: "([a-z-]+)""#).unwrap();
    let mut found = BTreeSet::new();
    for file in sources_of("passes/src") {
        let source = fs::read_to_string(file).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap();
        found.extend(code.captures_iter(source).map(|code| code[1].to_owned()));
    }
    assert!(found.len() > 20, "codes are not written as this test reads them");
    found
}

/// Rust files below a folder.
pub(crate) fn sources_of(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    sources(&root().join(folder), &mut files);
    assert!(!files.is_empty(), "{folder} has no sources");
    files
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Pages made from what the command says of its passes (`list`, `explain`) and from the table of rules.
pub(crate) fn generated(list: &str, explain: impl Fn(&str) -> String) -> Vec<(PathBuf, String)> {
    let mut index = "# Passes\n\n<!-- Made by DOCS_UPDATE=1 cargo test --test docs from what the tool says; not edited by hand. -->\n\n\
                     Each page is what `hlo-opt --explain PASS` prints: the waste, before and after, why the rewrite is sound, its grade, and when it stays away. \
                     A last line leads to its source and its tests.\n\n\
                     | Pass | Kind | What it does |\n|---|---|---|\n"
        .to_owned();
    let mut book = String::new();
    let mut pages = Vec::new();
    for line in list.lines() {
        let (name, rest) = line.split_once(' ').unwrap();
        let (kind, summary) = rest.trim_start().split_once(' ').unwrap();
        writeln!(index, "| [`{name}`](passes/{name}.md) | {kind} | {} |", summary.trim()).unwrap();
        writeln!(book, "  - [{name}](passes/{name}.md)").unwrap();
        let page = format!(
            "# {name}\n\n<!-- Made by DOCS_UPDATE=1 cargo test --test docs; the text is the header of the pass. -->\n\n{}\n\n{}\n",
            with_links(explain(name).trim()),
            footer(name)
        );
        pages.push((PathBuf::from(format!("docs/passes/{name}.md")), page));
    }
    index.push_str(
        "\nA `rewrite` is kept if the estimated peak falls, a `clean-up` if it does not rise; the default pipeline keeps clean-ups and forms only where a rewrite \
         then gains, and reports those as `enabling`. A change for `speed` is made once the search has ended, in what rewrites made, and may take a little memory. A `form` is another \
         spelling of the module. An `analysis` changes nothing and makes remarks.\n",
    );
    pages.push(("docs/passes.md".into(), index));
    pages.push(("docs/rules.md".into(), rules()));
    pages.push(("docs/SUMMARY.md".into(), with_passes(&text("docs/SUMMARY.md"), &book)));
    pages
}

/// The text with links in the place of the pages that it names in code spans.
fn with_links(text: &str) -> String {
    let page = Regex::new(r"`docs/([\w./-]+\.md)(#[\w-]+)?`").unwrap();
    page.replace_all(text, "[docs/$1](../$1$2)").into_owned()
}

/// Where a pass and its tests stand, and the pages behind the words of its own.
fn footer(name: &str) -> String {
    let source = format!("passes/src/{}.rs", name.replace('-', "_"));
    let code = text(&source);
    let is_test = |part: &&str| {
        part.starts_with("passes/tests/") || part.starts_with("tests/") && !part.starts_with("tests/referee/")
    };
    let named = code.split('`').filter(is_test);
    let tests: BTreeSet<String> = named.map(|path| format!("[{path}](../../{path})")).collect();
    let tests = if tests.is_empty() { "in the source".to_owned() } else { Vec::from_iter(tests).join(", ") };
    format!(
        "---\n\nCode: [{source}](../../{source}). Tests: {tests}. See also: [grades](../grades.md), [rules of dimension flow](../rules.md)."
    )
}

/// The list of the book with these lines for the pages of passes.
fn with_passes(summary: &str, book: &str) -> String {
    let others: Vec<&str> = summary.lines().filter(|line| !line.contains("](passes/")).collect();
    let at = others.iter().position(|line| line.contains("](passes.md)")).expect("the book has a list of passes");
    format!("{}\n{book}{}\n", others[..=at].join("\n"), others[at + 1..].join("\n"))
}

/// Opcode by opcode: the function with the rule of dimension flow, and the function that draws cases for its test.
fn rules() -> String {
    let rule = Regex::new(r"\(&\[Opcode::(\w+)\], (\w+)::(\w+)").unwrap();
    let case = Regex::new(r#"\("([^"]+)", (\w+)::(\w+)\)"#).unwrap();
    let (sources, tests) = (text("passes/src/flow/mod.rs"), text("passes/tests/flow_cases/mod.rs"));
    let cases: Vec<_> =
        case.captures_iter(&tests).map(|case| (case[1].to_owned(), case[2].to_owned(), case[3].to_owned())).collect();
    let mut page = "# Rules of dimension flow\n\n<!-- Made by DOCS_UPDATE=1 cargo test --test docs from the sources; not edited by hand. -->\n\n\
                    Which rows of its operands a block of rows of a result needs: one rule per opcode, in `passes/src/flow`. `passes/tests/flow.rs` holds every \
                    rule against an interpreter, on random instructions, in the test `blocks_of_the_result_come_from_blocks_of_the_operands`: \
                    `cargo test -p hlo-passes --test all flow::`. Its snapshot pins what each rule answers: \
                    `passes/tests/snapshots/all__flow__blocks_of_the_result_come_from_blocks_of_the_operands.snap`; the comment on `name` in that test \
                    explains its letters. The functions in the last column, in `passes/tests`, draw the instructions. `hlo-opt --explain OPCODE` prints a row.\n\n\
                    A value whose opcode has no rule stays in memory; the loop reads it from there. What a loop ends in (its sinks) is decided in \
                    `passes/src/chunk/sink.rs`.\n\n\
                    | Opcode | What a block of rows needs | Rule | Cases |\n|---|---|---|---|\n"
        .to_owned();
    let shared = ("elementwise".to_owned(), "movement".to_owned(), "elementwise".to_owned());
    let rows = rule.captures_iter(&sources).map(|row| (kebab(&row[1]), row[2].to_owned(), row[3].to_owned()));
    for (opcode, rules, function) in std::iter::once(shared).chain(rows) {
        let words = documented(&format!("passes/src/flow/{rules}.rs"), &function);
        let drawn = |name: &str| {
            name == opcode
                || ["of", "to", "in", "with"].iter().any(|word| name.starts_with(&format!("{opcode} {word} ")))
        };
        for (_, file, _) in cases.iter().filter(|case| drawn(&case.0)) {
            name_each_other(&format!("passes/src/flow/{rules}.rs"), &format!("passes/tests/flow_cases/{file}.rs"));
        }
        let drawn: Vec<_> = cases
            .iter()
            .filter(|case| drawn(&case.0))
            .map(|case| format!("`flow_cases/{}.rs`, `{}`", case.1, case.2))
            .collect();
        assert!(!drawn.is_empty(), "no case of passes/tests/flow_cases is called after `{opcode}`");
        writeln!(page, "| {} | {words} | `flow/{rules}.rs`, `{function}` | {} |", cell(&opcode), drawn.join("; "))
            .unwrap();
    }
    page
}

/// What stands in the first column: the opcode, or what is said of those that share a rule outside of the table.
fn cell(opcode: &str) -> String {
    match opcode {
        "elementwise" => "elementwise (`is_elementwise` in `ir/src/opcode.rs`)".to_owned(),
        opcode => format!("`{opcode}`"),
    }
}

/// The first paragraph of the comment on a function.
fn documented(file: &str, function: &str) -> String {
    let source = text(file);
    let lines: Vec<&str> = source.lines().collect();
    let at = lines.iter().position(|line| line.starts_with(&format!("pub(super) fn {function}("))).unwrap();
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("///"));
    let mut comment: Vec<&str> = above.filter_map(|line| line.strip_prefix("///")).map(str::trim).collect();
    comment.reverse();
    let paragraph: Vec<&str> = comment.into_iter().take_while(|line| !line.is_empty()).collect();
    assert!(!paragraph.is_empty(), "{file}: `{function}` does not say in words what a block needs");
    paragraph.join(" ")
}

/// The headers of a file of rules and of a file of cases for them.
fn name_each_other(rules: &str, cases: &str) {
    for (file, other) in [(rules, cases), (cases, rules)] {
        let source = text(file);
        let mut header = source.lines().take_while(|line| line.starts_with("//!"));
        assert!(header.any(|line| line.contains(&format!("`{other}`"))), "the header of {file} does not name {other}");
    }
}

fn kebab(opcode: &str) -> String {
    if opcode == "TopK" {
        return "topk".to_owned();
    }
    let mut name = String::new();
    for letter in opcode.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}
