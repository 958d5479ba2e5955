//! What `tie` lets wait, and that it does so once.
//!
//! Pins `passes/src/recompute.rs`, `passes/src/recompute/tie.rs`, `passes/src/tie.rs`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crate::common;

use std::fmt::Write as _;

use hlo_ir::graph::Users;
use hlo_ir::{Module, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::tie::Tie;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

fn find(module: &Module, target: Target) -> Vec<Finding> {
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), target, ..Options::default() };
    let (users, estimate) = (Users::of(module), common::estimate(Bytes(0), Vec::new()));
    Tie.find(&Context::of_input(module, &users, &estimate, &options))
}

/// The module with every rewrite applied, one after the other, and how many there were.
fn tied(module: &mut Module) -> usize {
    let mut count = 0;
    while let Some(patch) = find(module, Target::Cpu).into_iter().find_map(|finding| match finding.outcome {
        Outcome::Rewrite { patch, .. } => Some(patch),
        _ => None,
    }) {
        patch.apply(module).expect("the patch fits");
        assert_eq!(verify::verify(module), [], "{}", text::print(module));
        count += 1;
        assert!(count < 10, "the same is tied again and again");
    }
    count
}

/// A net of `layers` layers with weights of this type.
fn net(layers: usize, element: &str) -> Module {
    net_of(layers, element, |k| format!("  %w.{k} = {element}[64,64] parameter({k})"))
}

/// The same with lines that make the weights `%w.k` of layer `k`.
fn net_of(layers: usize, element: &str, weights: impl Fn(usize) -> String) -> Module {
    let mut lines = format!("  %x.0 = {element}[8,64] parameter(0)\n");
    for k in 1..=layers {
        writeln!(lines, "{}", weights(k)).unwrap();
        let root = if k == layers { "ROOT " } else { "" };
        let before = k - 1;
        writeln!(
            lines,
            "  {root}%x.{k} = {element}[8,64] dot(%x.{before}, %w.{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
        .unwrap();
    }
    common::module(&lines)
}

#[test]
fn widened_weights_wait_for_the_other_operand() {
    let mut module = net(4, "bf16");
    assert_eq!(tied(&mut module), 1);
    let after = text::print(&module);
    assert_eq!(after.matches(" select(").count(), 3, "the first product waits for nothing: {after}");
    assert_eq!(after.matches(" clamp(").count(), 3, "{after}");
}

#[test]
fn weights_that_are_read_in_place_do_not_wait() {
    assert_eq!(tied(&mut net(4, "f32")), 0);
}

#[test]
fn where_compilers_schedule_with_barriers_values_wait_behind_them() {
    for target in [Target::Gpu, Target::Tpu] {
        let mut module = net(4, "bf16");
        let [Finding { outcome: Outcome::Rewrite { patch, .. }, .. }] = &find(&module, target)[..] else { panic!() };
        patch.clone().apply(&mut module).expect("the patch fits");
        assert_eq!(verify::verify(&module), []);
        let after = text::print(&module);
        assert_eq!([" select(", " opt-barrier("].map(|opcode| after.matches(opcode).count()), [0, 3], "{after}");
        assert!(find(&module, target).is_empty(), "they wait already");
    }
}

#[test]
fn weights_behind_barriers_of_the_program_wait_on_cpu_where_those_are_gone() {
    let behind_barriers = |k: usize| {
        format!(
            "  %q.{k} = bf16[64,64] parameter({k})
  %u.{k} = (bf16[64,64]) tuple(%q.{k})
  %b.{k} = (bf16[64,64]) opt-barrier(%u.{k})
  %w.{k} = bf16[64,64] get-tuple-element(%b.{k}), index=0"
        )
    };
    let mut module = net_of(4, "bf16", behind_barriers);
    assert_eq!(tied(&mut module), 1);
    assert_eq!(text::print(&module).matches(" select(").count(), 3);
}

#[test]
fn recomputation_waits_for_the_latest_value_of_its_barrier() {
    let mut module = common::module(
        "  %x = f32[64,64] parameter(0)
  %w = f32[64,64] parameter(1)
  %late = f32[64,64] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %t = (f32[64,64], f32[64,64]) tuple(%x, %late)
  %b = (f32[64,64], f32[64,64]) opt-barrier(%t)
  %bx = f32[64,64] get-tuple-element(%b), index=0
  %bl = f32[64,64] get-tuple-element(%b), index=1
  %again = f32[64,64] dot(%bx, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %r = f32[64,64] multiply(%again, %bl)",
    );
    assert_eq!(tied(&mut module), 1);
    let after = text::print(&module);
    assert!(after.contains("%again = f32[64,64] dot(%bx.tied, %w)"), "{after}");
    assert!(after.contains("slice(%late)"), "{after}");
}

/// Pieces that sort what they compute.
fn sorted_pieces(count: usize) -> Module {
    let mut lines = String::new();
    for k in 0..count {
        writeln!(lines, "  %x.{k} = f32[4096] parameter({k})\n  %s.{k} = f32[4096] sine(%x.{k})").unwrap();
        writeln!(lines, "  %o.{k} = f32[4096] sort(%s.{k}), dimensions={{0}}, to_apply=%less").unwrap();
        writeln!(lines, "  %e.{k} = f32[1] slice(%o.{k}), slice={{[0:1]}}").unwrap();
    }
    let less = "%less {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %c = pred[] compare(%a, %b), direction=LT\n}";
    let ends: Vec<String> = (0..count).map(|k| format!("%e.{k}")).collect();
    let root = format!("  ROOT %t = ({}) tuple({})", vec!["f32[1]"; count].join(", "), ends.join(", "));
    common::parse(&format!("HloModule m\n\n{less}\n\nENTRY %main {{\n{lines}{root}\n}}\n"))
}

#[test]
fn pieces_of_the_same_work_wait_for_each_other() {
    let mut module = sorted_pieces(3);
    assert_eq!(tied(&mut module), 1);
    let after = text::print(&module);
    assert!(after.contains("sine(%x.1.tied)") && after.contains("sine(%x.2.tied)"), "{after}");
    assert!(after.contains("sine(%x.0)"), "{after}");
}

#[test]
fn pieces_that_wait_behind_a_barrier_do_not_wait_again() {
    let mut module = sorted_pieces(5);
    let [Finding { outcome: Outcome::Rewrite { patch, .. }, .. }] = &find(&module, Target::Gpu)[..] else { panic!() };
    patch.clone().apply(&mut module).expect("the patch fits");
    assert_eq!(text::print(&module).matches(" opt-barrier(").count(), 4);
    assert!(find(&module, Target::Gpu).is_empty());
}

#[test]
fn on_tpu_pieces_with_products_do_not_wait() {
    let mut lines = "  %w = f32[512,512] parameter(0)\n".to_owned();
    for k in 0..3 {
        let number = k + 1;
        writeln!(lines, "  %x.{k} = f32[512,512] parameter({number})\n  %s.{k} = f32[512,512] sine(%x.{k})").unwrap();
        let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        writeln!(lines, "  %d.{k} = f32[512,512] dot(%s.{k}, %w), {dims}").unwrap();
        writeln!(lines, "  %e.{k} = f32[1,512] slice(%d.{k}), slice={{[0:1], [0:512]}}").unwrap();
    }
    let module =
        common::module(&format!("{lines}  ROOT %t = (f32[1,512], f32[1,512], f32[1,512]) tuple(%e.0, %e.1, %e.2)"));
    let pieces = |target| {
        let findings = find(&module, target);
        findings
            .iter()
            .filter(|finding| matches!(&finding.outcome, Outcome::Rewrite { note, .. } if note.contains("pieces")))
            .count()
    };
    assert_eq!([Target::Cpu, Target::Gpu, Target::Tpu].map(pieces), [1, 1, 0]);
}

#[test]
fn pieces_that_need_each_other_are_left_alone() {
    // The third piece is computed from the second: what comes before it is no piece of its own.
    let mut module = common::module(
        "  %x = f32[4096] parameter(0)
  %a = f32[4096] sine(%x)
  %b = f32[4096] sine(%a)
  %c = f32[4096] sine(%b)
  ROOT %t = (f32[4096], f32[4096], f32[4096]) tuple(%a, %b, %c)",
    );
    assert_eq!(tied(&mut module), 0);
}

#[test]
fn equal_pieces_are_computed_once() {
    let mut lines = "  %x = f32[4,64,64] parameter(0)\n  %w = f32[64,64] parameter(1)\n".to_owned();
    let mut names = Vec::new();
    for k in 0..4 {
        // The factors of the second half are those of the first, the other way round.
        let (a, b) = ([0, 0, 1, 2][k], [1, 2, 0, 0][k]);
        for (name, row) in [("a", a), ("b", b)] {
            writeln!(lines, "  %{name}.{k} = f32[1,64,64] slice(%x), slice={{[{row}:{}], [0:64], [0:64]}}", row + 1)
                .unwrap();
        }
        writeln!(lines, "  %m.{k} = f32[1,64,64] multiply(%a.{k}, %b.{k})").unwrap();
        writeln!(lines, "  %r.{k} = f32[64,64] reshape(%m.{k})").unwrap();
        writeln!(
            lines,
            "  %d.{k} = f32[64,64] dot(%r.{k}, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
        .unwrap();
        names.push(format!("%d.{k}"));
    }
    let shapes = ["f32[64,64]"; 4].join(", ");
    writeln!(lines, "  ROOT %all = ({shapes}) tuple({})", names.join(", ")).unwrap();
    let found = find(&common::module(&lines), Target::Cpu);
    let [Finding { outcome: Outcome::Missed(reason), .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(reason.code, "repeated");
}

#[test]
fn a_tie_on_a_factor_of_a_summed_product_may_round_anew() {
    assert_eq!(summed_products("add", "multiply(%r.{k}, %c)"), [Grade::HloExact]);
    assert_eq!(summed_products("maximum", "multiply(%r.{k}, %c)"), [Grade::Bitwise]);
    // The product and the sum stand in a computation that XLA inlines.
    assert_eq!(summed_products("subtract", "call(%r.{k}), to_apply=%scaled"), [Grade::HloExact]);
    assert_eq!(summed_products("minimum", "call(%r.{k}), to_apply=%scaled"), [Grade::Bitwise]);
}

#[test]
fn short_floats_that_wait_are_rounded() {
    let grades = |element: &str| {
        let mut lines = format!("  %xs = {element}[4,64] parameter(0)\n  %c = {element}[64,64] parameter(1)\n");
        for k in 0..4 {
            writeln!(lines, "  %s.{k} = {element}[1,64] slice(%xs), slice={{[{k}:{}], [0:64]}}", k + 1).unwrap();
            writeln!(lines, "  %r.{k} = {element}[64] reshape(%s.{k})").unwrap();
            writeln!(lines, "  %n.{k} = {element}[64] tanh(%r.{k})").unwrap();
            writeln!(lines, "  %b.{k} = {element}[64,64] broadcast(%n.{k}), dimensions={{0}}").unwrap();
            let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
            writeln!(lines, "  %d.{k} = {element}[64,64] dot(%b.{k}, %c), {dims}").unwrap();
        }
        let shapes = [format!("{element}[64,64]").as_str(); 4].join(", ");
        writeln!(lines, "  ROOT %all = ({shapes}) tuple(%d.0, %d.1, %d.2, %d.3)").unwrap();
        let found = find(&common::module(&lines), Target::Cpu);
        let rewrites = found.iter().filter(|finding| matches!(finding.outcome, Outcome::Rewrite { .. }));
        rewrites.map(|finding| finding.grade).collect::<Vec<_>>()
    };
    assert_eq!((grades("f32"), grades("f16")), (vec![Grade::Bitwise], vec![Grade::HloExact]));
}

/// Grades of the changes to four pieces, each of which computes `product` and joins it with an array by `last`.
fn summed_products(last: &str, product: &str) -> Vec<Grade> {
    let mut lines = "  %xs = f32[4,64,64] parameter(0)\n  %c = f32[64,64] parameter(1)\n".to_owned();
    let mut names = Vec::new();
    for k in 0..4 {
        writeln!(lines, "  %s.{k} = f32[1,64,64] slice(%xs), slice={{[{k}:{}], [0:64], [0:64]}}", k + 1).unwrap();
        writeln!(lines, "  %r.{k} = f32[64,64] reshape(%s.{k})").unwrap();
        writeln!(lines, "  %m.{k} = f32[64,64] {}", product.replace("{k}", &k.to_string())).unwrap();
        writeln!(lines, "  %a.{k} = f32[64,64] {last}(%m.{k}, %c)").unwrap();
        writeln!(
            lines,
            "  %d.{k} = f32[64,64] dot(%a.{k}, %c), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
        .unwrap();
        names.push(format!("%d.{k}"));
    }
    let shapes = ["f32[64,64]"; 4].join(", ");
    writeln!(lines, "  ROOT %all = ({shapes}) tuple({})", names.join(", ")).unwrap();
    let scaled = "%scaled {\n  %p = f32[64,64] parameter(0)\n  %sin = f32[64,64] sine(%p)\n  ROOT %m = f32[64,64] multiply(%sin, %sin)\n}";
    let module = common::parse(&format!("HloModule m\n\n{scaled}\n\nENTRY %main {{\n{lines}}}\n"));
    let found = find(&module, Target::Cpu);
    let rewrites = found.iter().filter(|finding| matches!(finding.outcome, Outcome::Rewrite { .. }));
    rewrites.map(|finding| finding.grade).collect::<Vec<_>>()
}
