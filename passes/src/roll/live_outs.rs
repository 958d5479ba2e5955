//! What becomes of the values of the copies outside of them: joined in a chain, stacked, only the last one used, or each one used.

use crate::hash::IndexSet;
use hlo_ir::arena::SideTable;
use hlo_ir::{InstructionId, Module, Opcode};
use hlo_memory::Bytes;

use super::bytes;
use super::chains::{Accumulation, Chains};
use super::isomorphism::Isomorphism;
use super::lockstep::{Column, Copies, Role, is_cheap};
use crate::{Context, Reason};

/// The values of a column next to each other in a `concatenate`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub(super) column: usize,
    /// The `concatenate`.
    pub(super) result: InstructionId,
    /// Operand place of the first of them.
    pub(super) at: usize,
    /// Whether the last copy's value comes first.
    pub(super) reversed: bool,
}

/// Values of a column that are used one by one.
#[derive(Clone, Debug)]
pub(super) struct UsedCopies {
    pub(super) column: usize,
    /// Copies whose value is used.
    pub(super) copies: Vec<usize>,
    /// Whether something else than the result of the computation uses them.
    pub(super) residual: bool,
}

/// Where the values of the copies go.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveOuts {
    /// Chains, with the columns whose values they join.
    pub(super) accumulations: Vec<(Vec<usize>, Accumulation)>,
    pub(super) stacks: Vec<Stack>,
    /// Columns whose last value is used.
    pub(super) last_copies: Vec<usize>,
    pub(super) each: Vec<UsedCopies>,
    /// Links and stacks, which the loop takes over.
    absorbed: IndexSet<InstructionId>,
}

impl LiveOuts {
    /// Finds every use outside; copies may grow by work that follows every one of them.
    pub(super) fn new(
        context: &Context<'_>,
        isomorphism: &mut Isomorphism,
        chains: &Chains,
        copies: &mut Copies,
    ) -> Result<Self, Reason> {
        let mut live_outs = Self::default();
        let mut column = 0;
        while column < copies.columns.len() {
            if matches!(copies.columns[column].role, Role::Computed(_)) && !stays(context.module, copies, column) {
                live_outs.column(context, isomorphism, chains, copies, column);
            }
            column += 1;
        }
        // Work that joined the copies later may use what looked like a use outside.
        live_outs.forget_inner_uses(context, copies);
        if live_outs.accumulations.is_empty()
            && live_outs.stacks.is_empty()
            && live_outs.last_copies.is_empty()
            && live_outs.each.is_empty()
        {
            return Err(Reason { code: "differs", message: "nothing uses the copies".to_owned() });
        }
        if let Some(tuple) = live_outs.tuple_used_outside(context.module, copies) {
            let name = &context.module.instruction(tuple).name;
            let message = format!(
                "later work reads parts of `{name}` and its counterparts, several arrays in one, of single copies"
            );
            return Err(Reason { code: "residuals", message });
        }
        if !is_ordered(context, copies, &live_outs.absorbed) || !live_outs.starts_before(context, copies) {
            let message =
                format!("{} copies of the same work need values that are computed from some of them", copies.len);
            return Err(Reason { code: "depends", message });
        }
        Ok(live_outs)
    }

    fn column(
        &mut self,
        context: &Context<'_>,
        isomorphism: &mut Isomorphism,
        chains: &Chains,
        copies: &mut Copies,
        column: usize,
    ) {
        let (module, users) = (context.module, context.users);
        let ids = copies.columns[column].ids.clone();
        for accumulation in chains.joining(module, users, &ids) {
            if accumulation.links.iter().any(|&link| copies.computes(link) || self.absorbed.contains(&link)) {
                continue;
            }
            // A chain that goes on from what the same loop collects would need the loop before it begins.
            let begins = accumulation.start.is_none_or(|start| !behind(context, copies, &self.absorbed)[start]);
            if !begins {
                continue;
            }
            if let Some(columns) = joined_columns(module, isomorphism, copies, &accumulation) {
                self.absorbed.extend(accumulation.links.iter().copied());
                self.accumulations.push((columns, accumulation));
            }
        }
        for &user in users.get(ids[0]) {
            if let Some(stack) = stack(module, column, user, &ids).filter(|_| !copies.computes(user)) {
                self.absorbed.insert(user);
                self.stacks.push(stack);
            }
        }
        let outside = self.outside(context, copies, &ids);
        if outside.iter().all(Vec::is_empty) || self.follow(context, isomorphism, copies, &outside) {
            return;
        }
        self.note_uses(context, copies, column, &outside);
    }

    /// Users of each value that are neither in the copies nor taken over; the value itself stands for "the computation returns it".
    fn outside(&self, context: &Context<'_>, copies: &Copies, ids: &[InstructionId]) -> Vec<Vec<InstructionId>> {
        let module = context.module;
        let root = module.computation(module.instruction(ids[0]).parent).root;
        let of = |&id: &InstructionId| {
            let users = context.users.get(id).iter().copied();
            let users = users.filter(|&user| !copies.computes(user) && !self.absorbed.contains(&user));
            users.chain((id == root).then_some(id)).collect()
        };
        ids.iter().map(of).collect()
    }

    /// Takes the users into the copies if every copy's value is used in the same way.
    fn follow(
        &self,
        context: &Context<'_>,
        isomorphism: &mut Isomorphism,
        copies: &mut Copies,
        outside: &[Vec<InstructionId>],
    ) -> bool {
        let count = outside[0].len();
        if count == 0 || outside.iter().any(|users| users.len() != count) {
            return false;
        }
        let before = copies.columns.len();
        let grown = (0..count).all(|number| {
            let users: Vec<InstructionId> = outside.iter().map(|users| users[number]).collect();
            let distinct = users.iter().collect::<IndexSet<_>>().len() == users.len();
            distinct && copies.grow(context.module, isomorphism, users).is_ok()
        });
        if !grown || !is_ordered(context, copies, &self.absorbed) {
            copies.truncate(before);
            return false;
        }
        true
    }

    fn note_uses(&mut self, context: &Context<'_>, copies: &Copies, column: usize, outside: &[Vec<InstructionId>]) {
        let module = context.module;
        let used: Vec<usize> = (0..outside.len()).filter(|&copy| !outside[copy].is_empty()).collect();
        if used == [copies.len - 1] {
            self.last_copies.push(column);
            return;
        }
        let root = module.computation(module.instruction(copies.columns[column].ids[0]).parent).root;
        let residual = outside.iter().flatten().any(|&user| user != root);
        self.each.push(UsedCopies { column, copies: used, residual });
    }

    fn forget_inner_uses(&mut self, context: &Context<'_>, copies: &Copies) {
        let (last_copies, each) = (std::mem::take(&mut self.last_copies), std::mem::take(&mut self.each));
        for column in last_copies.into_iter().chain(each.into_iter().map(|each| each.column)) {
            let outside = self.outside(context, copies, &copies.columns[column].ids);
            if !outside.iter().all(Vec::is_empty) {
                self.note_uses(context, copies, column, &outside);
            }
        }
    }

    /// A value of several arrays that the loop would have to hand out: it can collect arrays only.
    fn tuple_used_outside(&self, module: &Module, copies: &Copies) -> Option<InstructionId> {
        let columns = self.last_copies.iter().copied().chain(self.each.iter().map(|each| each.column));
        columns.map(|column| copies.columns[column].ids[0]).find(|&id| module.instruction(id).array().is_none())
    }

    /// Whether no chain goes on from something that is computed from the copies.
    fn starts_before(&self, context: &Context<'_>, copies: &Copies) -> bool {
        let mut starts = self.accumulations.iter().filter_map(|(_, accumulation)| accumulation.start).peekable();
        if starts.peek().is_none() {
            return true;
        }
        let behind = behind(context, copies, &self.absorbed);
        starts.all(|start| !behind[start])
    }

    /// What later work reads of the loop: the ends of chains, stacks, and values of single copies.
    pub(super) fn results(&self, copies: &Copies) -> impl Iterator<Item = InstructionId> {
        let chained = self.accumulations.iter().filter_map(|(_, accumulation)| accumulation.links.last().copied());
        let stacked = self.stacks.iter().map(|stack| stack.result);
        let columns = self.last_copies.iter().copied().chain(self.each.iter().map(|each| each.column));
        let single: Vec<InstructionId> = columns.flat_map(|column| copies.columns[column].ids.clone()).collect();
        chained.chain(stacked).chain(single)
    }

    /// Links of the chains.
    pub(super) fn links(&self) -> impl Iterator<Item = InstructionId> {
        self.accumulations.iter().flat_map(|(_, accumulation)| accumulation.links.iter().copied())
    }
    /// Whether some chain joins the copies.
    pub(super) fn accumulates(&self) -> bool {
        !self.accumulations.is_empty()
    }

    /// The instruction that the report names: where the copies meet.
    pub(super) fn owner(&self, copies: &Copies) -> InstructionId {
        let chained = self.accumulations.first().and_then(|(_, accumulation)| accumulation.links.last().copied());
        let stacked = self.stacks.first().map(|stack| stack.result);
        let column = self.last_copies.first().copied().or_else(|| self.each.first().map(|each| each.column));
        let value =
            column.map_or(copies.columns[0].ids[copies.len - 1], |column| copies.columns[column].ids[copies.len - 1]);
        chained.or(stacked).unwrap_or(value)
    }

    /// Bytes that the loop would have to store for later work.
    pub(super) fn residuals(&self, module: &Module, copies: &Copies) -> Bytes {
        let kept = self.each.iter().filter(|each| each.residual);
        kept.map(|each| {
            Bytes(bytes(module, copies.columns[each.column].ids[0]).get().saturating_mul(copies.len as u64))
        })
        .sum()
    }
}

/// Whether a column is cheap and computed from values outside only: later work may go on using the original.
fn stays(module: &Module, copies: &Copies, column: usize) -> bool {
    let Column { ids, role } = &copies.columns[column];
    match role {
        Role::Shared | Role::Constants => true,
        Role::Computed(operands) => {
            is_cheap(module, ids[0]) && operands.iter().all(|&operand| stays(module, copies, operand))
        }
        Role::Carried(_) | Role::Open => false,
    }
}

/// The columns of the values that a chain joins; the copies grow by those that they lack.
fn joined_columns(
    module: &Module,
    isomorphism: &mut Isomorphism,
    copies: &mut Copies,
    accumulation: &Accumulation,
) -> Option<Vec<usize>> {
    let before = copies.columns.len();
    let mut columns = Vec::new();
    for place in 0..accumulation.values[0].len() {
        let ids: Vec<InstructionId> = accumulation.values.iter().map(|values| values[place]).collect();
        let Ok(column) = copies.grow(module, isomorphism, ids) else {
            copies.truncate(before);
            return None;
        };
        columns.push(column);
    }
    Some(columns)
}

/// The values of a column as neighbours among the operands of a `concatenate`.
fn stack(module: &Module, column: usize, result: InstructionId, ids: &[InstructionId]) -> Option<Stack> {
    let inst = module.instruction(result);
    if inst.opcode != Opcode::Concatenate || !inst.control_predecessors().is_empty() {
        return None;
    }
    let last = ids[ids.len() - 1];
    let at = inst.operands.iter().position(|id| *id == ids[0] || *id == last)?;
    let operands = inst.operands.get(at..at + ids.len())?;
    let forwards = operands == ids;
    let backwards = operands.iter().eq(ids.iter().rev());
    (forwards || backwards).then_some(Stack { column, result, at, reversed: !forwards })
}

/// Whether nothing that the copies read is computed from them.
fn is_ordered(context: &Context<'_>, copies: &Copies, absorbed: &IndexSet<InstructionId>) -> bool {
    let behind = behind(context, copies, absorbed);
    copies.inputs().all(|input| !behind[input])
}

/// What the copies compute, what the loop takes over, and everything computed from either.
fn behind(
    context: &Context<'_>,
    copies: &Copies,
    absorbed: &IndexSet<InstructionId>,
) -> SideTable<InstructionId, bool> {
    let mut behind: SideTable<InstructionId, bool> = SideTable::new(false);
    let mut work: Vec<InstructionId> = copies.values().chain(absorbed.iter().copied()).collect();
    while let Some(id) = work.pop() {
        if !std::mem::replace(&mut behind[id], true) {
            work.extend(context.users.get(id).iter().filter(|user| !behind[**user]));
        }
    }
    behind
}
