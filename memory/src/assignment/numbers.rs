//! The numbers that XLA's dumps print before the names of values.
//!
//! Values are numbered computation by computation, also inside fusions; phis follow in the order of their creation.
//!
//! Source: `HloDataflowAnalysis::InitializeInstructionValueSets` (xla/hlo/analysis/hlo_dataflow_analysis.cc).

use hlo_ir::{Instruction, Shape};

use super::Assignment;
use super::classes::Class;
use super::propagate::defines;
use super::values::ValueId;

/// The number of every value.
pub(super) struct Numbers {
    by_place: Vec<u64>,
    phis: u64,
}

impl Numbers {
    /// Counts all values of a module.
    pub(super) fn of(assignment: &Assignment<'_>) -> Self {
        let flow = &assignment.flow;
        let mut by_place = vec![0; flow.places.len()];
        let mut next = 0;
        for &computation in flow.module.computation_ids() {
            match flow.classes.class(computation) {
                Class::Unreachable => {}
                Class::Fused => {
                    let inside = flow.module.instructions_of(computation);
                    next += inside.map(|(_, inst)| defined(inst, &inst.shape, &mut Vec::new())).sum::<u64>();
                }
                Class::Global | Class::ThreadLocal => {
                    let embedded = flow.classes.caller(computation).is_none();
                    for &id in flow.places.post_order(computation) {
                        let inst = flow.module.instruction(id);
                        for place in flow.places.of_instruction(id) {
                            by_place[place.index()] = next;
                            let index = flow.places.tuple_index(place);
                            next += u64::from(defines(inst, embedded, flow.places.shape(place), &index));
                        }
                    }
                }
            }
        }
        Self { by_place, phis: next }
    }
    /// The number of a value.
    pub(super) fn get(&self, value: ValueId) -> u64 {
        let phi = value.index().checked_sub(self.by_place.len());
        phi.map_or_else(|| self.by_place[value.index()], |phi| self.phis + phi as u64)
    }
}

/// How many values an instruction of a fusion defines.
fn defined(inst: &Instruction, shape: &Shape, index: &mut Vec<i64>) -> u64 {
    let mut count = u64::from(defines(inst, true, shape, index));
    if let Shape::Tuple(elements) = shape {
        for (k, element) in (0_i64..).zip(elements) {
            index.push(k);
            count += defined(inst, element, index);
            index.pop();
        }
    }
    count
}
