//! `host-offload`: what waits stands in the memory of the host.
//!
//! Pins `ir/src/host.rs`, `passes/src/host_offload.rs`, `passes/src/recompute/layers.rs`.

use crate::common;

use hlo_ir::graph::Users;
use hlo_ir::host::HostMove;
use hlo_ir::{Instruction, InstructionId, Module, Opcode, text, verify};
use hlo_memory::{Bytes, ModelEstimator, Target, estimate};
use hlo_passes::host_offload::HostOffload;
use hlo_passes::manager::{self, RunReport};
use hlo_passes::{Context, Finding, Grade, Options, Outcome, Pass};

/// A loop whose stack of 5 x 3 x 4 floats another loop reads from its last row to its first.
const LAYERS: &str = include_str!("../../corpus/host-offload-small/fires-layers.before.hlo");
const RETURNED: &str = include_str!("../../corpus/host-offload-small/keeps-returned.before.hlo");
const READ_WHOLE: &str = include_str!("../../corpus/host-offload-small/keeps-read-whole.before.hlo");
/// The same as [`LAYERS`] with 64 x 8192 x 1024 floats, 2 GiB.
const LARGE: &str = include_str!("../../corpus/host-offload/fires-layers.before.hlo");
/// The gradient of 64 steps of `tanh` with three stacks of 2 GiB, two of which follow from the third.
const SCAN: &str = include_str!("host_programs/tanh_scan.hlo");
/// Four layers of a network and their gradients, written one behind the other.
const UNROLLED: &str = include_str!("host_programs/unrolled_layers.hlo");

const STACK: u64 = 5 * 3 * 4 * 4;

fn options(target: Target, host: u64) -> Options {
    Options { min_saving: Bytes(1), target, host_memory: Bytes(host), ..Options::default() }
}

fn find(module: &Module, options: &Options) -> Vec<Finding> {
    let (users, estimate) = (Users::of(module), common::estimate(Bytes(0), Vec::new()));
    HostOffload.find(&Context::of_input(module, &users, &estimate, options))
}

/// The module with the only change that is found.
fn rewritten(source: &str, options: &Options) -> Module {
    let mut module = common::parse(source);
    let found = find(&module, options);
    let [Finding { outcome: Outcome::Rewrite { patch, .. }, grade, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(*grade, Grade::Bitwise);
    patch.clone().apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    module
}

fn moves(module: &Module, kind: HostMove) -> usize {
    module.live_instructions().filter(|(_, inst)| HostMove::of(inst) == Some(kind)).count()
}

#[test]
fn rows_go_to_the_host_and_each_that_is_read_comes_back() {
    for target in [Target::Gpu, Target::Tpu] {
        let module = rewritten(LAYERS, &options(target, STACK));
        assert_eq!([HostMove::ToHost, HostMove::ToDevice].map(|kind| moves(&module, kind)), [1, 1]);
        assert!(find(&module, &options(target, 2 * STACK)).is_empty(), "it stands there already");
        let taken = estimate(&module, target).expect("the model knows all of it");
        assert_eq!(taken.host, Bytes(STACK));
    }
    assert!(find(&common::parse(LAYERS), &options(Target::Cpu, STACK)).is_empty(), "one memory");
}

/// What sees the whole state computes with the stack in it, for all that is known.
#[test]
fn a_state_that_is_seen_as_a_whole_keeps_its_stacks() {
    let state = "(s32[], f32[3,4], f32[5,3,4], f32[4,4])";
    let whole = format!(
        "%whole (all: {state}) -> f32[5,3,4] {{\n  %all = {state} parameter(0)\n  ROOT %of = f32[5,3,4] get-tuple-element(%all), index=2\n}}\n\n"
    );
    for (computation, take) in [("%region_0.3 (", "  %closed_call.5 = "), ("%region_2.7 (", "  %closed_call.7 = ")] {
        let begins = LAYERS.find(computation).expect("the body is there");
        let (head, body) = LAYERS.split_at(begins);
        let parameter = if computation.contains("_0") { "%arg_tuple.1" } else { "%arg_tuple.5" };
        let seen = format!("  %seen = f32[5,3,4] call({parameter}), to_apply=%whole\n{take}");
        let source = format!("{head}{whole}{}", body.replacen(take, &seen, 1));
        assert_ne!(source.len(), LAYERS.len() + whole.len(), "{take}");
        let module = common::parse(&source);
        assert_eq!(verify::verify(&module), [], "{source}");
        assert!(find(&module, &options(Target::Gpu, 1 << 30)).is_empty(), "{computation}");
    }
}

/// Rows of a stack whose state is annotated may lie on different devices, and a body that two loops run changes for both.
#[test]
fn annotated_states_and_shared_bodies_stay() {
    let body = "condition=%region_1.4, body=%region_0.3";
    let annotated = format!(
        "{body}, sharding={{{{replicated}}, {{devices=[2,1]<=[2]}}, {{devices=[2,1,1]<=[2]}}, {{replicated}}}}"
    );
    let reader = "condition=%region_3.8, body=%region_2.7";
    let annotated_reader = annotated.replace(body, reader);
    let twice = "  %while.more = (s32[], f32[3,4]{1,0}, f32[5,3,4]{2,1,0}, f32[4,4]{1,0}) while(%while.9), condition=%region_1.4, body=%region_0.3\n  %while.10 = ";
    for change in [(body, annotated.as_str()), (reader, annotated_reader.as_str()), ("  %while.10 = ", twice)] {
        let module = common::replaced(LAYERS, &[change]);
        assert!(find(&module, &options(Target::Gpu, 1 << 30)).is_empty(), "{change:?}");
    }
}

/// Two calls of a program's part would take twice the memory of the host.
#[test]
fn what_is_called_twice_stays() {
    let begins = LAYERS.find("ENTRY ").expect("an entry");
    let (parts, entry) = LAYERS.split_at(begins);
    let called = entry.replacen("ENTRY ", "", 1);
    let name = called.split_whitespace().next().expect("a name");
    let main = |calls: &str| {
        format!(
            "ENTRY %all (w: f32[4,4], x: f32[3,4]) -> f32[3,4] {{\n  %w = f32[4,4] parameter(0)\n  %x = f32[3,4] parameter(1)\n{calls}}}\n"
        )
    };
    let one = format!("  ROOT %a = f32[3,4] call(%w, %x), to_apply={name}\n");
    let two =
        format!("  %b = f32[3,4] call(%w, %x), to_apply={name}\n  ROOT %a = f32[3,4] call(%w, %b), to_apply={name}\n");
    let found = [one, two].map(|calls| {
        let module = common::parse(&format!("{parts}{called}\n{}", main(&calls)));
        assert_eq!(verify::verify(&module), []);
        find(&module, &options(Target::Gpu, 1 << 30)).len()
    });
    assert_eq!(found, [1, 0]);
}

/// XLA looks for an array of one value where a stack begins, and refuses a program that has something else there.
#[test]
fn a_stack_that_starts_from_anything_computed_stays() {
    let (made, used) = ("  %while.9 = ", "tuple(%constant.16, %x.1, %broadcast_in_dim.3,");
    let computed = format!("  %start = f32[5,3,4]{{2,1,0}} negate(%broadcast_in_dim.3)\n{made}");
    let source = common::replaced(LAYERS, &[(made, &computed), (used, &used.replace("%broadcast_in_dim.3", "%start"))]);
    assert!(find(&source, &options(Target::Gpu, 1 << 30)).is_empty());
}

/// By XLA:GPU for eight devices, a gradient like this one of 131,072 rows in four parts takes 160 MiB of temporaries on each instead of 6,304, with as many collectives.
#[test]
fn programs_that_are_yet_to_be_divided_move_stacks_alone() {
    let divided = |source| {
        common::replaced(source, &[("entry_computation_layout", "num_partitions=2, entry_computation_layout")])
    };
    let judged = Options { is_judged: true, min_saving: Bytes(1), ..options(Target::Gpu, 1 << 40) };
    assert_eq!([LAYERS, UNROLLED].map(|source| find(&divided(source), &judged).len()), [1, 0]);
}

/// The last of the three stacks is multiplied by a gradient, and that product added to another.
#[test]
fn a_product_that_meets_a_sum_behind_a_row_may_round_otherwise() {
    let grades: Vec<Grade> =
        find(&common::parse(SCAN), &options(Target::Gpu, 8 << 30)).iter().map(|found| found.grade).collect();
    assert_eq!(grades, [Grade::Bitwise, Grade::HloExact, Grade::HloExact]);
}

/// A byte less than the stack is not enough, and the remark says what is.
#[test]
fn what_the_host_may_not_take_is_said() {
    let found = find(&common::parse(LAYERS), &options(Target::Gpu, STACK - 1));
    let [Finding { outcome: Outcome::Withheld { reason, .. }, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(reason.code, "host-memory");
    assert!(reason.message.contains("--host-memory=1MiB"), "{}", reason.message);
}

#[test]
fn stacks_that_are_read_in_another_way_stay() {
    for source in [RETURNED, READ_WHOLE] {
        assert!(find(&common::parse(source), &options(Target::Gpu, 1 << 30)).is_empty());
    }
}

/// XLA refuses a program that computes with what stands on the host.
#[test]
fn a_row_that_its_step_reads_otherwise_stays() {
    let update = "dynamic-update-slice(%get-tuple-element.6,";
    let sources = [
        // The function that writes the row uses it once more.
        (
            "  ROOT %dynamic_update_slice.1",
            "  %more = f32[1,3,4]{2,1,0} negate(%broadcast_in_dim.2)\n  ROOT %dynamic_update_slice.1",
        ),
        ("  ROOT %dynamic_update_slice.1", "  %more = f32[3,4]{1,0} negate(%Arg_1.3)\n  ROOT %dynamic_update_slice.1"),
        // The step takes the stack at a second place.
        (
            "  %closed_call.5 = ",
            "  %again = f32[5,3,4]{2,1,0} get-tuple-element(%arg_tuple.1), index=2\n  %whole = f32[5,3,4]{2,1,0} negate(%again)\n  %closed_call.5 = ",
        ),
    ];
    assert!(!LAYERS.contains(update), "a call writes the row");
    for (old, new) in sources {
        let module = common::replaced(LAYERS, &[(old, new)]);
        assert!(find(&module, &options(Target::Gpu, 1 << 30)).is_empty(), "{new}");
    }
}

/// Only a compiler knows the order of such copies.
#[test]
fn values_of_unrolled_layers_go_where_a_compiler_judges() {
    let module = common::parse(UNROLLED);
    let plain = Options { min_saving: Bytes(1 << 20), ..options(Target::Gpu, 1 << 40) };
    assert!(find(&module, &plain).is_empty());
    let judged = Options { is_judged: true, ..plain };
    let found = find(&module, &judged);
    assert!(!found.is_empty());
    for finding in found {
        let Outcome::Rewrite { patch, .. } = finding.outcome else { panic!("{finding:?}") };
        let mut module = common::parse(UNROLLED);
        patch.apply(&mut module).expect("the patch fits");
        assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
        let there = moves(&module, HostMove::ToHost);
        assert!(there > 0 && moves(&module, HostMove::ToDevice) == there);
        // What comes back waits for a gradient, and what follows waits for what goes: each is one barrier at least.
        let barriers = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::OptBarrier).count();
        assert!(barriers >= 2 * there, "{barriers} barriers of {there} values");
        // What follows on a gradient waits for what came back before, unless it is the last.
        let is_back = |&id: &InstructionId| HostMove::of(module.instruction(id)) == Some(HostMove::ToDevice);
        let waits = |inst: &Instruction| inst.opcode == Opcode::Tuple && inst.operands.iter().any(is_back);
        assert!(there < 2 || module.live_instructions().any(|(_, inst)| waits(inst)));
        let after = estimate(&module, Target::Gpu).expect("the model knows all of it");
        assert_eq!(after.host, finding.wasted);
        let before = estimate(&common::parse(UNROLLED), Target::Gpu).expect("the model knows all of it");
        assert!(after.total < before.total, "{} -> {}", before.total, after.total);
    }
}

fn run(source: &str, options: &Options) -> (Module, RunReport) {
    let mut module = common::parse(source);
    let report =
        manager::run(&mut module, &manager::default_pipeline(), options, &ModelEstimator { target: options.target })
            .expect("it runs");
    (module, report)
}

fn made(report: &RunReport) -> Vec<&str> {
    report.rewrites.iter().map(|rewrite| rewrite.pass).collect()
}

/// Bytes of the host and a budget.
fn within(budget: u64, host: u64) -> Options {
    Options { budget: Some(Bytes(budget)), advise: false, ..options(Target::Gpu, host) }
}

/// Copies of rows as small as these take six times as long as their steps.
#[test]
fn a_budget_leaves_the_host_alone_where_computing_again_is_faster() {
    for source in [LARGE, SCAN] {
        let [(_, alone), (_, both)] = [0, 8 << 30].map(|host| run(source, &within(1 << 30, host)));
        assert!(!made(&both).contains(&"host-offload"), "{:?}", made(&both));
        assert_eq!(alone.slowdown, both.slowdown);
        assert!(both.after.total <= Bytes(1 << 30));
    }
}

#[test]
fn a_budget_takes_the_host_where_that_is_faster_than_computing_again() {
    let mut options = within(1 << 30, 8 << 30);
    let mut machine = options.machine().clone();
    machine.link_bytes_per_second = machine.bytes_per_second / 2;
    options.machine = Some(machine);
    let (module, report) = run(LARGE, &options);
    assert_eq!(made(&report), ["host-offload"]);
    assert_eq!((moves(&module, HostMove::ToHost), report.after.host), (1, Bytes(2 << 30)));
    let (_, again) = run(LARGE, &Options { host_memory: Bytes::ZERO, ..options });
    assert!(report.slowdown < again.slowdown, "{:?} {:?}", report.slowdown, again.slowdown);
    assert!(report.slowdown > Some(hlo_passes::MAX_SLOWDOWN), "it would be made without a budget");
}

/// Without a budget no more time is taken than any rewrite may.
#[test]
fn copies_that_take_long_are_not_made_unasked() {
    let (_, report) = run(LARGE, &options(Target::Gpu, 8 << 30));
    assert!(!made(&report).contains(&"host-offload"));
    let said = report.remarks.iter().find(|remark| remark.pass == "host-offload").expect("a remark");
    assert_eq!(said.code, "slower");
}
