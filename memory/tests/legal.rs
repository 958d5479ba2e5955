//! Legal modules that are written as programs seldom are: control dependencies, results that stand alone in a tuple, scans, decompositions. XLA:CPU's
//! own totals (jaxlib 0.10.2), or what they are known to miss.
//!
//! Pins `memory/src/cpu/front/untuple.rs`, `memory/src/cpu/front/caveats.rs`.

use hlo_memory::{Estimate, Model, Target, estimate};

fn predicted(body: &str) -> Estimate {
    let module =
        hlo_ir::text::parse(&format!("HloModule m\n{body}")).unwrap_or_else(|errors| panic!("{errors:?}\n{body}"));
    let problems = hlo_ir::verify::verify(&module);
    assert!(problems.is_empty(), "{problems:?}\n{body}");
    let estimate = estimate(&module, Target::Cpu).expect("a legal module has an estimate");
    assert_eq!(estimate.model, Model::Predicted);
    estimate
}

/// A loop over `(s8[2], s8[])` whose body adds `0` under a control dependency on a constant.
const LOOP: &str = "
body {
  pair = s8[2] constant({0, 0})
  state = (s8[2], s8[]) parameter(0)
  count = s8[] get-tuple-element(state), index=1
  none = s8[] constant(0)
  sum = s8[] add(count, none), control-predecessors={pair}
  ROOT next = (s8[2], s8[]) tuple(pair, sum)
}
condition {
  state = (s8[2], s8[]) parameter(0)
  count = s8[] get-tuple-element(state), index=1
  none = s8[] constant(0)
  ROOT less = pred[] compare(count, none), direction=LT
}
";

#[test]
fn control_dependencies_do_not_reach_the_compiler() {
    let root = "ENTRY e {\n  p = f32[8] parameter(0)\n  n = f32[8] negate(p)\n  ROOT a = f32[8] copy(n), control-predecessors={n}\n}";
    let parameter = "ENTRY e {\n  p = f32[8] parameter(0)\n  a = f32[8] add(p, p)\n  \
                     q = f32[8] parameter(1), control-predecessors={a}\n  ROOT r = f32[8] multiply(a, q)\n}";
    let between = "ENTRY e {\n  p = f32[8] parameter(0)\n  a = f32[8] tanh(p)\n  b = f32[8] negate(p), control-predecessors={a}\n  \
                   c = f32[8] negate(b), control-predecessors={a, b}\n  ROOT r = f32[8] add(c, a), control-predecessors={c}\n}";
    for (program, total) in [(root, 64), (parameter, 96), (between, 64)] {
        let figures = predicted(program);
        assert_eq!(figures.total.get(), total, "{program}");
        assert!(
            figures.caveats.iter().any(|caveat| caveat.starts_with("control dependencies")),
            "{:?}",
            figures.caveats
        );
    }
}

#[test]
fn control_dependencies_of_a_loop_are_no_obstacle() {
    let entry = "ENTRY e {\n  z = s8[2] constant({0, 0})\n  s = s8[] parameter(0)\n  t = (s8[2], s8[]) tuple(z, s)\n  \
                 w = (s8[2], s8[]) while(t), condition=condition, body=body\n  ROOT r = s8[] get-tuple-element(w), index=1\n}";
    let with = predicted(&format!("{LOOP}{entry}"));
    let without = predicted(&format!("{LOOP}{entry}").replace(", control-predecessors={pair}", ""));
    assert_eq!((with.total, with.temporaries), (without.total, without.temporaries));
    assert!(without.caveats.is_empty());
}

const ADD_ALONE: &str = "
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  s = f32[] add(x, y)
  ROOT t = (f32[]) tuple(s)
}
";

#[test]
fn a_result_alone_in_a_tuple_is_that_result() {
    let programs = [
        // The entry's own result.
        ("ENTRY e {\n  p = f32[8] parameter(0)\n  n = f32[8] negate(p)\n  ROOT t = (f32[8]) tuple(n)\n}", 64),
        // A reduction, and one over windows of one element.
        (
            "ENTRY e {\n  p = f32[8,4] parameter(0)\n  z = f32[] constant(0)\n  \
          r = (f32[8]) reduce(p, z), dimensions={1}, to_apply=add\n  g = f32[8] get-tuple-element(r), index=0\n  \
          ROOT n = f32[8] negate(g)\n}",
            172,
        ),
        (
            "ENTRY e {\n  p = f32[32,8,6,7] parameter(0)\n  z = f32[] constant(0)\n  \
          ROOT r = (f32[32,8,6,7]) reduce-window(p, z), to_apply=add, window={size=1x1x1x1}\n}",
            86_016,
        ),
        (
            "ENTRY e {\n  p = f32[64,4] parameter(0)\n  z = f32[] constant(0)\n  \
          r = (f32[64,4]) reduce-window(p, z), window={size=64x1 pad=63_0x0_0}, to_apply=add\n  \
          ROOT g = f32[64,4] get-tuple-element(r), index=0\n}",
            3180,
        ),
    ];
    for (entry, total) in programs {
        assert_eq!(predicted(&format!("{ADD_ALONE}{entry}")).total.get(), total, "{entry}");
    }
}

#[test]
fn a_loop_and_a_conditional_give_one_result_as_it_is() {
    let program = "
c {
  t = (s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}
b {
  t = (s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  o = s32[] constant(1)
  j = s32[] add(i, o)
  ROOT u = (s32[]) tuple(j)
}
ENTRY e {
  i = s32[] parameter(0)
  t = (s32[]) tuple(i)
  w = (s32[]) while(t), condition=c, body=b
  ROOT r = s32[] get-tuple-element(w), index=0
}";
    assert_eq!(predicted(program).total.get(), 17);
    let branches = "
t {
  x = f32[8] parameter(0)
  n = f32[8] negate(x)
  ROOT r = (f32[8]) tuple(n)
}
f {
  x = f32[8] parameter(0)
  n = f32[8] exponential(x)
  ROOT r = (f32[8]) tuple(n)
}
ENTRY e {
  c = pred[] parameter(0)
  p = f32[8] parameter(1)
  r = (f32[8]) conditional(c, p, p), true_computation=t, false_computation=f
  ROOT g = f32[8] get-tuple-element(r), index=0
}";
    assert_eq!(predicted(branches).total.get(), 65);
}

#[test]
fn a_donated_argument_takes_the_only_result_alone_in_a_tuple() {
    let program = |header: &str| {
        let text = format!(
            "HloModule m, {header}\n\nENTRY e {{\n  p = f32[1000] parameter(0)\n  n = f32[1000] negate(p)\n  ROOT t = (f32[1000]) tuple(n)\n}}\n"
        );
        let module = hlo_ir::text::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        estimate(&module, Target::Cpu).expect("a legal module has an estimate").total.get()
    };
    let layout = "entry_computation_layout={(f32[1000]{0})->(f32[1000]{0})}";
    assert_eq!(program(layout), 8000);
    assert_eq!(program(&format!("input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}, {layout}")), 4000);
}

#[test]
fn a_scan_with_one_result_is_estimated_with_a_caveat() {
    let program = "
add {
  x = f32[4] parameter(0)
  c = f32[4] parameter(1)
  ROOT a = f32[4] add(x, c)
}
ENTRY main {
  values = f32[3,4] parameter(0)
  init = f32[4] parameter(1)
  ROOT s = f32[4] scan(values, init), dimensions={0}, num_carries=1, to_apply=add
}";
    let figures = predicted(program);
    assert!(figures.total >= figures.floor && figures.floor.get() == 80, "{figures:?}");
    assert!(figures.caveats.iter().any(|caveat| caveat.starts_with("scans")), "{:?}", figures.caveats);
}

/// The largest of each square of four, alone in a tuple.
const POOLED: &str = "
most {
  x = bf16[] parameter(0)
  y = bf16[] parameter(1)
  m = bf16[] maximum(x, y)
  ROOT t = (bf16[]) tuple(m)
}
ENTRY e {
  p = bf16[64,96] parameter(0)
  low = bf16[] constant(-inf)
  r = (bf16[32,48]) reduce-window(p, low), to_apply=most, window={size=2x2 stride=2x2}
  g = bf16[32,48] get-tuple-element(r), index=0
  ROOT n = bf16[32,48] negate(g)
}";

/// A loop that takes sums over windows that overlap, alone in a tuple, of the sums before.
const BLURRED: &str = "
c {
  t = (s32[], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}
b {
  t = (s32[], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[16,16] get-tuple-element(t), index=1
  z = f32[] constant(0)
  r = (f32[16,16]) reduce-window(x, z), to_apply=add, window={size=3x3 pad=1_1x1_1}
  g = f32[16,16] get-tuple-element(r), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT u = (s32[], f32[16,16]) tuple(j, g)
}
ENTRY e {
  z = s32[] constant(0)
  x = f32[16,16] parameter(0)
  t = (s32[], f32[16,16]) tuple(z, x)
  w = (s32[], f32[16,16]) while(t), condition=c, body=b
  ROOT r = f32[16,16] get-tuple-element(w), index=1
}";

/// Kind: windows whose result is a tuple of one, of other numbers, with a stride, and in a loop.
#[test]
fn windows_alone_in_a_tuple_are_those_results() {
    assert_eq!(predicted(POOLED).total.get(), 15_366);
    assert_eq!(predicted(&format!("{ADD_ALONE}{BLURRED}")).total.get(), 3180);
}

/// Asserts that XLA's total lies between the figure and what the caveat admits.
fn admits(program: &str, caveat: &str, of_xla: u64) {
    let figures = predicted(program);
    let most = figures.total + figures.slack;
    assert!((figures.total.get()..=most.get()).contains(&of_xla), "{of_xla} of {figures:?}");
    assert!(figures.caveats.iter().any(|said| said.starts_with(caveat)), "{:?}", figures.caveats);
}

/// A scan from the last row to the first, of integers that are put in another order before.
const SCAN_BACKWARD: &str = "
most {
  x = s32[4] parameter(0)
  y = s32[4] parameter(1)
  ROOT a = s32[4] maximum(x, y)
}
ENTRY main {
  a = s32[2,6,4] parameter(0)
  first = s32[4] parameter(1)
  b = s32[6,2,4] transpose(a), dimensions={1,0,2}
  c = s32[12,4] reshape(b)
  s = s32[4] scan(c, first), dimensions={0}, num_carries=1, is_reverse=true, to_apply=most
  ROOT r = s32[4] negate(s)
}";

/// A scan that carries nothing, over columns.
const SCAN_OF_ROWS: &str = "
turned {
  x = f32[3] parameter(0)
  ROOT y = f32[3] negate(x)
}
ENTRY main {
  a = f32[3,4] parameter(0)
  ROOT s = f32[3,4] scan(a), dimensions={1}, num_carries=0, to_apply=turned
}";

/// A scan whose one result stands in a tuple.
const SCAN_IN_A_TUPLE: &str = "
add {
  x = f32[4] parameter(0)
  c = f32[4] parameter(1)
  a = f32[4] add(x, c)
  ROOT t = (f32[4]) tuple(a)
}
ENTRY main {
  a = f32[3,4] parameter(0)
  init = f32[4] parameter(1)
  s = (f32[4]) scan(a, init), dimensions={0}, num_carries=1, to_apply=add
  ROOT r = f32[4] get-tuple-element(s), index=0
}";

/// Kind: a scan with one result, backward, without a state, and in a tuple.
#[test]
fn scans_of_other_forms_need_no_more_than_is_admitted() {
    admits(SCAN_BACKWARD, "scans", 576);
    admits(SCAN_OF_ROWS, "scans", 260);
    admits(SCAN_IN_A_TUPLE, "scans", 240);
}

/// Branches of which one decomposes a matrix and the other one solves with it.
const DECOMPOSED: &str = "
yes {
  a = f32[128,128] parameter(0)
  ROOT c = f32[128,128] cholesky(a), lower=true
}
no {
  a = f32[128,128] parameter(0)
  s = f32[128,128] triangular-solve(a, a), left_side=true, lower=false, unit_diagonal=true, transpose_a=TRANSPOSE
  ROOT n = f32[128,128] cosine(s)
}
ENTRY e {
  c = pred[] parameter(0)
  p = f32[128,128] parameter(1)
  ROOT r = f32[128,128] conditional(c, p, p), true_computation=yes, false_computation=no
}";

/// Solutions for each of two matrices of `f64`.
const SOLVED: &str = "
ENTRY e {
  a = f64[2,64,64] parameter(0)
  b = f64[2,64,16] parameter(1)
  s = f64[2,64,16] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE
  ROOT n = f64[2,64,16] negate(s)
}";

/// Kind: branches that decompose matrices, which XLA writes out as loops.
#[test]
fn decompositions_need_no_more_than_is_admitted() {
    admits(DECOMPOSED, "matrix decompositions", 213_594);
    admits(SOLVED, "matrix decompositions", 231_620);
}
