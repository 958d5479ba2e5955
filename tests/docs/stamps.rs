//! Tables of measured figures: behind each stands a line with the command, the build, the date, and a checksum by which an edit by hand is noticed.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::Crc;
use regex::Regex;

use crate::common::root;
use crate::pages::{all, is_measured, read};
use crate::session;

/// The line behind a table, as `tests/referee/stamp.py` writes it. Of old tables only the commits that brought them or their rows are known.
const STAMP: &str = r"^\*Measured with (?:`[^`]+`|the commands of its rows), (?:build `[0-9a-f]{7,}`|table of commit `[0-9a-f]{7,}`|rows of commits `[0-9a-f]{7,}`, \d{4}-\d\d-\d\d, to `[0-9a-f]{7,}`), \d{4}-\d\d-\d\d; checksum `([0-9a-f]{8})`\.\*$";

/// What is wrong with the tables of a page: the first line of each, and why.
fn wrong(page: &str) -> Vec<String> {
    let stamp = Regex::new(STAMP).unwrap();
    let lines: Vec<&str> = page.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let rows = lines[at..].iter().take_while(|line| line.starts_with('|')).count();
        let behind = lines.get(at + rows + 1).and_then(|line| stamp.captures(line));
        match behind {
            _ if rows == 0 => {}
            None => found.push(format!("no line with command, build and date behind: {}", lines[at])),
            Some(stamp) if stamp[1] != checksum(&lines[at..at + rows]) => {
                found.push(format!("edited by hand, or printed without its line: {}", lines[at]));
            }
            Some(_) => {}
        }
        at += rows.max(1);
    }
    found
}

fn checksum(rows: &[&str]) -> String {
    let mut crc = Crc::new();
    crc.update(rows.join("\n").as_bytes());
    format!("{:08x}", crc.sum())
}

#[test]
fn measured_tables_say_what_made_them_and_are_not_edited_by_hand() {
    let mut count = 0;
    let mut found = Vec::new();
    for page in all().iter().filter(|page| is_measured(page)) {
        let text = read(page);
        count += text.lines().filter(|line| line.starts_with("*Measured with ")).count();
        found.extend(wrong(&text).into_iter().map(|what| format!("{}: {what}", page.display())));
    }
    assert!(found.is_empty(), "{} (tests/referee/stamp.py)", found.join("\n"));
    assert!(count >= 40, "only {count} tables");
}

/// A table is made by one command, or each of its rows by its own: what it runs is there.
#[test]
fn commands_behind_tables_can_be_given_again() {
    let stamp = Regex::new(r"^\*Measured with (?:`([^`]+)`|the commands of its rows)").unwrap();
    let script = Regex::new(r"(?:tests/referee|fuzz)/[a-z_]+\.(?:py|sh)").unwrap();
    let mut wrong = Vec::new();
    for page in all().iter().filter(|page| is_measured(page)) {
        let text = read(page);
        let lines: Vec<&str> = text.lines().collect();
        for (at, found) in lines.iter().enumerate().filter_map(|(at, line)| Some((at, stamp.captures(line)?))) {
            let table = lines[..at - 1].iter().rev().take_while(|line| line.starts_with('|'));
            let rows: Vec<&str> = table.copied().take_while(|line| !line.starts_with("|---")).collect();
            let commands = found.get(1).map_or(rows, |command| vec![command.as_str()]);
            for command in commands {
                let runs_ours = script.find_iter(command).all(|script| root().join(script.as_str()).exists());
                let is_known = ["tests/", "fuzz/", "hlo-opt", "hlo_opt", "cargo ", "python "];
                if !runs_ours || !is_known.iter().any(|known| command.contains(known)) {
                    wrong.push(format!("{}: {command}", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "commands that cannot be given:\n{}", wrong.join("\n"));
}

/// What the scripts print is what the test above reads.
#[test]
fn scripts_stamp_what_they_print() {
    let table = "| a | b → c |\n|---|---|\n| 1 | 2 |";
    let mut child = Command::new(session::python())
        .arg(root().join("tests/referee/stamp.py"))
        .arg("python tests/referee/a.py DIR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(table.as_bytes()).unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    // A working tree with changes, and one without its history.
    let said = Regex::new("`unknown`|-dirty`")
        .unwrap()
        .replace(&said, |found: &regex::Captures<'_>| if found[0].starts_with('-') { "`" } else { "`0000000`" });
    assert!(said.starts_with("*Measured with `python tests/referee/a.py DIR`, build `"), "{said}");
    assert_eq!(wrong(&format!("{table}\n\n{said}")), Vec::<String>::new());
    assert_eq!(wrong(&format!("{}\n\n{said}", table.replace('2', "3"))).len(), 1, "another figure");
    assert_eq!(wrong(&format!("{table}\n\n| 1 |\n")).len(), 2, "no line behind either table");
}

/// Scripts that print tables print them by the module that stamps them.
#[test]
fn scripts_print_no_table_without_its_line() {
    for entry in root().join("tests/referee").read_dir().unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "py") && !path.ends_with("stamp.py") {
            let text = read(Path::new("tests/referee").join(entry.file_name()).as_path());
            assert!(
                !text.contains("|---") || text.contains("import stamp"),
                "{}: a table without a stamp",
                path.display()
            );
        }
    }
}
