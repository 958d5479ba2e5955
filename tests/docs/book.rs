//! The book that mdBook makes of `docs/`: its preprocessor leads links that leave `docs/` to the repository.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;
use serde_json::{Value, json};

use crate::common::{root, text};
use crate::pages::{all, links_of, read};
use crate::session;

const SERVER: &str = "https://host.example";

fn pages() -> Vec<PathBuf> {
    all().into_iter().filter(|page| page.starts_with("docs") && !page.ends_with("SUMMARY.md")).collect()
}

/// The pages as the preprocessor hands them on, in a workflow or on some machine.
fn preprocessed(in_workflow: bool) -> Vec<String> {
    let chapter = |page: &PathBuf| {
        let path = page.strip_prefix("docs").unwrap();
        json!({"Chapter": {"content": read(page), "path": path, "source_path": path, "sub_items": []}})
    };
    // The first page has all others below it.
    let mut chapters: Vec<Value> = pages().iter().map(chapter).collect();
    let mut first = chapters.remove(0);
    first["Chapter"]["sub_items"] = chapters.into();
    let book = json!([{"root": "."}, {"items": [first, "Separator"]}]);
    let mut command = Command::new(session::python());
    command.arg(root().join(".ci/book_links.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env_remove("GITHUB_SERVER_URL").env_remove("GITHUB_REPOSITORY");
    if in_workflow {
        command.env("GITHUB_SERVER_URL", SERVER).env("GITHUB_REPOSITORY", "owner/name");
    }
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(book.to_string().as_bytes()).unwrap());
    let said = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let book: Value = serde_json::from_slice(&said.stdout).unwrap();
    let first = &book["items"][0]["Chapter"];
    let others = first["sub_items"].as_array().unwrap().iter().map(|item| &item["Chapter"]);
    std::iter::once(first).chain(others).map(|chapter| chapter["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn links_of_the_book_stay_in_it_or_lead_to_the_repository() {
    let address = Regex::new(&format!(r"\]\({SERVER}/owner/name/blob/HEAD/([^)#]+)")).unwrap();
    let mut outward = 0;
    for (page, content) in pages().iter().zip(preprocessed(true)) {
        for (target, _) in links_of(page, &content) {
            assert!(target.starts_with("docs"), "{}: {} is not in the book", page.display(), target.display());
        }
        for link in address.captures_iter(&content) {
            assert!(root().join(&link[1]).exists(), "{}: there is no {}", page.display(), &link[1]);
            outward += 1;
        }
    }
    assert!(outward > 40, "only {outward} links lead to the repository");
    for (page, content) in pages().iter().zip(preprocessed(false)) {
        let left = links_of(page, &content).into_iter().find(|(target, _)| !target.starts_with("docs"));
        assert!(left.is_none(), "{}: {left:?} is not in the book", page.display());
    }
}

#[test]
fn the_book_is_made_by_the_preprocessor() {
    let settings: toml::Table = text("book.toml").parse().unwrap();
    let commands = settings["preprocessor"].as_table().unwrap().values().map(|one| one["command"].as_str().unwrap());
    let scripts: Vec<&str> = commands.filter_map(|command| command.strip_prefix("python3 ")).collect();
    assert_eq!(scripts, [".ci/book_links.py"]);
    assert!(Path::new(&root().join(scripts[0])).exists());
}
