//! Shardings, meshes and device lists to messages and back.

use std::fmt::Write as _;

use super::message::common as pb;
use super::metadata;
use super::scan::{Cursor, Fit, braces, grouped, joined};

const REPLICATED: i32 = 0;
const MAXIMAL: i32 = 1;
const TUPLE: i32 = 2;
const OTHER: i32 = 3;
const MANUAL: i32 = 4;
const UNKNOWN: i32 = 5;
const UNREDUCED: i32 = 6;

/// Tile dimensions and shardings that are one word.
const WORDS: [(&str, i32); 4] =
    [("replicated", REPLICATED), ("manual", MANUAL), ("unknown", UNKNOWN), ("unreduced", UNREDUCED)];

fn type_of(word: &str) -> Fit<i32> {
    let known = WORDS.iter().find(|row| row.0 == word).map(|row| row.1);
    known.ok_or_else(|| format!("`{word}` is no kind of sharding"))
}
fn word_of(number: i32) -> Fit<&'static str> {
    let known = WORDS.iter().find(|row| row.1 == number).map(|row| row.0);
    known.ok_or_else(|| format!("sharding type {number} is not known"))
}

/// Reads the text of a sharding.
pub(super) fn write(text: &str) -> Fit<pb::OpSharding> {
    let mut cursor = Cursor::new(text);
    let sharding = nested(&mut cursor)?;
    cursor.end()?;
    Ok(sharding)
}

fn nested(cursor: &mut Cursor<'_>) -> Fit<pb::OpSharding> {
    cursor.expect("{")?;
    match cursor.peek() {
        Some(b'{' | b'}') => {
            let mut tuple_shardings = Vec::new();
            while !cursor.eat("}") {
                tuple_shardings.push(single(cursor)?);
                cursor.eat(",");
            }
            Ok(pb::OpSharding { r#type: TUPLE, tuple_shardings, ..pb::OpSharding::default() })
        }
        _ => inside(cursor),
    }
}

/// An element of a tuple; tuples are not nested.
fn single(cursor: &mut Cursor<'_>) -> Fit<pb::OpSharding> {
    cursor.expect("{")?;
    inside(cursor)
}

/// What stands behind the opening brace, and the closing one.
fn inside(cursor: &mut Cursor<'_>) -> Fit<pb::OpSharding> {
    let mut sharding = pb::OpSharding::default();
    if cursor.rest.starts_with("mesh[") || cursor.rest.starts_with("maximal_mesh[") {
        sharding.r#type = OTHER;
        sharding.named_sharding = Some(named(cursor)?);
        return Ok(sharding);
    }
    while !cursor.eat("}") {
        part(cursor, &mut sharding)?;
    }
    Ok(sharding)
}

fn part(cursor: &mut Cursor<'_>, sharding: &mut pb::OpSharding) -> Fit<()> {
    match cursor.word()? {
        "devices" => {
            cursor.expect("=")?;
            sharding.r#type = OTHER;
            sharding.tile_assignment_dimensions = cursor.list(("[", "]"), Cursor::int)?;
            if cursor.eat("<=") {
                (sharding.iota_reshape_dims, sharding.iota_transpose_perm) = iota(cursor)?;
            } else {
                sharding.tile_assignment_devices.push(cursor.int()?);
                while cursor.eat(",") {
                    sharding.tile_assignment_devices.push(cursor.int()?);
                }
            }
        }
        "maximal" => sharding.r#type = MAXIMAL,
        "device" => {
            cursor.expect("=")?;
            sharding.tile_assignment_dimensions = vec![1];
            sharding.tile_assignment_devices = vec![cursor.int()?];
        }
        "last_tile_dim_replicate" => sharding.replicate_on_last_tile_dim = true,
        "last_tile_dims" => {
            cursor.expect("=")?;
            sharding.last_tile_dims = cursor.list(("{", "}"), |cursor| type_of(cursor.word()?))?;
        }
        word @ ("shard_as" | "shard_like") => {
            sharding.is_shard_group = true;
            sharding.shard_group_id = cursor.int()?;
            sharding.shard_group_type = i32::from(word == "shard_like");
        }
        "metadata" => {
            cursor.expect("=")?;
            sharding.metadata = metadata::list(cursor)?;
        }
        word => sharding.r#type = type_of(word)?,
    }
    Ok(())
}

/// `[4,2]T(1,0)`: sizes and their order, which is identity when not written.
pub(super) fn iota(cursor: &mut Cursor<'_>) -> Fit<(Vec<i64>, Vec<i32>)> {
    let sizes = cursor.list(("[", "]"), Cursor::int)?;
    let order =
        if cursor.eat("T") { cursor.list(("(", ")"), Cursor::small)? } else { (0..sizes.len() as i32).collect() };
    Ok((sizes, order))
}

/// `[4,2]T(1,0)`; the order is written unless it is the identity.
fn iota_text(sizes: &[i64], order: &[i32]) -> String {
    let identity = order.iter().copied().eq(0..order.len() as i32);
    let order = if identity { String::new() } else { format!("T({})", joined(order, ",")) };
    format!("[{}]{order}", joined(sizes, ","))
}

/// `mesh['x'=2,'y'=4], [{'x'}, {'y':(1)2, ?}], replicated={...}`, without its opening brace.
fn named(cursor: &mut Cursor<'_>) -> Fit<pb::NamedSharding> {
    let mesh = mesh(cursor)?;
    let mut sharding = pb::NamedSharding::default();
    while !cursor.eat("}") {
        cursor.eat(",");
        if cursor.peek() == Some(b'[') {
            sharding.dim_shardings = cursor.list(("[", "]"), |cursor| dim_sharding(&mesh, cursor))?;
            continue;
        }
        let key = cursor.word()?;
        if !cursor.eat("=") {
            return Err(format!("`{key}` of a named sharding cannot be written as proto"));
        }
        let axes = match key {
            "replicated" => &mut sharding.replicated_axes,
            "unreduced" => &mut sharding.unreduced_axes,
            "manual" => &mut sharding.manual_axes,
            "metadata" => {
                sharding.metadata = metadata::list(cursor)?;
                continue;
            }
            _ => return Err(format!("`{key}` of a named sharding is not known")),
        };
        *axes = cursor.list(("{", "}"), |cursor| axis(&mesh, cursor))?;
    }
    sharding.mesh = Some(mesh);
    Ok(sharding)
}

/// `mesh['x'=2,'y'=4]` with optional `, device_ids=(...)`, or `maximal_mesh[device_id=1]`.
fn mesh(cursor: &mut Cursor<'_>) -> Fit<pb::Mesh> {
    let mut mesh = pb::Mesh::default();
    if cursor.eat("maximal_mesh") {
        mesh.device_ids = cursor.list(("[", "]"), |cursor| {
            cursor.expect("device_id=")?;
            cursor.int()
        })?;
        return Ok(mesh);
    }
    cursor.expect("mesh")?;
    mesh.axes = cursor.list(("[", "]"), |cursor| {
        let name = cursor.string()?;
        cursor.expect("=")?;
        Ok(pb::MeshMeshAxis { name, size: cursor.int()? })
    })?;
    let before = *cursor;
    if cursor.eat(",") && cursor.eat("device_ids=") {
        cursor.expect("(")?;
        if cursor.peek() == Some(b'[') {
            let (reshape_dims, order) = iota(cursor)?;
            let transpose_perm = order.into_iter().map(i64::from).collect();
            mesh.iota_transform = Some(pb::MeshIotaTransform { reshape_dims, transpose_perm });
            cursor.expect(")")?;
        } else {
            *cursor = Cursor::new(before.rest);
            cursor.expect(",")?;
            cursor.expect("device_ids=")?;
            mesh.device_ids = cursor.list(("(", ")"), Cursor::int)?;
        }
    } else {
        *cursor = before;
    }
    Ok(mesh)
}

/// `{'x', 'y':(1)2, ?}`; `?` is open.
fn dim_sharding(mesh: &pb::Mesh, cursor: &mut Cursor<'_>) -> Fit<pb::DimensionSharding> {
    cursor.expect("{")?;
    let mut sharding = pb::DimensionSharding { axes: Vec::new(), is_closed: true };
    while !cursor.eat("}") {
        if cursor.eat("?") {
            sharding.is_closed = false;
        } else {
            sharding.axes.push(axis(mesh, cursor)?);
        }
        cursor.eat(",");
    }
    Ok(sharding)
}

/// `'x'` or `'x':(1)2`.
fn axis(mesh: &pb::Mesh, cursor: &mut Cursor<'_>) -> Fit<pb::AxisRef> {
    let name = cursor.string()?;
    let index =
        mesh.axes.iter().position(|axis| axis.name == name).ok_or_else(|| format!("the mesh has no axis `{name}`"))?;
    let sub_axis_info = if cursor.eat(":") {
        cursor.expect("(")?;
        let pre_size = cursor.int()?;
        cursor.expect(")")?;
        Some(pb::AxisRefSubAxis { pre_size, size: cursor.int()? })
    } else {
        None
    };
    Ok(pb::AxisRef { mesh_axis_index: index as i64, sub_axis_info })
}

/// The text of a sharding.
pub(super) fn read(sharding: &pb::OpSharding) -> Fit<String> {
    if sharding.r#type == TUPLE {
        let parts = sharding.tuple_shardings.iter().map(read).collect::<Fit<Vec<_>>>()?;
        let mut out = String::from("{");
        for (index, part) in parts.iter().enumerate() {
            out.push_str(match index {
                0 => "",
                _ if index % 5 == 0 => ", /*index=",
                _ => ", ",
            });
            if index > 0 && index % 5 == 0 {
                write!(out, "{index}*/").expect("writing to a string cannot fail");
            }
            out.push_str(part);
        }
        out.push('}');
        return Ok(out);
    }
    if let Some(named) = &sharding.named_sharding {
        return read_named(named);
    }
    let mut parts = vec![match sharding.r#type {
        MAXIMAL => {
            let device = sharding.tile_assignment_devices.first().ok_or("a maximal sharding lacks its device")?;
            format!("maximal device={device}")
        }
        OTHER => tiles(sharding),
        other => word_of(other)?.to_owned(),
    }];
    if sharding.replicate_on_last_tile_dim {
        parts.push("last_tile_dim_replicate".to_owned());
    }
    if !sharding.last_tile_dims.is_empty() {
        let words = sharding.last_tile_dims.iter().map(|&number| word_of(number)).collect::<Fit<Vec<_>>>()?;
        parts.push(format!("last_tile_dims={{{}}}", words.join(", ")));
    }
    if sharding.is_shard_group {
        let word = if sharding.shard_group_type == 0 { "shard_as" } else { "shard_like" };
        parts.push(format!("{word} {}", sharding.shard_group_id));
    }
    if !sharding.metadata.is_empty() {
        parts.push(format!("metadata={}", metadata::list_text(&sharding.metadata)?));
    }
    Ok(format!("{{{}}}", parts.join(" ")))
}

fn tiles(sharding: &pb::OpSharding) -> String {
    let dims = joined(&sharding.tile_assignment_dimensions, ",");
    let devices = if sharding.iota_reshape_dims.is_empty() {
        joined(&sharding.tile_assignment_devices, ",")
    } else {
        format!("<={}", iota_text(&sharding.iota_reshape_dims, &sharding.iota_transpose_perm))
    };
    format!("devices=[{dims}]{devices}")
}

fn read_named(sharding: &pb::NamedSharding) -> Fit<String> {
    let mesh = sharding.mesh.as_ref().ok_or("a named sharding lacks its mesh")?;
    let mut parts = vec![mesh_text(mesh)];
    let mut dims = Vec::new();
    for dim in &sharding.dim_shardings {
        let mut axes = axes_text(mesh, &dim.axes)?;
        if !dim.is_closed {
            axes.push("?".to_owned());
        }
        dims.push(grouped(axes, ", "));
    }
    parts.push(format!("[{}]", dims.join(", ")));
    for (key, axes) in [
        ("replicated", &sharding.replicated_axes),
        ("unreduced", &sharding.unreduced_axes),
        ("manual", &sharding.manual_axes),
    ] {
        if !axes.is_empty() {
            parts.push(format!("{key}={}", grouped(axes_text(mesh, axes)?, ", ")));
        }
    }
    if !sharding.metadata.is_empty() {
        parts.push(format!("metadata={}", metadata::list_text(&sharding.metadata)?));
    }
    Ok(grouped(parts, ", "))
}

fn mesh_text(mesh: &pb::Mesh) -> String {
    if let ([], [device]) = (mesh.axes.as_slice(), mesh.device_ids.as_slice()) {
        return format!("maximal_mesh[device_id={device}]");
    }
    let axes = mesh.axes.iter().map(|axis| format!("'{}'={}", axis.name, axis.size));
    let devices = match &mesh.iota_transform {
        Some(iota) => {
            let order: Vec<i32> = iota.transpose_perm.iter().map(|&dim| dim as i32).collect();
            format!(", device_ids=({})", iota_text(&iota.reshape_dims, &order))
        }
        None if mesh.device_ids.is_empty() => String::new(),
        None => format!(", device_ids=({})", joined(&mesh.device_ids, ",")),
    };
    format!("mesh[{}]{devices}", joined(axes, ","))
}

fn axes_text(mesh: &pb::Mesh, axes: &[pb::AxisRef]) -> Fit<Vec<String>> {
    axes.iter()
        .map(|axis| {
            let index = usize::try_from(axis.mesh_axis_index).ok();
            let known = index.and_then(|index| mesh.axes.get(index));
            let name = &known.ok_or_else(|| format!("the mesh has no axis {}", axis.mesh_axis_index))?.name;
            if name.contains(|c: char| c == '\'' || c == '\\' || c.is_control()) {
                return Err(format!("the axis name `{name}` cannot be written"));
            }
            Ok(match &axis.sub_axis_info {
                Some(sub) => format!("'{name}':({}){}", sub.pre_size, sub.size),
                None => format!("'{name}'"),
            })
        })
        .collect()
}

/// One of the three forms of a list of devices.
pub(crate) enum Groups {
    Listed(pb::CollectiveDeviceList),
    Iota(pb::IotaReplicaGroupList),
    Mesh(pb::MeshAxesReplicaGroupList),
}

/// Reads the text of `replica_groups`.
pub(crate) fn groups(text: &str) -> Fit<Groups> {
    let mut cursor = Cursor::new(text);
    let groups = match cursor.peek() {
        Some(b'{') => {
            let replica_groups =
                cursor.list(("{", "}"), |cursor| Ok(pb::ReplicaGroup { replica_ids: cursor.ints()? }))?;
            Groups::Listed(pb::CollectiveDeviceList { replica_groups, iota_replica_group_list: None })
        }
        Some(b'[') => {
            let sizes = cursor.list(("[", "]"), Cursor::int)?;
            let [num_replica_groups, num_devices_per_group] = sizes[..] else {
                return Err("two dimensions expected".to_owned());
            };
            cursor.expect("<=")?;
            let (iota_reshape_dims, iota_transpose_perm) = iota(&mut cursor)?;
            Groups::Iota(pb::IotaReplicaGroupList {
                num_replica_groups,
                num_devices_per_group,
                iota_reshape_dims,
                iota_transpose_perm,
            })
        }
        _ => {
            let mesh = mesh(&mut cursor)?;
            let axes = cursor.list(("{", "}"), |cursor| axis(&mesh, cursor))?;
            Groups::Mesh(pb::MeshAxesReplicaGroupList { mesh: Some(mesh), axes })
        }
    };
    cursor.end()?;
    Ok(groups)
}

/// `{{0,1},{2,3}}`.
pub(super) fn listed_text(groups: &[pb::ReplicaGroup]) -> String {
    grouped(groups.iter().map(|group| braces(&group.replica_ids)), ",")
}
/// `[2,4]<=[8]`.
pub(super) fn iota_groups_text(groups: &pb::IotaReplicaGroupList) -> String {
    let devices = iota_text(&groups.iota_reshape_dims, &groups.iota_transpose_perm);
    format!("[{},{}]<={devices}", groups.num_replica_groups, groups.num_devices_per_group)
}
/// `mesh['a'=2,'b'=4] {'a'}`.
pub(super) fn mesh_groups_text(groups: &pb::MeshAxesReplicaGroupList) -> Fit<String> {
    let mesh = groups.mesh.as_ref().ok_or("replica groups lack their mesh")?;
    Ok(format!("{} {}", mesh_text(mesh), grouped(axes_text(mesh, &groups.axes)?, ",")))
}
