//! One instruction: `ROOT %name = shape opcode(operands), key=value, ...`.

use std::sync::Arc;

use nom::Parser;
use nom::combinator::opt;
use smol_str::{SmolStr, format_smolstr};

use super::errors::{self, WithHelp as _};
use super::lex::{self, Res, bare_word, integer, keyword, mismatch, name, next_is, skip_blank, symbol};
use super::state::{Scope, State};
use super::{attribute, literal, similar};
use crate::arena::Id as _;
use crate::module::{Operands, Payload, UnknownOpcode};
use crate::shape::ShapeRef;
use crate::{ComputationId, Instruction, InstructionId, Opcode, infer};

/// Operands written inside operands, and computations written inside attributes, nest at most this deep.
pub(super) const MAX_DEPTH: u32 = 64;

/// An instruction of `scope`, added to it.
pub(super) fn instruction<'a>(state: &mut State<'a>, scope: &mut Scope<'a>, input: &'a str) -> Res<'a, ()> {
    let (input, root) = root_mark(input);
    let at = skip_blank(input);
    let Ok((rest, (name, _))) = name(at) else { return Err(errors::expected("an instruction name", at)) };
    let Ok((rest, ())) = symbol('=').parse(rest) else {
        return Err(errors::expected("`=` after the instruction name", skip_blank(rest)));
    };
    let read = right_hand_side(state, scope, SmolStr::new(name), at, rest);
    // Even an instruction that could not be read defines its name, so that its users are not reported as well.
    let id = read.as_ref().ok().map(|&(_, id)| id);
    let previous = scope.names.insert(name, id);
    let (rest, id) = read?;
    if let Some(previous) = previous {
        let span = previous.and_then(|id| state.module.instruction(id).span);
        return Err(errors::duplicate("instruction", name, span));
    }
    if let Some(mark) = root {
        if let Some(first) = scope.root {
            return Err(errors::second("a ROOT in this computation", mark, state.module.instruction(first).span));
        }
        scope.root = Some(id);
    }
    Ok((rest, ()))
}

/// `ROOT`, if the instruction has it; a name cannot be `ROOT` without `%`.
fn root_mark(input: &str) -> (&str, Option<&str>) {
    let at = skip_blank(input);
    if !at.starts_with('R') {
        return (at, None);
    }
    opt(keyword("ROOT")).parse(at).unwrap_or((at, None))
}

/// What stands behind the equals sign. `start` is where the instruction began.
pub(super) fn right_hand_side<'a>(
    state: &mut State<'a>,
    scope: &mut Scope<'a>,
    name: SmolStr,
    start: &'a str,
    input: &'a str,
) -> Res<'a, InstructionId> {
    let (input, shape) = optional_shape(state, input)?;
    let (input, opcode_text) = opcode_word(input)?;
    let opcode = known_opcode(opcode_text, shape.is_some())?;
    let (input, (operands, payload)) = operand_part(state, scope, opcode, opcode_text, input)?;
    let span = state.span_between(start, input);
    let (input, attributes) = attribute::list(state, Some(scope), input)?;
    let mut instruction = Instruction {
        name,
        shape: shape.clone().unwrap_or_else(|| Arc::new(crate::Shape::Token)),
        opcode,
        operands,
        payload,
        attributes,
        // Set when the computation is complete and has an id.
        parent: ComputationId::new(0),
        span: Some(span),
    };
    if shape.is_none() {
        instruction.shape = infer_shape(state, &instruction, opcode_text)?;
    } else if has_one_shape(opcode) && state.problems.is_empty() {
        replace_shape(state, &mut instruction);
    }
    Ok((input, state.add(scope, instruction)))
}

/// Whether XLA's parser passes over the shape that is written: these instructions have the one that their operands imply.
fn has_one_shape(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Send | Opcode::SendDone | Opcode::RecvDone | Opcode::Outfeed | Opcode::AfterAll)
}

/// Gives an instruction the shape that its operands imply, if it is another one than what is written.
fn replace_shape(state: &State<'_>, instruction: &mut Instruction) {
    if let Some(Ok(implied)) = infer::shape(&state.module, instruction)
        && !implied.compatible_bounds(&instruction.shape)
    {
        instruction.shape = implied;
    }
}

/// The shape the operands imply. If some operand could not be read, the shape does not matter any more.
fn infer_shape<'a>(
    state: &State<'a>,
    instruction: &Instruction,
    opcode: &'a str,
) -> Result<ShapeRef, nom::Err<lex::Problem<'a>>> {
    if !state.problems.is_empty() {
        return Ok(Arc::clone(&instruction.shape));
    }
    match infer::shape(&state.module, instruction) {
        Some(Ok(shape)) => Ok(shape),
        Some(Err(reason)) => Err(errors::shape_needed(opcode, &format!(": {reason}"))),
        None => Err(errors::shape_needed(opcode, "")),
    }
}

/// A shape, if one stands in front of the opcode.
fn optional_shape<'a>(state: &mut State<'a>, input: &'a str) -> Res<'a, Option<ShapeRef>> {
    match state.shapes.shape(input) {
        Ok((rest, shape)) => Ok((rest, Some(shape))),
        Err(nom::Err::Error(_)) => Ok((input, None)),
        Err(error) => Err(error),
    }
}

fn opcode_word(input: &str) -> Res<'_, &str> {
    let at = skip_blank(input);
    bare_word(at).map_err(|_| errors::expected("an opcode", at))
}

/// The opcode; one that is not known is kept if its shape is given and it does not look like a slip of the keyboard.
fn known_opcode(text: &str, has_shape: bool) -> Result<Opcode, nom::Err<lex::Problem<'_>>> {
    if let Some(opcode) = Opcode::from_name(text) {
        return Ok(opcode);
    }
    if !has_shape {
        return Err(errors::unknown_opcode(text, ", and it has no result shape"));
    }
    let is_slip = text.len() >= 6 && similar::closest(text, Opcode::all().map(Opcode::name)).is_some();
    let is_async = ["-start", "-update", "-done"].iter().any(|suffix| text.ends_with(suffix));
    if is_slip && !is_async { Err(errors::unknown_opcode(text, "")) } else { Ok(Opcode::Unknown) }
}

/// What stands between the parentheses.
fn operand_part<'a>(
    state: &mut State<'a>,
    scope: &mut Scope<'a>,
    opcode: Opcode,
    text: &'a str,
    input: &'a str,
) -> Res<'a, (Operands, Payload)> {
    let at = skip_blank(input);
    if !at.starts_with('(') {
        return Err(errors::expected(&format!("`(` after `{text}`"), at));
    }
    match opcode {
        Opcode::Constant => {
            let (rest, literal) = literal::literal(at)?;
            Ok((rest, (Operands::new(), Payload::Literal(literal.as_ref().into()))))
        }
        Opcode::Parameter => {
            let (rest, number) = parameter_number(at)?;
            Ok((rest, (Operands::new(), Payload::Parameter(number))))
        }
        Opcode::Unknown => unknown_operands(state, scope, text, at),
        _ => {
            let (rest, operands) = operands(state, scope, at)?;
            Ok((rest, (operands, Payload::None)))
        }
    }
}

/// `(3)`.
fn parameter_number(input: &str) -> Res<'_, i64> {
    let (inside, ()) = symbol('(').parse(input)?;
    match integer(inside) {
        Ok((rest, number)) if next_is(rest, ')') => symbol(')').parse(rest).map(|(rest, ())| (rest, number)),
        Err(error @ nom::Err::Failure(_)) => Err(error),
        _ => Err(errors::expected("a parameter number", skip_blank(inside))),
    }
}

/// Operands of an opcode this version does not know: names if they are names, else verbatim.
fn unknown_operands<'a>(
    state: &mut State<'a>,
    scope: &mut Scope<'a>,
    text: &'a str,
    at: &'a str,
) -> Res<'a, (Operands, Payload)> {
    let opcode = SmolStr::new(text);
    let added = scope.instructions.len();
    if let Ok((rest, operands)) = operands(state, scope, at) {
        return Ok((rest, (operands, Payload::Unknown(Box::new(UnknownOpcode { opcode, operands: None })))));
    }
    scope.instructions.truncate(added);
    let (rest, group) = lex::group(b'(', b')')(at)?;
    let inside = lex::verbatim(&group[1..group.len() - 1]);
    let unknown = UnknownOpcode { opcode, operands: Some(inside.into()) };
    Ok((rest, (Operands::new(), Payload::Unknown(Box::new(unknown)))))
}

/// `(a, b, c)`.
fn operands<'a>(state: &mut State<'a>, scope: &mut Scope<'a>, input: &'a str) -> Res<'a, Operands> {
    let (mut input, ()) = symbol('(').parse(input)?;
    let mut operands = Operands::new();
    if let Ok((rest, ())) = symbol(')').parse(input) {
        return Ok((rest, operands));
    }
    loop {
        let (rest, id) = operand(state, scope, input)?;
        operands.push(id);
        let rest = skip_blank(rest);
        match rest.as_bytes().first() {
            Some(b',') => input = &rest[1..],
            Some(b')') => return Ok((&rest[1..], operands)),
            _ => return Err(errors::expected("`,` or `)` after an operand", rest)),
        }
    }
}

/// `name`, `shape name`, or an instruction written in place.
fn operand<'a>(state: &mut State<'a>, scope: &mut Scope<'a>, input: &'a str) -> Res<'a, InstructionId> {
    let at = skip_blank(input);
    if at.starts_with('%') {
        let (rest, (name, _)) = lex::name(at)?;
        return Ok((rest, resolve(state, scope, name, None)?));
    }
    let (rest, shape) = optional_shape(state, at)?;
    let target = skip_blank(rest);
    if let Some(shape) = shape.as_ref().filter(|_| state.invents_parameters && target.starts_with([',', ')'])) {
        return Ok((target, invent(state, scope, None, shape)));
    }
    let Ok((after, (word, percent))) = name(target) else { return Err(errors::expected("an operand", target)) };
    if !percent && next_is(after, '(') {
        return nested(state, scope, word, at);
    }
    let id = resolve(state, scope, word, shape.as_ref())?;
    // After a problem the id may stand for an instruction that could not be read.
    if let Some(shape) = shape.filter(|_| state.problems.is_empty()) {
        let actual = &state.module.instruction(id).shape;
        if !shape.compatible_bounds(actual) {
            let written = &at[..at.len() - rest.len()];
            return Err(errors::operand_shape(written, &shape.to_string(), word, &actual.to_string()));
        }
    }
    Ok((after, id))
}

/// An operand by name; a new parameter if the text is one instruction only.
fn resolve<'a>(
    state: &mut State<'a>,
    scope: &mut Scope<'a>,
    name: &'a str,
    shape: Option<&ShapeRef>,
) -> Result<InstructionId, nom::Err<lex::Problem<'a>>> {
    let invents = state.invents_parameters && !scope.names.contains_key(name);
    match shape {
        Some(shape) if invents => Ok(invent(state, scope, Some(name), shape)),
        None if invents => Err(errors::undefined_operand(name, scope.name, None)
            .with_note("give the operand a shape to make it a parameter")),
        _ => {
            let id = scope.operand(name)?;
            // A placeholder: the parse has failed already.
            Ok(id.or(scope.instructions.first().copied()).unwrap_or_else(|| InstructionId::new(0)))
        }
    }
}

/// A new parameter for an operand of a text that is one instruction only; called `_0`, `_1`, ... if it has no name.
fn invent<'a>(state: &mut State<'a>, scope: &mut Scope<'a>, name: Option<&'a str>, shape: &ShapeRef) -> InstructionId {
    let number = scope.instructions.len();
    let written = name.map_or_else(|| format_smolstr!("_{number}"), SmolStr::new);
    let parameter = Instruction::new(written, Arc::clone(shape), Opcode::Parameter, [])
        .with_payload(Payload::Parameter(number as i64));
    let id = state.add(scope, parameter);
    if let Some(name) = name {
        scope.names.insert(name, Some(id));
    }
    id
}

/// An instruction written where an operand's name may stand. It has no attributes and gets a name of its own.
fn nested<'a>(state: &mut State<'a>, scope: &mut Scope<'a>, opcode: &'a str, at: &'a str) -> Res<'a, InstructionId> {
    if Opcode::from_name(opcode).is_none() {
        return Err(errors::unknown_opcode(opcode, " and no operand"));
    }
    if state.depth >= MAX_DEPTH {
        return Err(errors::too_deep("operands", MAX_DEPTH, at));
    }
    let (input, shape) = optional_shape(state, at)?;
    let (input, text) = opcode_word(input)?;
    let opcode = known_opcode(text, shape.is_some())?;
    state.depth += 1;
    let inside = operand_part(state, scope, opcode, text, input);
    state.depth -= 1;
    let (rest, (operands, payload)) = inside?;
    let name = anonymous_name(scope, text);
    let token: ShapeRef = Arc::new(crate::Shape::Token);
    let mut instruction = Instruction::new(name, token, opcode, operands).with_payload(payload);
    instruction.span = Some(state.span_between(at, rest));
    instruction.shape = match shape {
        Some(shape) => shape,
        None => infer_shape(state, &instruction, text)?,
    };
    Ok((rest, state.add(scope, instruction)))
}

/// `add.anon`, `add.anon.1`, ...: the first name that no instruction of the computation has.
fn anonymous_name<'a>(scope: &mut Scope<'a>, opcode: &'a str) -> SmolStr {
    loop {
        let count = scope.anonymous.entry(opcode).or_insert(0);
        let name = match *count {
            0 => format_smolstr!("{opcode}.anon"),
            count => format_smolstr!("{opcode}.anon.{count}"),
        };
        *count += 1;
        if !scope.names.contains_key(name.as_str()) {
            return name;
        }
    }
}

/// Skips to where the next instruction may begin: behind a line end, in front of something that looks like `name =`,
/// `ROOT` or the closing brace. `None` at the end of the text.
pub(super) fn recover(input: &str) -> Option<&str> {
    let mut rest = input;
    loop {
        let line_end = memchr::memchr(b'\n', rest.as_bytes())?;
        rest = &rest[line_end + 1..];
        let next = skip_blank(rest);
        if next.starts_with('}') || starts_instruction(next) {
            return Some(next);
        }
    }
}

fn starts_instruction(input: &str) -> bool {
    let (input, _) = root_mark(input);
    let read: Res<'_, ()> = name(input).and_then(|(rest, _)| symbol('=').parse(rest));
    read.is_ok() || mismatch::<()>(input).is_ok()
}
