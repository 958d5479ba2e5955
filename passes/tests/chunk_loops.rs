//! `chunk`: loops over time or layers whose rows are independent, cut into blocks of rows with all that happens between them, and sums over the rows that go on
//! from block to block (micro-batches).
//!
//! Pins `passes/src/chunk.rs`, `passes/src/chunk/row_order.rs`, `passes/src/chunk/seeded_planner/loop_price.rs`, `passes/src/loops.rs`, `passes/src/loops/row_form.rs`,
//! `passes/src/loops/row_loop.rs`, `passes/src/loops/row_roles.rs`, `passes/src/loops/row_sums.rs`, `passes/src/loops/row_trace.rs`.

use hlo_ir::{ArrayShape, Instruction, Module, Opcode, text, verify};
use hlo_memory::{Bytes, Target};
use hlo_passes::{Grade, Options};

use crate::chunking::assert_same_results;
use crate::chunking::seeded_planner::{apply, largest, offers_with};
use crate::common::{parse, replaced};
use crate::interpreter::random::Random;

/// A scan, and its gradient: sums over the rows for all steps, and for each step one.
const GRADIENT: &str = include_str!("scan_programs/gradient.hlo");

/// What `chunk` offers where memory is short: the module behind each offer, and what is said of it.
fn offered(module: &Module, exactness: Grade) -> Vec<(Module, String)> {
    offered_for(Target::Cpu, module, exactness)
}

fn offered_for(target: Target, module: &Module, exactness: Grade) -> Vec<(Module, String)> {
    let options = Options {
        target,
        chunk_bytes: Some(Bytes(1)),
        min_saving: Bytes(1),
        budget: Some(Bytes::ZERO),
        exactness,
        ..Options::default()
    };
    let found = offers_with(module, &options, largest(module));
    let applied = |finding| {
        let mut after = module.clone();
        let note = apply(&mut after, finding);
        assert_eq!(verify::verify(&after), [], "{}", text::print(&after));
        (after, note)
    };
    found.into_iter().map(applied).collect()
}

/// Whether a loop of the entry sums over rows in blocks: both loops of the program are inside.
fn is_one_loop(module: &Module) -> bool {
    let of_entry = module.instructions_of(module.entry());
    of_entry.filter(|(_, inst)| inst.opcode == Opcode::While).count() == 1
}

/// Whether no array of all rows of all steps is computed outside of loops.
fn spares_stacks(module: &Module) -> bool {
    let is_stack = |inst: &hlo_ir::Instruction| inst.array().is_some_and(|array| array.dims[..] == [5, 6, 4]);
    let mut of_entry = module.instructions_of(module.entry());
    of_entry.all(|(_, inst)| inst.opcode == Opcode::Parameter || !is_stack(inst))
}

#[test]
fn a_whole_step_runs_in_blocks_of_rows() {
    let before = parse(GRADIENT);
    let found = offered(&before, Grade::Bitwise);
    let whole = |(after, note): &(Module, String)| note.starts_with("6 blocks of 1 rows") && spares_stacks(after);
    assert!(found.iter().any(|offer| whole(offer) && is_one_loop(&offer.0)), "{found:?}");
    for (after, _) in &found {
        assert_same_results(&before, after, 1);
    }
}

/// XLA:GPU would copy all examples into the order in which a loop wants its blocks of them, if it saw that they are blocks.
#[test]
fn examples_in_the_order_of_the_input_are_read_as_a_matrix_on_gpu() {
    let examples_first = [
        ("main (xs: s32[5,6,4]", "main (examples: s32[6,5,4]"),
        (
            "  %xs = s32[5,6,4] parameter(0)",
            "  %examples = s32[6,5,4] parameter(0)\n  %xs = s32[5,6,4] transpose(%examples), dimensions={1,0,2}",
        ),
    ];
    let before = replaced(GRADIENT, &examples_first);
    for (target, rank) in [(Target::Cpu, 3), (Target::Gpu, 2)] {
        let in_rows = |(after, note): &(Module, String)| note.starts_with("6 blocks of 1 rows") && is_one_loop(after);
        let (after, _) = offered_for(target, &before, Grade::Bitwise).into_iter().find(in_rows).expect("it is offered");
        let mut transposed = after.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Transpose);
        let (_, transpose) = transposed.next().expect("the loop wants the steps first");
        let below = |id| match after.instruction(id) {
            Instruction { opcode: Opcode::Reshape, operands, .. } => operands[0],
            _ => id,
        };
        let read = after.instruction(below(transpose.operands[0]));
        assert_eq!((read.opcode, read.array().map(ArrayShape::rank)), (Opcode::DynamicSlice, Some(rank)));
        assert_same_results(&before, &after, 1);
    }
}

/// Floats are summed in another order.
#[test]
fn sums_of_floats_are_asked_for() {
    let before = parse(include_str!("scan_programs/floats.hlo"));
    let notes = |grade| offered(&before, grade).into_iter().map(|(_, note)| note).collect::<Vec<_>>();
    let in_rows = |note: &String| note.starts_with("6 blocks of 1 rows");
    assert!(!notes(Grade::HloExact).iter().any(in_rows));
    assert!(notes(Grade::Reassociate).iter().any(in_rows));
    for (after, _) in offered(&before, Grade::Reassociate) {
        assert_same_results(&before, &after, 3);
    }
}

/// Each of these needs more than its own rows, or does more with a sum than to add to it.
#[test]
fn loops_that_look_at_other_rows_or_at_sums_stay() {
    let changes: [(&str, &[(&str, &str)]); 11] = [
        (
            "only the first rows are summed up",
            &[
                ("reduce(%g.5, %zero.5)", "reduce(%first.5, %zero.5)"),
                ("  %sum.5 =", "  %first.5 = s32[3,4] slice(%g.5), slice={[0:3], [0:4]}\n  %sum.5 ="),
            ],
        ),
        (
            "a quotient of integers is added",
            &[
                ("add(%dw.5, %product.5)", "add(%dw.5, %quotient.5)"),
                (
                    "  %dw.6 =",
                    "  %three.5 = s32[] constant(3)\n  %threes.5 = s32[4,4] broadcast(%three.5), dimensions={}\n  \
                     %quotient.5 = s32[4,4] divide(%product.5, %threes.5)\n  %dw.6 =",
                ),
            ],
        ),
        (
            "a sum is doubled",
            &[(
                "%dw.6 = s32[4,4] add(%dw.5, %product.5)",
                "%double.5 = s32[4,4] add(%dw.5, %dw.5)\n  %dw.6 = s32[4,4] add(%double.5, %product.5)",
            )],
        ),
        (
            "a sum is squared",
            &[
                ("add(%dw.5, %product.5)", "add(%dw.5, %square.5)"),
                ("  %dw.6 =", "  %square.5 = s32[4,4] multiply(%product.5, %product.5)\n  %dw.6 ="),
            ],
        ),
        (
            "a number joins each sum",
            &[
                ("add(%dw.5, %product.5)", "add(%dw.5, %more.5)"),
                ("  %dw.6 =", "  %more.5 = s32[4,4] add(%product.5, %w.5)\n  %dw.6 ="),
            ],
        ),
        ("a sum is looked at", &[("%gw.5 = s32[6,4] dot(%g.5, %w.5)", "%gw.5 = s32[6,4] dot(%g.5, %dw.5)")]),
        (
            "a row of sums is looked at",
            &[
                (
                    "  %gw.5 =",
                    "  %other.5 = s32[1,4] dynamic-slice(%db.5, %zero.5, %zero.5), dynamic_slice_sizes={1,4}\n  %few.5 = s32[4] reshape(%other.5)\n  %all.5 = s32[6,4] broadcast(%few.5), dimensions={1}\n  %gw.5 =",
                ),
                ("%g.6 = s32[6,4] add(%gw.5, %h.5)", "%g.6 = s32[6,4] add(%gw.5, %all.5)"),
            ],
        ),
        (
            "rows are written over something else",
            &[(
                "%sums = s32[5,4] broadcast(%zero), dimensions={}",
                "%five = s32[] constant(5)\n  %sums = s32[5,4] broadcast(%five), dimensions={}",
            )],
        ),
        (
            "one row is written again and again",
            &[(
                "dynamic-update-slice(%db.5, %sums.5, %at.5, %zero.5)",
                "dynamic-update-slice(%db.5, %sums.5, %zero.5, %zero.5)",
            )],
        ),
        ("a sum begins with one", &[("%sum.5 = s32[4] reduce(%g.5, %zero.5)", "%sum.5 = s32[4] reduce(%g.5, %one.5)")]),
        ("the largest is kept", &[("ROOT %c = s32[] add(%a, %b)", "ROOT %c = s32[] maximum(%a, %b)")]),
    ];
    for (why, changes) in changes {
        let before = replaced(GRADIENT, changes);
        assert_eq!(verify::verify(&before), [], "{why}");
        for (after, note) in offered(&before, Grade::Reassociate) {
            assert_same_results(&before, &after, 2);
            assert!(!(is_one_loop(&after) && spares_stacks(&after)), "{why}: {note}");
        }
    }
}

/// A block would send as often as there are blocks.
#[test]
fn loops_that_talk_to_other_devices_stay() {
    let changes = [
        ("dot(%g.5, %w.5)", "dot(%g.5, %far.5)"),
        (
            "  %gw.5 =",
            "  %far.5 = s32[4,4] call(%w.5), to_apply=%far, frontend_attributes={inlineable=\"false\"}\n  %gw.5 =",
        ),
        (
            "%fewer (state.1",
            "%far (near.6: s32[4,4]) -> s32[4,4] {\n  %near.6 = s32[4,4] parameter(0)\n  \
             ROOT %sent.6 = s32[4,4] collective-permute(%near.6), source_target_pairs={{0,1},{1,0}}\n}\n\n%fewer (state.1",
        ),
    ];
    let before = replaced(GRADIENT, &changes);
    assert_eq!(verify::verify(&before), []);
    let calls = |module: &Module| module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Call).count();
    let found = offered(&before, Grade::Bitwise);
    assert!(!found.is_empty() && found.iter().all(|(after, _)| calls(after) == 1), "a loop was written again");
}

/// Blocks of rows that lie across devices would be fetched from all of them.
#[test]
fn loops_whose_rows_lie_across_devices_stay() {
    let whole = |name: &str| (format!("parameter({name})"), format!("parameter({name}), sharding={{replicated}}"));
    let (w, h) = (whole("1"), whole("2"));
    let annotated = [
        ("HloModule scan_gradient", "HloModule scan_gradient, num_partitions=2"),
        ("%xs = s32[5,6,4] parameter(0)", "%xs = s32[5,6,4] parameter(0), sharding={replicated}"),
        (w.0.as_str(), w.1.as_str()),
        (h.0.as_str(), h.1.as_str()),
    ];
    let inside = |dims: &str| ("add(%hw.2, %x.2)", format!("add(%hw.2, %x.2), sharding={{devices={dims}<=[2]}}"));
    let in_rows = |(_, note): &(Module, String)| note.starts_with("6 blocks of 1 rows");
    for (dims, is_offered) in [("[1,2]", true), ("[2,1]", false)] {
        let (old, new) = inside(dims);
        let module = replaced(GRADIENT, &[&annotated[..], &[(old, new.as_str())]].concat());
        assert_eq!(offered(&module, Grade::Bitwise).iter().any(in_rows), is_offered, "{dims}");
    }
}

/// One sum of an inner loop goes on from that of the outer one, another begins anew in each of its steps, or goes on as well.
#[test]
fn loops_in_loops_run_in_blocks_too() {
    let in_rows = |(after, note): &(Module, String)| note.starts_with("6 blocks of 1 rows") && spares_stacks(after);
    let through_both = [("%dw.3, %zeros.3)", "%dw.3, %all.3)"), ("%more.3, %sum.3)", "%more.3, %part.3)")];
    for changes in [&[][..], &through_both] {
        let before = replaced(include_str!("scan_programs/nested.hlo"), changes);
        let found = offered(&before, Grade::Bitwise);
        assert!(found.iter().any(in_rows), "{:?}", found.iter().map(|(_, note)| note).collect::<Vec<_>>());
        for (after, _) in &found {
            assert_same_results(&before, after, 4);
        }
    }
    let changes: [(&str, &[(&str, &str)]); 6] = [
        (
            "the inner loop looks at the sum",
            &[(
                "%h.1 = s32[6,4] add(%g.1, %x.1)",
                "%h.1 = s32[6,4] dot(%g.1, %dw.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            )],
        ),
        (
            "the outer loop looks at a sum",
            &[
                ("tuple(%next.3, %h.3, %xs.3", "tuple(%next.3, %other.3, %xs.3"),
                (
                    "  %twice.3 =",
                    "  %other.3 = s32[6,4] dot(%h.3, %part.3), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  %twice.3 =",
                ),
            ],
        ),
        (
            "a sum begins with something in each step",
            &[
                ("tuple(%zero.3, %g.3, %x.3, %dw.3, %zeros.3)", "tuple(%zero.3, %g.3, %x.3, %dw.3, %ones.3)"),
                ("%zeros.3 = s32[4,4] broadcast(%zero.3)", "%ones.3 = s32[4,4] broadcast(%one.3)"),
            ],
        ),
        ("a sum goes on from another", &[("%xs.3, %more.3, %sum.3)", "%xs.3, %sum.3, %sum.3)")]),
        (
            "a sum is added to what begins with it",
            &[
                ("tuple(%zero.3, %g.3, %x.3, %dw.3, %zeros.3)", "tuple(%zero.3, %g.3, %x.3, %zeros.3, %all.3)"),
                ("%xs.3, %more.3, %sum.3)", "%xs.3, %grown.3, %sum.3)"),
                ("  %twice.3 =", "  %grown.3 = s32[4,4] add(%dw.3, %more.3)\n  %twice.3 ="),
            ],
        ),
        ("sums change places", &[("%xs.3, %more.3, %sum.3)", "%xs.3, %sum.3, %more.3)")]),
    ];
    for (why, changes) in changes {
        let before = replaced(include_str!("scan_programs/nested.hlo"), changes);
        assert_eq!(verify::verify(&before), [], "{why}");
        let found = offered(&before, Grade::Reassociate);
        assert!(!found.iter().any(in_rows), "{why}");
        for (after, _) in &found {
            assert_same_results(&before, after, 5);
        }
    }
}

/// How a body may go on with its sum, with its rows, and where it may write: some of these look at nothing but their own rows and are linear in sums over them.
const SUMS: [&str; 8] = [
    "%dw.6 = s32[4,4] add(%dw.5, %product.5)",
    "%negative.5 = s32[4,4] negate(%product.5)\n  %dw.6 = s32[4,4] add(%negative.5, %dw.5)",
    "%turned.5 = s32[4,4] transpose(%product.5), dimensions={1,0}\n  %dw.6 = s32[4,4] add(%dw.5, %turned.5)",
    "%scaled.5 = s32[4,4] multiply(%w.5, %product.5)\n  %dw.6 = s32[4,4] add(%dw.5, %scaled.5)",
    "%once.5 = s32[4,4] add(%dw.5, %product.5)\n  %dw.6 = s32[4,4] add(%product.5, %once.5)",
    "%squared.5 = s32[4,4] multiply(%product.5, %product.5)\n  %dw.6 = s32[4,4] add(%dw.5, %squared.5)",
    "%less.5 = s32[4,4] subtract(%product.5, %w.5)\n  %dw.6 = s32[4,4] add(%dw.5, %less.5)",
    "%of_h.5 = s32[4,4] dot(%h.5, %h.5), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n  %dw.6 = s32[4,4] add(%dw.5, %of_h.5)",
];
const ROWS: [&str; 6] = [
    "%g.6 = s32[6,4] add(%gw.5, %h.5)",
    "%g.6 = s32[6,4] multiply(%gw.5, %g.5)",
    "%g.6 = s32[6,4] reverse(%gw.5), dimensions={0}",
    "%g.6 = s32[6,4] reverse(%gw.5), dimensions={1}",
    "%g.6 = s32[6,4] dot(%h.5, %dw.5), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "%g.6 = s32[6,4] iota(), iota_dimension=0",
];
const PLACES: [&str; 3] = ["%db.5, %sums.5, %at.5", "%db.5, %sums.5, %t.5", "%db.5, %sums.5, %zero.5"];

#[test]
fn random_loops_give_the_same_results() {
    let (mut in_one_loop, mut other) = (0, 0);
    for seed in 0..150 {
        let mut random = Random(seed);
        let changes = [SUMS[0], ROWS[0], PLACES[0]].into_iter();
        let changes = changes.zip([random.pick(&SUMS), random.pick(&ROWS), random.pick(&PLACES)]);
        let before = replaced(GRADIENT, &changes.collect::<Vec<_>>());
        assert_eq!(verify::verify(&before), [], "{}", text::print(&before));
        let found = offered(&before, Grade::Reassociate);
        for (after, _) in &found {
            assert_same_results(&before, after, seed);
        }
        *if found.iter().any(|(after, _)| is_one_loop(after)) { &mut in_one_loop } else { &mut other } += 1;
    }
    assert!(in_one_loop > 15 && other > 15, "{in_one_loop} and {other}");
}
