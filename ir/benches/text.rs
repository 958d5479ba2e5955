//! Criterion benches of reading, verifying and printing: `cargo bench -p hlo-ir`. Throughput in bytes of text, over a corpus program and
//! over made modules of three sizes, whose throughput must stay level. `tests/referee/speed.py` puts XLA beside this.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hlo_ir::{text, verify};

/// Sizes of the made modules, in layers: about 1, 4 and 16 MB.
const LAYERS: [usize; 3] = [1_000, 4_000, 16_000];

/// A chain of equal layers in the form of XLA's dumps, each with a fused computation and metadata of its own.
fn layers(count: usize) -> String {
    const ROWS: &str = "f32[1024,256]{1,0}";
    let mut fused = String::new();
    let mut entry = format!("ENTRY %main (x: f32[1024,256]) -> f32[1024,256] {{\n  %v.0 = {ROWS} parameter(0)\n");
    for layer in 0..count {
        let metadata =
            |op: &str| format!("metadata={{op_name=\"jit(step)/jvp(Model)/layers_{layer}/{op}\" stack_frame_id=3}}");
        write!(
            fused,
            "%fused.{layer} (p: f32[1024,256]) -> f32[1024,256] {{\n  %p.{layer} = {ROWS} parameter(0)\n  %half.{layer} = f32[] constant(0.5)\n  \
             %halves.{layer} = {ROWS} broadcast(%half.{layer}), dimensions={{}}, {}\n  \
             ROOT %m.{layer} = {ROWS} multiply(%p.{layer}, %halves.{layer}), {}\n}}\n\n",
            metadata("scale/broadcast"),
            metadata("scale/mul"),
        )
        .expect("a string takes everything");
        let next = layer + 1;
        write!(
            entry,
            "  %f.{layer} = {ROWS} fusion(%v.{layer}), kind=kLoop, calls=%fused.{layer}, {}\n  \
             %t.{layer} = {ROWS} tanh(%f.{layer}), {}\n  %v.{next} = {ROWS} add(%v.{layer}, %t.{layer}), {}\n",
            metadata("scale/mul"),
            metadata("tanh"),
            metadata("residual/add"),
        )
        .expect("a string takes everything");
    }
    format!("HloModule layers\n\n{fused}{entry}  ROOT %out = {ROWS} negate(%v.{count})\n}}\n")
}

/// Each text with its name.
fn inputs() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/roll/fires-nested.before.hlo");
    let real = std::fs::read_to_string(path).expect("the corpus lies beside this crate");
    let made = LAYERS.iter().map(|&count| (format!("layers-{count}"), layers(count)));
    [("corpus".to_owned(), real)].into_iter().chain(made).collect()
}

fn benches(criterion: &mut Criterion) {
    for (name, source) in inputs() {
        let module = text::parse(&source).expect("the inputs are HLO");
        let mut group = criterion.benchmark_group("text");
        group.sample_size(10).throughput(Throughput::Bytes(source.len() as u64));
        group.bench_function(BenchmarkId::new("parse", &name), |bench| bench.iter(|| text::parse(black_box(&source))));
        group.bench_function(BenchmarkId::new("verify", &name), |bench| {
            bench.iter(|| verify::verify(black_box(&module)));
        });
        group.bench_function(BenchmarkId::new("print", &name), |bench| bench.iter(|| text::print(black_box(&module))));
        group.finish();
    }
}

criterion_group!(text_benches, benches);
criterion_main!(text_benches);
