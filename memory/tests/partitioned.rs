//! Programs for four devices: what each device needs, against XLA's own report of the same modules.

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

/// A loop outside a manual computation whose state is divided: the model does not guess what the compiler makes of it.
#[test]
fn a_loop_over_divided_arrays_stays_whole_and_says_so() {
    let text = "HloModule m, num_partitions=4

body {
  s = (f32[64]) parameter(0)
  x = f32[64] get-tuple-element(s), index=0
  y = f32[64] sine(x)
  ROOT t = (f32[64]) tuple(y)
}

condition {
  s = (f32[64]) parameter(0)
  ROOT c = pred[] constant(true)
}

ENTRY e {
  p = f32[64] parameter(0), sharding={devices=[4]<=[4]}
  i = (f32[64]) tuple(p)
  w = (f32[64]) while(i), condition=condition, body=body
  ROOT r = f32[64] get-tuple-element(w), index=0
}
";
    let module = hlo_ir::text::parse(text).expect("the module is HLO");
    let figures = estimate(&module, Target::Cpu).expect("every size fits 64 bits");
    assert!(figures.caveats.iter().any(|caveat| caveat.contains("not modelled")), "{:?}", figures.caveats);
}
