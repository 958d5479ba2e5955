//! Which modules of a crate import which: two that import each other cannot be understood one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use regex::Regex;

/// Pairs of modules below `folder`, the sources of a crate, each of which imports from the other or from what is below it. What is re-exported at the top of
/// the crate belongs to nobody.
pub(crate) fn circles(folder: &Path) -> Vec<(String, String)> {
    let mut files = BTreeMap::new();
    modules(folder, &mut Vec::new(), &mut files);
    let known: BTreeSet<Vec<String>> = files.keys().cloned().collect();
    let mut edges = BTreeSet::new();
    for (module, text) in &files {
        for path in imports(text) {
            let imported = resolve(module, &path, &known);
            let common = module.iter().zip(&imported).take_while(|(a, b)| a == b).count();
            if common < module.len() && common < imported.len() {
                edges.insert((module[..=common].join("::"), imported[..=common].join("::")));
            }
        }
    }
    let is_circle = |(a, b): &&(String, String)| a < b && edges.contains(&(b.clone(), a.clone()));
    edges.iter().filter(is_circle).cloned().collect()
}

/// The text of every module, without its tests.
fn modules(folder: &Path, path: &mut Vec<String>, files: &mut BTreeMap<Vec<String>, String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let file = entry.path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        if file.is_dir() {
            path.push(name);
            modules(&file, path, files);
            path.pop();
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let mut module = path.clone();
            module.extend((name != "mod" && name != "lib").then_some(name));
            let text = fs::read_to_string(&file).unwrap();
            files.insert(module, text.split("#[cfg(test)]\nmod ").next().unwrap().to_owned());
        }
    }
}

/// The paths that a file imports from its own crate.
fn imports(text: &str) -> Vec<Vec<String>> {
    let statement = Regex::new(r"(?m)^(?:pub(?:\([a-z]+\))? )?use ((?:crate|super|self)\b[^;]*);").unwrap();
    let mut found = Vec::new();
    for used in statement.captures_iter(text) {
        spread(&used[1].replace(char::is_whitespace, ""), &[], &mut found);
    }
    found
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn spread(text: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let (head, inside) = match text.split_once('{') {
        Some((head, rest)) => (head.trim_end_matches(':'), Some(rest.strip_suffix('}').unwrap_or(rest))),
        None => (text, None),
    };
    let mut path = before.to_vec();
    path.extend(head.split("::").filter(|part| !part.is_empty()).map(str::to_owned));
    let Some(inside) = inside else { return found.push(path) };
    let (mut depth, mut start) = (0, 0);
    for (at, sign) in inside.char_indices().chain([(inside.len(), ',')]) {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if start < at {
                    spread(&inside[start..at], &path, found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The module that a path names, or that holds what it names.
fn resolve(module: &[String], path: &[String], known: &BTreeSet<Vec<String>>) -> Vec<String> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    let (mut at, rest) = match path[0].as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (module.to_vec(), &path[1..]),
        _ => (module[..module.len() - ups.min(module.len())].to_vec(), &path[ups..]),
    };
    for part in rest {
        let below: Vec<String> = at.iter().chain([part]).cloned().collect();
        if !known.contains(&below) {
            break;
        }
        at = below;
    }
    at
}

#[test]
fn circles_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n");
    write("a.rs", "use crate::b::{self, B};\nuse crate::C;\n");
    write("b.rs", "use super::c::C;\n");
    write("c.rs", "use crate::{\n    a::A,\n};\n\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n");
    assert_eq!(circles(folder.path()), [], "three in a row are none of two");
    write("b.rs", "use crate::a::A;\n");
    assert_eq!(circles(folder.path()), [("a".to_owned(), "b".to_owned())]);
}
