//! Programs for four devices: what each device needs, against XLA's own report of the same modules.
//!
//! Pins `memory/src/cpu/front/spmd/mod.rs`, `memory/src/cpu/combine.rs`.

use std::path::Path;

use hlo_memory::{Model, Target, estimate};

/// Module and XLA's total for one device.
const PROGRAMS: &[(&str, u64)] = &[
    ("allgather", 12_288),
    ("alltoall", 7_744),
    ("axisidx", 4_100),
    ("dp_grad", 8_204),
    ("ppermute", 4_096),
    ("psum", 6_156),
    ("ring", 11_344),
    ("rscatter", 6_700),
    ("two_dots", 8_704),
];

/// Modules whose shardings the compiler chooses, and the total of XLA's `memory_analysis`, which leaves out what reducers need for
/// themselves. Names with `gspmd` are modules without Shardy.
const CHOSEN: &[(&str, u64)] = &[
    ("several_results", 4_368),
    ("several_results_gspmd", 4_368),
    ("nested_call", 4_096),
    ("loop", 10_308),
    ("branch", 2_252),
    ("zero", 39_088),
    ("argmax_rows", 2_192),
    ("argmax_columns", 3_408),
    ("running_sum", 6_336),
    ("cut_table", 6_208),
    ("cut_table_grad", 8_320),
    ("split_rows", 4_096),
    ("merged_rows", 4_352),
    ("positions", 4_100),
    ("constraint", 10_496),
    ("two_axes", 20_480),
    ("two_axes_gspmd", 20_480),
    ("shard_map_gspmd", 7_168),
    ("first_element", 6_224),
];

/// Bytes that reducers and tables of positions need, at most, in these modules.
const APART: u64 = 128;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/partitioned").join(format!("{name}.hlo"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn one_device_is_predicted_to_the_byte() {
    for &(name, total) in PROGRAMS {
        let module = hlo_ir::text::parse(&read(name)).expect("the module is HLO");
        let figures = estimate(&module, Target::Cpu).expect("every size fits 64 bits");
        assert_eq!((figures.model, figures.total.get()), (Model::Predicted, total), "{name}");
        assert!(figures.caveats.iter().any(|caveat| caveat.contains("one of them")), "{name}: {:?}", figures.caveats);
    }
}

#[test]
fn shardings_that_the_compiler_chooses_are_predicted() {
    for &(name, total) in CHOSEN {
        let module = hlo_ir::text::parse(&read(name)).expect("the module is HLO");
        let figures = estimate(&module, Target::Cpu).expect("every size fits 64 bits");
        assert!(figures.caveats.iter().any(|caveat| caveat.contains("one of them")), "{name}: {:?}", figures.caveats);
        let found = figures.total.get();
        assert!(found.abs_diff(total) <= APART, "{name}: {found} for {total}");
    }
}

/// The figures of a program over four devices whose entry computation has these lines.
fn over_four(lines: &str) -> (u64, Vec<String>) {
    let text = format!(
        "HloModule m, num_partitions=4

body {{
  s = (f32[4096,64]) parameter(0)
  x = f32[4096,64] get-tuple-element(s), index=0
  y = f32[4096,64] sine(x)
  ROOT t = (f32[4096,64]) tuple(y)
}}

condition {{
  s = (f32[4096,64]) parameter(0)
  ROOT c = pred[] constant(true)
}}

ENTRY e {{
  p = f32[4096,64] parameter(0), sharding={{devices=[4,1]<=[4]}}
{lines}
}}
"
    );
    let module = hlo_ir::text::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    let figures = estimate(&module, Target::Cpu).expect("every size fits 64 bits");
    (figures.total.get(), figures.caveats)
}

#[test]
fn a_loop_over_divided_arrays_is_divided() {
    let (total, caveats) = over_four(
        "  i = (f32[4096,64]) tuple(p)
  w = (f32[4096,64]) while(i), condition=condition, body=body
  ROOT r = f32[4096,64] get-tuple-element(w), index=0",
    );
    assert!(caveats.iter().any(|caveat| caveat.contains("one of them")), "{caveats:?}");
    assert!((2 * 262_144..3 * 262_144).contains(&total), "a quarter of each array: {total}");
}

/// Neighbours would send each other rows, which the model does not know: it does not guess.
#[test]
fn rows_that_neighbours_need_stay_whole_and_say_so() {
    let unknown = [
        "  ROOT r = f32[4095,64] slice(p), slice={[1:4096], [0:64]}",
        "  ROOT r = f32[8192,64] concatenate(p, p), dimensions={0}",
        "  z = f32[] constant(0)\n  ROOT r = f32[4097,64] pad(p, z), padding=0_1x0_0",
        "  ROOT r = f32[4096,64] reverse(p), dimensions={0}",
    ];
    for lines in unknown {
        let (_, caveats) = over_four(lines);
        assert!(caveats.iter().any(|caveat| caveat.contains("not modelled")), "{lines}: {caveats:?}");
    }
}

/// A module from behind the partitioner is not divided again.
#[test]
fn what_is_divided_already_stays_so() {
    let (total, caveats) = over_four(
        "  g = f32[16384,64] all-gather(p), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  ROOT r = f32[16384,64] sine(g)",
    );
    assert!(caveats.iter().any(|caveat| caveat.contains("one of them")), "{caveats:?}");
    assert!(total >= 4_194_304 + 1_048_576, "the argument as it is written, and all of them: {total}");
}

#[test]
fn images_are_convolved_where_they_lie() {
    let (total, caveats) = over_four(
        "  x = f32[64,8,8,64] reshape(p)
  k = f32[3,3,64,64] parameter(1), sharding={replicated}
  ROOT r = f32[64,8,8,64] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    );
    assert!(caveats.iter().any(|caveat| caveat.contains("one of them")), "{caveats:?}");
    assert!(total < 1_048_576, "two quarters of 1 MiB, the kernel and what the convolution needs: {total}");
}

/// Two sums over the same devices that do not need each other are one, so that neither goes before both are there.
#[test]
fn sums_over_devices_are_combined() {
    let with = |second: &str| {
        let text = format!(
            "HloModule m, num_partitions=1

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

plus {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY e {{
  x = f32[1024] parameter(0)
  s = f32[1024] sine(x)
  r = f32[1024] all-reduce(s), channel_id=1, replica_groups={{{{0,1}}}}, to_apply=add
  c = f32[1024] cosine({second})
  q = f32[1024] all-reduce(c), channel_id=2, replica_groups={{{{0,1}}}}, to_apply=plus
  ROOT t = (f32[1024], f32[1024]) tuple(r, q)
}}
"
        );
        let module = hlo_ir::text::parse(&text).expect("it is HLO");
        let stage = hlo_memory::cpu::run_stage("combine", &module).expect("there is such a stage");
        hlo_ir::text::print(&stage).matches(" all-reduce(").count()
    };
    assert_eq!([with("x"), with("r")], [1, 2], "one needs the other");
}
