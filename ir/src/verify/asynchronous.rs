//! V10 for what follows the start of an asynchronous operation: its operand is the operation it goes on with, of the same opcode and thread.
//!
//! Both spellings are meant: `async-done`, and `add-done` for the end of an `add-start`. Source: `CreateInstruction`
//! (xla/hlo/parser/hlo_parser.cc).

use crate::{AttrKey, Instruction, Module, Opcode, Shape};

/// Which part of an operation an instruction is, and the opcode that runs if its name says so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Start(Option<Opcode>),
    Update(Option<Opcode>),
    Done(Option<Opcode>),
}

/// The part an instruction is; `None` for one that is not asynchronous in XLA's general sense.
fn part(inst: &Instruction) -> Option<Part> {
    match inst.opcode {
        Opcode::AsyncStart => Some(Part::Start(None)),
        Opcode::AsyncUpdate => Some(Part::Update(None)),
        Opcode::AsyncDone => Some(Part::Done(None)),
        Opcode::Unknown => {
            let (base, suffix) = inst.opcode_name().rsplit_once('-')?;
            let base = Some(Opcode::from_name(base)?);
            match suffix {
                "start" => Some(Part::Start(base)),
                "update" => Some(Part::Update(base)),
                "done" => Some(Part::Done(base)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Checks a short spelling, an update or an end; nothing to say about others.
pub(super) fn check(module: &Module, inst: &Instruction) -> Result<(), String> {
    let own = match part(inst) {
        Some(Part::Start(Some(_))) if !is_under_way(&inst.shape) => {
            return Err(format!(
                "the shape is written as {}, but must be a tuple of the operands (as a tuple), the result, and any state",
                inst.shape
            ));
        }
        Some(Part::Update(own) | Part::Done(own)) => own,
        _ => return Ok(()),
    };
    let &[before] = inst.operands.as_slice() else {
        return Err(format!("`{}` takes 1 operand, not {}", inst.opcode_name(), inst.operands.len()));
    };
    let before = module.instruction(before);
    if !matches!(part(before), Some(Part::Start(_) | Part::Update(_))) {
        return Err(format!("its operand `{}` is no asynchronous operation under way", before.name));
    }
    let wanted =
        if matches!(part(inst), Some(Part::Update(_))) { Some(before.shape.as_ref()) } else { before.shape.at(&[1]) };
    if let Some(wanted) = wanted.filter(|wanted| !wanted.compatible(&inst.shape)) {
        let (written, wanted) = (inst.shape.without_layout(), wanted.without_layout());
        return Err(format!("the shape is written as {written}, but must be {wanted}"));
    }
    let start = start(module, before)?;
    let (runs, thread) = (runs(module, start), thread(start));
    if let (Some(own), Some(runs)) = (own, runs)
        && own != runs
    {
        return Err(format!("`{}` of an operation that runs `{}`", inst.opcode_name(), runs.name()));
    }
    let key = AttrKey::unknown("async_execution_thread");
    match inst.raw(&key) {
        Some(own) if own != thread => {
            Err(format!("async_execution_thread is {own}, but the operation runs on {thread}"))
        }
        _ => match (inst.computation(&AttrKey::Calls), start.computation(&AttrKey::Calls)) {
            (Some(own), Some(called)) if own != called => {
                let (own, called) = (&module.computation(own).name, &module.computation(called).name);
                Err(format!("it names computation `{own}`, but the operation runs `{called}`"))
            }
            _ => Ok(()),
        },
    }
}

/// Whether a shape is that of an operation under way: a tuple of the operands, the result, and any state.
fn is_under_way(shape: &Shape) -> bool {
    matches!(shape.as_tuple(), Some([operands, _, ..]) if operands.as_tuple().is_some())
}

/// The start of the operation that `inst` goes on with. Operands stand before their users, so this ends.
fn start<'m>(module: &'m Module, inst: &'m Instruction) -> Result<&'m Instruction, String> {
    let mut at = inst;
    loop {
        match (part(at), at.operands.first()) {
            (Some(Part::Start(_)), _) => return Ok(at),
            (Some(Part::Update(_)), Some(&before)) => at = module.instruction(before),
            _ => return Err(format!("`{}` goes on with no operation that was started", inst.name)),
        }
    }
}

/// The opcode that a started operation runs.
fn runs(module: &Module, start: &Instruction) -> Option<Opcode> {
    if let Some(Part::Start(Some(opcode))) = part(start) {
        return Some(opcode);
    }
    let called = start.computation(&AttrKey::Calls)?;
    Some(module.instruction(module.computation(called).root).opcode)
}

/// The thread of a started operation, with its quotes.
fn thread(start: &Instruction) -> &str {
    match start.attribute(&AttrKey::unknown("async_execution_thread")) {
        Some(value) => value.text().unwrap_or_default(),
        None => "\"main\"",
    }
}
