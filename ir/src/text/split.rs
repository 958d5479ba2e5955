//! Files of several modules: taking them apart and putting them together.
//!
//! XLA's parser reads one module; its tools take a file apart at lines of `// -----` first, as other compilers' testing tools do.

use super::skip_blank;

/// The line between two modules of a file.
const SEPARATOR: &str = "// -----";

/// One module's part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'t> {
    /// The text of the module.
    pub text: &'t str,
    /// Where it begins in the file, in bytes; [`Diagnostic::shifted`](crate::Diagnostic::shifted) turns places in the piece into places in
    /// the file.
    pub offset: usize,
}

/// The modules of a file, divided by lines of `// -----` or, where these are missing, by the next line that begins with `HloModule`. Parts
/// of nothing but blanks and comments are left out; a file of nothing else is one piece.
///
/// ```
/// use hlo_ir::text;
///
/// let file = "HloModule a\nENTRY e { x = f32[] parameter(0) }\n\n// -----\n\nHloModule b\nENTRY e { y = f32[] parameter(0) }\n";
/// let names = text::pieces(file).into_iter().map(|piece| text::parse(piece.text).expect("a legal text").name);
/// assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
/// ```
pub fn pieces(file: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut start, mut at, mut filled) = (0, 0, false);
    for line in file.split_inclusive('\n') {
        let (here, next) = (at, at + line.len());
        at = next;
        if is_separator(line) {
            pieces.push(Piece { text: &file[start..here], offset: start });
            (start, filled) = (next, false);
        } else if is_header(line) {
            if filled {
                pieces.push(Piece { text: &file[start..here], offset: start });
                start = here;
            }
            filled = true;
        } else {
            filled = filled || !is_blank(line);
        }
    }
    pieces.push(Piece { text: &file[start..], offset: start });
    pieces.retain(|piece| !is_blank(piece.text));
    if pieces.is_empty() { vec![Piece { text: file, offset: 0 }] } else { pieces }
}

/// The texts of several modules as one file, which [`pieces`] takes apart again.
pub fn join<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut file = String::new();
    for text in texts {
        if !file.is_empty() {
            file.truncate(file.trim_end().len());
            file.push_str("\n\n");
            file.push_str(SEPARATOR);
            file.push_str("\n\n");
        }
        file.push_str(text);
    }
    file
}

/// Whether the text holds nothing but blanks and comments.
fn is_blank(text: &str) -> bool {
    skip_blank(text).is_empty()
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix(SEPARATOR).is_some_and(|rest| rest.trim_end().trim_start_matches('-').is_empty())
}

fn is_header(line: &str) -> bool {
    line.strip_prefix("HloModule").is_some_and(|rest| rest.trim_start().len() < rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(file: &str) -> Vec<&str> {
        for piece in pieces(file) {
            assert!(file[piece.offset..].starts_with(piece.text));
        }
        pieces(file).into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn a_file_of_one_module_is_one_piece() {
        for file in
            ["", "\n// nothing\n", "HloModule a\ne {}\n", "// RUN: x\n\nHloModule a\ne {}\n", "x = f32[] parameter(0)"]
        {
            assert_eq!(texts(file), [file]);
        }
    }

    #[test]
    fn separators_divide_and_empty_parts_are_left_out() {
        assert_eq!(texts("a {}\n// -----\nb {}"), ["a {}\n", "b {}"]);
        assert_eq!(texts("// RUN: x\n// -----\r\n// -------- \na {}\n// -----\n\n"), ["a {}\n"]);
        assert_eq!(texts("a {}\n// ----- x\n  // -----\n"), ["a {}\n// ----- x\n  // -----\n"]);
    }

    #[test]
    fn headers_divide_where_separators_are_missing() {
        assert_eq!(texts("HloModule a\ne {}\nHloModule b\ne {}\n"), ["HloModule a\ne {}\n", "HloModule b\ne {}\n"]);
        assert_eq!(texts("e {}\nHloModule b, x=1\ne {}\n// -----\nHloModule c\n").len(), 3);
        assert_eq!(texts("e {}\nHloModules\n"), ["e {}\nHloModules\n"]);
    }

    #[test]
    fn what_was_joined_is_taken_apart_again() {
        let file = join(["a {}\n\n", "b {}\n", "c {}\n\n"]);
        assert_eq!(file, "a {}\n\n// -----\n\nb {}\n\n// -----\n\nc {}\n\n");
        assert_eq!(join(texts(&file).iter().map(|text| text.trim_start())), file);
        assert_eq!(join(["a {}\n\n"]), "a {}\n\n");
    }
}
