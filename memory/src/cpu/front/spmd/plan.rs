//! How one instruction is computed on shares: in which sharding it reads, what it gives, and what is still to be added over devices.
//!
//! Source: `SpmdPartitioningVisitor` (xla/service/spmd/spmd_partitioner.cc), `PartitionDot` (xla/service/spmd/dot_handler.cc).

use hlo_ir::Opcode;
use smol_str::SmolStr;

use super::factors::{Factor, Kind};
use super::sharding::Mesh;

/// Axes of each dimension.
pub(super) type Dims = Vec<Vec<SmolStr>>;

/// How an instruction is computed on shares.
pub(super) struct Plan {
    /// By operand.
    pub(super) wanted: Vec<Dims>,
    /// Of what is computed.
    pub(super) result: Dims,
    /// Axes over which parts are still to be added.
    pub(super) partial: Vec<SmolStr>,
    /// Dimensions of the first operand that those axes divide.
    pub(super) rows: Vec<usize>,
}

impl Plan {
    /// On whole arrays of these ranks.
    pub(super) fn whole(operands: Vec<usize>, result: usize) -> Self {
        let wanted = operands.into_iter().map(|rank| vec![Vec::new(); rank]).collect();
        Self { wanted, result: vec![Vec::new(); result], partial: Vec::new(), rows: Vec::new() }
    }

    fn want(&mut self, factor: &Factor, axes: &[SmolStr]) {
        for &(operand, dim) in &factor.operands {
            self.wanted[operand][dim] = axes.to_vec();
        }
    }
}

/// An instruction and the shardings around it.
pub(super) struct Planner<'a> {
    pub(super) opcode: Opcode,
    pub(super) mesh: &'a Mesh,
    pub(super) factors: &'a [Factor],
    /// By operand; `None` for what is made as it is wanted.
    pub(super) have: Vec<Option<Dims>>,
    pub(super) out: &'a [Vec<SmolStr>],
}

impl Planner<'_> {
    /// `None` if the partitioner may do something else.
    pub(super) fn plan(&self, mut plan: Plan) -> Option<Plan> {
        if !self.is_covered() {
            return None;
        }
        for factor in self.of_kind(Kind::Reduced) {
            let axes = self.reduced(factor)?;
            let is_even = factor.size % self.mesh.pieces(&axes)? == 0;
            if axes.iter().any(|axis| plan.partial.contains(axis)) || !is_even {
                return None;
            }
            if !axes.is_empty() {
                plan.rows.extend(factor.operands.iter().filter(|pair| pair.0 == 0).map(|pair| pair.1));
            }
            plan.want(factor, &axes);
            plan.partial.extend(axes);
        }
        for factor in self.of_kind(Kind::Along) {
            let Some(dim) = factor.result else { continue };
            let axes = if self.opcode == Opcode::Reduce { self.common(factor)? } else { self.out[dim].clone() };
            if axes.iter().any(|axis| plan.partial.contains(axis)) {
                continue;
            }
            if factor.size % self.mesh.pieces(&axes)? != 0 && self.opcode == Opcode::Reshape {
                return None;
            }
            plan.want(factor, &axes);
            plan.result[dim] = axes;
        }
        Some(plan)
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Factor> {
        self.factors.iter().filter(move |factor| factor.kind == kind)
    }

    fn held(&self, operand: usize, dim: usize) -> &[SmolStr] {
        self.have[operand].as_ref().map_or(&[], |dims| &dims[dim])
    }

    /// The axes by which all operands with a factor are divided that are divided along it. `None` if two differ.
    fn common(&self, factor: &Factor) -> Option<Vec<SmolStr>> {
        let mut all: &[SmolStr] = &[];
        for &(operand, dim) in &factor.operands {
            match self.held(operand, dim) {
                [] => {}
                axes if all.is_empty() => all = axes,
                axes if axes != all => return None,
                _ => {}
            }
        }
        Some(all.to_vec())
    }

    /// The axes over which parts of a sum are computed. Not those of an operand alone that divide another one along the result, as the result
    /// is: there the former is made whole.
    fn reduced(&self, factor: &Factor) -> Option<Vec<SmolStr>> {
        let axes = self.common(factor)?;
        let mut stays = false;
        for &(operand, dim) in factor.operands.iter().filter(|pair| self.held(pair.0, pair.1).is_empty()) {
            let Some(dims) = &self.have[operand] else { continue };
            let Some(other) = (0..dims.len()).find(|&other| dims[other].iter().any(|axis| axes.contains(axis))) else {
                continue;
            };
            debug_assert!(other != dim, "it is not divided along the factor");
            let result = self.factors.iter().find(|factor| factor.operands.contains(&(operand, other)))?.result?;
            if self.opcode != Opcode::Dot || dims[other] != axes || self.out[result] != axes {
                return None;
            }
            stays = true;
        }
        Some(if stays { Vec::new() } else { axes })
    }

    /// Whether every divided dimension belongs to a factor with which the partitioner does what this model does.
    fn is_covered(&self) -> bool {
        let divided =
            |dims: &[Vec<SmolStr>]| -> Vec<usize> { (0..dims.len()).filter(|&dim| !dims[dim].is_empty()).collect() };
        let made = |dim: usize| self.known().any(|factor| factor.result == Some(dim));
        let read = |operand: usize| {
            let dims = self.have[operand].as_deref().unwrap_or_default();
            divided(dims).into_iter().all(|dim| self.is_read(operand, dim))
        };
        divided(self.out).into_iter().all(made) && (0..self.have.len()).all(read)
    }

    fn known(&self) -> impl Iterator<Item = &Factor> {
        self.factors.iter().filter(|factor| matches!(factor.kind, Kind::Along | Kind::Reduced | Kind::Whole))
    }

    /// Whether it is known what becomes of a divided dimension of an operand: it is one of the result, or all parts of it are gathered.
    fn is_read(&self, operand: usize, dim: usize) -> bool {
        let gathers = self.opcode.is_elementwise()
            || matches!(self.opcode, Opcode::Reshape | Opcode::Broadcast | Opcode::Transpose | Opcode::Reduce);
        let elsewhere = || self.opcode == Opcode::Dot && self.out.iter().any(|axes| axes == self.held(operand, dim));
        self.known()
            .filter(|factor| factor.operands.contains(&(operand, dim)))
            .any(|factor| factor.result.is_none_or(|result| gathers || !self.out[result].is_empty() || elsewhere()))
    }
}
