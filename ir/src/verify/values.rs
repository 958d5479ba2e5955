//! V9: values of attributes that are kept as text or as words. Only what contradicts itself or is a word of a closed set is refused: a later XLA
//! may know more kinds of shardings and more algorithms. The sets follow the value parsers of `hlo_parser.cc`.

use crate::diagnostic::shortened;
use crate::{AttrKey as K, AttrValue, Attribute, Instruction, Module, Opcode as O, Shape};

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
    let (AttrValue::Word(text) | AttrValue::Raw(text)) = &attribute.value else {
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
        K::Sharding => sharding(&without_comments(text)),
        K::OperandLayoutConstraints => layouts(module, inst),
        K::ParameterReplication => replication(inst, text),
        K::BackendConfig => string_or_dictionary(text),
        K::FrontendAttributes => crate::proto::check_frontend_attributes(text),
        K::Unknown(name) if name == "api_version" && text == "API_VERSION_UNSPECIFIED" => {
            Err("must say which version it is".to_owned())
        }
        K::Unknown(name) if name == "api_version" => begins(text, "API_VERSION_"),
        K::Unknown(name) if name == "epsilon" => number(text),
        K::Unknown(name) if name == "async_execution_thread" => thread(module, inst, text),
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
    text.parse::<f64>().map(drop).map_err(|_| format!("is {}, but must be a number", shortened(text)))
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

/// The thread of an asynchronous call is that of the computation it calls.
fn thread(module: &Module, inst: &Instruction, text: &str) -> Verdict {
    for callee in inst.called_computations() {
        let callee = module.computation(callee);
        let declared = match crate::attribute::find(&callee.attributes, &K::ExecutionThread) {
            Some(AttrValue::Raw(thread) | AttrValue::Word(thread)) => thread.as_str(),
            _ => "\"main\"",
        };
        if declared != text {
            return Err(format!("is {}, but computation `{}` runs on {declared}", shortened(text), callee.name));
        }
    }
    Ok(())
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

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once("*/").map_or(part, |(_, behind)| behind))
}

/// A sharding, or a tuple of them; tuples are not nested. Named shardings and words that are not known are left to XLA.
fn sharding(text: &str) -> Verdict {
    let inside = inside_braces(text)?;
    if inside.starts_with('{') {
        parts(inside).into_iter().try_for_each(single_sharding)
    } else {
        single_sharding(text)
    }
}

fn inside_braces(text: &str) -> Result<&str, String> {
    let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inside.map(str::trim).ok_or_else(|| format!("is {}, but must stand in braces", shortened(text)))
}

fn single_sharding(text: &str) -> Verdict {
    let inside = inside_braces(text)?;
    if inside.starts_with('{') {
        return Err("is a tuple in a tuple".into());
    }
    let word = inside.split([' ', ',']).next().unwrap_or_default();
    let devices = inside.find("devices=[").filter(|_| !inside.contains("mesh["));
    match (word, devices) {
        ("replicated" | "manual" | "unknown" | "unreduced", Some(_)) => Err(format!("is {word}, but names devices")),
        ("maximal", _) => one_device(inside),
        (_, Some(at)) => tiles(&inside[at + "devices=[".len()..]),
        ("last_tile_dim_replicate", None) => Err("has no devices to tile".into()),
        _ => Ok(()),
    }
}

/// The groups in braces of `{..}, {..}`.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    found.push(&text[start..=at]);
                }
            }
            _ => {}
        }
    }
    found
}

/// `maximal device=3`.
fn one_device(inside: &str) -> Verdict {
    let device = inside.split_whitespace().find_map(|word| word.strip_prefix("device="));
    match device.map(str::parse::<u64>) {
        Some(Ok(_)) => Ok(()),
        _ => Err("is maximal, but does not name one device".into()),
    }
}

/// What stands behind `devices=[`: `2,2]0,1,2,3` or `2,2]<=[4]`, each device in its place.
fn tiles(text: &str) -> Verdict {
    let Some((dims, devices)) = text.split_once(']') else { return Err("has no end of its tile dimensions".into()) };
    let Some(tiles) = product(dims) else { return Err(format!("has tile dimensions [{}]", shortened(dims))) };
    let iota = devices.strip_prefix("<=[").and_then(|rest| rest.split_once(']'));
    let listed = || devices.split([' ', '}']).next().unwrap_or_default().split(',').filter(|device| !device.is_empty());
    let count = iota.map_or_else(|| Some(listed().count() as u64), |(reshape, _)| product(reshape));
    match count {
        Some(1) if !devices.starts_with("<=") => Err("lists one device, which is no tiling".into()),
        Some(count) if count == tiles => Ok(()),
        Some(count) => Err(format!("has {tiles} tiles for {count} devices")),
        None => Err("has no number of devices".into()),
    }
}

/// The product of a list of sizes, each at least 1.
fn product(list: &str) -> Option<u64> {
    let sizes = list.split(',').map(|size| size.trim().parse::<u64>().ok().filter(|&size| size > 0));
    sizes.into_iter().try_fold(1_u64, |product, size| product.checked_mul(size?))
}
