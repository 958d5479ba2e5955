//! Says which arguments and values every device holds a full copy of, what that costs, and how to shard them.
//!
//! Waste: `pmap` with `in_axes=None`, `shard_map` with `PartitionSpec()`, or an argument without a sharding put a full copy of an array on every
//! device. On four devices of one host, such inputs take four times their bytes.
//!
//! ```text
//! %x = f32[64,1024,1024] parameter(1), sharding={replicated}
//!                                       =>   jax.jit(f, in_shardings=(None, NamedSharding(mesh, PartitionSpec("d"))))
//! ```
//!
//! This pass rewrites nothing: how an argument is laid out over devices is a contract with the caller. Each remark (`replicated`) names the array,
//! its bytes on one device and on all of them, and the first dimension that an axis of the mesh divides, with the line to write and the bytes that
//! every device would save. What every other dimension and axis would save follows. Where a body of manual code (`shard_map`, `pmap`) reads the
//! array as a whole, the remark says so: the body must then fetch what it needs from other devices.
//!
//! `partly-replicated` says the same of an array that is cut along some axes of the mesh and copied along others (`last_tile_dim_replicate`, axes
//! that Shardy's annotation leaves out). `no-axis` says that no dimension can be divided. Both the annotations of GSPMD and those of Shardy are
//! read. Sound because nothing changes. Grade: bitwise.
//!
//! Stays away from modules for one device, and from arrays smaller than `--min-saving`.

// Tests: `passes/tests/replication.rs`.

mod layout;

use hlo_ir::{AttrKey, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::{Context, Finding, Grade, Outcome, Pass, PassKind, Reason};
use layout::Mesh;

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replication;

impl Pass for Replication {
    fn name(&self) -> &'static str {
        "replication"
    }
    fn summary(&self) -> &'static str {
        "say which arrays every device holds a full copy of, and how to shard them"
    }
    crate::explanation!("replication.rs");
    fn kind(&self) -> PassKind {
        PassKind::Analysis
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        let mesh = Mesh::of(module);
        if mesh.devices() < 2 {
            return Vec::new();
        }
        let entry = module.instructions_of(module.entry());
        entry.filter_map(|(id, _)| finding(context, &mesh, id)).collect()
    }
}

fn finding(context: &Context<'_>, mesh: &Mesh, id: InstructionId) -> Option<Finding> {
    let module = context.module;
    let inst = module.instruction(id);
    let (array, layout) = (inst.array()?, mesh.layout(inst)?);
    let pieces: i64 = layout.cuts.iter().map(|(ways, _)| ways).product();
    if layout.copies < 2 || pieces < 1 {
        return None;
    }
    let dims = layout.piece(&array.dims)?;
    let bytes = Bytes(size::shape_size(module.shape(id))?.get() / pieces as u64);
    let devices = mesh.devices();
    let all = Bytes(bytes.get().saturating_mul(devices as u64));
    let name = &inst.name;
    let (copies, whole) = (layout.copies, layout.is_whole());
    let cost = if whole {
        format!("every one of {devices} devices holds all of `{name}`: {bytes} on each, {all} on all")
    } else {
        format!("{copies} of {devices} devices hold each of {pieces} pieces of `{name}`: {bytes} on each, {all} on all")
    };
    let splits = layout.splits(&dims);
    let (code, wasted, message) = match splits.first().copied() {
        None => (
            "no-axis",
            bytes,
            format!("{cost}; no dimension of {:?} is divided by an axis of the mesh", dims.as_slice()),
        ),
        Some((dim, axis, size)) => {
            let saved = Bytes(bytes.get() - bytes.get() / size as u64);
            let how = line(module, inst, &layout.spec(dim, axis), is_read_manually(context, id));
            let (code, also) = if whole { ("replicated", "") } else { ("partly-replicated", "also ") };
            let others = others(&splits[1..], bytes);
            (code, saved, format!("{cost}; split {also}along dimension {dim} each would save {saved}{others}: {how}"))
        }
    };
    let outcome = Outcome::Missed(Reason { code, message });
    (wasted >= context.options.min_saving).then_some(Finding {
        instruction: id,
        grade: Grade::Bitwise,
        wasted,
        outcome,
    })
}

/// What the other ways to split would save: ` (dimension 1 over "d": 192.00 MiB)`.
fn others(splits: &[(usize, &str, i64)], bytes: Bytes) -> String {
    if splits.is_empty() {
        return String::new();
    }
    let way = |&(dim, axis, size): &(usize, &str, i64)| {
        let saved = Bytes(bytes.get() - bytes.get() / size as u64);
        format!("dimension {dim} over \"{axis}\": {saved}")
    };
    format!(" ({})", splits.iter().map(way).collect::<Vec<_>>().join(", "))
}

/// The line of JAX to write.
fn line(module: &Module, inst: &Instruction, spec: &str, manual: bool) -> String {
    let Some(number) = inst.parameter_number() else {
        return format!("x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, {spec}))");
    };
    let count = module.parameters(module.entry()).len();
    let place = |at: i64, new: &str| {
        let places = (0..count as i64).map(|other| if other == at { new.to_owned() } else { "...".to_owned() });
        let places = places.collect::<Vec<_>>().join(", ");
        format!("({places}{})", if count == 1 { "," } else { "" })
    };
    if manual {
        return format!(
            "in_specs={} of the shard_map (in_axes of the pmap), whose body must then fetch what it reads from other devices",
            place(number, spec)
        );
    }
    format!("jax.jit(f, in_shardings={})", place(number, &format!("NamedSharding(mesh, {spec})")))
}

/// Whether manual code reads the value: its body then sees one shape for each device.
fn is_read_manually(context: &Context<'_>, id: InstructionId) -> bool {
    context.users.get(id).iter().any(|&user| {
        let user = context.module.instruction(user);
        let target = user.raw(&AttrKey::CustomCallTarget).unwrap_or_default();
        user.opcode == Opcode::CustomCall
            && (target.contains("GlobalToLocalShape") || target.contains("SPMDFullToShardShape"))
    })
}
