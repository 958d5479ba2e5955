//! Floats of several types in one instruction: XLA:TPU widens and rounds on the way through any of them, other compilers do not.
//!
//! Its scheduled modules are known by the tiles in their layouts (`xla/service/hlo_verifier.h`, `allow_mixed_precision`).

use indexmap::IndexSet;

use crate::{ElementType, Instruction, Module, Opcode, Shape};

/// Whether a module is what XLA:TPU makes of a program.
pub(super) fn is_allowed(module: &Module) -> bool {
    module.is_scheduled() && module.live_instructions().any(|(_, inst)| is_tiled(&inst.shape))
}

fn is_tiled(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => array.layout.as_ref().is_some_and(|layout| layout.suffix.contains("T(")),
        Shape::Tuple(elements) => elements.iter().any(|element| is_tiled(element)),
        Shape::Buffer(inner) => is_tiled(inner),
        _ => false,
    }
}

/// Whether an instruction computes with floats of several types, those of its combiner among them. What runs a computation on its operands as they
/// are does not.
pub(super) fn mixes(module: &Module, inst: &Instruction) -> bool {
    if matches!(inst.opcode, Opcode::Fusion | Opcode::Call | Opcode::While | Opcode::Conditional | Opcode::Map) {
        return false;
    }
    let mut floats = IndexSet::new();
    collect(&inst.shape, &mut floats);
    let callees = inst.called_computations().map(|callee| module.computation(callee).root);
    inst.operands.iter().copied().chain(callees).for_each(|id| collect(module.shape(id), &mut floats));
    floats.len() > 1
}

fn collect(shape: &Shape, floats: &mut IndexSet<ElementType>) {
    match shape {
        Shape::Array(array) if array.element_type.is_float() => {
            floats.insert(array.element_type);
        }
        Shape::Tuple(elements) => elements.iter().for_each(|element| collect(element, floats)),
        Shape::Buffer(inner) => collect(inner, floats),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::{text, verify};

    /// A pool of floats rounded on the way, with a combiner that is not, as XLA:TPU prints it.
    fn pooled(header: &str, input: &str, t: &str, sizes: &str, tiles: &str) -> String {
        format!(
            "HloModule m{header}

%larger (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] maximum(%a, %b)
}}

ENTRY %main (x: {input}[8,4,128]) -> {t}[{sizes}] {{
  %x = {input}[8,4,128]{{2,1,0{tiles}}} parameter(0)
  %least = {t}[] constant(-inf)
  ROOT %r = {t}[{sizes}]{{2,1,0{tiles}}} reduce-window(%x, %least), window={{size=1x2x1 stride=1x2x1}}, to_apply=%larger
}}
"
        )
    }

    fn problems(text: &str) -> usize {
        verify::verify(&text::parse(text).expect("it can be read")).len()
    }

    #[test]
    fn a_tiled_schedule_may_mix_floats() {
        let (scheduled, sizes, tiles) = (", is_scheduled=true", "8,2,128", ":T(8,128)(2,1)");
        assert_eq!(problems(&pooled(scheduled, "bf16", "bf16", sizes, tiles)), 0);
        assert_eq!(problems(&pooled("", "bf16", "bf16", sizes, tiles)), 1, "a program of the user");
        assert_eq!(problems(&pooled(scheduled, "bf16", "bf16", sizes, "")), 1, "no compiler that mixes");
        assert_eq!(problems(&pooled(scheduled, "f32", "bf16", sizes, tiles)), 0, "rounded on the way");
        assert_eq!(problems(&pooled(scheduled, "f32", "f32", sizes, tiles)), 0);
        let other = pooled(scheduled, "f32", "f32", "8,3,128", tiles);
        assert_eq!(problems(&other), 1, "floats of one type have their shape");
    }
}
