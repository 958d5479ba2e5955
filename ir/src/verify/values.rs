//! V9: values of attributes that are kept as text or as words. Only what contradicts itself or is a word of a closed set is refused: a later XLA
//! may know more kinds of shardings and more algorithms. The sets follow the value parsers of `hlo_parser.cc`.

use crate::diagnostic::shortened;
use crate::{AttrKey as K, Attribute, Instruction, Module, Opcode as O, Shape};

/// Words that an attribute can be, in lower case; XLA reads most of them in any case.
const WORDS: &[(K, &[&str])] = &[
    (K::CompareType, &["float", "totalorder", "signed", "unsigned"]),
    (K::FftType, &["fft", "ifft", "rfft", "irfft"]),
];

/// As [`WORDS`], for keys that have no name of their own here.
const OTHER_WORDS: &[(&str, &[&str])] = &[
    ("schedule", &["schedule_none", "schedule_latest", "schedule_earliest"]),
    ("padding_type", &["padding_invalid", "padding_valid", "padding_same"]),
];

/// What is wrong with a value, without the attribute's name.
type Verdict = Result<(), String>;

/// The first attribute whose value cannot be.
pub(super) fn check(module: &Module, inst: &Instruction) -> Result<(), String> {
    for attribute in &inst.attributes {
        value(module, inst, attribute).map_err(|wrong| format!("attribute {} {wrong}", attribute.key.name()))?;
    }
    Ok(())
}

fn value(module: &Module, inst: &Instruction, attribute: &Attribute) -> Verdict {
    let Some(text) = attribute.value.text() else {
        return match attribute.key {
            K::ChannelId => channel(module, inst),
            _ => Ok(()),
        };
    };
    let text = text.trim();
    match &attribute.key {
        K::CustomCallTarget => string(text),
        K::Algorithm if inst.opcode == O::RngBitGenerator => {
            one_of(text, &["rng_default", "rng_three_fry", "rng_philox"])
        }
        K::Algorithm if inst.opcode == O::Dot => begins(text, "dot_"),
        K::OperandPrecision => {
            items(text).try_for_each(|item| one_of(item, &["default", "high", "highest", "packed_nibble"]))
        }
        K::Sharding => super::sharding::check(text),
        K::OperandLayoutConstraints => layouts(module, inst),
        K::ParameterReplication => replication(inst, text),
        K::BackendConfig => string_or_dictionary(text),
        K::FrontendAttributes => crate::proto::check_frontend_attributes(text),
        K::Unknown(name) if **name == "api_version" && text == "API_VERSION_UNSPECIFIED" => {
            Err("must say which version it is".to_owned())
        }
        K::Unknown(name) if **name == "api_version" => begins(text, "API_VERSION_"),
        K::Unknown(name) if **name == "epsilon" => number(text),
        K::Unknown(name) if **name == "domain" => domain(text),
        K::Unknown(name) if **name == "async_execution_thread" => string(text),
        K::Unknown(name) if **name == "literal" && inst.opcode == O::CustomCall => shaped_literal(text),
        K::ResultAccuracy => accuracy(text),
        K::Metadata => strings(text),
        key => {
            let own = WORDS.iter().find(|row| row.0 == *key).map(|row| row.1);
            let other = || OTHER_WORDS.iter().find(|row| row.0 == key.name()).map(|row| row.1);
            own.or_else(other).map_or(Ok(()), |words| one_of(text, words))
        }
    }
}

fn one_of(text: &str, words: &[&str]) -> Verdict {
    if words.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return Ok(());
    }
    Err(format!("is {}, but must be one of {}", shortened(text), words.join(", ")))
}

fn begins(text: &str, start: &str) -> Verdict {
    if text.starts_with(start) { Ok(()) } else { Err(format!("is {}, but must begin with {start}", shortened(text))) }
}

fn string_or_dictionary(text: &str) -> Verdict {
    if text.starts_with('{') { Ok(()) } else { string(text) }
}

fn string(text: &str) -> Verdict {
    let quoted = text.len() >= 2 && [b'"', b'\''].contains(&text.as_bytes()[0]);
    if quoted { Ok(()) } else { Err(format!("is {}, but must be a string in quotes", shortened(text))) }
}

fn number(text: &str) -> Verdict {
    let named = || ["inf", "-inf", "nan"].contains(&text);
    match text.parse::<f32>() {
        Ok(value) if value.is_finite() || named() => Ok(()),
        Ok(_) => Err(format!("is {}, which is out of range", shortened(text))),
        Err(_) => Err(format!("is {}, but must be a number", shortened(text))),
    }
}

/// `{mode=highest}` or `{tolerance={atol=1e-05,rtol=0,ulps=1}}`.
fn accuracy(text: &str) -> Verdict {
    crate::proto::check_result_accuracy(text).map_err(|problem| format!("is {}: {problem}", shortened(text)))
}

/// XLA knows one kind of domain.
fn domain(text: &str) -> Verdict {
    let kind = text.split_once("kind=").map(|(_, behind)| behind.trim_start());
    if kind.is_some_and(|kind| kind.starts_with("\"sharding\"")) {
        let missing = ["entry=", "exit="].into_iter().find(|side| !text.contains(side));
        return missing.map_or(Ok(()), |side| Err(format!("is {}, without `{side}`", shortened(text))));
    }
    Err(format!("is {}, but its kind must be \"sharding\"", shortened(text)))
}

/// Shapes and values, as in `s32[2]{0} {1, 2}`. XLA takes a brace with a number behind a shape for its layout.
fn shaped_literal(text: &str) -> Verdict {
    let (shape, value) =
        crate::text::shaped_literal(text).map_err(|problem| format!("is {}: {problem}", shortened(text)))?;
    super::shapes::check_value(&shape, &value).map_err(|problem| format!("is {}: {problem}", shortened(text)))
}

/// Strings of C, in which only some letters may follow a backslash.
fn strings(text: &str) -> Verdict {
    crate::proto::check_strings(text)
}

/// The items of `{a, b}`.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    inside.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// The receiving or sending half names the channel of the other.
fn channel(module: &Module, inst: &Instruction) -> Verdict {
    let (O::RecvDone | O::SendDone, Some(&start)) = (inst.opcode, inst.operands.first()) else { return Ok(()) };
    match (inst.int(&K::ChannelId), module.instruction(start).int(&K::ChannelId)) {
        (Some(own), Some(other)) if own != other => {
            Err(format!("is {own}, but `{}` uses {other}", module.instruction(start).name))
        }
        _ => Ok(()),
    }
}

/// One flag for each array of a parameter.
fn replication(inst: &Instruction, text: &str) -> Verdict {
    let (count, wanted) = (items(text).count(), leaves(&inst.shape));
    if inst.opcode != O::Parameter {
        return Err(format!("belongs to parameters, not to `{}`", inst.opcode_name()));
    }
    if count == wanted {
        return Ok(());
    }
    Err(format!("has {count} entries for the {wanted} arrays of {}", inst.shape))
}

fn leaves(shape: &Shape) -> usize {
    match shape {
        Shape::Tuple(parts) => parts.iter().map(|part| leaves(part)).sum(),
        _ => 1,
    }
}

/// Layouts for the operands of a custom call, each of the operand's shape.
fn layouts(module: &Module, inst: &Instruction) -> Verdict {
    let Some(layouts) = inst.operand_layouts() else { return Err("is no list of shapes".into()) };
    if layouts.len() != inst.operands.len() {
        return Err(format!("has {} shapes for {} operands", layouts.len(), inst.operands.len()));
    }
    for (layout, &operand) in layouts.iter().zip(&inst.operands) {
        let actual = module.shape(operand);
        if !layout.compatible(actual) {
            return Err(format!("gives {layout} for `{}` of shape {actual}", module.instruction(operand).name));
        }
    }
    Ok(())
}
