//! Sums behind scatters: XLA takes `add(other, scatter(..))` into the scatter, and loops must follow it to keep the bits.

// Tests: `passes/tests/chunk_grades.rs`.

use hlo_ir::graph::{self, Users};
use hlo_ir::{InstructionId, Module, Opcode};

use super::sink::{Kind, Sink, Sum, Term};
use crate::flow::{Sources, adds_floats, is_summed_again, is_summed_elsewhere, takes_sums_on_cpu};
use crate::{Context, Grade};

/// Decides for each sink what becomes of the sum behind it. Taking it in keeps the bits and saves an array of the operand's size; but
/// when the other operand needs another sink of equal row count, the two can no longer share a loop. Then the sum stays, unless only
/// equal bits are allowed. Short floats are left as XLA:CPU leaves them; what other compilers do with these is not known, but a sum of them behind
/// a loop is no `bitwise` in any case.
pub(super) fn settle_sums(context: &Context<'_>, sinks: &mut [Sink]) {
    let (module, users, exactness) = (context.module, context.users, context.options.exactness);
    for index in 0..sinks.len() {
        let scatter = sinks[index].inst;
        let Some(term) = sum_behind(module, users, scatter) else {
            if is_summed_elsewhere(module, users, scatter) {
                sinks[index].sum = Sum::Inexact;
            }
            continue;
        };
        // A scatter whose result is written block by block is no accumulator that could start from the sum.
        if !matches!(sinks[index].kind, Kind::Scatter { .. }) {
            sinks[index].sum = Sum::Inexact;
            continue;
        }
        if !takes_sums_on_cpu(module, scatter) {
            continue;
        }
        let below = graph::cone(module, [term.other]);
        let sharing = |other: &Sink| other.rows == sinks[index].rows && below[other.inst];
        sinks[index].sum = if sum_behind(module, users, term.other).is_some() {
            let stays = updates(module, scatter) + updates(module, term.other) >= elements(module, term.add);
            if stays { Sum::Behind(term.other) } else { Sum::Inexact }
        } else if exactness > Grade::Bitwise && sinks.iter().any(sharing) {
            Sum::Inexact
        } else {
            let is_taken_in = !Sources::of(module).may_be_summed_scatter(users, term.other)
                && !is_summed_again(module, users, term.add);
            Sum::Inside(Term { is_taken_in, ..term })
        };
    }
}

fn elements(module: &Module, id: InstructionId) -> u64 {
    module.instruction(id).array().and_then(hlo_ir::ArrayShape::elements).unwrap_or(0)
}

/// Elements of the updates of a scatter with one operand.
fn updates(module: &Module, scatter: InstructionId) -> u64 {
    module.instruction(scatter).operands.get(2).map_or(0, |&id| elements(module, id))
}

/// The sum that XLA would take into `scatter`: floats, a combiner that adds, and an `add` as only user.
fn sum_behind(module: &Module, users: &Users, scatter: InstructionId) -> Option<Term> {
    let &[add] = users.get(scatter) else { return None };
    let sum = module.instruction(add);
    let &[left, right] = sum.operands.as_slice() else { return None };
    let other = if left == scatter { right } else { left };
    let only = sum.opcode == Opcode::Add && other != scatter && !is_root(module, scatter);
    (only && adds_floats(module, scatter)).then_some(Term { add, other, is_taken_in: true })
}

fn is_root(module: &Module, id: InstructionId) -> bool {
    module.computation(module.instruction(id).parent).root == id
}
