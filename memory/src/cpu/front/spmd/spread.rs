//! One step of propagation: what the operands and results of one instruction learn from each other.
//!
//! Source: `AggressiveFactorPropagation` (shardy/dialect/sdy/transforms/propagation/aggressive_factor_propagation.cc) and
//! `BasicFactorPropagation::getCompatibleMajorAxes`.

use smol_str::SmolStr;

use super::factors::{Factor, Kind, gcd};
use super::propagate::{Direction, Shardings};
use super::sharding::{Mesh, Sharding, Stated};
use super::values::{Node, Value, World};
use crate::cpu::front::cx::Cx;

/// Axes of one dimension, major first.
type Axes = Vec<SmolStr>;

/// An operand or a result while an instruction is looked at.
struct Tensor {
    value: Value,
    /// Operand of this number; a result if there is none.
    operand: Option<usize>,
    known: Stated,
    dims: Vec<i64>,
}

impl Tensor {
    /// Its dimension of a factor.
    fn dim(&self, factor: &Factor) -> Option<usize> {
        let dim = match self.operand {
            None => factor.result,
            Some(number) => factor.operands.iter().find(|pair| pair.0 == number).map(|pair| pair.1),
        };
        dim.filter(|&dim| dim < self.dims.len())
    }

    /// The axes that divide a factor. `None` if some axes divide it and the rest of the dimension too.
    fn axes(&self, mesh: &Mesh, factor: &Factor) -> Option<&[SmolStr]> {
        let Some(dim) = self.dim(factor) else { return Some(&[]) };
        let axes = &self.known.sharding.dims()[dim];
        match fit(mesh, factor.size, self.dims[dim], axes)? {
            Fit::All => Some(axes),
            Fit::Nothing => Some(&[]),
        }
    }
}

/// How much of a list of axes divides the major part of a dimension.
enum Fit {
    All,
    Nothing,
}

/// `None` if an axis would have to be split.
fn fit(mesh: &Mesh, size: i64, of: i64, axes: &[SmolStr]) -> Option<Fit> {
    let pieces = mesh.pieces(axes)?;
    match pieces {
        _ if size == of || size % pieces == 0 => Some(Fit::All),
        _ if gcd(size, pieces) == 1 => Some(Fit::Nothing),
        _ => None,
    }
}

/// Lets shardings pass; gives the values of which more is known now. `None` if an axis would have to be split to fit.
pub(super) fn through(
    (cx, mesh): (&Cx<'_>, &Mesh),
    node: &Node,
    direction: &dyn Fn(Kind) -> Direction,
    found: &mut Shardings,
) -> Option<Vec<Value>> {
    let mut tensors = tensors(cx, node, found);
    let mut offered: Vec<Axes> = Vec::with_capacity(node.factors.len());
    for factor in &node.factors {
        let way = if factor.kind == Kind::Blocked { Direction::None } else { direction(factor.kind) };
        offered.push(major(mesh, factor, &tensors, way)?);
    }
    if offered.iter().all(Vec::is_empty) {
        return Some(Vec::new());
    }
    let elementwise = node.is_edge || cx.opcode(node.at).is_elementwise();
    let order = by_source(mesh, &node.factors, elementwise, &tensors, &offered);
    let mut changed = Vec::new();
    // Results first: what they hold bounds what elementwise operands learn.
    let (results, operands): (Vec<usize>, Vec<usize>) =
        (0..tensors.len()).partition(|&at| tensors[at].operand.is_none());
    for at in results.iter().chain(&operands).copied() {
        let mut any = false;
        for &number in &order {
            let factor = &node.factors[number];
            let bound = results.first().filter(|_| elementwise && tensors[at].operand.is_some());
            let bound = match bound {
                Some(&result) => tensors[result].axes(mesh, factor)?.to_vec(),
                None => offered[number].clone(),
            };
            any |= extend(mesh, factor, &offered[number], &bound, &mut tensors[at])?;
        }
        if any {
            found.set(tensors[at].value, tensors[at].known.clone());
            changed.push(tensors[at].value);
        }
    }
    Some(changed)
}

/// Operands first, then results.
fn tensors(cx: &Cx<'_>, node: &Node, found: &Shardings) -> Vec<Tensor> {
    let tensor = |value: Value, operand: Option<usize>| {
        let dims = World::array(cx, value).map(|array| array.dims.to_vec()).unwrap_or_default();
        Tensor { value, operand, known: found.state_of(value, dims.len()), dims }
    };
    let operands = node.operands.iter().enumerate().map(|(number, &value)| tensor(value, Some(number)));
    operands.chain(node.results.iter().map(|&value| tensor(value, None))).collect()
}

/// The longest list of axes on which all agree as far as they say anything.
fn major(mesh: &Mesh, factor: &Factor, tensors: &[Tensor], direction: Direction) -> Option<Axes> {
    let mut all: Axes = Vec::new();
    if direction == Direction::None {
        return Some(all);
    }
    let backward = direction == Direction::Backward;
    let (first, second): (Vec<&Tensor>, Vec<&Tensor>) =
        tensors.iter().partition(|tensor| tensor.operand.is_none() == backward);
    let mut grows = true;
    for (tensor, may) in first
        .iter()
        .map(|tensor| (tensor, true))
        .chain(second.iter().map(|tensor| (tensor, direction == Direction::Both)))
    {
        grows &= may;
        let axes = tensor.axes(mesh, factor)?;
        let same = all.iter().zip(axes).take_while(|(a, b)| a == b).count();
        if same < all.len().min(axes.len()) {
            all.truncate(same);
            grows = false;
        } else if grows && axes.len() > all.len() {
            all = axes.to_vec();
        }
    }
    Some(all)
}

/// Factors in the order in which they may claim axes: those of large arrays first, in elementwise instructions the most divided ones.
fn by_source(mesh: &Mesh, factors: &[Factor], elementwise: bool, tensors: &[Tensor], offered: &[Axes]) -> Vec<usize> {
    let key = |number: usize| {
        let (mut size, mut source) = (-1, usize::MAX);
        for (at, tensor) in tensors.iter().enumerate() {
            let holds = tensor.axes(mesh, &factors[number]).is_some_and(|axes| axes.starts_with(&offered[number]));
            let elements: i64 = tensor.dims.iter().fold(1, |product, &dim| product.saturating_mul(dim));
            if !offered[number].is_empty() && holds && tensor.dim(&factors[number]).is_some() && elements > size {
                (size, source) = (elements, at);
            }
        }
        let pieces = if elementwise { mesh.pieces(&offered[number]).unwrap_or(1) } else { 0 };
        (-size, -pieces, source, number)
    };
    let mut order: Vec<usize> = (0..factors.len()).collect();
    order.sort_by_key(|&number| key(number));
    order
}

/// Lets a tensor take over what is offered for a factor, up to the first axis that it has elsewhere; whether it changed.
fn extend(mesh: &Mesh, factor: &Factor, offered: &[SmolStr], bound: &[SmolStr], tensor: &mut Tensor) -> Option<bool> {
    let Some(dim) = tensor.dim(factor) else { return Some(false) };
    let held = tensor.known.sharding.dims()[dim].clone();
    if !tensor.known.open[dim] || held.len() >= offered.len() || !offered.starts_with(&held) {
        return Some(false);
    }
    let elsewhere = |axis: &SmolStr| {
        tensor.known.sharding.dims().iter().enumerate().any(|(other, axes)| other != dim && axes.contains(axis))
    };
    let mut new: Axes = offered.iter().take_while(|axis| !elsewhere(axis)).cloned().collect();
    if bound.len() < new.len() && new.starts_with(bound) {
        new = bound.to_vec();
    }
    if new.len() <= held.len() {
        return Some(false);
    }
    match fit(mesh, factor.size, tensor.dims[dim], &new)? {
        Fit::Nothing => Some(false),
        Fit::All => {
            let mut dims = tensor.known.sharding.dims().to_vec();
            dims[dim] = new;
            tensor.known.sharding = Sharding::of(dims);
            Some(true)
        }
    }
}
