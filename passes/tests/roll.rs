//! What `roll` finds in hand-written modules, what it emits, and why it stays away.
//!
//! Pins `passes/src/roll.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crate::common;

use std::fmt::Write as _;

use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::roll::Roll;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

/// Everything roll says about a module, for any saving.
fn find(module: &Module, target: Target) -> Vec<Finding> {
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), target, ..Options::default() };
    let (users, estimate) = (Users::of(module), common::estimate(Bytes(0), Vec::new()));
    Roll.find(&Context::of_input(module, &users, &estimate, &options))
}

/// The module behind the first rewrite.
fn rolled(source: &str) -> String {
    let mut module = common::module(source);
    let rewrite = find(&module, Target::Cpu).into_iter().find_map(|finding| match finding.outcome {
        Outcome::Rewrite { patch, .. } => Some(patch),
        _ => None,
    });
    rewrite.expect("copies are found").apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    text::print(&module)
}

/// Codes of everything missed, in order.
fn codes(source: &str, target: Target) -> Vec<&'static str> {
    let code = |finding: Finding| match finding.outcome {
        Outcome::Missed(reason) | Outcome::Withheld { reason, .. } => reason.code,
        Outcome::Rewrite { .. } => "rewrite",
    };
    find(&common::module(source), target).into_iter().map(code).collect()
}

/// `count` copies of a product of one row block with itself, joined by `opcode`; the block of copy `k` starts at `start(k)`.
fn copies(count: usize, opcode: &str, start: impl Fn(usize) -> usize) -> String {
    copies_of("f32", "ROOT ", count, opcode, start)
}

/// The same before other lines, one of which is the root.
fn open_copies(count: usize, opcode: &str, start: impl Fn(usize) -> usize) -> String {
    copies_of("f32", "", count, opcode, start)
}

/// The same of numbers of type `t`, with `last` in front of the value that joins all.
fn copies_of(t: &str, last: &str, count: usize, opcode: &str, start: impl Fn(usize) -> usize) -> String {
    let mut lines = format!("  %xs = {t}[4096,64] parameter(0)\n");
    for k in 0..count {
        let (from, to) = (start(k), start(k) + 64);
        writeln!(lines, "  %s.{k} = {t}[64,64] slice(%xs), slice={{[{from}:{to}], [0:64]}}").unwrap();
        writeln!(lines, "  %t.{k} = {t}[64,64] tanh(%s.{k})").unwrap();
        writeln!(
            lines,
            "  %d.{k} = {t}[64,64] dot(%t.{k}, %s.{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
        .unwrap();
        if k > 0 {
            let root = if k + 1 == count { last } else { "" };
            let before = if k == 1 { "%d.0".to_owned() } else { format!("%a.{}", k - 1) };
            writeln!(lines, "  {root}%a.{k} = {t}[64,64] {opcode}({before}, %d.{k})").unwrap();
        }
    }
    lines
}

#[test]
fn a_sum_starts_from_the_zero_that_keeps_signs() {
    let after = rolled(&copies(4, "add", |k| 64 * k));
    assert!(after.contains("constant(-0.0)"), "{after}");
    assert!(after.contains("constant(64)") && after.contains("multiply("), "blocks lie 64 rows apart: {after}");
    assert_eq!(after.matches(" dot(").count(), 1, "{after}");
}

#[test]
fn positions_without_a_rule_become_a_table() {
    let after = rolled(&copies(4, "maximum", |k| [0, 7, 300, 64][k]));
    assert!(
        after.contains("s32[4]{0} constant({0, 7, 300, 64})") || after.contains("constant({0, 7, 300, 64})"),
        "{after}"
    );
    assert!(after.contains("constant(-inf)"), "{after}");
}

#[test]
fn copies_that_xla_computes_once_stay() {
    // Every second copy reads what the first one read: a loop would do twice the work.
    assert_eq!(codes(&copies(6, "add", |k| 64 * (k % 2)), Target::Cpu), ["repeated"]);
    assert_eq!(codes(&copies(6, "add", |k| 64 * k), Target::Cpu), ["rewrite"]);
    // One of twelve costs less than a tenth, but is no longer the same value.
    let one = copies(12, "maximum", |k| if k == 11 { 0 } else { 64 * k });
    assert_eq!(grades(&format!("HloModule m\n\nENTRY %main {{\n{one}\n}}\n")), [Grade::HloExact]);
}

#[test]
fn sums_of_products_that_leave_the_loop_may_round_anew() {
    let outputs = |joined: &str| {
        let mut lines = "  %xs = f32[256,64] parameter(0)\n  %c = f32[64,64] parameter(1)\n".to_owned();
        for k in 0..4 {
            let (from, to) = (64 * k, 64 * k + 64);
            writeln!(lines, "  %s.{k} = f32[64,64] slice(%xs), slice={{[{from}:{to}], [0:64]}}").unwrap();
            writeln!(
                lines,
                "  %d.{k} = f32[64,64] dot(%s.{k}, %c), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
            )
            .unwrap();
            writeln!(lines, "  %m.{k} = f32[64,64] multiply(%c, %c)").unwrap();
            writeln!(lines, "  %p.{k} = f32[64,64] {joined}(%d.{k}, %m.{k})").unwrap();
            writeln!(lines, "  %n.{k} = f32[64,64] sine(%p.{k})").unwrap();
        }
        let root = "  ROOT %all = f32[256,64] concatenate(%n.0, %n.1, %n.2, %n.3), dimensions={0}";
        grades(&format!("HloModule m\n\nENTRY %main {{\n{lines}{root}\n}}\n"))
    };
    assert_eq!(outputs("add"), [Grade::HloExact]);
    assert_eq!(outputs("maximum"), [Grade::Bitwise]);
}

#[test]
fn two_copies_stay() {
    assert_eq!(codes(&copies(2, "add", |k| 64 * k), Target::Cpu), [""; 0]);
}

#[test]
fn a_thousand_copies_make_one_loop() {
    let after = rolled(&copies(1000, "add", |k| 3 * k));
    assert!(after.lines().count() < 50, "{} lines are left", after.lines().count());
    assert!(after.contains("constant(1000)"), "{after}");
}

#[test]
fn stacks_keep_their_order_also_backwards() {
    let source = open_copies(3, "add", |k| 64 * k);
    for (order, starts) in [("%d.0, %d.1, %d.2", "next_step"), ("%d.2, %d.1, %d.0", "constant(-64)")] {
        let after = rolled(&format!("{source}  ROOT %c = f32[192,64] concatenate({order}), dimensions={{0}}"));
        assert!(after.contains("dynamic-update-slice") && after.contains(starts), "{after}");
        assert!(!after.contains("concatenate"), "{after}");
    }
}

#[test]
fn values_that_later_work_reads_one_by_one_are_residuals() {
    let chain = "  %x.0 = f32[64,64] parameter(0)
  %w = f32[64,64] parameter(1)
  %x.1 = f32[64,64] dot(%x.0, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %x.2 = f32[64,64] dot(%x.1, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %x.3 = f32[64,64] dot(%x.2, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %x.4 = f32[64,64] dot(%x.3, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %p = f32[64,64] multiply(%x.1, %x.3)
  %q = f32[64,64] subtract(%p, %x.2)
  ROOT %r = f32[64,64] divide(%q, %x.4)";
    assert_eq!(codes(chain, Target::Cpu), ["residuals"]);
}

#[test]
fn what_depends_on_the_copies_is_no_input_of_the_loop() {
    // The second half of the copies reads a value computed from the first half.
    let source = copies(6, "add", |k| 64 * k).replace("tanh(%s.5)", "multiply(%s.5, %a.2)");
    let after = rolled(&source);
    assert!(
        after.contains("constant(3)") && after.contains("%t.5 = f32[64,64] multiply"),
        "three copies come first: {after}"
    );
}

#[test]
fn side_effects_and_control_dependencies_stay() {
    let source = copies(4, "add", |k| 64 * k);
    let ordered = source.replace("tanh(%s.2)", "tanh(%s.2), control-predecessors={%t.1}");
    assert!(!codes(&ordered, Target::Cpu).contains(&"rewrite"));
}

#[test]
fn on_tpu_large_stacks_of_floats_are_not_sliced_in_a_loop_for_dots() {
    let source = copies(4, "add", |k| 64 * k).replace("[4096,64]", "[4194304,64]");
    assert_eq!(codes(&source, Target::Tpu), ["hoisted-copy"]);
    assert_eq!(codes(&source, Target::Gpu), ["rewrite"]);
    let small = copies(4, "add", |k| 64 * k);
    assert_eq!(codes(&small, Target::Tpu), ["rewrite"]);
}

#[test]
fn called_computations_are_compared_by_content() {
    let body = |name: &str, opcode: &str| {
        format!(
            "%{name} {{\n  %a.{name} = f32[] parameter(0)\n  %b.{name} = f32[] parameter(1)\n  ROOT %r.{name} = f32[] {opcode}(%a.{name}, %b.{name})\n}}\n\n"
        )
    };
    let source = |last: &str| {
        let mut text =
            format!("HloModule m\n\n{}{}{}ENTRY %main {{\n", body("f", "add"), body("g", "add"), body("h", last));
        text += "  %xs = f32[3,64] parameter(0)\n  %zero = f32[] constant(0)\n";
        for (k, name) in ["f", "g", "h"].iter().enumerate() {
            writeln!(text, "  %s.{k} = f32[1,64] slice(%xs), slice={{[{k}:{}], [0:64]}}", k + 1).unwrap();
            writeln!(text, "  %v.{k} = f32[] reduce(%s.{k}, %zero), dimensions={{0,1}}, to_apply=%{name}").unwrap();
        }
        text + "  %t = f32[] add(%v.0, %v.1)\n  ROOT %u = f32[] add(%t, %v.2)\n}\n"
    };
    let said = |text: &str| find(&common::parse(text), Target::Cpu).len();
    assert_eq!((said(&source("add")), said(&source("maximum"))), (1, 0));
}

/// `count` copies whose values `parts` are joined in that order, as `%name.copy`.
fn chained(lines: &str, parts: &[String], shape: &str) -> String {
    let mut text = lines.to_owned();
    for (k, part) in parts.iter().enumerate().skip(1) {
        let before = if k == 1 { parts[0].clone() } else { format!("%sum.{}", k - 1) };
        let root = if k + 1 == parts.len() { "ROOT " } else { "" };
        writeln!(text, "  {root}%sum.{k} = {shape} add({before}, {part})").unwrap();
    }
    text
}

#[test]
fn a_chain_that_goes_on_from_what_the_loop_collects_is_no_input_of_the_loop() {
    // Two values of each copy: first all of one kind are summed, then, to the same sum, all of the other.
    let mut lines = "  %xs = f32[4096,64] parameter(0)\n".to_owned();
    let mut parts = [Vec::new(), Vec::new()];
    for k in 0..4 {
        let (from, to) = (64 * k, 64 * k + 64);
        writeln!(lines, "  %s.{k} = f32[64,64] slice(%xs), slice={{[{from}:{to}], [0:64]}}").unwrap();
        writeln!(lines, "  %t.{k} = f32[64,64] tanh(%s.{k})").unwrap();
        let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        writeln!(lines, "  %d.{k} = f32[64,64] dot(%t.{k}, %s.{k}), {dims}").unwrap();
        writeln!(lines, "  %e.{k} = f32[64,64] sine(%d.{k})").unwrap();
        writeln!(lines, "  %f.{k} = f32[64,64] cosine(%d.{k})").unwrap();
        parts[0].push(format!("%e.{k}"));
        parts[1].push(format!("%f.{k}"));
    }
    let source = chained(&lines, &parts.concat(), "f32[64,64]");
    // Rolling both chains would need the loop before it begins; `rolled` verifies what is emitted instead.
    let module = common::module(&source);
    for finding in find(&module, Target::Cpu) {
        if let Outcome::Rewrite { patch, .. } = finding.outcome {
            let mut rewritten = module.clone();
            patch.apply(&mut rewritten).expect("the patch fits");
            assert_eq!(verify::verify(&rewritten), [], "{}", text::print(&rewritten));
        }
    }
}

#[test]
fn several_arrays_in_one_are_not_collected() {
    let compare = "%less {\n  %p = f32[] parameter(0)\n  %q = f32[] parameter(1)\n  %m = s32[] parameter(2)\n  %n = s32[] parameter(3)\n  ROOT %l = pred[] compare(%p, %q), direction=LT\n}\n\n";
    let mut text = format!(
        "HloModule m\n\n{compare}ENTRY %main {{\n  %xs = f32[3,64] parameter(0)\n  %i = s32[64] iota(), iota_dimension=0\n"
    );
    let mut parts = Vec::new();
    for k in 0..3 {
        writeln!(text, "  %s.{k} = f32[1,64] slice(%xs), slice={{[{k}:{}], [0:64]}}", k + 1).unwrap();
        writeln!(text, "  %r.{k} = f32[64] reshape(%s.{k})").unwrap();
        writeln!(text, "  %t.{k} = (f32[64], s32[64]) sort(%r.{k}, %i), dimensions={{0}}, to_apply=%less").unwrap();
        writeln!(text, "  %v.{k} = f32[64] get-tuple-element(%t.{k}), index=0").unwrap();
        parts.push(format!("%v.{k}"));
    }
    // One copy's second array is read too, which no other copy has a like of.
    text = chained(&text, &parts, "f32[64]").replace("ROOT ", "");
    text += "  %o = s32[64] get-tuple-element(%t.1), index=1\n  ROOT %all = (f32[64], s32[64]) tuple(%sum.2, %o)\n}\n";
    let said: Vec<_> = find(&common::parse(&text), Target::Cpu);
    let mut codes = said.iter().filter_map(|finding| match &finding.outcome {
        Outcome::Missed(reason) => Some(reason.code),
        _ => None,
    });
    assert!(codes.any(|code| code == "residuals"), "{said:?}");
}

/// Grades of the rewrites.
fn grades(source: &str) -> Vec<Grade> {
    let found = find(&common::parse(source), Target::Cpu);
    found
        .iter()
        .filter(|finding| matches!(finding.outcome, Outcome::Rewrite { .. }))
        .map(|finding| finding.grade)
        .collect()
}

#[test]
fn sums_that_take_in_a_scatter_into_zeros_may_change_their_order() {
    let add = "%add {\n  %p = f32[] parameter(0)\n  %q = f32[] parameter(1)\n  ROOT %l = f32[] add(%p, %q)\n}\n\n";
    let source = |start: &str| {
        let mut text = format!(
            "HloModule m\n\n{add}ENTRY %main {{\n  %xs = f32[3,64,8] parameter(0)\n  %i = s32[64,1] parameter(1)\n  %other = f32[100,8] parameter(2)\n  %zero = f32[] constant(0)\n  %zeros = f32[100,8] broadcast(%zero), dimensions={{}}\n"
        );
        let mut parts = Vec::new();
        for k in 0..3 {
            writeln!(text, "  %s.{k} = f32[1,64,8] slice(%xs), slice={{[{k}:{}], [0:64], [0:8]}}", k + 1).unwrap();
            writeln!(text, "  %r.{k} = f32[64,8] reshape(%s.{k})").unwrap();
            writeln!(text, "  %v.{k} = f32[100,8] scatter({start}, %i, %r.{k}), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%add").unwrap();
            parts.push(format!("%v.{k}"));
        }
        chained(&text, &parts, "f32[100,8]") + "}\n"
    };
    assert_eq!(grades(&source("%zeros")), [Grade::HloExact]);
    assert_eq!(grades(&source("%other")), [Grade::Bitwise]);
}

#[test]
fn sums_that_take_in_zeros_with_a_part_written_may_lose_the_sign_of_zero() {
    let source = |start: &str| {
        let mut lines = "  %xs = f32[4096,64] parameter(0)\n  %other = f32[100,64] parameter(1)\n  %i = s32[] parameter(2)\n  %zero = f32[] constant(0)\n  %zeros = f32[100,64] broadcast(%zero), dimensions={}\n".to_owned();
        let mut parts = Vec::new();
        for k in 0..3 {
            let (from, to) = (64 * k, 64 * k + 64);
            writeln!(lines, "  %s.{k} = f32[64,64] slice(%xs), slice={{[{from}:{to}], [0:64]}}").unwrap();
            let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
            writeln!(lines, "  %d.{k} = f32[64,64] dot(%s.{k}, %s.{k}), {dims}").unwrap();
            writeln!(lines, "  %u.{k} = f32[100,64] dynamic-update-slice({start}, %d.{k}, %i, %i)").unwrap();
            parts.push(format!("%u.{k}"));
        }
        let found = find(&common::module(&chained(&lines, &parts, "f32[100,64]")), Target::Cpu);
        found.into_iter().map(|finding| finding.grade).collect::<Vec<_>>()
    };
    assert_eq!((source("%zeros"), source("%other")), (vec![Grade::HloExact], vec![Grade::Bitwise]));
}

#[test]
fn a_reduction_behind_the_loop_may_choose_another_library() {
    let source = |last: &str| {
        let add = "%add {\n  %p = f32[] parameter(0)\n  %q = f32[] parameter(1)\n  ROOT %l = f32[] add(%p, %q)\n}\n\n";
        let body = open_copies(4, "add", |k| 64 * k);
        format!(
            "HloModule m\n\n{add}ENTRY %main {{\n{body}  %zero = f32[] constant(0)\n  %sine = f32[64,64] sine(%a.3)\n  {last}\n}}\n"
        )
    };
    let reduced = "ROOT %r = f32[] reduce(%sine, %zero), dimensions={0,1}, to_apply=%add";
    assert_eq!(grades(&source(reduced)), [Grade::HloExact]);
    assert_eq!(grades(&source("ROOT %r = f32[64,64] negate(%sine)")), [Grade::Bitwise]);
}

#[test]
fn one_kernel_of_several_reductions_sums_otherwise_than_one_for_each() {
    let source = |rows: usize, opcode: &str| {
        let all = 3 * rows;
        let mut lines = format!(
            "HloModule m

%less {{
  %p = f32[] parameter(0)
  %q = f32[] parameter(1)
  ROOT %l = pred[] compare(%p, %q), direction=LT
}}

%join {{
  %p = f32[] parameter(0)
  %q = f32[] parameter(1)
  ROOT %l = f32[] {opcode}(%p, %q)
}}

ENTRY %main {{
  %xs = f32[{all},64] parameter(0)
  %zero = f32[] constant(0)
"
        );
        let mut parts = Vec::new();
        for k in 0..3 {
            let (from, to) = (rows * k, rows * k + rows);
            writeln!(lines, "  %s.{k} = f32[{rows},64] slice(%xs), slice={{[{from}:{to}], [0:64]}}").unwrap();
            writeln!(lines, "  %t.{k} = f32[{rows},64] sort(%s.{k}), dimensions={{0}}, to_apply=%less").unwrap();
            writeln!(lines, "  %r.{k} = f32[] reduce(%t.{k}, %zero), dimensions={{0,1}}, to_apply=%join").unwrap();
            parts.push(format!("%r.{k}"));
        }
        chained(&lines, &parts, "f32[]") + "}\n"
    };
    assert_eq!(grades(&source(8, "add")), [Grade::HloExact]);
    assert_eq!(grades(&source(64, "add")), [Grade::Bitwise], "a library sums these alone");
}

#[test]
fn what_is_known_when_it_is_compiled_is_computed_otherwise() {
    // Steps that sort what they make of a sorted block and the constant of the step.
    let source = |step: &str| {
        let less = "%less {\n  %p = f32[] parameter(0)\n  %q = f32[] parameter(1)\n  ROOT %l = pred[] compare(%p, %q), direction=LT\n}\n\n";
        let mut lines = format!("HloModule m\n\n{less}ENTRY %main {{\n  %xs = f32[192,64] parameter(0)\n");
        let mut parts = Vec::new();
        for k in 0..3 {
            let (from, to) = (64 * k, 64 * k + 64);
            writeln!(lines, "  %s.{k} = f32[64,64] slice(%xs), slice={{[{from}:{to}], [0:64]}}").unwrap();
            writeln!(lines, "  %t.{k} = f32[64,64] sort(%s.{k}), dimensions={{0}}, to_apply=%less").unwrap();
            writeln!(lines, "  %c.{k} = f32[] constant({k}.5)").unwrap();
            writeln!(lines, "  %b.{k} = f32[64,64] broadcast(%c.{k}), dimensions={{}}").unwrap();
            writeln!(lines, "{}", step.replace('#', &k.to_string())).unwrap();
            writeln!(lines, "  %r.{k} = f32[64,64] sort(%w.{k}), dimensions={{0}}, to_apply=%less").unwrap();
            parts.push(format!("%r.{k}"));
        }
        lines + &format!("  ROOT %all = f32[192,64] concatenate({}), dimensions={{0}}\n}}\n", parts.join(", "))
    };
    let of = |work: &str| grades(&source(&format!("  %w.# = f32[64,64] {work}")));
    // A power becomes a square, constants of two products become one, functions of constants are taken from a library.
    for work in ["power(%t.#, %b.#)", "multiply(%t.#, %b.#)", "add(%t.#, %b.#)", "atan2(%t.#, %b.#)", "tanh(%b.#)"] {
        assert_eq!(of(work), [Grade::HloExact], "{work}");
    }
    for work in ["maximum(%t.#, %b.#)", "clamp(%b.#, %t.#, %b.#)", "negate(%b.#)", "tanh(%t.#)"] {
        assert_eq!(of(work), [Grade::Bitwise], "{work}");
    }
    assert_eq!(of("cbrt(%t.#)"), [Grade::HloExact], "its last bits follow the size of a kernel");
    let chosen = "  %p.# = pred[64,64] compare(%t.#, %b.#), direction=GT
  %w.# = f32[64,64] select(%p.#, %t.#, %b.#)";
    assert_eq!(grades(&source(chosen)), [Grade::Bitwise], "one of the two is taken as it is");
}

#[test]
fn short_floats_are_rounded_where_a_step_ends() {
    let source = |element: &str| {
        let body = copies_of(element, "", 4, "maximum", |k| 64 * k);
        format!("HloModule m\n\nENTRY %main {{\n{body}  ROOT %r = {element}[64,64] sine(%a.3)\n}}\n")
    };
    assert_eq!(grades(&source("f32")), [Grade::Bitwise]);
    assert_eq!(grades(&source("f16")), [Grade::HloExact]);
    let (stack, returned) = (
        "%all = bf16[256,64] concatenate(%t.0, %t.1, %t.2, %t.3), dimensions={0}",
        "ROOT %both = (bf16[256,64]) tuple(%all)",
    );
    let mut lines = "  %xs = bf16[256,64] parameter(0)\n".to_owned();
    for k in 0..4 {
        let (from, to) = (64 * k, 64 * k + 64);
        writeln!(lines, "  %s.{k} = bf16[64,64] slice(%xs), slice={{[{from}:{to}], [0:64]}}").unwrap();
        let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        writeln!(lines, "  %t.{k} = bf16[64,64] dot(%s.{k}, %s.{k}), {dims}").unwrap();
    }
    let stacked = |root: &str| grades(&format!("HloModule m\n\nENTRY %main {{\n{lines}  {stack}\n{root}\n}}\n"));
    assert_eq!(stacked(returned), [Grade::Bitwise], "memory is where the program wants it");
    assert_eq!(stacked("  ROOT %r = bf16[256,64] sine(%all)"), [Grade::HloExact]);
}

#[test]
fn constants_that_the_dump_left_out_may_be_any() {
    let scaled = |constant: &dyn Fn(usize) -> usize| {
        let mut lines = "  %xs = f32[4096,64] parameter(0)\n".to_owned();
        for k in 0..4 {
            writeln!(lines, "  %c.{k} = f32[64,64] constant({{...}})").unwrap();
        }
        for k in 0..4 {
            let (from, to) = (64 * k, 64 * k + 64);
            writeln!(lines, "  %s.{k} = f32[64,64] slice(%xs), slice={{[{from}:{to}], [0:64]}}").unwrap();
            writeln!(lines, "  %t.{k} = f32[64,64] multiply(%s.{k}, %c.{})", constant(k)).unwrap();
            let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
            writeln!(lines, "  %d.{k} = f32[64,64] dot(%t.{k}, %s.{k}), {dims}").unwrap();
        }
        chained(&lines, &["%d.0", "%d.1", "%d.2", "%d.3"].map(str::to_owned), "f32[64,64]")
    };
    // All read one of them; each reads its own.
    assert_eq!(codes(&scaled(&|_| 0), Target::Cpu)[0], "rewrite");
    assert!(!codes(&scaled(&|k| k), Target::Cpu).contains(&"rewrite"));
}
