//! Convolutions of the entry computation that the matrix library could run if their dimensions had its order get transposed operands and
//! a transposed result.
//!
//! Source: `ConvCanonicalization` (xla/service/cpu/conv_canonicalization.cc).

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, ElementType, Opcode};

use super::super::build::row_major;
use super::super::cx::{Cx, Id};
use super::super::dims::{inverse, permute};

/// Where each kind of dimension stands in one of the three arrays: batch (or input features of the kernel), spatial ones, features.
struct Order {
    first: i64,
    spatial: Dims,
    last: i64,
}

impl Order {
    /// Reads one part of `b01f_01io->b01f`; `first` and `last` are the letters of the two dimensions that are not spatial.
    fn read(text: &str, first: char, last: char) -> Option<Self> {
        let at = |letter: char| text.chars().position(|c| c == letter).map(|position| position as i64);
        let digits = ('0'..='9').take_while(|&digit| text.contains(digit));
        Some(Self { first: at(first)?, spatial: digits.map(at).collect::<Option<_>>()?, last: at(last)? })
    }
}

/// Brings convolutions into the library's order; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    if !cx.has_seen_in(cx.entry(), Opcode::Convolution) {
        return changed;
    }
    for id in cx.post_order(cx.entry()) {
        if cx.opcode(id) == Opcode::Convolution
            && let Some(new) = canonical(cx, id)
        {
            cx.replace(id, new);
            changed = true;
        }
    }
    changed
}

/// The three orders of a convolution: input, kernel, output.
fn orders(cx: &Cx<'_>, id: Id) -> Option<(Order, Order, Order)> {
    let (operands, output) = cx.inst(id).raw(&AttrKey::DimLabels)?.split_once("->")?;
    let (input, kernel) = operands.split_once('_')?;
    Some((Order::read(input, 'b', 'f')?, Order::read(kernel, 'i', 'o')?, Order::read(output, 'b', 'f')?))
}

/// Whether the library runs a convolution as it is.
pub(crate) fn is_canonical(cx: &Cx<'_>, id: Id) -> bool {
    let Some((input, kernel, output)) = orders(cx, id) else { return false };
    runs_as_it_is(cx, id, &[&outer(&input), &filter(&kernel), &outer(&output)], input.spatial.len() as i64)
}

/// Batch, spatial dimensions, features.
fn outer(order: &Order) -> Dims {
    std::iter::once(order.first).chain(order.spatial.iter().copied()).chain([order.last]).collect()
}

/// Spatial dimensions, features in, features out.
fn filter(kernel: &Order) -> Dims {
    kernel.spatial.iter().copied().chain([kernel.first, kernel.last]).collect()
}

fn canonical(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    let (input, kernel, output) = orders(cx, id)?;
    let spatial = input.spatial.len() as i64;
    let (from, to) = (outer(&input), outer(&output));
    let filter = filter(&kernel);
    if runs_as_it_is(cx, id, &[&from, &filter, &to], spatial) {
        return None;
    }
    let (a, b) = (cx.operand(id, 0), cx.operand(id, 1));
    let a = transposed(cx, id, a, &from);
    let b = transposed(cx, id, b, &filter);
    let array = cx.arr(id);
    let shape = row_major(array.element_type, permute(&array.dims, &to));
    let new = cx.like(id, shape, &[a, b]);
    let digits: String = (0..spatial).map(|digit| digit.to_string()).collect();
    let labels = format!("b{digits}f_{digits}io->b{digits}f");
    cx.set_attribute(new, AttrKey::DimLabels, AttrValue::Raw(labels.into()));
    let shape = cx.shape(id).clone();
    Some(cx.transpose_as(id, shape, new, &inverse(&to)))
}

fn transposed(cx: &mut Cx<'_>, at: Id, operand: Id, order: &[i64]) -> Id {
    let array = cx.arr(operand);
    let shape = row_major(array.element_type, permute(&array.dims, order));
    cx.transpose_as(at, shape, operand, order)
}

/// Whether the library could run it without transposes.
fn runs_as_it_is(cx: &Cx<'_>, id: Id, orders: &[&Dims], spatial: i64) -> bool {
    let empty = cx.operands(id).iter().any(|&operand| cx.is_empty_array(operand));
    let float = matches!(cx.element_type(cx.operand(id, 0)), ElementType::F16 | ElementType::F32);
    let reversed = match cx.inst(id).attribute(&AttrKey::Window) {
        Some(AttrValue::Window(window)) => window.iter().any(|dim| dim.reversed),
        _ => false,
    };
    !empty && float && !reversed && (1..=3).contains(&spatial) && orders.iter().all(|order| order.is_sorted())
}
