//! What a module contains that the model does not know, in words for the report.

use super::expand::is_philox;

use hlo_ir::{Instruction, Module, Opcode, Shape};

/// Custom calls whose operands lie in column-major order.
const COLUMN_MAJOR: &[&str] = &["lapack_", "blas_"];

/// Whether an instruction is of a kind.
type Test = fn(&Instruction) -> bool;

/// Reasons not to trust the predicted figure, each once, in a fixed order. `partitioned` says whether the model knew what each of several
/// devices does.
pub(crate) fn caveats(module: &Module, partitioned: bool) -> Vec<String> {
    let mut found = Vec::new();
    let devices = module.num_partitions();
    if devices > 1 {
        found.push(if partitioned {
            format!("the module is partitioned over {devices} devices: figures are for one of them")
        } else {
            format!("the module is partitioned over {devices} devices in a way that is not modelled: figures are for the whole program")
        });
    }
    let mut kinds: [(Test, &str, bool); 6] = [
        (is_dynamic, "dynamic shapes: padding to static shapes is not modelled", false),
        (is_random, "random-number opcodes other than Philox: their expansion is not modelled", false),
        (is_column_major, "column-major library calls: copies around them may be over-counted", false),
        (is_scan, "scans: the loops they become are not modelled", false),
        (
            has_control,
            "control dependencies: StableHLO, through which programs reach the compiler, has none, so that figures are without them",
            false,
        ),
        (is_unknown, "opcodes this version does not know: counted as they stand", false),
    ];
    for (_, inst) in module.live_instructions() {
        for (test, _, any) in &mut kinds {
            *any = *any || test(inst);
        }
    }
    found.extend(kinds.into_iter().filter(|kind| kind.2).map(|kind| kind.1.to_owned()));
    found
}

fn is_dynamic(inst: &Instruction) -> bool {
    fn dynamic(shape: &Shape) -> bool {
        match shape {
            Shape::Array(array) => array.is_dynamic(),
            Shape::Tuple(elements) => elements.iter().any(|element| dynamic(element)),
            _ => false,
        }
    }
    inst.opcode == Opcode::SetDimensionSize || dynamic(&inst.shape)
}

fn is_random(inst: &Instruction) -> bool {
    inst.opcode == Opcode::Rng || (inst.opcode == Opcode::RngBitGenerator && !is_philox(inst))
}

fn is_column_major(inst: &Instruction) -> bool {
    let target = || inst.raw(&hlo_ir::AttrKey::CustomCallTarget).unwrap_or("").trim_matches('"');
    inst.opcode == Opcode::CustomCall && COLUMN_MAJOR.iter().any(|prefix| target().starts_with(prefix))
}

fn is_scan(inst: &Instruction) -> bool {
    inst.opcode == Opcode::Scan
}

fn has_control(inst: &Instruction) -> bool {
    !inst.control_predecessors().is_empty()
}

fn is_unknown(inst: &Instruction) -> bool {
    inst.opcode == Opcode::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caveats_of(text: &str) -> Vec<String> {
        caveats(&hlo_ir::text::parse(text).unwrap(), false)
    }

    #[test]
    fn a_plain_module_has_none() {
        let text = "HloModule m\n\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] negate(p)\n}\n";
        assert!(caveats_of(text).is_empty());
    }

    #[test]
    fn partitions_dynamic_sizes_and_random_numbers_are_named() {
        let text = "HloModule m, num_partitions=4\n\nENTRY e {\n  p = f32[<=4] parameter(0)\n  a = f32[] constant(0)\n  \
                    r = f32[4] rng(a, a), distribution=rng_uniform\n  ROOT t = (f32[<=4], f32[4]) tuple(p, r)\n}\n";
        let found = caveats_of(text);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("4 devices"));
    }
}
