//! What XLA:CPU writes out, drops or keeps before it fuses, on programs small enough to be read: our total against its own (jaxlib 0.10.2).

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
