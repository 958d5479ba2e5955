//! Scheduled modules of GPUs and TPUs: which target a module shows, what its arrays take, and what is not in main memory.
//!
//! Pins `memory/src/target.rs`, `memory/src/size.rs`.

use hlo_ir::Module;
use hlo_memory::{Bytes, Estimate, Model, Target, estimate, target_of};

fn parse(text: &str) -> Module {
    hlo_ir::text::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn measure(text: &str, target: Target) -> Estimate {
    let module = parse(text);
    assert_eq!(target_of(&module), target);
    estimate(&module, target).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn tpu_arrays_are_padded_and_vector_memory_is_free() {
    let figures = measure(
        "HloModule m, is_scheduled=true

ENTRY e {
  x = f32[1000,37]{0,1:T(8,128)} parameter(0)
  near = f32[1000,37]{0,1:T(8,128)S(1)} sine(x)
  far = f32[1000,37]{1,0:T(8,128)} copy(near)
  ROOT r = f32[1000]{0:T(1024)} custom-call(far), custom_call_target=\"Sum\"
}
",
        Target::Tpu,
    );
    assert_eq!(figures.model, Model::LiveRange);
    assert_eq!(figures.arguments, Bytes(1024 * 40 * 4));
    // Rows of 37 are padded to 128; `near` lies in vector memory and takes nothing.
    assert_eq!(figures.temporaries, Bytes(1000 * 128 * 4));
    assert_eq!(figures.outputs, Bytes(4096));
}

#[test]
fn the_source_of_an_asynchronous_copy_lives_until_it_is_done() {
    let text = |between: &str| {
        format!(
            "HloModule m, is_scheduled=true

ENTRY e {{
  x = f32[8,128]{{1,0:T(8,128)}} parameter(0)
  s = f32[8,128]{{1,0:T(8,128)}} sine(x)
  start = (f32[8,128]{{1,0:T(8,128)S(1)}}, f32[8,128]{{1,0:T(8,128)}}, u32[]{{:S(2)}}) copy-start(s)
{between}  done = f32[8,128]{{1,0:T(8,128)S(1)}} copy-done(start)
  ROOT r = f32[8,128]{{1,0:T(8,128)}} cosine(done)
}}
"
        )
    };
    let quiet = measure(&text(""), Target::Tpu);
    let busy = measure(
        &text("  other = f32[8,128]{1,0:T(8,128)} tanh(x)\n  use = f32[8,128]{1,0:T(8,128)} copy(other)\n"),
        Target::Tpu,
    );
    assert!(busy.peak.bytes > quiet.peak.bytes, "{} and {}", busy.peak.bytes, quiet.peak.bytes);
}

#[test]
fn a_gpu_module_shows_itself_and_its_arrays_are_dense() {
    let figures = measure(
        "HloModule m, is_scheduled=true

ENTRY e {
  x = f32[1000,37]{1,0} parameter(0)
  y = f32[37,1000]{1,0} parameter(1)
  ROOT r = (f32[1000,1000]{1,0}, s8[4096]{0}) custom-call(x, y), custom_call_target=\"__cublas$gemm\"
}
",
        Target::Gpu,
    );
    assert_eq!(figures.model, Model::LiveRange);
    assert_eq!((figures.arguments, figures.floor), (Bytes(296_000), Bytes(296_000 + 4_000_000 + 4096 + 16)));
}

#[test]
fn unscheduled_modules_of_other_targets_have_a_rough_model() {
    let module = parse("HloModule m\n\nENTRY e {\n  ROOT x = f32[8]{0} parameter(0)\n}\n");
    assert_eq!(target_of(&module), Target::Cpu);
    let model = |target| estimate(&module, target).map(|figures| figures.model);
    let models = [Target::Cpu, Target::Gpu, Target::Tpu].map(model);
    assert_eq!(models, [Ok(Model::Predicted), Ok(Model::Rough), Ok(Model::Rough)]);
}

#[test]
fn a_text_that_was_cut_off_is_noticed() {
    let figures = measure(
        "HloModule m, is_scheduled=true

%body (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %a = f32[8]{0} sine(%p)
  %b = f32[8]{0} sine(%a)
  ROOT %c = f32[8]{0} sine(%b)
}

%last (q: f32[]) -> f32[] {
  ROOT %q = f32[] parameter(0)
}
",
        Target::Cpu,
    );
    assert!(figures.caveats.iter().any(|caveat| caveat.contains("1 of 5 instructions")), "{:?}", figures.caveats);
}

#[test]
fn the_start_of_a_slice_reads_its_operand_and_holds_no_copy_of_it() {
    let figures = measure(
        "HloModule m, is_scheduled=true

ENTRY e {
  x = u8[1048576]{0:T(1024)(128)(4,1)} parameter(0)
  start = ((u8[1048576]{0:T(1024)(128)(4,1)}), u8[4096]{0:T(1024)(128)(4,1)}, s32[]{:S(2)}) slice-start(x), slice={[0:4096]}
  done = u8[4096]{0:T(1024)(128)(4,1)} slice-done(start)
  ROOT r = u8[4096]{0:T(1024)(128)(4,1)} custom-call(done), custom_call_target=\"Sum\"
}
",
        Target::Tpu,
    );
    // The slice, and two tables of pointers: the argument itself is not copied.
    assert!(figures.temporaries < Bytes(8192), "{}", figures.temporaries);
    assert!(figures.caveats.is_empty(), "{:?}", figures.caveats);
}

#[test]
fn a_tpu_fusion_writes_over_the_operand_that_its_configuration_names() {
    let text = |config: &str| {
        format!(
            "HloModule m, is_scheduled=true

body {{
  p = f32[1024,1024]{{1,0:T(8,128)}} parameter(0)
  s = f32[1024,1024]{{1,0:T(8,128)}} reverse(p), dimensions={{0}}
  z = f32[] constant(0)
  b = f32[1024]{{0:T(1024)}} broadcast(z), dimensions={{}}
  ROOT t = (f32[1024]{{0:T(1024)}}, f32[1024,1024]{{1,0:T(8,128)}}) tuple(b, s)
}}

ENTRY e {{
  x = f32[1024,1024]{{1,0:T(8,128)}} parameter(0)
  y = f32[1024,1024]{{1,0:T(8,128)}} sine(x)
  f = (f32[1024]{{0:T(1024)}}, f32[1024,1024]{{1,0:T(8,128)}}) fusion(y), kind=kLoop, calls=body{config}
  a = f32[1024]{{0:T(1024)}} get-tuple-element(f), index=0
  c = f32[1024,1024]{{1,0:T(8,128)}} get-tuple-element(f), index=1
  ROOT r = f32[1024]{{0:T(1024)}} custom-call(a, c), custom_call_target=\"Sum\"
}}
"
        )
    };
    let config = ", backend_config={\"aliasing_operands\":{\"lists\":[{\"indices\":[\"0\",\"2\"]}]}}";
    let (apart, over) = (measure(&text(""), Target::Tpu), measure(&text(config), Target::Tpu));
    assert_eq!(apart.temporaries - over.temporaries, Bytes(4 << 20));
}
