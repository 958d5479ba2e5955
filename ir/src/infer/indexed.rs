//! Instructions that take start positions as operands: dynamic slices, gather and scatter.

use smallvec::SmallVec;

use super::{Inferred, Request, array, distinct, same_size};
use crate::shape::{Dims, UNBOUNDED};
use crate::{ArrayShape, AttrKey, GatherDims, ScatterDims};

pub(super) fn dynamic_slice(request: &Request<'_>) -> Inferred {
    let operand = request.array(0)?;
    check_starts(request, 1, operand.rank())?;
    let sizes = request.ints(&AttrKey::DynamicSliceSizes);
    check_window("dynamic_slice_sizes", sizes, operand)?;
    Ok(array(operand.element_type, sizes.iter().copied().collect()))
}

pub(super) fn dynamic_update_slice(request: &Request<'_>) -> Inferred {
    let (operand, update) = (request.array(0)?, request.array(1)?);
    check_starts(request, 2, operand.rank())?;
    if update.element_type != operand.element_type {
        return Err(format!("the update has shape {update}, the operand {operand}: their element types differ"));
    }
    check_window("the update", &update.dims, operand)?;
    request.operand(0).cloned()
}

/// Start positions: one integer scalar per dimension, or one vector of them.
fn check_starts(request: &Request<'_>, from: usize, rank: usize) -> Result<(), String> {
    let count = request.operands.len().saturating_sub(from);
    let is_vector = count == 1 && request.array(from)?.rank() == 1;
    if is_vector && request.array(from)?.element_type.is_integer() {
        return if same_size(request.array(from)?.dims[0], rank as i64) {
            Ok(())
        } else {
            Err(format!("the vector of start positions must have {rank} elements"))
        };
    }
    if count != rank {
        return Err(format!("there are {count} start positions for {rank} dimensions"));
    }
    for index in from..from + count {
        let start = request.array(index)?;
        if !start.is_scalar() || !start.element_type.is_integer() {
            return Err(format!("operand {index} has shape {start}, but start positions are integer scalars"));
        }
    }
    Ok(())
}

/// A window of sizes must fit into the operand.
fn check_window(what: &str, sizes: &[i64], operand: &ArrayShape) -> Result<(), String> {
    if sizes.len() != operand.rank() {
        return Err(format!("{what} has {} dimensions, the operand {}", sizes.len(), operand.rank()));
    }
    for (dim, (&size, &whole)) in sizes.iter().zip(&operand.dims).enumerate() {
        if whole != UNBOUNDED && size != UNBOUNDED && !(0..=whole).contains(&size) {
            return Err(format!("{what} takes {size} elements of dimension {dim}, which has {whole}"));
        }
    }
    Ok(())
}

/// The indices of a gather or scatter: their sizes without the dimension that holds the components, checked against the
/// number of components and the batching dimensions.
struct Indices<'a> {
    shape: &'a ArrayShape,
    vector_dim: usize,
}

impl<'a> Indices<'a> {
    fn new(shape: &'a ArrayShape, vector_dim: i64, map: &[i64]) -> Result<Self, String> {
        if !shape.element_type.is_integer() {
            return Err(format!("the indices have shape {shape}, but must be integers"));
        }
        let vector_dim = usize::try_from(vector_dim).ok().filter(|&dim| dim <= shape.rank());
        let Some(vector_dim) = vector_dim else { return Err("index_vector_dim is out of range".into()) };
        let components = shape.dims.get(vector_dim).copied().unwrap_or(1);
        if !same_size(components, map.len() as i64) {
            return Err(format!(
                "the indices have {components} components, but {} are mapped to dimensions",
                map.len()
            ));
        }
        Ok(Self { shape, vector_dim })
    }
    /// Sizes of the dimensions that are not the components.
    fn batch(&self) -> impl Iterator<Item = i64> + '_ {
        let vector_dim = self.vector_dim;
        self.shape.dims.iter().enumerate().filter(move |&(dim, _)| dim != vector_dim).map(|(_, &size)| size)
    }
    /// Batching dimensions come in pairs of the same size.
    fn check_batching(&self, operand: &ArrayShape, of_operand: &[i64], of_indices: &[i64]) -> Result<(), String> {
        let of_operand = distinct("operand batching dims", of_operand, operand.rank())?;
        let of_indices = distinct("indices batching dims", of_indices, self.shape.rank())?;
        let fits = of_operand.len() == of_indices.len()
            && of_operand.iter().zip(&of_indices).all(|(&a, &b)| same_size(operand.dims[a], self.shape.dims[b]))
            && !of_indices.contains(&self.vector_dim);
        if fits { Ok(()) } else { Err("the batching dimensions of operand and indices do not match".into()) }
    }
}

pub(super) fn gather(request: &Request<'_>) -> Inferred {
    let dims = GatherDims::of(request.instruction).ok_or("this is no gather")?;
    let (operand, indices) = (request.array(0)?, request.array(1)?);
    let rank = operand.rank();
    distinct("start_index_map", dims.start_index_map, rank)?;
    let indices = Indices::new(indices, dims.index_vector_dim, dims.start_index_map)?;
    indices.check_batching(operand, dims.operand_batching_dims, dims.start_indices_batching_dims)?;
    check_window("slice_sizes", dims.slice_sizes, operand)?;
    let dropped = dropped_dims(dims.collapsed_slice_dims, dims.operand_batching_dims, rank)?;
    if let Some(&dim) = dropped.iter().find(|&&dim| dims.slice_sizes[dim] > 1) {
        return Err(format!("dimension {dim} is collapsed, but its slice size is {}", dims.slice_sizes[dim]));
    }
    let mut window = (0..rank).filter(|dim| !dropped.contains(dim)).map(|dim| dims.slice_sizes[dim]);
    if dims.offset_dims.len() + dropped.len() != rank {
        return Err(format!("offset_dims and collapsed dimensions do not add up to the operand's {rank} dimensions"));
    }
    let result_rank = dims.offset_dims.len() + indices.batch().count();
    let offsets = distinct("offset_dims", dims.offset_dims, result_rank)?;
    if !offsets.is_sorted() {
        return Err("offset_dims is not sorted".into());
    }
    let mut batch = indices.batch();
    let sizes: Option<Dims> =
        (0..result_rank).map(|dim| if offsets.contains(&dim) { window.next() } else { batch.next() }).collect();
    Ok(array(operand.element_type, sizes.ok_or("offset_dims do not fit the operand")?))
}

/// Operand dimensions that the window lacks: collapsed or inserted ones, and batching ones.
fn dropped_dims(dropped: &[i64], batching: &[i64], rank: usize) -> Result<SmallVec<[usize; 4]>, String> {
    let both: SmallVec<[i64; 8]> = dropped.iter().chain(batching).copied().collect();
    distinct("collapsed, inserted and batching dims", &both, rank)
}

pub(super) fn scatter(request: &Request<'_>) -> Inferred {
    let dims = ScatterDims::of(request.instruction).ok_or("this is no scatter")?;
    let count = ScatterDims::input_count(request.operands.len());
    if request.operands.len() != 2 * count + 1 {
        return Err("a scatter has inputs, indices and as many updates as inputs".into());
    }
    let rank = request.array(0)?.rank();
    distinct("scatter_dims_to_operand_dims", dims.scatter_dims_to_operand_dims, rank)?;
    let indices = Indices::new(request.array(count)?, dims.index_vector_dim, dims.scatter_dims_to_operand_dims)?;
    for input in 0..count {
        let (operand, update) = (request.array(input)?, request.array(count + 1 + input)?);
        if !super::same_dims(operand, request.array(0)?) {
            return Err(format!("inputs 0 and {input} have different sizes"));
        }
        if operand.element_type != update.element_type {
            return Err(format!("input {operand} is updated with {update}: their element types differ"));
        }
        indices.check_batching(operand, dims.input_batching_dims, dims.scatter_indices_batching_dims)?;
        check_update(&dims, operand, &indices, update)?;
    }
    if count == 1 { request.operand(0).cloned() } else { Ok(inputs_tuple(request, count)) }
}

fn inputs_tuple(request: &Request<'_>, count: usize) -> crate::shape::ShapeRef {
    crate::Shape::tuple(request.operands[..count].iter().map(|&shape| shape.clone()))
}

/// Update dimensions are window dimensions, which fit into the operand, and the indices' own.
fn check_update(
    dims: &ScatterDims<'_>,
    operand: &ArrayShape,
    indices: &Indices<'_>,
    update: &ArrayShape,
) -> Result<(), String> {
    let dropped = dropped_dims(dims.inserted_window_dims, dims.input_batching_dims, operand.rank())?;
    let windows = distinct("update_window_dims", dims.update_window_dims, update.rank())?;
    if !windows.is_sorted() {
        return Err("update_window_dims is not sorted".into());
    }
    if windows.len() + dropped.len() != operand.rank() {
        return Err(format!("window and inserted dimensions do not add up to the operand's {}", operand.rank()));
    }
    if windows.len() + indices.batch().count() != update.rank() {
        return Err(format!("updates of shape {update} do not have one dimension per window and index dimension"));
    }
    let mut whole = (0..operand.rank()).filter(|dim| !dropped.contains(dim)).map(|dim| operand.dims[dim]);
    let mut batch = indices.batch();
    for (dim, &size) in update.dims.iter().enumerate() {
        let fits = if windows.contains(&dim) {
            whole.next().is_some_and(|whole| whole == UNBOUNDED || size == UNBOUNDED || size <= whole)
        } else {
            batch.next().is_some_and(|count| same_size(count, size))
        };
        if !fits {
            return Err(format!("dimension {dim} of the updates, of size {size}, fits neither operand nor indices"));
        }
    }
    Ok(())
}
