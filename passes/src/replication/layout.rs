//! How a value lies across the devices of a mesh, read from the annotations of GSPMD and of Shardy.

use hlo_ir::{AttrKey, AttrValue, Instruction, Module};

/// The devices of a module: named axes with their sizes.
pub(super) struct Mesh {
    pub(super) axes: Vec<(String, i64)>,
    /// Whether the module itself names the axes.
    named: bool,
}

/// How a value lies across the devices.
pub(super) struct Layout {
    /// For each dimension, in how many pieces it is cut, and over which axes as far as they are known.
    pub(super) cuts: Vec<(i64, Vec<String>)>,
    /// How many devices hold each piece.
    pub(super) copies: i64,
    /// Axes along which the pieces are copied.
    pub(super) free: Vec<(String, i64)>,
}

impl Mesh {
    /// From Shardy's meshes in the header, or else one axis over all partitions.
    pub(super) fn of(module: &Module) -> Self {
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
        let named = !axes.is_empty();
        let one = || vec![("devices".to_owned(), module.num_partitions())];
        Self { axes: if named { axes } else { one() }, named }
    }

    pub(super) fn devices(&self) -> i64 {
        self.axes.iter().map(|(_, size)| size).product()
    }

    /// How an annotated array lies; `None` without an annotation, or with one that says something else than pieces and copies.
    pub(super) fn layout(&self, inst: &Instruction) -> Option<Layout> {
        let rank = inst.array()?.rank();
        let shardy = inst.raw(&AttrKey::FrontendAttributes).filter(|_| self.named);
        if let Some(layout) = shardy.and_then(|text| self.of_shardy(text, rank)) {
            return Some(layout);
        }
        match inst.raw(&AttrKey::Sharding) {
            Some(text) => self.of_gspmd(text.trim().strip_prefix('{')?.strip_suffix('}')?, rank),
            None => self.of_shardy(inst.raw(&AttrKey::FrontendAttributes)?, rank),
        }
    }

    /// `replicated`, or `devices=[2,1,4]<=[8] last_tile_dim_replicate`.
    fn of_gspmd(&self, text: &str, rank: usize) -> Option<Layout> {
        if text.trim() == "replicated" {
            let cuts = vec![(1, Vec::new()); rank];
            return Some(Layout { cuts, copies: self.devices(), free: self.axes.clone() });
        }
        let (tile, rest) = text.trim().strip_prefix("devices=[")?.split_once(']')?;
        let tile: Vec<i64> = tile.split(',').map(|size| size.trim().parse().ok()).collect::<Option<_>>()?;
        let (cuts, others) = tile.split_at_checked(rank)?;
        let copies = if rest.contains("last_tile_dim_replicate") { *others.last()? } else { replicated(rest, others) };
        // The annotation does not name axes: each cut dimension gets a name of its own.
        let cut = |(dim, &ways): (usize, &i64)| (ways, if ways > 1 { vec![format!("axis{dim}")] } else { Vec::new() });
        let cuts = cuts.iter().enumerate().map(cut).collect();
        Some(Layout { cuts, copies, free: vec![("copies".to_owned(), copies)] })
    }

    /// `#sdy.sharding<@mesh, [{"a"}, {}]>`; parts of an axis are written `"a":(1)2`.
    fn of_shardy(&self, text: &str, rank: usize) -> Option<Layout> {
        let dims = text.split("#sdy.sharding<").nth(1)?.split('>').next()?;
        let dims = dims.split_once('[')?.1.rsplit_once(']')?.0;
        let mut cuts = Vec::new();
        let mut free = self.axes.clone();
        for dim in dims.split('}').filter_map(|dim| dim.split_once('{')).map(|(_, axes)| axes) {
            let mut cut = (1, Vec::new());
            for axis in dim.split(',').map(str::trim).filter(|axis| axis.contains('"')) {
                let (name, part) = axis.trim_start_matches('\\').trim_start_matches('"').split_once('"')?;
                let name = name.trim_end_matches('\\');
                let known = free.iter_mut().find(|(free, _)| free == name)?;
                let size = part.rsplit_once(')').and_then(|(_, size)| size.trim().parse().ok()).unwrap_or(known.1);
                if size < 1 || known.1 % size != 0 {
                    return None;
                }
                known.1 /= size;
                cut = (cut.0 * size, [cut.1, vec![name.to_owned()]].concat());
            }
            cuts.push(cut);
        }
        free.retain(|(_, size)| *size > 1);
        let copies = free.iter().map(|(_, size)| size).product();
        (cuts.len() == rank).then_some(Layout { cuts, copies, free })
    }
}

impl Layout {
    /// Whether every device holds all of the value.
    pub(super) fn is_whole(&self) -> bool {
        self.cuts.iter().all(|(ways, _)| *ways == 1)
    }

    /// The dimensions of one piece; `None` if they are not cut evenly.
    pub(super) fn piece(&self, dims: &[i64]) -> Option<Vec<i64>> {
        let cut = |(&dim, (ways, _)): (&i64, &(i64, Vec<String>))| (*ways > 0 && dim % ways == 0).then(|| dim / ways);
        dims.iter().zip(&self.cuts).map(cut).collect()
    }

    /// Every dimension of a piece that a free axis divides, with the axis and its size; the largest axes first.
    pub(super) fn splits<'m>(&'m self, piece: &[i64]) -> Vec<(usize, &'m str, i64)> {
        let mut axes: Vec<&(String, i64)> = self.free.iter().filter(|(_, size)| *size > 1).collect();
        axes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        let fits = |(name, size): &'m (String, i64)| {
            let dims: Vec<usize> =
                (0..piece.len()).filter(|&dim| piece[dim] % size == 0 && piece[dim] / size > 0).collect();
            dims.into_iter().map(move |dim| (dim, name.as_str(), *size))
        };
        axes.into_iter().flat_map(fits).collect()
    }

    /// `PartitionSpec("a", ("b", "d"))`: the cuts there are, and dimension `dim` over `axis` as well.
    pub(super) fn spec(&self, dim: usize, axis: &str) -> String {
        let mut places: Vec<Vec<&str>> =
            self.cuts.iter().map(|(_, axes)| axes.iter().map(String::as_str).collect()).collect();
        places[dim].push(axis);
        while places.last().is_some_and(Vec::is_empty) {
            places.pop();
        }
        let place = |axes: Vec<&str>| match axes.as_slice() {
            [] => "None".to_owned(),
            [axis] => format!("\"{axis}\""),
            several => format!("({})", several.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")),
        };
        format!("PartitionSpec({})", places.into_iter().map(place).collect::<Vec<_>>().join(", "))
    }
}

/// Copies in `last_tile_dims={manual, replicated}`: the sizes that are said to be replicated.
fn replicated(text: &str, sizes: &[i64]) -> i64 {
    let Some(kinds) = text.split_once("last_tile_dims={").and_then(|(_, rest)| rest.split('}').next()) else {
        return 1;
    };
    let copied = kinds.split(',').zip(sizes).filter(|(kind, _)| kind.trim() == "replicated");
    copied.map(|(_, size)| size).product()
}
