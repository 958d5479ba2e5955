//! Running sums and their like: a window as long as its dimension is computed in blocks of 16 and over the last elements of the blocks.
//!
//! Source: `ReduceWindowRewriter` (xla/hlo/transforms/simplifiers/reduce_window_rewriter.cc), `Replace1DReduceWindowWithReshape`
//! (xla/hlo/transforms/simplifiers/reduce_window_util.cc).

use std::sync::Arc;

use hlo_ir::attribute::{PadDim, SliceDim, WindowDim};
use hlo_ir::shape::{ArrayShape, Layout, Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Opcode};

use super::super::MOST_ROUNDS;
use super::super::algsimp::window_of;
use super::super::build::{apply, share};
use super::super::cx::{Cx, Id};
use super::super::dims::permute_shape;
use super::super::index::one_output;

/// Length of a block.
const BASE: i64 = 16;

/// Rewrites windowed reductions until nothing changes; returns whether anything did.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut rounds = 0;
    while rounds < MOST_ROUNDS && one_round(cx, in_blocks) {
        rounds += 1;
    }
    one_round(cx, two_dimensional) || rounds > 0
}

fn one_round(cx: &mut Cx<'_>, rewrite: fn(&mut Cx<'_>, Id) -> Option<Id>) -> bool {
    let mut changed = false;
    for computation in cx.outside_fusions() {
        if !cx.has_seen_in(computation, Opcode::ReduceWindow) {
            continue;
        }
        for id in cx.post_order(computation) {
            if cx.opcode(id) != Opcode::ReduceWindow {
                continue;
            }
            if let Some(new) = rewrite(cx, id) {
                cx.replace_all_uses(id, new);
                cx.remove(id);
                changed = true;
            }
        }
    }
    changed
}

/// What the rewrite needs to know about a running reduction.
struct Scan {
    id: Id,
    inits: Vec<Id>,
    to_apply: ComputationId,
    dim: usize,
    length: i64,
    forward: bool,
    exclusive: bool,
}

/// Inputs, then initial values, half each.
fn halves(cx: &Cx<'_>, id: Id) -> (Vec<Id>, Vec<Id>) {
    let operands = cx.operands(id);
    let (inputs, inits) = operands.split_at(operands.len() / 2);
    (inputs.to_vec(), inits.to_vec())
}

fn scan(cx: &Cx<'_>, id: Id) -> Option<Scan> {
    let window = window_of(cx, id);
    let trivial = |dim: &WindowDim| dim.size == 1 && dim.pad_low == 0 && dim.pad_high == 0;
    let mut moving = (0..window.len()).filter(|&dim| !trivial(&window[dim]));
    let (dim, None) = (moving.next()?, moving.next()) else { return None };
    let (_, inits) = halves(cx, id);
    let length = *cx.dims(cx.operand(id, 0)).get(dim)?;
    let to_apply = cx.to_apply(id)?;
    let root = cx.root(to_apply);
    if length <= BASE || (cx.shape(root).as_tuple().is_some() && cx.opcode(root) != Opcode::Tuple) {
        return None;
    }
    let over = window[dim];
    let (low, high) = (over.pad_low, over.pad_high);
    let forward = (low == length - 1 || low == length) && high == 0;
    let backward = (high == length - 1 || high == length) && low == 0;
    let plain = over.stride == 1 && over.size == length && !over.reversed && over.lhs_dilate == 1;
    if !plain || over.rhs_dilate != 1 || !(forward || backward) {
        return None;
    }
    let exclusive = if forward { low == length } else { high == length };
    Some(Scan { id, inits, to_apply, dim, length, forward, exclusive })
}

fn in_blocks(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let scan = scan(cx, id)?;
    let (mut sources, _) = halves(cx, id);
    let last = cx.rank(sources[0]) - 1;
    let mut order: Vec<i64> = (0..=last as i64).collect();
    order.swap(scan.dim, last);
    let moved = scan.dim != last;
    if moved {
        sources = sources.into_iter().map(|source| cx.transpose(id, source, &order)).collect();
    }
    let padded = (scan.length + BASE - 1) / BASE * BASE;
    if padded != scan.length {
        sources = (0..sources.len()).map(|index| pad_end(cx, &scan, sources[index], index, padded)).collect();
    }
    let blocks = padded / BASE;
    let tiles: Vec<ArrayShape> = sources.iter().map(|&source| tiled(&cx.arr(source), blocks)).collect();
    let inner: Vec<Id> =
        sources.iter().zip(&tiles).map(|(&source, tile)| cx.reshape(id, share(tile.clone()), source)).collect();
    let within = reduce(cx, &scan, &tiles, &inner, BASE, BASE - 1);
    let ends: Vec<Id> = (0..tiles.len()).map(|index| block_ends(cx, &scan, within, &tiles, index)).collect();
    let longer: Vec<ArrayShape> = ends.iter().map(|&end| cx.arr(end).with_dim(last, blocks + 1)).collect();
    let across = reduce(cx, &scan, &longer, &ends, blocks, blocks);
    let mut parts = Vec::new();
    let before: Vec<Id> = (0..tiles.len()).map(|index| spread(cx, &scan, across, &ends, &tiles, index)).collect();
    for index in 0..tiles.len() {
        parts.push(output(cx, id, within, index));
    }
    parts.extend(before);
    let results: Vec<Id> = (0..tiles.len())
        .map(|index| {
            let scanned = combined(cx, &scan, within, &parts, sources[index], index);
            let order = moved.then_some(&order[..]);
            back_in_place(cx, &scan, scanned, order, padded, index)
        })
        .collect();
    Some(if let [only] = results[..] { only } else { cx.tuple(id, &results) })
}

/// The output number `index` of a reduction that may have several.
fn output(cx: &mut Cx<'_>, at: Id, reduction: Id, index: usize) -> Id {
    if cx.shape(reduction).as_tuple().is_some() { cx.element(at, reduction, index as i64) } else { reduction }
}

fn output_shape(shapes: &[ArrayShape]) -> ShapeRef {
    match shapes {
        [only] => share(only.clone()),
        _ => Shape::tuple(shapes.iter().map(|shape| share(shape.clone()))),
    }
}

fn pad_end(cx: &mut Cx<'_>, scan: &Scan, source: Id, index: usize, padded: i64) -> Id {
    let last = cx.rank(source) - 1;
    let mut pads = vec![PadDim::default(); last + 1];
    pads[last].high = padded - scan.length;
    let shape = share(cx.arr(source).with_dim(last, padded));
    cx.pad(scan.id, shape, source, scan.inits[index], pads)
}

/// The last dimension split into blocks. The new dimension is the major one, which is no plain layout: libraries will not take it.
fn tiled(array: &ArrayShape, blocks: i64) -> ArrayShape {
    appended(&array.with_dim(array.rank() - 1, blocks), BASE)
}

/// The array with another dimension at the end, the major one in memory.
fn appended(array: &ArrayShape, size: i64) -> ArrayShape {
    let mut minor_to_major = array.minor_to_major();
    minor_to_major.push(array.rank() as i64);
    let dims = array.dims.iter().copied().chain([size]);
    let layout = Some(Layout { minor_to_major, suffix: "".into() });
    ArrayShape { layout, ..ArrayShape::new(array.element_type, dims) }
}

/// The array without its last dimension.
fn without_last(array: &ArrayShape) -> ArrayShape {
    let last = array.rank() - 1;
    let minor_to_major = array.minor_to_major().into_iter().filter(|&dim| dim != last as i64).collect();
    let dims = array.dims[..last].iter().copied();
    let layout = Some(Layout { minor_to_major, suffix: "".into() });
    ArrayShape { layout, ..ArrayShape::new(array.element_type, dims) }
}

/// A running reduction over the last dimension.
fn reduce(cx: &mut Cx<'_>, scan: &Scan, shapes: &[ArrayShape], inputs: &[Id], size: i64, padding: i64) -> Id {
    let mut window = vec![WindowDim::default(); shapes[0].rank()];
    if let Some(last) = window.last_mut() {
        last.size = size;
        *(if scan.forward { &mut last.pad_low } else { &mut last.pad_high }) = padding;
    }
    let operands: Vec<Id> = inputs.iter().chain(&scan.inits).copied().collect();
    cx.reduce_window(scan.id, output_shape(shapes), &operands, window, scan.to_apply)
}

/// What each block comes to: its last element, or its first when the scan runs backwards.
fn block_ends(cx: &mut Cx<'_>, scan: &Scan, within: Id, tiles: &[ArrayShape], index: usize) -> Id {
    let (tile, last) = (&tiles[index], tiles[index].rank() - 1);
    let mut bounds: Vec<SliceDim> =
        tile.dims.iter().map(|&size| SliceDim { start: 0, limit: size, stride: 1 }).collect();
    if scan.forward {
        bounds[last].start = BASE - 1;
    } else {
        bounds[last].limit = 1;
    }
    let column = tile.with_dim(last, 1);
    let part = output(cx, scan.id, within, index);
    let end = cx.slice(scan.id, share(column.clone()), part, bounds);
    cx.reshape(scan.id, share(without_last(&column)), end)
}

/// What comes before each block, for all its elements.
fn spread(cx: &mut Cx<'_>, scan: &Scan, across: Id, ends: &[Id], tiles: &[ArrayShape], index: usize) -> Id {
    let shape = cx.shape(ends[index]).clone();
    let sizes = cx.dims(ends[index]);
    let mut bounds: Vec<SliceDim> = sizes.iter().map(|&size| SliceDim { start: 0, limit: size, stride: 1 }).collect();
    if let (Some(last), false) = (bounds.last_mut(), scan.forward) {
        (last.start, last.limit) = (1, last.limit + 1);
    }
    let part = output(cx, scan.id, across, index);
    let before = cx.slice(scan.id, shape, part, bounds);
    let dims: Vec<i64> = (0..sizes.len() as i64).collect();
    cx.broadcast(scan.id, share(tiles[index].clone()), before, &dims)
}

/// One output of the reduction applied to the parts inside the blocks and what comes before them, in the shape of the source.
fn combined(cx: &mut Cx<'_>, scan: &Scan, within: Id, parts: &[Id], source: Id, index: usize) -> Id {
    let several = cx.shape(within).as_tuple().is_some();
    let to_apply = if several { one_output(cx, scan.to_apply, index) } else { scan.to_apply };
    let shape = cx.shape(parts[index]).clone();
    let dims = Attribute::ints(AttrKey::Dimensions, 0..cx.rank(parts[index]) as i64);
    let mapped = cx.make(scan.id, shape, Opcode::Map, parts, [dims, apply(to_apply)]);
    let shape = cx.shape(source).clone();
    cx.reshape(scan.id, shape, mapped)
}

/// Undoes the transpose and the padding; an exclusive scan starts with the initial value.
fn back_in_place(cx: &mut Cx<'_>, scan: &Scan, scanned: Id, order: Option<&[i64]>, padded: i64, index: usize) -> Id {
    let (id, mut result) = (scan.id, scanned);
    if let Some(order) = order {
        let shape = share(permute_shape(&cx.arr(result), order));
        result = cx.transpose_as(id, shape, result, order);
    }
    if padded != scan.length {
        let input = cx.operand(id, 0);
        let shape = share(cx.arr(input).with_element_type(cx.element_type(result)));
        let bounds = cx.dims(input).iter().map(|&size| SliceDim { start: 0, limit: size, stride: 1 }).collect();
        result = cx.slice(id, shape, result, bounds);
    }
    if !scan.exclusive {
        return result;
    }
    let mut pads = vec![PadDim::default(); cx.rank(result)];
    *(if scan.forward { &mut pads[scan.dim].low } else { &mut pads[scan.dim].high }) = 1;
    let shape = match cx.shape(id).as_tuple() {
        Some(elements) => elements[index].clone(),
        None => cx.shape(id).clone(),
    };
    cx.pad(id, shape, result, scan.inits[index], pads)
}

/// The array with a dimension of size 1 behind its own.
fn with_one(shape: &Shape) -> Option<ShapeRef> {
    let array = shape.as_array()?;
    Some(share(appended(array, 1)))
}

/// The code generator knows no windows over one dimension: a second one of size 1 is added and taken away again.
fn two_dimensional(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    if cx.rank(cx.operand(id, 0)) != 1 {
        return None;
    }
    let shape = cx.shape(id).clone();
    let outputs: Vec<ShapeRef> = shape.as_tuple().map_or_else(|| vec![shape.clone()], <[_]>::to_vec);
    let wide: Vec<ShapeRef> = outputs.iter().map(|output| with_one(output)).collect::<Option<_>>()?;
    let (inputs, inits) = halves(cx, id);
    let mut operands = Vec::new();
    for input in inputs {
        let shape = with_one(cx.shape(input))?;
        operands.push(cx.reshape(id, shape, input));
    }
    operands.extend(inits);
    let mut window = window_of(cx, id);
    window.push(WindowDim::default());
    let wide = if let [only] = &wide[..] { only.clone() } else { Shape::tuple(wide) };
    let new = cx.like(id, wide, &operands);
    cx.set_attribute(new, AttrKey::Window, AttrValue::Window(Arc::new(window)));
    let results: Vec<Id> = outputs
        .into_iter()
        .enumerate()
        .map(|(index, output_shape)| {
            let part = output(cx, id, new, index);
            cx.reshape(id, output_shape, part)
        })
        .collect();
    Some(if let [only] = results[..] { only } else { cx.tuple(id, &results) })
}
