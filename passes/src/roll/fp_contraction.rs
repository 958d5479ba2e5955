//! Where a loop may change how a compiler contracts a float product and a sum into one operation, in which order it sums, what it rounds to
//! 16 bits, or what it makes of constants: the ways in which rolling can change bits.
//!
//! XLA contracts what it fuses, and one kernel of several reductions sums otherwise than one kernel for each. What it fuses can change at the
//! border of the loop, and around slices and constants that now depend on the step; elsewhere a copy is surrounded by the same instructions as
//! before.

use hlo_ir::arena::SideTable;
use hlo_ir::graph::Users;
use hlo_ir::{InstructionId, Module, Opcode};

use super::live_outs::LiveOuts;
use super::lockstep::{Column, Copies, Role, starts};
use crate::Grade;
use crate::flow::{exactness, float_product, is_float_sum, is_real, is_rounded, is_sensitive, is_total, keeps_product};

/// Whether bits could change.
pub(super) fn may_contract(module: &Module, users: &Users, copies: &Copies, live_outs: &LiveOuts) -> bool {
    at_border(module, copies, live_outs)
        || around_steps(module, copies)
        || meets_scatter(module, copies, live_outs)
        || live_outs.results(copies).any(|id| reaches_reduce(module, users, id))
        || rounds(module, users, copies, live_outs)
        || computes_with_constants(module, copies)
        || copies.computed().any(|(_, column)| is_sensitive(module.instruction(column.ids[0])))
}

/// Whether a float of less than 32 bits goes to memory where a step ends, and something reads it on.
fn rounds(module: &Module, users: &Users, copies: &Copies, live_outs: &LiveOuts) -> bool {
    let read = live_outs.results(copies).filter(|&id| is_read(module, users, id));
    read.chain(handed_on(copies, live_outs)).chain(copies.inputs()).any(|id| is_rounded(module, id))
}

/// Whether the program does more with a value than to return it.
fn is_read(module: &Module, users: &Users, id: InstructionId) -> bool {
    let entry = module.entry();
    let root = module.computation(entry).root;
    let returns = |&user: &InstructionId| user == root && module.instruction(user).opcode == Opcode::Tuple;
    module.instruction(id).parent != entry || !users.get(id).iter().all(returns)
}

/// Values of the first copy that a step hands to the next one.
fn handed_on<'a>(copies: &'a Copies, live_outs: &'a LiveOuts) -> impl Iterator<Item = InstructionId> + 'a {
    let carried = copies.columns.iter().filter_map(|column| match column.role {
        Role::Carried(from) => Some(from),
        _ => None,
    });
    let links = live_outs.accumulations.iter().flat_map(|(columns, accumulation)| {
        let floats = columns.iter().map(|&column| copies.columns[column].ids[0]);
        floats.chain(accumulation.links.first().copied())
    });
    carried.map(|column| copies.columns[column].ids[0]).chain(links)
}

/// Whether a reduction of floats is computed from a value by products of matrices, elementwise operations and movement alone. XLA:CPU hands
/// such a reduction and everything before it that has one user to a library, whose `tanh` or `exp` is not the one of its own kernels: what
/// stands between decides whose is used.
pub(crate) fn reaches_reduce(module: &Module, users: &Users, id: InstructionId) -> bool {
    let mut seen: SideTable<InstructionId, bool> = SideTable::new(false);
    let mut work: Vec<InstructionId> = if is_real(module, id) { users.get(id).to_vec() } else { Vec::new() };
    while let Some(user) = work.pop() {
        if std::mem::replace(&mut seen[user], true) {
            continue;
        }
        let opcode = module.instruction(user).opcode;
        if matches!(opcode, Opcode::Reduce | Opcode::ReduceWindow) && is_real(module, user) {
            return true;
        }
        if opcode.is_elementwise() || keeps_product(opcode) || opcode == Opcode::Dot {
            work.extend(users.get(user));
        }
    }
    false
}

/// Whether a sum that moves into the loop has a scatter into zeros as an operand. XLA makes `a + scatter(0, i, u)` into `scatter(a, i, u)`
/// where the scatter has no other user, which adds the updates in another order, so it matters what else stands around.
fn meets_scatter(module: &Module, copies: &Copies, live_outs: &LiveOuts) -> bool {
    let sums = copies.computed().flat_map(|(_, column)| column.ids.iter().copied()).chain(live_outs.links());
    sums.into_iter().any(|sum| adds_scatter_into_zeros(module, sum))
}

/// Whether an instruction adds a scatter of sums into zeros to something.
pub(crate) fn adds_scatter_into_zeros(module: &Module, sum: InstructionId) -> bool {
    let inst = module.instruction(sum);
    inst.opcode == Opcode::Add
        && is_float_sum(module, sum)
        && inst.operands.iter().any(|&operand| scatters_into_zeros(module, operand))
}

/// Whether a value is one scalar, spread out, with something written into it: XLA takes a sum of zeros and another value for that value, and
/// then writes into the latter; zeros keep its sign.
fn scatters_into_zeros(module: &Module, id: InstructionId) -> bool {
    let scatter = module.instruction(id);
    if scatter.opcode == Opcode::Pad {
        return true;
    }
    let writes = matches!(scatter.opcode, Opcode::Scatter | Opcode::DynamicUpdateSlice);
    writes && scatter.operands.first().is_some_and(|&table| is_spread(module, table))
}

/// Whether a value is a constant, or one constant spread out.
fn is_spread(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    inst.opcode == Opcode::Constant
        || inst.opcode == Opcode::Broadcast && module.instruction(inst.operands[0]).opcode == Opcode::Constant
}

/// Whether a product or a sum of several terms enters or leaves the loop, or is joined by a chain of sums.
fn at_border(module: &Module, copies: &Copies, live_outs: &LiveOuts) -> bool {
    let first = |column: usize| copies.columns[column].ids[0];
    let sums = live_outs.accumulations.iter().filter(|(_, accumulation)| accumulation.opcode == Opcode::Add);
    let products = live_outs.accumulations.iter().filter(|(_, accumulation)| accumulation.opcode == Opcode::Multiply);
    let borders = sums.flat_map(|(columns, _)| columns).map(|&column| first(column));
    let borders = borders.chain(products.map(|(_, accumulation)| accumulation.links[0]));
    let borders = borders.chain(live_outs.stacks.iter().map(|stack| first(stack.column)));
    let borders = borders.chain(live_outs.last_copies.iter().map(|&column| first(column)));
    let borders = borders.chain(live_outs.each.iter().map(|each| first(each.column)));
    let first_read = copies.columns.iter().filter(|column| matches!(column.role, Role::Carried(_)));
    let borders = borders.chain(handed_on(copies, live_outs)).chain(first_read.map(|column| column.ids[0]));
    let shows =
        |id, sums: fn(&Module, InstructionId) -> bool| float_product(module, id).is_some() || ends_in(module, id, sums);
    // What several copies read has memory of its own if it is a reduction, before and after.
    copies.inputs().any(|id| shows(id, takes_in_product)) || borders.into_iter().any(|id| shows(id, sums_up))
}

/// Whether a value is computed, by operations that share a kernel with its readers, from something of which `sums` holds.
fn ends_in(module: &Module, id: InstructionId, sums: fn(&Module, InstructionId) -> bool) -> bool {
    let mut seen: SideTable<InstructionId, bool> = SideTable::new(false);
    let mut work = vec![id];
    while let Some(id) = work.pop() {
        if std::mem::replace(&mut seen[id], true) {
            continue;
        }
        if sums(module, id) {
            return true;
        }
        let inst = module.instruction(id);
        if is_fused(inst.opcode) {
            work.extend(&inst.operands);
        }
    }
    false
}

/// Whether an instruction is a sum that takes in a product: in another kernel the compiler may contract the two, or not.
fn takes_in_product(module: &Module, id: InstructionId) -> bool {
    let product = |&term: &InstructionId| float_product(module, term).is_some();
    is_float_sum(module, id) && module.instruction(id).operands.iter().any(product)
}

/// The same, or a reduction that is no library call: a kernel of several reductions sums in another order than one kernel for each.
fn sums_up(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let reduces = matches!(inst.opcode, Opcode::Reduce | Opcode::ReduceWindow);
    takes_in_product(module, id) || (reduces && exactness(module, inst) > Grade::Bitwise && !is_total(module, id))
}

/// Whether a product of something that depends on the step meets a sum.
fn around_steps(module: &Module, copies: &Copies) -> bool {
    let steps = depends_on_step(module, copies);
    let sums = copies.computed().filter(|(_, column)| is_float_sum(module, column.ids[0]));
    let mut terms = sums.flat_map(|(_, column)| &module.instruction(column.ids[0]).operands);
    terms.any(|&id| float_product(module, id).is_some_and(|product| steps[product]))
}

/// Values of the first copy that are computed from the step by operations that a compiler fuses.
fn depends_on_step(module: &Module, copies: &Copies) -> SideTable<InstructionId, bool> {
    let moves = |ids: &[InstructionId]| ids.iter().any(|&id| starts(module, id) != starts(module, ids[0]));
    follows_from(module, copies, |column| match &column.role {
        Role::Constants | Role::Carried(_) => true,
        Role::Computed(_) => moves(&column.ids),
        Role::Shared | Role::Open => false,
    })
}

/// Values of the first copy that are computed from `seeds` by operations that a compiler fuses.
fn follows_from(module: &Module, copies: &Copies, seeds: impl Fn(&Column) -> bool) -> SideTable<InstructionId, bool> {
    let mut depends: Vec<bool> = copies.columns.iter().map(seeds).collect();
    let mut settled = false;
    while !std::mem::replace(&mut settled, true) {
        // Most columns stand in front of those that they are computed from.
        for (number, column) in
            copies.columns.iter().enumerate().rev().filter(|(_, column)| is_fused(opcode(module, column)))
        {
            let Role::Computed(operands) = &column.role else { continue };
            if !depends[number] && operands.iter().any(|&operand| depends[operand]) {
                depends[number] = true;
                settled = false;
            }
        }
    }
    let mut found = SideTable::new(false);
    copies
        .columns
        .iter()
        .zip(depends)
        .filter(|(_, depends)| *depends)
        .for_each(|(column, _)| found.set(column.ids[0], true));
    found
}

fn opcode(module: &Module, column: &Column) -> Opcode {
    module.instruction(column.ids[0]).opcode
}

/// Whether floats are computed from a constant of each step. What is known when it is compiled, XLA computes by other means or not at all: it
/// joins the constants of two products or sums, squares instead of a power, and takes functions of a constant from a library.
fn computes_with_constants(module: &Module, copies: &Copies) -> bool {
    let known = follows_from(module, copies, |column| match column.role {
        Role::Constants => true,
        // The first step begins with it.
        Role::Carried(_) => is_spread(module, column.ids[0]),
        _ => false,
    });
    let computed = copies.computed().map(|(_, column)| column.ids[0]);
    computed
        .into_iter()
        .any(|id| computes(module, id) && module.instruction(id).operands.iter().any(|&from| known[from]))
}

/// Whether an operation makes floats other than by picking, moving, or converting what it reads.
fn computes(module: &Module, id: InstructionId) -> bool {
    use Opcode as O;
    let inst = module.instruction(id);
    let exact = matches!(
        inst.opcode,
        O::Abs | O::Clamp | O::Convert | O::Copy | O::Maximum | O::Minimum | O::Negate | O::Select | O::Sign
    );
    let unknown = matches!(inst.opcode, O::Call | O::Conditional | O::While);
    let real = inst.array().is_none() || is_real(module, id);
    real && (unknown || (inst.opcode.is_elementwise() && !exact) || exactness(module, inst) > Grade::Bitwise)
}

fn is_fused(opcode: Opcode) -> bool {
    opcode.is_elementwise()
        || keeps_product(opcode)
        || matches!(opcode, Opcode::DynamicSlice | Opcode::Pad | Opcode::Concatenate)
}
