//! Decisions that loops could take differently.
//!
//! What several loops compute on different blocks can round differently in each. A comparison, a rounding or the like behind it could then
//! decide differently: `d == max(d)` might find no element at all. Smooth functions only pass on a small difference.

use crate::hash::IndexSet;
use hlo_ir::arena::SideTable;
use hlo_ir::literal::Literal;
use hlo_ir::{AttrKey, ElementType, Instruction, InstructionId, Module, Opcode};

use super::dim_propagation::Flow;
use super::graph::Graph;
use super::inputs;
use super::loop_partition::Plan;
use crate::chunk::region::Region;
use crate::flow::first_array;

/// Whether something is computed on different blocks in several loops, where it can round differently, and comparisons, roundings or the like
/// behind it could then decide what they decide in no program that computes it once.
///
/// One loop may decide, by what it computes itself: such a program decides the same with this loop's numbers, from which those of other loops
/// differ by rounding only. (The gradient of a `relu` asks where its operand, made again, is above zero.)
pub(super) fn recomputes_branch_input(flow: &Flow<'_, '_>, plan: &Plan, regions: &[Region]) -> bool {
    let (graph, module) = (flow.graph, flow.context.module);
    let twice = rounded_twice(module, regions);
    let is_member = |op: InstructionId| graph.results(op).iter().any(|value| plan.members.contains_key(value));
    let tainted = tainted(graph, &twice, is_member);
    let decides = |&op: &InstructionId| {
        let below = graph.operands(op).iter().any(|&operand| tainted[graph.op(operand)]);
        is_member(op) && below && is_discontinuous(module, op)
    };
    let deciding: Vec<InstructionId> = graph.ops.iter().copied().filter(decides).collect();
    let Some(&first) = deciding.first() else { return false };
    let made: Vec<_> = (0..regions.len()).map(|at| made_by(graph, plan, &regions[at], at)).collect();
    let Some(place) = made.iter().position(|made| made[first]) else { return true };
    let elsewhere = |op: InstructionId| made.iter().enumerate().any(|(at, made)| made[op] != (at == place));
    deciding.iter().any(|&op| elsewhere(op)) || asks_others(graph, &twice, &made[place], &regions[place], &deciding)
}

/// What a loop computes, its results included.
fn made_by(graph: &Graph<'_>, plan: &Plan, region: &Region, at: usize) -> SideTable<InstructionId, bool> {
    let mut made = SideTable::new(false);
    for op in region.computed(graph.module).chain(plan.loops[at].iter().map(|sink| graph.op(sink.inst))) {
        made.set(op, true);
    }
    made
}

/// What can round differently in two of the regions.
fn rounded_twice(module: &Module, regions: &[Region]) -> SideTable<InstructionId, bool> {
    let mut seen = IndexSet::default();
    let mut twice = SideTable::new(false);
    for region in regions {
        for op in region.rounded(module) {
            if !seen.insert(op) {
                twice.set(op, true);
            }
        }
    }
    twice
}

/// What depends on such instructions by way of those that `passes` names.
fn tainted(
    graph: &Graph<'_>,
    twice: &SideTable<InstructionId, bool>,
    passes: impl Fn(InstructionId) -> bool,
) -> SideTable<InstructionId, bool> {
    let mut tainted = twice.clone();
    for &op in &graph.ops {
        let below = passes(op) && graph.operands(op).iter().any(|&operand| tainted[graph.op(operand)]);
        tainted.set(op, tainted[op] || below);
    }
    tainted
}

/// Whether some of `deciding` depend on numbers that stand in memory when their loop begins, and that other loops made of what `twice` tells.
/// `made`: what the loop itself computes.
fn asks_others(
    graph: &Graph<'_>,
    twice: &SideTable<InstructionId, bool>,
    made: &SideTable<InstructionId, bool>,
    region: &Region,
    deciding: &[InstructionId],
) -> bool {
    let everywhere = tainted(graph, twice, |_| true);
    let read: IndexSet<InstructionId> = inputs(region).map(|value| value.inst).collect();
    let mut foreign = SideTable::new(false);
    for &op in &graph.ops {
        let asks = |&operand: &InstructionId| {
            let maker = graph.op(operand);
            if made[maker] && !read.contains(&operand) { foreign[maker] } else { everywhere[maker] }
        };
        let asks = graph.operands(op).iter().any(asks);
        foreign.set(op, asks);
    }
    deciding.iter().any(|&op| foreign[op])
}

/// Whether a small change of an operand can change the result by much.
fn is_discontinuous(module: &Module, op: InstructionId) -> bool {
    let inst = module.instruction(op);
    match inst.opcode {
        Opcode::Floor
        | Opcode::Ceil
        | Opcode::RoundNearestAfz
        | Opcode::RoundNearestEven
        | Opcode::Sign
        | Opcode::Remainder
        | Opcode::Sort
        | Opcode::TopK
        | Opcode::SelectAndScatter => true,
        Opcode::Reduce => inst.operands.len() > 2,
        // Where this changes, its operand has changed by much already.
        Opcode::IsFinite => false,
        Opcode::Compare if is_foregone(module, inst) => false,
        // Comparisons, and conversions to integers.
        _ => !is_float(&inst.shape) && inst.operands.iter().any(|&operand| is_float(module.shape(operand))),
    }
}

fn is_float(shape: &hlo_ir::Shape) -> bool {
    first_array(shape).is_some_and(|array| array.element_type.is_float() || array.element_type.is_complex())
}

/// Whether a comparison says the same however its operands round: what is never negative is not below zero. Gradients of absolute values
/// (in `logsumexp`, of sums of exponentials) ask that.
fn is_foregone(module: &Module, compare: &Instruction) -> bool {
    let &[left, right] = compare.operands.as_slice() else { return false };
    let zero = |id| number(module, id) == Some(0.0);
    // Of two zeros, the negative one comes first in the total order.
    compare.word(&AttrKey::CompareType) != Some("TOTALORDER")
        && match compare.word(&AttrKey::Direction) {
            Some("GE" | "LT") => zero(right) && is_never_negative(module, left),
            Some("LE" | "GT") => zero(left) && is_never_negative(module, right),
            _ => false,
        }
}

/// The number that every element is, as far as broadcasts of a constant tell.
fn number(module: &Module, mut id: InstructionId) -> Option<f64> {
    while matches!(module.instruction(id).opcode, Opcode::Broadcast | Opcode::Reshape) {
        id = *module.instruction(id).operands.first()?;
    }
    let literal = Literal::of(module.instruction(id)).filter(|literal| literal.splat().is_some())?;
    literal.floats()?.first().copied()
}

/// Whether no element is below zero, however it is rounded: each is 0 or more, or NaN.
fn is_never_negative(module: &Module, id: InstructionId) -> bool {
    use Opcode as O;
    let mut seen = IndexSet::from_iter([id]);
    let mut next = 0;
    while let Some(&id) = seen.get_index(next) {
        next += 1;
        let inst = module.instruction(id);
        let of = match (inst.opcode, inst.operands.as_slice()) {
            (O::Exponential | O::Abs | O::Logistic | O::Sqrt, _) => &[],
            (O::Multiply, [one, other]) if one == other => &[],
            (O::Convert, [of])
                if first_array(module.shape(*of)).is_some_and(|array| array.element_type == ElementType::Pred) =>
            {
                &[]
            }
            (O::Constant, _) if number(module, id) >= Some(0.0) => &[],
            (
                O::Add
                | O::Multiply
                | O::Maximum
                | O::Minimum
                | O::Concatenate
                | O::Broadcast
                | O::Reshape
                | O::Transpose
                | O::Slice
                | O::Reverse
                | O::Copy,
                of,
            )
            | (O::Select, [_, of @ ..]) => of,
            (O::Reduce, of @ [_, _]) if keeps_sign(module, inst) => of,
            _ => return false,
        };
        if !is_float(&inst.shape) {
            return false;
        }
        seen.extend(of.iter().copied());
    }
    true
}

/// Whether a combiner makes numbers of 0 or more of such numbers.
fn keeps_sign(module: &Module, reduce: &Instruction) -> bool {
    let Some(combiner) = reduce.computation(&AttrKey::ToApply) else { return false };
    let root = module.instruction(module.computation(combiner).root);
    matches!(root.opcode, Opcode::Add | Opcode::Multiply | Opcode::Maximum | Opcode::Minimum)
        && root.operands.iter().all(|&id| module.instruction(id).opcode == Opcode::Parameter)
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// Whether the comparison `%c` of some lines can change by much.
    fn decides(lines: &str) -> bool {
        let source = format!(
            "HloModule m
%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}}
%less (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] subtract(%a, %b)
}}
ENTRY %main {{
  %p = f32[8,4] parameter(0)
  %z = f32[] constant(0)
  %zs = f32[8] broadcast(%z), dimensions={{}}
  %e = f32[8,4] exponential(%p)
{lines}
}}
"
        );
        let module = text::parse(&source).expect("legal text");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        is_discontinuous(&module, module.computation(module.entry()).root)
    }

    #[test]
    fn sums_of_exponentials_are_not_below_zero() {
        let lines = "  %s = f32[8] reduce(%e, %z), dimensions={1}, to_apply=%sum
  ROOT %c = pred[8] compare(%s, %zs), direction=GE";
        assert!(!decides(lines));
        assert!(!decides(&lines.replace("GE", "LT")));
        assert!(!decides(&lines.replace("compare(%s, %zs), direction=GE", "compare(%zs, %s), direction=LE")));
        for (old, new) in [
            ("GE", "GT"),
            ("GE", "EQ"),
            ("GE", "GE, type=TOTALORDER"),
            ("compare(%s, %zs)", "compare(%zs, %s)"),
            ("reduce(%e", "reduce(%p"),
            ("to_apply=%sum", "to_apply=%less"),
            ("compare(%s, %zs)", "compare(%s, %s)"),
        ] {
            assert!(lines.contains(old) && decides(&lines.replace(old, new)), "{new}");
        }
    }

    #[test]
    fn numbers_of_either_sign_decide() {
        let with = |made: &str| {
            decides(&format!(
                "  %q = f32[8,4] {made}
  %t = f32[8] reduce(%q, %z), dimensions={{1}}, to_apply=%sum
  %one = f32[] constant(1)
  %ones = f32[8] broadcast(%one), dimensions={{}}
  %m = f32[8] maximum(%t, %ones)
  ROOT %c = pred[8] compare(%m, %zs), direction=GE"
            ))
        };
        for made in ["multiply(%p, %p)", "abs(%p)", "multiply(%e, %e)", "add(%e, %e)"] {
            assert!(!with(made), "{made}");
        }
        for made in ["multiply(%p, %e)", "negate(%e)", "subtract(%e, %e)", "divide(%e, %e)"] {
            assert!(with(made), "{made}");
        }
    }
}
