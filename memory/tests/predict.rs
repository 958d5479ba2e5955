//! The unscheduled modules of the corpus: our prediction against the bytes XLA reported for them.
//!
//! Pins `memory/src/cpu/mod.rs`, `memory/src/hash.rs`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use hlo_ir::Module;
use hlo_memory::{Model, Target, estimate};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

/// Every `*.before.hlo` below a folder, sorted.
fn unscheduled(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("the folder can be listed").path()) {
        if path.is_dir() {
            found.extend(unscheduled(&path));
        } else if path.to_string_lossy().ends_with(".before.hlo") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// XLA's total, from the JSON beside a module.
fn xla_total(module: &Path) -> u64 {
    let json = module.to_string_lossy().replace(".before.hlo", ".xla.json");
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
    let (_, rest) = text.split_once("\"total_bytes\": ").unwrap_or_else(|| panic!("{json} has no total"));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{json}: the total is no number"))
}

fn read(path: &Path) -> Module {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    hlo_ir::text::parse(&text).unwrap_or_else(|errors| panic!("{}: {errors:?}", path.display()))
}

fn predicted(module: &Module) -> u64 {
    let figures = estimate(module, Target::Cpu).expect("every size of the corpus fits 64 bits");
    assert_eq!(figures.model, Model::Predicted);
    figures.total.get()
}

#[test]
fn founding_programs_are_predicted_to_the_byte() {
    let programs = unscheduled(&corpus().join("founding"));
    assert!(programs.len() >= 6, "the founding programs are missing");
    for path in programs {
        assert_eq!(predicted(&read(&path)), xla_total(&path), "{}", path.display());
    }
    assert_eq!(predicted(&read(&corpus().join("founding/s32.before.hlo"))), 240_526_557_204);
    assert_eq!(predicted(&read(&corpus().join("founding/s16.before.hlo"))), 188_986_949_652);
}

/// The library takes a maximum of `bf16` as it is, and a sum whose terms are widened; a scatter with the same combiner is widened. XLA's total.
#[test]
fn a_maximum_of_short_floats_goes_to_the_library_as_it_is() {
    let text = |reduced: &str, rows: &str| {
        format!(
            "HloModule m
larger {{
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] {reduced}(a, b)
}}
ENTRY main {{
  x = bf16[{rows},64] parameter(0)
  i = s32[100,1] parameter(1)
  u = bf16[100] parameter(2)
  least = bf16[] constant(-inf)
  r = bf16[{rows}] reduce(x, least), dimensions={{2}}, to_apply=larger
  start = bf16[1000] broadcast(least), dimensions={{}}
  s = bf16[1000] scatter(start, i, u), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=larger
  ROOT t = (bf16[{rows}], bf16[1000]) tuple(r, s)
}}
"
        )
    };
    let total = |reduced: &str| predicted(&hlo_ir::text::parse(&text(reduced, "64,512")).expect("a legal module"));
    assert_eq!([total("maximum"), total("multiply")], [4_266_484, 12_917_266]);
    let few = text("maximum", "1,8");
    assert_eq!(predicted(&hlo_ir::text::parse(&few).expect("a legal module")), 9_858, "not worth a call");
}

/// One line per module that misses: adding an exact one changes nothing here.
#[test]
fn misses() {
    let mut misses = String::new();
    let modules = unscheduled(&corpus());
    assert!(modules.len() > 100, "the corpus has no unscheduled modules");
    for path in &modules {
        let (ours, xla) = (predicted(&read(path)), xla_total(path));
        if ours != xla {
            let name = path.strip_prefix(corpus()).expect("it was found below the corpus").display();
            let off = (ours as f64 / xla as f64 - 1.0) * 100.0;
            writeln!(misses, "{name}: ours {ours}, XLA {xla}, {off:+.2} %").expect("writing to a string succeeds");
        }
    }
    insta::assert_snapshot!(misses);
}

#[test]
fn predictions_do_not_vary() {
    let path = corpus().join("founding/s32.before.hlo");
    let compile = || hlo_ir::text::print(&hlo_memory::cpu::compile(&read(&path)).expect("the model takes it"));
    let first = compile();
    assert!(first.contains("is_scheduled=true"));
    assert!((0..3).all(|_| compile() == first));
}

/// A small deterministic source of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Drops an attribute, changes a digit, or writes another opcode.
fn damage(line: &str, random: &mut Random) -> String {
    const OPCODES: [&str; 12] = [
        "add",
        "broadcast",
        "compare",
        "dot",
        "gather",
        "iota",
        "reduce",
        "reshape",
        "reverse",
        "select",
        "slice",
        "transpose",
    ];
    match random.below(3) {
        0 => {
            let mut parts: Vec<&str> = line.split(", ").collect();
            if parts.len() > 1 {
                parts.remove(1 + random.below(parts.len() - 1));
            }
            parts.join(", ")
        }
        1 => {
            let digits: Vec<usize> =
                line.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
            match digits.get(random.below(digits.len())) {
                Some(&at) => format!("{}{}{}", &line[..at], random.below(10), &line[at + 1..]),
                None => line.to_owned(),
            }
        }
        _ => {
            let (from, to) = (OPCODES[random.below(OPCODES.len())], OPCODES[random.below(OPCODES.len())]);
            line.replacen(&format!(" {from}("), &format!(" {to}("), 1)
        }
    }
}

#[test]
fn strange_but_legal_modules_are_no_reason_to_panic() {
    let (mut random, mut legal) = (Random(7), 0);
    for path in unscheduled(&corpus().join("chunk-small")) {
        let text = fs::read_to_string(&path).expect("the file can be read");
        for _ in 0..20 {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            for _ in 0..=random.below(3) {
                let at = random.below(lines.len());
                lines[at] = damage(&lines[at], &mut random);
            }
            let Ok(module) = hlo_ir::text::parse(&lines.join("\n")) else { continue };
            if hlo_ir::verify::verify(&module).is_empty() {
                legal += usize::from(estimate(&module, Target::Cpu).is_ok());
            }
        }
    }
    assert!(legal > 100, "only {legal} damaged modules were legal: the test proves nothing");
}
