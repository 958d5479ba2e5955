//! `chunk`: plans and block sizes that keep the run time: windows stay whole, and tables that a processor knows one at a time do not take turns too often.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/cache_conflict.rs`, `passes/src/chunk/savings.rs`, `passes/src/chunk/size.rs`,
//! `passes/src/chunk/seeded_planner/loop_price.rs`, `passes/src/loops/row_form.rs`, `passes/src/loops/row_loop.rs`, `passes/src/loops/row_roles.rs`, `passes/src/loops/row_trace.rs`,
//! `passes/src/manager/search/worth_its_time.rs`,
//! `passes/src/small_programs.rs`.

use hlo_ir::graph::Users;
use hlo_ir::text;
use hlo_memory::{Bytes, Estimator as _, ModelEstimator, Target};
use hlo_passes::chunk::Chunk;
use hlo_passes::manager::{RunReport, default_pipeline, run};
use hlo_passes::{Context, Finding, Grade, Objective, Options, Outcome, Pass};

use crate::common::parse;

/// The gradient of a graph layer with 16 features, as JAX writes it.
const GRAPH_LAYER: &str = include_str!("time_programs/graph_layer.hlo");

/// The gradient of a sum of sines of numbers picked from a table of 8 MiB, as JAX writes it.
const GRADIENT: &str = include_str!("time_programs/grad_sin.hlo");

/// The gradient of two lookups of 4 million numbers in tables of 8 MiB, with the same indices, as JAX writes it.
const TWO_TABLES: &str = include_str!("time_programs/two_tables.hlo");

/// What `chunk` says of the loops it makes of a program.
fn notes(program: &str) -> Vec<String> {
    notes_for(Target::Cpu, program)
}

/// The same where the program is for `target`.
fn notes_for(target: Target, program: &str) -> Vec<String> {
    notes_with(&Options { target, ..Options::default() }, program)
}

/// The same of a small program that is to need less memory.
fn notes_of_small(program: &str) -> Vec<String> {
    notes_with(&Options { objective: Objective::Memory, ..Options::default() }, program)
}

/// The same with options.
fn notes_with(options: &Options, program: &str) -> Vec<String> {
    let chunks = report(options, program).rewrites.into_iter().filter(|rewrite| rewrite.pass == "chunk");
    chunks.map(|rewrite| rewrite.note).collect()
}

fn report(options: &Options, program: &str) -> RunReport {
    let estimator = ModelEstimator { target: options.target };
    // What other flags would give is no matter of these tests, nor what lets the results of the last loops wait.
    let options = Options { advise: false, ..options.clone() };
    let passes: Vec<Box<dyn Pass>> = default_pipeline().into_iter().filter(|pass| !pass.comes_last()).collect();
    run(&mut parse(program), &passes, &options, &estimator).expect("it has an estimate")
}

#[test]
fn small_programs_keep_their_speed_unless_memory_is_asked_for() {
    let small = descent(1 << 20, 1 << 17, 16);
    assert_eq!(notes(&small), ["2 blocks of 65536 rows"]);
    assert_eq!(notes_of_small(&small), ["16 blocks of 8192 rows"]);
    let large = descent(1 << 20, 1 << 19, 16);
    assert_eq!(notes(&large), ["64 blocks of 8192 rows"], "so much is asked of the system in each run");
    let few = report(&Options::default(), &descent(8 << 20, 1 << 18, 1));
    let codes: Vec<&str> = few.remarks.iter().map(|remark| remark.code).collect();
    assert!(few.rewrites.is_empty() && codes.contains(&"small-gain"), "{codes:?}");
}

#[test]
fn windows_of_a_cache_line_are_not_cut() {
    let wide = GRAPH_LAYER.replace(",16", ",256");
    // A loop over these blocks may be cut once along the windows then, which fetches each line twice.
    let loops = ["16 blocks of 4096 rows, 2 scatters in one loop", "2 blocks of 8 rows"];
    assert_eq!(notes_of_small(GRAPH_LAYER), loops);
    assert_eq!(notes(&wide), ["16 blocks of 16 rows"], "of windows of sixteen lines, blocks fetch some lines twice");
}

const SUM: &str = "%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
";

/// A table of numbers that a step of gradient descent reads and updates at `indices` places, in windows of `window` numbers.
fn descent(table: usize, indices: usize, window: usize) -> String {
    descent_and(table, indices, window, "")
}

/// The same with lines behind the update `%y`, if any, the last of which is the root.
fn descent_and(table: usize, indices: usize, window: usize, behind: &str) -> String {
    let rows = table / 4 / window;
    let root = if behind.is_empty() { "ROOT " } else { "" };
    format!(
        "HloModule m
{SUM}ENTRY %main {{
  %x = f32[{rows},{window}] parameter(0)
  %i = s32[{indices}] parameter(1)
  %zero = s32[] constant(0)
  %zeros = s32[{indices}] broadcast(%zero), dimensions={{}}
  %below = pred[{indices}] compare(%i, %zeros), direction=LT
  %size = s32[] constant({rows})
  %sizes = s32[{indices}] broadcast(%size), dimensions={{}}
  %wrapped = s32[{indices}] add(%i, %sizes)
  %chosen = s32[{indices}] select(%below, %wrapped, %i)
  %index = s32[{indices},1] reshape(%chosen)
  %g = f32[{indices},{window}] gather(%x, %index), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{window}}}
  %s = f32[{indices},{window}] sine(%g)
  %n = f32[] constant(0)
  %first = f32[{rows},{window}] broadcast(%n), dimensions={{}}
  {root}%y = f32[{rows},{window}] scatter(%first, %index, %s), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%sum
{behind}}}
"
    )
}

/// Two scatters with the same indices, each into a table of that many floats; `update` computes what both add from rows `%w` of floats.
fn two_tables(floats: usize, update: &str) -> String {
    joined_tables(floats, update, "tuple", &format!("(f32[{floats}], f32[{floats}])"))
}

/// The same where `join` makes of both tables a result of this shape.
fn joined_tables(floats: usize, update: &str, join: &str, shape: &str) -> String {
    let rows = 1 << 24;
    let scatter = "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum";
    format!(
        "HloModule m
%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}}
ENTRY %e {{
  %i = s32[{rows}] parameter(0)
  %w = f32[{rows}] parameter(1)
  %zero = s32[] constant(0)
  %zeros = s32[{rows}] broadcast(%zero), dimensions={{}}
  %below = pred[{rows}] compare(%i, %zeros), direction=LT
  %size = s32[] constant({floats})
  %sizes = s32[{rows}] broadcast(%size), dimensions={{}}
  %wrapped = s32[{rows}] add(%i, %sizes)
  %chosen = s32[{rows}] select(%below, %wrapped, %i)
  %index = s32[{rows},1] reshape(%chosen)
  %u = f32[{rows}] {update}
  %v = f32[{rows}] negate(%u)
  %n = f32[] constant(0)
  %first = f32[{floats}] broadcast(%n), dimensions={{}}
  %one = f32[{floats}] scatter(%first, %index, %u), {scatter}
  %two = f32[{floats}] scatter(%first, %index, %v), {scatter}
  ROOT %both = {shape} {join}(%one, %two)
}}
"
    )
}

/// How many loops are made of a program.
fn loops(program: &str) -> usize {
    notes(program).join("; ").matches("blocks of").count()
}

#[test]
fn scatters_that_share_only_indices_part_where_their_tables_are_far() {
    assert_eq!(loops(&two_tables(1 << 20, "abs(%w)")), 2);
    assert_eq!(loops(TWO_TABLES), 2, "found from the largest values, too");
    assert_eq!(loops(&two_tables(1 << 19, "abs(%w)")), 1, "both tables stay near the processor");
}

#[test]
fn scatters_that_share_much_do_not_part() {
    let program = two_tables(1 << 20, "abs(%w)");
    let changed = |from: &str, to: &str| loops(&program.replace(from, to));
    assert_eq!(changed("abs(%w)", "tan(%w)"), 1, "what takes long");
    let product = "%p = f32[16777216] multiply(%w, %w)\n  %u = f32[16777216] add(%p, %w)";
    assert_eq!(changed("%u = f32[16777216] abs(%w)", product), 1, "what may be rounded once or twice");
    let step = |number: i32| format!("%x{number} = s32[16777216] xor(%x{}, %sizes)\n  ", number - 1);
    let steps: String = (1..320).map(step).collect();
    let long = format!("%x0 = s32[16777216] not(%chosen)\n  {steps}%index = s32[16777216,1] reshape(%x319)");
    assert_eq!(changed("%index = s32[16777216,1] reshape(%chosen)", &long), 1, "many operations");
    let column = "%all = s32[16777216,32] parameter(0)
  %column = s32[16777216,1] slice(%all), slice={[0:16777216], [3:4]}
  %i = s32[16777216] reshape(%column)";
    assert_eq!(changed("%i = s32[16777216] parameter(0)", column), 1, "lines of memory");
}

#[test]
fn scatters_that_are_added_do_not_part() {
    let added = joined_tables(1 << 20, "abs(%w)", "add", "f32[1048576]");
    let rewrites = report(&Options::default(), &added).rewrites;
    let grades: Vec<Grade> = rewrites.iter().map(|rewrite| rewrite.grade).collect();
    assert_eq!(grades, [Grade::Bitwise], "XLA would add them in another order");
    assert!(rewrites[0].note.contains("2 scatters in one loop"), "{}", rewrites[0].note);
}

#[test]
fn tables_that_take_turns_do_so_seldom() {
    let notes = |table: usize, window| notes(&descent(table << 20, 1 << 26, window));
    let usual = ["512 blocks of 131072 rows"];
    assert_eq!(notes(2, 4), ["2048 blocks of 32768 rows"], "both tables fit the caches");
    assert_eq!(notes(4, 1), ["16 blocks of 4194304 rows"], "together they do not");
    assert_eq!(notes(8, 1), ["8 blocks of 8388608 rows"]);
    assert_eq!(notes(8, 15), ["64 blocks of 1048576 rows"], "64 MiB are enough");
    assert_eq!(notes(16, 1), usual, "no table fits");
    assert_eq!(notes(8, 16), ["8192 blocks of 8192 rows"], "a cache line is worth its search");
    let large = self::notes(&descent(8 << 20, 1 << 32, 4));
    assert_eq!(large, ["512 blocks of 8388608 rows"], "nor is a hundredth of all memory too much");
    let budget = Options { budget: Some(Bytes(290 << 20)), ..Options::default() };
    assert_eq!(notes_with(&budget, &descent(8 << 20, 1 << 26, 1)), usual, "64 MiB would miss the budget");
    let columns = GRADIENT.replace("4194304", "67108864");
    assert_eq!(
        self::notes(&columns),
        ["16 blocks of 4194304 rows"],
        "columns of indices are another way to the same loop"
    );
}

#[test]
fn tables_take_no_turns_for_little() {
    let program = |table: usize| descent(table << 20, 1 << 23, 1);
    let said = |program: &str| {
        let report = report(&Options::default(), program);
        let said = report.remarks.into_iter().filter(|remark| remark.code == "small-gain").map(|remark| remark.message);
        (report.rewrites.len(), said.collect::<Vec<_>>().join("\n"))
    };
    let (loops, why) = said(&program(8));
    assert!(loops == 0 && why.contains("would alternate between tables"), "{why}");
    assert_eq!(notes_of_small(&program(8)), ["64 blocks of 131072 rows"], "memory is asked for");
    assert_eq!(said(&program(16)).0, 1, "no table fits the caches, in one block or in many");
    assert_eq!(said(GRADIENT).0, 0, "nor where it is found from the largest values");
    assert_eq!(said(&descent(8 << 20, 1 << 25, 1)).0, 0, "the blocks themselves are no saving");
    assert_eq!(said(&descent(8 << 20, 1 << 22, 4)).0, 1, "but for 16 bytes an update");
}

#[test]
fn tables_that_ask_for_one_block_are_spoken_of() {
    let held = "  %held = f32[104857600] parameter(2)
  ROOT %both = (f32[2097152,1], f32[104857600]) tuple(%y, %held)
";
    let program = descent_and(8 << 20, 1 << 22, 1, held);
    let report = report(&Options::default(), &program);
    let said = report.remarks.iter().any(|remark| remark.message.contains("would alternate between tables"));
    assert!(report.rewrites.is_empty() && said, "{:?}", report.remarks.len());
}

/// A lookup in a table of `read` bytes, whose sines are added into one of `written` bytes.
fn lookup_and_sum(read: usize, written: usize) -> String {
    let (n, read, written) = (1 << 25, read / 4, written / 4);
    format!(
        "HloModule m
{SUM}ENTRY %main {{
  %x = f32[{read}] parameter(0)
  %i = s32[{n},1] parameter(1)
  %j = s32[{n},1] parameter(2)
  %g = f32[{n}] gather(%x, %i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
  %s = f32[{n}] sine(%g)
  %n = f32[] constant(0)
  %first = f32[{written}] broadcast(%n), dimensions={{}}
  ROOT %y = f32[{written}] scatter(%first, %j, %s), update_window_dims={{}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%sum
}}
"
    )
}

#[test]
fn a_small_table_beside_a_large_one_takes_no_turns() {
    let loops = |read, written| loops(&lookup_and_sum(read, written));
    assert_eq!(loops(8 << 20, 4 << 10), 1);
    assert_eq!(loops(4 << 10, 8 << 20), 1);
    assert_eq!(loops(6 << 20, 2 << 20), 0, "128 MiB are not worth it");
}

#[test]
fn a_loop_that_saves_much_bears_one_that_takes_turns() {
    let sums = |width: usize| {
        let wide = format!(
            "  %w = f32[4194304] parameter(2)
  %k = f32[{width}] parameter(3)
  %ww = f32[4194304,{width}] broadcast(%w), dimensions={{0}}
  %kk = f32[4194304,{width}] broadcast(%k), dimensions={{1}}
  %p = f32[4194304,{width}] multiply(%ww, %kk)
  %q = f32[4194304,{width}] cosine(%p)
  %first2 = f32[64,{width}] broadcast(%n), dimensions={{}}
  %z = f32[64,{width}] scatter(%first2, %index, %q), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%sum
  ROOT %both = (f32[2097152,1], f32[64,{width}]) tuple(%y, %z)
"
        );
        descent_and(8 << 20, 1 << 22, 1, &wide)
    };
    assert_eq!(loops(&sums(8)), 2);
}

/// Sums of 16 rows each of a table of 31 MiB.
const BAGS: &str = "HloModule m
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
ENTRY %main {
  %table = f32[32000,256] parameter(0)
  %tokens = s32[65536,16] parameter(1)
  %index = s32[65536,16,1] reshape(%tokens)
  %rows = f32[65536,16,256] gather(%table, %index), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,256}
  %zero = f32[] constant(0)
  ROOT %bags = f32[65536,256] reduce(%rows, %zero), dimensions={1}, to_apply=%sum
}
";

#[test]
fn of_a_table_only_the_rows_asked_for_are_read() {
    assert_eq!(notes(BAGS), ["256 blocks of 256 rows"]);
}

/// Attention of 8 heads of 64 numbers over 1,024 places, twice.
fn attention(places_first: bool) -> String {
    if places_first {
        attention_of("2,8", 1024, "2,1024,8,64", "0,2", 1)
    } else {
        attention_of("2,8", 1024, "2,8,1024,64", "0,1", 2)
    }
}

/// Attention of so many heads over places, of arrays of shape `side` that have the heads in the dimensions `batch`.
fn attention_of(heads: &str, places: usize, side: &str, batch: &str, contracted: usize) -> String {
    format!(
        "HloModule m
{SUM}ENTRY %main {{
  %q = f32[{side}] parameter(0)
  %k = f32[{side}] parameter(1)
  %v = f32[{side}] parameter(2)
  %s = f32[{heads},{places},{places}] dot(%q, %k), lhs_batch_dims={{{batch}}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{{batch}}}, rhs_contracting_dims={{3}}
  %e = f32[{heads},{places},{places}] exponential(%s)
  %zero = f32[] constant(0)
  %t = f32[{heads},{places}] reduce(%e, %zero), dimensions={{3}}, to_apply=%sum
  %w = f32[{heads},{places},{places}] broadcast(%t), dimensions={{0,1,2}}
  %p = f32[{heads},{places},{places}] divide(%e, %w)
  ROOT %o = f32[{heads},{places},64] dot(%p, %v), lhs_batch_dims={{0,1}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{{batch}}}, rhs_contracting_dims={{{contracted}}}
}}
"
    )
}

#[test]
fn products_that_would_transpose_their_operands_in_each_block_take_few() {
    assert_eq!(notes(&attention(false)), ["8 blocks of 1 rows", "8 blocks of 128 rows"], "products of many rows first");
    assert_eq!(notes(&attention(true)), ["8 blocks of 1 rows", "4 blocks of 256 rows"], "heads need no whole operand");
    assert_eq!(notes_for(Target::Tpu, &attention(true)), ["64 blocks of 16 rows"], "no library that packs operands");
}

/// Scores that only a library call takes are no part of XLA's own figure, which blocks raise.
#[test]
fn the_figure_that_users_see_rises_only_for_much() {
    let none: [&str; 0] = [];
    assert_eq!(notes(&attention_of("2,8", 512, "2,8,512,64", "0,1", 2)), none, "16 MiB");
    assert!(!notes(&attention(false)).is_empty(), "64 MiB");
}

/// Loops of a program that fits any machine add less to its run time.
#[test]
fn small_programs_have_larger_blocks() {
    // One head, so that there is only one way to cut.
    let module = parse(&attention_of("1,1", 4096, "1,1,4096,64", "0,1", 2));
    let estimate = ModelEstimator::default().estimate(&module).expect("it has one");
    let offered = |before: u64| -> Vec<String> {
        let (users, options) = (Users::of(&module), Options::default());
        let context = Context { before: Bytes(before), ..Context::of_input(&module, &users, &estimate, &options) };
        let note = |finding: Finding| match finding.outcome {
            Outcome::Rewrite { note, .. } => Some(note),
            _ => None,
        };
        Chunk.find(&context).into_iter().filter_map(note).filter(|note| note.contains("blocks of")).collect()
    };
    let (small, large) = (offered((1 << 30) - 1), offered(1 << 30));
    assert!(small.contains(&"32 blocks of 128 rows".to_owned()), "{small:?}");
    assert!(large.contains(&"64 blocks of 64 rows".to_owned()), "{large:?}");
    assert!(!small.contains(&"64 blocks of 64 rows".to_owned()), "{small:?}");
}

/// The `short-block` of `tests/referee/family_programs.py`, reduced: a transformer block over 4 sequences of 512 places.
const SHORT_BLOCK: &str = include_str!("time_programs/short_block.hlo");

#[test]
fn products_of_whole_sequences_are_preferred_to_those_of_few_places() {
    assert_eq!(notes(SHORT_BLOCK), ["2 blocks of 2 rows"], "the library keeps tiles, and starting kernels counts");
    let after = |objective| report(&Options { objective, ..Options::default() }, SHORT_BLOCK).after.total;
    assert!(after(Objective::Memory) < after(Objective::Balanced), "more may be spared at the cost of run time");
}

/// What `chunk` leaves alone by default and makes when memory is asked for.
fn is_left_alone(program: &str) -> bool {
    assert!(!notes_of_small(program).is_empty(), "memory can be had for it");
    notes(program).is_empty()
}

#[test]
fn results_that_small_programs_write_count() {
    let lines = |rows: i64, columns: i64| {
        format!(
            "HloModule m\n\nENTRY %main {{
  %x = f32[{rows},256] parameter(0)
  %w = f32[256,{columns}] parameter(1)
  %e = f32[{rows},256] tanh(%x)
  ROOT %y = f32[{rows},{columns}] dot(%e, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
        )
    };
    assert!(is_left_alone(&lines(16384, 192)));
    assert!(!is_left_alone(&lines(65536, 192)), "four times as much is asked of the system");
}

#[test]
fn small_programs_put_no_batches_back() {
    let lines = |rows: i64| {
        format!(
            "HloModule m\n{SUM}ENTRY %main {{
  %i = s32[{rows},4] parameter(0)
  %u = f32[{rows},4] parameter(1)
  %double = s32[{rows},4] add(%i, %i)
  %index = s32[{rows},4,1] reshape(%double)
  %zero = f32[] constant(0)
  %zeros = f32[{rows},16] broadcast(%zero), dimensions={{}}
  ROOT %y = f32[{rows},16] scatter(%zeros, %index, %u), update_window_dims={{}}, inserted_window_dims={{1}}, scatter_dims_to_operand_dims={{1}}, input_batching_dims={{0}}, scatter_indices_batching_dims={{0}}, index_vector_dim=2, to_apply=%sum\n}}\n"
        )
    };
    assert!(is_left_alone(&lines(1 << 18)));
    assert!(!is_left_alone(&lines(1 << 21)));
}

#[test]
fn gains_of_small_programs_are_a_quarter_of_all_memory() {
    // The columns are put together as they were, which takes no memory: only the updates do.
    let columns = format!(
        "HloModule m\n{SUM}ENTRY %main {{
  %i = s32[4194304,3] parameter(0)
  %first = s32[4194304,1] slice(%i), slice={{[0:4194304], [0:1]}}
  %rest = s32[4194304,2] slice(%i), slice={{[0:4194304], [1:3]}}
  %index = s32[4194304,3] concatenate(%first, %rest), dimensions={{1}}
  %two = f32[] constant(2)
  %u = f32[4194304] broadcast(%two), dimensions={{}}
  %zero = f32[] constant(0)
  %zeros = f32[128,128,128] broadcast(%zero), dimensions={{}}
  ROOT %y = f32[128,128,128] scatter(%zeros, %index, %u), update_window_dims={{}}, inserted_window_dims={{0,1,2}}, scatter_dims_to_operand_dims={{0,1,2}}, index_vector_dim=1, to_apply=%sum\n}}\n"
    );
    assert!(is_left_alone(&columns), "a fifth");
    assert!(is_left_alone(&descent(32 << 20, 1 << 20, 1)), "a tenth");
    assert!(!is_left_alone(&descent(1 << 20, 1 << 20, 1)), "half");
}

/// The gradient of a sum of squares of 262,144 values of a cubic spline, as JAX writes it.
const SPLINE: &str = include_str!("time_programs/spline_gradient.hlo");

#[test]
fn small_programs_search_no_place_twice() {
    assert!(is_left_alone(SPLINE));
}

/// The gradient of a linear attention over 8 x 16 heads of 4,096 places x 32, its keys and queries `elu(x) + 1`, as JAX writes it.
const LINEAR_ATTENTION: &str = include_str!("time_programs/linear_attention_gradient.hlo");

#[test]
fn loops_inside_loops_fill_no_results_for_a_few_bytes() {
    let around = "16 blocks of 1 rows, 3 results in one loop; 16 blocks of 256 rows, 2 results in one loop";
    assert_eq!(notes(LINEAR_ATTENTION), [around]);
    let asked = Options { budget: Some(Bytes(525 << 20)), ..Options::default() };
    assert_eq!(notes_with(&asked, LINEAR_ATTENTION), [around, "8 blocks of 1 rows, 3 results in one loop"]);
}

/// A product of which each device takes its own rows, in a computation that is called: the program of `own-slice` in the corpus.
const PROJECTED: &str = include_str!("../../corpus/own-slice/fires-projected.before.hlo");

#[test]
fn loops_outside_the_entry_fill_results_for_a_sixteenth_of_all_memory() {
    let report = report(&Options { exactness: Grade::Reassociate, ..Options::default() }, PROJECTED);
    assert!(report.rewrites.len() > 1);
    assert!(
        report.after.total_with_scratch() < Bytes(31 << 20),
        "{}, where 43 MiB are left without them",
        report.after.total_with_scratch()
    );
}

/// The gradient of a total variation of 256 x 256 x 256 numbers, as JAX writes it: of its two loops one may cut planes, rows or columns.
const VARIATION: &str = include_str!("time_programs/total_variation_gradient.hlo");

#[test]
fn columns_of_less_than_a_cache_line_are_not_cut() {
    let mut module = parse(VARIATION);
    let report = run(&mut module, &default_pipeline(), &Options::default(), &ModelEstimator::default());
    let rewrites = report.expect("it has an estimate").rewrites;
    let loops = rewrites.iter().filter(|rewrite| rewrite.pass == "chunk").count();
    assert_eq!(loops, 1, "{rewrites:?}");
    let text = text::print(&module);
    assert!(text.contains("f32[256,4,256]") && text.contains("f32[4,256,256]"));
    assert!(!text.contains("f32[256,256,4]"), "four columns are 16 bytes");
}

/// The gradient of a batch normalization under a `tanh`, f32[50,100,100,64], as JAX writes it.
const BATCH_NORM: &str = include_str!("time_programs/batch_norm_gradient.hlo");

#[test]
fn features_are_cut_into_whole_cache_lines_where_all_that_is_computed_lies_in_them() {
    assert_eq!(notes(BATCH_NORM)[0], "4 blocks of 16 rows, 3 results in one loop");
}

/// The `mixture-gradient` of `tests/referee/family_programs.py`, reduced: all pairs of 2,000 x 8 numbers and 2,000 centers.
const MIXTURE: &str = include_str!("time_programs/mixture_gradient.hlo");

#[test]
fn features_of_what_is_no_array_in_memory_are_cut_one_by_one() {
    assert_eq!(notes(MIXTURE)[0], "16 blocks of 125 rows; 8 blocks of 1 rows, 2 results in one loop");
}

/// The gradient of `jnp.sum(jnp.exp(-r**2) * (1 - jnp.eye(6000)))`, where `r` are the distances of 6,000 points, as JAX writes it.
const PAIRS: &str = include_str!("time_programs/pairs.hlo");

/// The `attention-layer-gradient` of `tests/referee/family_programs.py`, reduced: eight heads over 1,024 places, with their weights.
const HEADS_GRADIENT: &str = include_str!("time_programs/heads_gradient.hlo");

#[test]
fn scores_of_many_heads_are_made_again_for_the_gradient() {
    let again = "8 blocks of 1 rows; 8 blocks of 1 rows, 3 results in one loop";
    assert_eq!(notes(HEADS_GRADIENT)[0], again, "a loop over heads of its own for the gradient");
    let few = HEADS_GRADIENT.replace("1024", "512");
    assert!(!notes(&few).contains(&again.to_owned()), "too little is spared");
}

#[test]
fn large_values_are_computed_again_where_nothing_else_helps() {
    assert_eq!(
        notes(PAIRS),
        ["375 blocks of 16 rows; 375 blocks of 16 rows"],
        "rows and columns have loops of their own"
    );
    let none: [&str; 0] = [];
    assert_eq!(notes(&PAIRS.replace("6000", "5000")), none, "95 MiB fit any machine");
    assert_eq!(
        notes_for(Target::Tpu, PAIRS),
        none,
        "XLA:TPU holds one of the arrays, 138 MiB, which such loops would not lower"
    );
}

/// A step of k-means over 1,048,576 x 8 numbers and 64 centers that returns the labels, all differences squared and summed; `argmin` is called.
const K_MEANS: &str = include_str!("time_programs/k_means.hlo");

#[test]
fn distances_of_which_only_the_least_is_asked_do_not_stand_in_memory() {
    let found = notes(K_MEANS);
    assert!(found.iter().any(|note| note == "1024 blocks of 1024 rows, 3 results in one loop"), "{found:?}");
}

/// A sum over rows of 256 bytes picked from a table, as a quantized embedding has it.
const QUANTIZED_BAG: &str = include_str!("../../corpus/chunk/fires-quantized-bag.before.hlo");

#[test]
fn picked_rows_stand_in_memory_on_tpu() {
    let options = Options { target: Target::Tpu, ..Options::default() };
    let found = report(&options, QUANTIZED_BAG);
    assert!(found.before.total > Bytes(1360 << 20), "XLA:TPU says 1364 MiB: {:?}", found.before.total);
    assert!(found.after.total < Bytes(110 << 20), "XLA:TPU says 84 MiB, the floor: {:?}", found.after.total);
    let once = ["64 blocks of 1024 rows"];
    assert_eq!(
        notes_for(Target::Tpu, QUANTIZED_BAG),
        once,
        "no library of reductions holds what smaller blocks would spare"
    );
}

#[test]
fn blocks_of_products_are_large_on_devices() {
    let wide = include_str!("../../corpus/dot-operands/keeps-wide.before.hlo");
    for target in [Target::Gpu, Target::Tpu] {
        assert_eq!(notes_for(target, wide), ["2 blocks of 2048 rows"], "{target:?}");
    }
}

#[test]
fn loops_of_a_quarter_more_time_are_made_on_tpu_where_memory_is_asked_for() {
    let none: [&str; 0] = [];
    assert_eq!(notes_for(Target::Tpu, LINEAR_ATTENTION), none, "XLA:TPU needs 448 MiB, 704 with the loops");
    let asked = Options { target: Target::Tpu, objective: Objective::Memory, ..Options::default() };
    let found = report(&asked, LINEAR_ATTENTION);
    assert!(found.after.total < found.before.total);
}

/// The gradient of a policy, whose loop saves a third of 3 GiB on a GPU and takes 1.12 times as long; and beside an argument of 8 GiB, of which it saves less than that.
#[test]
fn loops_that_cost_more_of_the_time_than_they_save_of_the_memory_are_taken_back() {
    let source = include_str!("../../corpus/chunk/fires-policy.before.hlo");
    let (layout, rest) = source.split_once('\n').expect("it has lines");
    let name = layout.split_once(',').expect("it has a layout").0;
    let body = rest.replace("  %scores.1 = f32", "  %other = f32[2147483648] parameter(4)\n  %scores.1 = f32");
    let on_gpu = |program: &str| report(&Options { target: Target::Gpu, ..Options::default() }, program);
    assert_eq!(on_gpu(source).rewrites.iter().filter(|rewrite| rewrite.pass == "chunk").count(), 1);
    let beside = on_gpu(&format!("{name}\n{body}"));
    assert!(beside.rewrites.is_empty(), "{:?}", beside.rewrites);
    let said = |remark: &hlo_passes::manager::Remark| (remark.pass, remark.code) == ("chunk", "slower");
    assert!(beside.remarks.iter().any(said), "{:?}", beside.remarks);
}
