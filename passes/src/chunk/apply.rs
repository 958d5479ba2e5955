//! Emits the sinks of a loop on one block: everything but what is cut into blocks is as in the original.

// Tests: `passes/tests/chunk_situations.rs`.

use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, Attribute, ElementType, Instruction, InstructionId, Opcode};
use smol_str::format_smolstr;

use super::accumulate::combine;
use super::bf16_accumulator::{in_type, widen};
use super::emit::Emitter;
use super::region::Block;
use super::sink::{Kind, Sink, Sum};
use crate::flow::block_shape;

/// Applies the emitter's block of every sink to its accumulators and returns the new accumulators.
pub(super) fn apply(emitter: &mut Emitter<'_>, sinks: &[&Sink], accumulators: &[InstructionId]) -> Vec<InstructionId> {
    let mut rest = accumulators;
    for sink in sinks {
        let (own, others) = rest.split_at(sink.inputs(emitter.module));
        rest = others;
        if sink.kind == Kind::Loop {
            // What reads blocks of its other results may come first.
            emitter.done.sums.insert(sink.inst, own.to_vec());
        }
    }
    let mut results = Vec::new();
    let mut rest = accumulators;
    for (sink, blocks) in sinks.iter().zip(emitter.region.roots.clone()) {
        let (own, others) = rest.split_at(sink.inputs(emitter.module));
        rest = others;
        results.extend(match (sink.kind, sink.batch_dim) {
            (Kind::Scatter { .. }, None) => scatter(emitter, sink, own, blocks),
            (Kind::Scatter { .. }, Some(dim)) => {
                let rows: Vec<_> = (0..).zip(own).map(|(at, &all)| rows_of(emitter, sink, dim, at, all)).collect();
                let rows = scatter(emitter, sink, &rows, blocks);
                own.iter().zip(rows).map(|(&all, rows)| put_back(emitter, sink, dim, all, rows)).collect()
            }
            (Kind::Write { dim }, _) => {
                let rows = emitter.block_for(blocks[0], own[0]);
                vec![put_back(emitter, sink, dim, own[0], rows)]
            }
            (Kind::Reduce { .. } | Kind::Contraction { .. }, _) => {
                let blocks: Vec<InstructionId> = blocks.into_iter().map(|block| emitter.block(block)).collect();
                vec![combine(emitter, sink, own[0], &blocks)]
            }
            (Kind::Loop, _) => loop_sums(emitter, sink),
        });
    }
    results
}

/// The scatter on a block; one result per updated operand.
fn scatter(
    emitter: &mut Emitter<'_>,
    sink: &Sink,
    updated: &[InstructionId],
    blocks: Vec<Block>,
) -> Vec<InstructionId> {
    let mut blocks: Vec<InstructionId> = blocks.into_iter().map(|block| emitter.block(block)).collect();
    let mut scatter = emitter.module.instruction(sink.inst).clone();
    scatter.name = format_smolstr!("{}.block", scatter.name);
    if let Some(&combiner) = emitter.wide.get(&sink.inst) {
        widen(&mut scatter, combiner);
        if let Some(updates) = blocks.last_mut() {
            let wide = in_type(emitter.module, emitter.patch, *updates, ElementType::F32);
            *updates = wide.map_or(*updates, |wide| add(emitter, wide));
        }
    }
    scatter.operands = updated.iter().copied().chain(blocks).collect();
    scatter.span = None;
    if let Some(dim) = sink.batch_dim {
        scatter.shape = block_shape(&scatter.shape, dim, sink.map.len(emitter.len));
    }
    let shapes: Option<Vec<ShapeRef>> = scatter.shape.as_tuple().map(<[ShapeRef]>::to_vec);
    let name = scatter.name.clone();
    let scattered = emitter.patch.add(emitter.target, scatter);
    emitter.patch.set_origin(scattered, sink.inst);
    let Some(shapes) = shapes else { return vec![scattered] };
    let element = |(index, shape)| {
        let mut element = Instruction::new(name.clone(), shape, Opcode::GetTupleElement, [scattered])
            .with(Attribute::int(AttrKey::Index, index as i64));
        element.attributes.extend(emitter.metadata.clone());
        emitter.patch.add(emitter.target, element)
    };
    shapes.into_iter().enumerate().map(element).collect()
}

/// The sums of a loop after the block.
fn loop_sums(emitter: &mut Emitter<'_>, sink: &Sink) -> Vec<InstructionId> {
    let Some(row_loop) = sink.row_loop.clone() else { return Vec::new() };
    let looping = emitter.row_loop(&row_loop, 0, sink.map);
    let element = |at: usize| {
        let shape = emitter.module.instruction(row_loop.starts[at]).shape.clone();
        let name = format_smolstr!("{}.so_far", emitter.module.instruction(sink.inst).name);
        let element = Instruction::new(name, shape, Opcode::GetTupleElement, [looping]);
        add(emitter, element.with(Attribute::int(AttrKey::Index, at as i64)))
    };
    row_loop.sums().map(element).collect()
}

/// The rows of accumulator `at` that the block updates. No block before did, so where all start from one constant they are made of it, not read.
fn rows_of(emitter: &mut Emitter<'_>, sink: &Sink, dim: usize, at: usize, all: InstructionId) -> InstructionId {
    let whole = emitter.patch.instruction(emitter.module, all).shape.clone();
    let shape = block_shape(&whole, dim, sink.map.len(emitter.len));
    let sizes = shape.as_array().map(|array| array.dims.clone()).unwrap_or_default();
    let name = format_smolstr!("{}.rows", emitter.module.instruction(sink.inst).name);
    if let Some(value) = started_from(emitter, sink, at, &whole) {
        let value = emitter.patch.add(emitter.target, Instruction { span: None, ..value });
        let rows = Instruction::new(name, shape, Opcode::Broadcast, [value]);
        return add(emitter, rows.with(Attribute::ints(AttrKey::Dimensions, [])));
    }
    let starts = emitter.starts_at(sink.map, dim, sizes.len());
    let slice = Instruction::new(name, shape, Opcode::DynamicSlice, [all].into_iter().chain(starts));
    add(emitter, slice.with(Attribute::ints(AttrKey::DynamicSliceSizes, sizes)))
}

/// The constant that every element of accumulator `at`, of this shape, starts from.
fn started_from(emitter: &Emitter<'_>, sink: &Sink, at: usize, shape: &ShapeRef) -> Option<Instruction> {
    let start = emitter.module.instruction(*sink.outer_operands(emitter.module).get(at)?);
    let whole = !matches!(sink.sum, Sum::Inside(_)) && start.opcode == Opcode::Broadcast && start.shape == *shape;
    let value = emitter.module.instruction(*start.operands.first()?);
    (whole && value.opcode == Opcode::Constant && value.array()?.dims.is_empty()).then(|| value.clone())
}

/// The accumulator with its rows replaced.
fn put_back(
    emitter: &mut Emitter<'_>,
    sink: &Sink,
    dim: usize,
    all: InstructionId,
    rows: InstructionId,
) -> InstructionId {
    let shape = emitter.patch.instruction(emitter.module, all).shape.clone();
    let starts = emitter.starts_at(sink.map, dim, shape.as_array().map_or(0, hlo_ir::ArrayShape::rank));
    emitter.write(all, rows, starts)
}

fn add(emitter: &mut Emitter<'_>, mut inst: Instruction) -> InstructionId {
    inst.attributes.extend(emitter.metadata.clone());
    emitter.patch.add(emitter.target, inst)
}
