//! The numbers that XLA's dumps print before the names of values.
//!
//! Values are numbered computation by computation, also inside fusions; phis follow in the order of their creation.
//!
//! Source: `HloDataflowAnalysis::InitializeInstructionValueSets` (xla/hlo/analysis/hlo_dataflow_analysis.cc).

use std::collections::BTreeMap;

use hlo_ir::{ComputationId, Instruction, Shape};

use super::Assignment;
use super::classes::Class;
use super::propagate::defines;
use super::values::ValueId;

/// The number of every value.
pub(super) struct Numbers {
    by_place: Vec<u64>,
    phis: u64,
    given: BTreeMap<ValueId, u64>,
}

impl Numbers {
    /// Counts all values of a module.
    pub(super) fn of(assignment: &Assignment<'_>) -> Self {
        let flow = &assignment.flow;
        let mut by_place = vec![0; flow.places.len()];
        let mut next = 0;
        let classes = &flow.classes;
        let computations = flow.module.computation_ids().iter().copied();
        // Applied computations are there before fusions are made, and XLA's order of computations is that of their making as far as callees
        // come first; the text is in another order.
        let applied = |id: &ComputationId| classes.class(*id) == Class::ThreadLocal;
        let order = computations.clone().filter(applied).chain(computations.filter(|id| !applied(id)));
        for computation in order {
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
        let given = assignment.given.as_ref().map(|given| given.numbers.clone()).unwrap_or_default();
        Self { by_place, phis: next, given }
    }
    /// The number of a value.
    pub(super) fn get(&self, value: ValueId) -> u64 {
        if let Some(&number) = self.given.get(&value) {
            return number;
        }
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
