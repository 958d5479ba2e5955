//! Says which arguments and values every device holds a full copy of, what that costs, and how to shard them.
//!
//! Waste: `pmap` with `in_axes=None`, `shard_map` with `PartitionSpec()`, or an argument without a sharding put a full copy of an array on
//! every device. With 4 devices on one host, 256 MiB of inputs take 1 GiB.
//!
//! ```text
//! %x = f32[64,1024,1024] parameter(1), sharding={replicated}
//!                                       =>   jax.jit(f, in_shardings=(None, NamedSharding(mesh, PartitionSpec("d"))))
//! ```
//!
//! This pass rewrites nothing: how an argument is laid out over devices is a contract with the caller. Each remark (`replicated`) names the
//! array, its bytes on one device and on all of them, and the first dimension that an axis of the mesh divides, with the line to write and
//! the bytes that every device would save; then what every other dimension and axis would save. Where a body of manual code (`shard_map`, `pmap`) reads the array as a whole, the remark says so:
//! the body must then fetch what it needs from other devices. `no-axis` says that no dimension can be divided. Both the annotations of GSPMD and those of Shardy
//! are read. Sound because nothing changes. Grade: bitwise.
//!
//! Stays away from modules for one device, and from arrays smaller than `--min-saving`.

use hlo_ir::{AttrKey, AttrValue, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::{Context, Finding, Grade, Outcome, Pass, PassKind, Reason};

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
        PassKind::Rewrite
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        let mesh = Mesh::of(module);
        if mesh.devices() < 2 {
            return Vec::new();
        }
        let entry = module.instructions_of(module.entry());
        let copied = entry.filter(|(_, inst)| is_replicated(inst)).map(|(id, _)| id);
        copied.filter_map(|id| finding(context, &mesh, id)).collect()
    }
}

/// The devices of a module: named axes with their sizes.
struct Mesh {
    axes: Vec<(String, i64)>,
}

impl Mesh {
    /// From Shardy's meshes in the header, or else one axis over all partitions.
    fn of(module: &Module) -> Self {
        let text = match module.attribute(&AttrKey::FrontendAttributes) {
            Some(AttrValue::Raw(text)) => text.as_str(),
            _ => "",
        };
        let listed = text.split("sdy.mesh<[").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
        let read = |axis: &str| {
            let (name, size) = axis.rsplit_once('=')?;
            let name = name.trim().trim_matches(['"', '\\']).to_owned();
            Some((name, size.trim().parse().ok()?))
        };
        let axes: Vec<(String, i64)> = listed.split(',').filter_map(read).collect();
        let one = || vec![("devices".to_owned(), module.num_partitions())];
        Self { axes: if axes.is_empty() { one() } else { axes } }
    }
    fn devices(&self) -> i64 {
        self.axes.iter().map(|(_, size)| size).product()
    }
    /// Every dimension that an axis divides, with the axis and its size; the largest axes first.
    fn splits<'m>(&'m self, dims: &[i64]) -> Vec<(usize, &'m str, i64)> {
        let mut axes: Vec<&(String, i64)> = self.axes.iter().filter(|(_, size)| *size > 1).collect();
        axes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        let fits = |(name, size): &'m (String, i64)| {
            let dims: Vec<usize> =
                (0..dims.len()).filter(|&dim| dims[dim] % size == 0 && dims[dim] / size > 0).collect();
            dims.into_iter().map(move |dim| (dim, name.as_str(), *size))
        };
        axes.into_iter().flat_map(fits).collect()
    }
}

/// Whether an annotation says that every device holds all of the value.
fn is_replicated(inst: &Instruction) -> bool {
    if inst.array().is_none() {
        return false;
    }
    match inst.raw(&AttrKey::Sharding) {
        Some(text) => text.trim_matches(['{', '}']).trim() == "replicated",
        None => inst.raw(&AttrKey::FrontendAttributes).is_some_and(is_whole_in_shardy),
    }
}

/// Whether Shardy's annotation names no axis: `#sdy.sharding<@mesh, [{}, {}]>`.
fn is_whole_in_shardy(text: &str) -> bool {
    let dims = text.split("#sdy.sharding<").nth(1).and_then(|rest| rest.split('>').next());
    let dims = dims.and_then(|rest| rest.split_once('[')).and_then(|(_, rest)| rest.rsplit_once(']'));
    dims.is_some_and(|(dims, _)| !dims.contains('"'))
}

fn finding(context: &Context<'_>, mesh: &Mesh, id: InstructionId) -> Option<Finding> {
    let module = context.module;
    let inst = module.instruction(id);
    let array = inst.array()?;
    let bytes = size::shape_size(module.shape(id))?;
    let devices = mesh.devices();
    let all = Bytes(bytes.get().saturating_mul(devices as u64));
    let name = &inst.name;
    let cost = format!("every one of {devices} devices holds all of `{name}`: {bytes} on each, {all} on all");
    let splits = mesh.splits(&array.dims);
    let (code, wasted, message) = match splits.first().copied() {
        None => (
            "no-axis",
            bytes,
            format!("{cost}; no dimension of {:?} is divided by an axis of the mesh", &array.dims[..]),
        ),
        Some((dim, axis, size)) => {
            let saved = Bytes(bytes.get() - bytes.get() / size as u64);
            let spec = spec(dim, axis);
            let how = line(module, inst, &spec, is_read_manually(context, id));
            let others = others(&splits[1..], bytes);
            ("replicated", saved, format!("{cost}; split along dimension {dim} each would save {saved}{others}: {how}"))
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

/// `PartitionSpec(None, "d")`.
fn spec(dim: usize, axis: &str) -> String {
    let places = (0..dim).map(|_| "None".to_owned()).chain([format!("\"{axis}\"")]);
    format!("PartitionSpec({})", places.collect::<Vec<_>>().join(", "))
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
