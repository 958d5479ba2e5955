//! Which dimensions of an instruction's operands and results are divided together.
//!
//! Source: `createOpShardingRule` (shardy/dialect/sdy/transforms/propagation/op_sharding_rule_registry.cc). Of a reshape only the major-most
//! factor of each group of dimensions is modelled.

use hlo_ir::dims::{ConvDims, DotDims, GatherDims, ScatterDims};
use hlo_ir::{AttrKey, AttrValue, Opcode};

use super::propagate::target;
use crate::cpu::front::cx::{Cx, Id};
use crate::cpu::front::dims::common_factors;

/// What a device can do with its part of a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its part of the result.
    Along,
    /// A part of a sum (or another reduction) over devices.
    Reduced,
    /// Nothing: all parts are needed first.
    Whole,
    /// Its part of the result, once neighbours have sent what lies at the border. Not modelled.
    Moved,
    /// Nothing that this model knows, and shardings do not pass.
    Blocked,
}

/// Dimensions that belong together: at most one of each operand, and one of the results, all of which have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Factor {
    /// Dimension of the results; a factor without one is summed over or only read.
    pub(super) result: Option<usize>,
    /// (operand, its dimension).
    pub(super) operands: Vec<(usize, usize)>,
    /// Elements: those of each dimension, or of its major part.
    pub(super) size: i64,
    pub(super) kind: Kind,
}

/// The factors of an instruction; a dimension in none of them is not divided by what the model knows.
pub(super) fn of(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    use Opcode as O;
    match cx.opcode(id) {
        O::Broadcast => broadcast(cx, id),
        O::Iota => Rule::of(cx, id).along(|_| Kind::Along).done(),
        O::Transpose => {
            let mut rule = Rule::of(cx, id);
            for (to, &from) in cx.dimensions(id).iter().enumerate() {
                rule.add(to, [(0, from as usize)], Kind::Along);
            }
            rule.done()
        }
        O::Reshape => reshape(cx, id),
        O::Slice => Rule::of(cx, id).matching(0, Kind::Moved),
        O::DynamicSlice => Rule::of(cx, id).matching(0, Kind::Blocked),
        O::DynamicUpdateSlice => update(cx, id),
        O::Reverse | O::Concatenate => {
            let gone = cx.dimensions(id);
            let moved = |dim: usize| gone.contains(&(dim as i64));
            Rule::of(cx, id).along(|dim| if moved(dim) { Kind::Moved } else { Kind::Along }).done()
        }
        O::Pad => {
            let Some(AttrValue::Padding(padding)) = cx.inst(id).attribute(&AttrKey::Padding) else { return Vec::new() };
            let kept =
                |dim: usize| padding.get(dim).is_some_and(|pad| pad.low == 0 && pad.high == 0 && pad.interior == 0);
            let mut rule = Rule::of(cx, id);
            for dim in 0..cx.rank(id) {
                rule.add(dim, [(0, dim)], if kept(dim) { Kind::Along } else { Kind::Moved });
            }
            rule.done()
        }
        O::Reduce => reduce(cx, id),
        O::ReduceWindow => windows(cx, id),
        O::Sort => {
            let gone = cx.dimensions(id);
            Rule::of(cx, id).along(|dim| if gone.contains(&(dim as i64)) { Kind::Moved } else { Kind::Along }).done()
        }
        O::Dot => dot(cx, id),
        O::Convolution => convolution(cx, id).unwrap_or_default(),
        // Between types of different sizes there is one more dimension.
        O::BitcastConvert if cx.rank(id) == cx.rank(cx.operand(id, 0)) => {
            Rule::of(cx, id).along(|_| Kind::Along).done()
        }
        O::Gather => gather(cx, id).unwrap_or_default(),
        O::Scatter => scatter(cx, id).unwrap_or_default(),
        O::CustomCall if matches!(target(cx, id), Some("Sharding" | "xla.sdy.FuncResultSharding")) => {
            Rule::of(cx, id).along(|_| Kind::Along).done()
        }
        opcode if opcode.is_elementwise() => Rule::of(cx, id).along(|_| Kind::Along).done(),
        _ => Vec::new(),
    }
}

/// The factors of a value that is forwarded as it is.
pub(super) fn identity(dims: &[i64], operands: usize) -> Vec<Factor> {
    let all = |(dim, &size): (usize, &i64)| Factor {
        result: Some(dim),
        operands: (0..operands).map(|operand| (operand, dim)).collect(),
        size,
        kind: Kind::Along,
    };
    dims.iter().enumerate().map(all).collect()
}

/// Sizes of the first result of an instruction.
pub(super) fn result_dims(cx: &Cx<'_>, id: Id) -> Vec<i64> {
    let first = match cx.shape(id).as_tuple() {
        Some(elements) => elements.first().and_then(|shape| shape.as_array()),
        None => cx.array(id),
    };
    first.map(|array| array.dims.to_vec()).unwrap_or_default()
}

/// Factors while they are collected.
struct Rule<'c, 'g> {
    cx: &'c Cx<'g>,
    id: Id,
    dims: Vec<i64>,
    factors: Vec<Factor>,
}

impl<'c, 'g> Rule<'c, 'g> {
    fn of(cx: &'c Cx<'g>, id: Id) -> Self {
        Self { cx, id, dims: result_dims(cx, id), factors: Vec::new() }
    }

    fn done(self) -> Vec<Factor> {
        self.factors
    }

    /// Adds a factor whose size is that of its first dimension.
    fn add(
        &mut self,
        result: impl Into<Option<usize>>,
        operands: impl IntoIterator<Item = (usize, usize)>,
        kind: Kind,
    ) {
        let (result, operands): (Option<usize>, Vec<_>) = (result.into(), operands.into_iter().collect());
        let of_operand = operands
            .first()
            .and_then(|&(operand, dim)| self.cx.array(self.cx.operand(self.id, operand))?.dims.get(dim).copied());
        let size = of_operand.or_else(|| self.dims.get(result?).copied());
        self.factors.push(Factor { result, operands, size: size.unwrap_or(1), kind });
    }

    /// Every dimension of the result with that of each operand of the same rank.
    fn along(mut self, kind: impl Fn(usize) -> Kind) -> Self {
        let operands = self.cx.operands(self.id);
        for dim in 0..self.dims.len() {
            let same = (0..operands.len()).filter(|&k| self.cx.rank(operands[k]) == self.dims.len());
            let all: Vec<_> = same.map(|k| (k, dim)).collect();
            self.add(dim, all, kind(dim));
        }
        self
    }

    /// Every dimension of the result with that of one operand; `other` where their sizes differ.
    fn matching(mut self, operand: usize, other: Kind) -> Vec<Factor> {
        let from = self.cx.dims(self.cx.operand(self.id, operand));
        for dim in 0..self.dims.len() {
            let same = from.get(dim) == self.dims.get(dim);
            self.add(dim, [(operand, dim)], if same { Kind::Along } else { other });
        }
        self.done()
    }
}

/// A dimension of one element that becomes longer is not divided.
fn broadcast(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    let (map, from) = (cx.dimensions(id), cx.dims(cx.operand(id, 0)));
    let mut rule = Rule::of(cx, id);
    for dim in 0..cx.rank(id) {
        let source = map.iter().position(|&to| to as usize == dim).filter(|&source| from[source] == rule.dims[dim]);
        rule.add(dim, source.map(|source| (0, source)), Kind::Along);
    }
    rule.done()
}

/// The first dimensions of two groups with equally many elements share what divides both.
fn reshape(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    let (from, to) = (cx.dims(cx.operand(id, 0)), cx.dims(id));
    let mut factors = Vec::new();
    for bounds in common_factors(&from, &to).windows(2) {
        let first = |dims: &[i64], low: usize, high: usize| (low..high).find(|&dim| dims[dim] != 1);
        let (source, result) = (first(&from, bounds[0].0, bounds[1].0), first(&to, bounds[0].1, bounds[1].1));
        if let (Some(source), Some(result)) = (source, result) {
            let size = gcd(from[source], to[result]);
            factors.push(Factor { result: Some(result), operands: vec![(0, source)], size, kind: Kind::Along });
        }
    }
    // What is left of a divided dimension may be one element.
    let single = (0..from.len()).filter(|&dim| from[dim] == 1);
    factors.extend(single.map(|dim| Factor { result: None, operands: vec![(0, dim)], size: 1, kind: Kind::Whole }));
    factors
}

/// The greatest common divisor.
pub(super) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Dimensions that are updated whole; of the others the operand and the result may be divided.
fn update(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    let update = cx.dims(cx.operand(id, 1));
    let mut rule = Rule::of(cx, id);
    for dim in 0..cx.rank(id) {
        if update.get(dim) == rule.dims.get(dim) {
            rule.add(dim, [(0, dim), (1, dim)], Kind::Along);
        } else {
            rule.add(dim, [(0, dim)], Kind::Moved);
        }
    }
    rule.done()
}

fn reduce(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    let inputs = cx.operands(id).len() / 2;
    let gone = cx.dimensions(id);
    let mut kept = 0..;
    let mut rule = Rule::of(cx, id);
    for dim in 0..cx.rank(cx.operand(id, 0)) {
        let all = (0..inputs).map(|input| (input, dim));
        if gone.contains(&(dim as i64)) {
            rule.add(None, all, Kind::Reduced);
        } else {
            rule.add(kept.next(), all, Kind::Along);
        }
    }
    rule.done()
}

/// Dimensions along which each window is one element.
fn windows(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    let inputs = cx.operands(id).len() / 2;
    let Some(AttrValue::Window(window)) = cx.inst(id).attribute(&AttrKey::Window) else { return Vec::new() };
    let mut rule = Rule::of(cx, id);
    for (dim, window) in window.iter().enumerate() {
        let one = window.size == 1 && window.stride == 1 && window.pad_low == 0 && window.pad_high == 0;
        let kind = if one { Kind::Along } else { Kind::Moved };
        rule.add(dim, (0..inputs).map(|input| (input, dim)), kind);
    }
    rule.done()
}

fn dot(cx: &Cx<'_>, id: Id) -> Vec<Factor> {
    let Some(dims) = DotDims::of(cx.inst(id)) else { return Vec::new() };
    let pairs = |a: &[i64], b: &[i64]| -> Vec<[(usize, usize); 2]> {
        a.iter().zip(b).map(|(&a, &b)| [(0, a as usize), (1, b as usize)]).collect()
    };
    let (mut next, mut rule) = (0.., Rule::of(cx, id));
    for pair in pairs(dims.lhs_batch, dims.rhs_batch) {
        rule.add(next.next(), pair, Kind::Along);
    }
    let sides = [(0, dims.lhs_batch, dims.lhs_contracting), (1, dims.rhs_batch, dims.rhs_contracting)];
    for (operand, batch, contracting) in sides {
        let free = |dim: &usize| !batch.contains(&(*dim as i64)) && !contracting.contains(&(*dim as i64));
        for dim in (0..cx.rank(cx.operand(id, operand))).filter(free) {
            rule.add(next.next(), [(operand, dim)], Kind::Along);
        }
    }
    for pair in pairs(dims.lhs_contracting, dims.rhs_contracting) {
        rule.add(None, pair, Kind::Reduced);
    }
    rule.done()
}

/// Images and output features, without groups; along positions neighbours would exchange halos.
fn convolution(cx: &Cx<'_>, id: Id) -> Option<Vec<Factor>> {
    let dims = ConvDims::of(cx.inst(id))?;
    let groups = [AttrKey::FeatureGroupCount, AttrKey::BatchGroupCount];
    if groups.iter().any(|key| cx.inst(id).int(key).is_some_and(|count| count > 1)) {
        return None;
    }
    let mut rule = Rule::of(cx, id);
    rule.add(dims.output_batch, [(0, dims.input_batch)], Kind::Along);
    for (&from, &to) in dims.input_spatial.iter().zip(&dims.output_spatial) {
        rule.add(to, [(0, from)], Kind::Moved);
    }
    rule.add(None, [(0, dims.input_feature), (1, dims.kernel_input)], Kind::Moved);
    rule.add(dims.output_feature, [(1, dims.kernel_output)], Kind::Along);
    Some(rule.done())
}

/// Rows of the indices are rows of the result; of the operand dimensions that are taken whole, and those of which one element is taken.
fn gather(cx: &Cx<'_>, id: Id) -> Option<Vec<Factor>> {
    let dims = GatherDims::of(cx.inst(id))?;
    let (operand, indices) = (cx.dims(cx.operand(id, 0)), cx.operand(id, 1));
    let rows = (0..cx.rank(indices)).filter(|&dim| dim as i64 != dims.index_vector_dim);
    let batch = (0..cx.rank(id)).filter(|&dim| !dims.offset_dims.contains(&(dim as i64)));
    let mut rule = Rule::of(cx, id);
    for (from, to) in rows.zip(batch) {
        let batched = dims.start_indices_batching_dims.iter().position(|&dim| dim as usize == from);
        let table = batched.map(|at| (0, dims.operand_batching_dims[at] as usize));
        rule.add(to, std::iter::once((1, from)).chain(table), Kind::Along);
    }
    let window = (0..operand.len()).filter(|&dim| {
        let dim = dim as i64;
        !dims.collapsed_slice_dims.contains(&dim) && !dims.operand_batching_dims.contains(&dim)
    });
    for (from, &to) in window.zip(dims.offset_dims) {
        if dims.slice_sizes.get(from) == operand.get(from) {
            rule.add(to as usize, [(0, from)], Kind::Along);
        } else {
            rule.add(None, [(0, from)], Kind::Moved);
            rule.add(to as usize, [], Kind::Moved);
        }
    }
    for &dim in dims.collapsed_slice_dims {
        rule.add(None, [(0, dim as usize)], if operand[dim as usize] == 1 { Kind::Whole } else { Kind::Reduced });
    }
    Some(rule.done())
}

/// Rows of the updates are rows of the indices and are summed over; of the result dimensions that are updated whole, and those of which one
/// element is updated.
fn scatter(cx: &Cx<'_>, id: Id) -> Option<Vec<Factor>> {
    let dims = ScatterDims::of(cx.inst(id))?;
    let &[_, indices, updates] = cx.operands(id) else { return None };
    let rows = (0..cx.rank(indices)).filter(|&dim| dim as i64 != dims.index_vector_dim);
    let batch = (0..cx.rank(updates)).filter(|&dim| !dims.update_window_dims.contains(&(dim as i64)));
    let mut rule = Rule::of(cx, id);
    for (from, update) in rows.zip(batch) {
        match dims.scatter_indices_batching_dims.iter().position(|&dim| dim as usize == from) {
            Some(at) => {
                let table = dims.input_batching_dims[at] as usize;
                rule.add(table, [(0, table), (1, from), (2, update)], Kind::Along);
            }
            None => rule.add(None, [(1, from), (2, update)], Kind::Reduced),
        }
    }
    let result = cx.dims(id);
    let window = (0..result.len()).filter(|&dim| {
        let dim = dim as i64;
        !dims.inserted_window_dims.contains(&dim) && !dims.input_batching_dims.contains(&dim)
    });
    for (to, &update) in window.zip(dims.update_window_dims) {
        if cx.dims(updates).get(update as usize) == result.get(to) {
            rule.add(to, [(0, to), (2, update as usize)], Kind::Along);
        } else {
            rule.add(to, [(0, to)], Kind::Moved);
            rule.add(None, [(2, update as usize)], Kind::Moved);
        }
    }
    for &dim in dims.inserted_window_dims {
        rule.add(dim as usize, [(0, dim as usize)], Kind::Along);
    }
    Some(rule.done())
}
