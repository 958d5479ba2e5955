//! Damaged modules: whatever the parser lets through, assignment answers with figures or an error and never panics.
//!
//! Pins `memory/src/assignment/mod.rs`.

use std::fs;
use std::path::Path;

use hlo_memory::assignment::assign;

/// A small deterministic source of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Removes `key=value` up to the next comma.
fn without(line: &str, key: &str) -> String {
    match line.split_once(&format!(", {key}=")) {
        Some((before, after)) => format!("{before}{}", after.find(',').map_or("", |at| &after[at..])),
        None => line.to_owned(),
    }
}

/// Puts another opcode in the place of the one in front of the operands.
fn with_opcode(line: &str, opcode: &str) -> String {
    match line.find('(').and_then(|at| Some((line[..at].rfind(' ')?, at))) {
        Some((from, to)) if line.contains(" = ") => format!("{} {opcode}{}", &line[..from], &line[to..]),
        _ => line.to_owned(),
    }
}

fn damage(line: &str, random: &mut Random) -> String {
    const KEYS: [&str; 8] =
        ["body", "condition", "calls", "to_apply", "index", "kind", "true_computation", "branch_computations"];
    const OPCODES: [&str; 12] = [
        "while",
        "call",
        "conditional",
        "tuple",
        "get-tuple-element",
        "scatter",
        "sort",
        "copy-start",
        "copy-done",
        "async-start",
        "dynamic-update-slice",
        "all-reduce-done",
    ];
    match random.below(5) {
        0 => without(line, KEYS[random.below(KEYS.len())]),
        1 => with_opcode(line, OPCODES[random.below(OPCODES.len())]),
        2 => line.replacen("[1", "[1099511627776", 1),
        3 => line.replacen("(%", "(", 1),
        _ => line.replacen("index=1", "index=99", 1),
    }
}

#[test]
fn damaged_modules_are_no_reason_to_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/chunk");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.to_string_lossy().ends_with(".hlo"))
        .collect();
    files.sort();
    let (mut random, mut survivors) = (Random(1), 0);
    for path in files {
        let text = fs::read_to_string(&path).expect("the file can be read");
        for _ in 0..12 {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            for _ in 0..=random.below(3) {
                let at = random.below(lines.len());
                lines[at] = damage(&lines[at], &mut random);
            }
            if let Ok(module) = hlo_ir::text::parse(&lines.join("\n")) {
                survivors +=
                    usize::from(assign(&module).is_ok_and(|assigned| !assigned.estimate().timeline.is_empty()));
            }
        }
    }
    assert!(survivors > 100, "only {survivors} damaged modules were read: the test proves nothing");
}
