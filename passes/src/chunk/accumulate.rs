//! Reductions and contractions along the rows: what a block adds to them, and what the loop starts from.

// Tests: `passes/tests/chunk_planner.rs`.

use hlo_ir::module::Payload;
use hlo_ir::{ArrayShape, AttrKey, Attribute, ElementType, Instruction, InstructionId, Module, Opcode, Shape};
use smol_str::{SmolStr, format_smolstr};

use super::emit::Emitter;
use super::sink::{Kind, Sink};
use crate::Grade;
use crate::recompute::insertion_point::metadata;

/// How equal a reduction or contraction stays when the results of blocks are combined: integers, minima, maxima and logical operations
/// do not depend on the order; sums and products of floats do.
pub(super) fn grade(module: &Module, sink: &Sink) -> Grade {
    let Some(array) = module.instruction(sink.inst).array() else { return Grade::Assume };
    let exact = array.element_type.is_integer() || array.element_type == ElementType::Pred;
    match (exact, combiner(module, sink)) {
        (_, None) => Grade::Assume,
        (true, _) => Grade::Bitwise,
        // XLA:CPU gives large minima and maxima of floats to a library that does not treat NaN as its own code does.
        (false, Some(Opcode::Minimum | Opcode::Maximum)) => Grade::HloExact,
        (false, Some(_)) => Grade::Reassociate,
    }
}

/// The operation that joins the results of two blocks; `None` if it is not known to be associative and commutative.
pub(super) fn combiner(module: &Module, sink: &Sink) -> Option<Opcode> {
    let inst = module.instruction(sink.inst);
    if let Kind::Contraction { .. } = sink.kind {
        return Some(if inst.array()?.element_type == ElementType::Pred { Opcode::Or } else { Opcode::Add });
    }
    if inst.operands.len() != 2 {
        return None;
    }
    let computation = inst.computation(&AttrKey::ToApply)?;
    let root = module.instruction(module.computation(computation).root);
    let numbers: Vec<_> = root.operands.iter().map(|&id| module.instruction(id).parameter_number()).collect();
    let plain = matches!(numbers.as_slice(), [Some(0), Some(1)] | [Some(1), Some(0)]);
    // A combiner that computes in another type than it is given would round between blocks.
    let same = root.array()?.element_type == inst.array()?.element_type;
    (plain && same && neutral(root.opcode, inst.array()?.element_type).is_some()).then_some(root.opcode)
}

/// What the operation leaves unchanged: the sum of nothing is -0, as +0 would turn a sum of -0 into +0.
pub(super) fn neutral(opcode: Opcode, element: ElementType) -> Option<SmolStr> {
    let float = element.is_float();
    let range = element.integer_range();
    let pred = element == ElementType::Pred;
    let text = |text: &str| Some(SmolStr::new(text));
    match opcode {
        Opcode::Add if float => text("-0"),
        Opcode::Multiply if float || range.is_some() => text("1"),
        Opcode::Minimum if float => text("inf"),
        Opcode::Maximum if float => text("-inf"),
        Opcode::Maximum => Some(range?.0.to_string().into()),
        Opcode::And if pred => text("true"),
        Opcode::Or | Opcode::Xor if pred => text("false"),
        Opcode::And if range?.0 < 0 => text("-1"),
        Opcode::And | Opcode::Minimum => Some(range?.1.to_string().into()),
        Opcode::Add | Opcode::Or | Opcode::Xor if range.is_some() => text("0"),
        _ => None,
    }
}

/// Combines the result of a block with what was accumulated so far.
pub(super) fn combine(
    emitter: &mut Emitter<'_>,
    sink: &Sink,
    so_far: InstructionId,
    blocks: &[InstructionId],
) -> InstructionId {
    let mut partial = emitter.module.instruction(sink.inst).clone();
    partial.name = format_smolstr!("{}.block", partial.name);
    partial.span = None;
    partial.operands = blocks.iter().copied().collect();
    let array = partial.array().cloned().unwrap_or_else(|| unreachable!("reductions with one input make arrays"));
    let opcode = combiner(emitter.module, sink).unwrap_or(Opcode::Add);
    if let Kind::Reduce { .. } = sink.kind {
        let text = neutral(opcode, array.element_type).unwrap_or_default();
        let shape = Shape::array(array.element_type, []);
        let start = Instruction::new("block_neutral", shape, Opcode::Constant, []);
        partial.operands.push(emitter.patch.add(emitter.target, start.with_payload(Payload::Literal(text.into()))));
    }
    let partial = emitter.add_in_order(partial);
    emitter.patch.set_origin(partial, sink.inst);
    let name = format_smolstr!("{}.so_far", emitter.module.instruction(sink.inst).name);
    let mut sum = Instruction::new(name, Shape::Array(array).into(), opcode, [so_far, partial]);
    let source = metadata(emitter.module.instruction(sink.inst));
    sum.attributes.extend(source.or_else(|| emitter.metadata.clone()));
    emitter.patch.add(emitter.target, sum)
}

/// Instructions that make the first accumulator, operands first: zeros for written arrays and contractions, the initial value for reductions,
/// which `start` is.
pub(super) fn start(
    sink: &Sink,
    array: &ArrayShape,
    start: Option<InstructionId>,
    mut add: impl FnMut(Instruction) -> InstructionId,
) -> InstructionId {
    let scalar = start.unwrap_or_else(|| {
        // The first product of a contraction is added to this.
        let text = match (array.element_type, sink.kind) {
            (ElementType::Pred, _) => "false",
            (element, _) if element.is_complex() => "(0, 0)",
            (element, Kind::Contraction { .. }) if element.is_float() => "-0",
            _ => "0",
        };
        let zero = Instruction::new("block_start_value", Shape::array(array.element_type, []), Opcode::Constant, []);
        add(zero.with_payload(Payload::Literal(text.into())))
    });
    let shape = Shape::Array(array.clone()).into();
    let empty = Instruction::new("first", shape, Opcode::Broadcast, [scalar]);
    add(empty.with(Attribute::ints(AttrKey::Dimensions, [])))
}
