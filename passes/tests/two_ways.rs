//! The manager chooses among ways to compute the same again.
//!
//! Pins `passes/src/manager.rs`.

use crate::common::{LargestArray, module};
use crate::manager::{TWO_PEAKS, options, rows_left, rows_of_four, shrink_and};
use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, Attribute, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target};
use hlo_passes::manager::run;
use hlo_passes::{Context, Finding, Machine, Objective, Options, Pass, PassKind};

/// Ways to compute the same again: how many rows each leaves, and how many products of them it makes, which take time.
struct Ways(&'static [(i64, usize)]);

impl Pass for Ways {
    fn name(&self) -> &'static str {
        "ways"
    }
    fn summary(&self) -> &'static str {
        "a pass of the tests"
    }
    fn explanation(&self) -> &'static str {
        "a pass of the tests\n"
    }
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn recomputes(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        if rows_left(module) != 4096 {
            return Vec::new();
        }
        let root = module.computation(module.entry()).root;
        let way = |&(rows, products): &(i64, usize)| {
            shrink_and(module, root, rows, &format!("{rows} rows"), |patch, small| {
                (0..products).fold(small, |of, _| product(patch, module, of))
            })
        };
        self.0.iter().map(way).collect()
    }
}

/// A product of rows with themselves.
fn product(patch: &mut Patch, module: &Module, rows: InstructionId) -> InstructionId {
    let dot = Instruction::new("product", rows_of_four(4), Opcode::Dot, [rows, rows])
        .with(Attribute::ints(AttrKey::LhsContractingDims, [0]))
        .with(Attribute::ints(AttrKey::RhsContractingDims, [0]));
    patch.add(module.entry(), dot)
}

/// The way that is taken on a GPU of so little memory that programs may take any time.
fn taken(ways: &'static [(i64, usize)], objective: Objective) -> Vec<String> {
    let machine = Some(Machine { memory: Some(Bytes(1)), ..Machine::of(Target::Gpu).clone() });
    let options = Options { target: Target::Gpu, objective, machine, ..options(1) };
    let passes: [Box<dyn Pass>; 1] = [Box::new(Ways(ways))];
    let report = run(&mut module(TWO_PEAKS), &passes, &options, &LargestArray).expect("the passes are sound");
    report.rewrites.into_iter().map(|rewrite| rewrite.note).collect()
}

/// A hundredth of 4096 rows is 40.96: a rough estimate does not tell whether they are saved.
#[test]
fn of_ways_that_save_as_much_the_faster_one_is_taken() {
    assert_eq!(taken(&[(1000, 1), (1040, 0)], Objective::Balanced), ["1040 rows"]);
    assert_eq!(taken(&[(1040, 0), (1000, 1)], Objective::Balanced), ["1040 rows"], "whichever comes first");
    assert_eq!(taken(&[(1000, 1), (1041, 0)], Objective::Balanced), ["1000 rows"]);
    assert_eq!(taken(&[(1000, 0), (1040, 1)], Objective::Balanced), ["1000 rows"]);
}

#[test]
fn what_is_negligible_does_not_add_up_over_several_ways() {
    assert_eq!(taken(&[(1000, 2), (1040, 1), (1080, 0)], Objective::Balanced), ["1040 rows"]);
    assert_eq!(taken(&[(1040, 1), (1000, 2), (1080, 0)], Objective::Balanced), ["1040 rows"]);
}

#[test]
fn the_lowest_way_is_taken_where_time_does_not_count() {
    assert_eq!(taken(&[(1000, 1), (1040, 0)], Objective::Memory), ["1000 rows"]);
}
