//! `loop-checkpoints`: when steps of a loop are run again from checkpoints, and when their stacks stay: results by an interpreter, and one thing wrong at a time.
//!
//! Pins `passes/src/loop_checkpoints.rs`, `passes/src/loops.rs`, `passes/src/recompute.rs`.

use crate::common::{estimate, parse, replaced};
use crate::interpreter::random::Random;
use crate::interpreter::tensor::Tensor;
use crate::interpreter::{self, Data};
use hlo_ir::graph::{self, Users};
use hlo_ir::{Module, Opcode, text, verify};
use hlo_memory::Bytes;
use hlo_passes::loop_checkpoints::LoopCheckpoints;
use hlo_passes::{Context, Finding, Grade, Machine, Options, Outcome, Pass};

/// A loop that stacks a wide row of each step, and one that reads the rows from the last to the first, in so many steps, with rows so many
/// times as wide as the state; with `reverse` the rows are stacked from the last to the first. A step has a loop in it.
fn loops(steps: i64, width: i64, reverse: bool) -> String {
    let [written, read] = if reverse { ["%written", "%i2"] } else { ["%i", "%back"] };
    let last = steps - 1;
    let number = format!("\n  %last.w = s32[] constant({last})\n  %written = s32[] subtract(%last.w, %i)");
    let number = if reverse { number } else { String::new() };
    format!(
        include_str!("checkpoint_programs/loops.hlo"),
        steps = steps,
        width = width,
        last = last,
        number = number,
        written = written,
        read = read
    )
}

fn find(module: &Module) -> Vec<Finding> {
    let (users, estimate) = (Users::of(module), estimate(Bytes(1 << 20), Vec::new()));
    let options =
        Options { min_saving: Bytes(1), machine: Some(Machine::without_malloc_cache()), ..Options::default() };
    LoopCheckpoints.find(&Context::of_input(module, &users, &estimate, &options))
}

fn applied(mut module: Module) -> Option<(Module, Finding, String)> {
    let finding = find(&module).into_iter().next()?;
    let Outcome::Rewrite { patch, note, .. } = finding.outcome.clone() else { panic!("it can be done") };
    patch.apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    Some((module, finding, note))
}

fn arguments(module: &Module, random: &mut Random) -> Vec<Data> {
    let parameters = module.parameters(module.entry()).into_iter();
    let arrays = parameters.filter_map(|id| module.instruction(id).array().cloned());
    arrays.map(|array| Data::Array(Tensor::build(&array, |_| random.range(-9, 10)))).collect()
}

#[test]
fn steps_that_are_run_again_make_the_same_rows() {
    let mut random = Random(7);
    let mut lengths = Vec::new();
    for steps in 2..=13 {
        for (width, reverse) in [(1, false), (2, true), (3, false), (9, true), (9, false)] {
            let source = loops(steps, width, reverse);
            let Some((module, _, note)) = applied(parse(&source)) else { continue };
            let arguments = arguments(&module, &mut random);
            let (before, after) =
                (interpreter::run(&parse(&source), &arguments), interpreter::run(&module, &arguments));
            assert!(before == after, "{steps} steps, rows of {width}: {note}\n{}", text::print(&module));
            lengths.push(note);
        }
    }
    // Blocks of one step, blocks that divide the steps, and blocks that do not.
    for note in [
        "13 steps are run again in blocks of 1,",
        "12 steps are run again in blocks of 2,",
        "13 steps are run again in blocks of 3,",
    ] {
        assert!(lengths.iter().any(|made| made.starts_with(note)), "{note} {lengths:#?}");
    }
}

#[test]
fn blocks_of_one_step_need_no_loop_and_calls_stay_apart() {
    let (module, finding, note) = applied(parse(&loops(5, 9, false))).expect("rows are wide");
    assert!(note.starts_with("5 steps are run again in blocks of 1,"), "{note}");
    assert_eq!(finding.grade, Grade::Bitwise, "integers");
    let loops: Vec<_> = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While).collect();
    assert_eq!(loops.len(), 4, "two loops, and the one in the step twice");
    let callers = graph::callers(&module);
    assert!(loops.iter().all(|(_, inst)| inst.called_computations().all(|callee| callers[callee].len() == 1)));
    assert!(find(&module).is_empty(), "what is stacked is what steps begin with");
}

#[test]
fn stacks_stay_when_a_condition_fails() {
    let source = loops(12, 2, false);
    assert_eq!(find(&parse(&source)).len(), 1, "the program without a change fires");
    let changes: [(&str, &[(&str, &str)]); 8] = [
        ("the reader begins with the first row", &[("dynamic-slice(%all, %back,", "dynamic-slice(%all, %i2,")]),
        ("the reader makes fewer steps", &[("%bound2 = s32[] constant(12)", "%bound2 = s32[] constant(11)")]),
        ("the first loop makes fewer", &[("%bound = s32[] constant(12)", "%bound = s32[] constant(11)")]),
        ("a row beyond those of the step is read", &[("subtract(%last, %i2)", "subtract(%last, %next2)")]),
        (
            "numbers are drawn",
            &[(
                "%v.next = s32[4] subtract(%v.turned, %v)",
                "%limit = s32[] constant(9)
  %drawn = s32[4] rng(%one.s, %limit), distribution=rng_uniform
  %v.next = s32[4] subtract(%v.turned, %drawn)",
            )],
        ),
        (
            "something waits for another",
            &[(
                "%h.numbered = s32[4] multiply(%h, %number)",
                "%h.numbered = s32[4] multiply(%h, %number), control-predecessors={%w.t}",
            )],
        ),
        (
            "all rows are used",
            &[("%from = s32[] constant(0)", "%from = s32[] constant(0)\n  %kept = s32[12,2,4] negate(%stacked)")],
        ),
        (
            "the step reads its own stack",
            &[
                (
                    "%x = s32[4] get-tuple-element(%p), index=1",
                    "%x = s32[4] get-tuple-element(%p), index=1
  %stack.read = s32[12,2,4] get-tuple-element(%p), index=2",
                ),
                (
                    "%h = s32[4] get-tuple-element(%spun), index=1",
                    "%h.spun = s32[4] get-tuple-element(%spun), index=1
  %own = s32[1,1,4] dynamic-slice(%stack.read, %zero, %zero, %zero), dynamic_slice_sizes={1,1,4}
  %own.flat = s32[4] reshape(%own)
  %h = s32[4] add(%h.spun, %own.flat)",
                ),
            ],
        ),
    ];
    for (why, changes) in changes {
        assert!(find(&replaced(&source, changes)).is_empty(), "{why}");
    }
}

#[test]
fn exchanges_between_devices_are_not_made_twice() {
    let source = loops(12, 2, false);
    let sum = (
        "%spin (",
        "%sum.of (l: s32[], r: s32[]) -> s32[] {\n  %l = s32[] parameter(0)\n  %r.s = s32[] parameter(1)\n  ROOT %both = s32[] add(%l, %r.s)\n}\n\n%spin (",
    );
    let exchanged = (
        "%h = s32[4] get-tuple-element(%spun), index=1",
        "%h.own = s32[4] get-tuple-element(%spun), index=1\n  %h = s32[4] all-reduce(%h.own), replica_groups={{0,1}}, to_apply=%sum.of",
    );
    let [finding] = &find(&replaced(&source, &[sum, exchanged]))[..] else { panic!("it is said") };
    assert!(matches!(&finding.outcome, Outcome::Missed(reason) if reason.code == "collectives"), "{finding:?}");
    // In the loop that reads, an exchange is made as often as before.
    let in_reader = (
        "%flat = s32[2,4] reshape(%row)",
        "%flat.own = s32[2,4] reshape(%row)\n  %flat = s32[2,4] all-reduce(%flat.own), replica_groups={{0,1}}, to_apply=%sum.of",
    );
    let (module, ..) = applied(replaced(&source, &[sum, in_reader])).expect("it fires");
    let made = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::AllReduce);
    assert_eq!(made.count(), 1);
}

#[test]
fn programs_that_are_yet_to_be_divided_stay() {
    let annotated = [
        ("HloModule loops", "HloModule loops, num_partitions=2"),
        ("%a = s32[4] parameter(0)", "%a = s32[4] parameter(0), sharding={devices=[2]<=[2]}"),
    ];
    assert!(find(&replaced(&loops(12, 2, false), &annotated)).is_empty());
}
