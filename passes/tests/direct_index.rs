//! `direct-index` over its corpus: what it finds, why it is sound, and the text it makes.
//!
//! Pins `passes/src/direct_index.rs`.

use std::fmt::Write as _;
use std::path::Path;

use crate::common::{diff, estimate, parse};
use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::direct_index::DirectIndex;
use hlo_passes::inline_calls::InlineCalls;
use hlo_passes::{Assumption, Context, Finding, Grade, Machine, Options, Outcome, Pass};

fn find(pass: &dyn Pass, module: &Module, options: &Options) -> Vec<Finding> {
    let (users, estimate) = (Users::of(module), estimate(Bytes::ZERO, Vec::new()));
    pass.find(&Context::of_input(module, &users, &estimate, options))
}

fn options(target: Target, assumptions: Vec<Assumption>) -> Options {
    Options {
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        target,
        assumptions,
        ..Options::default()
    }
}

/// What the pass says about a module whose calls around scatters are inlined, and what the first rewrite makes of it.
fn report(source: &str, options: &Options) -> String {
    let mut module = parse(source);
    while let Some(finding) = find(&InlineCalls::where_needed(), &module, options).into_iter().next() {
        let Outcome::Rewrite { patch, .. } = finding.outcome else { panic!("calls around scatters are inlined") };
        patch.apply(&mut module).expect("the module did not change");
    }
    let before = text::print(&module);
    let mut report = String::new();
    for finding in find(&DirectIndex, &module, options) {
        let name = &module.instruction(finding.instruction).name;
        match finding.outcome {
            Outcome::Missed(reason) | Outcome::Withheld { reason, .. } => {
                let _ = writeln!(report, "{name}: missed {} of {}: {}", reason.code, finding.wasted, reason.message);
            }
            Outcome::Rewrite { patch, note, conditions } => {
                let _ = writeln!(report, "{name}: {note} ({}, {})", finding.grade.name(), finding.wasted);
                for condition in conditions {
                    let _ = writeln!(report, "  {} ({})", condition.text, condition.discharged_by);
                }
                let mut rewritten = module.clone();
                patch.apply(&mut rewritten).expect("the patch fits");
                let problems = verify::verify(&rewritten);
                assert!(problems.is_empty(), "{problems:?}");
                report += &diff(&before, &text::print(&rewritten));
            }
        }
    }
    report
}

#[test]
fn the_corpus_is_judged_like_this() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    assert!(folder.join("direct-index").is_dir(), "the corpus is part of the repository");
    insta::glob!("../../corpus", "{direct-index,founding}/*.before.hlo", |path| {
        let source = std::fs::read_to_string(path).expect("the corpus is text");
        let plain = report(&source, &options(Target::Cpu, Vec::new()));
        let promised = report(&source, &options(Target::Cpu, vec![Assumption::IndicesInBounds]));
        let tpu = report(&source, &options(Target::Tpu, Vec::new()));
        let mut all = plain.clone();
        for (title, other) in [("with indices in bounds", promised), ("for TPU", tpu)] {
            if other != plain {
                let _ = write!(all, "\n{title}:\n{other}");
            }
        }
        insta::assert_snapshot!(all);
    });
}

/// A module whose root is a scatter or gather of `%x` by `%j`, which the lines compute from `%i`.
fn indexed(index: &str, lines: &str, root: &str) -> String {
    format!(
        "HloModule m

%add {{
  %p.0 = f32[] parameter(0)
  %p.1 = f32[] parameter(1)
  ROOT %sum = f32[] add(%p.0, %p.1)
}}

ENTRY %main {{
  %x = f32[8,16,4] parameter(0)
  %i = {index} parameter(1)
  %u = f32[50] parameter(2)
{lines}
  ROOT %r = {root}
}}
"
    )
}

/// Three columns of `%i` as `t[50,1]`, each wrapped by its dimension, joined in the given order.
fn wrapped(t: &str, order: [usize; 3]) -> String {
    let mut lines = String::new();
    for (component, size) in [8, 16, 4].into_iter().enumerate() {
        let (c, column) = (component, order[component]);
        let _ = write!(
            lines,
            "  %c.{c} = {t}[50,1] slice(%i), slice={{[0:50], [{column}:{}]}}
  %zero.{c} = {t}[] constant(0)
  %size.{c} = {t}[] constant({size})
  %zeros.{c} = {t}[50,1] broadcast(%zero.{c}), dimensions={{}}
  %sizes.{c} = {t}[50,1] broadcast(%size.{c}), dimensions={{}}
  %below.{c} = pred[50,1] compare(%c.{c}, %zeros.{c}), direction=LT
  %moved.{c} = {t}[50,1] add(%c.{c}, %sizes.{c})
  %w.{c} = {t}[50,1] select(%below.{c}, %moved.{c}, %c.{c})\n",
            column + 1
        );
    }
    lines + &format!("  %j = {t}[50,3] concatenate(%w.0, %w.1, %w.2), dimensions={{1}}")
}

const SCATTER: &str = "f32[8,16,4] scatter(%x, %j, %u), update_window_dims={}, inserted_window_dims={0,1,2}, \
                       scatter_dims_to_operand_dims={0,1,2}, index_vector_dim=1, to_apply=%add";
const GATHER: &str = "f32[50] gather(%x, %j), offset_dims={}, collapsed_slice_dims={0,1,2}, start_index_map={0,1,2}, \
                      index_vector_dim=1, slice_sizes={1,1,1}";

/// The report without its diff.
fn verdict(source: &str, assumptions: Vec<Assumption>) -> String {
    let report = report(source, &options(Target::Cpu, assumptions));
    let words = report.lines().filter(|line| !line.starts_with(['@', '-', '+']) && !line.starts_with("  %"));
    words.filter(|line| !line.is_empty() && *line != " }").collect::<Vec<_>>().join("\n")
}

/// The scatter or gather after the first rewrite.
fn rewritten(source: &str) -> String {
    let report = report(source, &options(Target::Cpu, Vec::new()));
    report.lines().rfind(|line| line.starts_with("+  ROOT")).expect("it is rewritten").to_owned()
}

#[test]
fn unsigned_indices_need_no_proof_but_gathers_clamp() {
    let convert = |from: &str| {
        let line = "  %j = s32[50,3] convert(%i)";
        (indexed(&format!("{from}[50,3]"), line, SCATTER), indexed(&format!("{from}[50,3]"), line, GATHER))
    };
    for narrow in ["u8", "u16", "s8", "s16"] {
        let (scatter, gather) = convert(narrow);
        assert!(rewritten(&scatter).contains("scatter(%x, %i, %u)"), "{narrow}");
        assert!(rewritten(&gather).contains("gather(%x, %i)"), "{narrow}");
    }
    // Large u32 become negative: a scatter skips both, a gather goes to the other end.
    let (scatter, gather) = convert("u32");
    assert!(rewritten(&scatter).contains("scatter(%x, %i, %u)"));
    assert!(verdict(&gather, Vec::new()).contains("missed computed"), "{}", verdict(&gather, Vec::new()));
    assert!(verdict(&gather, Vec::new()).contains("[2147483648, 4294967295]"));
}

#[test]
fn narrowing_needs_indices_below_two_to_the_31() {
    let source = indexed("s64[50,3]", "  %j = s32[50,3] convert(%i)", SCATTER);
    assert!(verdict(&source, Vec::new()).contains("missed computed"), "{}", verdict(&source, Vec::new()));
    let masked = "  %c = s64[] constant(4095)\n  %cs = s64[50,3] broadcast(%c), dimensions={}\n  \
                  %m = s64[50,3] and(%i, %cs)\n  %j = s32[50,3] convert(%m)";
    assert!(rewritten(&indexed("s64[50,3]", masked, SCATTER)).contains("scatter(%x, %m, %u)"));
}

#[test]
fn permuted_columns_permute_the_map() {
    let clipped =
        "  %low = s32[] constant(0)\n  %high = s32[] constant(3)\n  %i = s32[50,3] clamp(%low, %raw, %high)\n";
    let source = indexed("s32[50,3]", &(clipped.to_owned() + &wrapped("s32", [2, 0, 1])), SCATTER)
        .replace("%i = s32[50,3] parameter", "%raw = s32[50,3] parameter");
    let line = rewritten(&source);
    // Component 0 points into dimension 0 and is column 2 of the array, so column 2 points into dimension 0.
    assert!(line.contains("scatter(%x, %i, %u)") && line.contains("scatter_dims_to_operand_dims={1,2,0}"), "{line}");
}

#[test]
fn a_promise_covers_the_wrap_but_not_the_programs_own_arithmetic() {
    let source = indexed("s32[50,3]", &wrapped("s32", [0, 1, 2]), SCATTER);
    insta::assert_snapshot!(verdict(&source, Vec::new()));
    assert!(verdict(&source, vec![Assumption::IndicesInBounds]).contains("reads `i` (assume"));
    // The program wraps its numbers itself before it uses them as indices, which wraps them again.
    let own = wrapped("s32", [0, 1, 2]).replace("%j = ", "%k = ");
    let again = wrapped("s32", [0, 1, 2]).replace("%i)", "%k)");
    let again: String = again
        .lines()
        .map(|line| {
            let names = ["c.", "zero.", "size.", "zeros.", "sizes.", "below.", "moved.", "w."];
            names
                .iter()
                .fold(line.to_owned(), |line, name| line.replace(&format!("%{name}"), &format!("%again.{name}")))
                + "\n"
        })
        .collect();
    let twice = indexed("s32[50,3]", &format!("{own}\n{}", again.trim_end()), SCATTER);
    let promised = verdict(&twice, vec![Assumption::IndicesInBounds]);
    assert!(promised.contains("reads `k` (assume") && !promised.contains("reads `i`"), "{promised}");
}

#[test]
fn sorted_flags_stay_only_if_the_values_do() {
    let sorted = SCATTER.replace("index_vector_dim=1", "index_vector_dim=1, indices_are_sorted=true");
    let lines = |bound: &str| bound.to_owned() + &wrapped("s32", [0, 1, 2]);
    let clipped =
        lines("  %low = s32[] constant(0)\n  %high = s32[] constant(3)\n  %i = s32[50,3] clamp(%low, %raw, %high)\n");
    let absolute = lines("  %i = s32[50,3] abs(%raw)\n");
    let rewritten = |lines: &str| {
        rewritten(
            &indexed("s32[50,3]", lines, &sorted).replace("%i = s32[50,3] parameter", "%raw = s32[50,3] parameter"),
        )
    };
    assert!(rewritten(&clipped).contains("indices_are_sorted=true"));
    // The absolute value of the smallest number is itself, and the wrap moves it, from one place out of bounds to another.
    assert!(!rewritten(&absolute).contains("indices_are_sorted=true"), "{}", rewritten(&absolute));
}

#[test]
fn components_move_to_the_last_dimension() {
    let lines = "  %c = s32[50,3] convert(%i)
  %t = s32[3,50] transpose(%c), dimensions={1,0}
  %a = s32[1,50] slice(%t), slice={[0:1], [0:50]}
  %b = s32[1,50] slice(%t), slice={[1:2], [0:50]}
  %d = s32[1,50] slice(%t), slice={[2:3], [0:50]}
  %j = s32[3,50] concatenate(%b, %a, %d), dimensions={0}";
    let scatter = SCATTER.replace("index_vector_dim=1", "index_vector_dim=0");
    let line = rewritten(&indexed("u8[50,3]", lines, &scatter));
    assert!(line.contains("scatter(%x, %i, %u)") && line.contains("index_vector_dim=1"), "{line}");
    assert!(line.contains("scatter_dims_to_operand_dims={1,0,2}"), "{line}");
}

#[test]
fn one_component_needs_no_dimension() {
    let scatter = "f32[8,16,4] scatter(%x, %j, %v), update_window_dims={1,2}, inserted_window_dims={0}, \
                   scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add";
    let lines = "  %j = s32[50] convert(%i)\n  %v = f32[50,16,4] broadcast(%u), dimensions={0}";
    let line = rewritten(&indexed("u8[50]", lines, scatter));
    assert!(line.contains("scatter(%x, %i, %v)"), "{line}");
    let flat = "  %f = u8[10,5] reshape(%i)\n  %c = s32[10,5] convert(%f)\n  %j = s32[50] reshape(%c)\n  \
                %v = f32[50,16,4] broadcast(%u), dimensions={0}";
    assert!(rewritten(&indexed("u8[50]", flat, scatter)).contains("scatter(%x, %i, %v)"));
}

#[test]
fn everything_that_reads_the_index_is_rewired_or_nothing() {
    let both = |from: &str| {
        let gather = GATHER.to_owned();
        let lines = format!("  %j = s32[50,3] convert(%i)\n  %g = {gather}\n  %v = f32[50] multiply(%g, %u)");
        indexed(&format!("{from}[50,3]"), &lines, &SCATTER.replace("%u)", "%v)"))
    };
    let narrow = report(&both("u8"), &options(Target::Cpu, Vec::new()));
    assert!(narrow.contains("gather(%x, %i)") && narrow.contains("scatter(%x, %i, %v)"), "{narrow}");
    let wide = verdict(&both("u32"), Vec::new());
    assert!(wide.contains("g: missed computed"), "{wide}");
}

#[test]
fn rows_of_several_dimensions_and_batches() {
    let scatter = "f32[8,16,4] scatter(%x, %j, %v), update_window_dims={}, inserted_window_dims={1,2}, \
                   scatter_dims_to_operand_dims={1,2}, input_batching_dims={0}, scatter_indices_batching_dims={1}, \
                   index_vector_dim=0, to_apply=%add";
    let lines = "  %c = s32[8,5,2] convert(%i)
  %a = s32[8,5,1] slice(%c), slice={[0:8], [0:5], [0:1]}
  %b = s32[8,5,1] slice(%c), slice={[0:8], [0:5], [1:2]}
  %a.1 = s32[1,8,5] reshape(%a)
  %b.1 = s32[1,8,5] reshape(%b)
  %j = s32[2,8,5] concatenate(%b.1, %a.1), dimensions={0}
  %one = f32[] constant(1)
  %v = f32[8,5] broadcast(%one), dimensions={}";
    let line = rewritten(&indexed("u16[8,5,2]", lines, scatter));
    assert!(line.contains("scatter(%x, %i, %v)") && line.contains("scatter_dims_to_operand_dims={2,1}"), "{line}");
    assert!(line.contains("scatter_indices_batching_dims={0}") && line.contains("index_vector_dim=2"), "{line}");
}

#[test]
fn what_is_read_already_is_not_offered_again() {
    for lines in ["  %j = s32[50,3] copy(%i)", "  %k = s32[150] reshape(%i)\n  %j = s32[50,3] reshape(%k)"] {
        let source = indexed("s32[50,3]", lines, SCATTER);
        let expected = if lines.contains("copy") { "r: reads `i`" } else { "" };
        assert!(verdict(&source, Vec::new()).starts_with(expected), "{lines}");
        assert_eq!(verdict(&source, Vec::new()).is_empty(), expected.is_empty(), "{lines}");
    }
    let once = report(&indexed("u8[50,3]", "  %j = s32[50,3] convert(%i)", SCATTER), &options(Target::Tpu, Vec::new()));
    assert_eq!(once, "", "the convert stays for TPU");
}

#[test]
fn the_gpu_compiler_makes_no_copy_to_save() {
    let source = indexed("u8[50,3]", "  %a = s32[50,3] convert(%i)\n  %j = s32[50,3] copy(%a)", SCATTER);
    assert!(!verdict(&source, Vec::new()).contains("fused-on-target"), "XLA:CPU makes one");
    let gpu = report(&source, &options(Target::Gpu, vec![Assumption::IndicesInBounds]));
    assert!(gpu.contains(": missed fused-on-target of 0 B: XLA:GPU") && gpu.lines().count() == 1, "{gpu}");
}

#[test]
fn other_sources_are_told_apart() {
    let cases = [
        ("s32[50,4]", "  %j = s32[50,3] slice(%i), slice={[0:50], [1:4]}", "column-subset"),
        ("s32[3,50]", "  %j = s32[50,3] transpose(%i), dimensions={1,0}", "index-layout"),
        (
            "s32[50,2]",
            "  %k = s32[50,1] iota(), iota_dimension=0\n  %j = s32[50,3] concatenate(%k, %i), dimensions={1}",
            "several-sources",
        ),
        ("s32[50,3]{0,1}", "  %j = s32[50,3]{1,0} copy(%i)", "index-layout"),
        ("s32[50,3]", "  %k = s32[50,3] negate(%i)\n  %j = s32[50,3] multiply(%k, %i)", "computed"),
    ];
    for (index, lines, code) in cases {
        let verdict = verdict(&indexed(index, lines, SCATTER), Vec::new());
        assert!(verdict.contains(&format!("missed {code}")), "{code}: {verdict}");
    }
}

/// XLA:CPU checks the bounds of a single row in the type of the index, in which a dimension may not fit.
#[test]
fn a_single_row_is_left_alone() {
    let single = |rows: usize| {
        format!(
            "HloModule m

%add {{
  %p.0 = f32[] parameter(0)
  %p.1 = f32[] parameter(1)
  ROOT %sum = f32[] add(%p.0, %p.1)
}}

ENTRY %main {{
  %x = f32[129,4] parameter(0)
  %i = s8[{rows},2] parameter(1)
  %u = f32[{rows}] parameter(2)
  %a = s8[{rows},1] slice(%i), slice={{[0:{rows}], [0:1]}}
  %b = s8[{rows},1] slice(%i), slice={{[0:{rows}], [1:2]}}
  %wide.a = s32[{rows},1] convert(%a)
  %wide.b = s32[{rows},1] convert(%b)
  %j = s32[{rows},2] concatenate(%wide.a, %wide.b), dimensions={{1}}
  ROOT %r = f32[129,4] scatter(%x, %j, %u), update_window_dims={{}}, inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply=%add
}}
"
        )
    };
    let notes = |rows| report(&single(rows), &options(Target::Cpu, Vec::new()));
    assert!(notes(2).contains("reads `i` (bitwise"), "{}", notes(2));
    assert_eq!(notes(1), "");
}

#[test]
fn sums_of_scatters_whose_indices_fit_otherwise_may_round_otherwise() {
    // XLA:CPU joins two summed scatters where their indices have one type and the same order of components.
    let grades = |t: &str, lines: &str, tail: &str| {
        let both = format!("{lines}\n  %a = {SCATTER}\n{tail}");
        let source = indexed(&format!("{t}[50,3]"), &both, "f32[8,16,4] negate(%z)");
        let raw = if lines.contains("%raw") { "%raw = s32[50,3] parameter" } else { "%i = s32[50,3] parameter" };
        let module = parse(&source.replace("%i = s32[50,3] parameter", raw));
        let findings = find(&DirectIndex, &module, &options(Target::Cpu, Vec::new()));
        let rewrites = findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Rewrite { .. }));
        rewrites.map(|finding| finding.grade).collect::<Vec<_>>()
    };
    let other = format!("  %b = {}", SCATTER.replace("%j", "%k"));
    let sum = &format!("  %k = s32[50,3] parameter(3)\n{other}\n  %z = f32[8,16,4] add(%a, %b)");
    let hidden = format!(
        "  %k = s32[50,3] parameter(3)
  %t = (f32[8,16,4]) tuple(%a)
  %g = f32[8,16,4] get-tuple-element(%t), index=0
{other}
  %z = f32[8,16,4] add(%g, %b)"
    );
    let narrow = "  %j = s32[50,3] convert(%i)";
    assert_eq!(grades("u8", narrow, sum), [Grade::Reassociate]);
    assert_eq!(grades("u8", narrow, &hidden), [Grade::Reassociate]);
    assert_eq!(grades("u8", narrow, &sum.replace("add(", "multiply(")), [Grade::Bitwise]);
    let clipped = |order| {
        "  %low = s32[] constant(0)\n  %high = s32[] constant(3)\n  %i = s32[50,3] clamp(%low, %raw, %high)\n"
            .to_owned()
            + &wrapped("s32", order)
    };
    assert_eq!(grades("s32", &clipped([0, 1, 2]), sum), [Grade::Bitwise]);
    assert_eq!(grades("s32", &clipped([2, 0, 1]), sum), [Grade::Reassociate]);
}
