//! `--explain NAME`: the page of a pass, or what a grade, the code of a remark, a term of the
//! glossary or an opcode's rule of dimension flow means, from the tables of the documentation.

// Tests: `tests/cli.rs`.

use crate::pipeline::{self, PipelineError};

/// Pages whose tables say what the word in their first column means.
const PAGES: [(&str, &str); 4] = [
    ("grade", include_str!("../docs/grades.md")),
    ("code of a remark", include_str!("../docs/reason-codes.md")),
    ("term", include_str!("../docs/glossary.md")),
    ("rule of dimension flow", include_str!("../docs/rules.md")),
];

/// What is known of a name.
pub(crate) fn page(name: &str) -> Result<String, PipelineError> {
    let unknown = match pipeline::find(name) {
        Ok(pass) => return Ok(format!("{}\n", pass.explanation().trim_end())),
        Err(unknown) => unknown,
    };
    let found: Vec<String> = PAGES.iter().flat_map(|(kind, text)| entries(name, kind, text)).collect();
    if found.is_empty() { Err(unknown) } else { Ok(found.join("\n")) }
}

/// The rows of a page's tables about a name, each as a heading and one line for each further column.
fn entries(name: &str, kind: &str, text: &str) -> Vec<String> {
    let (mut header, mut found) = (Vec::new(), Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let cells = cells(line);
        if lines.peek().is_some_and(|next| next.starts_with("|---")) {
            header = cells;
        } else if cells.first().is_some_and(|first| first == name) {
            let rest = header.iter().zip(&cells).skip(1).filter(|(_, cell)| !cell.is_empty());
            let rest: Vec<String> = rest.map(|(column, cell)| format!("  {column}: {cell}\n")).collect();
            found.push(format!("{name} ({kind})\n{}", rest.concat()));
        }
    }
    found
}

/// The cells of a row of a table as plain text.
fn cells(line: &str) -> Vec<String> {
    let Some(row) = line.strip_prefix("| ").and_then(|row| row.trim_end().strip_suffix('|')) else { return Vec::new() };
    row.split('|').map(|cell| plain(cell.trim())).collect()
}

/// Text without the marks of code and links.
fn plain(cell: &str) -> String {
    let (mut text, mut rest) = (String::new(), cell);
    while let Some((before, (words, after))) =
        rest.split_once('[').and_then(|(before, link)| Some((before, linked(link)?)))
    {
        text = text + before + words;
        rest = after;
    }
    (text + rest).replace('`', "")
}

/// The words of a link whose bracket was read already, and what follows it.
fn linked(link: &str) -> Option<(&str, &str)> {
    let (words, target) = link.split_once("](")?;
    Some((words, target.split_once(')')?.1))
}
