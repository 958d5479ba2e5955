//! Where values may lie across devices: cutting rows that do would fetch every block from all of them, and what else does would take collectives in each iteration.

// Tests: `passes/tests/chunk_across_devices.rs`, `passes/tests/chunk_manual.rs`.

use crate::hash::IndexSet;
use hlo_ir::{AttrKey, AttrValue, ComputationId, Instruction, InstructionId, Module, Opcode, graph, per_device};
use smol_str::SmolStr;

use super::region::{Region, Source};
use super::sink::Sink;
use crate::flow::producer;
use crate::sharding_remover::PER_DEVICE;
use crate::{Context, Reason};

/// Cutting a dimension that lies across devices would fetch every block from all of them. In a partitioned module each value read in
/// blocks must say that the dimension is not cut, and no value of the region may say that it is. Values that are cut along another dimension, or needed
/// whole, would take collectives once for each block.
pub(super) fn sharded(context: &Context<'_>, sinks: &[&Sink], region: &Region) -> Option<Reason> {
    let module = context.module;
    if !context.is_partitioned() || is_manual(module, module.instruction(sinks[0].inst).parent) {
        return None;
    }
    if let Some(sink) = sinks.iter().find(|sink| sink.batch_dim.is_some()) {
        let name = &module.instruction(sink.inst).name;
        let message = format!("nothing says whether the batches of `{name}` lie across devices");
        return Some(Reason { code: "sharded", message });
    }
    let refuse = |value: InstructionId, why: &str| {
        let name = &module.instruction(value).name;
        let message =
            format!("`{name}` {why}, and blocks of a dimension that lies across devices cost memory; {PER_DEVICE}");
        Some(Reason { code: "sharded", message })
    };
    for (block, source) in &region.blocks {
        let (op, _) = producer(module, block.value.inst);
        let inst = module.instruction(op);
        let proof = inst.raw(&AttrKey::Sharding).map(|text| cuts(text, block.dim));
        match (source, proof) {
            (_, Some(true)) => return refuse(block.value.inst, "is cut along the rows"),
            (Source::Read(_) | Source::ReadThrough(..), _) if is_cut(inst) => {
                return Some(takes_collectives(module, op));
            }
            (Source::Read(_) | Source::ReadThrough(..), None) => {
                return refuse(block.value.inst, "has no sharding annotation");
            }
            _ => {}
        }
    }
    let inside = region.row_loops().flat_map(|row_loop| row_loop.blocks());
    let is_cut_along = |id, dim| module.instruction(id).raw(&AttrKey::Sharding).is_some_and(|text| cuts(text, dim));
    if let Some((id, ..)) = inside.into_iter().find(|&(id, dim, _)| is_cut_along(id, dim)) {
        return refuse(id, "is cut along the rows");
    }
    let mut wholes = region.wholes.iter().map(|value| producer(module, value.inst).0);
    wholes.find(|&op| is_cut(module.instruction(op))).map(|op| takes_collectives(module, op))
}

fn takes_collectives(module: &Module, value: InstructionId) -> Reason {
    let name = &module.instruction(value).name;
    let message = format!("`{name}` lies across devices, and each block would take collectives for it; {PER_DEVICE}");
    Reason { code: "sharded", message }
}

/// Whether an annotation may cut a value along any of its dimensions.
fn is_cut(inst: &Instruction) -> bool {
    let rank = inst.array().map_or(0, |array| array.dims.len());
    inst.raw(&AttrKey::Sharding).is_some_and(|text| (0..rank).any(|dim| cuts(text, dim)))
}

/// Whether a sharding may cut dimension `dim`; an annotation that is not understood counts as a cut.
fn cuts(sharding: &str, dim: usize) -> bool {
    let text = sharding.trim_matches(['{', '}']);
    if matches!(text.split_whitespace().next(), Some("replicated" | "manual")) {
        return false;
    }
    let tiles = text.strip_prefix("devices=[").and_then(|rest| rest.split(']').next());
    tiles.and_then(|tiles| tiles.split(',').nth(dim)).is_none_or(|tile| tile.trim() != "1")
}

/// Whether every shape in a computation is that of one device: it is reached only from calls that are kept as they are and take what a
/// `GlobalToLocalShape` hands over for all axes of the mesh (the body of a `shard_map`).
fn is_manual(module: &Module, computation: ComputationId) -> bool {
    let callers = graph::callers(module);
    let mut seen = IndexSet::from_iter([computation]);
    let mut next = 0;
    while let Some(&computation) = seen.get_index(next) {
        next += 1;
        if callers[computation].is_empty() {
            return false;
        }
        for &caller in &callers[computation] {
            if !hands_over(module, caller) {
                seen.insert(module.instruction(caller).parent);
            }
        }
    }
    true
}

/// Whether a call is the border between global and local shapes, for all axes of all meshes.
fn hands_over(module: &Module, call: InstructionId) -> bool {
    let inst = module.instruction(call);
    let kept = attributes(inst).is_some_and(|text| text.contains("inlineable=\"false\""));
    let local = |&id: &InstructionId| {
        let mut operand = module.instruction(id);
        if operand.opcode == Opcode::GetTupleElement {
            // Several arrays are handed over together.
            operand = module.instruction(operand.operands[0]);
        }
        let is_local =
            operand.raw(&AttrKey::CustomCallTarget).is_some_and(|target| target.contains("GlobalToLocalShape"));
        is_local.then(|| attributes(operand)).flatten()
    };
    let axes = mesh_axes(module);
    let all = |text: &str| !axes.is_empty() && axes.iter().all(|axis| manual_axes(text).contains(&axis.as_str()));
    inst.opcode == Opcode::Call && kept && inst.operands.iter().find_map(local).is_some_and(all)
}

fn attributes(inst: &Instruction) -> Option<&str> {
    inst.raw(&AttrKey::FrontendAttributes)
}

/// Names of the axes of the module's meshes, as `mesh = #sdy.mesh<["d"=4]>` lists them.
fn mesh_axes(module: &Module) -> Vec<SmolStr> {
    let text = match module.attribute(&AttrKey::FrontendAttributes) {
        Some(AttrValue::Raw(text)) => text.as_str(),
        _ => return Vec::new(),
    };
    per_device::meshes(text).into_iter().flatten().map(|(name, _)| name).collect()
}

/// Names in `manual_axes{"d"}`, quoted once more or not.
fn manual_axes(text: &str) -> Vec<&str> {
    let axes = text.split("manual_axes{").nth(1).and_then(|rest| rest.split('}').next());
    axes.map(|axes| quoted(axes).collect()).unwrap_or_default()
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2).map(|name| name.trim_end_matches('\\'))
}
