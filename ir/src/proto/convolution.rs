//! Windows and dimension labels of convolutions to messages and back.

use super::message::dims as pb;
use super::scan::Fit;
use crate::attribute::WindowDim;

/// More dimensions than this are damage.
const MAX_RANK: usize = 64;

/// One dimension of a window as a message.
pub(super) fn window_dimension(dim: &WindowDim) -> pb::WindowDimension {
    pb::WindowDimension {
        size: dim.size,
        stride: dim.stride,
        padding_low: dim.pad_low,
        padding_high: dim.pad_high,
        window_dilation: dim.rhs_dilate,
        base_dilation: dim.lhs_dilate,
        window_reversal: dim.reversed,
    }
}

/// The text of a window; parts that have their default in every dimension are left out.
pub(super) fn window_text(window: &pb::Window) -> String {
    let dims = &window.dimensions;
    let by_x = |get: &dyn Fn(&pb::WindowDimension) -> String| super::scan::joined(dims.iter().map(get), "x");
    let part = |key: &str, get: fn(&pb::WindowDimension) -> i64, usual: i64| {
        dims.iter().any(|dim| get(dim) != usual).then(|| format!("{key}={}", by_x(&|dim| get(dim).to_string())))
    };
    let padded = dims.iter().any(|dim| (dim.padding_low, dim.padding_high) != (0, 0));
    let pad = || format!("pad={}", by_x(&|dim| format!("{}_{}", dim.padding_low, dim.padding_high)));
    let parts: Vec<String> = [
        (!dims.is_empty()).then(|| format!("size={}", by_x(&|dim| dim.size.to_string()))),
        part("stride", |dim| dim.stride, 1),
        padded.then(pad),
        part("lhs_dilate", |dim| dim.base_dilation, 1),
        part("rhs_dilate", |dim| dim.window_dilation, 1),
        part("rhs_reversal", |dim| i64::from(dim.window_reversal), 0),
    ]
    .into_iter()
    .flatten()
    .collect();
    format!("{{{}}}", parts.join(" "))
}

/// Reads `b01f_01io->b01f`.
pub(super) fn write_labels(text: &str) -> Fit<pb::ConvolutionDimensionNumbers> {
    let (operands, output) = text.split_once("->").ok_or("`->` expected")?;
    let (input, kernel) = operands.split_once('_').ok_or("`_` expected")?;
    let at = |labels: &str, label: char| {
        let at = labels.find(label).map(|at| at as i64);
        at.ok_or_else(|| format!("`{labels}` lacks `{label}`"))
    };
    let spatial = |labels: &str| {
        let count = labels.bytes().filter(u8::is_ascii_digit).count();
        (0..count)
            .map(|digit| at(labels, char::from_digit(digit as u32, 10).ok_or("too many dimensions")?))
            .collect::<Fit<Vec<_>>>()
    };
    Ok(pb::ConvolutionDimensionNumbers {
        input_batch_dimension: at(input, 'b')?,
        input_feature_dimension: at(input, 'f')?,
        input_spatial_dimensions: spatial(input)?,
        kernel_input_feature_dimension: at(kernel, 'i')?,
        kernel_output_feature_dimension: at(kernel, 'o')?,
        kernel_spatial_dimensions: spatial(kernel)?,
        output_batch_dimension: at(output, 'b')?,
        output_feature_dimension: at(output, 'f')?,
        output_spatial_dimensions: spatial(output)?,
    })
}

/// The labels of dimension numbers.
pub(super) fn labels_text(dims: &pb::ConvolutionDimensionNumbers) -> Fit<String> {
    let labels = |named: [(i64, char); 2], spatial: &[i64]| {
        // A dimension without a number, which `?` stands for, has no place in the message but the gap it leaves.
        let last = named.iter().map(|named| named.0).chain(spatial.iter().copied()).max().unwrap_or(0);
        let count =
            usize::try_from(last).ok().filter(|&last| last < MAX_RANK).ok_or("dimension numbers are out of range")?;
        let mut labels = vec![None; count + 1];
        let digits = spatial.iter().enumerate().map(|(index, &dim)| (dim, char::from_digit(index as u32, 10)));
        for (dim, label) in named.into_iter().map(|(dim, label)| (dim, Some(label))).chain(digits) {
            let place = usize::try_from(dim).ok().and_then(|dim| labels.get_mut(dim));
            let place = place.ok_or_else(|| format!("dimension number {dim} is out of range"))?;
            if place.is_some() || label.is_none() {
                return Err("dimension numbers repeat or are too many".to_owned());
            }
            *place = label;
        }
        Ok(labels.into_iter().map(|label| label.unwrap_or('?')).collect::<String>())
    };
    let input = labels(
        [(dims.input_batch_dimension, 'b'), (dims.input_feature_dimension, 'f')],
        &dims.input_spatial_dimensions,
    )?;
    let kernel = labels(
        [(dims.kernel_input_feature_dimension, 'i'), (dims.kernel_output_feature_dimension, 'o')],
        &dims.kernel_spatial_dimensions,
    )?;
    let output = labels(
        [(dims.output_batch_dimension, 'b'), (dims.output_feature_dimension, 'f')],
        &dims.output_spatial_dimensions,
    )?;
    Ok(format!("{input}_{kernel}->{output}"))
}
