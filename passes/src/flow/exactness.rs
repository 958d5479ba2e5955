//! What re-emitting an instruction on a block does to the last bits of its result, whether XLA would fuse it into its users, and which
//! products of floats a compiler may join with which sums.
//!
//! A product that is computed in one kernel with a sum becomes one operation with one rounding. The graph alone does not say what shares
//! a kernel, so whoever moves one of the two without the other can change a last bit.

// Tests: `passes/tests/chunk_grades.rs`, `tests/accuracy.rs`.

use crate::hash::IndexSet;
use hlo_ir::{AttrKey, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode};
use hlo_memory::excess::FEWEST_ELEMENTS;

use super::first_array;
use crate::Grade;

/// How equal the result stays when `inst` is computed block by block: integer work, data movement and elementwise operations keep
/// every bit; a float reduction, contraction or transform leaves its inner order to the backend, which can choose by shape.
pub fn exactness(module: &Module, inst: &Instruction) -> Grade {
    let inexact = |element: ElementType| element.is_float() || element.is_complex();
    let float = first_array(&inst.shape).is_none_or(|array| inexact(array.element_type));
    let depends_on_order = match inst.opcode {
        Opcode::Dot | Opcode::Convolution | Opcode::TopK => float,
        Opcode::Fft | Opcode::Cholesky | Opcode::TriangularSolve => true,
        // XLA:CPU gives large minima and maxima of floats to a library that does not treat NaN as its own code does.
        Opcode::Reduce | Opcode::ReduceWindow => combines(module, inst, &AttrKey::ToApply, &EXACT),
        Opcode::Scatter => combines(module, inst, &AttrKey::ToApply, &SELECTING),
        Opcode::SelectAndScatter => combines(module, inst, &AttrKey::ScatterComputation, &SELECTING),
        // Equal keys of an unstable sort may come out in another order.
        Opcode::Sort => inst.operands.len() > 1 && !inst.flag(&AttrKey::IsStable),
        Opcode::While | Opcode::Call => inst
            .called_computations()
            .any(|called| module.instructions_of(called).any(|(_, inner)| exactness(module, inner) > Grade::Bitwise)),
        _ => false,
    };
    if depends_on_order { Grade::HloExact } else { Grade::Bitwise }
}

/// Whether an opcode multiplies arrays and sums up.
pub const fn is_product(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Dot | Opcode::Convolution)
}

/// The same, where last bits of elementwise functions count too: see [`is_sensitive`].
pub fn exactness_on_blocks(module: &Module, inst: &Instruction) -> Grade {
    let calls = matches!(inst.opcode, Opcode::While | Opcode::Call);
    let sensitive = is_sensitive(inst) || (calls && calls_sensitive(module, inst));
    if sensitive { Grade::HloExact } else { exactness(module, inst) }
}

/// Whether something that a loop or call runs, loops and calls inside included, is sensitive.
fn calls_sensitive(module: &Module, inst: &Instruction) -> bool {
    let mut called: IndexSet<ComputationId> = inst.called_computations().collect();
    let mut next = 0;
    while let Some(&computation) = called.get_index(next) {
        next += 1;
        for (_, inner) in module.instructions_of(computation) {
            if is_sensitive(inner) {
                return true;
            }
            called.extend(inner.called_computations());
        }
    }
    false
}

/// Whether XLA:CPU computes a function of floats by code whose last bits depend on how many numbers a kernel has (measured by
/// `tests/referee/functions.py`): `erf` of a million numbers differs in 0.2 to 1 % of them where a kernel computes 65,536 at a time, `tan` and `cbrt` in a
/// third of them in small loops, `rsqrt` of 16 bits there too, `exp` and `log` where a kernel has fewer than 16 numbers. Sines, `tanh`, `logistic` and
/// powers of real numbers never do. A product of complex numbers is a sum of two products, one of which a kernel may round, and another one not
/// (random seeds 9,317,788 and 9,318,170); so are their quotients and roots.
pub fn is_sensitive(inst: &Instruction) -> bool {
    use Opcode as O;
    let Some(element) = inst.array().map(|array| array.element_type) else { return false };
    match inst.opcode {
        O::Erf | O::Tan | O::Cbrt | O::Exponential | O::Log | O::LogPlusOne => {
            element.is_float() || element.is_complex()
        }
        O::Rsqrt => element == ElementType::F16 || element.is_complex(),
        O::Multiply | O::Divide | O::Sqrt => element.is_complex(),
        opcode => element.is_complex() && is_transcendental(opcode),
    }
}

/// Opcodes that forward one of their arguments.
const EXACT: [Opcode; 6] =
    [Opcode::Parameter, Opcode::Constant, Opcode::Compare, Opcode::Select, Opcode::Tuple, Opcode::Copy];
/// The same with minimum and maximum, which pick an argument whatever the order, as long as one piece of code applies them all.
const SELECTING: [Opcode; 8] = [
    Opcode::Parameter,
    Opcode::Constant,
    Opcode::Compare,
    Opcode::Select,
    Opcode::Tuple,
    Opcode::Copy,
    Opcode::Maximum,
    Opcode::Minimum,
];

/// Whether the combiner does anything to floats but what the `exact` opcodes do.
fn combines(module: &Module, inst: &Instruction, key: &AttrKey, exact: &[Opcode]) -> bool {
    let Some(combiner) = inst.computation(key) else { return true };
    module.instructions_of(combiner).any(|(_, inner)| {
        let integer = inner
            .array()
            .is_some_and(|array| array.element_type.is_integer() || array.element_type == ElementType::Pred);
        !exact.contains(&inner.opcode) && !integer
    })
}

/// The product of floats that a value is, perhaps moved or converted. Quotients and powers count: XLA turns those by a constant into products.
pub fn float_product(module: &Module, mut id: InstructionId) -> Option<InstructionId> {
    loop {
        let inst = module.instruction(id);
        if matches!(inst.opcode, Opcode::Multiply | Opcode::Divide | Opcode::Power) {
            return is_float(module, id).then_some(id);
        }
        if !keeps_product(inst.opcode) {
            return None;
        }
        id = *inst.operands.first()?;
    }
}

/// Whether an instruction is the sum or difference of two floats.
pub fn is_float_sum(module: &Module, id: InstructionId) -> bool {
    matches!(module.instruction(id).opcode, Opcode::Add | Opcode::Subtract) && is_float(module, id)
}

/// Whether the first operand of such an instruction can still be joined with a sum behind it.
pub const fn keeps_product(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Reshape
            | Opcode::Broadcast
            | Opcode::Transpose
            | Opcode::Convert
            | Opcode::Copy
            | Opcode::Slice
            | Opcode::Reverse
            | Opcode::Negate
            | Opcode::Bitcast
    )
}

fn is_float(module: &Module, id: InstructionId) -> bool {
    let array = module.instruction(id).array();
    array.is_some_and(|array| array.element_type.is_float() || array.element_type.is_complex())
}

/// Whether XLA computes the instruction inside the loops of its users instead of giving it memory of its own.
pub fn is_fusible(opcode: Opcode) -> bool {
    opcode.is_elementwise()
        || matches!(
            opcode,
            Opcode::Bitcast
                | Opcode::BitcastConvert
                | Opcode::Broadcast
                | Opcode::Concatenate
                | Opcode::DynamicSlice
                | Opcode::Gather
                | Opcode::Iota
                | Opcode::Map
                | Opcode::Pad
                | Opcode::Reduce
                | Opcode::Reshape
                | Opcode::Reverse
                | Opcode::Slice
                | Opcode::Transpose
        )
}

/// Whether a value is an array of floats or complex numbers.
pub fn is_real(module: &Module, id: InstructionId) -> bool {
    let array = module.instruction(id).array();
    array.is_some_and(|array| array.element_type.is_float() || array.element_type.is_complex())
}

/// Whether XLA gives an instruction with several readers memory of its own, rather than computing it again for each: what is slow, but for sines and
/// the like of real numbers (`CpuInstructionFusion::IsExpensive` of xla/service/cpu/cpu_instruction_fusion.cc).
pub fn is_expensive(module: &Module, op: InstructionId) -> bool {
    let inst = module.instruction(op);
    let is_real = || inst.array().is_some_and(|array| array.element_type.is_float());
    let again = matches!(inst.opcode, Opcode::Sine | Opcode::Cosine | Opcode::Tan) && is_real();
    !again && is_slow(module, op)
}

/// Whether an instruction takes longer than to read its operands.
pub fn is_slow(module: &Module, op: InstructionId) -> bool {
    let inst = module.instruction(op);
    match inst.opcode {
        Opcode::Gather | Opcode::Reduce | Opcode::Atan2 | Opcode::Cbrt | Opcode::Sqrt | Opcode::Rsqrt => true,
        Opcode::Divide | Opcode::Remainder => inst.array().is_some_and(|array| array.element_type.is_float()),
        opcode => is_transcendental(opcode),
    }
}

/// Whether XLA computes a value again inside the loops of those who can, though another needs it in memory: it is made of one array of its
/// rank at most, or of no more elements than it has (`InstructionFusion::ComputeGloballyUnfusible` of xla/service/instruction_fusion.cc).
pub fn is_cheap_to_read(module: &Module, op: InstructionId) -> bool {
    let extent = |id: InstructionId| {
        let array = module.instruction(id).array();
        array.map_or((0, 0), |array| {
            (array.dims.iter().filter(|&&dim| dim > 1).count(), array.elements().unwrap_or(u64::MAX))
        })
    };
    let (rank, elements) = extent(op);
    let operands: IndexSet<InstructionId> = module.instruction(op).operands.iter().copied().collect();
    let spread = |id: InstructionId| matches!(module.instruction(id).opcode, Opcode::Broadcast | Opcode::Iota);
    let large = operands.iter().filter(|&&operand| !spread(operand) && extent(operand).0 >= rank);
    large.count() <= 1 || operands.iter().map(|&operand| extent(operand).1).fold(0, u64::saturating_add) <= elements
}

/// Whether an opcode is computed by a polynomial or the like.
pub const fn is_transcendental(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Exponential
            | Opcode::ExponentialMinusOne
            | Opcode::Log
            | Opcode::LogPlusOne
            | Opcode::Logistic
            | Opcode::Tanh
            | Opcode::Tan
            | Opcode::Power
            | Opcode::Erf
            | Opcode::Sine
            | Opcode::Cosine
    )
}

/// Whether a computed value is rounded to less than 32 bits when it goes to memory. Between operations XLA:CPU keeps such floats in 32 bits
/// (`SimplifyFPConversions` in XLA's `simplify_fp_conversions.cc`), so it shows where memory comes between two operations, or no longer does.
pub fn is_rounded(module: &Module, mut id: InstructionId) -> bool {
    use Opcode as O;
    let is_16_bit = |id| {
        let array = first_array(&module.instruction(id).shape);
        array.is_some_and(|array| array.element_type.is_float() && array.element_type.bits() < 32)
    };
    let moves = |opcode| {
        matches!(opcode, O::Broadcast | O::DynamicSlice | O::Gather | O::Reshape | O::Reverse | O::Slice | O::Transpose)
    };
    while is_16_bit(id) && moves(module.instruction(id).opcode) {
        id = module.instruction(id).operands[0];
    }
    is_16_bit(id) && !matches!(module.instruction(id).opcode, O::Parameter | O::Constant)
}

/// Whether an instruction reduces a large array of floats to one number. XLA:CPU gives these to a library, which sums in an order of its own whether
/// the terms stand in memory or not; it computes functions by its own polynomials, though.
pub fn is_total(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let terms = inst.operands.first().and_then(|&terms| module.instruction(terms).array()?.elements());
    // The library knows no complex numbers, and sums floats of 16 bits in 32.
    let known = |element| matches!(element, ElementType::F32 | ElementType::F64);
    let number = inst.array().is_some_and(|array| array.rank() == 0 && known(array.element_type));
    inst.opcode == Opcode::Reduce && number && terms >= Some(FEWEST_ELEMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks about the instruction `%r` of a module whose entry has these lines.
    fn asked(lines: &str, ask: fn(&Module, InstructionId) -> bool) -> bool {
        let text = format!(
            "HloModule m\n%sum (p: T[], q: T[]) -> T[] {{\n  %p = T[] parameter(0)\n  %q = T[] parameter(1)\n  ROOT %s = T[] add(%p, %q)\n}}\nENTRY %e {{\n{lines}\n}}\n"
        );
        let text = if lines.contains("c64") { text.replace("T[]", "c64[]") } else { text.replace("T[]", "f32[]") };
        let module = hlo_ir::text::parse(&text).expect("legal text");
        let (id, _) = module.live_instructions().find(|(_, inst)| inst.name == "r").expect("there is one");
        ask(&module, id)
    }

    #[test]
    fn a_library_sums_large_arrays_of_numbers_it_knows() {
        let sum = |of: &str, zero: &str, terms: usize| {
            asked(
                &format!(
                    "  %x = {of}[{terms}] parameter(0)\n  %z = {of}[] constant({zero})\n  ROOT %r = {of}[] reduce(%x, %z), dimensions={{0}}, to_apply=%sum"
                ),
                is_total,
            )
        };
        assert!(sum("f32", "0", 4096));
        assert!(!sum("f32", "0", 4095));
        assert!(!sum("c64", "(0, 0)", 4096), "complex numbers it does not know");
    }

    #[test]
    fn what_reads_little_is_computed_again() {
        let again = |made: &str| {
            asked(
                &format!(
                    "  %x = f32[8] parameter(0)\n  %y = f32[8] parameter(1)\n  %c = f32[] parameter(2)\n  %b = f32[8] broadcast(%c), dimensions={{}}\n  %l = f32[4] slice(%x), slice={{[0:4]}}\n  %h = f32[4] slice(%y), slice={{[4:8]}}\n  ROOT %r = f32[8] {made}"
                ),
                is_cheap_to_read,
            )
        };
        assert!(again("negate(%x)") && again("maximum(%x, %b)") && again("maximum(%x, %x)"));
        assert!(again("concatenate(%l, %h), dimensions={0}"), "two arrays, but no more elements than it has");
        assert!(!again("maximum(%x, %y)"));
    }
}
