//! Says of an index component that is the number of its own row that the row is a batch.
//!
//! Waste: none by itself. `x[jnp.arange(n), labels]` and its gradient look like reads and writes at arbitrary places of `x`, so nothing
//! around them can be computed on blocks of rows: a cross-entropy loss keeps all of its scores, and their gradient, at once.
//!
//! ```text
//! %n = s32[N,1] iota(), iota_dimension=0
//! %i = s32[N,2] concatenate(%n, %labels), dimensions={1}
//! ROOT %g = f32[N] gather(%x, %i), collapsed_slice_dims={0,1}, start_index_map={0,1}, ...
//!   =>
//! ROOT %g = f32[N] gather(%x, %labels), collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, ...
//! ```
//!
//! Every component is followed back to a counter, through the wrap of negative indices, clips and moves; it must be the row's number in every
//! row, and there must be as many rows as the operand has in that dimension.
//!
//! Sound because row `r` reads or updates row `r` of the operand in both forms, which is in bounds; the other components keep their meaning,
//! and updates of one element, all of one row, keep their order. XLA:CPU writes batches as such components itself. Grade: bitwise.
//!
//! In the default pipeline it is done only where a rewrite then gains.
//!
//! Stays away from scheduled modules, dynamic shapes, indices with a single component, and small arrays.

// Tests: `passes/tests/row_index.rs`.

use hlo_ir::edit::Patch;
use hlo_ir::shape::Dims;
use hlo_ir::{
    AttrKey, AttrValue, Attribute, Instruction, InstructionId, Module, Opcode, ScatterDims, Shape, attribute::SliceDim,
};
use hlo_memory::{Bytes, size};

use crate::direct_index::row_number;
use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind};

/// The pass; see the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowIndex;

impl Pass for RowIndex {
    fn name(&self) -> &'static str {
        "row-index"
    }
    fn summary(&self) -> &'static str {
        "make a batch of rows of an index component that is the row's own number"
    }
    crate::explanation!("row_index.rs");
    fn kind(&self) -> PassKind {
        PassKind::CleanUp
    }
    fn accompanies(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        if module.is_scheduled() {
            return Vec::new();
        }
        let large = |&id: &InstructionId| bytes(module, id) >= context.options.min_saving.max(Bytes(1));
        let sinks = module.live_instructions().map(|(id, _)| id).filter(large);
        let batched: Vec<Batched> = sinks.filter_map(|id| Batched::of(module, id)).collect();
        finding(module, &batched).into_iter().collect()
    }
}

/// Bytes of the array that is read or updated.
fn bytes(module: &Module, id: InstructionId) -> Bytes {
    let operand = module.instruction(id).operands.first();
    operand.and_then(|&operand| size::shape_size(module.shape(operand))).unwrap_or_default()
}

/// One change for all of them: what reads rows is of use only together with what writes them.
fn finding(module: &Module, batched: &[Batched]) -> Option<Finding> {
    let instruction = batched.iter().max_by_key(|one| (bytes(module, one.id), std::cmp::Reverse(one.id)))?.id;
    let mut patch = Patch::new(module);
    for one in batched {
        let new = one.rewritten(module, &mut patch);
        patch.rewrite(one.id, new);
    }
    let text = "the component is the number of its row, and every row of the array has one".to_owned();
    let conditions = vec![Condition { text, discharged_by: "structure" }];
    let note = format!(
        "{} with a batch of rows instead of a component that counts them",
        match batched.len() {
            1 => "an index".to_owned(),
            count => format!("{count} indices"),
        }
    );
    let outcome = Outcome::Rewrite { patch, note, conditions };
    Some(Finding { instruction, grade: Grade::Bitwise, wasted: bytes(module, instruction), outcome })
}

/// Attributes of a scatter or gather by what they mean.
struct Keys {
    map: AttrKey,
    gone: AttrKey,
    operand_batch: AttrKey,
    index_batch: AttrKey,
}

const SCATTER: Keys = Keys {
    map: AttrKey::ScatterDimsToOperandDims,
    gone: AttrKey::InsertedWindowDims,
    operand_batch: AttrKey::InputBatchingDims,
    index_batch: AttrKey::ScatterIndicesBatchingDims,
};
const GATHER: Keys = Keys {
    map: AttrKey::StartIndexMap,
    gone: AttrKey::CollapsedSliceDims,
    operand_batch: AttrKey::OperandBatchingDims,
    index_batch: AttrKey::StartIndicesBatchingDims,
};

/// A scatter or gather of which one component counts rows.
struct Batched {
    id: InstructionId,
    keys: &'static Keys,
    /// Position of the indices among the operands.
    operand: usize,
    component: usize,
    /// The batched dimension of the array, and that of the indices.
    dims: (i64, i64),
}

impl Batched {
    fn of(module: &Module, id: InstructionId) -> Option<Self> {
        let inst = module.instruction(id);
        let (keys, operand) = match inst.opcode {
            Opcode::Scatter => (&SCATTER, ScatterDims::input_count(inst.operands.len())),
            Opcode::Gather => (&GATHER, 1),
            _ => return None,
        };
        let indices = *inst.operands.get(operand)?;
        let (target, index) = (module.instruction(inst.operands[0]).array()?, module.instruction(indices).array()?);
        let vector_dim = usize::try_from(inst.int(&AttrKey::IndexVectorDim)?).ok()?;
        let map = inst.ints(&keys.map);
        if target.is_dynamic() || index.is_dynamic() || map.len() < 2 || vector_dim >= index.rank() {
            return None;
        }
        (0..map.len()).find_map(|component| {
            let to = map[component];
            if !inst.ints(&keys.gone).contains(&to) {
                return None;
            }
            let row = row_number(module, indices, vector_dim, component)?;
            let from = (0..index.rank()).filter(|&dim| dim != vector_dim).nth(row)?;
            let fits = target.dims.get(usize::try_from(to).ok()?) == index.dims.get(from);
            let free = !inst.ints(&keys.index_batch).contains(&(from as i64));
            (fits && free).then_some(Self { id, keys, operand, component, dims: (to, from as i64) })
        })
    }

    fn rewritten(&self, module: &Module, patch: &mut Patch) -> Instruction {
        let mut inst = module.instruction(self.id).clone();
        let Keys { map, gone, operand_batch, index_batch } = self.keys;
        let vector_dim = inst.int(&AttrKey::IndexVectorDim).unwrap_or_default() as usize;
        inst.operands[self.operand] = self.other_components(module, patch, inst.operands[self.operand], vector_dim);
        let (to, from) = self.dims;
        let others: Dims = inst.ints(map).iter().copied().filter(|&dim| dim != to).collect();
        inst.set_attribute(map.clone(), AttrValue::ints(others));
        let left: Dims = inst.ints(gone).iter().copied().filter(|&dim| dim != to).collect();
        inst.set_attribute(gone.clone(), AttrValue::ints(left));
        let pairs = inst.ints(operand_batch).iter().copied().zip(inst.ints(index_batch).iter().copied());
        // The dimensions of the array must ascend.
        let mut pairs: Vec<(i64, i64)> = pairs.chain([(to, from)]).collect();
        pairs.sort_unstable();
        inst.set_attribute(operand_batch.clone(), AttrValue::ints(pairs.iter().map(|pair| pair.0).collect::<Dims>()));
        inst.set_attribute(index_batch.clone(), AttrValue::ints(pairs.iter().map(|pair| pair.1).collect::<Dims>()));
        // The promise was about all components together.
        if inst.flag(&AttrKey::IndicesAreSorted) {
            inst.set_attribute(AttrKey::IndicesAreSorted, AttrValue::Bool(false));
        }
        inst
    }

    /// The index without the component.
    fn other_components(
        &self,
        module: &Module,
        patch: &mut Patch,
        index: InstructionId,
        vector_dim: usize,
    ) -> InstructionId {
        let pieces = joined(module, index, vector_dim, self.component)
            .unwrap_or_else(|| self.slices(module, patch, index, vector_dim));
        if let [only] = pieces[..] {
            return only;
        }
        let count = module.instruction(index).array().map_or(0, |array| array.dims[vector_dim] - 1);
        let dimensions = Attribute::ints(AttrKey::Dimensions, [vector_dim as i64]);
        let new = part(module, index, vector_dim, count, (Opcode::Concatenate, pieces, dimensions));
        patch.add(module.instruction(index).parent, new)
    }

    /// The components before and behind this one.
    fn slices(
        &self,
        module: &Module,
        patch: &mut Patch,
        index: InstructionId,
        vector_dim: usize,
    ) -> Vec<InstructionId> {
        let Some(array) = module.instruction(index).array() else { return Vec::new() };
        let component = self.component as i64;
        let ranges = [(0, component), (component + 1, array.dims[vector_dim])];
        let slice = |(start, limit): (i64, i64)| {
            let bound = |dim| {
                let (start, limit) = if dim == vector_dim { (start, limit) } else { (0, array.dims[dim]) };
                SliceDim { start, limit, stride: 1 }
            };
            let bounds = (0..array.rank()).map(bound).collect();
            let bounds = Attribute::new(AttrKey::Slice, AttrValue::Slice(bounds));
            let new = part(module, index, vector_dim, limit - start, (Opcode::Slice, vec![index], bounds));
            patch.add(module.instruction(index).parent, new)
        };
        ranges.into_iter().filter(|(start, limit)| start < limit).map(slice).collect()
    }
}

/// An instruction named and placed like the index, with `count` components.
fn part(
    module: &Module,
    index: InstructionId,
    vector_dim: usize,
    count: i64,
    (opcode, operands, attribute): (Opcode, Vec<InstructionId>, Attribute),
) -> Instruction {
    let inst = module.instruction(index);
    let array = inst.array().expect("indices are arrays").with_dim(vector_dim, count);
    let mut new = Instruction::new(inst.name.clone(), Shape::Array(array).into(), opcode, operands).with(attribute);
    new.attributes.extend(inst.attributes.iter().find(|attribute| attribute.key == AttrKey::Metadata).cloned());
    new
}

/// The operands of a concatenation of components without the one that is component `component` alone.
fn joined(module: &Module, index: InstructionId, vector_dim: usize, component: usize) -> Option<Vec<InstructionId>> {
    let inst = module.instruction(index);
    if inst.opcode != Opcode::Concatenate || inst.ints(&AttrKey::Dimensions) != [vector_dim as i64] {
        return None;
    }
    let mut start = 0;
    let mut left = Vec::new();
    for &operand in &inst.operands {
        let count = *module.instruction(operand).array()?.dims.get(vector_dim)?;
        match (start == component as i64, count) {
            (true, 1) => {}
            _ => left.push(operand),
        }
        start += count;
    }
    (left.len() < inst.operands.len()).then_some(left)
}
