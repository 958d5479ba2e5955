//! Random instructions, one generator per case; each makes a module whose root is the instruction under test.

mod data;
mod heavy;

use crate::interpreter::random::Random;

/// Makes the text of a module.
pub(crate) type Source = fn(&mut Random) -> String;

/// Computations that the instructions apply.
pub(crate) const COMPUTATIONS: &str = "
%sum (a: s32[], b: s32[]) -> s32[] {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %r = s32[] add(%a, %b)
}
%both (c: s32[], d: s32[], e: s32[], f: s32[]) -> (s32[], s32[]) {
  %c = s32[] parameter(0)
  %d = s32[] parameter(1)
  %e = s32[] parameter(2)
  %f = s32[] parameter(3)
  %s = s32[] add(%c, %e)
  %m = s32[] maximum(%d, %f)
  ROOT %t = (s32[], s32[]) tuple(%s, %m)
}
%less (g: s32[], h: s32[]) -> pred[] {
  %g = s32[] parameter(0)
  %h = s32[] parameter(1)
  ROOT %l = pred[] compare(%g, %h), direction=LT
}
%less_first (i: s32[], j: s32[], k: s32[], l: s32[]) -> pred[] {
  %i = s32[] parameter(0)
  %j = s32[] parameter(1)
  %k = s32[] parameter(2)
  %l1 = s32[] parameter(3)
  ROOT %q = pred[] compare(%i, %j), direction=LT
}
%at_least (n: s32[], o: s32[]) -> pred[] {
  %n = s32[] parameter(0)
  %o = s32[] parameter(1)
  ROOT %g2 = pred[] compare(%n, %o), direction=GE
}
";

/// Every case, by name.
pub(crate) const ALL: &[(&str, Source)] = &[
    ("elementwise", data::add),
    ("elementwise with scalars", data::clamp),
    ("map", data::map),
    ("bitcast", data::bitcast),
    ("bitcast-convert to narrow", data::narrow),
    ("bitcast-convert to wide", data::widen),
    ("broadcast", data::broadcast),
    ("reshape", data::reshape),
    ("transpose", data::transpose),
    ("slice", data::slice),
    ("pad", data::pad),
    ("reverse", data::reverse),
    ("concatenate", data::concatenate),
    ("dynamic-slice", data::dynamic_slice),
    ("dynamic-update-slice", data::dynamic_update_slice),
    ("gather", heavy::gather),
    ("scatter", heavy::scatter),
    ("scatter of two", heavy::scatter_both),
    ("reduce", heavy::reduce),
    ("reduce of two", heavy::reduce_both),
    ("reduce-window", heavy::reduce_window),
    ("select-and-scatter", heavy::select_and_scatter),
    ("dot", heavy::dot),
    ("convolution", heavy::convolution),
    ("convolution in groups", heavy::grouped_convolution),
    ("sort", heavy::sort),
    ("sort of two", heavy::sort_both),
    ("topk", heavy::top_k),
    ("fft", heavy::fft),
    ("cholesky", heavy::cholesky),
    ("triangular-solve", heavy::triangular_solve),
    ("iota", data::iota),
];

/// `s32[2,3]`.
pub(crate) fn s32(dims: &[i64]) -> String {
    format!("s32{}", bracketed(dims))
}

/// `[2,3]`.
pub(crate) fn bracketed(dims: &[i64]) -> String {
    format!("[{}]", list(dims))
}

/// `2,3`.
pub(crate) fn list(dims: &[i64]) -> String {
    dims.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// Random sizes.
pub(crate) fn dims(random: &mut Random, rank: usize) -> Vec<i64> {
    (0..rank).map(|_| random.range(1, 7)).collect()
}

/// The dimensions of an array of this rank, shuffled.
pub(crate) fn shuffled(random: &mut Random, rank: usize) -> Vec<i64> {
    let mut order: Vec<i64> = (0..rank as i64).collect();
    for at in (1..rank).rev() {
        order.swap(at, random.range(0, at as i64 + 1) as usize);
    }
    order
}

/// A module with these parameters and the root `SHAPE OPCODE(%p0, %p1, ...)ATTRIBUTES`.
pub(crate) fn module(parameters: &[String], shape: &str, opcode: &str, attributes: &str) -> String {
    let mut text = format!("HloModule m\n{COMPUTATIONS}\nENTRY %main {{\n");
    let line = |(number, shape): (usize, &String)| format!("  %p{number} = {shape} parameter({number})\n");
    text.extend(parameters.iter().enumerate().map(line));
    let operands: Vec<String> = (0..parameters.len()).map(|number| format!("%p{number}")).collect();
    let operands = if opcode == "constant" { "0".to_owned() } else { operands.join(", ") };
    text + &format!("  ROOT %root = {shape} {opcode}({operands}){attributes}\n}}\n")
}
