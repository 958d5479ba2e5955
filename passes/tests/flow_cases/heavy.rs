//! Cases of indexed, reducing, contracting and sorting operations: the rules of `passes/src/flow/indexed.rs`, `passes/src/flow/windowed.rs` and
//! `passes/src/flow/contract.rs`.

use super::{bracketed, dims, list, module, s32, shuffled};
use crate::interpreter::random::Random;

/// How a gather or scatter names the dimensions of a table, its indices and what is read or written.
struct Indexing {
    table: Vec<i64>,
    indices: Vec<i64>,
    vector_dim: i64,
    /// Table dimensions of the components.
    map: Vec<i64>,
    /// Table dimensions that the slice lacks.
    gone: Vec<i64>,
    /// Pairs of batching dimensions: table, indices.
    batching: Option<(i64, i64)>,
    /// Slice sizes.
    sizes: Vec<i64>,
    /// Dimensions of the slices, dimensions of the result that hold them, and the result.
    window_dims: Vec<i64>,
    result: Vec<i64>,
}

impl Indexing {
    fn random(random: &mut Random) -> Self {
        let mut table = dims(random, 3);
        let order = shuffled(random, 3);
        let components = random.range(1, 3) as usize;
        let map = order[..components].to_vec();
        let batches = dims(random, 2);
        let vector_dim = random.range(0, 3);
        let mut indices = batches.clone();
        indices.insert(vector_dim as usize, components as i64);
        let batching = (random.range(0, 3) == 0).then(|| {
            let index_dim = i64::from(vector_dim == 0);
            table[order[2] as usize] = indices[index_dim as usize];
            (order[2], index_dim)
        });
        let mut gone: Vec<i64> = map.iter().copied().filter(|_| random.range(0, 2) == 0).collect();
        gone.sort_unstable();
        let is_paired = |dim: i64| batching.is_some_and(|(table, _)| table == dim);
        let size = |dim: i64, random: &mut Random| match table[dim as usize] {
            _ if gone.contains(&dim) || is_paired(dim) => 1,
            whole => random.some_of(whole, 1),
        };
        let sizes: Vec<i64> = (0..3).map(|dim| size(dim, random)).collect();
        let kept: Vec<i64> = (0..3).filter(|&dim| !gone.contains(&dim) && !is_paired(dim)).collect();
        // The windows stand at random places among the batch dimensions.
        let rank = batches.len() + kept.len();
        let mut window_dims = shuffled(random, rank)[..kept.len()].to_vec();
        window_dims.sort_unstable();
        let (mut windows, mut batch) = (kept.iter().map(|&dim| sizes[dim as usize]), batches.iter().copied());
        let pick = |dim: i64| if window_dims.contains(&dim) { windows.next() } else { batch.next() };
        let result = (0..rank as i64).map(pick).map(|size| size.expect("both suffice")).collect();
        Self { table, indices, vector_dim, map, gone, batching, sizes, window_dims, result }
    }
}

pub(super) fn gather(random: &mut Random) -> String {
    let at = Indexing::random(random);
    let mut attributes = format!(
        ", offset_dims={{{}}}, collapsed_slice_dims={{{}}}, start_index_map={{{}}}, index_vector_dim={}, slice_sizes={{{}}}",
        list(&at.window_dims),
        list(&at.gone),
        list(&at.map),
        at.vector_dim,
        list(&at.sizes),
    );
    if let Some((table, index)) = at.batching {
        let batching = format!(", operand_batching_dims={{{table}}}, start_indices_batching_dims={{{index}}}");
        attributes.push_str(&batching);
    }
    module(&[s32(&at.table), s32(&at.indices)], &s32(&at.result), "gather", &attributes)
}

fn scatter_attributes(at: &Indexing, combiner: &str) -> String {
    let mut attributes = format!(
        ", update_window_dims={{{}}}, inserted_window_dims={{{}}}, scatter_dims_to_operand_dims={{{}}}, index_vector_dim={}",
        list(&at.window_dims),
        list(&at.gone),
        list(&at.map),
        at.vector_dim,
    );
    if let Some((table, index)) = at.batching {
        let batching = format!(", input_batching_dims={{{table}}}, scatter_indices_batching_dims={{{index}}}");
        attributes.push_str(&batching);
    }
    attributes + ", to_apply=" + combiner
}

pub(super) fn scatter(random: &mut Random) -> String {
    let at = Indexing::random(random);
    let parameters = [s32(&at.table), s32(&at.indices), s32(&at.result)];
    module(&parameters, &s32(&at.table), "scatter", &scatter_attributes(&at, "%sum"))
}

pub(super) fn scatter_both(random: &mut Random) -> String {
    let at = Indexing::random(random);
    let (table, updates) = (s32(&at.table), s32(&at.result));
    let parameters = [table.clone(), table.clone(), s32(&at.indices), updates.clone(), updates];
    module(&parameters, &format!("({table}, {table})"), "scatter", &scatter_attributes(&at, "%both"))
}

/// Sizes, the reduced dimensions, and the sizes that are left.
fn reduction(random: &mut Random) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let from = dims(random, 3);
    let reduced: Vec<i64> = (0..3).filter(|_| random.range(0, 3) == 0).collect();
    let kept = (0..3).filter(|dim| !reduced.contains(dim)).map(|dim| from[dim as usize]).collect();
    (from, reduced, kept)
}

pub(super) fn reduce(random: &mut Random) -> String {
    let (from, reduced, to) = reduction(random);
    let attributes = format!(", dimensions={{{}}}, to_apply=%sum", list(&reduced));
    module(&[s32(&from), s32(&[])], &s32(&to), "reduce", &attributes)
}

pub(super) fn reduce_both(random: &mut Random) -> String {
    let (from, reduced, to) = reduction(random);
    let attributes = format!(", dimensions={{{}}}, to_apply=%both", list(&reduced));
    let (from, to) = (s32(&from), s32(&to));
    module(&[from.clone(), from, s32(&[]), s32(&[])], &format!("({to}, {to})"), "reduce", &attributes)
}

/// Per dimension (operand size, windows, window attribute parts size, stride, pad).
fn windows(random: &mut Random) -> (Vec<i64>, Vec<i64>, String) {
    let (mut from, mut to, mut parts) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..2 {
        let count = random.range(1, 5);
        let (size, stride, pad) = random.pick(&[(1, 1, 0), (2, 2, 0), (3, 3, 0), (3, 1, 1), (2, 1, 0)]);
        from.push((count - 1) * stride + size - 2 * pad);
        to.push(count);
        let texts = [size.to_string(), stride.to_string(), format!("{pad}_{pad}")];
        parts.iter_mut().zip(texts).for_each(|(part, text)| part.push(text));
    }
    let [size, stride, pad] = parts.map(|part| part.join("x"));
    (from, to, format!(", window={{size={size} stride={stride} pad={pad}}}"))
}

pub(super) fn reduce_window(random: &mut Random) -> String {
    let (from, to, window) = windows(random);
    module(&[s32(&from), s32(&[])], &s32(&to), "reduce-window", &format!("{window}, to_apply=%sum"))
}

pub(super) fn select_and_scatter(random: &mut Random) -> String {
    let (from, to, window) = windows(random);
    let attributes = format!("{window}, select=%at_least, scatter=%sum");
    module(&[s32(&from), s32(&to), s32(&[])], &s32(&from), "select-and-scatter", &attributes)
}

pub(super) fn dot(random: &mut Random) -> String {
    let shared = dims(random, 2);
    let (left_free, right_free) = (random.range(1, 6), random.range(1, 6));
    let [left, right] = [left_free, right_free].map(|free| (shuffled(random, 3), [shared[0], shared[1], free]));
    // Role 0 is the batch dimension, role 1 is contracted, role 2 is free.
    let place = |(order, sizes): &(Vec<i64>, [i64; 3])| -> (Vec<i64>, Vec<usize>) {
        let shape = order.iter().map(|&role| sizes[role as usize]).collect();
        let at = |role: i64| order.iter().position(|&other| other == role).expect("every role has a place");
        (shape, (0..3).map(at).collect())
    };
    let ((lhs, left), (rhs, right)) = (place(&left), place(&right));
    let attributes = format!(
        ", lhs_batch_dims={{{}}}, lhs_contracting_dims={{{}}}, rhs_batch_dims={{{}}}, rhs_contracting_dims={{{}}}",
        left[0], left[1], right[0], right[1],
    );
    module(&[s32(&lhs), s32(&rhs)], &s32(&[shared[0], left_free, right_free]), "dot", &attributes)
}

fn convolve(random: &mut Random, groups: i64, inputs: i64, outputs: i64) -> String {
    let batch = random.range(1, 5);
    let (from, to, window) = windows(random);
    let size = window.split("size=").nth(1).and_then(|rest| rest.split(' ').next()).expect("it has a size").to_owned();
    let kernel: Vec<i64> = size.split('x').map(|size| size.parse().expect("sizes are numbers")).collect();
    let attributes = format!("{window}, dim_labels=b01f_01io->f0b1, feature_group_count={groups}");
    let lhs = s32(&[batch, from[0], from[1], groups * inputs]);
    let rhs = s32(&[kernel[0], kernel[1], inputs, groups * outputs]);
    module(&[lhs, rhs], &s32(&[groups * outputs, to[0], batch, to[1]]), "convolution", &attributes)
}

pub(super) fn convolution(random: &mut Random) -> String {
    let (inputs, outputs) = (random.range(1, 4), random.range(1, 5));
    convolve(random, 1, inputs, outputs)
}

pub(super) fn grouped_convolution(random: &mut Random) -> String {
    let (groups, inputs, outputs) = (random.range(2, 4), random.range(1, 4), random.range(1, 4));
    convolve(random, groups, inputs, outputs)
}

pub(super) fn sort(random: &mut Random) -> String {
    let shape = s32(&dims(random, 2));
    let dim = random.range(0, 2);
    module(
        std::slice::from_ref(&shape),
        &shape,
        "sort",
        &format!(", dimensions={{{dim}}}, is_stable=true, to_apply=%less"),
    )
}

pub(super) fn sort_both(random: &mut Random) -> String {
    let shape = s32(&dims(random, 2));
    let attributes = format!(", dimensions={{{}}}, is_stable=true, to_apply=%less_first", random.range(0, 2));
    module(&[shape.clone(), shape.clone()], &format!("({shape}, {shape})"), "sort", &attributes)
}

pub(super) fn top_k(random: &mut Random) -> String {
    let from = dims(random, 2);
    let k = random.range(1, from[1] + 1);
    let to = s32(&[from[0], k]);
    module(&[s32(&from)], &format!("({to}, {to})"), "topk", &format!(", k={k}, largest=true"))
}

pub(super) fn fft(random: &mut Random) -> String {
    let shape = dims(random, 3);
    let minor = random.range(1, 3) as usize;
    let c64 = format!("c64{}", bracketed(&shape));
    let attributes = format!(", fft_type=FFT, fft_length={{{}}}", list(&shape[3 - minor..]));
    module(std::slice::from_ref(&c64), &c64, "fft", &attributes)
}

pub(super) fn cholesky(random: &mut Random) -> String {
    let (batch, size) = (random.range(1, 6), random.range(1, 4));
    let f32 = format!("f32{}", bracketed(&[batch, size, size]));
    module(std::slice::from_ref(&f32), &f32, "cholesky", ", lower=true")
}

pub(super) fn triangular_solve(random: &mut Random) -> String {
    let (batch, size, sides) = (random.range(1, 5), random.range(1, 4), random.range(1, 5));
    let left = random.range(0, 2) == 0;
    let unknown = if left { [batch, size, sides] } else { [batch, sides, size] };
    let [matrix, unknown] = [[batch, size, size], unknown].map(|dims| format!("f32{}", bracketed(&dims)));
    let attributes = format!(", left_side={left}, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE");
    module(&[matrix, unknown.clone()], &unknown, "triangular-solve", &attributes)
}
