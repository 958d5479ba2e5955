//! What the names of files in a dump folder say: module, stage of compilation, and form.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::Wanted;
use crate::unpack::without_ending;

/// Where in compilation a module was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// As it goes into the compiler.
    Program,
    /// From behind the partitioner: what each of several devices runs.
    Partitioned(u32),
    /// Between two passes (`--xla_dump_hlo_pass_re`), counted from 0.
    Pass(u32),
    /// As it was run (`--xla_dump_hlo_snapshots`): of XLA:CPU it is the scheduled module.
    Snapshot,
    /// With a schedule.
    Scheduled,
}

/// A file that holds a module.
#[derive(Debug)]
pub(super) struct File {
    pub(super) stage: Stage,
    /// Binary, a second choice where there is a text: its places are not those of a file.
    is_proto: bool,
    is_packed: bool,
    pub(super) path: PathBuf,
}

impl File {
    /// The less, the better for that purpose.
    pub(super) fn rank(&self, wanted: Wanted) -> impl Ord + use<> {
        let stage = match (wanted, self.stage) {
            // Where there are several devices, each has memory of its own.
            (Wanted::Program, Stage::Partitioned(_)) | (Wanted::Scheduled, Stage::Scheduled) => (0, Reverse(0), 0),
            (Wanted::Program, Stage::Program) | (Wanted::Scheduled, Stage::Snapshot) => (1, Reverse(0), 0),
            // The program that is left is the earliest, the schedule that is nearest the latest.
            (Wanted::Program, Stage::Pass(number)) => (2, Reverse(0), number),
            (Wanted::Scheduled, Stage::Pass(number) | Stage::Partitioned(number)) => (2, Reverse(number), 0),
            (Wanted::Program, Stage::Snapshot) => (3, Reverse(0), 0),
            (Wanted::Program, Stage::Scheduled) | (Wanted::Scheduled, Stage::Program) => (4, Reverse(0), 0),
        };
        (stage, self.is_proto, self.is_packed, self.path.clone())
    }
}

/// `module_0003.jit_f.0007.simplification.after_algsimp.before_cse`, which ends without `before` where a pass writes in its midst.
static PASS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(.+?)\.(\d{4,9})\..*after_").expect("a legal pattern"));

/// `after_spmd-partitioning`, and `after_tpu-spmd-partitioning`.
static PARTITIONED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\.after_[^.]*spmd-partitioning(\.|$)").expect("a legal pattern"));

/// `module_0003.jit_f.snapshot.1008199432`, and the names of other tools.
static SNAPSHOT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(.+?)\.(snapshot\.-?\d+|hlo_snapshot|hlo_unoptimized_snapshot)$").expect("a legal pattern")
});

/// The module that a file holds and the file, if its name is that of a dump.
pub(super) fn read(path: &Path) -> Option<(String, File)> {
    let name = path.file_name()?.to_str()?;
    let plain = without_ending(name);
    let is_packed = plain != name;
    let file = |stage, is_proto| File { stage, is_proto, is_packed, path: path.to_owned() };
    if let Some(parts) = plain.strip_suffix(".pb").and_then(|stem| SNAPSHOT.captures(stem)) {
        return Some((parts[1].to_owned(), file(Stage::Snapshot, true)));
    }
    let (stem, is_proto) = match plain.strip_suffix(".hlo.pb") {
        Some(stem) => (stem, true),
        None => (plain.strip_suffix(".txt")?, false),
    };
    if let Some(module) = stem.strip_suffix(".before_optimizations") {
        return Some((module.to_owned(), file(Stage::Program, is_proto)));
    }
    if let Some(rest) = stem.strip_suffix("after_optimizations") {
        return Some((module_name(rest), file(Stage::Scheduled, is_proto)));
    }
    let parts = PASS.captures(stem)?;
    let number = parts[2].parse().ok()?;
    let stage = if PARTITIONED.is_match(stem) { Stage::Partitioned(number) } else { Stage::Pass(number) };
    Some((parts[1].to_owned(), file(stage, is_proto)))
}

/// `module_0003.jit_f.cpu_` and `module_0003.jit_f.sm_9.0_gpu_` name `module_0003.jit_f`.
fn module_name(stem: &str) -> String {
    let stem = stem.trim_end_matches(['_', '.']);
    let stem = stem
        .strip_suffix("cpu")
        .or_else(|| stem.strip_suffix("gpu"))
        .or_else(|| stem.strip_suffix("tpu"))
        .unwrap_or(stem);
    let stem = stem.trim_end_matches(['_', '.']);
    // A GPU's architecture has a dot of its own: `.sm_9.0a`.
    let arch = stem.rfind(".sm_").or_else(|| stem.rfind(".gfx"));
    arch.map_or(stem, |at| &stem[..at]).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_behind_the_module_is_no_part_of_its_name() {
        for stem in [
            "module_0003.jit_f.cpu_",
            "module_0003.jit_f.sm_9.0a_gpu_",
            "module_0003.jit_f.",
            "module_0003.jit_f.gfx942_gpu_",
        ] {
            assert_eq!(module_name(stem), "module_0003.jit_f");
        }
    }

    #[test]
    fn a_name_says_the_stage() {
        let of = |name: &str| read(Path::new(name)).map(|(module, file)| (module, file.stage));
        let named = |stage| Some(("module_0003.jit_f".to_owned(), stage));
        assert_eq!(of("module_0003.jit_f.before_optimizations.txt"), named(Stage::Program));
        assert_eq!(of("module_0003.jit_f.before_optimizations.hlo.pb.gz"), named(Stage::Program));
        assert_eq!(of("module_0003.jit_f.cpu_after_optimizations.txt.zst"), named(Stage::Scheduled));
        let pass = "module_0003.jit_f.0007.simplification.after_algsimp.before_cse.txt";
        assert_eq!(of(pass), named(Stage::Pass(7)));
        let before = "module_0003.jit_f.0000.spmd-partitioner.after_shardy-xla.before_spmd-partitioning.hlo.pb";
        assert_eq!(of(before), named(Stage::Pass(0)));
        let divided = "module_0003.jit_f.0001.spmd-partitioner.after_spmd-partitioning.before_control-dep-rewriter.txt";
        assert_eq!(of(divided), named(Stage::Partitioned(1)));
        assert_eq!(of("module_0003.jit_f.0023.copy-insertion.after_adding_copies.txt"), named(Stage::Pass(23)));
        assert_eq!(of("module_0003.jit_f.snapshot.-1008199432.pb"), named(Stage::Snapshot));
        assert_eq!(of("module_0003.jit_f.hlo_snapshot.pb"), named(Stage::Snapshot));
        for other in [
            "module_0003.jit_f.cpu_after_optimizations-buffer-assignment.txt",
            "module_0003.jit_f.cpu_after_optimizations-memory-usage-report.pb",
            "module_0003.jit_f.kernel_module.ir-no-opt.ll",
            "module_0003.jit_f.debug_options",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
