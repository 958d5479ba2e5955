//! Where a test replaces texts in what it has already replaced: at once, or by the name of a variable, a closure or a function.

use regex::{Captures, Regex};

/// Lines in which `.replace()` or `.replacen()` is called on what another one made.
pub(crate) fn chains(text: &str) -> Vec<usize> {
    let code = code(text);
    let call = Regex::new(r"\.replacen?\(").unwrap();
    let next = Regex::new(r"^\s*\.replacen?\(").unwrap();
    let mut ends: Vec<usize> = call.find_iter(&code).map(|call| closed(&code, call.end() - 1)).collect();
    ends.extend(named(&code, &call));
    let ends = ends.into_iter().filter_map(|end| Some(end + next.find(&code[end..])?.end()));
    let mut lines: Vec<usize> = ends.map(|end| code[..end].lines().count()).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Ends of the uses of names that stand for replaced texts, or for what returns one.
fn named(code: &str, call: &Regex) -> Vec<usize> {
    let value = Regex::new(r"(\blet (?:mut )?)?\b(\w+)(?:: [^=;|{}]+)? = ").unwrap();
    let function = Regex::new(r"\bfn (\w+)[^;{]*\bString \{").unwrap();
    let mut ends = Vec::new();
    for made in value.captures_iter(code) {
        let start = made.get(0).unwrap().end();
        let end = end_where(code, start, |letter, depth| depth < 0 || depth == 0 && letter == ';');
        if call.is_match(&code[start..end]) {
            // What takes its own place is replaced in steps.
            let from = if made.get(1).is_some() { end } else { start };
            let block = end_where(code, end, |_, depth| depth < 0);
            ends.extend(uses(&code[..block], &made[2], from));
        }
    }
    for made in function.captures_iter(code) {
        let body = made.get(0).unwrap().end() - 1;
        if call.is_match(&code[body..closed(code, body)]) {
            ends.extend(uses(code, &made[1], 0));
        }
    }
    ends
}

/// Ends of the uses of a name from `from` on, with the arguments where it is called.
fn uses(code: &str, name: &str, from: usize) -> Vec<usize> {
    let use_of = Regex::new(&format!(r"(?:^|[^.\w]){name}\b")).unwrap();
    let ends = use_of.find_iter(&code[from..]).map(|found| from + found.end());
    ends.map(|end| if code[end..].starts_with('(') { closed(code, end) } else { end }).collect()
}

/// The place behind the bracket that closes the one at `open`.
fn closed(code: &str, open: usize) -> usize {
    (end_where(code, open, |letter, depth| depth == 0 && matches!(letter, ')' | ']' | '}')) + 1).min(code.len())
}

/// The first place from `start` on where this holds of the letter and of how many brackets are open behind it.
fn end_where(code: &str, start: usize, ends: impl Fn(char, i32) -> bool) -> usize {
    let mut depth = 0;
    for (at, letter) in code[start..].char_indices() {
        depth += i32::from(matches!(letter, '(' | '[' | '{')) - i32::from(matches!(letter, ')' | ']' | '}'));
        if ends(letter, depth) {
            return start + at;
        }
    }
    code.len()
}

/// The text without what stands in literals and comments; lines stay where they are.
fn code(text: &str) -> String {
    let literal = "(?s)r##\".*?\"##|r#\".*?\"#|r\"[^\"]*\"|\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.[^']*)'|//[^\n]*";
    let lines = |found: &Captures<'_>| "\n".repeat(found[0].matches('\n').count());
    Regex::new(literal).unwrap().replace_all(text, lines).into_owned()
}

#[test]
fn replacements_of_what_a_call_returns_are_found() {
    let text = r#"fn a(text: &str) -> String {
    let one = text.to_owned() + "(.replace()";
    // text.replace(b, c).replace(d, e)
    let other = one.replace(&one.replace('(', "a"), "b");
    let chain = text.replace("a", "b").replacen(r"\", "c", 1);
    one
        .replace(
            "a\"",
            &text.replace("b", "\n
"),
        )
        .replace('"', "c")
        .replace("d", "e")
}
"#;
    assert_eq!(chains(text), [5, 12, 13]);
}

#[test]
fn replacements_of_what_has_a_name_are_found() {
    for text in [
        "let a = b.replace(x, y);\nf(&a.replace(y, z));",
        "let a: String = b.replace(x, y);\nlet a = a.replacen(y, z, 1);",
        "let of = |t: &str| b.replace(x, t);\nf(of(y).replace(z, x));",
        "for (old, new) in changes {\n    a = a.replace(old, new);\n}",
        "fn a(t: &str) -> String {\n    b.replace(x, t)\n}\n\nfn c() {\n    f(a(y).replace(y, z));\n}",
    ] {
        assert_eq!(chains(text).len(), 1, "{text}");
    }
    for text in [
        "let a = b.replace(x, y);\nlet c = b.replace(x, z);",
        "let a = a(b).replace(x, y);",
        "{\n    let a = b.replace(x, y);\n}\nlet c = a.replace(x, y);",
        "let a = b.replace(x, y);\nf(c.a.replace(x, y), &a);",
        "patch.replace(a, b);\npatch.replace(c, d);",
    ] {
        assert_eq!(chains(text), [0; 0], "{text}");
    }
}
