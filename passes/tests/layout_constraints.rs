//! `layout-constraints`: rows that a loop reads of a large array, where devices exchange values.
//!
//! Pins `ir/src/row_major.rs`, `passes/src/layout_constraints.rs`.

use crate::common::{self, replaced};
use hlo_ir::graph::Users;
use hlo_ir::{Module, Opcode, row_major, text, verify};
use hlo_memory::{Bytes, ModelEstimator, Target, estimate};
use hlo_passes::layout_constraints::LayoutConstraints;
use hlo_passes::manager::{default_pipeline, run, run_again};
use hlo_passes::{Context, Finding, Grade, Options, Outcome, Pass, PassKind};

/// What one of four devices runs: sixteen layers, each with its part of the weights, which lie with the layers in the second dimension.
const LAYERS: &str = include_str!("layout_programs/gathered_weights.hlo");
/// The same where a function that the loop calls takes the row.
const CALLED: &str = include_str!("layout_programs/called.hlo");

fn find(module: &Module, target: Target) -> Vec<Finding> {
    let options = Options { min_saving: Bytes(1), target, ..Options::default() };
    let (users, estimate) = (Users::of(module), common::estimate(Bytes(64 << 20), Vec::new()));
    LayoutConstraints.find(&Context::of_input(module, &users, &estimate, &options))
}

fn rewritten(source: &str) -> Module {
    let mut module = common::parse(source);
    let found = find(&module, Target::Gpu);
    let [Finding { outcome: Outcome::Rewrite { patch, .. }, grade, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(*grade, Grade::HloExact);
    patch.clone().apply(&mut module).expect("the patch fits");
    assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
    module
}

fn constraints(module: &Module) -> usize {
    module.live_instructions().filter(|(_, inst)| row_major::is_constraint(inst)).count()
}

#[test]
fn rows_are_constrained_and_nothing_reads_them_otherwise() {
    for source in [LAYERS, CALLED] {
        let module = rewritten(source);
        assert_eq!(constraints(&module), 1, "{}", text::print(&module));
        let is_row = |id| module.instruction(id).opcode == Opcode::DynamicSlice;
        let mut readers = module.live_instructions().filter(|(_, inst)| inst.operands.iter().any(|&id| is_row(id)));
        assert!(readers.all(|(_, inst)| row_major::is_constraint(inst)), "{}", text::print(&module));
        assert!(find(&module, Target::Gpu).is_empty(), "it is done");
    }
}

#[test]
fn the_model_sees_nothing_of_it() {
    for target in [Target::Cpu, Target::Gpu, Target::Tpu] {
        let totals = [common::parse(LAYERS), rewritten(LAYERS)].map(|module| estimate(&module, target).unwrap().total);
        assert_eq!(totals[0], totals[1], "{target:?}");
    }
    // Another layout is one that the model would have to know.
    let other = text::print(&rewritten(LAYERS)).replace("{2,1,0} custom-call(", "{0,1,2} custom-call(");
    assert_eq!(constraints(&common::parse(&other)), 0);
}

#[test]
fn other_compilers_and_programs_without_exchange_are_left_alone() {
    let module = common::parse(LAYERS);
    assert!(find(&module, Target::Cpu).is_empty() && find(&module, Target::Tpu).is_empty());
    let gather =
        "all-gather(%part), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={1}, use_global_device_ids=true";
    let alone = replaced(LAYERS, &[(gather, "concatenate(%part, %part, %part, %part), dimensions={1}")]);
    assert!(find(&alone, Target::Gpu).is_empty());
    for header in ["HloModule layers, num_partitions=4", "HloModule layers, is_scheduled=true"] {
        assert!(find(&replaced(LAYERS, &[("HloModule layers", header)]), Target::Gpu).is_empty(), "{header}");
    }
    // A fusion is a kernel already.
    let fused = replaced(CALLED, &[("call(%w, %t), to_apply=%taken", "fusion(%w, %t), kind=kLoop, calls=%taken")]);
    assert!(find(&fused, Target::Gpu).is_empty());
}

#[test]
fn a_judge_who_takes_rewrites_away_keeps_it() {
    let options = Options { target: Target::Gpu, ..Options::default() };
    let (pipeline, model) = (default_pipeline(), ModelEstimator { target: Target::Gpu });
    let full = run(&mut common::parse(LAYERS), &pipeline, &options, &model).unwrap();
    let kept = |limit: usize| {
        let (mut module, options) = (common::parse(LAYERS), Options { bisect_limit: Some(limit), ..options.clone() });
        run_again(&mut module, &pipeline, &options, &model, &full.recording).unwrap();
        constraints(&module)
    };
    assert_eq!([kept(full.rewrites.len()), kept(full.rewrites.len() - 1), kept(0)], [1, 1, 0]);
    // The user's own limit counts it.
    let options = Options { bisect_limit: Some(full.rewrites.len() - 1), ..options };
    let mut module = common::parse(LAYERS);
    run(&mut module, &pipeline, &options, &model).unwrap();
    assert_eq!(constraints(&module), 0);
}

#[test]
fn rows_of_small_arrays_stay() {
    let options = Options { target: Target::Gpu, ..Options::default() };
    let (module, estimate) = (common::parse(LAYERS), common::estimate(Bytes(101 * (64 << 20)), Vec::new()));
    let users = Users::of(&module);
    assert!(LayoutConstraints.find(&Context::of_input(&module, &users, &estimate, &options)).is_empty());
}

#[test]
fn it_comes_behind_a_rewrite_and_never_alone() {
    let options = Options { target: Target::Gpu, ..Options::default() };
    let rewrites = |mut module: Module| {
        let model = ModelEstimator { target: Target::Gpu };
        let report = run(&mut module, &default_pipeline(), &options, &model).unwrap();
        (report.rewrites.iter().map(|rewrite| (rewrite.pass, rewrite.kind)).collect::<Vec<_>>(), constraints(&module))
    };
    let (made, rows) = rewrites(common::parse(LAYERS));
    assert_eq!(made.last(), Some(&("layout-constraints", PassKind::Speed)), "{made:?}");
    assert!(made.iter().any(|(_, kind)| *kind == PassKind::Rewrite) && rows == 1, "{made:?}");
    // Without the transpose in front of the loop there is nothing to save.
    let plain = replaced(
        LAYERS,
        &[
            ("f32[1024,16,1024]{2,1,0} parameter(1)", "f32[16,1024,1024]{2,1,0} parameter(1)"),
            ("transpose(%given), dimensions={1,0,2}", "copy(%given)"),
            ("w: f32[1024,16,1024]", "w: f32[16,1024,1024]"),
        ],
    );
    assert_eq!(rewrites(plain), (Vec::new(), 0));
}
