//! Why a loop is refused for GPU or TPU, and which arrays their compilers would move out of it.

// Tests: `passes/tests/chunk_targets.rs`.

use crate::hash::IndexSet;
use hlo_ir::{DotDims, ElementType, InstructionId, Module, Opcode};
use hlo_memory::Target;
use hlo_memory::cpu::LANES;
use hlo_memory::size::array_size;

use super::region::{Part, Region, Source};
use super::sink::{Kind, Sink};
use crate::flow::{is_product, producer};
use crate::{Context, Reason};

/// Why the loop of `sinks` is no use to the target; `None` if nothing speaks against it.
pub(super) fn unfit(context: &Context<'_>, sinks: &[&Sink], region: &Region) -> Option<Reason> {
    if context.options.target != Target::Tpu {
        return None;
    }
    let name = &context.module.instruction(sinks[0].inst).name;
    let extents = region.blocks.keys().filter_map(|block| {
        let array = context.module.instruction(block.value.inst).array()?;
        array.dims.get(block.dim).copied()
    });
    let longest = extents.chain(sinks.iter().map(|sink| sink.rows)).max().unwrap_or(0);
    if i32::try_from(longest).is_err() {
        let message = format!(
            "XLA:TPU cannot slice at row {longest}, of which `{name}` has some: it has start indices of 32 bits only"
        );
        return Some(Reason { code: "wide-rows", message });
    }
    if let Some(product) = outer_product(context.module, region) {
        let message = format!(
            "XLA:TPU computes `{}` on the fly, a product that sums up nothing: a loop would spare no memory",
            context.module.instruction(product).name
        );
        return Some(Reason { code: "outer-product", message });
    }
    // A dimension shorter than that shares tiles with another one.
    let short = |sink: &&&Sink| matches!(sink.kind, Kind::Scatter { .. }) && sink.rows < LANES && sink.inner >= LANES;
    let sink = sinks.iter().find(short)?;
    let message = format!(
        "`{}` has only {} rows of {} updates: XLA:TPU would copy all of its indices to cut them there",
        context.module.instruction(sink.inst).name,
        sink.rows,
        sink.inner
    );
    Some(Reason { code: "short-rows", message })
}

/// A product without contracted dimensions that the region computes on blocks: XLA makes it elementwise, and part of whatever reads it
/// (strength reduction of products in XLA's `algebraic_simplifier.cc`, which XLA:CPU turns off).
fn outer_product(module: &Module, region: &Region) -> Option<InstructionId> {
    let computed = region.computed(module);
    let sums_nothing =
        |&op: &InstructionId| DotDims::of(module.instruction(op)).is_some_and(|dims| dims.lhs_contracting.is_empty());
    computed.filter(|&op| module.instruction(op).opcode == Opcode::Dot).find(sums_nothing)
}

/// Bytes of the copies that XLA:TPU makes before the loops: it multiplies floats of 32 bits as `bf16`, and converts all of an array whose blocks go
/// into a product at once.
pub(super) fn hoisted(context: &Context<'_>, regions: &[Region]) -> u64 {
    let mut found: IndexSet<InstructionId> = IndexSet::default();
    for region in regions {
        for (block, source) in &region.blocks {
            let Source::Computed(parts) = source else { continue };
            let (op, _) = producer(context.module, block.value.inst);
            if is_product(context.module.instruction(op).opcode) {
                found.extend(parts.iter().filter_map(|part| read(context, region, *part)));
            }
        }
        for root in region.roots.concat() {
            found.extend(read(context, region, Part::Block(root)).filter(|&id| {
                context.users.get(id).iter().any(|&user| is_product(context.module.instruction(user).opcode))
            }));
        }
    }
    let half = |&id: &InstructionId| {
        let array = context.module.instruction(id).array().filter(|array| array.element_type == ElementType::F32);
        array.and_then(array_size).map_or(0, |bytes| bytes.get() / 2)
    };
    found.iter().map(half).sum()
}

/// The value in memory whose rows a block is, perhaps moved.
fn read(context: &Context<'_>, region: &Region, part: Part) -> Option<InstructionId> {
    let Part::Block(mut block) = part else { return None };
    loop {
        match region.blocks.get(&block)? {
            Source::Read(_) => return Some(block.value.inst),
            Source::ReadThrough(value, _) => return Some(value.inst),
            Source::Computed(parts) => {
                let (op, _) = producer(context.module, block.value.inst);
                let opcode = context.module.instruction(op).opcode;
                let moved = matches!(opcode, Opcode::Reshape | Opcode::Transpose | Opcode::Slice | Opcode::Copy);
                let [Part::Block(below)] = parts.as_slice() else { return None };
                block = if moved { *below } else { return None };
            }
        }
    }
}
