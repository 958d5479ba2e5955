//! Shardings that the program leaves open: taken over from neighbours, data movement first, until nothing changes.
//!
//! Source: Shardy's propagation (shardy/dialect/sdy/transforms/propagation): basic propagation over factors, with the priority of
//! operations that only pass data on. Conflicts are settled by the order in which instructions are met.

use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, Opcode};
use smol_str::SmolStr;

use super::factors::{self, Factor};
use super::sharding::{self, Sharding};
use crate::cpu::front::cx::{Cx, Id};
use crate::cpu::graph::Rare;

/// What is known of the arrays of the entry computation.
pub(super) struct Shardings {
    of: SideTable<Id, Option<Sharding>>,
    /// Whether anything is known of an array, once more: sweeps ask, and the answer is nearly always no.
    known: SideTable<Id, bool>,
    /// Stated by the program: not to be changed.
    closed: SideTable<Id, bool>,
    /// Whether anything is known of any array.
    any: bool,
}

impl Shardings {
    /// Reads what the program states about a computation and propagates it. `None` if a statement is not understood.
    pub(super) fn of(cx: &Cx<'_>, computation: ComputationId) -> Option<Self> {
        let mut found =
            Self { of: SideTable::new(None), known: SideTable::new(false), closed: SideTable::new(false), any: false };
        let order = cx.post_order(computation);
        for &id in order.iter() {
            found.state(cx, id)?;
        }
        if !found.any {
            return Some(found);
        }
        // Found when a neighbour of the instruction is known to be divided: most never are.
        let mut known: Vec<Option<Vec<Factor>>> = vec![None; order.len()];
        for only_moves in [true, false] {
            let is_chosen = |&at: &usize| !only_moves || factors::passes_through(cx.opcode(order[at]));
            let chosen: Vec<usize> = (0..order.len()).filter(is_chosen).collect();
            for _ in 0..MOST_ROUNDS {
                let mut changed = false;
                for at in chosen.iter().copied().chain(chosen.iter().rev().copied()) {
                    if found.is_known_around(cx, order[at]) {
                        let factors = known[at].get_or_insert_with(|| factors::of(cx, order[at]));
                        changed |= found.spread(cx, order[at], factors);
                    }
                }
                if !changed {
                    break;
                }
            }
        }
        Some(found)
    }

    /// Whether anything is known of an instruction or its operands.
    fn is_known_around(&self, cx: &Cx<'_>, id: Id) -> bool {
        self.known[id] || cx.operands(id).iter().any(|&operand| self.known[operand])
    }

    /// The sharding of an array; whole if nothing divides it.
    pub(super) fn get(&self, cx: &Cx<'_>, id: Id) -> Sharding {
        self.of[id].clone().unwrap_or_else(|| Sharding::whole(cx.rank(id)))
    }

    /// What a custom call of Shardy, or an attribute, says about an instruction and its operands.
    fn state(&mut self, cx: &Cx<'_>, id: Id) -> Option<()> {
        let inst = cx.inst(id);
        match target(cx, id) {
            Some("xla.sdy.GlobalToLocalShape") => {
                let wanted = sharding::all_in(inst, "xla.sdy.in_shardings")?;
                for (&operand, wanted) in cx.operands(id).iter().zip(wanted) {
                    if self.of[operand].is_none() {
                        self.any = true;
                        self.note(operand, wanted);
                    }
                }
            }
            Some("xla.sdy.LocalToGlobalShape") => {
                let given = sharding::all_in(inst, "xla.sdy.out_shardings")?;
                if inst.array().is_some() {
                    self.close(id, given.into_iter().next()?);
                } else {
                    for user in cx.users(id) {
                        let index = cx.inst(user).int(&hlo_ir::AttrKey::Index)?;
                        self.close(user, given.get(usize::try_from(index).ok()?)?.clone());
                    }
                }
            }
            Some("xla.sdy.FuncResultSharding") => {
                let wanted = sharding::all_in(inst, "xla.sdy.sharding")?.into_iter().next()?;
                self.close(id, wanted);
            }
            _ if states_its_own(cx, id) && inst.array().is_some() => {
                self.close(id, Sharding::stated(inst)?);
            }
            _ => {}
        }
        Some(())
    }

    fn close(&mut self, id: Id, sharding: Sharding) {
        self.any = true;
        self.note(id, sharding);
        self.closed.set(id, true);
    }

    fn note(&mut self, id: Id, sharding: Sharding) {
        self.of.set(id, Some(sharding));
        self.known.set(id, true);
    }

    /// Lets the dimensions of each factor agree where they are open.
    fn spread(&mut self, cx: &Cx<'_>, id: Id, factors: &[Factor]) -> bool {
        let mut changed = false;
        for factor in factors {
            let places: Vec<(Id, usize)> = factor
                .operands
                .iter()
                .map(|&(operand, dim)| (cx.operand(id, operand), dim))
                .chain(factor.result.map(|dim| (id, dim)))
                .collect();
            let given = places.iter().find_map(|&(id, dim)| {
                let axes = self.of[id].as_ref()?.dims().get(dim)?;
                (!axes.is_empty()).then(|| axes.clone())
            });
            let Some(axes) = given else { continue };
            for (id, dim) in places {
                changed |= self.take_over(cx, id, dim, &axes);
            }
        }
        changed
    }

    fn take_over(&mut self, cx: &Cx<'_>, id: Id, dim: usize, axes: &[SmolStr]) -> bool {
        let mut dims = self.get(cx, id).dims().to_vec();
        let used = dims.iter().flatten().any(|axis| axes.contains(axis));
        if self.closed[id] || used || !dims.get(dim).is_some_and(Vec::is_empty) {
            return false;
        }
        dims[dim] = axes.to_vec();
        self.note(id, Sharding::of(dims));
        true
    }
}

/// Rounds after which propagation stops.
const MOST_ROUNDS: usize = 64;

/// Parameters and annotations state their shardings; on anything else an attribute is only a hint of an earlier propagation.
fn states_its_own(cx: &Cx<'_>, id: Id) -> bool {
    if !cx.may_have(id, Rare::Sharding) && !cx.may_have(id, Rare::Frontend) && cx.opcode(id) != Opcode::CustomCall {
        return false;
    }
    let says = Sharding::stated(cx.inst(id)).is_some();
    let annotated = cx.inst(id).raw(&hlo_ir::AttrKey::Sharding).is_some();
    (cx.opcode(id) == Opcode::Parameter && annotated) || target(cx, id) == Some("Sharding") || says
}

/// What a custom call calls.
pub(super) fn target<'c>(cx: &'c Cx<'_>, id: Id) -> Option<&'c str> {
    if cx.opcode(id) != Opcode::CustomCall {
        return None;
    }
    cx.inst(id).raw(&hlo_ir::AttrKey::CustomCallTarget).map(|target| target.trim_matches('"'))
}
