//! The rough model of other compilers on programs of one kind each; the bytes are those that XLA:GPU (H100) and XLA:TPU (v5e) report.
//!
//! Pins `memory/src/cpu/copy_fusion.rs`, `memory/src/cpu/h100.rs`, `memory/src/cpu/host_memory.rs`, `memory/src/cpu/fusion/device.rs`, `memory/src/cpu/fusion/gemm.rs`, `memory/src/cpu/fusion/repeated.rs`,
//! `memory/src/cpu/fusion/multi_output/mod.rs`, `memory/src/cpu/fusion/multi_output/order.rs`, `memory/src/cpu/fusion/priority/cycles.rs`, `memory/src/cpu/fusion/priority/facts.rs`,
//! `memory/src/cpu/fusion/priority/kernel.rs`, `memory/src/cpu/fusion/priority/mod.rs`, `memory/src/cpu/fusion/priority/places.rs`,
//! `memory/src/cpu/fusion/priority/price.rs`, `memory/src/cpu/fusion/priority/reduction.rs`,
//! `memory/src/cpu/fusion/priority/rules.rs`, `memory/src/cpu/tiles/mod.rs`.

use hlo_memory::{Bytes, Estimate, Model, Stored, Target, estimate, estimate_and};

const ADD: &str = "%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
";

const GE: &str = "%ge (a: f32[], b: f32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = pred[] compare(%a, %b), direction=GE
}
";

const PRODUCT: &str = "%product (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] multiply(%a, %b)
}
";

const MIB: u64 = 1 << 20;

/// A module whose entry computation has these lines.
pub(crate) fn text_of(lines: &str) -> String {
    format!("HloModule m\n\n{ADD}\n{GE}\n{PRODUCT}\nENTRY %main {{\n{lines}\n}}\n")
}

/// The estimate of an entry computation with these lines.
fn found(lines: &str, target: Target) -> Estimate {
    let text = text_of(lines);
    let module = hlo_ir::text::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    let found = estimate(&module, target).expect("the model knows all of it");
    assert_eq!(found.model, if target == Target::Cpu { Model::Predicted } else { Model::Rough });
    assert_eq!(found.floor, found.arguments + found.outputs - found.aliased);
    found
}

/// By XLA:GPU 772 MiB: three loops write over zeros of 256 MiB, of which a kernel makes three at once. In the order of least memory each is copied when its
/// loop begins, and two stand at a time.
#[test]
fn equal_zeros_of_several_loops_are_made_at_once_on_gpu() {
    let module = hlo_ir::text::parse(include_str!("device_programs/equal_zeros.hlo")).expect("it parses");
    let found = estimate(&module, Target::Gpu).expect("the model knows all of it");
    assert_eq!(found.temporaries.get() / MIB, 772);
}

/// By XLA:GPU 128 MiB, by XLA:TPU 98: three rows come back at once, as soon as their step begins, and the stacks that they are of stand on the host.
#[test]
fn rows_of_stacks_on_the_host_stand_on_the_device_while_they_are_copied() {
    let module = hlo_ir::text::parse(include_str!("device_programs/host_rows.hlo")).expect("it parses");
    let [gpu, tpu, cpu] = [Target::Gpu, Target::Tpu, Target::Cpu]
        .map(|target| estimate(&module, target).expect("the model knows all of it"));
    let figures = [&gpu, &tpu].map(|found| (found.temporaries.get() / MIB, found.host.get() / MIB));
    assert_eq!(figures, [(128, 6144), (96, 6144)]);
    // By XLA:CPU, whose memory is the host's; to the byte what it needs without the moves.
    assert_eq!((cpu.total, cpu.host), (Bytes(6_589_251_756), Bytes(0)));
}

/// XLA takes a `MoveToDevice` of what does not stand on the host for nothing.
#[test]
fn values_on_the_host_come_back_and_others_stay_where_they_are() {
    let found = |from: &str| {
        let lines = format!(
            "  %x = f32[64,262144] parameter(0)
  %e = f32[64,262144] exponential(%x)
  %h = f32[64,262144] custom-call(%e), custom_call_target=\"MoveToHost\"
  %d = f32[64,262144] custom-call({from}), custom_call_target=\"MoveToDevice\"
  ROOT %r = f32[64,262144] sort(%d), dimensions={{0}}, is_stable=true, to_apply=%ge"
        );
        found(&lines, Target::Gpu)
    };
    let (there, here) = (found("%h"), found("%e"));
    assert_eq!([there.host, here.host].map(|bytes| bytes.get() / MIB), [64, 0]);
}

/// Temporaries in MiB.
pub(crate) fn temporaries(lines: &str, target: Target) -> u64 {
    found(lines, target).temporaries.get() / MIB
}

/// Wraps negative indices of 2^24 rows in three columns; what is scattered are `%u`.
fn scatter(updates: &str) -> String {
    let column = |k: i32| {
        format!(
            "  %s{k} = s32[16777216,1]{{1,0}} slice(%i), slice={{[0:16777216], [{k}:{}]}}
  %l{k} = pred[16777216,1]{{1,0}} compare(%s{k}, %zeros), direction=LT
  %m{k} = s32[16777216,1]{{1,0}} add(%s{k}, %sizes)
  %c{k} = s32[16777216,1]{{1,0}} select(%l{k}, %m{k}, %s{k})",
            k + 1
        )
    };
    let dims =
        "update_window_dims={}, inserted_window_dims={0,1,2}, scatter_dims_to_operand_dims={0,1,2}, index_vector_dim=1";
    format!(
        "  %x = f32[128,128,128]{{2,1,0}} parameter(0)
  %i = s32[16777216,3]{{1,0}} parameter(1)
  %none = s32[] constant(0)
  %zeros = s32[16777216,1]{{1,0}} broadcast(%none), dimensions={{}}
  %size = s32[] constant(128)
  %sizes = s32[16777216,1]{{1,0}} broadcast(%size), dimensions={{}}
{}
{}
{}
  %index = s32[16777216,3]{{1,0}} concatenate(%c0, %c1, %c2), dimensions={{1}}
  %zero = f32[] constant(0)
  %start = f32[128,128,128]{{2,1,0}} broadcast(%zero), dimensions={{}}
{updates}
  ROOT %y = f32[128,128,128]{{2,1,0}} scatter(%start, %index, %u), {dims}, to_apply=%add",
        column(0),
        column(1),
        column(2)
    )
}

#[test]
fn index_code_is_part_of_the_scatter_on_gpu_only() {
    let constant = scatter("  %u = f32[16777216]{0} broadcast(%zero), dimensions={}");
    assert_eq!(temporaries(&constant, Target::Gpu), 0, "XLA:GPU says 0");
    assert_eq!(temporaries(&constant, Target::Cpu), 256, "XLA:CPU says 256");
    assert!(temporaries(&constant, Target::Tpu) >= 192, "XLA:TPU says 192");
}

#[test]
fn columns_with_two_readers_are_joined_once() {
    let read = "  %g = f32[16777216]{0} gather(%x, %index), offset_dims={}, collapsed_slice_dims={0,1,2}, start_index_map={0,1,2}, \
                index_vector_dim=1, slice_sizes={1,1,1}\n  %u = f32[16777216]{0} cosine(%g)";
    assert_eq!(temporaries(&scatter(read), Target::Gpu), 192, "XLA:GPU says 192");
}

#[test]
fn products_widen_their_operands_but_do_not_make_one_hot_rows() {
    let widened = "  %x = f32[1024,4096]{1,0} parameter(0)
  %w = bf16[4096,4096]{1,0} parameter(1)
  %f = f32[4096,4096]{1,0} convert(%w)
  ROOT %y = f32[1024,4096]{1,0} dot(%x, %f), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_eq!(temporaries(widened, Target::Gpu), 0);
    let narrowed = "  %x = f32[1024,4096]{1,0} parameter(0)
  %w = bf16[4096,1024]{1,0} parameter(1)
  %e = f32[1024,4096]{1,0} exponential(%x)
  %n = bf16[1024,4096]{1,0} convert(%e)
  ROOT %y = bf16[1024,1024]{1,0} dot(%n, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_eq!(
        temporaries(narrowed, Target::Gpu),
        16,
        "8 of what is narrowed, in 16 bits, and 8 of products that are summed up"
    );
    let one_hot = "  %t = s32[65536]{0} parameter(0)
  %w = f32[4096,64]{1,0} parameter(1)
  %tt = s32[65536,4096]{1,0} broadcast(%t), dimensions={0}
  %n = s32[65536,4096]{1,0} iota(), iota_dimension=1
  %p = pred[65536,4096]{1,0} compare(%tt, %n), direction=EQ
  %f = f32[65536,4096]{1,0} convert(%p)
  ROOT %y = f32[65536,64]{1,0} dot(%f, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_eq!(temporaries(one_hot, Target::Gpu), 1024);
    assert_eq!(temporaries(one_hot, Target::Tpu), 0, "a TPU makes them in the same kernel");
}

#[test]
fn arrays_of_a_tpu_are_padded() {
    let text = "HloModule m\n\nENTRY e {\n  p = s32[1048576,3]{1,0} parameter(0)\n  ROOT n = s32[1048576,3]{1,0} negate(p)\n}\n";
    let module = hlo_ir::text::parse(text).expect("it is legal");
    let found = estimate(&module, Target::Tpu).expect("it is known");
    assert_eq!((found.arguments, found.outputs), (Bytes(16 * MIB), Bytes(16 * MIB)));
    assert_eq!(estimate(&module, Target::Gpu).expect("it is known").arguments, Bytes(12 * MIB));
}

#[test]
fn a_tpu_writes_products_where_they_are_joined() {
    let product = |k: u32| {
        format!(
            "  %d{k} = f32[2048,2048]{{1,0}} dot(%x, %y{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %r{k} = f32[1,2048,2048]{{2,1,0}} reshape(%d{k})"
        )
    };
    let lines = format!(
        "  %x = f32[2048,2048]{{1,0}} parameter(0)
  %y0 = f32[2048,2048]{{1,0}} parameter(1)
  %y1 = f32[2048,2048]{{1,0}} parameter(2)
{}
{}
  ROOT %s = f32[2,2048,2048]{{2,1,0}} concatenate(%r0, %r1), dimensions={{0}}",
        product(0),
        product(1)
    );
    assert_eq!([Target::Tpu, Target::Gpu].map(|target| temporaries(&lines, target)), [0, 32]);
}

/// Two convolutions are multiplied, and a third is combined with that by `op`; both halves of the result go to others.
fn convolutions(op: &str) -> String {
    let forward = |window: &str| format!("window={{{window}}}, dim_labels=b01f_01io->b01f");
    let (one, three, five) = (forward("size=1x1"), forward("size=3x3 pad=1_1x1_1"), forward("size=5x5 pad=2_2x2_2"));
    let half = |from: u32, to: u32| format!("slice(%s), slice={{[0:16], [0:64], [0:64], [{from}:{to}]}}");
    let (a, b) = (half(0, 16), half(16, 32));
    format!(
        "  %x = f32[16,64,64,32]{{3,2,1,0}} parameter(0)
  %k0 = f32[1,1,32,32]{{3,2,1,0}} parameter(1)
  %k1 = f32[3,3,32,32]{{3,2,1,0}} parameter(2)
  %k2 = f32[5,5,32,32]{{3,2,1,0}} parameter(3)
  %ka = f32[3,3,16,16]{{3,2,1,0}} parameter(4)
  %kb = f32[5,5,16,16]{{3,2,1,0}} parameter(5)
  %p = f32[16,64,64,32]{{3,2,1,0}} convolution(%x, %k1), {three}
  %q = f32[16,64,64,32]{{3,2,1,0}} convolution(%x, %k2), {five}
  %z = f32[16,64,64,32]{{3,2,1,0}} multiply(%p, %q)
  %c = f32[16,64,64,32]{{3,2,1,0}} convolution(%x, %k0), {one}
  %s = f32[16,64,64,32]{{3,2,1,0}} {op}(%c, %z)
  %a = f32[16,64,64,16]{{3,2,1,0}} {a}
  %b = f32[16,64,64,16]{{3,2,1,0}} {b}
  %ca = f32[16,64,64,16]{{3,2,1,0}} convolution(%a, %ka), {three}
  %da = f32[16,64,64,16]{{3,2,1,0}} multiply(%ca, %b)
  ROOT %r = f32[16,64,64,16]{{3,2,1,0}} convolution(%da, %kb), {five}"
    )
}

#[test]
fn convolutions_add_on_gpu_and_nothing_is_written_over_their_results() {
    assert_eq!(temporaries(&convolutions("add"), Target::Gpu), 24);
    assert_eq!(temporaries(&convolutions("subtract"), Target::Gpu), 32, "only sums are part of a convolution");
}

#[test]
fn a_forward_convolution_adds_a_number_to_each_feature_and_one_array() {
    const ARRAY: &str = "f32[16,64,64,32]{3,2,1,0}";
    let with = |line: &str, lines: String| {
        let program = convolutions("add");
        let old = program.lines().find(|old| old.starts_with(line)).expect("the line is there");
        temporaries(&program.replace(old, &lines), Target::Gpu)
    };
    let sums = |first: &str| format!("{first}\n  %t = {ARRAY} add(%c, %n)\n  %s = {ARRAY} add(%t, %z)");
    let numbers = format!("  %f = f32[32]{{0}} parameter(6)\n  %n = {ARRAY} broadcast(%f), dimensions={{3}}");
    assert_eq!(with("  %s =", sums(&numbers)), 24);
    assert_eq!(
        with("  %s =", sums(&format!("  %n = {ARRAY} parameter(6)"))),
        32,
        "the second array is added elsewhere"
    );
    let gradient = format!(
        "  %back = f32[3,3,32,32]{{3,2,1,0}} reverse(%k1), dimensions={{0,1}}
  %c = {ARRAY} convolution(%x, %back), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01oi->b01f"
    );
    assert_eq!(with("  %c =", gradient), 32, "gradients add nothing");
}

#[test]
fn a_gradient_reads_the_kernel_of_the_forward_convolution() {
    let lines = "  %x = f32[8,32,32,512]{3,2,1,0} parameter(0)
  %k = f32[3,3,512,512]{3,2,1,0} parameter(1)
  %y = f32[8,32,32,512]{3,2,1,0} convolution(%x, %k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  %yy = f32[8,32,32,512]{3,2,1,0} convolution(%y, %k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  %t = f32[8,32,32,512]{3,2,1,0} multiply(%y, %yy)
  %back = f32[3,3,512,512]{3,2,1,0} reverse(%k), dimensions={0,1}
  ROOT %d = f32[8,32,32,512]{3,2,1,0} convolution(%t, %back), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01oi->b01f";
    assert_eq!(
        temporaries(lines, Target::Gpu),
        16 + 16 + 9,
        "the kernel with its output features first waits for the gradient"
    );
}

/// A strided convolution of 16 MiB and the gradient for its kernel, whose windows pad by `forward` and `gradient`.
fn strided(forward: &str, gradient: &str) -> String {
    format!(
        "  %x = f32[16,64,64,64]{{3,2,1,0}} parameter(0)
  %k = f32[3,3,64,64]{{3,2,1,0}} parameter(1)
  %s = f32[16,64,64,64]{{3,2,1,0}} cosine(%x)
  %y = f32[16,32,32,64]{{3,2,1,0}} convolution(%s, %k), window={{size=3x3 stride=2x2 pad={forward}}}, dim_labels=b01f_01io->b01f
  %g = f32[16,32,32,64]{{3,2,1,0}} multiply(%y, %y)
  ROOT %d = f32[3,3,64,64]{{3,2,1,0}} convolution(%s, %g), window={{size=32x32 pad={gradient} rhs_dilate=2x2}}, dim_labels=f01b_i01o->01bf"
    )
}

#[test]
fn uneven_padding_stands_in_memory_on_gpu() {
    assert_eq!(temporaries(&strided("1_1x1_1", "1_0x1_0"), Target::Gpu), 24);
    // Half a MiB more, once for both.
    let uneven = strided("0_1x0_1", "0_1x0_1");
    assert!(
        found(&uneven, Target::Gpu).temporaries.get() > 24 * MIB + MIB / 2
            && found(&uneven, Target::Gpu).temporaries.get() < 25 * MIB,
        "XLA:GPU says 24.5"
    );
    let input = "  %g = f32[16,32,32,64]{3,2,1,0} parameter(0)
  %k = f32[3,3,64,64]{3,2,1,0} parameter(1)
  %x = f32[16,64,64,64]{3,2,1,0} parameter(2)
  %back = f32[3,3,64,64]{3,2,1,0} reverse(%k), dimensions={0,1}
  %d = f32[16,64,64,64]{3,2,1,0} convolution(%g, %back), window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2}, dim_labels=b01f_01oi->b01f
  ROOT %r = f32[16,64,64,64]{3,2,1,0} multiply(%d, %x)";
    assert!(
        found(input, Target::Gpu).temporaries.get() > 16 * MIB + MIB / 2
            && found(input, Target::Gpu).temporaries.get() < 17 * MIB,
        "XLA:GPU says 16.5"
    );
}

#[test]
fn dilated_inputs_stand_in_memory_on_gpu() {
    let transposed = "  %x = f32[16,32,32,64]{3,2,1,0} parameter(0)
  %k = f32[3,3,64,64]{3,2,1,0} parameter(1)
  %s = f32[16,32,32,64]{3,2,1,0} cosine(%x)
  ROOT %y = f32[16,64,64,64]{3,2,1,0} convolution(%s, %k), window={size=3x3 pad=2_1x2_1 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f";
    assert_eq!(temporaries(transposed, Target::Gpu), 17, "four times 4 MiB, and padding");
    let kernel = "  %x = f32[16,32,32,64]{3,2,1,0} parameter(0)
  %g = f32[16,64,64,64]{3,2,1,0} parameter(1)
  %s = f32[16,32,32,64]{3,2,1,0} cosine(%x)
  ROOT %d = f32[3,3,64,64]{3,2,1,0} convolution(%s, %g), window={size=64x64 pad=2_1x2_1 lhs_dilate=2x2}, dim_labels=f01b_i01o->01bf";
    assert_eq!(temporaries(kernel, Target::Gpu), 31, "the gradient is transposed; XLA:GPU says 32.2");
}

#[test]
fn positions_of_a_pool_are_not_written_on_gpu() {
    let pool = "  %x = f32[16,112,112,32]{3,2,1,0} parameter(0)
  %g = f32[16,56,56,32]{3,2,1,0} parameter(1)
  %zero = f32[] constant(0)
  ROOT %d = f32[16,112,112,32]{3,2,1,0} select-and-scatter(%x, %g, %zero), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, select=%ge, scatter=%add";
    assert_eq!(temporaries(pool, Target::Gpu), 30, "XLA:GPU says 30.6: the largest of each window, and where they are");
}

/// Sums of columns of running sums of eight arrays.
fn running_sums() -> String {
    let mut lines: Vec<String> = (0..8).map(|k| format!("  %c{k} = f32[16384,1024]{{1,0}} parameter({k})")).collect();
    lines.push("  %zero = f32[] constant(0)\n  %x0 = f32[16384,1024]{1,0} sine(%c0)".to_owned());
    for k in 1..8 {
        let before = k - 1;
        lines.push(format!(
            "  %x{k} = f32[16384,1024]{{1,0}} add(%x{before}, %c{k})
  %v{k} = f32[16384,1024]{{1,0}} sine(%x{k})
  %y{k} = f32[1024]{{0}} reduce(%v{k}, %zero), dimensions={{0}}, to_apply=%add"
        ));
    }
    let (shapes, sums): (Vec<_>, Vec<_>) = (1..8).map(|k| ("f32[1024]{0}", format!("%y{k}"))).unzip();
    lines.push(format!("  ROOT %o = ({}) tuple({})", shapes.join(", "), sums.join(", ")));
    lines.join("\n")
}

#[test]
fn a_sum_that_many_kernels_would_make_from_much_is_stored_on_gpu() {
    assert_eq!(temporaries(&running_sums(), Target::Gpu), 64, "one of the sums; XLA:GPU says 65");
    assert_eq!(temporaries(&running_sums(), Target::Cpu), 448, "XLA:CPU stores all seven");
}

/// XLA:CPU splits long products into windows, of which it holds 512 MiB.
#[test]
fn long_reductions_hold_no_windows_on_devices() {
    let lines = "  %x = f32[4096,1024]{1,0} parameter(0)
  %y = f32[4096,1024]{1,0} parameter(1)
  %xs = f32[4096,1024,1024]{2,1,0} broadcast(%x), dimensions={0,1}
  %ys = f32[4096,1024,1024]{2,1,0} broadcast(%y), dimensions={0,2}
  %p = f32[4096,1024,1024]{2,1,0} multiply(%xs, %ys)
  %e = f32[4096,1024,1024]{2,1,0} sine(%p)
  %one = f32[] constant(1)
  ROOT %o = f32[1024,1024]{1,0} reduce(%e, %one), dimensions={0}, to_apply=%product";
    assert!(temporaries(lines, Target::Cpu) >= 512);
    assert_eq!(temporaries(lines, Target::Gpu), 0, "XLA:GPU says 0");
    assert_eq!(temporaries(lines, Target::Tpu), 0, "XLA:TPU says 0");
}

#[test]
fn kernels_of_a_gpu_pad_as_often_as_they_read() {
    let text = "  %a = f32[8192,4096]{1,0} parameter(0)
  %b = f32[8192,4096]{1,0} parameter(1)
  %zero = f32[] constant(0)
  %p = f32[8192,8192]{1,0} pad(%a, %zero), padding=0_0x0_1_1
  %q = f32[8192,8192]{1,0} pad(%b, %zero), padding=0_0x1_0_1
  %s = f32[8192,8192]{1,0} add(%p, %q)
  %m = f32[8192,8192]{1,0} multiply(%p, %q)
  ROOT %y = f32[8192,8192]{1,0} subtract(%s, %m)";
    assert_eq!(temporaries(text, Target::Gpu), 0);
}

#[test]
fn slow_values_are_combined_before_a_gpu_repeats_them() {
    let module = hlo_ir::text::parse(include_str!("tpu/slow_value_repeated.hlo")).expect("it is legal");
    let found = estimate(&module, Target::Gpu).expect("it is known");
    assert_eq!(found.temporaries, Bytes(256 * MIB), "not an exponential and a tangent");
}

/// Two products, and the gradient of a `relu` between them.
const MASKED: &str = "  %x = f32[65536,64] parameter(0)
  %w = f32[64,64] parameter(1)
  %v = f32[64,64] parameter(2)
  %zero = f32[] constant(0)
  %zeros = f32[65536,64] broadcast(%zero), dimensions={}
  %h = f32[65536,64] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %k = f32[65536,64] dot(%x, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %p = pred[65536,64] compare(%h, %zeros), direction=GT
  %g = f32[65536,64] select(%p, %k, %zeros)
  %s = f32[64] reduce(%g, %zero), dimensions={0}, to_apply=%add
  %m = f32[65536,64] multiply(%g, %h)
  %u = f32[64] reduce(%m, %zero), dimensions={0}, to_apply=%add
  %r = f32[64,64] dot(%g, %x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT %all = (f32[64], f32[64], f32[64,64]) tuple(%s, %u, %r)";

/// Which of these values XLA:GPU writes to memory.
pub(crate) fn stored<const N: usize>(text: &str, names: [&str; N]) -> [bool; N] {
    let module = hlo_ir::text::parse(text).expect("it is legal");
    let mut stored = Stored::new(false);
    estimate_and(&module, Target::Gpu, &mut |compiled, _| stored = compiled.stored()).expect("it is modelled");
    names.map(|name| module.live_instructions().any(|(id, inst)| inst.name == name && stored[id]))
}

/// An update in place makes the array that it goes into where that is elementwise work, as XLA:GPU has it.
#[test]
fn arrays_updated_in_place_are_made_by_the_update_if_element_by_element() {
    let lines = "  p = f32[64,1024,1024] parameter(0)
  i = s32[] parameter(1)
  row = f32[1,1024,1024] parameter(2)
  z = s32[] constant(0)
  b = f32[64,1024,1024] tanh(p)
  ROOT o = f32[64,1024,1024] dynamic-update-slice(b, row, i, z, z)";
    assert_eq!(stored(&text_of(lines), ["b"]), [false]);
}

/// By XLA:GPU 136 MiB: a slice of a cache is written before a row of it is updated, and the update stands in its place.
#[test]
fn slices_updated_in_place_are_made_by_kernels_of_their_own() {
    let lines = "  p = bf16[8,16,512,4,128] parameter(0)
  i = s32[] parameter(1)
  row = bf16[16,1,4,128] parameter(2)
  q = bf16[16,4,128] parameter(3)
  n = s32[] parameter(4)
  z = s32[] constant(0)
  c = bf16[1,16,512,4,128] dynamic-slice(p, i, z, z, z, z), dynamic_slice_sizes={1,16,512,4,128}
  r = bf16[16,512,4,128] reshape(c)
  d = bf16[16,512,4,128] dynamic-update-slice(r, row, z, n, z, z)
  s = f32[16,4,512] dot(q, d), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={2}, rhs_contracting_dims={3}
  u = bf16[1,16,512,4,128] reshape(d)
  o = bf16[8,16,512,4,128] dynamic-update-slice(p, u, i, z, z, z, z)
  ROOT both = (bf16[8,16,512,4,128], f32[16,4,512]) tuple(o, s)";
    assert_eq!(found(lines, Target::Gpu).total.get() / MIB, 136);
}

/// By XLA:GPU 256 MiB behind a product, whose readers it leaves apart, and 384 behind anything else: there one kernel makes both values at once.
#[test]
fn readers_of_a_product_are_not_merged_on_gpu() {
    let read = |made: &str| {
        let lines = format!(
            "  x = f32[4096,512] parameter(0)
  w = f32[512,8192] parameter(1)
  y = f32[4096,8192] parameter(2)
  z = f32[4096,8192] parameter(3)
{made}
  none = f32[] constant(0)
  t = f32[4096,8192] tanh(d)
  p = f32[4096,8192] add(t, y)
  u = f32[4096,8192] sine(d)
  q = f32[4096,8192] multiply(u, z)
  e = f32[4096,8192] sort(p), dimensions={{1}}, to_apply=%ge
  f = f32[4096,8192] sort(q), dimensions={{0}}, to_apply=%ge
  r = f32[8192] reduce(e, none), dimensions={{0}}, to_apply=%add
  s = f32[8192] reduce(f, none), dimensions={{0}}, to_apply=%add
  ROOT both = (f32[8192], f32[8192]) tuple(r, s)"
        );
        temporaries(&lines, Target::Gpu)
    };
    let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_eq!(read(&format!("  d = f32[4096,8192] dot(x, w), {dims}")), 256);
    assert_eq!(read(&format!("  v = f32[4096,512] negate(x)\n  d = f32[4096,8192] dot(v, w), {dims}")), 256);
    assert_eq!(read("  d = f32[4096,8192] sort(y), dimensions={0}, to_apply=%ge"), 384);
}

/// XLA:GPU keeps the gradient behind a `relu` and the two products, 48 MiB, and no mask: making the mask where it is read saves more than making the gradient there.
#[test]
fn of_a_mask_and_a_gradient_the_gradient_is_stored_on_gpu() {
    assert_eq!(temporaries(MASKED, Target::Gpu), 48);
    assert_eq!(stored(&text_of(MASKED), ["h", "k", "g", "p", "m"]), [true, true, true, false, false]);
}

/// Scores of 8192 words, scaled and joined with `other`, which are a result in `bf16`.
fn scores(other: &str) -> String {
    format!(
        "  %x = bf16[8192,512] parameter(0)
  %y = bf16[512,8192] parameter(1)
  %m = pred[8192,8192] parameter(2)
  %w = f32[8192,8192] parameter(3)
  %s = f32[8192,8192] dot(%x, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %half = f32[] constant(0.5)
  %halves = f32[8192,8192] broadcast(%half), dimensions={{}}
  %scaled = f32[8192,8192] multiply(%s, %halves)
  %low = f32[] constant(-1e30)
  %lows = f32[8192,8192] broadcast(%low), dimensions={{}}
  %sine = f32[8192,8192] sine(%w)
  %joined = f32[8192,8192] {other}
  %n = bf16[8192,8192] convert(%joined)
  %z = bf16[8192,512] dot(%n, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT %o = (bf16[8192,512], bf16[8192,8192]) tuple(%z, %n)"
    )
}

#[test]
fn a_product_of_a_gpu_goes_on_with_numbers_and_parameters() {
    assert_eq!(temporaries(&scores("select(%m, %scaled, %lows)"), Target::Gpu), 0);
    assert_eq!(
        temporaries(&scores("add(%scaled, %sine)"), Target::Gpu),
        256,
        "what is computed elsewhere is read behind it"
    );
}

/// A product of what `lines` make of two parameters, `%t`.
fn made_for_a_product(lines: &str, element: &str) -> String {
    format!(
        "  %x = f32[65536,256] parameter(0)
  %y = f32[65536,256] parameter(1)
  %w = {element}[256,16] parameter(2)
{lines}
  ROOT %z = f32[65536,16] dot(%t, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    )
}

#[test]
fn a_product_of_a_gpu_makes_its_operands_where_that_reads_no_more() {
    let made = |lines: &str, element: &str| temporaries(&made_for_a_product(lines, element), Target::Gpu);
    let sum = "  %s = f32[65536,256] add(%x, %y)\n  %t = f32[65536,256] tanh(%s)";
    assert_eq!(made(sum, "f32"), 0, "parameters that nothing else reads");
    let computed = "  %s = f32[65536,256] tanh(%x)\n  %t = f32[65536,256] add(%s, %y)";
    assert_eq!(made(computed, "f32"), 64, "two arrays for one");
    let narrow = "  %s = f32[65536,256] tanh(%x)\n  %t = bf16[65536,256] convert(%s)";
    assert_eq!(made(narrow, "bf16"), 32, "twice the bytes");
}

#[test]
fn a_product_of_a_gpu_joins_columns_in_pieces_of_64() {
    let joined = |columns: u32| {
        let lines = format!(
            "  %x = f32[65536,{columns}] parameter(0)
  %y = f32[65536,{columns}] parameter(1)
  %g = f32[65536,64] parameter(2)
  %s = f32[65536,{both}] concatenate(%x, %y), dimensions={{1}}
  ROOT %v = f32[{both},64] dot(%s, %g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
            both = 2 * columns
        );
        temporaries(&lines, Target::Gpu)
    };
    assert_eq!([joined(128), joined(40)], [8, 22], "of these 8 and 2.5 of products of parts of the rows");
}

/// The product of a number and its `tanh` as `bf16`, and the slope of that behind two products. XLA:GPU computes `tanh` in `f32`, which takes too long to do it twice.
#[test]
fn what_takes_long_in_a_wider_type_is_stored_on_gpu() {
    let lines = "  %h = bf16[32768,3072] parameter(0)
  %w = bf16[3072,64] parameter(1)
  %one = bf16[] constant(1)
  %ones = bf16[32768,3072] broadcast(%one), dimensions={}
  %t = bf16[32768,3072] tanh(%h)
  %up = bf16[32768,3072] add(%t, %ones)
  %y = bf16[32768,3072] multiply(%h, %up)
  %o = bf16[32768,64] dot(%y, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %g = bf16[32768,3072] dot(%o, %w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %down = bf16[32768,3072] subtract(%ones, %t)
  ROOT %d = bf16[32768,3072] multiply(%g, %down)";
    assert_eq!(temporaries(lines, Target::Gpu), 196, "XLA:GPU says 196");
    let short = lines.replacen("tanh", "negate", 1);
    assert_eq!(temporaries(&short, Target::Gpu), 4, "XLA:GPU says 4");
}
