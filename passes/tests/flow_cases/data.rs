//! Cases of elementwise operations and data movement: the rules of `passes/src/flow/movement.rs`, and those of slices in `passes/src/flow/indexed.rs`.

use super::{bracketed, dims, list, module, s32, shuffled};
use crate::interpreter::random::Random;

pub(super) fn add(random: &mut Random) -> String {
    let shape = s32(&dims(random, 2));
    module(&[shape.clone(), shape.clone()], &shape, "add", "")
}

pub(super) fn clamp(random: &mut Random) -> String {
    let shape = s32(&dims(random, 3));
    module(&[s32(&[]), shape.clone(), s32(&[])], &shape, "clamp", "")
}

pub(super) fn map(random: &mut Random) -> String {
    let shape = s32(&dims(random, 2));
    module(&[shape.clone(), shape.clone()], &shape, "map", ", dimensions={0,1}, to_apply=%sum")
}

/// Equal dimensions, or a dimension of size 1 more, which flow does not look through.
pub(super) fn bitcast(random: &mut Random) -> String {
    let from = dims(random, 2);
    let mut to = from.clone();
    if random.range(0, 3) == 0 {
        to.insert(0, 1);
    }
    module(&[s32(&from)], &s32(&to), "bitcast", "")
}

pub(super) fn narrow(random: &mut Random) -> String {
    let from = dims(random, 2);
    let to = [from.as_slice(), &[2]].concat();
    module(&[s32(&from)], &format!("s16{}", bracketed(&to)), "bitcast-convert", "")
}

pub(super) fn widen(random: &mut Random) -> String {
    let to = dims(random, 2);
    let from = [to.as_slice(), &[4]].concat();
    module(&[format!("u8{}", bracketed(&from))], &s32(&to), "bitcast-convert", "")
}

pub(super) fn iota(random: &mut Random) -> String {
    // Blocks of another dimension than its own need no offset; the loop adds the offset of its own.
    let to = [1, random.range(1, 9)];
    module(&[], &s32(&to), "iota", ", iota_dimension=0")
}

pub(super) fn broadcast(random: &mut Random) -> String {
    let to = dims(random, 4);
    let mut mapped: Vec<i64> = (0..4).filter(|_| random.range(0, 2) == 0).collect();
    mapped.sort_unstable();
    let from: Vec<i64> = mapped.iter().map(|&dim| to[dim as usize]).collect();
    module(&[s32(&from)], &s32(&to), "broadcast", &format!(", dimensions={{{}}}", list(&mapped)))
}

/// The same prime factors, grouped anew, with dimensions of size 1 strewn in.
pub(super) fn reshape(random: &mut Random) -> String {
    let factors: Vec<i64> = (0..4).map(|_| random.pick(&[1, 2, 2, 3])).collect();
    let mut grouped = || {
        let mut shape = vec![1];
        for &factor in &factors {
            match random.range(0, 3) {
                0 => *shape.last_mut().expect("it starts with one") *= factor,
                _ => shape.push(factor),
            }
        }
        shape
    };
    let (from, to) = (grouped(), grouped());
    module(&[s32(&from)], &s32(&to), "reshape", "")
}

pub(super) fn transpose(random: &mut Random) -> String {
    let from = dims(random, 3);
    let order = shuffled(random, 3);
    let to: Vec<i64> = order.iter().map(|&dim| from[dim as usize]).collect();
    module(&[s32(&from)], &s32(&to), "transpose", &format!(", dimensions={{{}}}", list(&order)))
}

pub(super) fn slice(random: &mut Random) -> String {
    let from: Vec<i64> = (0..2).map(|_| random.range(3, 12)).collect();
    let mut bounds = Vec::new();
    let mut to = Vec::new();
    for &size in &from {
        let start = random.range(0, 3);
        let limit = random.some_of(size, start + 1);
        let stride = random.range(1, 4);
        to.push((limit - start + stride - 1) / stride);
        bounds.push(format!("[{start}:{limit}:{stride}]"));
    }
    module(&[s32(&from)], &s32(&to), "slice", &format!(", slice={{{}}}", bounds.join(", ")))
}

pub(super) fn pad(random: &mut Random) -> String {
    let from = dims(random, 2);
    let mut to = Vec::new();
    let mut padding = Vec::new();
    for &size in &from {
        let [low, high, inner] = if random.range(0, 2) == 0 { [0; 3] } else { [1, 2, random.range(0, 2)] };
        to.push(size + low + high + (size - 1) * inner);
        padding.push(format!("{low}_{high}_{inner}"));
    }
    module(&[s32(&from), s32(&[])], &s32(&to), "pad", &format!(", padding={}", padding.join("x")))
}

pub(super) fn reverse(random: &mut Random) -> String {
    let shape = s32(&dims(random, 3));
    let mirrored: Vec<i64> = (0..3).filter(|_| random.range(0, 2) == 0).collect();
    module(std::slice::from_ref(&shape), &shape, "reverse", &format!(", dimensions={{{}}}", list(&mirrored)))
}

pub(super) fn concatenate(random: &mut Random) -> String {
    let dim = random.range(0, 2) as usize;
    let mut to = dims(random, 2);
    let mut total = 0;
    let mut pieces = Vec::new();
    for _ in 0..random.range(1, 4) {
        to[dim] = random.range(1, 4);
        total += to[dim];
        pieces.push(s32(&to));
    }
    to[dim] = total;
    module(&pieces, &s32(&to), "concatenate", &format!(", dimensions={{{dim}}}"))
}

/// For each dimension all of it or a part.
fn part(random: &mut Random, from: &[i64]) -> Vec<i64> {
    from.iter().map(|&size| random.some_of(size, 1)).collect()
}

pub(super) fn dynamic_slice(random: &mut Random) -> String {
    let from = dims(random, 2);
    let to = part(random, &from);
    let attributes = format!(", dynamic_slice_sizes={{{}}}", list(&to));
    module(&[s32(&from), s32(&[]), s32(&[])], &s32(&to), "dynamic-slice", &attributes)
}

pub(super) fn dynamic_update_slice(random: &mut Random) -> String {
    let whole = dims(random, 2);
    let update = part(random, &whole);
    let parameters = [s32(&whole), s32(&update), s32(&[]), s32(&[])];
    module(&parameters, &s32(&whole), "dynamic-update-slice", "")
}
