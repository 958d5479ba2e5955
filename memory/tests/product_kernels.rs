//! What XLA:GPU's kernels of products take in, by how the dimensions lie; the bytes are those that it reports for an H100.
//!
//! Pins `memory/src/cpu/fusion/gemm/order.rs`, `memory/src/cpu/front/expand/vector_dot.rs`, `memory/src/cpu/triton.rs`.

use crate::device_calls::compare;

/// Rows in two dimensions, columns, and those of the other operand: of a small product, and of one that is summed in parts.
const SMALL: [u32; 4] = [8, 64, 4096, 2048];
const LARGE: [u32; 4] = [64, 1024, 128, 128];

/// The gradient of weights, whose rows `made` computes from so many parameters as `t`.
fn gradient([a, b, columns, others]: [u32; 4], parameters: u32, made: &str) -> String {
    let rows = a * b;
    format!(
        "{made}
  q = f32[{rows},{others}] parameter({parameters})
  r = f32[{rows},{columns}] reshape(t)
  ROOT d = f32[{columns},{others}] dot(r, q), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
    )
}

#[test]
fn rows_that_were_transposed_are_stored() {
    let turned = |sizes: [u32; 4]| {
        let [a, b, c, _] = sizes;
        let made = "transpose(x), dimensions={1,0,2}";
        gradient(sizes, 1, &format!("  x = f32[{a},{b},{c}] parameter(0)\n  t = f32[{b},{a},{c}] {made}"))
    };
    compare(&turned(SMALL), 54_525_952);
    compare(&turned(LARGE), 109_117_440);
}

#[test]
fn rows_of_a_slice_are_stored_unless_its_dimensions_stay() {
    let cut = |sizes: [u32; 4]| {
        let [a, b, c, _] = sizes;
        let made = format!("slice(x), slice={{[0:{a}],[0:{b}],[0:{c}]}}");
        gradient(sizes, 1, &format!("  x = f32[{a},{},{c}] parameter(0)\n  t = f32[{a},{b},{c}] {made}", b + 16))
    };
    compare(&cut(SMALL), 56_623_104);
    compare(&cut(LARGE), 109_641_728);
    compare(&cut([128, 512, 128, 128]), 76_611_584);
}

#[test]
fn what_is_repeated_along_a_part_of_the_rows_is_stored() {
    let repeated = |sizes: [u32; 4], dims: &str, first: u32, second: u32| {
        let [a, b, c, _] = sizes;
        let made = format!("broadcast(x), dimensions={{{dims}}}");
        gradient(sizes, 1, &format!("  x = f32[{first},{second}] parameter(0)\n  t = f32[{a},{b},{c}] {made}"))
    };
    compare(&repeated(SMALL, "1,2", 64, 4096), 47_185_920);
    compare(&repeated(LARGE, "1,2", 1024, 128), 76_087_296);
    compare(&repeated(SMALL, "0,1", 8, 64), 37_750_784);
    compare(&repeated(LARGE, "0,1", 64, 1024), 42_270_720);
}

/// Where no tiles are found for joined columns, they are stored and the library multiplies.
#[test]
fn joined_columns_go_in_unless_the_rows_are_cut_otherwise() {
    let joined = |lead: &str, sizes: [u32; 4]| {
        let half = sizes[2] / 2;
        let dim = lead.split(',').count();
        let made = format!(
            "  a = f32[{lead},{half}] parameter(0)
  b = f32[{lead},{half}] parameter(1)
  x = f32[{lead},{half}] tanh(a)
  y = f32[{lead},{half}] subtract(x, b)
  t = f32[{lead},{columns}] concatenate(x, y), dimensions={{{dim}}}",
            columns = sizes[2]
        );
        gradient(sizes, 2, &made)
    };
    compare(&joined("8,64", SMALL), 54_526_208);
    compare(&joined("65536", LARGE), 109_117_456);
    compare(&joined("64,2048,20", [64, 40_960, 128, 128]), 5_368_774_928);
}

/// Heads that stand in front of the rows: the product sums over them in two places, or writes them so.
#[test]
fn heads_are_transposed_by_kernels_of_their_own() {
    compare(
        "  x = f32[16,8,512,64] parameter(0)
  q = f32[512,4096] parameter(1)
  t = f32[16,512,8,64] transpose(x), dimensions={0,2,1,3}
  r = f32[8192,512] reshape(t)
  ROOT d = f32[8192,4096] dot(r, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        176_160_768,
    );
    let written = |last: &str| {
        format!(
            "  x = f32[8192,512] parameter(0)
  w = f32[512,512] parameter(1)
  z = f32[8,8,1024,64] parameter(2)
  v = f32[8,1024,512] parameter(3)
  d = f32[8192,512] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
{last}"
        )
    };
    let heads = "  r = f32[8,1024,8,64] reshape(d)
  t = f32[8,8,1024,64] transpose(r), dimensions={0,2,1,3}
  ROOT o = f32[8,8,1024,64] add(t, z)";
    compare(&written(heads), 84_934_656);
    let flat = "  r = f32[8,1024,512] reshape(d)\n  ROOT o = f32[8,1024,512] add(r, v)";
    compare(&written(flat), 68_157_440);
    compare(&written("  ROOT t = f32[512,8192] transpose(d), dimensions={1,0}"), 68_157_440);
}

/// Rows of the first operand may lie in two places, if those of the result do so too or lie in one.
#[test]
fn rows_of_the_first_operand_may_lie_in_two_places() {
    let apart = "  x = f32[16,256,512] parameter(0)
  w = f32[256,256] parameter(1)
  t = f32[16,512,256] transpose(x), dimensions={0,2,1}
  r = f32[8192,256] reshape(t)
";
    let first = |root: &str, last: &str| {
        let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        format!("{apart}  {root}d = f32[8192,256] dot(r, w), {dims}{last}")
    };
    let written = |[blocks, rows]: [u32; 2]| {
        format!(
            "
  o = f32[{blocks},{rows},256] reshape(d)
  ROOT u = f32[{blocks},256,{rows}] transpose(o), dimensions={{0,2,1}}"
        )
    };
    compare(&first("ROOT ", ""), 17_039_360);
    compare(&first("", &written([16, 512])), 17_039_360);
    compare(&first("", &written([32, 256])), 25_427_968);
    let second = "  ROOT d = f32[256,8192] dot(w, r), lhs_contracting_dims={0}, rhs_contracting_dims={1}";
    compare(&format!("{apart}{second}"), 25_427_968);
    let reversed = "  x = f32[512,16,256] parameter(0)
  w = f32[256,256] parameter(1)
  t = f32[16,512,256] transpose(x), dimensions={1,0,2}
  r = f32[8192,256] reshape(t)
  ROOT d = f32[8192,256] dot(r, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    compare(reversed, 25_427_968);
}

/// A product with a vector is a sum like any other, if it is small or of types that no kernel knows.
#[test]
fn small_products_with_a_vector_are_sums() {
    let vector = |element: &str, rows: u32, columns: u32, made: &str| {
        format!(
            "  x = {element}[{rows}] parameter(0)
  w = {element}[{rows},{columns}] parameter(1)
  v = {element}[{rows},{columns}] {made}(w)
  ROOT s = {element}[{columns}] dot(x, v), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
        )
    };
    compare(&vector("f32", 1024, 4096, "tanh"), 33_574_912);
    compare(&vector("f32", 4096, 32_000, "tanh"), 524_432_384);
    compare(&vector("f64", 4096, 16_000, "negate"), 524_448_768);
}

/// The highest precision is a matter of how a kernel multiplies, not of who makes it.
#[test]
fn products_of_the_highest_precision_have_the_same_kernels() {
    let long = |precision: &str| {
        format!(
            "  x = f32[65536,128] parameter(0)
  q = f32[65536,128] parameter(1)
  e = f32[65536,128] negate(x)
  ROOT d = f32[128,128] dot(e, q), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}, operand_precision={{{precision},{precision}}}"
        )
    };
    compare(&long("default"), 75_563_008);
    compare(&long("highest"), 75_563_008);
}

/// Products of integers of 32 bits have no kernel of their own, which would take the other side in: they are sums where the second side's rows are summed up.
#[test]
fn products_of_integers_of_32_bits_are_sums_by_rows() {
    let product = |sizes: &str, dim: u32| {
        format!(
            "  x = s32[512,1024] parameter(0)
  w = s32[{sizes}] parameter(1)
  v = s32[{sizes}] negate(w)
  ROOT s = s32[512,256] dot(x, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{dim}}}"
        )
    };
    compare(&product("256,1024", 1), 3_670_016);
    compare(&product("1024,256", 0), 4_718_592);
}
