//! Control dependencies wherever a module may hold them: in branches, calls, fusions, combiners, conditions and nested loops, onto values that simplification
//! removes. Totals are XLA:CPU's own (jaxlib 0.10.2).
//!
//! Pins `memory/src/cpu/graph/convert.rs`, `memory/src/cpu/copies/mod.rs`.

use hlo_memory::{Model, Target, estimate};

/// The total of a legal module, which has the caveat of control dependencies and no other one.
fn total(program: &str) -> u64 {
    let module = hlo_ir::text::parse(program).unwrap_or_else(|errors| panic!("{errors:?}\n{program}"));
    let problems = hlo_ir::verify::verify(&module);
    assert!(problems.is_empty(), "{problems:?}\n{program}");
    let estimate = estimate(&module, Target::Cpu).expect("a legal module has an estimate");
    assert_eq!(estimate.model, Model::Predicted);
    let [caveat] = &estimate.caveats[..] else { panic!("{:?}", estimate.caveats) };
    assert!(caveat.starts_with("control dependencies"), "{caveat}");
    estimate.total.get()
}

/// A product with one and a conversion to the same type, both awaited, in one branch; a value that only a control dependency needs in the other.
const FOLDED: &str = "HloModule m

branch.t {
  x = f32[8] parameter(0)
  one = f32[] constant(1)
  ones = f32[8] broadcast(one), dimensions={}
  s = f32[8] sine(x)
  m = f32[8] multiply(s, ones), control-predecessors={s}
  ROOT c = f32[8] convert(m), control-predecessors={ones}
}
branch.f {
  x = f32[8] parameter(0)
  dead = f32[8] tan(x)
  ROOT n = f32[8] negate(x), control-predecessors={dead}
}
ENTRY e {
  c = pred[] parameter(0)
  p = f32[8] parameter(1)
  ROOT r = f32[8] conditional(c, p, p), true_computation=branch.t, false_computation=branch.f
}
";

/// Two transpositions that undo each other, and a reshape of them.
const TURNED: &str = "HloModule m

ENTRY e {
  p = f32[4,8] parameter(0)
  n = f32[4,8] cosine(p)
  t = f32[8,4] transpose(n), dimensions={1,0}
  u = f32[4,8] transpose(t), dimensions={1,0}, control-predecessors={n}
  h = f32[32] reshape(u), control-predecessors={t}
  ROOT r = f32[32] exponential(h), control-predecessors={u, h}
}
";

/// A call that waits for another, and a tuple that waits for it.
const CALLED: &str = "HloModule m

inner {
  q = f32[8] parameter(0)
  ROOT n = f32[8] negate(q)
}
ENTRY e {
  p = f32[8] parameter(0)
  a = f32[8] call(p), to_apply=inner
  b = f32[8] call(a), to_apply=inner, control-predecessors={a}
  ROOT t = (f32[8], f32[8]) tuple(a, b), control-predecessors={b}
}
";

/// A fusion whose second parameter waits for what is made of the first.
const FUSED: &str = "HloModule m

f {
  a = f32[8] parameter(0)
  s = f32[8] sine(a)
  b = f32[8] parameter(1), control-predecessors={s}
  ROOT r = f32[8] multiply(s, b)
}
ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] cosine(p)
  ROOT r = f32[8] fusion(p, q), kind=kLoop, calls=f
}
";

/// A combiner in which an addition of zero waits for the other parameter.
const COMBINED: &str = "HloModule m

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  k = f32[] constant(0)
  s = f32[] add(x, k), control-predecessors={y}
  ROOT t = f32[] add(s, y), control-predecessors={s}
}
ENTRY e {
  p = f32[100,40] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[100] reduce(p, z), dimensions={1}, to_apply=add
}
";

/// A loop in a loop: constants, elements of the states, the inner loop and both conditions are awaited.
const NESTED: &str = "HloModule m

inner_body {
  t = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[8] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  two = f32[] constant(2)
  twos = f32[8] broadcast(two), dimensions={}, control-predecessors={j}
  y = f32[8] multiply(x, twos), control-predecessors={twos, i}
  ROOT u = (s32[], f32[8]) tuple(j, y)
}
inner_cond {
  t = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(4), control-predecessors={i}
  ROOT l = pred[] compare(i, n), direction=LT, control-predecessors={n}
}
outer_body {
  t = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[8] get-tuple-element(t), index=1
  zero = s32[] constant(0)
  v = (s32[], f32[8]) tuple(zero, x), control-predecessors={zero}
  w = (s32[], f32[8]) while(v), condition=inner_cond, body=inner_body
  y = f32[8] get-tuple-element(w), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one), control-predecessors={w}
  ROOT u = (s32[], f32[8]) tuple(j, y), control-predecessors={y}
}
outer_cond {
  t = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  z = s32[] constant(0)
  x = f32[8] parameter(0)
  s = f32[8] sine(x)
  t = (s32[], f32[8]) tuple(z, s)
  w = (s32[], f32[8]) while(t), condition=outer_cond, body=outer_body
  ROOT r = f32[8] get-tuple-element(w), index=1
}
";

/// A loop that rotates its state, as copy insertion leaves it: each new element waits for the copy of the old one.
const ROTATED: &str = "HloModule m

%body {
  %t = (s32[], f32[512]{0}, f32[512]{0}, f32[512]{0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %a = f32[512]{0} get-tuple-element(%t), index=1
  %b = f32[512]{0} get-tuple-element(%t), index=2
  %c = f32[512]{0} get-tuple-element(%t), index=3
  %old.i = s32[] copy(%i)
  %old.a = f32[512]{0} copy(%a)
  %old.b = f32[512]{0} copy(%b)
  %old.c = f32[512]{0} copy(%c)
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
  %new.i = s32[] copy(%j)
  %s = f32[512]{0} sine(%old.a)
  %sum = f32[512]{0} add(%s, %old.c)
  %new.a = f32[512]{0} copy(%old.b), control-predecessors={%old.a}
  %new.b = f32[512]{0} copy(%sum), control-predecessors={%old.b}
  %back = f32[512]{0} reverse(%old.b), dimensions={0}
  %new.c = f32[512]{0} copy(%back), control-predecessors={%old.c}
  ROOT %next = (s32[], f32[512]{0}, f32[512]{0}, f32[512]{0}) tuple(%j, %new.a, %new.b, %new.c)
}

%more {
  %t = (s32[], f32[512]{0}, f32[512]{0}, f32[512]{0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %n = s32[] constant(5)
  ROOT %l = pred[] compare(%i, %n), direction=LT
}

ENTRY %main {
  %zero = s32[] constant(0)
  %x = f32[512]{0} parameter(0)
  %y = f32[512]{0} parameter(1)
  %z = f32[512]{0} add(%x, %y)
  %own = f32[512]{0} copy(%x)
  %t = (s32[], f32[512]{0}, f32[512]{0}, f32[512]{0}) tuple(%zero, %own, %y, %z)
  ROOT %w = (s32[], f32[512]{0}, f32[512]{0}, f32[512]{0}) while(%t), condition=%more, body=%body
}
";

/// Kind: a control dependency onto a value that simplification removes, or into a parameter, outside of the entry.
#[test]
fn computations_of_the_entry_keep_their_figures() {
    assert_eq!(total(FOLDED), 65);
    assert_eq!(total(TURNED), 256);
    assert_eq!(total(CALLED), 112);
    assert_eq!(total(FUSED), 64);
    assert_eq!(total(COMBINED), 17_228);
}

/// Kind: a control edge inside of a loop body onto what folds away, from a constant, or from copy insertion.
#[test]
fn loops_in_loops_and_copies_behind_copy_insertion_keep_their_figures() {
    assert_eq!(total(NESTED), 345);
    assert_eq!(total(ROTATED), 14_384);
}
