//! Builds the part that a device computes: the clamped start, slices of what stands in memory, and the instructions on fewer rows.

use std::collections::BTreeMap;

use hlo_ir::arena::SideTable;
use hlo_ir::edit::Patch;
use hlo_ir::{ComputationId, ElementType, InstructionId, Module, Opcode};

use super::Own;
use super::plan::Plan;
use crate::flow::{OperandFlow, Rows, restrict};
use crate::recompute::emit::Emit;
use crate::recompute::insertion_point::InsertionPoint;

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
        let point = InsertionPoint::new(module.instruction(own.slice).parent, element, "own_start");
        let mut builder = Builder {
            module,
            plan,
            patch: &mut patch,
            own,
            point: point.like(module.instruction(own.slice)),
            start,
            emitted: BTreeMap::new(),
        };
        builder.start = builder.clamped();
        let (&value, part) = plan.computed.first()?;
        let new = builder.emit((value, part.dim, part.rows))?;
        patch.replace(own.slice, new);
        patch.set_origin(new, value);
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
    point: InsertionPoint,
    /// First row of the slice, inside the value.
    start: InstructionId,
    emitted: BTreeMap<Wanted, InstructionId>,
}

/// Rows of a value along a dimension.
type Wanted = (InstructionId, usize, Rows);

impl Emit for Builder<'_> {
    type Key = Wanted;

    fn emitted(&mut self) -> &mut BTreeMap<Wanted, InstructionId> {
        &mut self.emitted
    }

    fn needs(&self, (id, _, rows): Wanted) -> Option<Vec<Wanted>> {
        let Some(part) = self.plan.computed.get(&id) else { return Some(Vec::new()) };
        let operands = self.module.instruction(id).operands.iter().zip(&part.reads);
        let parts = operands.filter_map(|(&operand, read)| match *read {
            OperandFlow::Block { dim, step } => Some(rows.then(step).map(|rows| (operand, dim, rows))),
            OperandFlow::Whole => None,
        });
        parts.collect()
    }

    fn emit_one(&mut self, (id, dim, rows): Wanted, operands: &[InstructionId]) -> Option<InstructionId> {
        let Some(part) = self.plan.computed.get(&id) else { return self.read(id, dim, rows) };
        let inst = self.module.instruction(id);
        let mut parts = operands.iter().copied();
        let operands = inst.operands.iter().zip(&part.reads).map(|(&operand, read)| match read {
            OperandFlow::Block { .. } => parts.next(),
            OperandFlow::Whole => Some(operand),
        });
        let operands = operands.collect::<Option<_>>()?;
        let new = self.patch.add(inst.parent, restrict(inst, dim, rows.len(self.own.rows), operands));
        self.patch.set_origin(new, id);
        Some(new)
    }
}

impl Builder<'_> {
    /// The start where `dynamic-slice` would move it.
    fn clamped(&mut self) -> InstructionId {
        let slice = self.module.instruction(self.own.slice);
        let extent = self.module.instruction(slice.operands[0]).array().map_or(0, |array| array.dims[self.own.dim]);
        self.point.clamped(self.patch, self.start, extent - self.own.rows)
    }

    /// A slice of a value that stands in memory.
    fn read(&mut self, id: InstructionId, dim: usize, rows: Rows) -> Option<InstructionId> {
        let inst = self.module.instruction(id);
        let (name, array) = (format!("{}.own", inst.name), (id, inst.array()?));
        let first = self.start_of(rows);
        Some(self.point.rows(self.patch, &name, array, (dim, first, rows.len(self.own.rows))))
    }

    /// First of the rows that belong to the slice.
    fn start_of(&mut self, rows: Rows) -> InstructionId {
        let (scale, offset) = (rows.len(1), rows.start(0, 1));
        let mut start = self.start;
        for (opcode, by, nothing) in [(Opcode::Multiply, scale, 1), (Opcode::Add, offset, 0)] {
            if by != nothing {
                let by = self.point.constant(self.patch, by);
                start = self.point.scalar(self.patch, opcode, [start, by]);
            }
        }
        start
    }
}
