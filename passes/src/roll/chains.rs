//! Chains of one operation that join many values, such as the sum that a loop accumulates.

use hlo_ir::arena::SideTable;
use hlo_ir::graph::Users;
use hlo_ir::{ComputationId, InstructionId, Module, Opcode};

use super::sequence::neutral;

/// Operations with a neutral element.
const JOINING: [Opcode; 7] =
    [Opcode::Add, Opcode::Multiply, Opcode::Maximum, Opcode::Minimum, Opcode::And, Opcode::Or, Opcode::Xor];

/// One link: the operation on what came before and one more value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link {
    /// The operation.
    pub(super) id: InstructionId,
    /// What the chain held before.
    pub(super) before: InstructionId,
    /// What is joined to it.
    pub(super) value: InstructionId,
    /// Operand place of `before`.
    pub(super) place: usize,
}

/// Links in a row; the value of each but the last is used by the next only.
pub(super) type Chain = Vec<Link>;

/// Every chain of a computation.
#[derive(Clone, Debug)]
pub(super) struct Chains {
    pub(super) all: Vec<Chain>,
    /// Chain and position of every link.
    place: SideTable<InstructionId, Option<(usize, usize)>>,
}

/// A part of a chain that joins the same number of values of every copy, copy by copy.
#[derive(Clone, Debug)]
pub(super) struct Accumulation {
    pub(super) opcode: Opcode,
    /// What the first value is joined to; `None` if the chain begins with that value.
    pub(super) start: Option<InstructionId>,
    /// Operand place of what was joined so far.
    pub(super) place: usize,
    /// The values of each copy, in the order in which they are joined.
    pub(super) values: Vec<Vec<InstructionId>>,
    /// The links inside, the last of which is the result.
    pub(super) links: Vec<InstructionId>,
}

impl Chains {
    /// `cones` tells values that are computed alike.
    pub(super) fn new(
        module: &Module,
        users: &Users,
        computation: ComputationId,
        cones: &SideTable<InstructionId, u64>,
    ) -> Self {
        let mut all: Vec<Chain> = Vec::new();
        let mut place = SideTable::new(None);
        for (id, inst) in module.instructions_of(computation) {
            if !JOINING.contains(&inst.opcode) || inst.operands.len() != 2 || !inst.control_predecessors().is_empty() {
                continue;
            }
            let [left, right] = [inst.operands[0], inst.operands[1]];
            let open = |before: InstructionId| -> Option<(usize, usize)> {
                let (chain, at): (usize, usize) = place[before]?;
                let free =
                    users.get(before).len() == 1 && left != right && module.computation(computation).root != before;
                let last = all[chain].len() == at + 1 && module.instruction(before).opcode == inst.opcode;
                let same = module.shape(before) == module.shape(id);
                // A sum that is computed like what is joined to it is the first value of a new chain.
                let first = cones[left] == cones[right];
                (free && last && same && !first).then_some((chain, at))
            };
            let (found, place_of_before) = match (open(left), open(right)) {
                (Some(found), _) => (Some(found), 0),
                (None, Some(found)) => (Some(found), 1),
                (None, None) => (None, 0),
            };
            let (before, value) = if place_of_before == 0 { (left, right) } else { (right, left) };
            let link = Link { id, before, value, place: place_of_before };
            let chain = found.map_or(all.len(), |(chain, _)| chain);
            if chain == all.len() {
                all.push(Vec::new());
            }
            place.set(id, Some((chain, all[chain].len())));
            all[chain].push(link);
        }
        for chain in &mut all {
            straighten(chain);
        }
        Self { all, place }
    }

    /// Chain and position of a link.
    pub(super) fn position(&self, id: InstructionId) -> Option<(usize, usize)> {
        self.place[id]
    }

    /// The parts of chains that join these values, one of each copy, after equal numbers of links.
    pub(super) fn joining(&self, module: &Module, users: &Users, values: &[InstructionId]) -> Vec<Accumulation> {
        let link = |user: &InstructionId| self.position(*user);
        let mut found = Vec::new();
        for (chain, second) in users.get(values[1]).iter().filter_map(link) {
            let joined = joined_values(&self.all[chain]);
            let first = users.get(values[0]).iter().filter_map(link).filter(|&(other, _)| other == chain);
            let first = first.map(|(_, at)| at + 1).find(|&at| joined[at] == values[0]);
            let first = first.or_else(|| (joined[0] == values[0]).then_some(0));
            let Some((first, period)) = first.and_then(|first| Some((first, (second + 1).checked_sub(first)?))) else {
                continue;
            };
            found.extend(self.accumulation(module, chain, first, period, values));
        }
        found
    }

    /// `first`: place of the first value among all values that the chain joins; `period`: values of each copy.
    fn accumulation(
        &self,
        module: &Module,
        chain: usize,
        first: usize,
        period: usize,
        values: &[InstructionId],
    ) -> Option<Accumulation> {
        let chain = &self.all[chain];
        let joined = joined_values(chain);
        let joined = joined.get(first..first + period * values.len()).filter(|_| period > 0)?;
        let copies: Vec<&[InstructionId]> = joined.chunks(period).collect();
        if copies.iter().zip(values).any(|(copy, &value)| copy[0] != value) {
            return None;
        }
        let links = &chain[first.saturating_sub(1)..first + joined.len() - 1];
        let (opcode, place) = (module.instruction(links[0].id).opcode, links[0].place);
        if links.iter().any(|link| link.place != place) {
            return None;
        }
        let start = (first > 0).then(|| links[0].before);
        if start.is_none() {
            neutral(opcode, module.instruction(links[0].id).array()?.element_type)?;
        }
        let values = copies.into_iter().map(<[InstructionId]>::to_vec).collect();
        Some(Accumulation { opcode, start, place, values, links: links.iter().map(|link| link.id).collect() })
    }
}

/// Everything that a chain joins, in order: what it begins with, then the value of each link.
pub(super) fn joined_values(chain: &Chain) -> Vec<InstructionId> {
    chain.first().map(|link| link.before).into_iter().chain(chain.iter().map(|link| link.value)).collect()
}

/// Either operand of the first link can be what came before; the other links tell which.
fn straighten(chain: &mut Chain) {
    if let [first, second, ..] = chain.as_mut_slice()
        && second.place == 1
    {
        (first.before, first.value, first.place) = (first.value, first.before, 1);
    }
}
