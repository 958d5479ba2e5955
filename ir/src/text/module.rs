//! A whole text: header, stack-frame tables and computations; or computations alone; or one instruction alone.

use nom::Parser;
use nom::combinator::opt;
use smol_str::{SmolStr, format_smolstr};

use super::errors::{self, WithHelp as _};
use super::lex::{Res, bare_word, keyword, name, next_is, skip_blank, symbol, word};
use super::state::{Scope, State};
use super::{attribute, computation, instruction, print, stack};
use crate::{AttrKey, AttrValue, Attribute, Computation};

/// Reads the whole text into `state.module`.
pub(super) fn module<'a>(state: &mut State<'a>) -> Res<'a, ()> {
    let text = state.text;
    // Dumps have one instruction a line: one allocation instead of twenty, each copying what is there.
    state.module.instructions.reserve(memchr::memchr_iter(b'\n', text.as_bytes()).count());
    if let Ok((rest, _)) = keyword("HloModule").parse(text) {
        let (rest, ()) = header(state, rest)?;
        return computations(state, rest);
    }
    if has_computations(text) {
        let (rest, ()) = computations(state, text)?;
        name_after_entry(state);
        return Ok((rest, ()));
    }
    single_instruction(state, text)
}

/// Whether a text without header starts with a computation.
fn has_computations(text: &str) -> bool {
    match (keyword("ENTRY").parse(text), name(text)) {
        (Ok(_), _) => true,
        (_, Ok((rest, _))) => next_is(rest, '{') || looks_like_program_shape(rest),
        _ => false,
    }
}

/// `(name:` or `(name shape`, or `() ->`, and not the operands of an instruction.
fn looks_like_program_shape(rest: &str) -> bool {
    let Ok((inside, ())) = symbol('(').parse(rest) else { return false };
    if let Ok((behind, ())) = symbol(')').parse(inside) {
        return skip_blank(behind).starts_with("->");
    }
    name(inside).is_ok_and(|(after, _)| bare_word(skip_blank(after)).is_ok() || next_is(after, '('))
}

/// Name, attributes and tables behind `HloModule`.
fn header<'a>(state: &mut State<'a>, input: &'a str) -> Res<'a, ()> {
    let at = skip_blank(input);
    let (input, name) = match name(at) {
        Ok((input, (name, percent))) if percent || !print::is_reserved(name) => (input, name),
        _ => return Err(errors::expected("a module name", at)),
    };
    state.module.name = name.into();
    state.module.span = Some(state.span_between(skip_blank(state.text), input));
    let (input, attributes) = attribute::list(state, None, input)?;
    state.module.attributes = attributes;
    let (input, tables) = stack::tables(input)?;
    state.module.stack_tables = tables;
    Ok((input, ()))
}

/// One computation or more up to the end of the text.
fn computations<'a>(state: &mut State<'a>, mut input: &'a str) -> Res<'a, ()> {
    loop {
        let (rest, ()) = computation::computation(state, input)?;
        input = skip_blank(rest);
        if input.is_empty() {
            break;
        }
        if let Ok((_, mark)) = word(input) {
            if mark == "HloModule" {
                return Err(errors::second_module(mark));
            }
        } else if !input.starts_with('%') {
            return Err(errors::trailing(input));
        }
    }
    if state.module.entry.is_none() {
        state.module.entry = state.module.order.last().copied();
    }
    Ok((input, ()))
}

/// A module without header is called after its entry.
fn name_after_entry(state: &mut State<'_>) {
    if let Some(entry) = state.module.entry {
        state.module.name = format_smolstr!("module_{}", state.module.computation(entry).name);
    }
}

/// A text that is one instruction: its operands become parameters.
fn single_instruction<'a>(state: &mut State<'a>, text: &'a str) -> Res<'a, ()> {
    state.invents_parameters = true;
    let start = skip_blank(text);
    let mut scope = Scope::new("_");
    let (input, _) = opt(keyword("ROOT")).parse(start)?;
    let named = name(input).and_then(|(rest, (name, _))| symbol('=').parse(rest).map(|(rest, ())| (rest, name)));
    let (input, name) = match named {
        Ok((rest, name)) => (rest, SmolStr::new(name)),
        Err(_) => (input, SmolStr::new_static("_")),
    };
    if start.is_empty() {
        return Err(errors::empty_text(start));
    }
    let read = instruction::right_hand_side(state, &mut scope, name, start, input);
    let (rest, id) = read.map_err(|error| error.with_note(errors::NOT_HLO))?;
    let rest = skip_blank(rest);
    if !rest.is_empty() {
        return Err(errors::trailing(rest));
    }
    let computation = Computation {
        name: SmolStr::new_static("_"),
        instructions: scope.instructions,
        root: id,
        attributes: Vec::new(),
        span: None,
    };
    let entry = state.module.computations.push(computation);
    for index in 0..state.module.computations[entry].instructions.len() {
        let instruction = state.module.computations[entry].instructions[index];
        state.module.instructions[instruction].parent = entry;
    }
    state.module.order.push(entry);
    state.module.entry = Some(entry);
    state.module.name = SmolStr::new_static("_");
    state.module.attributes.push(Attribute::new(AttrKey::IsScheduled, AttrValue::Bool(true)));
    Ok((rest, ()))
}
