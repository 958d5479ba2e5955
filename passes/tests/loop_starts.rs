//! `loop-starts`: the arrays that loops fill are made when the loops begin.
//!
//! Pins `passes/src/loop_starts.rs`, `passes/src/recompute/tie.rs`.

use crate::common;

use hlo_ir::graph::Users;
use hlo_ir::{Module, Opcode, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::loop_starts::LoopStarts;
use hlo_passes::{Context, Finding, Grade, Options, Outcome, Pass};

fn find(module: &Module, target: Target) -> Vec<Finding> {
    let options = Options { min_saving: Bytes(1), target, ..Options::default() };
    let (users, estimate) = (Users::of(module), common::estimate(Bytes(0), Vec::new()));
    LoopStarts.find(&Context::of_input(module, &users, &estimate, &options))
}

/// The module with the only change that is found.
fn rewritten(target: Target) -> Module {
    let mut module = common::parse(RECURRENCES);
    let found = find(&module, target);
    let [Finding { outcome: Outcome::Rewrite { patch, .. }, grade, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(*grade, Grade::Bitwise);
    patch.clone().apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    module
}

/// Recurrences of which each goes through all steps of the one before.
const RECURRENCES: &str = include_str!("../../corpus/loop-starts-small/fires-recurrences.before.hlo");

#[test]
fn what_a_loop_writes_over_waits_for_what_else_it_starts_from() {
    for (target, opcode) in [(Target::Cpu, Opcode::Select), (Target::Gpu, Opcode::OptBarrier)] {
        let module = rewritten(target);
        let ties = module.live_instructions().filter(|(_, inst)| inst.opcode == opcode).count();
        assert_eq!(ties, 2, "the first loop starts from inputs alone: {}", text::print(&module));
        assert!(find(&module, target).is_empty(), "it waits already");
    }
    assert!(find(&common::parse(RECURRENCES), Target::Tpu).is_empty(), "XLA:TPU makes zeros for each loop");
}

/// Of two equal numbers XLA's front end takes one, whatever the predicate says, and the zeros would wait no longer.
#[test]
fn zeros_are_told_apart_from_what_stands_in_for_them() {
    let module = rewritten(Target::Cpu);
    for (_, select) in module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Select) {
        let [instead, zero] = [1, 2].map(|at| module.instruction(select.operands[at]).literal().map(str::trim));
        assert_eq!((instead, zero), (Some("1"), Some("0")));
    }
}

#[test]
fn one_loop_that_starts_from_inputs_stays() {
    let one = common::parse(include_str!("../../corpus/loop-starts-small/keeps-inputs.before.hlo"));
    assert!(find(&one, Target::Cpu).is_empty());
}

#[test]
fn programs_that_are_yet_to_be_divided_stay() {
    let module = common::replaced(RECURRENCES, &[("HloModule jit_net, ", "HloModule jit_net, num_partitions=2, ")]);
    assert_eq!([Target::Cpu, Target::Gpu].map(|target| find(&module, target).len()), [0, 0]);
}
