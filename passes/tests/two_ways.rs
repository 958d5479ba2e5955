//! The manager chooses among ways to compute the same again.
//!
//! Pins `passes/src/manager.rs`.

use crate::common::{LargestArray, module};
use crate::manager::{TWO_PEAKS, options, rows_left, rows_of_four, shrink, shrink_and};
use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, Attribute, Instruction, InstructionId, Module, Opcode};
use hlo_memory::Target;
use hlo_passes::manager::run;
use hlo_passes::{Context, Finding, Objective, Options, Pass, PassKind};

/// Two ways to compute the same again: one leaves so many rows, the other 1000 and a product of them, which takes longer.
struct TwoWays(i64);

impl Pass for TwoWays {
    fn name(&self) -> &'static str {
        "two-ways"
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
        let slow = shrink_and(module, root, 1000, "slow", |patch, rows| product(patch, module, rows));
        vec![slow, shrink(module, root, self.0, "quick")]
    }
}

/// A product of rows with themselves.
fn product(patch: &mut Patch, module: &Module, rows: InstructionId) -> InstructionId {
    let dot = Instruction::new("product", rows_of_four(4), Opcode::Dot, [rows, rows])
        .with(Attribute::ints(AttrKey::LhsContractingDims, [0]))
        .with(Attribute::ints(AttrKey::RhsContractingDims, [0]));
    patch.add(module.entry(), dot)
}

/// A hundredth of 4096 rows is 41: a rough estimate does not tell whether they are saved.
#[test]
fn of_two_ways_that_save_as_much_the_faster_one_is_taken() {
    let made = |rows: i64| {
        let options = Options { target: Target::Gpu, objective: Objective::Memory, machine: None, ..options(1) };
        let passes: [Box<dyn Pass>; 1] = [Box::new(TwoWays(rows))];
        let report = run(&mut module(TWO_PEAKS), &passes, &options, &LargestArray).expect("the passes are sound");
        report.rewrites.into_iter().map(|rewrite| rewrite.note).collect::<Vec<_>>()
    };
    assert_eq!(made(1040), ["quick"]);
    assert_eq!(made(1041), ["slow"]);
}
