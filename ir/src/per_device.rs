//! Modules from behind XLA's partitioner: what each of several devices runs, with local shapes and collectives.
//!
//! Such a module still says for how many devices it is, and its parameters may keep the shardings that they had. A compiler that is given it
//! would divide it a second time. As a module for one device it needs the same memory: collectives stay, with their devices listed one by one.
//!
//! Source: `SpmdPartitioner` (xla/service/spmd/spmd_partitioner.cc), which gives every program a `partition-id`.

use smol_str::SmolStr;

use crate::edit::Patch;
use crate::{AttrKey, AttrValue, Attribute, Instruction, InstructionId, Module, Opcode, replica_groups};

/// What a header says of partitions begins so.
const OF_PARTITIONS: [&str; 2] = ["num_partitions", "allow_spmd_sharding_propagation"];

/// Custom calls that only the partitioner understands, without quotes.
const FOR_PARTITIONER: [&str; 3] = ["Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"];

/// For how many devices a module with this header will be partitioned, 1 if it does not say so.
///
/// Lowered text that was not given to a compiler yet has the number only in Shardy's meshes: `mesh = #sdy.mesh<["data"=8]>`.
pub fn partitions(header: &[Attribute]) -> i64 {
    match crate::attribute::find(header, &AttrKey::NumPartitions) {
        Some(AttrValue::Int(count)) => *count,
        _ => frontend(header).map_or(1, |text| meshes(text).iter().map(devices).fold(1, i64::max)),
    }
}

/// Names and sizes of the axes of a mesh.
pub type Axes = Vec<(SmolStr, i64)>;

/// The meshes of Shardy in the frontend attributes of a header, such as `mesh = #sdy.mesh<["a"=2, "b"=4]>`, quoted once more or not.
pub fn meshes(text: &str) -> Vec<Axes> {
    let text = text.replace('\\', "");
    let axis = |axis: &str| {
        let (name, size) = axis.trim().strip_prefix('"')?.split_once("\"=")?;
        Some((name.into(), size.trim().parse().ok()?))
    };
    let lists = text.split("sdy.mesh<[").skip(1).filter_map(|rest| rest.split(']').next());
    lists.map(|axes| axes.split(',').filter_map(axis).collect()).collect()
}

fn devices(axes: &Axes) -> i64 {
    axes.iter().fold(1, |product, axis| product.saturating_mul(axis.1))
}

/// Whether a module is what each of several devices runs.
///
/// It is for several partitions and has collectives outside of what `shard_map` and the like mark for the partitioner, which only programs
/// do that were divided already. A divided program in which no device ever asks which one it is, or for anything of another, is not recognised.
pub fn is_per_device(module: &Module) -> bool {
    if module.num_partitions() <= 1 || frontend(&module.attributes).is_some_and(|text| text.contains("xla.sdy")) {
        return false;
    }
    let mut crosses = module.is_scheduled();
    for (_, inst) in module.live_instructions() {
        if is_for_partitioner(inst) {
            return false;
        }
        crosses |= is_across_partitions(inst);
    }
    crosses
}

/// The same module for one device: no partitions, no shardings, and devices of collectives listed one by one. Copies that the partitioner made at the borders
/// of manual computations go: StableHLO has no such operation, and the compiler copies where it must.
///
/// `None` if there is a collective whose devices cannot be listed, or something that only one of the devices does.
pub fn for_one_device(module: &Module) -> Option<Patch> {
    let mut patch = Patch::new(module);
    let is_of_partitions =
        |attribute: &Attribute| OF_PARTITIONS.iter().any(|name| attribute.key.name().starts_with(name));
    let kept = module.attributes.iter().filter(|attribute| !is_of_partitions(attribute));
    patch.set_header(kept.cloned().collect());
    for (id, inst) in module.live_instructions() {
        if let Some(value) = copied(module, id) {
            patch.replace(id, value);
            patch.remove(id);
            continue;
        }
        if inst.raw(&AttrKey::Sharding).is_some_and(|text| text.contains("maximal")) {
            return None;
        }
        let mut alone = inst.clone();
        for operand in &mut alone.operands {
            *operand = copied(module, *operand).unwrap_or(*operand);
        }
        alone.attributes.retain(|attribute| attribute.key != AttrKey::Sharding);
        if let Some(text) = inst.raw(&AttrKey::ReplicaGroups) {
            let groups = replica_groups::text(&replica_groups::listed(text)?);
            alone.set_attribute(AttrKey::ReplicaGroups, AttrValue::Raw(groups.into()));
        }
        if alone.attributes != inst.attributes || alone.operands != inst.operands {
            patch.rewrite(id, alone);
        }
    }
    Some(patch)
}

/// What a copy copies, through all copies; `None` for anything else, and for copies that change the layout or wait for something.
fn copied(module: &Module, id: InstructionId) -> Option<InstructionId> {
    let mut value = id;
    loop {
        let inst = module.instruction(value);
        let is_plain = inst.opcode == Opcode::Copy && inst.control_predecessors().is_empty();
        if !is_plain || *module.shape(inst.operands[0]) != *inst.shape {
            return (value != id).then_some(value);
        }
        value = inst.operands[0];
    }
}

fn frontend(attributes: &[Attribute]) -> Option<&str> {
    match crate::attribute::find(attributes, &AttrKey::FrontendAttributes) {
        Some(AttrValue::Raw(text)) => Some(text),
        _ => None,
    }
}

/// Whether the partitioner would have taken an instruction away, or its annotation: those of parameters alone stay.
fn is_for_partitioner(inst: &Instruction) -> bool {
    let target = inst.raw(&AttrKey::CustomCallTarget).map(|text| text.trim_matches('"'));
    target.is_some_and(|name| FOR_PARTITIONER.contains(&name) || name.starts_with("xla.sdy"))
        || inst.opcode != Opcode::Parameter && inst.raw(&AttrKey::Sharding).is_some()
}

/// Whether an instruction asks which partition it runs on, or for values of others.
fn is_across_partitions(inst: &Instruction) -> bool {
    inst.opcode == Opcode::PartitionId || inst.attribute(&AttrKey::ChannelId).is_some() && inst.opcode.is_collective()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    /// A program of four devices; `lines` stand between its parameter and the sum over devices, which is made of `%v`.
    fn program(header: &str, lines: &str) -> Module {
        let text = format!(
            "HloModule m{header}

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY e {{
  p = f32[16,8] parameter(0), sharding={{devices=[4,1]<=[4]}}
{lines}
  ROOT s = f32[16,8] all-reduce(v), channel_id=1, replica_groups=mesh['a'=4] {{'a'}}, use_global_device_ids=true, to_apply=add
}}
"
        );
        text::parse(&text).expect("a module")
    }

    const FOUR: &str = ", allow_spmd_sharding_propagation_to_output={true}, num_partitions=4";
    const PLAIN: &str = "  v = f32[16,8] negate(p)";

    #[test]
    fn a_divided_program_is_recognised_and_is_one_for_a_device() {
        let mut module = program(FOUR, PLAIN);
        assert!(is_per_device(&module));
        for_one_device(&module).expect("its devices are listed").apply(&mut module).expect("it fits");
        let text = text::print(&module);
        assert!(text.contains("replica_groups={{0,1,2,3}}"), "{text}");
        assert!(!text.contains("sharding") && !text.contains("num_partitions"), "{text}");
    }

    #[test]
    fn copies_at_the_borders_of_manual_computations_go() {
        let lines =
            "  c = f32[16,8] copy(p)\n  d = f32[16,8] copy(c)\n  w = f32[16,8] negate(d)\n  v = f32[16,8] copy(w)";
        let mut module = program(FOUR, lines);
        for_one_device(&module).expect("its devices are listed").apply(&mut module).expect("it fits");
        let text = text::print(&module);
        assert!(!text.contains("copy(") && text.contains("negate(p)") && text.contains("all-reduce(w)"), "{text}");
        assert!(crate::verify::verify(&module).is_empty(), "{text}");
    }

    #[test]
    fn what_is_yet_to_be_divided_is_not_recognised() {
        assert!(!is_per_device(&program("", PLAIN)), "for one device");
        let shardy = format!("{FOUR}, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<[\"d\"=4]>}}}}");
        assert!(!is_per_device(&program(&shardy, PLAIN)), "shard_map under Shardy");
        let call = "  v = f32[16,8] custom-call(p), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}";
        assert!(!is_per_device(&program(FOUR, call)), "shard_map under GSPMD");
        let annotated = "  v = f32[16,8] negate(p), sharding={devices=[4,1]<=[4]}";
        assert!(!is_per_device(&program(FOUR, annotated)), "a value that is yet to be cut");
        let alone = "HloModule m, num_partitions=4\n\nENTRY e {\n  p = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n  ROOT n = f32[8] negate(p)\n}\n";
        assert!(!is_per_device(&text::parse(alone).expect("a module")), "without collectives either may be meant");
    }

    #[test]
    fn devices_are_counted_in_the_header() {
        assert_eq!(partitions(&program(FOUR, PLAIN).attributes), 4);
        let meshes = "{xla.sdy.meshes={empty_mesh = #sdy.mesh<[]>, mesh = #sdy.mesh<[\"a\"=2, \"b\"=4]>}}";
        let module = program(&format!(", frontend_attributes={meshes}"), PLAIN);
        assert_eq!((module.num_partitions(), is_per_device(&module)), (8, false));
        assert_eq!(partitions(&program("", PLAIN).attributes), 1);
    }

    #[test]
    fn what_one_device_alone_does_keeps_the_module_as_it_is() {
        let alone = "  v = f32[16,8] negate(p), sharding={maximal device=0}";
        assert!(for_one_device(&program(FOUR, alone)).is_none());
    }

    #[test]
    fn a_collective_among_unknown_devices_stays() {
        let module = text::parse(&text::print(&program(FOUR, PLAIN)).replace("{'a'}", "{'b'}")).expect("a module");
        assert!(is_per_device(&module) && for_one_device(&module).is_none());
    }
}
