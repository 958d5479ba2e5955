//! Builds the part that a device computes: the clamped start, slices of what stands in memory, and the instructions on fewer rows.

use std::collections::BTreeMap;

use hlo_ir::arena::SideTable;
use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::{AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape};

use super::Own;
use super::plan::Plan;
use crate::flow::{OperandFlow, Rows, block_shape, restrict};

/// Which values of a computation follow from the number of the device, as far as that computation shows.
pub(super) fn depends_on_device(module: &Module, computation: ComputationId) -> SideTable<InstructionId, bool> {
    let mut depends = SideTable::new(false);
    for (id, inst) in module.instructions_of(computation) {
        let is_number = matches!(inst.opcode, Opcode::PartitionId | Opcode::ReplicaId);
        depends.set(id, is_number || inst.operands.iter().any(|&operand| depends[operand]));
    }
    depends
}

/// Every slice computed by itself; `None` if a start cannot be written in its own type.
pub(super) fn patch(module: &Module, plan: &Plan, own: &[Own]) -> Option<Patch> {
    let mut patch = Patch::new(module);
    for &own in own {
        let slice = module.instruction(own.slice);
        let start = slice.operands[1 + own.dim];
        let element = module.instruction(start).array()?.element_type;
        if !matches!(element, ElementType::S32 | ElementType::S64 | ElementType::U32 | ElementType::U64)
            || !plan.fits(module, i64::from(i32::MAX))
        {
            return None;
        }
        let mut builder = Builder { module, plan, patch: &mut patch, own, element, start, done: BTreeMap::new() };
        builder.start = builder.clamped();
        let (&value, part) = plan.computed.first()?;
        let new = builder.rows_of(value, part.dim, part.rows);
        patch.replace(own.slice, new);
        patch.stems_from(new, value);
    }
    Some(patch)
}

impl Plan {
    /// Whether no dimension that is cut has more rows than this.
    fn fits(&self, module: &Module, most: i64) -> bool {
        let operands = self.computed.iter().flat_map(|(&id, part)| {
            let inst = module.instruction(id);
            let read = inst.operands.iter().zip(&part.reads).filter_map(|(&operand, read)| match *read {
                OperandFlow::Block { dim, .. } => Some((operand, dim)),
                OperandFlow::Whole => None,
            });
            read.chain([(id, part.dim)])
        });
        let mut extents = operands.filter_map(|(id, dim)| module.instruction(id).array().map(|array| array.dims[dim]));
        extents.all(|extent| extent <= most)
    }
}

struct Builder<'a> {
    module: &'a Module,
    plan: &'a Plan,
    patch: &'a mut Patch,
    own: Own,
    /// Type of the start.
    element: ElementType,
    /// First row of the slice, inside the value.
    start: InstructionId,
    /// What is built: rows of a value along a dimension.
    done: BTreeMap<(InstructionId, usize, Rows), InstructionId>,
}

impl Builder<'_> {
    /// The start where `dynamic-slice` would move it.
    fn clamped(&mut self) -> InstructionId {
        let slice = self.module.instruction(self.own.slice);
        let extent = self.module.instruction(slice.operands[0]).array().map_or(0, |array| array.dims[self.own.dim]);
        let (least, most) = (self.constant(0), self.constant(extent - self.own.rows));
        self.scalar(Opcode::Clamp, &[least, self.start, most])
    }

    /// The rows of a value that belong to the slice; recursion is as deep as the region, which is bounded by its computation.
    fn rows_of(&mut self, value: InstructionId, dim: usize, rows: Rows) -> InstructionId {
        let mut stack = vec![(value, dim, rows, false)];
        while let Some((id, dim, rows, ready)) = stack.pop() {
            if self.done.contains_key(&(id, dim, rows)) {
                continue;
            }
            let Some(part) = self.plan.computed.get(&id) else {
                let read = self.read(id, dim, rows);
                self.done.insert((id, dim, rows), read);
                continue;
            };
            let operands: Vec<_> = self.module.instruction(id).operands.iter().copied().zip(&part.reads).collect();
            let wanted = operands.iter().map(|&(operand, read)| match *read {
                OperandFlow::Block { dim, step } => {
                    (operand, Some((dim, rows.then(step).expect("the plan follows such steps only"))))
                }
                OperandFlow::Whole => (operand, None),
            });
            let wanted: Vec<_> = wanted.collect();
            if ready {
                let operands = wanted.iter().map(|&(operand, part)| match part {
                    Some((dim, rows)) => self.done[&(operand, dim, rows)],
                    None => operand,
                });
                let inst = restrict(self.module.instruction(id), dim, rows.len(self.own.rows), operands.collect());
                let new = self.patch.add(inst.parent, inst);
                self.patch.stems_from(new, id);
                self.done.insert((id, dim, rows), new);
            } else {
                stack.push((id, dim, rows, true));
                stack.extend(
                    wanted
                        .iter()
                        .rev()
                        .filter_map(|&(operand, part)| part.map(|(dim, rows)| (operand, dim, rows, false))),
                );
            }
        }
        self.done[&(value, dim, rows)]
    }

    /// A slice of a value that stands in memory.
    fn read(&mut self, id: InstructionId, dim: usize, rows: Rows) -> InstructionId {
        let inst = self.module.instruction(id);
        let shape = block_shape(&inst.shape, dim, rows.len(self.own.rows));
        let dims: Vec<i64> = shape.as_array().map_or_else(Vec::new, |array| array.dims.to_vec());
        let (moving, zero) = (self.start_of(rows), self.constant(0));
        let starts = (0..dims.len()).map(|other| if other == dim { moving } else { zero });
        let operands = [id].into_iter().chain(starts);
        let mut read = Instruction::new(format!("{}.own", inst.name), shape, Opcode::DynamicSlice, operands)
            .with(Attribute::ints(AttrKey::DynamicSliceSizes, dims));
        read.attributes.extend(self.metadata());
        self.patch.add(inst.parent, read)
    }

    /// First of the rows that belong to the slice.
    fn start_of(&mut self, rows: Rows) -> InstructionId {
        let (scale, offset) = (rows.len(1), rows.start(0, 1));
        let mut start = self.start;
        if scale != 1 {
            let scale = self.constant(scale);
            start = self.scalar(Opcode::Multiply, &[start, scale]);
        }
        if offset != 0 {
            let offset = self.constant(offset);
            start = self.scalar(Opcode::Add, &[start, offset]);
        }
        start
    }

    fn scalar(&mut self, opcode: Opcode, operands: &[InstructionId]) -> InstructionId {
        let mut inst = Instruction::new("own_start", Shape::array(self.element, []), opcode, operands.iter().copied());
        inst.attributes.extend(self.metadata());
        self.patch.add(self.module.instruction(self.own.slice).parent, inst)
    }

    fn constant(&mut self, value: i64) -> InstructionId {
        let constant = Instruction::new("own_constant", Shape::array(self.element, []), Opcode::Constant, []);
        let constant = constant.with_payload(Payload::Literal(value.to_string().into()));
        self.patch.add(self.module.instruction(self.own.slice).parent, constant)
    }

    /// The slice's, for instructions without a counterpart in the original.
    fn metadata(&self) -> Option<Attribute> {
        let attributes = &self.module.instruction(self.own.slice).attributes;
        attributes.iter().find(|attribute| attribute.key == AttrKey::Metadata).cloned()
    }
}
