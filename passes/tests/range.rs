//! What the range analysis knows, fact by fact.
//!
//! Pins `passes/src/range/mod.rs`, `passes/src/range/arithmetic.rs`, `passes/src/range/calls.rs`, `passes/src/range/loops.rs`,
//! `passes/src/range/movement.rs`, `passes/src/range/refine.rs`, `passes/src/bounds.rs`.

use crate::common;

use std::fmt::Write as _;

use hlo_ir::{Module, text};
use hlo_passes::range::{Range, Ranges, Region};

/// Range of the root of an entry with these lines; `%x`, `%y` and `%f` are unknown.
fn root(lines: &str) -> String {
    of(&module(lines))
}

fn of(module: &Module) -> String {
    Ranges::new(module).of(module.computation(module.entry()).root).to_string()
}

fn module(lines: &str) -> Module {
    with_functions("", lines)
}

fn with_functions(functions: &str, lines: &str) -> Module {
    let module = common::parse(&format!(
        "HloModule m

%min {{
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %r = s32[] minimum(%a, %b)
}}

%plus {{
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %r = s32[] add(%a, %b)
}}

%second {{
  %a = s32[] parameter(0)
  ROOT %b = s32[] parameter(1)
}}

{functions}
ENTRY %main {{
  %x = s32[8,3] parameter(0)
  %y = u8[8,3] parameter(1)
  %f = f32[8,3] parameter(2)
  %zero = s32[] constant(0)
  %one = s32[] constant(1)
  %size = s32[] constant(128)
  %zeros = s32[8,3] broadcast(%zero), dimensions={{}}
  %ones = s32[8,3] broadcast(%one), dimensions={{}}
  %sizes = s32[8,3] broadcast(%size), dimensions={{}}
{lines}
}}
"
    ));
    assert!(hlo_ir::verify::verify(&module).is_empty(), "{:?}", hlo_ir::verify::verify(&module));
    module
}

const S32: &str = "[-2147483648, 2147483647]";

#[test]
fn sources() {
    assert_eq!(root("  ROOT %r = s32[8,3] copy(%x)"), S32);
    assert_eq!(root("  ROOT %r = s32[8,3] convert(%y)"), "[0, 255]");
    assert_eq!(root("  ROOT %r = s8[8,3] convert(%y)"), "[-128, 127]");
    assert_eq!(root("  ROOT %r = s32[8,3] convert(%f)"), S32, "a float can be anything");
    assert_eq!(root("  ROOT %r = s32[8,3] iota(), iota_dimension=1"), "[0, 2]");
    assert_eq!(root("  ROOT %r = s8[300] iota(), iota_dimension=0"), "[-128, 127]", "it wraps");
    assert_eq!(root("  ROOT %r = s32[2,2] constant({ { 5, -1 }, { 0, 7 } })"), "[-1, 0] or 5 or 7");
    let column =
        "  %c = s32[2,2] constant({ { 5, -1 }, { 0, 7 } })\n  ROOT %r = s32[2,1] slice(%c), slice={[0:2], [1:2]}";
    assert_eq!(root(column), "-1 or 7");
    assert_eq!(root("  ROOT %r = s32[2,2] constant({...})"), S32);
    assert_eq!(root("  ROOT %r = s32[8,3] popcnt(%x)"), "[0, 32]");
    assert_eq!(root("  ROOT %r = s32[8,3] count-leading-zeros(%x)"), "[0, 32]");
    assert_eq!(root("  ROOT %r = s32[8,3] abs(%x)"), "-2147483648 or [0, 2147483647]");
    assert_eq!(root("  %p = pred[8,3] compare(%x, %zeros), direction=LT\n  ROOT %r = s32[8,3] convert(%p)"), "[0, 1]");
    assert_eq!(root("  ROOT %r = s32[] get-dimension-size(%x), dimensions={1}"), "[0, 3]");
    assert_eq!(root("  ROOT %r = s8[8,3] bitcast-convert(%y)"), "[-128, 127]", "u8 bits seen as s8");
    assert_eq!(root("  ROOT %r = f32[8,3] copy(%f)"), Range::all().to_string());
}

#[test]
fn arithmetic() {
    assert_eq!(root("  ROOT %r = s32[8,3] clamp(%zero, %x, %size)"), "[0, 128]");
    assert_eq!(root("  ROOT %r = s32[8,3] maximum(%x, %zeros)"), "[0, 2147483647]");
    assert_eq!(root("  %a = s32[8,3] maximum(%x, %zeros)\n  ROOT %r = s32[8,3] minimum(%a, %sizes)"), "[0, 128]");
    assert_eq!(root("  ROOT %r = s32[8,3] and(%x, %sizes)"), "[0, 128]");
    assert_eq!(root("  ROOT %r = s32[8,3] shift-right-logical(%x, %ones)"), "[0, 2147483647]");
    assert_eq!(root("  ROOT %r = s32[8,3] remainder(%x, %sizes)"), "[-127, 127]");
    let positive = "  %p = s32[8,3] maximum(%x, %zeros)\n";
    assert_eq!(root(&format!("{positive}  ROOT %r = s32[8,3] remainder(%p, %sizes)")), "[0, 127]");
    assert_eq!(root(&format!("{positive}  ROOT %r = s32[8,3] divide(%p, %sizes)")), "[0, 16777215]");
    assert_eq!(root(&format!("{positive}  ROOT %r = s32[8,3] add(%p, %ones)")), S32, "it may overflow");
    assert_eq!(
        root("  %p = s32[8,3] convert(%y)\n  %q = s32[8,3] multiply(%p, %sizes)\n  ROOT %r = s32[8,3] add(%q, %p)"),
        "[0, 32895]"
    );
}

#[test]
fn conditions_narrow_their_branches() {
    let wrap = |of: &str, size: &str| {
        format!(
            "  %below = pred[8,3] compare({of}, %zeros), direction=LT\n  %moved = s32[8,3] add({of}, {size})\n  \
             ROOT %r = s32[8,3] select(%below, %moved, {of})"
        )
    };
    // i < 0 wraps at most to 127, so nothing overflows.
    assert_eq!(root(&wrap("%x", "%sizes")), S32.replace("-2147483648", "-2147483520"));
    assert_eq!(root(&format!("  %rem = s32[8,3] remainder(%x, %sizes)\n{}", wrap("%rem", "%sizes"))), "[0, 127]");
    // The same condition computed twice.
    assert_eq!(
        root(
            "  %p = s32[8,3] copy(%x)
  %q = s32[8,3] copy(%x)
  %neg = pred[8,3] compare(%p, %zeros), direction=GE
  ROOT %r = s32[8,3] select(%neg, %q, %zeros)"
        ),
        "[0, 2147483647]"
    );
    // Two constants whose values the dump left out are not the same.
    let elided = |same: &str| {
        format!(
            "  %p = s32[8,3] constant({{...}})\n  %q = s32[8,3] constant({{...}})\n  \
             %neg = pred[8,3] compare(%p, %zeros), direction=GE\n  ROOT %r = s32[8,3] select(%neg, {same}, %zeros)"
        )
    };
    assert_eq!(root(&elided("%p")), "[0, 2147483647]");
    assert_eq!(root(&elided("%q")), S32);
    // Two conditions at once, one of them under `not`.
    assert_eq!(
        root(
            "  %low = pred[8,3] compare(%x, %zeros), direction=LT
  %in = pred[8,3] not(%low)
  %under = pred[8,3] compare(%x, %sizes), direction=LT
  %both = pred[8,3] and(%in, %under)
  ROOT %r = s32[8,3] select(%both, %x, %ones)"
        ),
        "[0, 127]"
    );
}

/// `jnp.remainder` by a constant as JAX writes it, behind a call with the divisor as an argument.
#[test]
fn the_floor_modulo_of_jax() {
    let functions = "%where {
  %p.1 = pred[] parameter(0)
  %p.2 = s32[] parameter(1)
  %p.3 = s32[] parameter(2)
  ROOT %w = s32[] select(%p.1, %p.2, %p.3)
}

%modulo {
  %m.1 = s32[8,3] parameter(0)
  %m.2 = s32[] parameter(1)
  %m.3 = s32[] constant(0)
  %is = pred[] compare(%m.2, %m.3), direction=EQ
  %m.4 = s32[] constant(1)
  %by = s32[] call(%is, %m.4, %m.2), to_apply=%where
  %bys = s32[8,3] broadcast(%by), dimensions={}
  %rem = s32[8,3] remainder(%m.1, %bys)
  %zs = s32[8,3] broadcast(%m.3), dimensions={}
  %a = pred[8,3] compare(%rem, %zs), direction=LT
  %b = pred[] compare(%by, %m.3), direction=LT
  %bs = pred[8,3] broadcast(%b), dimensions={}
  %c = pred[8,3] compare(%a, %bs), direction=NE
  %d = pred[8,3] compare(%rem, %zs), direction=NE
  %e = pred[8,3] and(%c, %d)
  %g = s32[8,3] broadcast(%by), dimensions={}
  %h = s32[8,3] add(%rem, %g)
  ROOT %s = s32[8,3] select(%e, %h, %rem)
}
";
    let one = with_functions(functions, "  ROOT %r = s32[8,3] call(%x, %size), to_apply=%modulo");
    assert_eq!(of(&one), "[0, 127]");
    // Each call is looked into with its own arguments.
    let two =
        "  %u = s32[8,3] call(%x, %one), to_apply=%modulo\n  ROOT %r = s32[8,3] call(%x, %size), to_apply=%modulo";
    assert_eq!(of(&with_functions(functions, two)), "[0, 127]");
}

#[test]
fn columns_stay_apart() {
    let module = module(
        "  %x.0 = s32[8,1] slice(%x), slice={[0:8], [0:1]}
  %i = s32[8,1] iota(), iota_dimension=0
  %c = s32[8,1] broadcast(%size), dimensions={}
  %all = s32[8,3] concatenate(%x.0, %i, %c), dimensions={1}
  %turned = s32[3,8] transpose(%all), dimensions={1,0}
  ROOT %r = s32[3,2,1,4] reshape(%turned)",
    );
    let root = module.computation(module.entry()).root;
    let mut ranges = Ranges::new(&module);
    let mut column = |index| ranges.of_region(root, Region::full(&[3, 2, 1, 4]).with(0, index, index + 1)).to_string();
    assert_eq!([column(0), column(1), column(2)], [S32, "[0, 7]", "128"]);
}

#[test]
fn moved_elements() {
    let base = "  %i = s32[8,3] iota(), iota_dimension=0\n";
    let of = |line: &str| root(&format!("{base}{line}"));
    assert_eq!(of("  ROOT %r = s32[2,3] slice(%i), slice={[1:6:3], [0:3]}"), "[1, 4]");
    assert_eq!(of("  ROOT %r = s32[8,3] reverse(%i), dimensions={0}"), "[0, 7]");
    assert_eq!(of("  ROOT %r = s32[2,3] dynamic-slice(%i, %one, %one), dynamic_slice_sizes={2,3}"), "[0, 7]");
    let update = "  %u = s32[1,3] broadcast(%size), dimensions={}\n  ROOT %r = s32[8,3] dynamic-update-slice(%i, %u, %one, %one)";
    assert_eq!(of(update), "[0, 7] or 128");
    assert_eq!(of("  ROOT %r = s32[10,3] pad(%i, %size), padding=1_1x0_0"), "[0, 7] or 128");
    let gather =
        "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}";
    assert_eq!(
        of(&format!("  %at = s32[5,2] constant({{...}})\n  ROOT %r = s32[5] gather(%i, %at), {gather}")),
        "[0, 7]"
    );
    let scatter =
        "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1";
    let scatter = |function: &str| {
        of(&format!(
            "  %at = s32[5,2] constant({{...}})\n  %u = s32[5] broadcast(%size), dimensions={{}}\n  ROOT %r = s32[8,3] scatter(%i, %at, %u), {scatter}, to_apply=%{function}"
        ))
    };
    assert_eq!(scatter("second"), "[0, 7] or 128");
    assert_eq!(scatter("min"), "[0, 7] or 128");
    assert_eq!(scatter("plus"), S32);
    assert_eq!(
        of(
            "  %b = (s32[8,3], s32[8,3]) tuple(%x, %i)\n  %o = (s32[8,3], s32[8,3]) opt-barrier(%b)\n  ROOT %r = s32[8,3] get-tuple-element(%o), index=1"
        ),
        "[0, 7]"
    );
}

#[test]
fn reductions() {
    let functions = "%argmax {
  %v.0 = f32[] parameter(0)
  %i.0 = s32[] parameter(1)
  %v.1 = f32[] parameter(2)
  %i.1 = s32[] parameter(3)
  %gt = pred[] compare(%v.0, %v.1), direction=GT
  %v = f32[] select(%gt, %v.0, %v.1)
  %i = s32[] select(%gt, %i.0, %i.1)
  ROOT %t = (f32[], s32[]) tuple(%v, %i)
}
";
    let lines = "  %i = s32[8,3] iota(), iota_dimension=1
  %low = f32[] constant(-inf)
  %both = (f32[8], s32[8]) reduce(%f, %i, %low, %zero), dimensions={1}, to_apply=%argmax
  ROOT %r = s32[8] get-tuple-element(%both), index=1";
    assert_eq!(of(&with_functions(functions, lines)), "[0, 2]");
    let of_y = |line: &str| root(&format!("  %p = s32[8,3] convert(%y)\n{line}"));
    assert_eq!(of_y("  ROOT %r = s32[8] reduce(%p, %zero), dimensions={1}, to_apply=%min"), "[0, 255]");
    assert_eq!(of_y("  ROOT %r = s32[8] reduce(%p, %zero), dimensions={1}, to_apply=%plus"), "[0, 765]");
    assert_eq!(of_y("  ROOT %r = s32[8] reduce(%p, %one), dimensions={1}, to_apply=%plus"), S32, "1 is no identity");
    assert_eq!(root("  ROOT %r = s32[8] reduce(%x, %zero), dimensions={1}, to_apply=%plus"), S32);
}

#[test]
fn sorting_permutes() {
    let functions = "%less {
  %k.0 = f32[] parameter(0)
  %k.1 = f32[] parameter(1)
  %i.0 = s32[] parameter(2)
  %i.1 = s32[] parameter(3)
  ROOT %lt = pred[] compare(%k.0, %k.1), direction=LT
}
";
    let sorted = |index: usize| {
        of(&with_functions(
            functions,
            &format!(
                "  %i = s32[8,3] iota(), iota_dimension=1
  %both = (f32[8,3], s32[8,3]) sort(%f, %i), dimensions={{1}}, to_apply=%less
  ROOT %r = {}[8,3] get-tuple-element(%both), index={index}",
                if index == 1 { "s32" } else { "f32" }
            ),
        ))
    };
    assert_eq!(sorted(1), "[0, 2]");
    assert_eq!(sorted(0), Range::all().to_string());
    let top = "  %top = (f32[8,2], s32[8,2]) topk(%f), k=2, largest=true\n  ROOT %r = s32[8,2] get-tuple-element(%top), index=1";
    assert_eq!(root(top), "[0, 2]");
}

/// A loop over (counter, bound, carried, grown, unknown) that asks for a value inside and one outside.
fn loop_over(step: &str, direction: &str) -> Module {
    let state = "(s32[], s32[], s32[8,3], s32[], s32[])";
    let parts = format!(
        "  %p = {state} parameter(0)
  %k = s32[] get-tuple-element(%p), index=0
  %n = s32[] get-tuple-element(%p), index=1
  %c = s32[8,3] get-tuple-element(%p), index=2
  %g = s32[] get-tuple-element(%p), index=3
  %q = s32[] get-tuple-element(%p), index=4\n"
    );
    with_functions(
        &format!(
            "%more {{\n{parts}  ROOT %go = pred[] compare(%k, %n), direction={direction}\n}}

%body {{\n{parts}  %by = s32[] constant({step})
  %next = s32[] add(%by, %k)
  %five = s32[] constant(5)
  %grown = s32[] maximum(%g, %five)
  %same = s32[8,3] copy(%c)
  %more.q = s32[] add(%q, %k)
  ROOT %state = {state} tuple(%next, %n, %same, %grown, %more.q)
}}
"
        ),
        &format!(
            "  %i = s32[8,3] iota(), iota_dimension=1
  %ten = s32[] constant(10)
  %start = {state} tuple(%zero, %ten, %i, %one, %one)
  %loop = {state} while(%start), condition=%more, body=%body
  %k.1 = s32[] get-tuple-element(%loop), index=0
  %c.1 = s32[8,3] get-tuple-element(%loop), index=2
  %g.1 = s32[] get-tuple-element(%loop), index=3
  ROOT %q.1 = s32[] get-tuple-element(%loop), index=4"
        ),
    )
}

fn named(module: &Module, name: &str) -> String {
    let (id, _) = module.live_instructions().find(|(_, inst)| inst.name == name).expect("it is there");
    Ranges::new(module).of(id).to_string()
}

#[test]
fn loops() {
    let counted = loop_over("3", "LT");
    for (name, range) in [
        ("k", "[0, 12]"),
        ("k.1", "[0, 12]"),
        ("c", "[0, 2]"),
        ("c.1", "[0, 2]"),
        ("g.1", "1 or 5"),
        ("q.1", S32),
        ("n", "10"),
    ] {
        assert_eq!(named(&counted, name), range, "{name}\n{}", text::print(&counted));
    }
    // Inside the body the counter is below the bound: `%next` is computed from it.
    assert_eq!(named(&counted, "next"), "[3, 12]");
    assert_eq!(named(&loop_over("3", "LE"), "next"), "[3, 13]");
    assert_eq!(named(&loop_over("-3", "LT"), "next"), S32, "it runs down and wraps");
    assert_eq!(named(&loop_over("3", "NE"), "next"), S32, "it may jump over the bound");
}

#[test]
fn deep_chains_are_cut_off() {
    let mut lines = String::from("  %v.0 = s32[8,3] convert(%y)\n");
    for k in 1..5000 {
        let _ = writeln!(lines, "  %v.{k} = s32[8,3] minimum(%v.{}, %sizes)", k - 1);
    }
    lines += "  ROOT %r = s32[8,3] copy(%v.4999)";
    // Sound either way; the point is that it neither runs for ever nor overflows the stack.
    assert_eq!(root(&lines), "[-2147483648, 128]");
}

#[test]
fn shared_chains_do_not_explode() {
    let mut lines = String::from("  %v.0 = s32[8,3] convert(%y)\n");
    for k in 1..400 {
        let _ = write!(
            lines,
            "  %c.{k} = pred[8,3] compare(%v.{0}, %zeros), direction=LT\n  %a.{k} = s32[8,3] add(%v.{0}, %sizes)\n  \
             %v.{k} = s32[8,3] select(%c.{k}, %a.{k}, %v.{0})\n",
            k - 1
        );
    }
    lines += "  ROOT %r = s32[8,3] copy(%v.399)";
    assert_eq!(root(&lines), "[-2147483648, 2147483647]");
}
