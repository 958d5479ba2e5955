//! One computation: `ENTRY %name (parameters) -> result { instructions }, attributes`.

use nom::Parser;
use nom::combinator::opt;
use smol_str::SmolStr;

use super::instruction::{self, MAX_DEPTH};
use super::lex::{Res, keyword, name, next_is, skip_blank, symbol};
use super::state::{Scope, State};
use super::{attribute, errors};
use crate::shape::ShapeRef;
use crate::{Computation, ComputationId};

/// A computation at the top of the module.
pub(super) fn computation<'a>(state: &mut State<'a>, input: &'a str) -> Res<'a, ()> {
    let start = skip_blank(input);
    let (input, entry) = opt(keyword("ENTRY")).parse(start)?;
    let at = skip_blank(input);
    let Ok((input, (name, percent))) = name(at) else { return Err(errors::expected("a computation name", at)) };
    let (input, result) = program_shape(state, input)?;
    if state.computations.is_empty() {
        state.module.style.percent =
            if super::print::is_reserved(name) { first_instruction_has_percent(input) } else { percent };
        state.module.style.program_shape = result.is_some();
    }
    if let Some(&previous) = state.computations.get(name) {
        let span = previous.and_then(|id| state.module.computation(id).span);
        return Err(errors::duplicate("computation", name, span));
    }
    let head_end = input;
    let problems = state.problems.len();
    let (input, scope) = body(state, name, input)?;
    if state.problems.len() > problems {
        state.computations.insert(name, None);
        let (input, _) = attribute::list(state, None, input)?;
        return Ok((input, ()));
    }
    check_result(state, &scope, result)?;
    let id = finish(state, scope, SmolStr::new(name));
    state.module.computations[id].span = Some(state.span_between(start, head_end));
    state.computations.insert(name, Some(id));
    if let Some(mark) = entry {
        if let Some(first) = state.module.entry {
            return Err(errors::second("an ENTRY computation", mark, state.module.computation(first).span));
        }
        state.module.entry = Some(id);
    }
    let (input, attributes) = attribute::list(state, None, input)?;
    state.module.computations[id].attributes = attributes;
    Ok((input, ()))
}

/// A computation written where its name may stand, `{ instructions }`.
pub(super) fn inline<'a>(state: &mut State<'a>, input: &'a str) -> Res<'a, ComputationId> {
    if state.depth >= MAX_DEPTH {
        return Err(errors::too_deep("inline computations", MAX_DEPTH, input));
    }
    state.depth += 1;
    let problems = state.problems.len();
    let read = body(state, "_", input);
    state.depth -= 1;
    let (rest, scope) = read?;
    if state.problems.len() > problems {
        return Ok((rest, State::placeholder_computation()));
    }
    let name = state.inline_name();
    let id = finish(state, scope, name);
    state.module.computations[id].span = Some(state.span_between(input, rest));
    Ok((rest, id))
}

/// `(name shape, ...) -> shape`: the written result and its shape. The parameters are read and dropped, as XLA does.
fn program_shape<'a>(state: &mut State<'a>, input: &'a str) -> Res<'a, Option<(&'a str, ShapeRef)>> {
    let Ok((mut input, ())) = symbol('(').parse(input) else { return Ok((input, None)) };
    if !next_is(input, ')') {
        loop {
            let at = skip_blank(input);
            let Ok((rest, _)) = name(at) else { return Err(errors::expected("a parameter name", at)) };
            let (rest, _) = shape(state, rest)?;
            input = rest;
            match symbol(',').parse(input) {
                Ok((rest, ())) => input = rest,
                Err(_) => break,
            }
        }
    }
    let Ok((input, ())) = symbol(')').parse(input) else {
        return Err(errors::expected("`,` or `)` in the parameter list", skip_blank(input)));
    };
    let at = skip_blank(input);
    let Some(rest) = at.strip_prefix("->") else { return Err(errors::expected("`->`", at)) };
    let at = skip_blank(rest);
    let (rest, result) = shape(state, at)?;
    Ok((rest, Some((&at[..at.len() - rest.len()], result))))
}

/// A shape that must be there.
fn shape<'a>(state: &mut State<'a>, input: &'a str) -> Res<'a, ShapeRef> {
    match state.shapes.shape(input) {
        Err(nom::Err::Error(_)) => Err(errors::expected("a shape", skip_blank(input))),
        other => other,
    }
}

/// `{ instructions }`. An instruction that cannot be read is written down and skipped.
fn body<'a>(state: &mut State<'a>, name: &'a str, input: &'a str) -> Res<'a, Scope<'a>> {
    let at = skip_blank(input);
    let Some(mut input) = at.strip_prefix('{') else {
        return Err(errors::expected("`{` before the instructions", at));
    };
    let mut scope = Scope::new(name);
    let problems = state.problems.len();
    loop {
        let next = skip_blank(input);
        if let Some(rest) = next.strip_prefix('}') {
            let empty = scope.names.is_empty() && state.problems.len() == problems;
            return if empty { Err(errors::empty_computation(name, &at[..1])) } else { Ok((rest, scope)) };
        }
        match instruction::instruction(state, &mut scope, next) {
            Ok((rest, ())) => input = rest,
            Err(error) => {
                let recovered = if next.is_empty() { None } else { instruction::recover(next) };
                match recovered {
                    Some(rest) if !state.is_hopeless() => {
                        state.note(error);
                        input = rest;
                    }
                    _ => return Err(error),
                }
            }
        }
    }
}

/// The result a computation's head promises must be what its root returns.
fn check_result<'a>(
    state: &State<'a>,
    scope: &Scope<'a>,
    result: Option<(&'a str, ShapeRef)>,
) -> Result<(), nom::Err<super::lex::Problem<'a>>> {
    let root = scope.root.or(scope.instructions.last().copied());
    match (result, root) {
        (Some((at, shape)), Some(root)) if !shape.compatible_bounds(&state.module.instruction(root).shape) => {
            Err(errors::root_shape(at, scope.name, &state.module.instruction(root).shape.to_string()))
        }
        _ => Ok(()),
    }
}

/// Gives the computation its id and its instructions their parent.
fn finish(state: &mut State<'_>, scope: Scope<'_>, name: SmolStr) -> ComputationId {
    let last = *scope.instructions.last().expect("a computation without instructions was refused");
    let root = scope.root.unwrap_or(last);
    let id = state.module.computations.push(Computation {
        name,
        instructions: scope.instructions,
        root,
        attributes: Vec::new(),
        span: None,
    });
    for index in 0..state.module.computations[id].instructions.len() {
        let instruction = state.module.computations[id].instructions[index];
        state.module.instructions[instruction].parent = id;
    }
    state.module.order.push(id);
    id
}

/// Whether the first instruction behind a head carries a `%` that its name does not need.
fn first_instruction_has_percent(head_end: &str) -> bool {
    let Some((_, body)) = head_end.split_once('{') else { return false };
    let body = opt(keyword("ROOT")).parse(body).map_or(body, |(rest, _)| rest);
    matches!(name(body), Ok((_, (name, true))) if !super::print::is_reserved(name))
}
