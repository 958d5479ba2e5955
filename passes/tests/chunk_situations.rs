//! `chunk` in every special situation, one test each: what the loop looks like, or why there is none.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/candidates.rs`, `passes/src/chunk/apply.rs`.

use hlo_ir::{AttrKey, ElementType, Module, Opcode};
use hlo_memory::{Bytes, Target};
use hlo_passes::{Grade, Machine, Options, Outcome};

use crate::chunking::scatters::{VECTOR, module, sharded, usual, wrapped};
use crate::chunking::{assert_same_results, checked, find, missed, options, rewrite};
use crate::common::{self, parse};

/// Instructions with this opcode.
fn count(module: &Module, opcode: Opcode) -> usize {
    module.live_instructions().filter(|(_, inst)| inst.opcode == opcode).count()
}

/// The entry shape of some instruction with this opcode, as text.
fn shapes(module: &Module, opcode: Opcode) -> Vec<String> {
    let of_opcode = module.live_instructions().filter(|(_, inst)| inst.opcode == opcode);
    of_opcode.map(|(_, inst)| inst.shape.without_layout().to_string()).collect()
}

#[test]
fn one_row_and_one_block_are_left_alone() {
    let machine = Some(Machine::without_malloc_cache());
    assert!(find(&parse(&usual(1)), &options(1)).is_empty());
    assert!(find(&parse(&usual(50)), &options(8 * 50)).is_empty(), "all rows fit the limit");
    assert!(
        find(&parse(&usual(4096)), &Options { chunk_bytes: None, machine, ..options(0) }).is_empty(),
        "fewer rows than are worth it"
    );
}

#[test]
fn prime_row_counts_leave_a_rest() {
    let (after, notes) = checked(&usual(53), 80);
    assert_eq!(notes, ["6 blocks of 8 rows, then 5 rows"]);
    assert_eq!(count(&after, Opcode::Scatter), 2);
    assert_eq!(checked(&usual(53), 1).1, ["17 blocks of 3 rows, then 2 rows"], "XLA treats single updates differently");
}

#[test]
fn the_pass_leaves_its_own_loops_alone() {
    let (after, _) = checked(&usual(64), 80);
    assert!(find(&after, &options(80)).is_empty());
}

#[test]
fn counters_are_wide_only_where_row_numbers_are() {
    let counter = |rows: i64| {
        let mut module = parse(&usual(rows));
        rewrite(&mut module, &options(1 << 20));
        let looping =
            module.live_instructions().find(|(_, inst)| inst.opcode == Opcode::While).expect("it is rewritten").1;
        looping.shape.as_tuple().expect("a while carries a tuple")[0].as_array().expect("the counter").element_type
    };
    assert_eq!(counter(i64::from(i32::MAX)), ElementType::S32);
    assert_eq!(counter(i64::from(i32::MAX) + 1), ElementType::S64);
}

#[test]
fn metadata_moves_along() {
    let (after, _) = checked(&usual(64), 80);
    let scatter =
        after.live_instructions().find(|(_, inst)| inst.opcode == Opcode::Scatter).expect("it is in the body").1;
    assert_eq!((scatter.metadata("op_name"), scatter.metadata("stack_frame_id")), (Some("jit(f)/scatter"), Some("4")));
    let added = [Opcode::While, Opcode::DynamicSlice, Opcode::GetTupleElement, Opcode::Multiply];
    for (_, inst) in after.live_instructions().filter(|(_, inst)| added.contains(&inst.opcode)) {
        assert_eq!(inst.metadata("op_name"), Some("jit(f)/scatter"), "{}", inst.name);
    }
}

#[test]
fn attributes_are_copied() {
    let source =
        usual(64).replace("index_vector_dim=1,", "index_vector_dim=1, indices_are_sorted=true, unique_indices=true,");
    let (after, _) = checked(&source, 80);
    let before = parse(&source);
    let attributes = |module: &Module| {
        let (_, inst) =
            module.live_instructions().find(|(_, inst)| inst.opcode == Opcode::Scatter).expect("there is one");
        inst.attributes.clone()
    };
    assert_eq!(attributes(&after), attributes(&before));
}

#[test]
fn what_stands_in_memory_already_is_no_waste() {
    let lines = format!(
        "  %x = s32[7] parameter(0)
  %i = s32[64] parameter(1)
  %u = s32[64] parameter(2)
  %index = s32[64,1] reshape(%i)
  ROOT %y = s32[7] scatter(%x, %index, %u), {VECTOR}, to_apply=%add_s32"
    );
    assert!(find(&parse(&module("", &lines)), &options(80)).is_empty(), "a reshape of a parameter is a view");
}

#[test]
fn a_value_with_another_user_in_memory_is_read_there() {
    let source = |more: &str, updates: &str| {
        let lines = format!(
            "{more}  %x = s32[7] parameter(0)
  %i = s32[64] parameter(1)
  %u = s32[64] {updates}
{}
  %y = s32[7] scatter(%x, %index, %u), {VECTOR}, to_apply=%add_s32, metadata={{op_name=\"jit(f)/scatter\" stack_frame_id=4}}
  ROOT %out = (s32[7], s32[64,1]) tuple(%y, %index)",
            wrapped(64)
        );
        module("", &lines)
    };
    let given = source("", "parameter(2)");
    assert!(find(&parse(&given), &options(80)).is_empty(), "the indices are an output, the updates a parameter");
    let constant_updates = source("  %one = s32[] constant(1)\n", "broadcast(%one), dimensions={}");
    let (after, notes) = checked(&constant_updates, 80);
    assert_eq!(notes, ["8 blocks of 8 rows"], "only the updates are saved");
    assert_eq!(count(&after, Opcode::Select), 1, "the indices are not computed again");
}

#[test]
fn scatters_that_share_producers_share_a_loop() {
    let lines = format!(
        "  %x = s32[7] parameter(0)
  %i = s32[64] parameter(1)
  %u = s32[64] parameter(2)
{}
  %first = s32[7] scatter(%x, %index, %u), {VECTOR}, to_apply=%add_s32
  %doubled = s32[64] add(%u, %u)
  %second = s32[7] scatter(%x, %index, %doubled), {VECTOR}, to_apply=%add_s32
  ROOT %out = (s32[7], s32[7]) tuple(%first, %second)",
        wrapped(64)
    );
    let (after, notes) = checked(&module("", &lines), 100);
    assert_eq!(notes, ["8 blocks of 8 rows, 2 scatters in one loop"]);
    assert_eq!((count(&after, Opcode::While), count(&after, Opcode::Scatter)), (1, 2));
    // The second scatter continues the first: two loops, one after the other, made together, as each keeps the indices alive.
    let chained = lines.replace("scatter(%x, %index, %doubled)", "scatter(%first, %index, %doubled)");
    let (after, notes) = checked(&module("", &chained), 100);
    assert_eq!(notes, ["8 blocks of 8 rows; 8 blocks of 8 rows"]);
    assert_eq!((count(&after, Opcode::While), count(&after, Opcode::Scatter)), (2, 2));
    // The second scatter's updates depend on the first.
    let gathered = "%read = s32[64] gather(%first, %index), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, \
                    index_vector_dim=1, slice_sizes={1}\n  %doubled = s32[64] add(%read, %u)";
    let (after, notes) = checked(&module("", &lines.replace("%doubled = s32[64] add(%u, %u)", gathered)), 100);
    assert_eq!((notes.len(), count(&after, Opcode::While), count(&after, Opcode::Scatter)), (1, 2, 2));
}

#[test]
fn control_flow_is_no_obstacle() {
    let body = |name: &str, rest: &str| {
        format!(
            "%{name} (s: (s32[7], s32[64], s32[64])) -> (s32[7], s32[64], s32[64]) {{
  %s = (s32[7], s32[64], s32[64]) parameter(0)
  %x = s32[7] get-tuple-element(%s), index=0
  %i = s32[64] get-tuple-element(%s), index=1
  %u = s32[64] get-tuple-element(%s), index=2
{}
  %y = s32[7] scatter(%x, %index, %u), {VECTOR}, to_apply=%add_s32
  {rest}
}}\n",
            wrapped(64)
        )
    };
    let state = "  %x0 = s32[7] parameter(0)
  %i0 = s32[64] parameter(1)
  %u0 = s32[64] parameter(2)
  %s0 = (s32[7], s32[64], s32[64]) tuple(%x0, %i0, %u0)\n";
    let same = "ROOT %out = (s32[7], s32[64], s32[64]) tuple(%y, %i, %u)";
    let moved = "ROOT %out = (s32[7], s32[64], s32[64]) tuple(%y, %moved, %u)";
    let more = "%more (t: (s32[7], s32[64], s32[64])) -> pred[] {
  %t = (s32[7], s32[64], s32[64]) parameter(0)
  %i1 = s32[64] get-tuple-element(%t), index=1
  %head = s32[1] slice(%i1), slice={[0:1]}
  %first = s32[] reshape(%head)
  %limit = s32[] constant(30)
  ROOT %again = pred[] compare(%first, %limit), direction=LT
}\n";
    let in_while = format!("{state}  ROOT %w = (s32[7], s32[64], s32[64]) while(%s0), condition=%more, body=%body");
    let (after, notes) = checked(&module(&(body("body", moved) + more), &in_while), 80);
    assert_eq!((notes.len(), count(&after, Opcode::While)), (1, 2), "a loop in the loop");
    let in_branch = format!(
        "{state}  %flag = pred[] constant(true)
  ROOT %w = (s32[7], s32[64], s32[64]) conditional(%flag, %s0, %s0), true_computation=%yes, false_computation=%no"
    );
    let other = "%no (n: (s32[7], s32[64], s32[64])) -> (s32[7], s32[64], s32[64]) {
  ROOT %n = (s32[7], s32[64], s32[64]) parameter(0)
}\n";
    assert_eq!(checked(&module(&(body("yes", same) + other), &in_branch), 80).1.len(), 1);
    let in_call = format!(
        "{state}  %once = (s32[7], s32[64], s32[64]) call(%s0), to_apply=%callee
  ROOT %w = (s32[7], s32[64], s32[64]) call(%once), to_apply=%callee"
    );
    assert_eq!(checked(&module(&body("callee", same), &in_call), 80).1.len(), 1, "one loop serves both calls");
}

#[test]
fn calls_between_producers_are_looked_through() {
    let source = |indices: &str, attributes: &str| {
        let callee = format!(
            "%less (p: s32[], q: s32[]) -> pred[] {{
  %p = s32[] parameter(0)
  %q = s32[] parameter(1)
  ROOT %l = pred[] compare(%p, %q), direction=LT
}}
%wrap (o: s32[64]) -> (s32[64,1], s32[64]) {{
{indices}
{}
  ROOT %t = (s32[64,1], s32[64]) tuple(%index, %moved)
}}\n",
            wrapped(64)
        );
        let lines = format!(
            "  %x = s32[7] parameter(0)
  %j = s32[64] parameter(1)
  %twice = s32[64] add(%j, %j)
  %called = (s32[64,1], s32[64]) call(%twice), to_apply=%wrap{attributes}
  %columns = s32[64,1] get-tuple-element(%called), index=0
  %values = s32[64] get-tuple-element(%called), index=1
  ROOT %y = s32[7] scatter(%x, %columns, %values), {VECTOR}, to_apply=%add_s32"
        );
        module(&callee, &lines)
    };
    let given = "  %i = s32[64] parameter(0)";
    let (after, notes) = checked(&source(given, ""), 80);
    assert_eq!((notes.len(), count(&after, Opcode::Call)), (1, 0));
    // A value inside the callee that must stand in memory: the call's results are read instead, and nothing is saved.
    let sorted = "  %o = s32[64] parameter(0)
  %i = s32[64] sort(%o), dimensions={0}, is_stable=true, to_apply=%less";
    assert!(find(&parse(&source(sorted, "")), &options(80)).is_empty());
    let kept = source(given, ", frontend_attributes={inlineable=\"false\"}");
    assert!(find(&parse(&kept), &options(80)).is_empty(), "a manually sharded body stays a call");
}

#[test]
fn what_callers_compute_waits_for_inlining() {
    let callee = format!(
        "%add (x: s32[7], index: s32[64,1]) -> s32[7] {{
  %x = s32[7] parameter(0)
  %index = s32[64,1] parameter(1)
  %one = s32[] constant(1)
  %ones = s32[64] broadcast(%one), dimensions={{}}
  ROOT %y = s32[7] scatter(%x, %index, %ones), {VECTOR}, to_apply=%add_s32
}}\n"
    );
    let lines = |argument: &str| {
        format!(
            "  %x0 = s32[7] parameter(0)
  %i = s32[64] parameter(1)
{}
  %plain = s32[64,1] reshape(%i)
  ROOT %out = s32[7] call(%x0, {argument}), to_apply=%add",
            wrapped(64)
        )
    };
    let (computed, given) = (module(&callee, &lines("%index")), module(&callee, &lines("%plain")));
    assert_eq!(missed(&parse(&computed), &options(80)), ["call"]);
    assert_eq!(checked(&given, 80).1.len(), 1, "a view of a parameter stands in memory anyway");
}

#[test]
fn small_leading_row_dimensions_become_loops_in_loops() {
    let lines = "  %x = s32[7] parameter(0)
  %i = s32[3,64,1] parameter(1)
  %u = s32[3,64] parameter(2)
  %index = s32[3,64,1] add(%i, %i)
  ROOT %y = s32[7] scatter(%x, %index, %u), update_window_dims={}, inserted_window_dims={0}, \
                 scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=%add_s32";
    let (after, notes) = checked(&module("", lines), 80);
    assert_eq!(notes, ["3 blocks of 1 rows", "8 blocks of 8 rows"]);
    assert!(
        shapes(&after, Opcode::DynamicSlice).contains(&"s32[1,8,1]".to_owned()),
        "the inner loop reads only its own rows"
    );
    let ones = lines.replace("[3,64", "[1,64");
    assert_eq!(checked(&module("", &ones), 80).1, ["8 blocks of 8 rows"], "a dimension of one row is no loop");
}

#[test]
fn batches_are_cut_when_they_are_more_than_rows() {
    let program = |batches: i64, rows: i64, more: &str, [table, indices]: [&str; 2]| {
        let lines = format!(
            "  %x = s32[{batches},7] parameter(0)
  %i = s32[{batches},{rows},1] parameter(1)
  %u = s32[{batches},{rows}] parameter(2)
  %index = s32[{batches},{rows},1] add(%i, %i)
{more}  ROOT %y = s32[{batches},7] scatter({table}, {indices}, %u), update_window_dims={{}}, inserted_window_dims={{1}}, \
                 scatter_dims_to_operand_dims={{1}}, input_batching_dims={{0}}, scatter_indices_batching_dims={{0}}, \
                 index_vector_dim=2, to_apply=%add_s32"
        );
        module("", &lines)
    };
    let batched = |batches: i64, rows: i64| program(batches, rows, "", ["%x", "%index"]);
    let (after, notes) = checked(&batched(4, 64), 12 * 32);
    assert_eq!((notes[0].as_str(), count(&after, Opcode::DynamicUpdateSlice)), ("8 blocks of 8 rows", 0));
    let (after, notes) = checked(&batched(61, 3), 12 * 3 * 9);
    assert_eq!(notes, ["7 blocks of 8 rows, then 5 rows"]);
    assert_eq!(count(&after, Opcode::DynamicUpdateSlice), 2, "each block updates its own rows of the operand");
    assert!(shapes(&after, Opcode::DynamicSlice).contains(&"s32[8,7]".to_owned()), "and reads them");
    assert_eq!(checked(&batched(61, 1), 12 * 9).1.len(), 1, "there is nothing but batches to cut");
    let constant = "  %five = s32[] constant(5)\n  %fives = s32[61,7] broadcast(%five), dimensions={}\n";
    let started = program(61, 3, constant, ["%fives", "%index"]);
    let read = shapes(&checked(&started, 12 * 3 * 9).0, Opcode::DynamicSlice);
    assert!(read.len() > 1 && !read.contains(&"s32[8,7]".to_owned()), "rows that start from a constant: {read:?}");
    // On CPU the indices grow by the batch numbers, even when they are a parameter.
    let given = program(61, 1, "", ["%x", "%i"]);
    assert_eq!(checked(&given, 12 * 9).1.len(), 1);
    let elsewhere = Options { target: Target::Tpu, ..options(12 * 9) };
    assert!(find(&parse(&given), &elsewhere).is_empty());
}

#[test]
fn obstacles_have_names() {
    let code = |source: &str| missed(&parse(source), &options(80));
    let usual = usual(64);
    assert_eq!(code(&usual.replace("VECTOR", "")), Vec::<&str>::new());
    let controlled = usual.replace("to_apply=%add_s32,", "to_apply=%add_s32, control-predecessors={%moved},");
    assert_eq!(code(&controlled), ["control"]);
    let joined = usual.replace(
        "%index = s32[64,1] reshape(%select)",
        "%half = s32[32] slice(%select), slice={[0:32]}\n  %both = s32[64] concatenate(%half, %half), dimensions={0}\n  \
         %index = s32[64,1] reshape(%both)",
    );
    assert_eq!(code(&joined), Vec::<&str>::new(), "a joined value is read, and a reshape of it is a view");
    let dynamic = usual.replace("%u = s32[64] parameter(2)", "%u = s32[<=64] parameter(2)");
    assert_eq!(code(&dynamic), ["dynamic-shape"]);
}

#[test]
fn sharded_rows_are_not_cut() {
    let partitioned = |sharding: &str| sharded(", num_partitions=4", 64, sharding);
    let code = |sharding: &str| missed(&parse(&partitioned(sharding)), &options(80));
    assert_eq!(code(""), ["sharded"], "no proof");
    assert_eq!(code(", sharding={devices=[4]<=[4]}"), ["sharded"]);
    let lowered = sharded("", 64, ", sharding={devices=[4]<=[4]}");
    assert_eq!(missed(&parse(&lowered), &options(80)), Vec::<&str>::new(), "it is for one device");
    for harmless in
        [", sharding={replicated}", ", sharding={manual}", ", sharding={devices=[1,4]<=[4] last_tile_dim_replicate}"]
    {
        assert_eq!(code(harmless), Vec::<&str>::new());
        assert_eq!(rewrite(&mut parse(&partitioned(harmless)), &options(80)).len(), 1, "{harmless}");
    }
}

/// A program whose updates `%u` are a dot, or what `lines` make of the dot `product`.
fn with_dot(element_type: &str, product: &str, lines: &str) -> String {
    let lines = format!(
        "  %x = {element_type}[7] parameter(0)
  %i = s32[64] parameter(1)
  %a = {element_type}[64,5] parameter(2)
  %b = {element_type}[5] parameter(3)
{}
  {product} = {element_type}[64] dot(%a, %b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
{lines}  ROOT %y = {element_type}[7] scatter(%x, %index, %u), {VECTOR}, to_apply=%add_{element_type}",
        wrapped(64)
    );
    module("", &lines)
}

#[test]
fn contractions_of_floats_are_not_bitwise() {
    let source = parse(&with_dot("f32", "%u", ""));
    let grades =
        |options: &Options| find(&source, options).into_iter().map(|finding| finding.grade).collect::<Vec<_>>();
    assert_eq!(grades(&options(300)), [Grade::HloExact]);
    let strict = Options { exactness: Grade::Bitwise, ..options(100) };
    assert_eq!(grades(&strict), [Grade::HloExact, Grade::Bitwise], "what was left out, and the loop");
    let mut strictly = source.clone();
    rewrite(&mut strictly, &strict);
    assert_eq!(shapes(&strictly, Opcode::Dot), ["f32[64]"], "the product stays outside and is read");
    let mut freely = source.clone();
    rewrite(&mut freely, &options(300));
    assert_eq!(shapes(&freely, Opcode::Dot), ["f32[8]"]);
}

#[test]
fn an_inexact_value_is_never_computed_in_two_forms() {
    // The updates read the product forwards and backwards.
    let source = |t: &str| {
        let lines = format!("  %r = {t}[64] reverse(%p), dimensions={{0}}\n  %u = {t}[64] maximum(%p, %r)\n");
        with_dot(t, "%p", &lines)
    };
    let (after, _) = checked(&source("f32"), 80);
    assert_eq!(shapes(&after, Opcode::Dot), ["f32[64]"]);
    let (after, _) = checked(&source("s32"), 80);
    assert_eq!(count(&after, Opcode::Dot), 2, "integers may be");
}

#[test]
fn bf16_is_read_as_bits_on_cpu() {
    let lines = format!(
        "  %x = bf16[7] parameter(0)
  %i = s32[64] parameter(1)
  %u = bf16[64] parameter(2)
{}
  ROOT %y = bf16[7] scatter(%x, %index, %u), {VECTOR}, to_apply=%add_bf16",
        wrapped(64)
    );
    let source = module("", &lines);
    let (cpu, _) = checked(&source, 80);
    assert!(shapes(&cpu, Opcode::DynamicSlice).contains(&"u16[8]".to_owned()));
    let mut tpu = parse(&source);
    rewrite(&mut tpu, &Options { target: Target::Tpu, ..options(80) });
    assert_eq!(count(&tpu, Opcode::BitcastConvert), 0);
}

/// Two scatters of floats and what is made of them.
fn with_sum(sum: &str) -> String {
    let second = format!("%second = f32[7] scatter(%start, %index, %negated), {VECTOR}, to_apply=%add_f32\n  ");
    let second = if sum.contains("%second") { second } else { String::new() };
    let lines = format!(
        "  %x = f32[7] parameter(0)
  %i = s32[61] parameter(1)
  %u = f32[61] parameter(2)
  %none = f32[] constant(0)
  %start = f32[7] broadcast(%none), dimensions={{}}
{}
  %first = f32[7] scatter(%start, %index, %u), {VECTOR}, to_apply=%add_f32
  %negated = f32[61] negate(%u)
  {second}{sum}",
        wrapped(61)
    );
    module("", &lines)
}

#[test]
fn a_sum_is_taken_into_the_loop_as_xla_takes_it_into_the_scatter() {
    let source = with_sum("ROOT %out = f32[7] add(%x, %first)");
    let (after, _) = checked(&source, 80);
    assert_eq!(
        count(&after, Opcode::Broadcast),
        4,
        "the zeros are gone: two constants in two blocks each\n{}",
        hlo_ir::text::print(&after)
    );
    let root = after.instruction(after.computation(after.entry()).root);
    assert_eq!(root.opcode, Opcode::Scatter, "no sum is left behind the loop");
    assert_eq!(find(&parse(&source), &options(80))[0].grade, Grade::Bitwise);
}

#[test]
fn a_sum_of_two_scatters_stays_and_is_shielded() {
    let source = with_sum("ROOT %out = f32[7] add(%first, %second)");
    assert_eq!(find(&parse(&source), &options(80))[0].grade, Grade::Bitwise);
    let (after, notes) = checked(&source, 80);
    assert!(notes[0].contains("2 scatters in one loop"), "{notes:?}");
    assert_eq!(count(&after, Opcode::OptBarrier), 2, "XLA would join the scatters of the rest rows");
    // One of them is needed twice: XLA takes the sum into the other, a loop of both cannot.
    let uneven = with_sum("%sum = f32[7] add(%first, %second)\n  ROOT %out = (f32[7], f32[7]) tuple(%sum, %first)");
    assert_eq!(find(&parse(&uneven), &options(80))[0].grade, Grade::HloExact);
    let strict = Options { exactness: Grade::Bitwise, ..options(80) };
    assert!(find(&parse(&uneven), &strict).iter().all(|finding| finding.grade == Grade::Bitwise));
    let notes = rewrite(&mut parse(&uneven), &strict);
    assert!(notes[0].contains(';'), "one loop starts from the other's result: {notes:?}");
}

#[test]
fn small_gains_are_remarks() {
    let module = &parse(&usual(64));
    let users = &hlo_ir::graph::Users::of(module);
    let estimate = &common::estimate(Bytes(1 << 20), Vec::new());
    let options = &options(80);
    let context = hlo_passes::Context::of_input(module, users, estimate, options);
    let findings = hlo_passes::Pass::find(&hlo_passes::chunk::Chunk, &context);
    assert!(
        matches!(&findings[..], [finding] if matches!(&finding.outcome, Outcome::Missed(reason) if reason.code == "small-gain"))
    );
}

#[test]
fn scheduled_modules_are_not_rewritten() {
    let scheduled = usual(64).replace("HloModule m", "HloModule m, is_scheduled=true");
    assert!(find(&parse(&scheduled), &options(80)).is_empty());
}

#[test]
fn donated_operands_stay_donated() {
    let donated = usual(64).replace("HloModule m", "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }");
    let (after, notes) = checked(&donated, 80);
    assert_eq!(notes.len(), 1);
    assert!(after.attribute(&AttrKey::InputOutputAlias).is_some());
}

/// Rows are read from row `%t` of a stack; a start beyond the last row is clamped to it, whatever its type.
#[test]
fn starts_of_other_dimensions_keep_their_value() {
    let with_start = |element: &str| {
        let lines = format!(
            "  %x = s32[7] parameter(0)
  %stack = s32[3,64] parameter(1)
  %u = s32[64] parameter(2)
  %t = {element}[] parameter(3)
  %first = {element}[] constant(0)
  %row = s32[1,64] dynamic-slice(%stack, %t, %first), dynamic_slice_sizes={{1,64}}
  %i = s32[64] reshape(%row)
{}
  ROOT %y = s32[7] scatter(%x, %index, %u), {VECTOR}, to_apply=%add_s32",
            wrapped(64)
        );
        module("", &lines)
    };
    for (element, counter) in [("s32", "s32[]"), ("u16", "s32[]"), ("u32", "s64[]"), ("s64", "s64[]"), ("u64", "s32[]")]
    {
        for seed in 0..4 {
            let before = parse(&with_start(element));
            let mut after = before.clone();
            assert_eq!(rewrite(&mut after, &options(80)).len(), 1, "{element}");
            assert_same_results(&before, &after, seed);
            let state = after.live_instructions().find(|(_, inst)| inst.opcode == Opcode::While).expect("one loop").1;
            assert_eq!(state.shape.as_tuple().expect("a tuple")[0].to_string(), counter, "{element}");
        }
    }
}

#[test]
fn minima_of_floats_are_not_bitwise_but_those_of_integers_are() {
    let with_minimum = |element: &str, infinity: &str| {
        let combiners = format!(
            "%least (v: {element}[], w: {element}[]) -> {element}[] {{
  %v = {element}[] parameter(0)
  %w = {element}[] parameter(1)
  ROOT %l = {element}[] minimum(%v, %w)
}}
%keep (o: {element}[], n: {element}[]) -> {element}[] {{
  %o = {element}[] parameter(0)
  ROOT %n = {element}[] parameter(1)
}}"
        );
        let lines = format!(
            "  %x = {element}[7] parameter(0)
  %i = s32[64] parameter(1)
  %u = {element}[64,5] parameter(2)
  %infinity = {element}[] constant({infinity})
  %v1 = {element}[64] reduce(%u, %infinity), dimensions={{1}}, to_apply=%least
{}
  ROOT %y = {element}[7] scatter(%x, %index, %v1), {VECTOR}, to_apply=%keep",
            wrapped(64)
        );
        module(&combiners, &lines)
    };
    let grade = |source: &str| find(&parse(source), &options(80))[0].grade;
    assert_eq!(grade(&with_minimum("f32", "inf")), Grade::HloExact);
    assert_eq!(grade(&with_minimum("s32", "2147483647")), Grade::Bitwise);
    let strict = Options { exactness: Grade::Bitwise, ..options(80) };
    let before = parse(&with_minimum("f32", "inf"));
    let mut after = before.clone();
    assert_eq!(rewrite(&mut after, &strict).len(), 1, "the minimum stays in memory");
    assert_same_results(&before, &after, 3);
}
