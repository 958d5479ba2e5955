//! Each stage of the XLA:CPU model against XLA's own dumps before and after it, for the small programs of `stages/`.
//!
//! Pins `memory/src/cpu/ynn/mod.rs`, `memory/src/cpu/fusion/mod.rs`, `memory/src/cpu/wrapper.rs`, `memory/src/cpu/copies/mod.rs`,
//! `memory/src/cpu/hoist.rs`, `memory/src/cpu/tuples.rs`, `memory/src/cpu/schedule.rs`, `memory/src/cpu/donors.rs`.

#[path = "../examples/stage/canon.rs"]
mod canon;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use canon::Canon;
use hlo_ir::Module;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stages")
}

fn read(path: &Path) -> Module {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    hlo_ir::text::parse(&text).unwrap_or_else(|e| panic!("{}: {:?}", path.display(), e.first()))
}

/// How many instructions have each fingerprint, in computations that are not bodies of fusions.
fn fingerprints(module: &Module) -> BTreeMap<u64, usize> {
    let canon = Canon::new(module);
    let mut count = BTreeMap::new();
    for id in canon::live_outside_fusions(module) {
        for (inst, _) in module.instructions_of(id) {
            *count.entry(canon.of[inst]).or_default() += 1;
        }
    }
    count
}

/// Runs a stage on every dump before it; returns how many of them XLA's stage changed.
fn compare(stage: &str) -> usize {
    let suffix = format!(".{stage}.before.hlo");
    let entries = std::fs::read_dir(directory()).expect("the dumps are part of the repository");
    let mut inputs: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable directory").path()).collect();
    inputs.retain(|path| path.to_string_lossy().ends_with(&suffix));
    inputs.sort();
    let mut changed = 0;
    for input in &inputs {
        let expected = PathBuf::from(input.to_string_lossy().replace(".before.hlo", ".after.hlo"));
        let before = read(input);
        let ours = hlo_memory::cpu::run_stage(stage, &before).expect("the stage exists");
        let wanted = fingerprints(&read(&expected));
        assert_eq!(fingerprints(&ours), wanted, "{}\n{}", input.display(), hlo_ir::text::print(&ours));
        changed += usize::from(fingerprints(&before) != wanted);
    }
    changed
}

#[test]
fn library_fusions_are_those_of_xla() {
    assert!(compare("library") >= 4);
}

#[test]
fn fusions_are_those_of_xla() {
    assert!(compare("fusion") >= 10);
}

#[test]
fn wrapped_instructions_are_those_of_xla() {
    assert!(compare("wrapper") >= 7);
}

#[test]
fn copies_are_those_of_xla() {
    assert!(compare("copies") >= 8);
}

#[test]
fn hoisted_loops_are_those_of_xla() {
    assert!(compare("hoist") >= 1);
}

#[test]
fn the_clean_up_is_that_of_xla() {
    assert!(compare("cleanup") >= 2);
}

#[test]
fn schedules_are_breadth_first() {
    let module = hlo_ir::text::parse(
        "HloModule m

ENTRY e {
  x = f32[8] parameter(0)
  a = f32[8] sine(x)
  b = f32[8] sine(a)
  c = f32[8] cosine(x)
  d = f32[8] cosine(c)
  k = f32[8] iota(), iota_dimension=0
  s = f32[8] add(b, d)
  ROOT r = f32[8] add(s, k)
}
",
    );
    let module = module.unwrap_or_else(|errors| panic!("{errors:?}"));
    let scheduled = hlo_memory::cpu::run_stage("schedule", &module).expect("the stage exists");
    assert!(scheduled.is_scheduled());
    let order: Vec<&str> = scheduled.instructions_of(scheduled.entry()).map(|(_, inst)| inst.name.as_str()).collect();
    assert_eq!(order, ["x", "k", "a", "c", "b", "d", "s", "r"]);
}

#[test]
fn donated_arguments_are_paired_with_results_of_their_size() {
    let module = hlo_ir::text::parse(
        "HloModule m, input_output_alias={ {1}: (2, {}, may-alias) }, buffer_donor={ (0, {}), (1, {}) }

ENTRY e {
  x = f32[8] parameter(0)
  y = f32[16] parameter(1)
  z = f32[16] parameter(2)
  a = f32[8] sine(x)
  b = f32[16] add(y, z)
  c = f32[16] multiply(y, z)
  ROOT t = (f32[8], f32[16], f32[16]) tuple(a, b, c)
}
",
    );
    let module = module.unwrap_or_else(|errors| panic!("{errors:?}"));
    let paired = hlo_memory::cpu::run_stage("donors", &module).expect("the stage exists");
    let mut pairs: Vec<(i64, i64)> =
        paired.input_output_aliases().iter().map(|alias| (alias.output[0], alias.operand)).collect();
    pairs.sort_unstable();
    assert_eq!(pairs, [(0, 0), (1, 2), (2, 1)]);
}
