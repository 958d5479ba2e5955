//! Instructions with a sliding window: convolution, reduce-window, select-and-scatter.

use smallvec::SmallVec;

use super::{Inferred, Request, array, same_dims, same_size};
use crate::attribute::WindowDim;
use crate::shape::{Dims, UNBOUNDED};
use crate::{ArrayShape, AttrKey, AttrValue, Shape};

fn window<'a>(request: &Request<'a>, rank: usize) -> Result<&'a [WindowDim], String> {
    let dims = match request.instruction.attribute(&AttrKey::Window) {
        Some(AttrValue::Window(dims)) => dims.as_slice(),
        Some(_) => return Err("attribute window is malformed".into()),
        None => &[],
    };
    if dims.len() != rank {
        return Err(format!("the window has {} dimensions, but {rank} are needed", dims.len()));
    }
    Ok(dims)
}

/// Number of window positions along a dimension of `size` elements.
fn positions(size: i64, window: &WindowDim) -> Result<i64, String> {
    if size == UNBOUNDED {
        return Ok(UNBOUNDED);
    }
    let wide = |value: i64| i128::from(value);
    if window.size < 1 || window.stride < 1 || window.lhs_dilate < 1 || window.rhs_dilate < 1 {
        return Err("sizes, strides and dilations of a window must be positive".into());
    }
    let dilated = |size: i64, dilate: i64| if size == 0 { 0 } else { (wide(size) - 1) * wide(dilate) + 1 };
    let padded = dilated(size, window.lhs_dilate) + wide(window.pad_low) + wide(window.pad_high);
    let reach = dilated(window.size, window.rhs_dilate);
    let count = if padded < reach { 0 } else { (padded - reach) / wide(window.stride) + 1 };
    i64::try_from(count).map_err(|_| "the result of the window does not fit 64 bits".into())
}

fn windowed(operand: &ArrayShape, window: &[WindowDim]) -> Result<Dims, String> {
    operand.dims.iter().zip(window).map(|(&size, window)| positions(size, window)).collect()
}

/// `n` operands of the same sizes, `n` initial values.
pub(super) fn reduce_window(request: &Request<'_>) -> Inferred {
    let count = request.operands.len() / 2;
    let first = request.array(0)?;
    let dims = windowed(first, window(request, first.rank())?)?;
    for index in 1..count {
        if !same_dims(first, request.array(index)?) {
            return Err(format!("operands 0 and {index} have different sizes"));
        }
    }
    super::control::reduced(request, &dims)
}

/// The result is as large as the operand; the source has one element per window position.
pub(super) fn select_and_scatter(request: &Request<'_>) -> Inferred {
    let (operand, source) = (request.array(0)?, request.array(1)?);
    let dims = windowed(operand, window(request, operand.rank())?)?;
    if dims.len() != source.rank() || !dims.iter().zip(&source.dims).all(|(&a, &b)| same_size(a, b)) {
        let wanted = array(source.element_type, dims);
        return Err(format!("the source has shape {source}, but the window has positions {wanted}"));
    }
    request.operand(0).cloned()
}

/// Where the dimensions of one side of a convolution are.
struct Labels {
    /// Batch (operand, result) or input feature (kernel).
    first: usize,
    /// Feature (operand, result) or output feature (kernel).
    second: usize,
    /// Spatial dimensions in order.
    spatial: SmallVec<[usize; 4]>,
}

impl Labels {
    /// Reads `b01f` or `01io`; `?` marks a dimension without meaning.
    fn new(text: &str, first: char, second: char, rank: usize) -> Option<Self> {
        if text.chars().count() != rank {
            return None;
        }
        let spatial_count = text.chars().filter(char::is_ascii_digit).count();
        let spatial: Option<SmallVec<[usize; 4]>> =
            (0..spatial_count).map(|dim| text.find(char::from_digit(dim as u32, 10)?)).collect();
        Some(Self { first: text.find(first)?, second: text.find(second)?, spatial: spatial? })
    }
}

pub(super) fn convolution(request: &Request<'_>) -> Inferred {
    if request.instruction.attribute(&AttrKey::unknown("sparsity_config")).is_some() {
        return Err("sparse convolutions (`sparsity_config`) are not understood".to_owned());
    }
    let (lhs, rhs) = (request.array(0)?, request.array(1)?);
    let text = request.instruction.raw(&AttrKey::DimLabels).ok_or("attribute dim_labels is missing")?;
    let labels = text.split_once("->").and_then(|(sides, out)| {
        let (operand, kernel) = sides.split_once('_')?;
        let result = Labels::new(out, 'b', 'f', out.len())?;
        Some((
            Labels::new(operand, 'b', 'f', lhs.rank())?,
            Labels::new(kernel, 'i', 'o', rhs.rank())?,
            result,
            out.len(),
        ))
    });
    let (operand, kernel, result, rank) = labels.ok_or_else(|| format!("dim_labels={text} do not fit the operands"))?;
    let spatial = operand.spatial.len();
    if kernel.spatial.len() != spatial || result.spatial.len() != spatial {
        return Err(format!("dim_labels={text} have different numbers of spatial dimensions"));
    }
    let window = window(request, spatial)?;
    let mut dims: Dims = SmallVec::from_elem(1, rank);
    let groups = |key| request.instruction.int(key).unwrap_or(1);
    let (features, batches) = (groups(&AttrKey::FeatureGroupCount), groups(&AttrKey::BatchGroupCount));
    if features < 1
        || batches < 1
        || !same_size(rhs.dims[kernel.first].saturating_mul(features), lhs.dims[operand.second])
    {
        return Err(format!("the kernel {rhs} does not take the features of {lhs} in {features} groups"));
    }
    dims[result.first] = lhs.dims[operand.first] / batches;
    dims[result.second] = rhs.dims[kernel.second];
    for (index, window) in window.iter().enumerate() {
        if !same_size(window.size, rhs.dims[kernel.spatial[index]]) {
            return Err(format!("the window has size {} where the kernel {rhs} has another", window.size));
        }
        dims[result.spatial[index]] = positions(lhs.dims[operand.spatial[index]], window)?;
    }
    Ok(Shape::Array(ArrayShape { element_type: lhs.element_type, dims, dynamic: 0, layout: None }).into())
}
