//! Which values stand in memory as XLA compiles the module: those of which the maker or a reader is not fused, and those that several places of
//! a kernel would compute again at a cost. The rules are those of XLA:CPU, but for its library and for what XLA:GPU computes in every kernel.
//!
//! `hlo_memory` does what the compiler does to one module; this asks what it would do, before there is one, and is right where a kernel is not cut
//! for other reasons.
//!
//! Source: `InstructionFusion` and `CpuInstructionFusion` (xla/service/instruction_fusion.cc, xla/service/cpu/cpu_instruction_fusion.cc),
//! `FusionNodeIndexingEvaluation` (xla/service/fusion_node_indexing_evaluation.cc).

use crate::hash::IndexSet;
use hlo_ir::arena::SideTable;
use hlo_ir::{AttrKey, InstructionId, Opcode};
use hlo_memory::Target;
use hlo_memory::cpu::{MOST_COPIES, REDUCED_WINDOW};

use super::graph::Graph;
use crate::chunk::savings::is_view;
use crate::flow::{is_expensive, is_fusible};

/// Whether each value of the computation stands in memory.
pub(super) fn held(graph: &Graph<'_>) -> SideTable<InstructionId, bool> {
    let mut kernels = Kernels { graph, asked: SideTable::new(Vec::new()), copies: SideTable::new(0) };
    let mut held = SideTable::new(false);
    // What would have to stand in memory and is larger than all of it: a library computes that on the fly, from what does stand there. (`s8` numbers that
    // are picked from a table, widened and added up.)
    let mut on_the_fly = SideTable::new(false);
    for &op in graph.ops.iter().rev() {
        let copies = kernels.copies_asked(op);
        for &value in graph.results(op) {
            let feeds = readers(graph, value).any(|user| on_the_fly[user]);
            let is_elementwise = graph.module.instruction(op).opcode.is_elementwise();
            let is_read = feeds && graph.fits(value) && !is_elementwise && !is_made_anywhere(graph, op);
            let is_held = needs_memory(graph, value) || kernels.is_too_much(op, copies) || is_read;
            on_the_fly.set(op, is_elementwise && !graph.fits(value) && (is_held || feeds));
            held.set(value, is_held);
        }
        let begins = graph.results(op).iter().all(|&value| held[value] || graph.is_outside(value));
        kernels.enter(op, begins, copies);
    }
    held
}

/// Whether every reader makes for itself what an instruction says, or reads it where it comes from.
fn is_made_anywhere(graph: &Graph<'_>, op: InstructionId) -> bool {
    let opcode = graph.module.instruction(op).opcode;
    matches!(opcode, Opcode::Broadcast | Opcode::Iota | Opcode::Constant) || is_view(graph.module, op)
}

/// How often kernels would contain the code of each instruction, if all that can be fused were: once for each index it is asked for.
struct Kernels<'g, 'm> {
    graph: &'g Graph<'m>,
    /// The instructions that ask for elements of a value, each at an index of its own; no more than matter.
    asked: SideTable<InstructionId, Vec<InstructionId>>,
    /// Copies of each instruction.
    copies: SideTable<InstructionId, usize>,
}

impl Kernels<'_, '_> {
    /// The copies that the readers of an instruction ask for.
    fn copies_asked(&self, op: InstructionId) -> usize {
        let askers = self.graph.results(op).iter().flat_map(|&value| &self.asked[value]);
        askers.map(|&asker| self.copies[asker]).fold(0, usize::saturating_add)
    }
    /// Whether XLA rather computes an instruction once, because that many copies would be too much code. What has branches or a loop of its own is never copied.
    fn is_too_much(&self, op: InstructionId, copies: usize) -> bool {
        use Opcode as O;
        let opcode = self.graph.module.instruction(op).opcode;
        let branches = matches!(opcode, O::Concatenate | O::Pad | O::Reduce);
        let costs = opcode != O::Broadcast && !is_view(self.graph.module, op);
        costs && copies > if branches { 1 } else { MOST_COPIES }
    }
    /// Counts an instruction, which `begins` a kernel or belongs to those of its readers, and passes its readers, or itself, on to its operands.
    fn enter(&mut self, op: InstructionId, begins: bool, copies: usize) {
        let graph = self.graph;
        self.copies.set(op, if begins { 1 } else { copies });
        let readers = match graph.results(op) {
            [value] if !begins => self.asked[*value].clone(),
            _ => vec![op],
        };
        for &operand in graph.operands(op) {
            let askers = if keeps_index(graph, operand, op) { &readers[..] } else { &[op] };
            let known = &mut self.asked[operand];
            for asker in askers {
                if known.len() <= MOST_COPIES && !known.contains(asker) {
                    known.push(*asker);
                }
            }
        }
    }
}

/// Whether an instruction asks its operand for elements at its own index, permuted for a transpose.
fn keeps_index(graph: &Graph<'_>, operand: InstructionId, user: InstructionId) -> bool {
    let inst = graph.module.instruction(user);
    let alike = |from: &hlo_ir::ArrayShape, to: &hlo_ir::ArrayShape| {
        from.dims == to.dims && from.minor_to_major() == to.minor_to_major()
    };
    let (from, to) = (graph.module.instruction(operand).array(), inst.array());
    inst.opcode == Opcode::Transpose || from.zip(to).is_some_and(|(from, to)| alike(from, to))
}

/// Whether a value has memory of its own whatever kernels there are: what makes it or some reader is not fused, or several readers would compute
/// it again at a cost, which compilers for devices do. Only XLA:CPU has a library for reductions, and gathers are kernels of their own on XLA:TPU.
fn needs_memory(graph: &Graph<'_>, value: InstructionId) -> bool {
    let stands = |opcode: Opcode| graph.target == Target::Tpu && opcode == Opcode::Gather;
    let fusible = |op: InstructionId| {
        let opcode = graph.module.instruction(op).opcode;
        is_fusible(opcode) && !stands(opcode)
    };
    let users: IndexSet<InstructionId> = graph.uses(value).iter().map(|(user, _)| *user).collect();
    let op = graph.op(value);
    let view = is_view(graph.module, op);
    let on_cpu = graph.target == Target::Cpu;
    !view
        && (!fusible(op)
            || readers(graph, value).any(|user| !fusible(user) || (on_cpu && reduces_memory(graph, user)))
            || (on_cpu && users.iter().any(|&user| reduces_several(graph, user)) && comes_from_library(graph, value))
            || (users.len() > 1 && ((on_cpu && is_expensive(graph.module, op)) || is_joined(graph, op))))
}

/// Whether an instruction reduces what stands in memory: XLA:CPU gives reductions of floats to a library, and splits long ones in two, the first over
/// windows (`TreeReductionRewriter` in XLA's `tree_reduction_rewriter.cc`), which is not fused.
fn reduces_memory(graph: &Graph<'_>, op: InstructionId) -> bool {
    let inst = graph.module.instruction(op);
    let float = inst.array().is_some_and(|array| array.element_type.is_float());
    let sizes = graph.operands(op).first().map_or(&[][..], |&operand| graph.dims(operand));
    let long = |&dim: &i64| sizes.get(dim as usize).is_some_and(|&size| size > REDUCED_WINDOW);
    inst.opcode == Opcode::Reduce
        && (float || (inst.array().is_some() && inst.ints(&AttrKey::Dimensions).iter().any(long)))
}

/// Whether an instruction reduces several arrays at once, which the library does not, nor what stands behind it.
fn reduces_several(graph: &Graph<'_>, op: InstructionId) -> bool {
    let inst = graph.module.instruction(op);
    inst.opcode == Opcode::Reduce && inst.array().is_none()
}

/// Whether a value is written by the library: a sum of floats, or what elementwise operations make of one.
fn comes_from_library(graph: &Graph<'_>, value: InstructionId) -> bool {
    let (mut seen, mut work) = (IndexSet::default(), vec![value]);
    while let Some(value) = work.pop() {
        let op = graph.op(value);
        let inst = graph.module.instruction(op);
        let float = inst.array().is_some_and(|array| array.element_type.is_float());
        match inst.opcode {
            Opcode::Reduce if float => return true,
            opcode if float && opcode.is_elementwise() && seen.insert(op) => work.extend(graph.operands(op)),
            _ => {}
        }
    }
    false
}

/// A value and what it is reshaped to: the same bytes in other shapes.
pub(super) fn shapes(graph: &Graph<'_>, value: InstructionId) -> Vec<InstructionId> {
    let mut shapes = vec![value];
    let mut next = 0;
    while let Some(&value) = shapes.get(next) {
        let views = graph.uses(value).iter().filter(|(user, _)| is_reshaped(graph, *user));
        shapes.extend(views.flat_map(|(user, _)| graph.results(*user)));
        next += 1;
    }
    shapes
}

fn is_reshaped(graph: &Graph<'_>, op: InstructionId) -> bool {
    graph.module.instruction(op).opcode == Opcode::Reshape && is_view(graph.module, op)
}

/// The instructions that read a value, in whatever shape.
fn readers(graph: &Graph<'_>, value: InstructionId) -> impl Iterator<Item = InstructionId> {
    shapes(graph, value).into_iter().flat_map(|shape| graph.uses(shape)).map(|(user, _)| *user)
}

/// Whether a value is joined from several arrays, which XLA would read again for every reader.
fn is_joined(graph: &Graph<'_>, op: InstructionId) -> bool {
    let pieces: IndexSet<InstructionId> = graph.operands(op).iter().copied().collect();
    graph.module.instruction(op).opcode == Opcode::Concatenate && pieces.len() > 1
}
