//! Rows taken from a table whose rows lie on several devices: each device takes those that it has, and the others count as zero.
//!
//! Source: `PartitionGatherTrivialSlicedOperandDimensions` (xla/service/spmd/gather_scatter_handler.cc).

use hlo_ir::dims::GatherDims;
use hlo_ir::{ElementType, Opcode};
use smol_str::SmolStr;

use super::partition::Partitioner;
use super::sharding::Sharding;
use crate::cpu::front::build::{dimensions, row_major, share};
use crate::cpu::front::cx::Id;
use crate::cpu::front::value::Scalar;

impl Partitioner<'_, '_> {
    /// The rows that this device has, zero for the others, to be added over devices. `rows` are the divided dimensions of the table.
    pub(super) fn own_rows(
        &mut self,
        old: Id,
        table: Id,
        indices: Id,
        sharding: &Sharding,
        rows: &[usize],
    ) -> Option<Id> {
        let dims = GatherDims::of(self.cx.inst(old))?;
        let (vector, offsets) = (dims.index_vector_dim, dims.offset_dims.to_vec());
        if rows.iter().any(|&row| !dims.start_index_map.contains(&(row as i64))) {
            return None;
        }
        let shape = self.cx.shape(indices).clone();
        let last: Vec<i64> = self.cx.dims(table).to_vec();
        let zero = self.cx.scalar_like(indices, 0.0);
        let most = self.cx.scalar_like(indices, (last[rows[0]] - 1) as f64);
        let within = self.cx.elementwise(indices, shape.clone(), Opcode::Clamp, &[zero, indices, most]);
        let first = self.first_row(indices);
        let low = self.cx.compare(within, within, first, "LT");
        let end = self.cx.binary(within, Opcode::Add, first, most);
        let high = self.cx.compare(within, within, end, "GT");
        let outside = self.cx.binary(within, Opcode::Or, low, high);
        let own = self.cx.binary(within, Opcode::Subtract, within, first);
        let gathered = self.mesh.share_of_shape(self.cx.shape(old), sharding)?;
        let local = self.like(old, gathered.clone(), &[table, own]);
        self.localize(old, local);
        let outside = if (vector as usize) < self.cx.rank(indices) { self.any(outside, vector) } else { outside };
        let batch = (0..self.cx.rank(local) as i64).filter(|dim| !offsets.contains(dim));
        let mask = share(self.cx.arr(local).with_element_type(ElementType::Pred));
        let mask = self.add(mask, Opcode::Broadcast, &[outside], vec![dimensions(batch)]);
        let nothing = self.cx.scalar_like(local, 0.0);
        Some(self.cx.elementwise(local, gathered, Opcode::Select, &[mask, nothing, local]))
    }

    /// The first row of this device, in the shape of the indices.
    fn first_row(&mut self, indices: Id) -> Id {
        let scalar = row_major(self.cx.element_type(indices), []);
        let device = self.add(row_major(ElementType::U32, []), Opcode::PartitionId, &[], Vec::new());
        let first = self.add(scalar, Opcode::Convert, &[device], Vec::new());
        let shape = self.cx.shape(indices).clone();
        self.add(shape, Opcode::Broadcast, &[first], vec![dimensions([])])
    }

    /// Whether any element along a dimension is true.
    fn any(&mut self, operand: Id, dim: i64) -> Id {
        let or = self.reducer(Opcode::Or, ElementType::Pred);
        let no = self.cx.constant(operand, ElementType::Pred, Scalar::of(ElementType::Pred, 0.0));
        self.cx.reduce(operand, operand, no, &[dim], or)
    }

    /// The sum over the devices that hold other parts.
    pub(super) fn summed_rows(&mut self, local: Id, axes: &[SmolStr]) -> Id {
        let sum = self.reducer(Opcode::Add, self.cx.element_type(local));
        self.all_reduced(local, sum, axes)
    }
}
