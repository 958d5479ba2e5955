//! Kernels of XLA:GPU that make several results: those that read the same array, and one beside what it reads.
//!
//! Source: `MultiOutputFusion` (xla/service/gpu/transforms/multi_output_fusion.cc) and `ShapesCompatibleForMultiOutputFusion`
//! (xla/service/gpu/gpu_fusible.cc).

// Tests: `memory/tests/devices.rs`, `memory/tests/not_stored.rs`.

mod order;

use hlo_ir::{ArrayShape, AttrKey, AttrValue, ComputationId, InstructionId, Opcode};
use smol_str::format_smolstr;

use crate::hash::IndexMap;

use super::super::graph::Graph;
use super::super::{in_place, traits};
use super::{gemm, priority, rules};
use order::RunOrder;

/// Arrays that a kernel reads and writes at most (`MaxOperandsAndOutputsPerFusion`), and reductions (`kMaxUnnestedReductionOutputsPerFusion`).
const MOST_ARRAYS: usize = 96;
const MOST_REDUCTIONS: usize = 8;

/// Bytes that the threads of a block share at most.
const MOST_SHARED: u64 = 49_152;

/// In which order kernels became users of what they read.
pub(super) struct UserOrder {
    /// What each fusion was made of first.
    pub(super) roots: IndexMap<InstructionId, InstructionId>,
    pub(super) read_since: priority::ReadSince,
}

impl UserOrder {
    /// The step since which a kernel reads an array: instructions that were not fused read it from the beginning, fusions of this pass come last.
    fn since(&self, graph: &Graph, kernel: InstructionId, array: InstructionId) -> u32 {
        let root = |id| self.roots.get(&id).copied();
        match root(kernel) {
            Some(of) => self.read_since.get(&(of, root(array).unwrap_or(array))).copied().unwrap_or(0),
            None if graph.opcode(kernel) == Opcode::Fusion => u32::MAX,
            None => 0,
        }
    }
}

/// Merges kernels of a computation, from its results towards its operands.
pub(super) fn run(graph: &mut Graph, computation: ComputationId, users: &UserOrder) {
    let mut merger = Merger { order: RunOrder::of(graph, computation), users };
    let order = graph.post_order(computation);
    for id in order.into_iter().rev() {
        if graph.is_alive(id) && graph.opcode(id) != Opcode::Constant && !is_of_product(graph, id) {
            merger.merge_readers(graph, id);
            merger.merge_into_reader(graph, id);
        }
    }
    for id in graph.list(computation).filter(|&id| makes_several(graph, id)).collect::<Vec<_>>() {
        graph.keep_read_results(id);
    }
}

/// Looks at what depends on what.
struct Merger<'a> {
    order: RunOrder,
    users: &'a UserOrder,
}

impl Merger<'_> {
    /// Merges kernels that read the same array.
    fn merge_readers(&mut self, graph: &mut Graph, shared: InstructionId) {
        if graph.array(shared).is_none_or(|array| traits::true_rank(array) == 0) || graph.user_count(shared) < 2 {
            return;
        }
        let mut readers: Vec<InstructionId> =
            graph.each_user(shared).filter(|&id| graph.user_count(id) > 0 && is_kernel(graph, id)).collect();
        readers.sort_by_key(|&id| (std::cmp::Reverse(rank(graph, id)), self.users.since(graph, id, shared)));
        let mut first = 0;
        while first < readers.len() {
            let kept = readers[first];
            let mut second = first + 1;
            while second < readers.len() && graph.opcode(kept) == Opcode::Fusion {
                let other = readers[second];
                if read_the_same(graph, kept, other, shared) && self.may_merge(graph, kept, other) {
                    self.order.merge(graph, kept, other);
                    graph.merge_beside(kept, other);
                    readers.remove(second);
                } else {
                    second += 1;
                }
            }
            first += 1;
        }
    }

    /// Merges a kernel into one that reads its result.
    fn merge_into_reader(&mut self, graph: &mut Graph, id: InstructionId) {
        if !is_producer(graph, id) {
            return;
        }
        let users = graph.users(id).to_vec();
        if matches!(users[..], [user] if !makes_several(graph, user)) {
            return;
        }
        let fitting = users.into_iter().filter(|&user| {
            is_kernel(graph, user) && fit(graph, id, user) && !self.reaches_other_operand(graph, id, user)
        });
        // The first of those with the highest rank.
        let Some(reader) = fitting.fold(None, |best: Option<InstructionId>, user| match best {
            Some(best) if rank(graph, best) >= rank(graph, user) => Some(best),
            _ => Some(user),
        }) else {
            return;
        };
        let kept = if graph.opcode(reader) == Opcode::Fusion {
            reader
        } else {
            let name = format_smolstr!("{}_fusion", graph.inst(reader).opcode_name());
            let fusion = graph.fuse_alone(reader, "kLoop", name);
            self.order.replace(reader, fusion);
            fusion
        };
        self.order.merge(graph, kept, id);
        graph.merge_beside(kept, id);
    }

    fn may_merge(&mut self, graph: &Graph, a: InstructionId, b: InstructionId) -> bool {
        let writes_in_place = |id| graph.opcode(last(graph, id)) == Opcode::DynamicUpdateSlice;
        fit(graph, a, b)
            && !writes_in_place(a)
            && !writes_in_place(b)
            && !self.order.need(graph, &[a], b)
            && !self.order.need(graph, &[b], a)
    }

    /// Whether another operand of `user` needs `id`, so that merging the two would make a circle.
    fn reaches_other_operand(&mut self, graph: &Graph, id: InstructionId, user: InstructionId) -> bool {
        let others: Vec<InstructionId> = graph.operands(user).iter().copied().filter(|&other| other != id).collect();
        self.order.need(graph, &others, id)
    }
}

/// Kernels of several results come first, then other fusions.
fn rank(graph: &Graph, id: InstructionId) -> u8 {
    u8::from(graph.opcode(id) == Opcode::Fusion) + u8::from(makes_several(graph, id))
}

fn makes_several(graph: &Graph, id: InstructionId) -> bool {
    graph.fused(id).is_some_and(|body| graph.opcode(graph.root(body)) == Opcode::Tuple)
}

/// Whether an instruction is a kernel that can make other results too.
fn is_kernel(graph: &Graph, id: InstructionId) -> bool {
    if !traits::is_fusible(graph, id) {
        return false;
    }
    match graph.opcode(id) {
        Opcode::Fusion => is_loop(graph, id),
        Opcode::Reduce => graph.array(id).is_some() && priority::is_by_threads(graph, id),
        _ => traits::is_elementwise(graph, id) && graph.opcode(id) != Opcode::Constant,
    }
}

/// Whether a kernel of a product makes a value, perhaps of its operands alone: kernels that read it are not merged.
fn is_of_product(graph: &Graph, id: InstructionId) -> bool {
    rules::is_custom_fusion(graph, id) || gemm::is_product(graph, id)
}

/// Whether a fusion is none of a product, a scatter or of whole rows, which other generators make.
fn is_loop(graph: &Graph, id: InstructionId) -> bool {
    let Some(body) = graph.fused(id) else { return false };
    let last: Vec<InstructionId> = match graph.opcode(graph.root(body)) {
        Opcode::Tuple => graph.operands(graph.root(body)).iter().map(|&result| behind(graph, result)).collect(),
        _ => vec![behind(graph, graph.root(body))],
    };
    !rules::is_custom_fusion(graph, id)
        && graph.list(body).all(|inner| match graph.opcode(inner) {
            Opcode::Dot | Opcode::Convolution | Opcode::Scatter => false,
            Opcode::Reduce => {
                graph.array(inner).is_some() && (!priority::is_by_threads(graph, inner) || last.contains(&inner))
            }
            _ => true,
        })
}

/// Whether a kernel can be made beside one that reads its result.
fn is_producer(graph: &Graph, id: InstructionId) -> bool {
    let is_fitting = match graph.opcode(id) {
        Opcode::Fusion => {
            !makes_several(graph, id) && is_loop(graph, id) && graph.opcode(hero(graph, id)) != Opcode::Reduce
        }
        Opcode::Reduce => graph.array(id).is_some() && !priority::is_by_threads(graph, id),
        Opcode::Constant | Opcode::Scatter | Opcode::Parameter | Opcode::Bitcast => false,
        _ => priority::takes_values(graph, id) && traits::is_fusible(graph, id),
    };
    is_fitting
        && graph.user_count(id) > 0
        && !graph.is_root(id)
        && graph.array(id).is_some()
        && in_place::pairs(graph, id).is_empty()
        && !inside(graph, id).any(|inner| priority::transposes(graph, inner))
        && !priority::moves_rows(graph, last(graph, id))
}

/// A kernel and what it computes.
fn inside(graph: &Graph, id: InstructionId) -> impl Iterator<Item = InstructionId> + '_ {
    graph.fused(id).into_iter().flat_map(|body| graph.list(body)).chain([id])
}

/// What writes the first result.
fn last(graph: &Graph, id: InstructionId) -> InstructionId {
    let Some(body) = graph.fused(id) else { return id };
    let root = graph.root(body);
    if graph.opcode(root) == Opcode::Tuple { graph.operand(root, 0) } else { root }
}

/// The reduction behind elementwise work on its results, if there is one.
fn behind(graph: &Graph, result: InstructionId) -> InstructionId {
    let elements = traits::elements(graph, result);
    let mut id = result;
    loop {
        if graph.opcode(id) == Opcode::Reduce && priority::is_by_threads(graph, id) {
            return id;
        }
        let is_passed = traits::is_elementwise(graph, id) || graph.opcode(id) == Opcode::Bitcast;
        let mut larger = graph.operands(id).iter().copied().filter(|&operand| {
            traits::elements(graph, operand) == elements
                && !matches!(graph.opcode(operand), Opcode::Parameter | Opcode::Broadcast | Opcode::Constant)
        });
        match (is_passed, larger.next(), larger.next()) {
            (true, Some(next), None) => id = next,
            _ => return result,
        }
    }
}

/// What decides how a kernel goes through its elements: a reduction if it has one.
fn hero(graph: &Graph, id: InstructionId) -> InstructionId {
    let Some(body) = graph.fused(id) else { return id };
    let root = graph.root(body);
    if graph.opcode(root) != Opcode::Tuple {
        return behind(graph, root);
    }
    let mut heroes = graph.operands(root).iter().map(|&result| behind(graph, result));
    heroes.find(|&hero| graph.opcode(hero) == Opcode::Reduce).unwrap_or_else(|| last(graph, id))
}

/// Whether two kernels go through elements of the same number in the same order, and have room for each other.
fn fit(graph: &Graph, a: InstructionId, b: InstructionId) -> bool {
    let (first, second) = (hero(graph, a), hero(graph, b));
    let is_reduction = |id| graph.opcode(id) == Opcode::Reduce && priority::is_by_threads(graph, id);
    let both = is_reduction(first) && is_reduction(second);
    if both && graph.inst(first).ints(&AttrKey::Dimensions) != graph.inst(second).ints(&AttrKey::Dimensions) {
        return false;
    }
    if priority::moves_rows(graph, first) || priority::moves_rows(graph, second) {
        return false;
    }
    let space = |id| if is_reduction(id) { graph.array(graph.operand(id, 0)) } else { graph.array(id) };
    let (Some(one), Some(other)) = (space(first), space(second)) else { return false };
    let is_same = if both { traits::same_dims_and_layout(one, other) } else { is_like(one, other) };
    is_same && has_room(graph, a, b)
}

/// Whether arrays have the same elements in the same order, whatever their dimensions.
fn is_like(one: &ArrayShape, other: &ArrayShape) -> bool {
    let is_plain = |array: &ArrayShape| array.minor_to_major().iter().rev().copied().eq(0..array.rank() as i64);
    traits::same_dims_and_layout(one, other) || one.elements() == other.elements() && is_plain(one) && is_plain(other)
}

fn has_room(graph: &Graph, a: InstructionId, b: InstructionId) -> bool {
    let results = |id| {
        graph.fused(id).filter(|_| makes_several(graph, id)).map_or(1, |body| graph.operands(graph.root(body)).len())
    };
    let reductions = |id| inside(graph, id).filter(|&inner| priority::is_by_threads(graph, inner)).count();
    let shared = |id| inside(graph, id).map(|inner| priority::shared_bytes(graph, inner)).sum::<u64>();
    graph.operands(a).len() + graph.operands(b).len() + results(a) + results(b) <= MOST_ARRAYS
        && reductions(a) + reductions(b) <= MOST_REDUCTIONS
        && shared(a) + shared(b) <= MOST_SHARED
}

/// Whether two kernels read the same elements of an array, as far as both read slices of it.
fn read_the_same(graph: &Graph, a: InstructionId, b: InstructionId, array: InstructionId) -> bool {
    let (Some(one), Some(other)) = (slice_of(graph, a, array), slice_of(graph, b, array)) else { return true };
    let dims = |id: InstructionId| match graph.inst(id).attribute(&AttrKey::Slice) {
        Some(AttrValue::Slice(dims)) => dims.iter().map(|dim| (dim.start, dim.limit)).collect(),
        _ => Vec::new(),
    };
    dims(one).iter().zip(dims(other)).all(|(one, other)| one.0 < other.1 && other.0 < one.1)
}

/// The only slice by which a kernel reads an array.
fn slice_of(graph: &Graph, id: InstructionId, array: InstructionId) -> Option<InstructionId> {
    let Some(body) = graph.fused(id) else { return (graph.opcode(id) == Opcode::Slice).then_some(id) };
    let number = graph.operands(id).iter().position(|&operand| operand == array)?;
    let mut users = graph.each_user(graph.parameter(body, number));
    let user = users.next().filter(|_| users.next().is_none())?;
    (graph.opcode(user) == Opcode::Slice).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::graph::Origin;

    const KERNELS: &str = "HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

summed {
  y = f32[4096,64] parameter(0)
  e = f32[4096,64] exponential(y)
  zero = f32[] constant(0)
  ROOT s = f32[64] reduce(e, zero), dimensions={0}, to_apply=add
}

doubled {
  y = f32[4096,64] parameter(0)
  e = f32[4096,64] add(y, y)
  zero = f32[] constant(0)
  ROOT s = f32[64] reduce(e, zero), dimensions={0}, to_apply=add
}

rooted {
  y = f32[4096,64] parameter(0)
  e = f32[4096,64] sqrt(y)
  zero = f32[] constant(0)
  ROOT s = f32[64] reduce(e, zero), dimensions={0}, to_apply=add
}

rows {
  y = f32[4096,64] parameter(0)
  zero = f32[] constant(0)
  ROOT s = f32[4096] reduce(y, zero), dimensions={1}, to_apply=add
}

scaled {
  y = f32[4096,64] parameter(0)
  ROOT g = f32[4096,64] negate(y)
}

both {
  y = f32[4096,64] parameter(0)
  z = f32[4096,64] parameter(1)
  ROOT c = f32[4096,64] add(y, z)
}

turned {
  y = f32[4096,64]{0,1} parameter(0)
  c = f32[4096,64]{1,0} copy(y)
  ROOT g = f32[4096,64]{1,0} negate(c)
}

unit {
  y = f32[4096,64,1]{1,2,0} parameter(0)
  c = f32[4096,64,1]{2,1,0} copy(y)
  ROOT g = f32[4096,64,1]{2,1,0} negate(c)
}

both_units {
  y = f32[4096,64,1] parameter(0)
  z = f32[4096,64,1] parameter(1)
  ROOT c = f32[4096,64,1] add(y, z)
}

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

";

    /// The results of each kernel that an entry computation with these lines has.
    fn results(lines: &str) -> Vec<usize> {
        let module = hlo_ir::text::parse(&format!("{KERNELS}ENTRY main {{\n{lines}\n}}\n")).expect("it is legal");
        let mut graph = Graph::from_module(&module, Origin::Program);
        let entry = graph.entry();
        run(&mut graph, entry, &UserOrder { roots: IndexMap::default(), read_since: IndexMap::default() });
        let kernels = graph.list(entry).filter_map(|id| graph.fused(id)).map(|body| graph.root(body));
        let mut found: Vec<usize> = kernels
            .map(|root| if graph.opcode(root) == Opcode::Tuple { graph.operands(root).len() } else { 1 })
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn kernels_that_transpose_stay_apart_from_their_readers() {
        let lines = |shape: &str, layout: &str, made: &str, reader: &str| {
            format!(
                "  y = {shape}{layout} parameter(0)
  z = {shape} parameter(1)
  a = {shape} fusion(y), kind=kLoop, calls={made}
  b = {shape} fusion(a, z), kind=kLoop, calls={reader}
  ROOT t = ({shape}, {shape}) tuple(a, b)"
            )
        };
        assert_eq!(results(&lines("f32[4096,64]", "{1,0}", "scaled", "both")), [2]);
        assert_eq!(results(&lines("f32[4096,64]", "{0,1}", "turned", "both")), [1, 1]);
        assert_eq!(results(&lines("f32[4096,64,1]", "{1,2,0}", "unit", "both_units")), [2], "it moves nothing");
    }

    #[test]
    fn results_that_nobody_reads_are_not_made() {
        let lines = "  w = f32[4096,64] parameter(0)
  y = f32[4096,64] parameter(1)
  p = f32[4096,64] fusion(w), kind=kLoop, calls=scaled
  b = f32[4096,64] fusion(p, y), kind=kLoop, calls=both
  a = f32[4096,64] fusion(y), kind=kLoop, calls=scaled
  ROOT t = (f32[4096,64], f32[4096,64]) tuple(b, a)";
        assert_eq!(results(lines), [2], "the kernel that makes two results makes what only it reads");
    }

    /// Of two kernels that cannot both be merged with a third, the one that came to read their array first is.
    #[test]
    fn kernels_are_merged_in_the_order_in_which_they_came_to_read() {
        let lines = "  y = f32[4096,64] parameter(0)
  a = f32[4096,64] fusion(y), kind=kLoop, calls=scaled
  b = f32[4096,64] fusion(y), kind=kLoop, calls=scaled
  s = f32[4096,64] sort(b), dimensions={1}, to_apply=less
  c = f32[4096,64] fusion(y, s), kind=kLoop, calls=both
  ROOT t = (f32[4096,64], f32[4096,64]) tuple(a, c)";
        let module = hlo_ir::text::parse(&format!("{KERNELS}ENTRY main {{\n{lines}\n}}\n")).expect("it is legal");
        let reads_what_was_sorted = |order: [&str; 3]| {
            let mut graph = Graph::from_module(&module, Origin::Program);
            let entry = graph.entry();
            let named = |name: &str| graph.list(entry).find(|&id| graph.inst(id).name == name).expect("it is there");
            let (array, sorted) = (named("y"), named("s"));
            let roots = order.iter().map(|name| (named(name), named(name))).collect();
            let read_since = order.iter().zip(1..).map(|(name, step)| ((named(name), array), step)).collect();
            run(&mut graph, entry, &UserOrder { roots, read_since });
            let merged = graph.list(entry).find(|&id| makes_several(&graph, id)).expect("two are merged");
            graph.operands(merged).contains(&sorted)
        };
        assert!(!reads_what_was_sorted(["a", "b", "c"]));
        assert!(reads_what_was_sorted(["a", "c", "b"]));
    }

    #[test]
    fn kernels_that_read_the_same_array_become_one() {
        let lines = "  y = f32[4096,64] parameter(0)
  a = f32[64] fusion(y), kind=kInput, calls=summed
  b = f32[4096,64] fusion(y), kind=kLoop, calls=scaled
  ROOT all = (f32[64], f32[4096,64]) tuple(a, b)";
        assert_eq!(results(lines), [2]);
    }

    #[test]
    fn a_block_of_threads_has_room_for_two_sums_of_columns() {
        let lines = "  y = f32[4096,64] parameter(0)
  a = f32[64] fusion(y), kind=kInput, calls=summed
  b = f32[64] fusion(y), kind=kInput, calls=doubled
  c = f32[64] fusion(y), kind=kInput, calls=rooted
  ROOT all = (f32[64], f32[64], f32[64]) tuple(a, b, c)";
        assert_eq!(results(lines), [1, 2]);
    }

    #[test]
    fn sums_of_rows_and_of_columns_stay_apart() {
        let lines = "  y = f32[4096,64] parameter(0)
  a = f32[64] fusion(y), kind=kInput, calls=summed
  b = f32[4096] fusion(y), kind=kInput, calls=rows
  ROOT all = (f32[64], f32[4096]) tuple(a, b)";
        assert_eq!(results(lines), [1, 1]);
    }

    #[test]
    fn a_kernel_is_made_beside_what_it_reads_unless_that_closes_a_circle() {
        let beside = "  y = f32[4096,64] parameter(0)
  b = f32[4096,64] fusion(y), kind=kLoop, calls=scaled
  a = f32[64] fusion(b), kind=kInput, calls=summed
  ROOT all = (f32[64], f32[4096,64]) tuple(a, b)";
        assert_eq!(results(beside), [2]);
        let circle = "  y = f32[4096,64] parameter(0)
  b = f32[4096,64] fusion(y), kind=kLoop, calls=scaled
  t = f32[64,4096] transpose(b), dimensions={1,0}
  s = f32[4096,64] sort(b), dimensions={0}, to_apply=less
  c = f32[4096,64] fusion(b, s), kind=kLoop, calls=both
  ROOT all = (f32[4096,64], f32[64,4096]) tuple(c, t)";
        assert_eq!(results(circle), [1, 1]);
    }
}
