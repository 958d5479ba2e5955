//! Passes of kind `speed`, which run once the search has ended: the same results, faster forms, and no more memory than they are worth.
//!
//! Pins `passes/src/speed.rs`, `passes/src/fusion_barrier.rs`.

use hlo_ir::{Module, Opcode, text};
use hlo_memory::{Bytes, Estimator, ModelEstimator, Target};
use hlo_passes::manager::{Observer, Rewrite, by_names, default_pipeline, run, run_observed};
use hlo_passes::{Grade, Machine, Options, PassKind};

use crate::chunking::{assert_same_results, options};
use crate::common::parse;

/// Counts the rows that three indices, computed by `lines` from `%p` as `%a`, `%b` and `%c`, name.
fn program(parameter: &str, lines: &str) -> String {
    let body = lines.replace("ROWS", "4096");
    format!(
        "HloModule m
%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}}
ENTRY %main {{
  %x = f32[4,5,6] parameter(0)
  %p = {parameter} parameter(1)
{body}
  %i = s32[4096,3] concatenate(%a, %b, %c), dimensions={{1}}
  %one = f32[] constant(1)
  %ones = f32[4096] broadcast(%one), dimensions={{}}
  ROOT %y = f32[4,5,6] scatter(%x, %i, %ones), update_window_dims={{}}, inserted_window_dims={{0,1,2}}, \
         scatter_dims_to_operand_dims={{0,1,2}}, index_vector_dim=1, to_apply=%add
}}
"
    )
}

/// Three indices out of one integer.
const UNRAVELLED: &str = "  %five = s32[] constant(5)
  %fives = s32[ROWS] broadcast(%five), dimensions={}
  %q = s32[ROWS] divide(%p, %fives)
  %r = s32[ROWS] remainder(%p, %fives)
  %s = s32[ROWS] divide(%q, %fives)
  %a = s32[ROWS,1] reshape(%s)
  %b = s32[ROWS,1] reshape(%r)
  %c = s32[ROWS,1] reshape(%q)";

/// Columns of an array that is converted and wrapped as a whole.
const COLUMNS: &str = "  %w = s32[ROWS,3] convert(%p)
  %two = s32[] constant(2)
  %twos = s32[ROWS,3] broadcast(%two), dimensions={}
  %v = s32[ROWS,3] add(%w, %twos)
  %t = s32[3,ROWS] transpose(%v), dimensions={1,0}
  %d = s32[1,ROWS] slice(%t), slice={[0:1], [0:ROWS]}
  %e = s32[1,ROWS] slice(%t), slice={[1:2], [0:ROWS]}
  %f = s32[1,ROWS] slice(%t), slice={[2:3], [0:ROWS]}
  %a = s32[ROWS,1] transpose(%d), dimensions={1,0}
  %b = s32[ROWS,1] transpose(%e), dimensions={1,0}
  %c = s32[ROWS,1] transpose(%f), dimensions={1,0}";

/// The program after the default pipeline.
fn rewritten(before: &Module, options: &Options) -> Module {
    let mut module = before.clone();
    let estimator = ModelEstimator { target: options.target };
    let report = run(&mut module, &default_pipeline(), options, &estimator).expect("it has an estimate");
    assert!(!report.rewrites.is_empty(), "{:?}", report.remarks);
    assert_eq!(
        report.after,
        estimator.estimate(&module).expect("so has this"),
        "what is said of the result is of the result"
    );
    module
}

/// The same, which must compute the same.
fn optimized(source: &str, options: &Options) -> Module {
    let before = parse(source);
    let module = rewritten(&before, options);
    for seed in 0..4 {
        assert_same_results(&before, &module, seed);
    }
    module
}

/// Blocks of so few bytes that one takes less than a hundredth of the peak.
fn small() -> Options {
    options(512)
}

fn count(module: &Module, opcode: Opcode) -> usize {
    module.live_instructions().filter(|(_, inst)| inst.opcode == opcode).count()
}

#[test]
fn indices_out_of_one_integer_are_computed_from_a_block_in_memory() {
    let source = program("s32[4096]", UNRAVELLED);
    let module = optimized(&source, &small());
    assert_eq!((count(&module, Opcode::While), count(&module, Opcode::Call)), (1, 1), "{}", text::print(&module));
    let dear = optimized(&source, &options(8192));
    assert_eq!((count(&dear, Opcode::While), count(&dear, Opcode::Call)), (1, 0), "a block is no twenty-fifth");
    let tpu = optimized(&source, &Options { target: Target::Tpu, ..small() });
    assert_eq!(count(&tpu, Opcode::Call), 0, "kernels of other compilers are others");
}

#[test]
fn a_budget_is_kept() {
    let source = program("s32[4096]", UNRAVELLED);
    let peak = |module: &Module| ModelEstimator { target: Target::Cpu }.estimate(module).expect("it has one").total;
    let with_call = peak(&optimized(&source, &small()));
    for (budget, calls) in [(with_call, 1), (Bytes(with_call.get() - 1), 0)] {
        let module = optimized(&source, &Options { budget: Some(budget), ..small() });
        assert_eq!(count(&module, Opcode::Call), calls, "{}", text::print(&module));
        assert!(peak(&module) <= budget);
    }
}

#[test]
fn columns_of_what_is_computed_of_an_array_are_read_one_by_one() {
    let module = optimized(&program("s8[4096,3]", COLUMNS), &small());
    assert_eq!(count(&module, Opcode::While), 1);
    let sliced = count(&module, Opcode::Slice);
    assert_eq!((count(&module, Opcode::DynamicSlice), sliced), (3, 0), "{}", text::print(&module));
}

/// Rows that two columns of bytes name are read, and what becomes of them is added up where it was read.
const READ_AND_ADDED: &str = "HloModule m
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
ENTRY %main {
  %zero = f32[] constant(0)
  %none = f32[3,31,32] broadcast(%zero), dimensions={}
  %p = u8[514] parameter(0)
  %x = f32[3,31,32] parameter(1)
  %pairs = u8[1,257,2] reshape(%p)
  %a = u8[1,257,1] slice(%pairs), slice={[0:1], [0:257], [0:1]}
  %b = u8[1,257,1] slice(%pairs), slice={[0:1], [0:257], [1:2]}
  %c = s32[1,257,1] convert(%a)
  %d = s32[1,257,1] convert(%b)
  %i = s32[1,257,2] concatenate(%c, %d), dimensions={2}
  %g = f32[1,257,32] gather(%x, %i), offset_dims={2}, collapsed_slice_dims={0,1}, start_index_map={0,1}, \
         index_vector_dim=2, slice_sizes={1,1,32}
  %u = f32[1,257,32] negate(%g)
  ROOT %y = f32[3,31,32] scatter(%none, %i, %u), update_window_dims={2}, inserted_window_dims={0,1}, \
         scatter_dims_to_operand_dims={0,1}, index_vector_dim=2, to_apply=%add
}
";

#[test]
fn a_second_run_changes_nothing() {
    let unravelled = program("s32[4096]", UNRAVELLED);
    for (source, bytes) in [(unravelled.as_str(), 512), (READ_AND_ADDED, 1000)] {
        let options = Options { exactness: Grade::Bitwise, ..options(bytes) };
        let once = optimized(source, &options);
        let mut twice = once.clone();
        let estimator = ModelEstimator { target: Target::Cpu };
        let report = run(&mut twice, &default_pipeline(), &options, &estimator).expect("it has an estimate");
        assert!(report.rewrites.is_empty(), "{:?}", report.rewrites);
        assert_eq!(text::print(&twice), text::print(&once));
    }
}

#[test]
fn changes_for_speed_are_reported_with_what_they_take() {
    let mut module = parse(&program("s32[4096]", UNRAVELLED));
    let estimator = ModelEstimator { target: Target::Cpu };
    let report = run(&mut module, &default_pipeline(), &small(), &estimator).expect("it has an estimate");
    let said: Vec<_> = report
        .rewrites
        .iter()
        .map(|rewrite| (rewrite.pass, rewrite.kind, rewrite.grade, rewrite.note.as_str()))
        .collect();
    let block = "a block read once for all places of a kernel";
    assert_eq!(said[1..], [("materialize-slices", PassKind::Speed, Grade::Bitwise, block)]);
    let (loops, reads) = (&report.rewrites[0], &report.rewrites[1]);
    assert_eq!((loops.taken, reads.saved), (Bytes::ZERO, Bytes::ZERO));
    assert!(reads.taken > Bytes::ZERO && reads.instruction == "p", "{reads:?}");
    assert_eq!(report.before.total_with_scratch() - report.after.total_with_scratch(), loops.saved - reads.taken);
}

#[test]
fn only_the_passes_that_were_chosen_run() {
    let before = parse(&program("s32[4096]", UNRAVELLED));
    let calls = |names: &[&str]| {
        let mut module = before.clone();
        let passes = by_names(names).expect("they exist");
        let estimator = ModelEstimator { target: Target::Cpu };
        let report = run(&mut module, &passes, &small(), &estimator).expect("it has an estimate");
        (report.rewrites.len(), count(&module, Opcode::Call))
    };
    assert_eq!(calls(&["chunk"]), (1, 0));
    assert_eq!(calls(&["chunk", "materialize-slices"]), (2, 1));
    assert_eq!(calls(&["chunk", "parallel-updates"]), (1, 0));
    assert_eq!(calls(&["materialize-slices"]), (0, 0), "it changes only what the run made");
}

/// Keeps the module behind each rewrite that stays.
#[derive(Default)]
struct Behind(Vec<String>);

impl Observer for Behind {
    fn begun(&mut self, module: &Module) {
        self.0.push(text::print(module));
    }
    fn applied(&mut self, _number: usize, _rewrite: &Rewrite, module: &Module) {
        self.0.push(text::print(module));
    }
    fn undone(&mut self, kept: usize) {
        self.0.truncate(kept + 1);
    }
}

#[test]
fn a_limit_keeps_the_first_changes_for_speed_too() {
    let columns = include_str!("speed_programs/columns_again.hlo").to_owned();
    for (source, bytes) in [(columns, 1000), (program("s32[4096]", UNRAVELLED), 512)] {
        let (before, options) = (parse(&source), options(bytes));
        let estimator = ModelEstimator { target: Target::Cpu };
        let mut behind = Behind::default();
        let (mut module, passes) = (before.clone(), default_pipeline());
        let full = run_observed(&mut module, &passes, &options, &estimator, &mut behind).expect("it has an estimate");
        assert!(full.rewrites.iter().any(|rewrite| rewrite.kind == PassKind::Speed), "{:?}", full.rewrites);
        assert_eq!(behind.0.len(), full.rewrites.len() + 1);
        for (limit, expected) in behind.0.iter().enumerate() {
            let (mut module, options) = (before.clone(), Options { bisect_limit: Some(limit), ..options.clone() });
            let report = run(&mut module, &passes, &options, &estimator).expect("it has an estimate");
            assert_eq!(text::print(&module), *expected, "the first {limit}");
            assert_eq!(report.rewrites, full.rewrites[..limit]);
            assert_eq!(report.after, estimator.estimate(&module).expect("so has this"));
        }
    }
}

/// Columns that are read one by one let one more loop save 48 bytes.
#[test]
fn the_search_goes_on_behind_a_change_for_speed() {
    let options = Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..options(1000) };
    let before = parse(include_str!("speed_programs/columns_again.hlo"));
    let mut module = before.clone();
    let estimator = ModelEstimator { target: Target::Cpu };
    let report = run(&mut module, &default_pipeline(), &options, &estimator).expect("it has an estimate");
    let notes: Vec<&str> = report.rewrites.iter().map(|rewrite| rewrite.note.as_str()).collect();
    assert_eq!(notes, ["8 blocks of 32 rows, then 1 rows", "a block read column by column", "2 blocks of 16 rows"]);
    assert_same_results(&before, &module, 1);
    let again = run(&mut module, &default_pipeline(), &options, &estimator).expect("it has an estimate");
    assert!(again.rewrites.is_empty(), "{:?}", again.rewrites);
    for limit in 0..=3 {
        let (mut module, options) = (before.clone(), Options { bisect_limit: Some(limit), ..options.clone() });
        let report = run(&mut module, &default_pipeline(), &options, &estimator).expect("it has an estimate");
        assert_eq!(report.rewrites.iter().map(|rewrite| rewrite.note.as_str()).collect::<Vec<_>>(), notes[..limit]);
        let left_out = report.remarks.iter().filter(|remark| remark.code == "bisect-limit").count();
        assert_eq!(left_out > 0, limit < 3, "{:?}", report.remarks);
    }
}

/// Another search would inline calls first and then look at what was inlined, behind a change for speed.
#[test]
fn what_is_made_for_speed_has_an_ancestor_too() {
    let before = parse(include_str!("speed_programs/calls_beside.hlo"));
    let module = rewritten(&before, &Options { exactness: Grade::Bitwise, ..options(256) });
    let printed = text::print(&module);
    assert_eq!(printed.matches("inlineable=").count(), 1, "{printed}");
}

#[test]
fn rows_are_weighted_before_they_are_summed() {
    // Gradients of single examples, clipped: the weight of each follows from all its numbers.
    let before = parse(include_str!("speed_programs/clipped.hlo"));
    let calls = |exactness| {
        // For less, what the loop reads is not computed again.
        let module = rewritten(&before, &Options { exactness, min_saving: Bytes(4 << 20), ..Options::default() });
        let summed = |inst: &hlo_ir::Instruction| {
            inst.opcode == Opcode::Reduce && module.instruction(inst.operands[0]).opcode == Opcode::Call
        };
        module.live_instructions().filter(|(_, inst)| summed(inst)).count()
    };
    assert_eq!([Grade::HloExact, Grade::Reassociate].map(calls), [1, 1]);
}

/// Eight products side by side, each of one array with a part of another one, and the largest numbers of all.
fn products_in_a_row() -> String {
    let copies = (0..8).map(|k| {
        format!(
            "  %s.{k} = f32[1,1024,64] slice(%xs), slice={{[{k}:{end}], [0:1024], [0:64]}}
  %b.{k} = f32[1024,64] reshape(%s.{k})
  %p.{k} = f32[1024,64] dot(%w, %b.{k}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
",
            end = k + 1
        )
    });
    let joined = (1..8).map(|k| {
        let (name, last) = (if k == 7 { "ROOT %m.7".to_string() } else { format!("%m.{k}") }, k - 1);
        let left = if k == 1 { "%p.0".to_string() } else { format!("%m.{last}") };
        format!("  {name} = f32[1024,64] maximum({left}, %p.{k})\n")
    });
    let lines = copies.chain(joined).collect::<String>();
    format!(
        "HloModule m\nENTRY %main {{\n  %w = f32[1024,1024] parameter(0)\n  %xs = f32[8,1024,64] parameter(1)\n{lines}}}\n"
    )
}

#[test]
fn products_of_a_run_that_keeps_every_bit_keep_their_operands() {
    let mut module = parse(&products_in_a_row());
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    let estimator = ModelEstimator { target: Target::Cpu };
    let report = run(&mut module, &default_pipeline(), &options, &estimator).expect("it has an estimate");
    let grades = report.rewrites.iter().map(|rewrite| rewrite.grade).collect::<Vec<_>>();
    assert_eq!(grades, [Grade::Bitwise], "{:?}", report.remarks);
    assert_eq!((count(&module, Opcode::Dot), count(&module, Opcode::Call)), (1, 0), "{}", text::print(&module));
}

#[test]
fn sums_of_blocks_of_one_row_leave_its_dimension_out() {
    let source = include_str!("speed_programs/one_number.hlo");
    let sums = |source: &str| {
        let module = rewritten(&parse(source), &Options::default());
        let summed = |inst: &hlo_ir::Instruction| {
            (inst.opcode == Opcode::Reduce)
                .then(|| module.instruction(inst.operands[0]).array().map(|array| array.dims.to_vec()))
        };
        module.live_instructions().filter_map(|(_, inst)| summed(inst)).flatten().collect::<Vec<_>>()
    };
    assert_eq!(sums(source), [[1024, 1024], [1024, 1024]]);
}
