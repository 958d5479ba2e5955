//! What XLA:GPU makes of products and of the largest elements; the bytes are those that it reports for an H100.
//!
//! Pins `memory/src/cpu/front/expand/mod.rs`, `memory/src/cpu/h100.rs`.

use hlo_memory::{Target, estimate};

/// The bytes of an entry computation with these lines.
fn bytes(lines: &str) -> u64 {
    let text = format!("HloModule m\n\nENTRY e {{\n{lines}\n}}\n");
    let module = hlo_ir::text::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    estimate(&module, Target::Gpu).expect("the model knows all of it").total.get()
}

/// Compares with XLA:GPU, which needs no memory for numbers that kernels hold, and some for scalars.
#[track_caller]
pub(crate) fn compare(lines: &str, by_xla: u64) {
    let found = bytes(lines);
    assert!(found.abs_diff(by_xla) <= 256, "{found} instead of {by_xla}:\n{lines}");
}

/// A product of two columns of this length, of `element` to `result`.
fn product(batch: &str, length: u32, [rows, columns]: [u32; 2], element: &str, result: &str) -> String {
    let (dims, dim) = if batch.is_empty() { ("", 0) } else { ("lhs_batch_dims={0}, rhs_batch_dims={0}, ", 1) };
    format!(
        "  p = {element}[{batch}{length},{rows}] parameter(0)
  q = {element}[{batch}{length},{columns}] parameter(1)
  ROOT r = {result}[{batch}{rows},{columns}] dot(p, q), {dims}lhs_contracting_dims={{{dim}}}, rhs_contracting_dims={{{dim}}}"
    )
}

#[test]
fn products_of_few_tiles_are_cut_into_as_many_parts_as_pay() {
    compare(&product("", 768, [16, 16], "f32", "f32"), 99_328);
    compare(&product("", 512, [64, 256], "f32", "f32"), 1_245_184);
    compare(&product("", 8192, [768, 768], "bf16", "bf16"), 35_782_656);
    compare(&product("", 16384, [2048, 2048], "bf16", "bf16"), 142_606_336);
    compare(&product("16,", 4096, [64, 64], "bf16", "bf16"), 19_005_440);
}

#[test]
fn parts_are_padded_to_16_bytes() {
    compare(&product("", 100_000, [64, 256], "f32", "f32"), 264_904_704);
    compare(&product("", 8704, [64, 256], "f32", "f32"), 13_303_808);
    compare(&product("", 8832, [64, 256], "f8e4m3fn", "f32"), 7_938_048);
    compare(&product("", 8800, [64, 256], "f64", "f64"), 49_463_296);
    compare(&product("8,", 3000, [100, 100], "f32", "f32"), 41_331_200);
}

/// What a kernel widens on the way counts as what it reads.
#[test]
fn operands_are_padded_for_the_type_they_are_computed_from() {
    let widened = |length: u32, first: &str| {
        format!(
            "  a = {first}[{length},64] parameter(0)
  b = bf16[{length},256] parameter(1)
  p = f32[{length},64] convert(a)
  q = f32[{length},256] convert(b)
  ROOT r = f32[64,256] dot(p, q), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
        )
    };
    compare(&widened(8704, "bf16"), 7_733_248);
    compare(&widened(8832, "bf16"), 19_283_968);
    compare(&widened(8832, "f32"), 20_414_464);
}

#[test]
fn operands_that_lie_column_by_column_are_not_copied() {
    let columns = "  p = f32[8192,64]{0,1} parameter(0)
  q = f32[8192,256]{0,1} parameter(1)
  ROOT r = f32[64,256] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
    compare(columns, 12_648_448);
}

/// The first operand is padded once, so that the padded one stands beside what is computed between the two products.
#[test]
fn an_operand_of_two_products_is_padded_once() {
    let twice = "  p = f32[100000,256] parameter(0)
  q = f32[100000,64] parameter(1)
  w = f32[64,1024] parameter(2)
  u = f32[1024,64] parameter(3)
  r = f32[256,64] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  s = f32[100000,64] dot(p, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[100000,1024] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[100000,1024] tanh(h)
  v = f32[100000,64] dot(a, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT o = f32[256,64] dot(p, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
    compare(twice, 666_550_272);
}

#[test]
fn products_that_add_nothing_up_are_not_cut() {
    let outer = "  p = f32[128,64] parameter(0)
  q = f32[128,256] parameter(1)
  ROOT r = f32[128,64,256] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}";
    compare(outer, 8_552_448);
}

#[test]
fn products_of_integers_of_32_bits_are_not_cut() {
    compare(&product("", 8832, [64, 256], "s32", "s32"), 11_370_496);
    compare(&product("", 8832, [64, 256], "s8", "s32"), 7_938_048);
}

/// The kernel of a product that is cut ends there: its parts are summed up by another.
#[test]
fn what_follows_a_product_that_is_cut_is_no_part_of_its_kernel() {
    let updated = |length: u32, size: u32| {
        format!(
            "  p = bf16[{length},{size}] parameter(0)
  q = bf16[{length},{size}] parameter(1)
  w = f32[{size},{size}] parameter(2)
  r = bf16[{size},{size}] dot(p, q), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  g = f32[{size},{size}] convert(r)
  ROOT t = f32[{size},{size}] add(g, w)"
        )
    };
    compare(&updated(8192, 768), 39_321_600);
    compare(&updated(8192, 4096), 301_989_888);
}

#[test]
fn products_without_elements_and_of_more_operations_than_64_bits_count_have_a_price() {
    assert!(bytes(&product("", 0, [64, 256], "f32", "f32")) >= 4 * 64 * 256);
    let huge = 1 << 28;
    assert!(bytes(&product("", huge, [huge, huge], "f8e4m3fn", "f8e4m3fn")) >= 3 << 56);
}

/// A sort holds all elements and their positions.
#[test]
fn few_of_many_elements_are_found_by_a_call_and_others_by_a_sort() {
    let all = |element: &str, size: u32, count: u32| {
        bytes(&format!(
            "  p = {element}[16,{size}] parameter(0)
  t = ({element}[16,{count}], s32[16,{count}]) topk(p), k={count}, largest=true
  a = {element}[16,{count}] get-tuple-element(t), index=0
  c = s32[16,{count}] get-tuple-element(t), index=1
  ROOT r = ({element}[16,{count}], s32[16,{count}]) tuple(a, c)"
        )) / u64::from(size * 16)
    };
    assert_eq!([all("f32", 100_000, 16), all("bf16", 100_000, 16)], [4, 2]);
    assert_eq!([all("f32", 100_000, 17), all("bf16", 100_000, 17)], [12, 8]);
    assert_eq!([all("s32", 100_000, 16), all("f32", 1000, 8)], [12, 12]);
}
