//! Whether what is computed again has the same bits, whatever a compiler makes of the kernels that compute it.

use crate::hash::IndexSet;
use hlo_ir::arena::Id as _;
use hlo_ir::edit::Patch;
use hlo_ir::{ComputationId, ElementType, Instruction, InstructionId, Module, Opcode};

/// Whether a change computes nothing in floating point anew.
pub(crate) fn exact(module: &Module, patch: &Patch) -> bool {
    let instruction = |id| patch.instruction(module, id);
    patch.added().all(|id| keeps_bits(instruction(id), instruction) && calls_keep_bits(module, instruction(id)))
}

/// Whether all that an instruction calls keeps bits, however little of it shows outside: what takes and makes integers may compute with floats.
fn calls_keep_bits(module: &Module, inst: &Instruction) -> bool {
    // What a patch adds to computations of its own is looked at as such.
    let stands = |computation: &ComputationId| computation.index() < module.computation_count();
    let mut called: IndexSet<ComputationId> = inst.called_computations().filter(stands).collect();
    let mut next = 0;
    while let Some(&computation) = called.get_index(next) {
        next += 1;
        for (_, inner) in module.instructions_of(computation) {
            if !keeps_bits(inner, |operand| module.instruction(operand)) {
                return false;
            }
            called.extend(inner.called_computations());
        }
    }
    true
}

/// Whether an operation only moves data, or takes and makes no floats.
pub(crate) fn keeps_bits<'a>(inst: &Instruction, operand: impl Fn(InstructionId) -> &'a Instruction) -> bool {
    let float = |inst: &Instruction| {
        inst.array().is_some_and(|array| !array.element_type.is_integer() && array.element_type != ElementType::Pred)
    };
    let moves = matches!(
        inst.opcode,
        Opcode::Reshape
            | Opcode::Broadcast
            | Opcode::Slice
            | Opcode::Concatenate
            | Opcode::Transpose
            | Opcode::Constant
            | Opcode::DynamicSlice
            | Opcode::DynamicUpdateSlice
            | Opcode::GetTupleElement
            | Opcode::Iota
            | Opcode::Select
    );
    moves || (!float(inst) && !inst.operands.iter().any(|&id| float(operand(id))))
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    #[test]
    fn integers_made_of_floats_inside_a_call_are_not_exact() {
        let module = text::parse(
            "HloModule m

odd {
  x = u32[8] parameter(0)
  one = u32[] constant(1)
  ones = u32[8] broadcast(one), dimensions={}
  ROOT y = u32[8] and(x, ones)
}

scaled {
  x = u32[8] parameter(0)
  f = f32[8] convert(x)
  g = f32[8] multiply(f, f)
  h = f32[8] add(g, f)
  ROOT y = u32[8] convert(h)
}

nested {
  x = u32[8] parameter(0)
  ROOT y = u32[8] call(x), to_apply=scaled
}

ENTRY main {
  x = u32[8] parameter(0)
  odd = u32[8] call(x), to_apply=odd
  scaled = u32[8] call(x), to_apply=scaled
  nested = u32[8] call(x), to_apply=nested
  ROOT all = (u32[8], u32[8], u32[8]) tuple(odd, scaled, nested)
}
",
        )
        .expect("a module");
        let again = |name: &str| {
            let (id, inst) = module.live_instructions().find(|(_, inst)| inst.name == name).expect("a name");
            let mut patch = Patch::new(&module);
            patch.add(module.instruction(id).parent, inst.clone());
            exact(&module, &patch)
        };
        let entry = module.instructions_of(module.entry()).filter(|(_, inst)| inst.opcode == Opcode::Call);
        let names: Vec<String> = entry.map(|(_, inst)| inst.name.to_string()).collect();
        assert_eq!(names.iter().map(|name| again(name)).collect::<Vec<_>>(), [true, false, false]);
    }
}
