//! Top-k: written as a sort and slices, which become a custom call where the runtime knows the type.
//!
//! Source: `TopkDecomposer`, `TopkRewriter` (xla/service/topk_rewriter.cc), `CreateScalarGtComputation`, and `TopkSpecializer`
//! (xla/service/gpu/transforms/topk_specializer.cc), which says what stays a call on XLA:GPU.

use hlo_ir::attribute::SliceDim;
use hlo_ir::shape::{Shape, ShapeRef};
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, Opcode, Payload};

use super::super::build::{apply, dimensions, row_major, share};
use super::super::cx::{Cx, Id};
use crate::Target;

/// Writes every top-k as a sort; returns whether there was one.
pub(crate) fn decompose(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    for computation in cx.outside_fusions() {
        if !cx.has_seen_in(computation, Opcode::TopK) {
            continue;
        }
        for id in cx.post_order(computation) {
            if cx.is_alive(id) && cx.opcode(id) == Opcode::TopK {
                as_sort(cx, id);
                changed = true;
            }
        }
    }
    changed
}

fn as_sort(cx: &mut Cx<'_>, id: Id) -> Option<()> {
    let input = cx.operand(id, 0);
    let (shape, dim) = (cx.shape(input).clone(), cx.rank(input) as i64 - 1);
    let outputs: Vec<ShapeRef> = cx.shape(id).as_tuple()?.to_vec();
    let users = cx.users(id);
    let only_values = users.len() == 1 && cx.inst(users[0]).int(&AttrKey::Index) == Some(0);
    let direction = if cx.inst(id).attribute(&AttrKey::Largest) == Some(&AttrValue::Bool(false)) { "LT" } else { "GT" };
    let value_type = cx.element_type(input);
    let attributes = |callee| [dimensions([dim]), stable(), apply(callee)];
    if only_values {
        let comparator = comparator(cx, &[value_type], direction);
        let sort = cx.make(id, shape, Opcode::Sort, &[input], attributes(comparator));
        let slice = prefix(cx, id, sort, &outputs[0]);
        cx.replace(users[0], slice);
        return Some(());
    }
    let comparator = comparator(cx, &[value_type, ElementType::S32], direction);
    let positions = share(cx.arr(input).with_element_type(ElementType::S32));
    let iota = cx.iota(id, positions.clone(), dim);
    let pair = Shape::tuple([shape, positions]);
    let sort = cx.make(id, pair, Opcode::Sort, &[input, iota], attributes(comparator));
    let mut parts = Vec::new();
    for (index, output) in outputs.iter().enumerate().take(2) {
        let element = cx.element(id, sort, index as i64);
        parts.push(prefix(cx, id, element, output));
    }
    let tuple = cx.tuple(id, &parts);
    cx.replace(id, tuple);
    Some(())
}

fn stable() -> Attribute {
    Attribute::new(AttrKey::IsStable, AttrValue::Bool(true))
}

/// The first elements of an array along every dimension.
fn prefix(cx: &mut Cx<'_>, at: Id, operand: Id, shape: &ShapeRef) -> Id {
    let sizes = shape.as_array().map(|array| array.dims.clone()).unwrap_or_default();
    let bounds = sizes.iter().map(|&limit| SliceDim { start: 0, limit, stride: 1 }).collect();
    cx.slice(at, shape.clone(), operand, bounds)
}

/// A new computation that compares the first pair of its parameters; two for every sorted array.
fn comparator(cx: &mut Cx<'_>, types: &[ElementType], direction: &str) -> ComputationId {
    let computation = cx.add_computation("compare");
    let mut parameters = Vec::new();
    for (number, &element_type) in types.iter().flat_map(|element_type| [element_type; 2]).enumerate() {
        let inst = Instruction::new("p", row_major(element_type, []), Opcode::Parameter, []);
        parameters.push(cx.add(computation, inst.with_payload(Payload::Parameter(number as i64))));
    }
    let root = cx.compare(parameters[0], parameters[0], parameters[1], direction);
    if types[0].is_float() {
        cx.set_attribute(root, AttrKey::CompareType, AttrValue::Word("TOTALORDER".into()));
    }
    cx.set_root(root);
    computation
}

/// The most elements that XLA:GPU's call finds, and the fewest it finds them among.
const MOST_FOUND: i64 = 16;
const FEWEST_SEARCHED: i64 = 1024;

/// Turns sorts of which only the first elements are read into custom calls, where the target has one; returns whether there was one.
pub(crate) fn call_runtime(cx: &mut Cx<'_>, target: Target) -> bool {
    let mut changed = false;
    for computation in cx.outside_fusions() {
        if !cx.has_seen_in(computation, Opcode::Sort) {
            continue;
        }
        for id in cx.post_order(computation) {
            if cx.is_alive(id) && cx.opcode(id) == Opcode::Sort {
                changed |= as_custom_call(cx, id, target).is_some();
            }
        }
    }
    changed
}

/// The number of first elements along `dim` that all users of a sort take, as slices; none reads anything else.
fn taken(cx: &Cx<'_>, sort: Id, dim: usize) -> Option<(i64, Vec<(Id, usize)>)> {
    let (mut count, mut slices) = (None, Vec::new());
    for user in cx.users(sort) {
        let mut slice = (user, 0);
        if cx.operands(sort).len() == 2 {
            if cx.opcode(user) != Opcode::GetTupleElement || cx.user_count(user) != 1 {
                return None;
            }
            slice = (cx.user(user, 0)?, cx.inst(user).int(&AttrKey::Index)? as usize);
        }
        let AttrValue::Slice(bounds) = cx.inst(slice.0).attribute(&AttrKey::Slice)? else { return None };
        let whole = cx.dims(cx.operand(slice.0, 0));
        let first = |(number, bounds): (usize, &SliceDim)| {
            bounds.start == 0 && bounds.stride == 1 && (number == dim || bounds.limit == whole[number])
        };
        let limit = bounds.get(dim)?.limit;
        if !bounds.iter().enumerate().all(first) || count.is_some_and(|count| count != limit) {
            return None;
        }
        count = Some(limit);
        slices.push(slice);
    }
    Some((count?, slices))
}

/// Whether the second sorted array holds the positions along the sorted dimension.
fn has_positions(cx: &Cx<'_>, sort: Id, dim: i64) -> bool {
    let positions = cx.operand(sort, 1);
    let iota = match cx.of(positions, Opcode::Broadcast) {
        Some(iota) => cx.opcode(iota) == Opcode::Iota && cx.dims(iota)[..] == [cx.dims(positions)[dim as usize]],
        None => cx.opcode(positions) == Opcode::Iota,
    };
    iota && cx.element_type(positions) == ElementType::S32
}

/// Whether the comparator is `>` in the total order of floats, as written out by the comparison expander, or on plain numbers.
fn is_greater(cx: &Cx<'_>, comparator: ComputationId) -> bool {
    let root = cx.root(comparator);
    let Some((a, b)) = cx.both(root, Opcode::Compare) else { return false };
    let greater = cx.inst(root).word(&AttrKey::Direction) == Some("GT");
    greater && orders_parameter(cx, a, 0) && orders_parameter(cx, b, 1)
}

/// Whether this is the parameter, or the integer that is ordered like it.
fn orders_parameter(cx: &Cx<'_>, id: Id, number: i64) -> bool {
    let parameter = |id: Id| cx.inst(id).parameter_number() == Some(number);
    if parameter(id) {
        return true;
    }
    let &[negative, flipped, bits] = cx.operands(id) else { return false };
    let of_parameter = cx.of(bits, Opcode::BitcastConvert).is_some_and(parameter);
    let tested = cx.both(negative, Opcode::Compare).is_some_and(|(a, zero)| a == bits && cx.is_all(zero, 0));
    let xored = cx.both(flipped, Opcode::Xor).is_some_and(|(a, b)| a == bits || b == bits);
    cx.opcode(id) == Opcode::Select && of_parameter && tested && xored
}

/// Whether the target has a call that finds the `count` largest of so many elements.
fn is_callable(target: Target, element: ElementType, count: i64, size: i64) -> bool {
    match target {
        Target::Gpu => {
            matches!(element, ElementType::F32 | ElementType::Bf16) && count <= MOST_FOUND && size >= FEWEST_SEARCHED
        }
        Target::Cpu | Target::Tpu => element == ElementType::F32,
    }
}

fn as_custom_call(cx: &mut Cx<'_>, sort: Id, target: Target) -> Option<()> {
    let operands = cx.operands(sort).to_vec();
    let dim = *cx.dimensions(sort).first()?;
    let data = cx.arr(operands[0]);
    let (rank, comparator) = (data.rank(), cx.to_apply(sort)?);
    if operands.len() > 2 || (operands.len() == 2 && !has_positions(cx, sort, dim)) || !is_greater(cx, comparator) {
        return None;
    }
    let (count, slices) = taken(cx, sort, dim as usize)?;
    let size = data.dims[dim as usize];
    if !is_callable(target, data.element_type, count, size) || (dim != 0 && dim as usize != rank - 1) {
        return None;
    }
    let batch: i64 = data.dims.iter().product::<i64>() / size.max(1);
    let mut input = operands[0];
    if rank > 2 {
        let flat = if dim == 0 { [size, batch] } else { [batch, size] };
        input = cx.reshape_to(sort, input, flat);
    }
    if rank > 1 && dim == 0 {
        input = cx.transpose_as(sort, row_major(data.element_type, [batch, size]), input, &[1, 0]);
    }
    let types = [data.element_type, ElementType::S32];
    let shapes = types.map(|t| if rank > 1 { row_major(t, [batch, count]) } else { row_major(t, [count]) });
    let target = Attribute::new(AttrKey::CustomCallTarget, AttrValue::Raw("\"TopK\"".into()));
    let callees = Attribute::new(AttrKey::CalledComputations, AttrValue::Computations([comparator].into()));
    let call = cx.make(sort, Shape::tuple(shapes), Opcode::CustomCall, &[input], [target, callees]);
    let mut results = [0, 1].map(|index| cx.element(sort, call, index));
    if rank > 1 && dim == 0 {
        results = results.map(|result| {
            let shape = row_major(cx.element_type(result), [count, batch]);
            cx.transpose_as(sort, shape, result, &[1, 0])
        });
    }
    if rank > 2 {
        let sizes = data.with_dim(dim as usize, count).dims;
        results = results.map(|result| cx.reshape_to(sort, result, sizes.iter().copied()));
    }
    for (slice, index) in slices {
        cx.replace_all_uses(slice, *results.get(index)?);
    }
    Some(())
}
