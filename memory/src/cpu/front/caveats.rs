//! What a module contains that the model does not know, in words for the report.

// Tests: `memory/tests/legal.rs`.

use super::expand::is_philox;

use hlo_ir::{Instruction, InstructionId, Module, Opcode, Shape};

use crate::Bytes;
use crate::size::shape_size;

/// Custom calls whose operands lie in column-major order.
const COLUMN_MAJOR: &[&str] = &["lapack_", "blas_"];

/// Custom calls that the compiler writes out as loops: `QrExpander`, `HouseholderExpander`, `EighExpander`.
const DECOMPOSITIONS: &[&str] = &["Qr", "ProductOfElementaryHouseholderReflectors", "Eigh"];

/// What the compiler needs for an instruction that the model leaves as it is, at most, in bytes of its operands and results. Measured at
/// most: 1.25 times for decompositions and triangular solves (41 programs of one, `f32`, `f64`, `bf16`, 96 to 1,000 rows), 1.0 for random numbers,
/// 1.4 for a scan.
const MOST_FOR_ITSELF: u64 = 2;

/// Instructions of which the model does not know something.
struct Kind {
    is: fn(&Module, &Instruction) -> bool,
    /// What it does not know.
    what: &'static str,
    /// Whether the compiler may need memory that the model does not count.
    needs: bool,
}

const KINDS: [Kind; 7] = [
    Kind { is: is_dynamic, what: "dynamic shapes: padding to static shapes is not modelled", needs: true },
    Kind {
        is: is_random,
        what: "random-number opcodes other than Philox: their expansion is not modelled",
        needs: true,
    },
    Kind { is: is_decomposition, what: "matrix decompositions: the loops they become are not modelled", needs: true },
    Kind { is: is_scan, what: "scans: the loops they become are not modelled", needs: true },
    Kind {
        is: is_column_major,
        what: "column-major library calls: copies around them may be over-counted",
        needs: false,
    },
    Kind {
        is: has_control,
        what: "control dependencies: StableHLO, through which programs reach the compiler, has none, so that figures are without them",
        needs: false,
    },
    Kind { is: is_unknown, what: "opcodes this version does not know: counted as they stand", needs: false },
];

/// Reasons not to trust a predicted figure, and by how much it may be too low for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubts {
    /// In words for the report.
    pub(crate) caveats: Vec<String>,
    /// What the compiler may need beyond the figure.
    pub(crate) slack: Bytes,
    /// Whether the figure is for all devices together.
    pub(crate) of_all_devices: bool,
}

/// Reasons not to trust the predicted figure, each once, in a fixed order. `partitioned` says whether the model knew what each of several
/// devices does.
pub(crate) fn doubts(module: &Module, partitioned: bool) -> Doubts {
    let mut found = Doubts::default();
    let devices = module.num_partitions();
    if devices > 1 && partitioned {
        found.caveats.push(format!("the module is partitioned over {devices} devices: figures are for one of them"));
    } else if devices > 1 {
        // A device needs less than the whole, and how much less is not known.
        (found.slack, found.of_all_devices) = (Bytes(u64::MAX), true);
        found.caveats.push(format!(
            "the module is partitioned over {devices} devices in a way that is not modelled: figures are for the whole program; what a device runs is \
             written by `python -m hlo_opt.xla partition`, and by XLA with --xla_dump_to=DIR --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd-partitioning"
        ));
    } else if module.is_annotated() {
        found.caveats.push(
            "values are annotated for several devices, but the header names one partition, for which XLA compiles the module: num_partitions=N there \
             makes it the program of N devices"
                .to_owned(),
        );
    }
    let mut bytes = [None; KINDS.len()];
    for (id, inst) in module.live_instructions() {
        for (kind, bytes) in KINDS.iter().zip(&mut bytes).filter(|(kind, _)| (kind.is)(module, inst)) {
            let more = if kind.needs { around(module, id).saturating_mul(MOST_FOR_ITSELF) } else { 0 };
            *bytes = Some(bytes.unwrap_or(0_u64).saturating_add(more));
        }
    }
    for (kind, bytes) in KINDS.iter().zip(bytes) {
        let Some(bytes) = bytes.map(Bytes) else { continue };
        let more = if kind.needs { format!("; XLA may need up to {bytes} more") } else { String::new() };
        found.caveats.push(format!("{}{more}", kind.what));
        found.slack += bytes;
    }
    found
}

/// Bytes of the operands and results of an instruction.
fn around(module: &Module, id: InstructionId) -> u64 {
    fn bytes(shape: &Shape) -> u64 {
        match shape {
            Shape::Tuple(elements) => elements.iter().map(|element| bytes(element)).fold(0, u64::saturating_add),
            other => shape_size(other).unwrap_or_default().get(),
        }
    }
    let operands = module.instruction(id).operands.iter().map(|&operand| bytes(module.shape(operand)));
    operands.fold(bytes(module.shape(id)), u64::saturating_add)
}

fn is_dynamic(module: &Module, inst: &Instruction) -> bool {
    fn dynamic(shape: &Shape) -> bool {
        match shape {
            Shape::Array(array) => array.is_dynamic(),
            Shape::Tuple(elements) => elements.iter().any(|element| dynamic(element)),
            _ => false,
        }
    }
    dynamic(&inst.shape) || (inst.opcode == Opcode::SetDimensionSize && !sets_what_is(module, inst))
}

/// Whether the size of a dimension is set to what it is.
fn sets_what_is(module: &Module, inst: &Instruction) -> bool {
    let &[operand, size] = &inst.operands[..] else { return false };
    let dim = inst.ints(&hlo_ir::AttrKey::Dimensions).first().and_then(|&dim| usize::try_from(dim).ok());
    let array = module.instruction(operand).array().filter(|array| !array.is_dynamic());
    let is = array.zip(dim).and_then(|(array, dim)| array.dims.get(dim).copied());
    let said = module.instruction(size).literal().and_then(|text| text.trim().parse::<i64>().ok());
    is.is_some() && is == said
}

fn is_random(_: &Module, inst: &Instruction) -> bool {
    inst.opcode == Opcode::Rng || (inst.opcode == Opcode::RngBitGenerator && !is_philox(inst))
}

/// What a custom call calls.
fn target(inst: &Instruction) -> Option<&str> {
    let target = || inst.raw(&hlo_ir::AttrKey::CustomCallTarget).unwrap_or("").trim_matches('"');
    (inst.opcode == Opcode::CustomCall).then(target)
}

fn is_column_major(_: &Module, inst: &Instruction) -> bool {
    target(inst).is_some_and(|target| COLUMN_MAJOR.iter().any(|prefix| target.starts_with(prefix)))
}

fn is_decomposition(_: &Module, inst: &Instruction) -> bool {
    matches!(inst.opcode, Opcode::Cholesky | Opcode::TriangularSolve)
        || target(inst).is_some_and(|target| DECOMPOSITIONS.contains(&target))
}

fn is_scan(_: &Module, inst: &Instruction) -> bool {
    inst.opcode == Opcode::Scan
}

fn has_control(_: &Module, inst: &Instruction) -> bool {
    !inst.control_predecessors().is_empty()
}

fn is_unknown(_: &Module, inst: &Instruction) -> bool {
    inst.opcode == Opcode::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caveats_of(text: &str) -> Vec<String> {
        doubts(&hlo_ir::text::parse(text).unwrap(), false).caveats
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

    #[test]
    fn annotations_without_partitions_are_for_one_device() {
        let text = "HloModule m\n\nENTRY e {\n  ROOT p = f32[4] parameter(0), sharding={devices=[4]<=[4]}\n}\n";
        let found = doubts(&hlo_ir::text::parse(text).unwrap(), false);
        assert!(!found.of_all_devices && found.slack == Bytes::ZERO);
        assert!(found.caveats[0].contains("names one partition"), "{:?}", found.caveats);
        assert_eq!(caveats_of(&text.replace("[4]<=[4]", "[1]<=[1]")), Vec::<String>::new());
    }

    #[test]
    fn what_is_left_as_it_stands_may_need_twice_what_it_reads_and_gives() {
        let text = "HloModule m\n\nENTRY e {\n  p = f32[4,4] parameter(0)\n  c = f32[4,4] cholesky(p), lower=true\n  \
                    ROOT q = (f32[4,4], f32[4]) custom-call(c), custom_call_target=\"Qr\"\n}\n";
        let found = doubts(&hlo_ir::text::parse(text).unwrap(), false);
        assert_eq!(found.slack, Bytes(2 * (64 + 64) + 2 * (64 + 64 + 16)));
        assert_eq!(found.caveats.len(), 1);
        assert!(found.caveats[0].ends_with("XLA may need up to 544 B more"), "{:?}", found.caveats);
    }
}
