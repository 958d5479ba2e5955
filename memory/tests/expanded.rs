//! What XLA:CPU writes out, drops or keeps before it fuses, on programs small enough to be read: our total against its own (jaxlib 0.10.2).
//!
//! Pins `memory/src/cpu/front/expand/mod.rs`, `memory/src/cpu/front/loops/dead.rs`.

use hlo_memory::{Model, Target, estimate};

fn total(program: &str) -> u64 {
    let module = hlo_ir::text::parse(&format!("HloModule m\n{program}"))
        .unwrap_or_else(|errors| panic!("{errors:?}\n{program}"));
    let problems = hlo_ir::verify::verify(&module);
    assert!(problems.is_empty(), "{problems:?}\n{program}");
    let estimate = estimate(&module, Target::Cpu).expect("every size fits 64 bits");
    assert_eq!((estimate.model, estimate.caveats), (Model::Predicted, Vec::new()));
    estimate.total.get()
}

/// Random words that become numbers.
const BITS_32: &str = "
ENTRY e {
  s = u64[2] parameter(0)
  r = (u64[2], u32[1000,30]) rng-bit-generator(s), algorithm=rng_default
  n = u64[2] get-tuple-element(r), index=0
  b = u32[1000,30] get-tuple-element(r), index=1
  f = f32[1000,30] convert(b)
  x = f32[1000,30] exponential(f)
  ROOT t = (u64[2], f32[1000,30]) tuple(n, x)
}
";

/// Random numbers of 64 bits from a longer state, cut into narrower ones.
const BITS_64: &str = "
ENTRY e {
  s = u64[3] parameter(0)
  r = (u64[3], u64[777]) rng-bit-generator(s), algorithm=rng_philox
  n = u64[3] get-tuple-element(r), index=0
  b = u64[777] get-tuple-element(r), index=1
  q = u16[777,4] bitcast-convert(b)
  ROOT t = (u64[3], u16[777,4], u64[777]) tuple(n, q, b)
}
";

/// Random numbers of 16 bits that two kernels read.
const BITS_16: &str = "
ENTRY e {
  s = u64[2] parameter(0)
  r = (u64[2], u16[33,31]) rng-bit-generator(s), algorithm=rng_default
  b = u16[33,31] get-tuple-element(r), index=1
  w = u16[33,31] negate(b)
  v = u16[31,33] transpose(b), dimensions={1,0}
  ROOT t = (u16[33,31], u16[31,33]) tuple(w, v)
}
";

/// Random numbers whose doubles are added up by segment.
const BITS_IN_SEGMENTS: &str = "
add {
  a = u64[] parameter(0)
  b = u64[] parameter(1)
  ROOT s = u64[] add(a, b)
}
ENTRY e {
  k = u64[3] parameter(0)
  i = s32[400,1] parameter(1)
  r = (u64[3], u64[400,25]) rng-bit-generator(k), algorithm=rng_philox
  n = u64[3] get-tuple-element(r), index=0
  b = u64[400,25] get-tuple-element(r), index=1
  z = u64[] constant(0)
  zs = u64[8,25] broadcast(z), dimensions={}
  two = u64[] constant(2)
  twos = u64[400,25] broadcast(two), dimensions={}
  m = u64[400,25] multiply(b, twos)
  s = u64[8,25] scatter(zs, i, m), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT t = (u64[3], u64[8,25]) tuple(n, s)
}
";

/// A loop that draws numbers in each step and hands the state of the generator on.
const BITS_IN_A_LOOP: &str = "
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
body {
  s = (s32[], u64[2], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = u64[2] get-tuple-element(s), index=1
  x = f32[64] get-tuple-element(s), index=2
  r = (u64[2], u32[64,100]) rng-bit-generator(k), algorithm=rng_default
  n = u64[2] get-tuple-element(r), index=0
  b = u32[64,100] get-tuple-element(r), index=1
  f = f32[64,100] convert(b)
  z = f32[] constant(0)
  d = f32[64] reduce(f, z), dimensions={1}, to_apply=add
  y = f32[64] add(x, d)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT next = (s32[], u64[2], f32[64]) tuple(j, n, y)
}
more {
  s = (s32[], u64[2], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  k = u64[2] parameter(0)
  x = f32[64] parameter(1)
  zero = s32[] constant(0)
  b = (s32[], u64[2], f32[64]) tuple(zero, k, x)
  w = (s32[], u64[2], f32[64]) while(b), condition=more, body=body
  ROOT r = f32[64] get-tuple-element(w), index=2
}
";

/// Kind: random numbers that are scattered into segments, of other words and from another state, or drawn in a loop.
#[test]
fn philox_fuses_before_a_scatter_and_in_a_loop() {
    assert_eq!(total(BITS_IN_SEGMENTS), 83_364);
    assert_eq!(total(BITS_IN_A_LOOP), 26_560);
}

#[test]
fn philox_is_arithmetic_that_fuses() {
    assert_eq!(total(BITS_32), 120_116);
    assert_eq!(total(BITS_64), 18_728);
    assert_eq!(total(BITS_16), 10_266);
}

/// Bytes read as words, and words as halves.
const OTHER_SIZES: &str = "
ENTRY e {
  x = u8[500,6,4] parameter(0)
  f = f32[500,6] bitcast-convert(x)
  s = f32[500,6] sine(f)
  b = bf16[500,6,2] bitcast-convert(s)
  n = bf16[500,6,2] negate(b)
  ROOT t = (f32[500,6], bf16[500,6,2]) tuple(s, n)
}
";

#[test]
fn elements_of_another_size_are_shifted_together_and_apart() {
    assert_eq!(total(OTHER_SIZES), 48_028);
}

/// A loop whose derivatives, which nobody reads, are computed from each other and from the value.
const DERIVATIVES: &str = "
body {
  state = (s32[], f32[1000], f32[1000], f32[1000]) parameter(0)
  step = s32[] get-tuple-element(state), index=0
  value = f32[1000] get-tuple-element(state), index=1
  slope = f32[1000] get-tuple-element(state), index=2
  bend = f32[1000] get-tuple-element(state), index=3
  one = s32[] constant(1)
  next = s32[] add(step, one)
  sine = f32[1000] sine(value)
  cosine = f32[1000] cosine(value)
  m = f32[1000] multiply(cosine, slope)
  steeper = f32[1000] add(m, bend)
  bent = f32[1000] multiply(bend, slope)
  ROOT done = (s32[], f32[1000], f32[1000], f32[1000]) tuple(next, sine, steeper, bent)
}
more {
  state = (s32[], f32[1000], f32[1000], f32[1000]) parameter(0)
  step = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(10)
  ROOT less = pred[] compare(step, limit), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  z = f32[1000] parameter(2)
  begin = (s32[], f32[1000], f32[1000], f32[1000]) tuple(zero, x, y, z)
  loop = (s32[], f32[1000], f32[1000], f32[1000]) while(begin), condition=more, body=body
  ROOT result = f32[1000] get-tuple-element(loop), index=1
}
";

/// XLA drops elements of the state as a group only if the group has nothing in common with one that is needed.
#[test]
fn derivatives_that_nobody_reads_stay_beside_their_value() {
    assert_eq!(total(DERIVATIVES), 36_240);
    let apart = DERIVATIVES.replace("multiply(cosine, slope)", "multiply(bend, slope)");
    assert_eq!(total(&apart), 16_141);
    // An element that feeds no other goes alone, and then the one that fed it.
    let chain = DERIVATIVES.replace("add(m, bend)", "add(m, slope)");
    assert_eq!(total(&chain), 16_141);
}

/// Two loops one behind the other, of which the last one's values are read.
const LOOPS_IN_A_ROW: &str = "
more {
  state = (s32[], f32[1000], f32[1000], f32[1000]) parameter(0)
  step = s32[] get-tuple-element(state), index=0
  limit = s32[] constant(10)
  ROOT less = pred[] compare(step, limit), direction=LT
}
first {
  state = (s32[], f32[1000], f32[1000], f32[1000]) parameter(0)
  step = s32[] get-tuple-element(state), index=0
  value = f32[1000] get-tuple-element(state), index=1
  slope = f32[1000] get-tuple-element(state), index=2
  bend = f32[1000] get-tuple-element(state), index=3
  one = s32[] constant(1)
  next = s32[] add(step, one)
  sine = f32[1000] sine(value)
  cosine = f32[1000] cosine(value)
  steeper = f32[1000] multiply(cosine, slope)
  bent = f32[1000] add(bend, steeper)
  ROOT done = (s32[], f32[1000], f32[1000], f32[1000]) tuple(next, sine, steeper, bent)
}
second {
  state = (s32[], f32[1000], f32[1000], f32[1000]) parameter(0)
  step = s32[] get-tuple-element(state), index=0
  value = f32[1000] get-tuple-element(state), index=1
  slope = f32[1000] get-tuple-element(state), index=2
  bend = f32[1000] get-tuple-element(state), index=3
  one = s32[] constant(1)
  next = s32[] add(step, one)
  grown = f32[1000] exponential(value)
  steeper = f32[1000] multiply(grown, slope)
  bent = f32[1000] multiply(bend, steeper)
  ROOT done = (s32[], f32[1000], f32[1000], f32[1000]) tuple(next, grown, steeper, bent)
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  z = f32[1000] parameter(2)
  begin = (s32[], f32[1000], f32[1000], f32[1000]) tuple(zero, x, y, z)
  l = (s32[], f32[1000], f32[1000], f32[1000]) while(begin), condition=more, body=first
  a = f32[1000] get-tuple-element(l), index=1
  b = f32[1000] get-tuple-element(l), index=2
  c = f32[1000] get-tuple-element(l), index=3
  again = (s32[], f32[1000], f32[1000], f32[1000]) tuple(zero, a, b, c)
  k = (s32[], f32[1000], f32[1000], f32[1000]) while(again), condition=more, body=second
  ROOT result = f32[1000] get-tuple-element(k), index=1
}
";

/// A loop in a branch whose condition reads what its result does not; nobody reads the trace.
const TRACED: &str = "
more {
  state = (s32[], f32[1000], f32[1000], f16[1000]) parameter(0)
  step = s32[] get-tuple-element(state), index=0
  error = f32[1000] get-tuple-element(state), index=2
  zero = s32[] constant(0)
  first = f32[1] slice(error), slice={[0:1]}
  none = f32[] reshape(first)
  limit = f32[] constant(10)
  ROOT less = pred[] compare(none, limit), direction=LT
}
body {
  state = (s32[], f32[1000], f32[1000], f16[1000]) parameter(0)
  step = s32[] get-tuple-element(state), index=0
  value = f32[1000] get-tuple-element(state), index=1
  error = f32[1000] get-tuple-element(state), index=2
  trace = f16[1000] get-tuple-element(state), index=3
  one = s32[] constant(1)
  next = s32[] add(step, one)
  sine = f32[1000] sine(value)
  worse = f32[1000] add(error, sine)
  short = f16[1000] convert(worse)
  traced = f16[1000] add(trace, short)
  ROOT done = (s32[], f32[1000], f32[1000], f16[1000]) tuple(next, sine, worse, traced)
}
yes {
  x = f32[1000] parameter(0)
  zero = s32[] constant(0)
  h = f16[1000] convert(x)
  begin = (s32[], f32[1000], f32[1000], f16[1000]) tuple(zero, x, x, h)
  l = (s32[], f32[1000], f32[1000], f16[1000]) while(begin), condition=more, body=body
  ROOT a = f32[1000] get-tuple-element(l), index=1
}
no {
  x = f32[1000] parameter(0)
  ROOT a = f32[1000] cosine(x)
}
ENTRY e {
  c = pred[] parameter(0)
  x = f32[1000] parameter(1)
  ROOT result = f32[1000] conditional(c, x, x), true_computation=yes, false_computation=no
}
";

/// Kind: elements of a state that nobody reads, where another loop or the condition seems to read them.
#[test]
fn what_only_loops_hand_on_is_dropped_and_what_a_condition_reads_stays() {
    assert_eq!(total(LOOPS_IN_A_ROW), 16_277);
    let slopes = LOOPS_IN_A_ROW.replace("get-tuple-element(k), index=1", "get-tuple-element(k), index=2");
    assert_eq!(total(&slopes), 24_280);
    assert_eq!(total(TRACED), 16_225);
}

/// A sort of which one array is read, whose size is set to what it is.
const SORTED: &str = "
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT, type=TOTALORDER
}
ENTRY e {
  x = f32[100,200] parameter(0)
  i = s32[100,200] iota(), iota_dimension=1
  s = (f32[100,200], s32[100,200]) sort(x, i), dimensions={1}, is_stable=true, to_apply=less
  v = f32[100,200] get-tuple-element(s), index=0
  n = s32[] constant(200)
  w = f32[100,200] set-dimension-size(v, n), dimensions={1}
  ROOT r = f32[100,200] negate(w)
}
";

/// A sort by the last of three arrays of which the second is read.
const SORTED_BY: &str = "
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  f = s16[] parameter(4)
  g = s16[] parameter(5)
  ROOT l = pred[] compare(f, g), direction=LT
}
ENTRY e {
  x = f32[100,200] parameter(0)
  y = s16[100,200] parameter(1)
  i = s32[100,200] iota(), iota_dimension=1
  s = (f32[100,200], s32[100,200], s16[100,200]) sort(x, i, y), dimensions={1}, is_stable=true, to_apply=less
  v = s32[100,200] get-tuple-element(s), index=1
  ROOT r = s32[100,200] negate(v)
}
";

#[test]
fn arrays_that_nobody_reads_are_not_sorted_along() {
    assert_eq!(total(SORTED), 160_035);
    assert_eq!(total(SORTED_BY), 240_029);
}

/// The places of the largest of each column, cut to ten and set to that size, behind a tuple that nobody else reads.
const TOP: &str = "
greater {
  a = s16[] parameter(0)
  b = s16[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=GT
}
ENTRY e {
  x = s16[300,100] parameter(0)
  i = s32[300,100] iota(), iota_dimension=0
  s = (s16[300,100], s32[300,100]) sort(x, i), dimensions={0}, is_stable=true, to_apply=greater
  v = s32[300,100] get-tuple-element(s), index=1
  c = s32[10,100] slice(v), slice={[0:10], [0:100]}
  n = s32[] constant(10)
  w = s32[10,100] set-dimension-size(c, n), dimensions={0}
  u = s16[300,100] get-tuple-element(s), index=0
  t = (s16[300,100], s32[10,100]) tuple(u, w)
  ROOT r = s32[10,100] get-tuple-element(t), index=1
}
";

/// Kind: a sort of which a part is read, behind a size that is set to what it is.
#[test]
fn the_part_of_a_sort_that_is_read_stays_behind_its_size() {
    assert_eq!(total(TOP), 244_061);
}
