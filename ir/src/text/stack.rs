//! The four stack-frame tables behind the header, and the source line each frame stands for.
//!
//! `metadata={... stack_frame_id=k}` means the `k`-th entry of `StackFrames`, counted from 1 by position: the numbers written
//! before the entries do not count. A frame names a location, a location a file and a line. (`parent_frame_id` is stored plus
//! one: 1 means no parent, `k + 1` means frame `k`.)

use nom::Parser;
use smol_str::SmolStr;

use super::errors;
use super::lex::{self, Problem, Res, bare_integer, bare_word, integer, keyword, skip_blank, string, symbol, unescape};
use crate::SourceLine;
use crate::module::StackTables;

/// The tables, or empty tables if the text has none. All four come together, in this order.
pub(super) fn tables(input: &str) -> Res<'_, StackTables> {
    let start = skip_blank(input);
    let Ok((rest, _)) = keyword("FileNames").parse(start) else { return Ok((input, StackTables::default())) };
    let (rest, files) = strings(rest)?;
    let (rest, names) = strings(table(rest, "FunctionNames")?)?;
    let (rest, locations) = entries(table(rest, "FileLocations")?)?;
    let (rest, frames) = entries(table(rest, "StackFrames")?)?;
    let text = start[..start.len() - rest.len()].trim_end();
    let lines = frames.iter().map(|frame| source_line(frame, &locations, &files)).collect();
    let functions = frames.iter().map(|frame| function(frame, &locations, &names)).collect();
    let parents = frames.iter().map(parent).collect();
    Ok((rest, StackTables { text: text.into(), frames: lines, functions, parents, source_root: None }))
}

/// The head of a table.
fn table<'a>(input: &'a str, head: &'static str) -> Result<&'a str, nom::Err<Problem<'a>>> {
    match keyword(head).parse(input) {
        Ok((rest, _)) => Ok(rest),
        Err(_) => Err(errors::expected(&format!("the `{head}` table"), skip_blank(input))),
    }
}

/// `1 "a" 2 "b"`, unescaped.
fn strings(mut input: &str) -> Res<'_, Vec<SmolStr>> {
    let mut values = Vec::new();
    while let Ok((rest, _)) = integer(input) {
        let Ok((rest, text)) = string(rest) else { return Err(errors::expected("a string", skip_blank(rest))) };
        values.push(unescape(text).into());
        input = rest;
    }
    Ok((input, values))
}

/// Keys and values of one entry.
type Entry<'a> = Vec<(&'a str, i64)>;

/// `1 {a=1 b=2} 2 {...}`.
fn entries(mut input: &str) -> Res<'_, Vec<Entry<'_>>> {
    let mut values = Vec::new();
    while let Ok((rest, _)) = integer(input) {
        let (rest, entry) = entry(rest)?;
        values.push(entry);
        input = rest;
    }
    Ok((input, values))
}

fn entry(input: &str) -> Res<'_, Entry<'_>> {
    let Ok((mut input, ())) = symbol('{').parse(input) else {
        return Err(errors::expected("`{`", skip_blank(input)));
    };
    let mut values = Vec::new();
    loop {
        let at = skip_blank(input);
        if let Some(rest) = at.strip_prefix('}') {
            return Ok((rest, values));
        }
        let (rest, pair) = pair(at).map_err(|_: nom::Err<lex::Problem<'_>>| errors::expected("`key=number`", at))?;
        values.push(pair);
        input = rest;
    }
}

fn pair(at: &str) -> Res<'_, (&str, i64)> {
    let (rest, key) = bare_word(at)?;
    let (rest, ()) = symbol('=').parse(rest)?;
    let (rest, value) = bare_integer(skip_blank(rest))?;
    Ok((rest, (key, value)))
}

/// The source line of a frame; an empty file name if an id dangles, so that the positions of the other frames stay right.
fn source_line(frame: &Entry<'_>, locations: &[Entry<'_>], files: &[SmolStr]) -> SourceLine {
    let location = field(frame, "file_location_id").and_then(|id| by_position(locations, id));
    let file = location.and_then(|location| by_position(files, field(location, "file_name_id")?));
    let line = location.and_then(|location| field(location, "line"));
    SourceLine { file: file.cloned().unwrap_or_default(), line: line.unwrap_or_default() }
}

/// The name of the function a frame stands in; empty if the tables do not say.
fn function(frame: &Entry<'_>, locations: &[Entry<'_>], names: &[SmolStr]) -> SmolStr {
    let location = field(frame, "file_location_id").and_then(|id| by_position(locations, id));
    let name = location.and_then(|location| by_position(names, field(location, "function_name_id")?));
    name.cloned().unwrap_or_default()
}

/// The frame that called this one, counted from 1; 0 if there is none.
fn parent(frame: &Entry<'_>) -> usize {
    let stored = field(frame, "parent_frame_id").and_then(|id| usize::try_from(id).ok());
    stored.and_then(|id| id.checked_sub(1)).unwrap_or(0)
}

fn field(entry: &Entry<'_>, key: &str) -> Option<i64> {
    entry.iter().find(|(name, _)| *name == key).map(|&(_, value)| value)
}

/// The entry at a position counted from 1.
fn by_position<T>(table: &[T], position: i64) -> Option<&T> {
    table.get(usize::try_from(position).ok()?.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_by_position_and_name_file_and_line() {
        let text = "FileNames\n7 \"a.py\"\n9 \"b\\\"q.py\"\n\nFunctionNames\n1 \"f\"\n\nFileLocations\n\
            1 {file_name_id=2 function_name_id=1 line=10 end_line=10 column=4 end_column=9}\n\
            2 {line=3 file_name_id=1}\n\nStackFrames\n1 {file_location_id=2 parent_frame_id=1}\n\
            2 {file_location_id=1 parent_frame_id=2}\n3 {file_location_id=7 parent_frame_id=1}\n\n\nENTRY";
        let (rest, tables) = tables(text).expect("tables");
        assert_eq!(skip_blank(rest), "ENTRY");
        let line = |file: &str, line| SourceLine { file: file.into(), line };
        assert_eq!(tables.frames, [line("a.py", 3), line("b\"q.py", 10), line("", 0)]);
        assert_eq!(tables.functions, ["", "f", ""]);
        assert_eq!(tables.parents, [0, 1, 0]);
        assert!(text.starts_with(tables.text.as_str()) && tables.text.ends_with('}'));
    }
}
