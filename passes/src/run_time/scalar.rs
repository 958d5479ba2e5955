//! Kernels of XLA:CPU that compute one number after the other.
//!
//! LLVM makes vectors of most loops. It does not where a kernel looks numbers up, sorts, slides windows or draws random bits, nor of functions that are
//! calls into a library. `tests/referee/scalar_times.py` measures what a number takes then; docs/measured/log.md has the figures, "Figures behind constants".

use hlo_ir::{AttrKey, Instruction, InstructionId, Module, Opcode};
use hlo_memory::Target;

use crate::Machine;

/// What a kernel without vectors takes longer for each of its operations: eight numbers of 32 bits are in a vector.
const LANES: f64 = 8.0;
/// The same where operations compute what is looked up, in nanoseconds of each for a machine that does 100 in one: between what a kernel measured alone takes and one in a nested
/// loop, so that loops do not run longer than they are taken for.
const WAITING: f64 = 0.2 * 100.0;

/// Seconds of one operation outside of products in a kernel.
pub(super) fn simple(module: &Module, machine: &Machine, kernel: impl Iterator<Item = InstructionId>) -> f64 {
    let slowest = kernel.map(|id| slowdown(module, id)).fold(1.0, f64::max);
    (if machine.target == Target::Cpu { slowest } else { 1.0 }) / machine.arithmetic as f64
}

/// What an instruction makes all operations of its kernel take longer.
fn slowdown(module: &Module, id: InstructionId) -> f64 {
    use Opcode as O;
    let inst = module.instruction(id);
    match inst.opcode {
        O::Gather | O::Scatter | O::Sort | O::ReduceWindow | O::SelectAndScatter | O::RngBitGenerator => WAITING,
        O::Reduce if inst.operands.len() > 2 => WAITING,
        O::Concatenate if is_of_columns(inst) => LANES,
        _ => 1.0,
    }
}

/// Whether numbers of several arrays take turns.
fn is_of_columns(concatenate: &Instruction) -> bool {
    concatenate.array().is_some_and(|array| {
        let last = array.dims.len().checked_sub(1).and_then(|last| i64::try_from(last).ok());
        concatenate.ints(&AttrKey::Dimensions).first() == last.as_ref()
    })
}

/// Seconds of one number of a function that is a call into a library, and of what is done number by number.
pub(super) fn number(machine: &Machine, opcode: Opcode) -> Option<f64> {
    use Opcode as O;
    // As `scalar_times.py` measures them, of a machine that does 100 operations in a nanosecond.
    let nanoseconds = match opcode {
        O::Sort => 10.0,
        O::Remainder => 7.0,
        O::RngBitGenerator => 6.4,
        O::Tan => 5.5,
        O::Atan2 | O::Cbrt => 3.8,
        O::Sine | O::Cosine => 3.0,
        O::ReduceWindow | O::SelectAndScatter => 2.4,
        O::Scatter => 2.0,
        O::Power => 1.5,
        O::Gather => 0.6,
        _ => return None,
    };
    (machine.target == Target::Cpu).then(|| nanoseconds * 100.0 / machine.arithmetic as f64)
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    #[test]
    fn functions_that_are_calls_take_their_time_on_cpu() {
        let nanoseconds =
            |target, opcode| number(Machine::of(target), opcode).map(|seconds| (seconds * 1e9).round() as u64);
        let of_cpu = [Opcode::Sine, Opcode::Tan, Opcode::Power, Opcode::Gather, Opcode::Tanh];
        assert_eq!(of_cpu.map(|opcode| nanoseconds(Target::Cpu, opcode)), [Some(3), Some(6), Some(2), Some(1), None]);
        assert_eq!(nanoseconds(Target::Gpu, Opcode::Sine), None);
    }

    #[test]
    fn nothing_beside_a_lookup_is_a_vector() {
        let module = text::parse(
            "HloModule m

ENTRY main {
  t = f32[64] parameter(0)
  i = s32[8,1] parameter(1)
  g = f32[8] gather(t, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
  n = f32[8] negate(g)
  a = f32[8,1] reshape(n)
  columns = f32[8,2] concatenate(a, a), dimensions={1}
  ROOT rows = f32[16,2] concatenate(columns, columns), dimensions={0}
}
",
        )
        .expect("a module");
        let id = |name: &str| module.live_instructions().find(|(_, inst)| inst.name == name).expect("a name").0;
        let slower = |target, names: &[&str]| {
            let seconds = |names: &[&str]| simple(&module, Machine::of(target), names.iter().map(|name| id(name)));
            (seconds(names) / seconds(&["n"])).round() as u64
        };
        assert_eq!(slower(Target::Cpu, &["g", "n"]), 20);
        assert_eq!(slower(Target::Cpu, &["n", "columns"]), 8);
        assert_eq!(slower(Target::Cpu, &["n", "rows"]), 1);
        assert_eq!(slower(Target::Tpu, &["g", "n"]), 1);
    }
}
