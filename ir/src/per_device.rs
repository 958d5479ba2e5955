//! Modules from behind XLA's partitioner: what each of several devices runs, with local shapes and collectives.
//!
//! Such a module still says for how many devices it is, and its parameters may keep the shardings that they had. A compiler that is given it
//! would divide it a second time. As a module for one device it needs the same memory: collectives stay, with their devices listed one by one.
//!
//! Source: `SpmdPartitioner` (xla/service/spmd/spmd_partitioner.cc), which gives every program a `partition-id`.

use crate::edit::Patch;
use crate::{AttrKey, AttrValue, Attribute, Instruction, Module, Opcode, replica_groups};

/// What a header says of partitions begins so.
const OF_PARTITIONS: [&str; 2] = ["num_partitions", "allow_spmd_sharding_propagation"];

/// Custom calls that only the partitioner understands, without quotes.
const FOR_PARTITIONER: [&str; 3] = ["Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"];

/// Whether a module is what each of several devices runs.
///
/// It is for several partitions and speaks to other devices outside of what `shard_map` and the like mark for the partitioner, which only programs
/// do that were divided already. A divided program in which no device ever asks which one it is, or for anything of another, is not recognised.
pub fn is_per_device(module: &Module) -> bool {
    if module.num_partitions() <= 1 || frontend(&module.attributes).is_some_and(|text| text.contains("xla.sdy")) {
        return false;
    }
    let mut speaks = module.is_scheduled();
    for (_, inst) in module.live_instructions() {
        if is_for_partitioner(inst) {
            return false;
        }
        speaks |= is_across_partitions(inst);
    }
    speaks
}

/// The same module for one device: no partitions, no shardings, and devices of collectives listed one by one.
///
/// `None` if there is a collective whose devices cannot be listed.
pub fn for_one_device(module: &Module) -> Option<Patch> {
    let mut patch = Patch::new(module);
    let is_of_partitions = |attribute: &Attribute| OF_PARTITIONS.iter().any(|name| attribute.key.name().starts_with(name));
    let kept = module.attributes.iter().filter(|attribute| !is_of_partitions(attribute));
    patch.set_header(kept.cloned().collect());
    for (id, inst) in module.live_instructions() {
        let mut alone = inst.clone();
        alone.attributes.retain(|attribute| attribute.key != AttrKey::Sharding);
        if let Some(text) = inst.raw(&AttrKey::ReplicaGroups) {
            let groups = replica_groups::text(&replica_groups::listed(text)?);
            alone.set_attribute(AttrKey::ReplicaGroups, AttrValue::Raw(groups.into()));
        }
        if alone.attributes != inst.attributes {
            patch.rewrite(id, alone);
        }
    }
    Some(patch)
}

fn frontend(attributes: &[Attribute]) -> Option<&str> {
    match crate::attribute::find(attributes, &AttrKey::FrontendAttributes) {
        Some(AttrValue::Raw(text)) => Some(text),
        _ => None,
    }
}

fn is_for_partitioner(inst: &Instruction) -> bool {
    let target = inst.raw(&AttrKey::CustomCallTarget).map(|text| text.trim_matches('"'));
    target.is_some_and(|name| FOR_PARTITIONER.contains(&name) || name.starts_with("xla.sdy"))
        || inst.opcode != Opcode::Parameter && inst.raw(&AttrKey::Sharding).is_some_and(|text| text.contains("manual"))
}

/// Whether an instruction asks which partition it runs on, or for values of others.
fn is_across_partitions(inst: &Instruction) -> bool {
    inst.opcode == Opcode::PartitionId || inst.attribute(&AttrKey::ChannelId).is_some() && inst.opcode.is_collective()
}
