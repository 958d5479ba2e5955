//! Stacks of a loop, of which nothing but rows is read.

use hlo_ir::edit::Patch;
use hlo_ir::host::HostMove;
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use super::{Offloaded, condition, moved};
use crate::flow::{feeds_sum, is_rounded};
use crate::loops::{self, Reader, Readers, Stacks};
use crate::{Condition, Context, Finding, Grade};

/// One finding for each stack.
pub(super) fn find(context: &Context<'_>) -> Vec<Finding> {
    let loops = context.module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While);
    loops.flat_map(|(id, _)| of_loop(context, id)).collect()
}

fn of_loop(context: &Context<'_>, id: InstructionId) -> Vec<Finding> {
    let module = context.module;
    let is_free = |_: &Stacks| loops::is_free(module, id) && is_seen_by_element(module, id);
    let Some(stacks) = Stacks::of(module, id).filter(is_free) else { return Vec::new() };
    let readers = loops::readers(module, &stacks);
    (0..stacks.list.len()).filter_map(|at| of_stack(context, &stacks, &readers, at)).collect()
}

fn of_stack(context: &Context<'_>, stacks: &Stacks, readers: &Readers, at: usize) -> Option<Finding> {
    let module = context.module;
    let stack = &stacks.list[at];
    let bytes = size::array_size(&stack.array)?;
    let mut users = readers.list.iter().filter(|reader| reader.reads.iter().any(|read| read.stack == at));
    let is_plain = |reader: &Reader| {
        let is_sharded = |&id: &InstructionId| loops::is_sharded(module.instruction(id));
        is_seen_by_element(module, reader.site) && !reader.state(module).iter().any(is_sharded)
    };
    let is_moved_by_rows = readers.only_read[at] && users.all(is_plain);
    if bytes < context.options.min_saving.max(Bytes(1)) || !is_moved_by_rows {
        return None;
    }
    let Moved { patch, row } = rows_moved(module, stacks, readers, at)?;
    let note = format!("{bytes} in {} rows stand in the memory of the host", stacks.rows);
    let conditions = conditions(module, stacks);
    let owner = stacks.site;
    let mut reads = readers.list.iter().flat_map(|reader| &reader.reads).filter(|read| read.stack == at);
    let may_contract = feeds_sum(module, context.users, row) || is_rounded(module, row);
    let is_loose = may_contract || reads.any(|read| feeds_sum(module, context.users, read.site));
    let grade = if is_loose { Grade::HloExact } else { Grade::Bitwise };
    Some(Offloaded { patch, owner, grade, bytes, note, conditions }.finding(context))
}

fn conditions(module: &Module, stacks: &Stacks) -> Vec<Condition> {
    let first = &module.instruction(stacks.site).name;
    vec![
        condition(format!("`{first}` writes one row of the stack in each of {} steps, and reads none", stacks.rows)),
        condition("nothing but loops that forward the stack reads it, in whole rows".to_owned()),
    ]
}

/// The moves of a stack's rows, and the row that a step writes.
struct Moved {
    patch: Patch,
    row: InstructionId,
}

fn rows_moved(module: &Module, stacks: &Stacks, readers: &Readers, at: usize) -> Option<Moved> {
    let element = stacks.list[at].element;
    let begins = module.instruction(*stacks.initial.get(element)?);
    if begins.opcode != Opcode::Broadcast {
        return None;
    }
    let (writer, operand) = written(module, *stacks.body.results.get(element)?)?;
    let inside = module.instruction(writer).operands.iter().find(|&&from| is_element(module, stacks, from, element));
    if !is_alone(module, *inside?, writer) || is_read_outside(module, stacks, element) {
        return None;
    }
    let mut patch = Patch::new(module);
    let row = module.instruction(writer).operands[operand];
    if HostMove::of(module.instruction(row)).is_some() {
        return None;
    }
    let there = add(module, &mut patch, row, HostMove::ToHost);
    let mut update = module.instruction(writer).clone();
    update.operands[operand] = there;
    patch.rewrite(writer, update);
    let mut reads = readers.list.iter().flat_map(|reader| &reader.reads).filter(|read| read.stack == at).peekable();
    reads.peek()?;
    for read in reads {
        let back = add(module, &mut patch, read.site, HostMove::ToDevice);
        patch.replace(read.site, back);
    }
    Some(Moved { patch, row })
}

fn add(module: &Module, patch: &mut Patch, value: InstructionId, kind: HostMove) -> InstructionId {
    let there = patch.add(module.instruction(value).parent, moved(module, value, value, kind));
    patch.set_origin(there, value);
    there
}

/// Whether body and condition of a loop take single elements of its state, and nothing sees the state as a whole.
fn is_seen_by_element(module: &Module, site: InstructionId) -> bool {
    let states = module.instruction(site).called_computations().flat_map(|callee| module.parameters(callee).clone());
    states.into_iter().all(|state| {
        let mut users = module.instructions_of(module.instruction(state).parent);
        users.all(|(_, inst)| !inst.operands.contains(&state) || inst.opcode == Opcode::GetTupleElement)
    })
}

/// Where a row is written in the body of a loop: an update, or the call of a function that does nothing else; with the number of the operand that is the row.
fn written(module: &Module, result: InstructionId) -> Option<(InstructionId, usize)> {
    let inst = module.instruction(result);
    match inst.opcode {
        Opcode::DynamicUpdateSlice => Some((result, 1)),
        Opcode::Call => {
            let function = inst.called_computations().next()?;
            let row = parameter_written(module, function)?;
            Some((result, usize::try_from(module.instruction(row).parameter_number()?).ok()?))
        }
        _ => None,
    }
}

/// The parameter that a function writes into another one, if it does nothing else with either.
fn parameter_written(module: &Module, function: ComputationId) -> Option<InstructionId> {
    let root = module.computation(function).root;
    let update = module.instruction(root);
    if update.opcode != Opcode::DynamicUpdateSlice {
        return None;
    }
    let is_parameter = |id: InstructionId| module.instruction(id).opcode == Opcode::Parameter;
    let array = update.operands[0];
    let (mut row, mut user) = (update.operands[1], root);
    while module.instruction(row).opcode == Opcode::Reshape && is_alone(module, row, user) {
        (row, user) = (module.instruction(row).operands[0], row);
    }
    let alone = is_alone(module, row, user) && is_alone(module, array, root);
    (alone && is_parameter(row) && is_parameter(array)).then_some(row)
}

/// Whether a value has one user.
fn is_alone(module: &Module, value: InstructionId, user: InstructionId) -> bool {
    let computation = module.instruction(value).parent;
    let mut users = module.instructions_of(computation).filter(|(_, inst)| inst.operands.contains(&value));
    let places = module.instruction(user).operands.iter().filter(|&&operand| operand == value).count();
    places == 1 && users.all(|(id, _)| id == user) && module.computation(computation).root != value
}

/// Whether a value is this element of the state in the body of a loop.
fn is_element(module: &Module, stacks: &Stacks, value: InstructionId, element: usize) -> bool {
    let inst = module.instruction(value);
    inst.opcode == Opcode::GetTupleElement
        && inst.operands[0] == stacks.body.parameter
        && inst.int(&AttrKey::Index) == i64::try_from(element).ok()
}

/// Whether the body takes an element of the state at several places, or the condition looks at it.
fn is_read_outside(module: &Module, stacks: &Stacks, element: usize) -> bool {
    let body = module.instruction(stacks.body.parameter).parent;
    let taken = module.instructions_of(body).filter(|&(id, _)| is_element(module, stacks, id, element)).count();
    let condition = module.instruction(stacks.site).computation(&AttrKey::Condition);
    let mut looked = condition.into_iter().flat_map(|condition| module.instructions_of(condition));
    let is_looked_at = looked.any(|(id, inst)| {
        inst.opcode == Opcode::GetTupleElement
            && inst.int(&AttrKey::Index) == i64::try_from(element).ok()
            && module.instructions_of(inst.parent).any(|(_, user)| user.operands.contains(&id))
    });
    taken != 1 || is_looked_at
}
