//! `chunk`: what the pass does for other compilers than XLA:CPU: which loops are worth it there, and how many iterations they may have.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/devices.rs`, `passes/src/chunk/bf16_accumulator.rs`, `passes/src/objective.rs`.

use hlo_ir::graph::Users;
use hlo_ir::{Module, Opcode};
use hlo_memory::{Bytes, ModelEstimator, Target};
use hlo_passes::chunk::Chunk;
use hlo_passes::manager::{RunReport, default_pipeline, run};
use hlo_passes::{Context, Machine, Objective, Options, Outcome, Pass};

use crate::chunking::{self, find, missed, options, rewrite};
use crate::common::{self, parse};

/// Wraps the negative indices of `rows` updates of a vector; `%u` are the updates.
fn program(rows: u64, updates: &str) -> String {
    program_of(["f32", "add(%a, %b)"], &rows.to_string(), 1, updates)
}

/// The same of numbers of type `t` that are joined by `combine`, with updates in several dimensions.
fn program_of([t, combine]: [&str; 2], rows: &str, dimensions: usize, updates: &str) -> String {
    format!(
        "HloModule m
%add (a: {t}[], b: {t}[]) -> {t}[] {{
  %a = {t}[] parameter(0)
  %b = {t}[] parameter(1)
  ROOT %c = {t}[] {combine}
}}
ENTRY %main {{
  %x = {t}[100000] parameter(0)
  %i = s32[{rows}] parameter(1)
  %none = s32[] constant(0)
  %nones = s32[{rows}] broadcast(%none), dimensions={{}}
  %size = s32[] constant(100000)
  %sizes = s32[{rows}] broadcast(%size), dimensions={{}}
  %l = pred[{rows}] compare(%i, %nones), direction=LT
  %m = s32[{rows}] add(%i, %sizes)
  %c = s32[{rows}] select(%l, %m, %i)
  %index = s32[{rows},1] reshape(%c)
  %one = {t}[] constant(1)
{updates}
  ROOT %y = {t}[100000] scatter(%x, %index, %u), update_window_dims={{}}, inserted_window_dims={{0}}, \
         scatter_dims_to_operand_dims={{0}}, index_vector_dim={dimensions}, to_apply=%add
}}
"
    )
}

/// That many updates, all the same number.
fn constants(rows: &str) -> String {
    format!("  %u = f32[{rows}] broadcast(%one), dimensions={{}}")
}

/// A sorted array has to be in memory whatever reads it.
const SORTED: &str = "  %t = f32[16777216] parameter(2)
  %w = f32[16777216,2] broadcast(%t), dimensions={0}
  %e = f32[16777216,2] sort(%w), dimensions={1}, is_stable=true, to_apply=%less
  %u = f32[16777216] reduce(%e, %one), dimensions={1}, to_apply=%add";

fn optimized(source: &str, target: Target) -> (Module, RunReport) {
    let mut module = parse(source);
    let options = Options { target, ..Options::default() };
    let report =
        run(&mut module, &default_pipeline(), &options, &ModelEstimator { target }).expect("it has an estimate");
    (module, report)
}

fn loops(module: &Module) -> usize {
    module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While).count()
}

#[test]
fn index_arithmetic_alone_is_no_reason_for_a_loop_on_gpu() {
    let source = program(1 << 24, &constants("16777216"));
    let made: Vec<usize> =
        [Target::Cpu, Target::Tpu, Target::Gpu].map(|target| loops(&optimized(&source, target).0)).to_vec();
    assert_eq!(made, [1, 1, 0]);
    let less = "%less (p: f32[], q: f32[]) -> pred[] {
  %p = f32[] parameter(0)
  %q = f32[] parameter(1)
  ROOT %r = pred[] compare(%p, %q), direction=LT
}
ENTRY";
    let (module, report) = optimized(&program(1 << 24, SORTED).replace("ENTRY", less), Target::Gpu);
    assert_eq!(loops(&module), 1, "a sort upstream is one");
    assert!(report.after.total < report.before.total);
}

/// A program of the corpus.
fn corpus(name: &str) -> String {
    let file = format!("{}/../corpus/chunk/{name}.before.hlo", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(file).expect("it is in the corpus")
}

#[test]
fn loops_that_take_a_quarter_longer_on_gpu_are_made_where_memory_is_asked_for() {
    let source = corpus("fires-index-s8");
    let (plain, report) = optimized(&source, Target::Gpu);
    assert_eq!(loops(&plain), 0);
    assert!(report.remarks.iter().any(|remark| remark.code == "slower"), "{:?}", report.remarks);
    let wanted = Options { target: Target::Gpu, objective: Objective::Memory, ..Options::default() };
    let mut module = parse(&source);
    run(&mut module, &default_pipeline(), &wanted, &ModelEstimator { target: Target::Gpu })
        .expect("it has an estimate");
    assert!(loops(&module) > 0);
}

/// By XLA:GPU 24.02 GiB before and 12.02 behind, at two thirds of the time: what is joined is joined in blocks, which make the rows of what they read.
#[test]
fn what_two_scatters_read_is_joined_in_blocks_on_gpu() {
    let (module, report) = optimized(&corpus("fires-two-tables"), Target::Gpu);
    assert!(loops(&module) > 0);
    assert!(report.after.total.get() * 100 < report.before.floor.get() * 101, "{:?}", report.after);
}

#[test]
fn what_does_not_fit_its_device_may_become_slower() {
    let source = corpus("fires-two-tables").replace("1073741824", "8589934592");
    let (module, report) = optimized(&source, Target::Gpu);
    assert!(Machine::of(Target::Gpu).memory.unwrap() < report.before.total);
    assert!(loops(&module) > 0, "{:?}", report.remarks);
}

/// Iterations of the loop that is offered where `--chunk-bytes` asks for the smallest blocks: what the flag is given is what this is about.
fn iterations(source: &str, target: Target) -> i64 {
    let wanted = Options { target, ..options(1) };
    let found = find(&parse(source), &wanted).into_iter().find_map(|finding| match finding.outcome {
        Outcome::Rewrite { note, .. } => note.split(' ').next()?.parse().ok(),
        Outcome::Missed(_) | Outcome::Withheld { .. } => None,
    });
    found.expect("there is a loop")
}

#[test]
fn loops_are_short_where_iterations_cost_compile_time() {
    let source = program(1 << 24, &constants("16777216"));
    let counts = [Target::Cpu, Target::Gpu, Target::Tpu].map(|target| iterations(&source, target));
    assert_eq!(counts, [1 << 16, 1 << 14, 1 << 12], "even if the blocks are larger than asked for");
}

/// Sums of exponentials of the scores of 65,536 words, 8192 times: each block of rows reads all weights again.
const SCORES: &str = "HloModule m
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
ENTRY %main {
  %x = f32[8192,1024] parameter(0)
  %w = f32[1024,65536] parameter(1)
  %s = f32[8192,65536] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %e = f32[8192,65536] exponential(%s)
  %zero = f32[] constant(0)
  ROOT %y = f32[8192] reduce(%e, %zero), dimensions={1}, to_apply=%add
}
";

/// Iterations of the first loop on a machine.
fn iterations_on(machine: Machine) -> i64 {
    let target = machine.target;
    let options = Options { target, machine: Some(machine), ..Options::default() };
    let mut module = parse(SCORES);
    let report = run(&mut module, &default_pipeline(), &options, &ModelEstimator { target }).expect("an estimate");
    let note = &report.rewrites.first().expect("scores are not kept").note;
    note.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{note}"))
}

#[test]
fn devices_have_the_blocks_that_pay_for_their_iterations() {
    let h100 = Machine::of(Target::Gpu).clone();
    let usual = iterations_on(h100.clone());
    assert!((2..=32).contains(&usual), "{usual} iterations read 256 MiB each");
    let slow = Machine { iteration: 10 * h100.iteration, ..h100.clone() };
    assert!(iterations_on(slow) < usual);
    let large = Machine { cache: Bytes(1 << 30), iteration: 0, kernel: 0, ..h100 };
    assert!(iterations_on(large) > usual, "weights that stay in a cache are read for nothing");
}

#[test]
fn a_budget_is_met_by_the_fewest_blocks_that_meet_it() {
    let within = |budget| {
        let options = Options { target: Target::Gpu, budget, ..Options::default() };
        let mut module = parse(SCORES);
        let estimator = ModelEstimator { target: Target::Gpu };
        run(&mut module, &default_pipeline(), &options, &estimator).expect("an estimate")
    };
    let slowdown = |report: &RunReport| report.slowdown.expect("a GPU is timed");
    let (usual, fitting) = (within(None), within(Some(Bytes(700 << 20))));
    assert!(usual.after.certain() > Bytes(700 << 20) && slowdown(&usual) < 1.05);
    assert!(fitting.after.certain() <= Bytes(700 << 20));
    assert!(slowdown(&fitting) < 1.1, "blocks of caches would take 1.4 times as long: {}", slowdown(&fitting));
}

#[test]
fn blocks_of_a_tpu_are_whole_tiles() {
    let rows = 1_000_000;
    let source = program(rows, &constants("1000000"));
    let rows_of = |target| {
        let machine = (target == Target::Cpu).then(Machine::without_malloc_cache);
        let wanted = Options { target, machine, chunk_bytes: None, ..options(0) };
        let note = find(&parse(&source), &wanted).into_iter().find_map(|finding| match finding.outcome {
            Outcome::Rewrite { note, .. } => Some(note),
            Outcome::Missed(_) | Outcome::Withheld { .. } => None,
        });
        let note = note.expect("there is a loop");
        note.split(' ').nth(3).and_then(|rows| rows.parse::<i64>().ok()).expect("the note says how many rows")
    };
    assert_eq!(rows_of(Target::Tpu) % 1024, 0);
    assert_ne!(rows_of(Target::Cpu) % 1024, 0, "a divisor spares the rest");
}

#[test]
fn a_tpu_does_not_slice_beyond_32_bits_nor_at_a_short_dimension() {
    let tpu = |source: &str| missed(&parse(source), &Options { target: Target::Tpu, ..options(1 << 20) });
    let wide = program(1 << 32, &constants("4294967296"));
    assert_eq!(tpu(&wide), ["wide-rows"]);
    let short = program_of(["f32", "add(%a, %b)"], "4,262144", 2, &constants("4,262144"));
    assert_eq!(tpu(&short), ["short-rows"]);
    assert!(missed(&parse(&short), &options(1 << 20)).is_empty(), "on CPU it is cut");
}

/// Before a loop XLA:TPU converts to `bf16` all of an array whose blocks go into a product.
#[test]
fn a_tpu_makes_no_loop_for_less_than_the_copy_of_what_it_multiplies() {
    let offers = |columns: u32, target| {
        let lines = format!(
            "  %x = f32[65536,{columns}] parameter(0)
  %y = f32[{columns},64] parameter(1)
  %p = f32[65536,64] dot(%x, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %e = f32[65536,64] exponential(%p)
  %zero = f32[] constant(0)
  ROOT %s = f32[65536] reduce(%e, %zero), dimensions={{1}}, to_apply=%sum"
        );
        let module = chunking::seeded_planner::program(&lines);
        // Iterations are for nothing, so that only the copy counts.
        let machine = Some(Machine { kernel: 0, iteration: 0, ..Machine::of(target).clone() });
        let options = Options { target, machine, ..Options::default() };
        let estimate = common::estimate(Bytes(256 << 20), Vec::new());
        let users = Users::of(&module);
        Chunk.find(&Context::of_input(&module, &users, &estimate, &options)).len()
    };
    assert!(offers(16, Target::Tpu) > 0, "the copy is an eighth of the product");
    assert_eq!(offers(512, Target::Tpu), 0, "the copy is four times the product");
    assert!(offers(512, Target::Gpu) > 0, "no other compiler makes it");
}

/// Norms of the gradients of examples: XLA:TPU makes a product that sums up nothing part of what reads it.
#[test]
fn a_tpu_makes_no_loop_for_a_product_that_sums_up_nothing() {
    let offers = |rows: &str, contracted: &str, target| {
        let lines = format!(
            "  %x = f32[512,{rows}1024] parameter(0)
  %y = f32[512,{rows}1024] parameter(1)
  %p = f32[512,1024,1024] dot(%x, %y), lhs_batch_dims={{0}}, lhs_contracting_dims={{{contracted}}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{{contracted}}}
  %q = f32[512,1024,1024] multiply(%p, %p)
  %zero = f32[] constant(0)
  ROOT %s = f32[512] reduce(%q, %zero), dimensions={{1,2}}, to_apply=%sum"
        );
        let module = chunking::seeded_planner::program(&lines);
        let options = Options { target, ..Options::default() };
        let estimate = common::estimate(Bytes(4 << 30), Vec::new());
        let users = Users::of(&module);
        Chunk.find(&Context::of_input(&module, &users, &estimate, &options)).len()
    };
    assert_eq!(offers("", "", Target::Tpu), 0);
    assert!(offers("", "", Target::Cpu) > 0, "XLA:CPU writes it");
    assert!(offers("8,", "1", Target::Tpu) > 0, "of eight terms each");
}

/// The type of the scatter inside the loop, in a program whose floats are of type `t` and whose combiner does `combine`.
fn carried(target: Target, t: &str, combine: &str) -> String {
    let updates = format!("  %u = {t}[1048576] broadcast(%one), dimensions={{}}");
    let mut module = parse(&program_of([t, combine], "1048576", 1, &updates));
    let notes = rewrite(&mut module, &Options { target, ..options(1 << 16) });
    assert_eq!(notes.len(), 1, "{notes:?}");
    let scatters: Vec<_> = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Scatter).collect();
    let [(_, scatter)] = scatters.as_slice() else { panic!("one scatter: {scatters:?}") };
    scatter.array().expect("an array").element_type.name().to_owned()
}

#[test]
fn accumulators_are_as_wide_as_the_compiler_makes_them() {
    assert_eq!(carried(Target::Cpu, "bf16", "add(%a, %b)"), "f32", "XLA:CPU would widen it for every block");
    assert_eq!(carried(Target::Cpu, "bf16", "maximum(%a, %b)"), "f32");
    let waits = "add(%a, %b), control-predecessors={%a}";
    assert_eq!(carried(Target::Cpu, "bf16", waits), "bf16", "the combiner is not only what it computes");
    assert_eq!(carried(Target::Cpu, "f16", "add(%a, %b)"), "f16", "which XLA:CPU does not widen");
    assert_eq!(carried(Target::Tpu, "bf16", "add(%a, %b)"), "bf16", "not known of others");
}

#[test]
fn columns_that_the_program_reads_itself_stay() {
    let own = "  %q = f32[8,3] parameter(2)
  %at = s32[] parameter(3)
  %rows = f32[4,3] dynamic-slice(%q, %at, %none), dynamic_slice_sizes={4,3}
  %left = f32[4,1] slice(%rows), slice={[0:4], [0:1]}
  %right = f32[4,1] slice(%rows), slice={[0:4], [1:2]}
  %both = f32[4,1] add(%left, %right)
  %total = f32[] reduce(%both, %one), dimensions={0,1}, to_apply=%add
  %u = f32[16777216] broadcast(%total), dimensions={}";
    let (module, report) = optimized(&program(1 << 24, own), Target::Cpu);
    assert!(!report.rewrites.is_empty());
    let rows =
        module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::DynamicSlice && inst.name == "rows");
    assert_eq!(rows.count(), 1, "{}", hlo_ir::text::print(&module));
}
