//! Whether an operand should be fused into its consumer.
//!
//! Source: `CpuInstructionFusion::ShouldFuse` (xla/service/cpu/cpu_instruction_fusion.cc) and `InstructionFusion::ShouldFuse`
//! (xla/service/instruction_fusion.cc).

use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, InstructionId, Opcode};

use super::super::graph::{Graph, Users};
use super::super::traits;
use super::conflict::is_safe_in_place;
use super::cost::{is_expensive, is_loop_fusible};
use super::duplication::Indexing;
use super::reuse::reused_operands;
use super::{device, priority};
use crate::Target;
use crate::hash::IndexMap;

/// A concatenation of more operands is not fused.
const MOST_CONCATENATED: usize = 8;
/// A concatenation along the fastest dimension of at least this size is not fused.
const WIDE_CONCATENATION: i64 = 128;
/// A fusion with more reductions takes no further one.
const MOST_REDUCTIONS: usize = 5;
/// A dot with a vector of at least this many bytes takes no producer.
const SMALL_VECTOR_BYTES: u64 = 16 * 1024;

/// What is remembered about the fusion that is being built: a fusion grows until nothing fits before another one is begun.
#[derive(Debug)]
pub(super) struct Fuser {
    target: Target,
    indexing: Option<Indexing>,
    /// The fusion, and what it reads more than once.
    reused: Option<(InstructionId, Users)>,
    /// What XLA:GPU makes in each kernel that reads it.
    pub(super) made: SideTable<InstructionId, bool>,
    /// The instruction that each fusion was made of first, which gives its result.
    pub(super) roots: IndexMap<InstructionId, InstructionId>,
}

impl Fuser {
    /// A fuser that has built nothing yet.
    pub(super) fn new(target: Target) -> Self {
        Self { target, indexing: None, reused: None, made: SideTable::new(false), roots: IndexMap::default() }
    }

    /// Whether operand `number` of `consumer` should become part of it.
    pub(super) fn should_fuse(&mut self, graph: &Graph, consumer: InstructionId, number: usize) -> bool {
        let producer = graph.operand(consumer, number);
        // Other compilers decide about others on the spot.
        if self.target != Target::Cpu && is_custom_fusion(graph, consumer) {
            return false;
        }
        if let Some(answer) = device::decides(graph, self.target, consumer, number) {
            return answer;
        }
        if graph.opcode(producer) == Opcode::Constant && !traits::is_effective_scalar(graph, producer) {
            return false;
        }
        if self.target == Target::Gpu {
            return self.is_made_in(graph, producer, consumer);
        }
        if can_be_output_fused(graph, producer, consumer) {
            return true;
        }
        if graph.opcode(producer) == Opcode::Fusion
            || takes_a_dot(graph, producer)
            || !is_loop_fusible(graph, producer)
            || is_costly_concatenation(graph, producer)
            || is_costly_concatenation(graph, consumer)
            || is_custom_fusion(graph, consumer)
        {
            return false;
        }
        let expensive = is_expensive(graph, producer);
        if expensive && self.reuses(graph, consumer, producer) {
            return false;
        }
        let repeats = self.target == Target::Cpu && would_duplicate(graph, producer, consumer);
        if graph.is_root(producer) || (expensive && repeats) {
            return false;
        }
        is_safe_in_place(graph, producer, consumer)
            && !is_full_of_reductions(graph, producer, consumer)
            && (graph.opcode(producer) != Opcode::Constant || graph.opcode(consumer) == Opcode::Fusion)
            && !self.emits_too_much(graph, producer, consumer)
            && takes_producers(graph, consumer, number)
    }

    /// Whether XLA:GPU makes `producer` in the kernel that writes `consumer`.
    fn is_made_in(&self, graph: &Graph, producer: InstructionId, consumer: InstructionId) -> bool {
        let is_constant = graph.opcode(producer) == Opcode::Constant && graph.opcode(consumer) == Opcode::Fusion;
        (is_constant || self.made[producer])
            && !graph.is_root(producer)
            && priority::takes_values(graph, consumer)
            && graph.opcode(consumer) != Opcode::Bitcast
            && is_safe_in_place(graph, producer, consumer)
    }

    /// To be called when `fusion` exists and is about to take `producer`.
    pub(super) fn before_fusing(&mut self, graph: &Graph, fusion: InstructionId, producer: InstructionId) {
        let from_producer = reused_operands(graph, producer);
        let reused = self.reused_of(graph, fusion);
        if reused.contains(producer) {
            reused.remove(producer);
            graph.operands(producer).iter().for_each(|&operand| reused.add(operand));
        } else {
            from_producer.iter().for_each(|operand| reused.add(operand));
        }
        self.indexing_of(graph, fusion);
    }

    /// To be called when `copy` has taken the place of `producer` inside `fusion`.
    pub(super) fn after_fusing(
        &mut self,
        graph: &Graph,
        fusion: InstructionId,
        producer: InstructionId,
        copy: InstructionId,
    ) {
        let indexing = self.indexing_of(graph, fusion);
        let users = indexing.take(producer);
        indexing.fused(graph, copy, users);
    }

    fn reuses(&mut self, graph: &Graph, consumer: InstructionId, producer: InstructionId) -> bool {
        if graph.opcode(consumer) == Opcode::Fusion {
            return self.reused_of(graph, consumer).contains(producer);
        }
        reused_operands(graph, consumer).contains(producer)
    }

    fn reused_of(&mut self, graph: &Graph, fusion: InstructionId) -> &mut Users {
        if self.reused.as_ref().is_none_or(|known| known.0 != fusion) {
            self.reused = Some((fusion, reused_operands(graph, fusion)));
        }
        &mut self.reused.as_mut().expect("set above").1
    }

    fn indexing_of(&mut self, graph: &Graph, fusion: InstructionId) -> &mut Indexing {
        let indexing = self.indexing.get_or_insert_with(|| Indexing::new(graph, fusion));
        if !indexing.is_of(fusion) {
            indexing.begin(graph, fusion);
        }
        indexing
    }

    fn emits_too_much(&mut self, graph: &Graph, producer: InstructionId, consumer: InstructionId) -> bool {
        graph.opcode(consumer) == Opcode::Fusion && self.indexing_of(graph, consumer).is_too_high(graph, producer)
    }
}

/// Whether `producer` is a matrix-vector product whose only use is the addition `consumer`.
pub(super) fn can_be_output_fused(graph: &Graph, producer: InstructionId, consumer: InstructionId) -> bool {
    graph.opcode(consumer) == Opcode::Add
        && graph.opcode(producer) == Opcode::Dot
        && !traits::is_complex(graph, producer)
        && graph.array(producer).is_some_and(|array| array.rank() <= 1)
        && graph.inst(producer).ints(&AttrKey::LhsBatchDims).is_empty()
        && graph.user_count(producer) == 1
        && graph.operands(consumer).iter().filter(|&&operand| operand == producer).count() == 1
}

/// Whether `id` is an addition that could take one of its operands, a dot, itself.
fn takes_a_dot(graph: &Graph, id: InstructionId) -> bool {
    graph.opcode(id) == Opcode::Add && graph.operands(id).iter().any(|&operand| can_be_output_fused(graph, operand, id))
}

/// Whether an instruction is a kernel that another generator than that of loops makes: of a product on XLA:GPU, of a call of the library on XLA:CPU.
pub(super) fn is_custom_fusion(graph: &Graph, id: InstructionId) -> bool {
    graph.opcode(id) == Opcode::Fusion && graph.inst(id).word(&AttrKey::Kind) == Some("kCustom")
}

fn is_costly_concatenation(graph: &Graph, id: InstructionId) -> bool {
    let (Opcode::Concatenate, Some(array)) = (graph.opcode(id), graph.array(id)) else { return false };
    let dim = graph.inst(id).ints(&AttrKey::Dimensions).first().copied().unwrap_or(0);
    let along_minor = array.rank() > 1 && array.minor_to_major().first() == Some(&dim);
    graph.operands(id).len() > MOST_CONCATENATED || (along_minor && array.dims[dim as usize] >= WIDE_CONCATENATION)
}

/// Whether `producer` would have to be computed for others too; broadcasts and widening conversions may always be.
fn would_duplicate(graph: &Graph, producer: InstructionId, consumer: InstructionId) -> bool {
    let only_user = graph.user_count(producer) == 1 && graph.is_user(producer, consumer);
    let widening = graph.opcode(producer) == Opcode::Convert && {
        let bits = |id| traits::element_type(graph, id).map_or(0, hlo_ir::ElementType::storage_bits);
        bits(graph.operand(producer, 0)) < bits(producer)
    };
    !only_user && !widening && graph.opcode(producer) != Opcode::Broadcast
}

fn is_full_of_reductions(graph: &Graph, producer: InstructionId, consumer: InstructionId) -> bool {
    let inside = graph.fused(consumer).into_iter().flat_map(|body| graph.list(body));
    graph.opcode(producer) == Opcode::Reduce
        && inside.filter(|&inner| graph.opcode(inner) == Opcode::Reduce).count() > MOST_REDUCTIONS
}

/// Whether `consumer` takes any producer at operand `number`.
fn takes_producers(graph: &Graph, consumer: InstructionId, number: usize) -> bool {
    is_small_matrix_vector_dot(graph, consumer, number)
        || (graph.opcode(consumer) == Opcode::Fusion && graph.inst(consumer).word(&AttrKey::Kind) == Some("kLoop"))
        || is_loop_fusible(graph, consumer)
}

/// A matrix-vector product whose other operand is a short vector.
fn is_small_matrix_vector_dot(graph: &Graph, consumer: InstructionId, number: usize) -> bool {
    if graph.opcode(consumer) != Opcode::Dot || graph.array(consumer).is_none_or(|array| array.rank() > 1) {
        return false;
    }
    let other = graph.array(graph.operand(consumer, 1 - number));
    other.is_some_and(|vector| {
        let bytes =
            vector.elements().unwrap_or(u64::MAX).saturating_mul(u64::from(vector.element_type.storage_bits()) / 8);
        vector.rank() == 1 && bytes < SMALL_VECTOR_BYTES
    })
}
