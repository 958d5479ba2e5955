//! How an array is divided over the devices, and the texts that say so.
//!
//! Source: the attributes of Shardy's dialect as XLA carries them through HLO (`xla.sdy.*`), and `HloSharding` (xla/hlo/ir/hlo_sharding.cc).

use hlo_ir::shape::{ArrayShape, Shape, ShapeRef};
use hlo_ir::{AttrKey, Instruction, per_device};
use smol_str::{SmolStr, format_smolstr};

use crate::cpu::front::build::share;

/// Names and sizes of the axes of the device mesh.
#[derive(Clone, Debug, Default)]
pub(super) struct Mesh {
    axes: Vec<(SmolStr, i64)>,
    /// Strides at which some array is divided: axes without names end there, so that no two overlap.
    cuts: Vec<i64>,
}

/// For each dimension of an array the mesh axes that divide it; an array that every device holds whole has none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Sharding {
    dims: Vec<Vec<SmolStr>>,
}

/// What the program says about an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stated {
    pub(super) sharding: Sharding,
    /// By dimension: whether it may be divided further.
    pub(super) open: Vec<bool>,
}

impl Stated {
    /// A statement that leaves nothing open.
    pub(super) fn closed(sharding: Sharding) -> Self {
        let open = vec![false; sharding.dims.len()];
        Self { sharding, open }
    }

    /// What an instruction says about its own result: Shardy's attribute, else XLA's.
    pub(super) fn of(inst: &Instruction, mesh: &Mesh) -> Option<Self> {
        if let Some(found) = all_in(inst, "xla.sdy.sharding") {
            return found.into_iter().next();
        }
        let text = inst.raw(&AttrKey::Sharding)?;
        Some(Self::closed(Sharding::tiled(text, inst.array()?.rank(), mesh)?))
    }

    /// What a tuple says in XLA's words about each of its elements, as in `{{replicated}, {devices=[8]<=[8]}}`.
    pub(super) fn of_elements(inst: &Instruction, mesh: &Mesh) -> Option<Vec<Self>> {
        let text = inst.raw(&AttrKey::Sharding)?.trim().strip_prefix('{')?.strip_suffix('}')?;
        let elements = inst.shape.as_tuple()?;
        let texts: Vec<&str> = text.split('{').skip(1).collect();
        let all = texts.iter().zip(elements).map(|(text, shape)| {
            Sharding::tiled(&format!("{{{text}"), shape.as_array()?.rank(), mesh).map(Self::closed)
        });
        if texts.len() == elements.len() { all.collect() } else { None }
    }
}

impl Mesh {
    /// All axes that a header names, as in `mesh = #sdy.mesh<["x"=2, "y"=4]>`.
    pub(super) fn read(text: &str) -> Self {
        let mut axes: Vec<(SmolStr, i64)> = Vec::new();
        for axis in per_device::meshes(text).into_iter().flatten() {
            if axes.iter().all(|known| known.0 != axis.0) {
                axes.push(axis);
            }
        }
        Self { axes, cuts: Vec::new() }
    }

    /// Notes the axes of a sharding in XLA's words.
    pub(super) fn note(&mut self, text: &str) {
        for one in text.split('{') {
            for part in tile_parts(one).into_iter().flatten().flatten() {
                self.cuts.extend([part.stride, part.stride * part.size]);
            }
        }
        self.cuts.sort_unstable();
        self.cuts.dedup();
    }

    /// Names for the axes that parts consist of.
    fn named(&self, parts: &[Part]) -> Option<Vec<SmolStr>> {
        let mut names = Vec::new();
        for part in parts {
            let mut end = part.stride * part.size;
            for &cut in self.cuts.iter().rev().filter(|&&cut| part.stride <= cut && cut < part.stride * part.size) {
                if end % cut != 0 || cut % part.stride != 0 {
                    return None;
                }
                names.push(format_smolstr!("{cut}#{}", end / cut));
                end = cut;
            }
            if end != part.stride {
                return None;
            }
        }
        Some(names)
    }

    /// Whether the program names axes.
    pub(super) fn is_named(&self) -> bool {
        !self.axes.is_empty()
    }

    /// Into how many pieces the axes divide a dimension. An axis of the form `NAME#SIZE` names its own size.
    pub(super) fn pieces(&self, axes: &[SmolStr]) -> Option<i64> {
        axes.iter().try_fold(1_i64, |product, name| {
            let own = name.rsplit_once('#').and_then(|(_, size)| size.parse().ok());
            product.checked_mul(own.or_else(|| Some(self.axes.iter().find(|axis| axis.0 == *name)?.1))?)
        })
    }

    /// The share of one device; a dimension that does not divide evenly is padded.
    pub(super) fn share_of(&self, array: &ArrayShape, sharding: &Sharding) -> Option<ArrayShape> {
        let mut share = array.clone();
        if sharding.dims.len() != share.dims.len() {
            return None;
        }
        for (dim, axes) in share.dims.iter_mut().zip(&sharding.dims) {
            let pieces = self.pieces(axes)?;
            *dim = if pieces > 0 { (*dim + pieces - 1) / pieces } else { return None };
        }
        Some(share)
    }

    /// The same for the shape of an instruction.
    pub(super) fn share_of_shape(&self, shape: &ShapeRef, sharding: &Sharding) -> Option<ShapeRef> {
        match shape.as_ref() {
            Shape::Array(array) => Some(share(self.share_of(array, sharding)?)),
            _ => sharding.is_whole().then(|| shape.clone()),
        }
    }
}

impl Sharding {
    /// Every device holds the whole array.
    pub(super) fn whole(rank: usize) -> Self {
        Self { dims: vec![Vec::new(); rank] }
    }

    /// Whether no axis divides the array.
    pub(super) fn is_whole(&self) -> bool {
        self.dims.iter().all(Vec::is_empty)
    }

    /// The axes of each dimension.
    pub(super) fn dims(&self) -> &[Vec<SmolStr>] {
        &self.dims
    }

    /// A sharding with these axes.
    pub(super) fn of(dims: Vec<Vec<SmolStr>>) -> Self {
        Self { dims }
    }

    /// `{replicated}`, or `{devices=[2,4]<=[8]}`, whose axes are named by their stride among the devices and their size.
    fn tiled(text: &str, rank: usize, mesh: &Mesh) -> Option<Self> {
        if text.contains("manual") || text.contains("maximal") {
            return None;
        }
        if text.contains("replicated}") && !text.contains("devices=") {
            return Some(Self::whole(rank));
        }
        let parts = tile_parts(text)?;
        if parts.len() != rank + usize::from(text.contains("last_tile_dim_replicate")) {
            return None;
        }
        let named = |dim: &Vec<Part>| mesh.named(dim);
        Some(Self { dims: parts[..rank].iter().map(named).collect::<Option<_>>()? })
    }
}

/// Devices at a distance of `stride` from each other, `size` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    size: i64,
    stride: i64,
}

/// Along which devices each dimension of `{devices=[1,4,2]<=[2,4]T(1,0)}` is divided, major first.
///
/// Source: `IotaTileAssignment` (xla/hlo/ir/tile_assignment.cc).
fn tile_parts(text: &str) -> Option<Vec<Vec<Part>>> {
    let numbers = |text: &str| -> Option<Vec<i64>> { text.split(',').map(|n| n.trim().parse().ok()).collect() };
    let (tiles, rest) = text.split_once("devices=[")?.1.split_once(']')?;
    let (sizes, rest) = rest.strip_prefix("<=[")?.split_once(']')?;
    let (tiles, sizes) = (numbers(tiles)?, numbers(sizes)?);
    let mut stride = 1;
    let mut parts: Vec<Part> = Vec::new();
    for &size in sizes.iter().rev() {
        parts.insert(0, Part { size, stride });
        stride *= size;
    }
    if let Some(order) = rest.strip_prefix("T(") {
        let order = numbers(order.split_once(')')?.0)?;
        parts = order.iter().map(|&at| parts.get(usize::try_from(at).ok()?).copied()).collect::<Option<_>>()?;
    }
    let mut rest = parts.into_iter();
    let mut now = rest.next();
    tiles.into_iter().map(|tile| taken(tile, &mut now, &mut rest)).collect()
}

/// The parts that make up a tile of this many devices.
fn taken(mut tile: i64, now: &mut Option<Part>, rest: &mut impl Iterator<Item = Part>) -> Option<Vec<Part>> {
    let mut found: Vec<Part> = Vec::new();
    while tile > 1 {
        let part = (*now)?;
        if part.size <= tile {
            *now = rest.next();
            if part.size > 1 {
                found.push(part);
            }
            tile = if tile % part.size == 0 { tile / part.size } else { return None };
        } else if part.size % tile == 0 {
            let left = part.size / tile;
            found.push(Part { size: tile, stride: part.stride * left });
            *now = Some(Part { size: left, ..part });
            tile = 1;
        } else {
            return None;
        }
    }
    Some(found)
}

/// The shardings that an instruction lists under a key of its frontend attributes; `None` if it does not have the key, or lists one that
/// is not understood.
pub(super) fn all_in(inst: &Instruction, key: &str) -> Option<Vec<Stated>> {
    let text = inst.raw(&AttrKey::FrontendAttributes)?;
    let (_, rest) = text.split_once(&format!("{key}=\""))?;
    let end =
        (0..rest.len()).find(|&at| rest.as_bytes()[at] == b'"' && (at == 0 || rest.as_bytes()[at - 1] != b'\\'))?;
    let value = rest[..end].replace('\\', "");
    value.split("<@").skip(1).map(one).collect()
}

/// `mesh, [{"x"}, {}, {?}]`: the axes of each dimension, and whether more may join them.
fn one(text: &str) -> Option<Stated> {
    let (_, rest) = text.split_once('[')?;
    let (list, rest) = rest.split_once(']')?;
    if rest.starts_with(", replicated") || rest.starts_with(", unreduced") {
        return None;
    }
    let (mut dims, mut open) = (Vec::new(), Vec::new());
    for dim in list.split('{').skip(1) {
        let (axes, _) = dim.split_once('}')?;
        let names = axes.split(',').map(str::trim);
        open.push(names.clone().any(|name| name == "?"));
        dims.push(names.filter(|name| !matches!(*name, "" | "?")).map(axis).collect::<Option<_>>()?);
    }
    Some(Stated { sharding: Sharding { dims }, open })
}

/// `"x"`, or `"x":(2)4` for a part of an axis.
fn axis(text: &str) -> Option<SmolStr> {
    let name = text.strip_prefix('"')?;
    match name.split_once('"')? {
        (name, "") => Some(name.into()),
        (name, part) => {
            let (before, size) = part.strip_prefix(":(")?.split_once(')')?;
            Some(format_smolstr!("{name}:{before}#{size}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(dims: &[&[&str]]) -> Sharding {
        Sharding { dims: dims.iter().map(|axes| axes.iter().map(|&axis| axis.into()).collect()).collect() }
    }

    #[test]
    fn shardings_of_both_kinds_are_read() {
        let open = |text| one(text).map(|stated| (stated.sharding, stated.open));
        let closed = |dims: &[&[&str]]| Some(Stated::closed(axes(dims)));
        assert_eq!(
            open(r#"mesh, [{"x", "y"}, {}, {?}]>"#),
            Some((axes(&[&["x", "y"], &[], &[]]), vec![false, false, true]))
        );
        assert_eq!(one(r#"mesh, [{"x":(2)4}]>"#), closed(&[&["x:2#4"]]));
    }

    #[test]
    fn axes_without_names_are_parts_of_the_devices() {
        let mut mesh = Mesh::default();
        let texts = ["{devices=[2,1,4]<=[8]}", "{{replicated}, {devices=[8,1]<=[8]}}"];
        for text in texts {
            mesh.note(text);
        }
        let tiled = |text, rank| Sharding::tiled(text, rank, &mesh);
        assert_eq!(tiled("{devices=[2,1,4]<=[8]}", 3), Some(axes(&[&["4#2"], &[], &["1#4"]])));
        assert_eq!(tiled("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2), Some(axes(&[&[], &["1#4"]])));
        assert_eq!(tiled("{devices=[8,1]<=[8]}", 2), Some(axes(&[&["4#2", "1#4"], &[]])), "axes do not overlap");
        assert_eq!(tiled("{replicated}", 2), Some(Sharding::whole(2)));
        assert_eq!(tiled("{manual}", 2), None);
        assert_eq!(tiled("{devices=[3,2]<=[2,3]}", 2), None, "an axis would have to be split");
        assert_eq!(tiled("{devices=[2,1,4]<=[8] last_tile_dims={manual}}", 2), None);
    }

    #[test]
    fn a_share_is_padded() {
        let mesh = Mesh::read(r#"{xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}"#);
        let array = ArrayShape::new(hlo_ir::ElementType::F32, [10, 6]);
        let share = mesh.share_of(&array, &axes(&[&["x", "y"], &["x:1#2"]])).unwrap();
        assert_eq!(share.dims.as_slice(), [2, 3]);
        assert_eq!(mesh.share_of(&array, &axes(&[&["z"], &[]])), None);
    }
}
