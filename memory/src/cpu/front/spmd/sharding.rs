//! How an array is divided over the devices, and the texts that say so.
//!
//! Source: the attributes of Shardy's dialect as XLA carries them through HLO (`xla.sdy.*`), and `HloSharding` (xla/hlo/ir/hlo_sharding.cc).

use hlo_ir::shape::{ArrayShape, Shape, ShapeRef};
use hlo_ir::{AttrKey, Instruction};
use smol_str::{SmolStr, format_smolstr};

use crate::cpu::front::build::share;

/// Names and sizes of the axes of the device mesh.
#[derive(Clone, Debug, Default)]
pub(super) struct Mesh {
    axes: Vec<(SmolStr, i64)>,
}

/// For each dimension of an array the mesh axes that divide it; an array that every device holds whole has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sharding {
    dims: Vec<Vec<SmolStr>>,
}

impl Mesh {
    /// All axes that a header names, as in `mesh = #sdy.mesh<["x"=2, "y"=4]>`.
    pub(super) fn read(text: &str) -> Self {
        let text = text.replace('\\', "");
        let mut axes: Vec<(SmolStr, i64)> = Vec::new();
        for (at, _) in text.match_indices("\"=") {
            let name = text[..at].rsplit('"').next().unwrap_or_default();
            let digits: String = text[at + 2..].chars().take_while(char::is_ascii_digit).collect();
            if let (Ok(size), false) = (digits.parse(), axes.iter().any(|axis| axis.0 == name)) {
                axes.push((name.into(), size));
            }
        }
        Self { axes }
    }

    /// Into how many pieces the axes divide a dimension. An axis of the form `NAME#SIZE` names its own size.
    fn pieces(&self, axes: &[SmolStr]) -> Option<i64> {
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

    /// What an instruction says about its own result: Shardy's attribute, else XLA's.
    pub(super) fn stated(inst: &Instruction) -> Option<Self> {
        if let Some(found) = all_in(inst, "xla.sdy.sharding") {
            return found.into_iter().next();
        }
        let text = inst.raw(&AttrKey::Sharding)?;
        Self::tiled(text, inst.array()?.rank())
    }

    /// `{replicated}`, or `{devices=[2,4]<=[8]}` where devices are counted along the dimensions in their order.
    fn tiled(text: &str, rank: usize) -> Option<Self> {
        if text.contains("replicated}") && !text.contains("devices=") {
            return Some(Self::whole(rank));
        }
        let (_, rest) = text.split_once("devices=[")?;
        let (tiles, rest) = rest.split_once(']')?;
        let tiles: Vec<i64> = tiles.split(',').map(|tile| tile.trim().parse().ok()).collect::<Option<_>>()?;
        let order = rest.strip_prefix("<=[")?;
        let (_, rest) = order.split_once(']')?;
        let plain = !rest.starts_with('T') && (tiles.len() == rank || rest.contains("last_tile_dim_replicate"));
        if !plain || tiles.len() < rank {
            return None;
        }
        let mut stride: i64 = tiles.iter().product();
        let mut dims = Vec::new();
        for &tile in &tiles[..rank] {
            stride /= tile.max(1);
            dims.push(if tile > 1 { vec![format_smolstr!("{stride}#{tile}")] } else { Vec::new() });
        }
        Some(Self { dims })
    }
}

/// The shardings that an instruction lists under a key of its frontend attributes; `None` if it does not have the key, or lists one that
/// is not understood.
pub(super) fn all_in(inst: &Instruction, key: &str) -> Option<Vec<Sharding>> {
    let text = inst.raw(&AttrKey::FrontendAttributes)?;
    let (_, rest) = text.split_once(&format!("{key}=\""))?;
    let end =
        (0..rest.len()).find(|&at| rest.as_bytes()[at] == b'"' && (at == 0 || rest.as_bytes()[at - 1] != b'\\'))?;
    let value = rest[..end].replace('\\', "");
    value.split("<@").skip(1).map(one).collect()
}

/// `mesh, [{"x"}, {}]`: the axes of each dimension.
fn one(text: &str) -> Option<Sharding> {
    let (_, rest) = text.split_once('[')?;
    let (list, rest) = rest.split_once(']')?;
    if rest.starts_with(", replicated") || rest.starts_with(", unreduced") {
        return None;
    }
    let mut dims = Vec::new();
    for dim in list.split('{').skip(1) {
        let (axes, _) = dim.split_once('}')?;
        let names = axes.split(',').map(str::trim).filter(|name| !matches!(*name, "" | "?"));
        dims.push(names.map(axis).collect::<Option<_>>()?);
    }
    Some(Sharding { dims })
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
        assert_eq!(one(r#"mesh, [{"x", "y"}, {}, {?}]>"#), Some(axes(&[&["x", "y"], &[], &[]])));
        assert_eq!(one(r#"mesh, [{"x":(2)4}]>"#), Some(axes(&[&["x:2#4"]])));
        assert_eq!(Sharding::tiled("{devices=[2,1,4]<=[8]}", 3), Some(axes(&[&["4#2"], &[], &["1#4"]])));
        assert_eq!(Sharding::tiled("{replicated}", 2), Some(Sharding::whole(2)));
        assert_eq!(Sharding::tiled("{devices=[2,4]<=[4,2]T(1,0)}", 2), None);
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
