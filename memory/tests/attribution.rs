//! Attribution: sums that must agree with the figures on every scheduled program of the corpus, and small programs whose answer is known.
//!
//! Pins `memory/src/attribution/mod.rs`, `memory/src/holder.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use hlo_ir::Module;
use hlo_memory::attribution::{Change, Details, Group, Role};
use hlo_memory::{Bytes, Estimate, Target, details};

/// Every `*.after.hlo` below a folder, sorted.
fn scheduled(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("the folder can be listed").path()) {
        if path.is_dir() {
            found.extend(scheduled(&path));
        } else if path.to_string_lossy().ends_with(".after.hlo") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn parse(text: &str) -> Module {
    hlo_ir::text::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn explain(text: &str) -> (Estimate, Details) {
    details(&parse(text), Target::Cpu).unwrap_or_else(|error| panic!("{error}"))
}

fn sum(groups: &[Group]) -> Bytes {
    groups.iter().map(|group| group.bytes).sum()
}

#[test]
fn all_sums_agree_with_the_figures() {
    let programs = scheduled(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus"));
    assert!(programs.len() > 100, "the corpus is missing");
    for path in programs {
        let name = path.display();
        let (estimate, details) = explain(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}")));
        let told = &details.attribution;
        let listed: Bytes = told.holders.iter().map(|holder| holder.buffer.bytes).sum();
        assert_eq!(listed + told.unlisted_bytes, estimate.peak.bytes, "{name}: holders");
        assert_eq!(sum(&told.by_source), estimate.peak.bytes, "{name}: by source line");
        assert_eq!(sum(&told.by_path), estimate.peak.bytes, "{name}: by operation");
        let gap = sum(&told.gap.temporaries) + told.gap.idle + told.gap.constants + told.gap.thread_local;
        assert_eq!(estimate.floor + gap, estimate.total, "{name}: gap");
        let top = told.points.iter().map(|point| point.bytes).max().unwrap_or_default();
        assert_eq!(top, estimate.peak.bytes, "{name}: the timeline lost its peak");
        for holder in &told.holders {
            assert!(holder.steps.0 <= told.peak_step && told.peak_step <= holder.steps.1, "{name}: not alive");
            assert!(holder.next_user.as_ref().is_none_or(|user| user.step >= told.peak_step), "{name}: past user");
        }
    }
}

const IN_PLACE: &str = "HloModule m, is_scheduled=true

ENTRY e {
  x = f32[256]{0} parameter(0), metadata={op_name=\"x\"}
  y = f32[256]{0} parameter(1), metadata={op_name=\"y\"}
  s = f32[256]{0} sine(x), metadata={op_name=\"jit(f)/wave/sin\" source_file=\"f.py\" source_line=3}
  c = f32[256]{0} cosine(y), metadata={op_name=\"jit(f)/wave/cos\" source_file=\"f.py\" source_line=4}
  t = f32[256]{0} add(s, c), metadata={op_name=\"jit(f)/add\" source_file=\"f.py\" source_line=5}
  r = f32[256,1]{1,0} reshape(t)
  ROOT z = f32[256]{0} reshape(r)
}
";

#[test]
fn a_buffer_says_what_it_is_and_who_reads_it() {
    let (estimate, details) = explain(IN_PLACE);
    assert_eq!(estimate.floor, Bytes(3 * 1024));
    let told = &details.attribution;
    let role = |name: &str| told.holders.iter().find(|holder| holder.buffer.instruction == name).map(|h| h.role);
    assert_eq!(role("x"), Some(Role::Argument { number: 0, donated: false }));
    assert_eq!(role("y"), Some(Role::Argument { number: 1, donated: false }));
    let cosine = told.holders.iter().find(|holder| holder.buffer.instruction == "c").expect("the peak holds c");
    assert_eq!(cosine.next_user.as_ref().map(|user| user.instruction.as_str()), Some("t"));
    assert_eq!(cosine.buffer.source.as_deref(), Some("f.py:4"));
    let wave = told.by_path.iter().find(|group| group.key == "jit(f)/wave").expect("both waves are alive");
    assert_eq!((wave.bytes, wave.count), (Bytes(2048), 2));
}

#[test]
fn what_the_compiler_made_from_an_argument_is_named_so() {
    let (_, details) = explain(
        "HloModule m, is_scheduled=true

ENTRY e {
  x = bf16[256]{0} parameter(0), metadata={op_name=\"state.w[\\'k\\']\"}
  wide = f32[256]{0} convert(x), metadata={op_name=\"state.w[\\'k\\']\"}
  other = f32[256]{0} sine(wide), metadata={op_name=\"div\"}
  back = f32[256]{0} reverse(wide), dimensions={0}
  ROOT z = f32[768]{0} concatenate(wide, back, other), dimensions={0}
}
",
    );
    let told = &details.attribution;
    let keys = |groups: &[Group]| groups.iter().map(|group| group.key.clone()).collect::<Vec<_>>();
    assert!(keys(&told.by_source).contains(&"(copies of arguments)".to_owned()), "{:?}", told.by_source);
    assert!(keys(&told.by_path).contains(&"div".to_owned()), "{:?}", told.by_path);
    let copy = told.holders.iter().find(|holder| holder.buffer.instruction == "wide").expect("it is read twice");
    assert_eq!(copy.buffer.op_name.as_deref(), Some("state.w['k']"));
}

#[test]
fn a_donation_is_offered_only_where_it_needs_no_copy() {
    let (_, details) = explain(
        "HloModule m, is_scheduled=true

ENTRY e {
  x = f32[256]{0} parameter(0)
  y = f32[256]{0} parameter(1)
  w = f32[64]{0} parameter(2)
  s = f32[256]{0} sine(x)
  t = f32[256]{0} reverse(y), dimensions={0}
  ROOT z = (f32[256]{0}, f32[256]{0}) tuple(s, t)
}
",
    );
    let offers: Vec<_> = details.what_ifs.iter().map(|offer| (&offer.change, offer.saved)).collect();
    // The sine may be written over x. The reversal cannot be written over y, and no output has the shape of w.
    let donate = Change::Donate { parameter: 0, name: "x".into(), shape: "f32[256]{0}".to_owned() };
    assert_eq!(offers, [(&donate, Bytes(1024))]);
}

#[test]
fn indices_that_only_select_can_be_narrower() {
    let gather = |more: &str| {
        format!(
            "HloModule m

ENTRY e {{
  table = f32[200,8]{{1,0}} parameter(0)
  index = s32[4096,1]{{1,0}} parameter(1)
  zero = s32[] constant(0)
  zeros = s32[4096,1]{{1,0}} broadcast(zero), dimensions={{}}
  size = s32[] constant(200)
  sizes = s32[4096,1]{{1,0}} broadcast(size), dimensions={{}}
  negative = pred[4096,1]{{1,0}} compare(index, zeros), direction=LT
  wrapped = s32[4096,1]{{1,0}} add(index, sizes)
  at = s32[4096,1]{{1,0}} select(negative, wrapped, index)
  rows = f32[4096,8]{{1,0}} gather(table, at), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,8}}
  ROOT out = (f32[4096,8]{{1,0}}{more}
}}
"
        )
    };
    let narrow = |text: &str| {
        let (_, details) = explain(text);
        details.what_ifs.into_iter().find(|offer| matches!(offer.change, Change::NarrowIndex { .. }))
    };
    let offer = narrow(&gather(") tuple(rows)")).expect("the index is only an index");
    let Change::NarrowIndex { parameter, to, bound, .. } = offer.change else {
        unreachable!("it was found by its kind")
    };
    assert_eq!((parameter, to.name(), bound, offer.saved), (1, "u8", 200, Bytes(4096 * 3)));
    assert_eq!(narrow(&gather(", s32[4096,1]{1,0}) tuple(rows, index)")), None, "the index is also returned");
}

/// A library fusion that computes `softmax(q k) v`, with the scores inside, or a sum of exponentials, with nothing but tiles inside.
fn library(inside: &str, root: &str) -> String {
    format!(
        "HloModule m, is_scheduled=true

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

body {{
  q = f32[512,64]{{1,0}} parameter(0)
  k = f32[512,64]{{1,0}} parameter(1)
  zero = f32[] constant(0)
{inside}  ROOT r = f32[512]{{0}} reduce({root}, zero), dimensions={{1}}, to_apply=add
}}

ENTRY e {{
  x = f32[512,64]{{1,0}} parameter(0)
  y = f32[512,64]{{1,0}} parameter(1)
  ROOT f = f32[512]{{0}} fusion(x, y), kind=kCustom, calls=body, metadata={{op_name=\"jit(f)/lse\" source_file=\"f.py\" source_line=2}}
}}
"
    )
}

const SCORES: &str = "  s = f32[512,512]{1,0} dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n";
/// 512 x 512 scores, and 256 rows of them.
const WHOLE: Bytes = Bytes(512 * 512 * 4);
const TILE: Bytes = Bytes(256 * 512 * 4);

/// Hidden scratch of the library fusion that computes this, its rows summed.
fn scratch(inside: &str, root: &str) -> Bytes {
    let (_, details) = explain(&library(inside, root));
    details.attribution.hidden_scratch.iter().map(|hidden| hidden.bytes).sum()
}

#[test]
fn a_product_of_products_inside_a_library_fusion_is_hidden_scratch() {
    let inside = format!(
        "{SCORES}  w = f32[512,512]{{1,0}} exponential(s)\n  v = f32[512,64]{{1,0}} dot(w, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n  n = f32[512,64]{{1,0}} negate(v)\n"
    );
    let (estimate, details) = explain(&library(&inside, "n"));
    let [hidden] = details.attribution.hidden_scratch.as_slice() else {
        panic!("{:?}", details.attribution.hidden_scratch)
    };
    assert_eq!((hidden.instruction.as_str(), hidden.bytes), ("f", WHOLE + Bytes(512 * 64 * 4)));
    assert_eq!(hidden.source.as_deref(), Some("f.py:2"));
    assert!(estimate.total < hidden.bytes, "the total does not count it");
    assert_eq!(scratch("  w = f32[512,64]{1,0} exponential(q)\n", "w"), Bytes::ZERO);
}

/// Each line as `tests/referee/hidden_scratch.py` measures it.
#[test]
fn a_product_that_is_reduced_right_away_is_there_in_tiles() {
    let max = |dims: &str, to: &str| {
        format!(
            "  m = f32[512]{{0}} reduce(s, zero), dimensions={{{dims}}}, to_apply=add\n  b = f32[512,512]{{1,0}} broadcast(m), dimensions={{{to}}}\n  w = f32[512,512]{{1,0}} subtract(s, b)\n"
        )
    };
    let weights = |dim: &str, op: &str| {
        format!(
            "  f = f32[512]{{0}} constant({{...}})\n  b = f32[512,512]{{1,0}} broadcast(f), dimensions={{{dim}}}\n  w = f32[512,512]{{1,0}} {op}(s, b)\n"
        )
    };
    let cases = [
        ("elementwise", "  w = f32[512,512]{1,0} exponential(s)\n".to_owned(), TILE),
        ("less what its own row adds up to", max("1", "0"), TILE),
        ("less what its column adds up to", max("0", "1"), WHOLE),
        ("a factor for each row", weights("0", "multiply"), TILE),
        ("a bias along the row", weights("1", "add"), TILE),
        ("weights along the row", weights("1", "multiply"), WHOLE),
        ("turned", "  w = f32[512,512]{1,0} transpose(s), dimensions={1,0}\n".to_owned(), WHOLE),
        ("rows joined", "  v = f32[1024,256]{1,0} bitcast(s)\n  w = f32[512,512]{1,0} bitcast(v)\n".to_owned(), WHOLE),
    ];
    for (what, inside, bytes) in cases {
        assert_eq!(scratch(&format!("{SCORES}{inside}"), "w"), bytes, "{what}");
    }
}

/// Images of 128 x 128 with 16 channels, convolved, pooled or convolved again, and summed by the library.
fn convolved(then: &str) -> String {
    format!(
        "HloModule m, is_scheduled=true

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

body {{
  x = f32[8,128,128,16]{{3,2,1,0}} parameter(0)
  k = f32[3,3,16,16]{{3,2,1,0}} parameter(1)
  zero = f32[] constant(0)
  c = f32[8,128,128,16]{{3,2,1,0}} convolution(x, k), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
{then}  ROOT r = f32[8,16]{{1,0}} reduce(w, zero), dimensions={{1,2}}, to_apply=add
}}

ENTRY e {{
  x = f32[8,128,128,16]{{3,2,1,0}} parameter(0)
  k = f32[3,3,16,16]{{3,2,1,0}} parameter(1)
  ROOT f = f32[8,16]{{1,0}} fusion(x, k), kind=kCustom, calls=body
}}
"
    )
}

/// A process took 77 MiB of the 144 of two convolutions, and 5 where the pixels of the second were summed: rewrites are not judged by it.
#[test]
fn what_convolutions_hide_is_told_and_not_charged() {
    let whole = Bytes(8 * 128 * 128 * 16 * 4);
    let hidden = |then: &str| {
        let (estimate, details) = explain(&convolved(then));
        let told: Bytes = details.attribution.hidden_scratch.iter().map(|hidden| hidden.bytes).sum();
        assert_eq!(estimate.total_with_scratch(), estimate.total, "{then}");
        told
    };
    let again = "  t = f32[8,128,128,16]{3,2,1,0} tanh(c)\n  w = f32[8,128,128,16]{3,2,1,0} convolution(t, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n";
    assert_eq!(hidden(again), whole + whole);
    let pooled =
        "  w = f32[8,64,64,16]{3,2,1,0} reduce-window(c, zero), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add\n";
    assert!(hidden(pooled) < Bytes(whole.get() / 8), "a lone convolution is there in tiles");
}

/// XLA writes conversions of its own without metadata: what they convert tells where they come from.
#[test]
fn a_conversion_without_a_name_has_the_line_of_what_it_converts() {
    let text = "HloModule m, is_scheduled=true

body {
  p = bf16[4096]{0} parameter(0)
  q = f32[4096]{0} convert(p)
  r = f32[4096]{0} multiply(q, q), metadata={op_name=\"jit(f)/mul\" source_file=\"f.py\" source_line=7}
  ROOT s = bf16[4096]{0} convert(r)
}

ENTRY e {
  x = bf16[4096]{0} parameter(0), metadata={op_name=\"x\"}
  f = bf16[4096]{0} fusion(x), kind=kLoop, calls=body
  w = f32[4096]{0} convert(f)
  ROOT o = f32[4096]{0} sine(w), metadata={op_name=\"jit(f)/sin\" source_file=\"f.py\" source_line=8}
}
";
    let (_, details) = explain(text);
    let lines: Vec<&str> = details.attribution.by_source.iter().map(|group| group.key.as_str()).collect();
    assert!(lines.contains(&"f.py:7") && !lines.iter().any(|line| line.contains("no source")), "{lines:?}");
}

/// JAX writes functions that several callers share without places in the source: what stands in the place of a call has the call's.
#[test]
fn what_stands_in_the_place_of_a_call_has_its_line() {
    let text = "HloModule m

g {
  p = f32[4096]{0} parameter(0)
  s = f32[4096]{0} sort(p), dimensions={0}, to_apply=less, metadata={op_name=\"sort\"}
  ROOT w = f32[4096]{0} sort(s), dimensions={0}, to_apply=less, metadata={op_name=\"sort\"}
}

ENTRY e {
  x = f32[4096]{0} parameter(0), metadata={op_name=\"x\"}
  c = f32[4096]{0} call(x), to_apply=g, metadata={op_name=\"jit(f)/jit(g)\" source_file=\"f.py\" source_line=9}
  ROOT o = f32[4096]{0} sine(c), metadata={op_name=\"jit(f)/sin\" source_file=\"f.py\" source_line=10}
}
";
    let less = "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT l = pred[] compare(a, b), direction=LT\n}\n\ng {";
    let (_, details) = explain(&text.replace("\ng {", &format!("\n{less}")));
    let told = &details.attribution;
    let has = |groups: &[Group], key: &str| groups.iter().any(|group| group.key == key);
    assert!(has(&told.by_source, "f.py:9"), "{:?}", told.by_source);
    let names: Vec<_> = told.holders.iter().filter_map(|holder| holder.buffer.op_name.as_deref()).collect();
    assert!(names.contains(&"jit(f)/jit(g)/sort"), "{names:?}");
}

/// Figures are those of one device: so is what a narrower argument saves.
#[test]
fn what_a_divided_argument_saves_is_the_share_of_one_device() {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/chunk/keeps-sharded.before.hlo"));
    let (estimate, details) = explain(&text.expect("the corpus has it"));
    let offer = details.what_ifs.iter().find(|offer| matches!(offer.change, Change::NarrowIndex { .. }));
    let saved = offer.expect("the indices can be narrower").saved;
    assert_eq!(saved, Bytes(estimate.arguments.get() / 4 * 3), "one byte of four is left");
}

/// What a loop carries has the name of what is written into it, not of the loop.
#[test]
fn what_a_loop_carries_is_named_after_what_writes_it() {
    let module = "HloModule m
more {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT more = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[1024] get-tuple-element(s), index=1
  b = f32[1024] sine(a), metadata={op_name=\"written\"}
  ROOT t = (s32[], f32[1024]) tuple(next, b)
}
ENTRY e {
  p = f32[1024] parameter(0)
  zero = s32[] constant(0)
  c = f32[1024] negate(p)
  init = (s32[], f32[1024]) tuple(zero, c)
  w = (s32[], f32[1024]) while(init), condition=more, body=body, metadata={op_name=\"loop\"}
  x = f32[1024] get-tuple-element(w), index=1
  less = f32[1024] reverse(x), dimensions={0}, metadata={op_name=\"behind\"}
  ROOT r = f32[1024] add(x, less)
}
";
    let (_, details) = explain(module);
    let names: Vec<_> =
        details.attribution.holders.iter().filter_map(|holder| holder.buffer.op_name.as_deref()).collect();
    assert!(names.contains(&"written") && !names.contains(&"loop"), "{names:?}");
}
