//! V9: shardings. Only what contradicts itself, or makes XLA stop without a message, is refused. Source: `ParseSingleSharding` and
//! `ParseNamedSharding` (xla/hlo/parser/hlo_parser.cc).

use crate::diagnostic::shortened;

/// What is wrong with a value, without the attribute's name.
type Verdict = Result<(), String>;

/// Words that a sharding can begin with, if it does not begin with devices or a mesh.
const KINDS: &[&str] =
    &["replicated", "manual", "unknown", "unreduced", "maximal", "shard_as", "shard_like", "metadata"];

/// A sharding, or a tuple of them.
pub(super) fn check(text: &str) -> Verdict {
    sharding(&without_comments(text))
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once("*/").map_or(part, |(_, behind)| behind))
}

/// Tuples are not nested.
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
    if let Some(at) = inside.find("mesh[") {
        return mesh(&inside[at + "mesh[".len()..]);
    }
    let word = inside.split([' ', ',', '=']).next().unwrap_or_default();
    let devices = inside.find("devices=[");
    match (word, devices) {
        ("replicated" | "manual" | "unknown" | "unreduced", Some(_)) => Err(format!("is {word}, but names devices")),
        ("maximal", _) => one_device(inside),
        (_, Some(at)) => tiles(&inside[at + "devices=[".len()..]),
        ("last_tile_dim_replicate", None) => Err("has no devices to tile".into()),
        ("", None) => Ok(()),
        (word, None) if !KINDS.contains(&word) => {
            Err(format!("is `{}`, but must be devices, a mesh, or one of {}", shortened(word), KINDS.join(", ")))
        }
        _ => Ok(()),
    }
}

/// What stands behind `mesh[`: axes with their sizes, then parts that name these axes. (`maximal_mesh[device_id=1]` has no axes.)
fn mesh(text: &str) -> Verdict {
    let Some((inside, behind)) = text.split_once(']') else { return Err("has no end of its mesh".into()) };
    let mut axes = Vec::new();
    for item in inside.split(',').map(str::trim).filter(|item| !item.is_empty() && !item.starts_with("device_id=")) {
        match item
            .split_once('=')
            .and_then(|(name, size)| Some((quoted(name.trim())?, size.trim().parse::<u64>().ok()?)))
        {
            Some((name, size)) if size > 0 => axes.push(name),
            _ => return Err(format!("has {} in its mesh, which is no axis with a size", shortened(item))),
        }
    }
    let metadata = behind.find("metadata=").unwrap_or(behind.len());
    let mut pieces = behind[..metadata].split(['"', '\'']);
    // Every second piece stands between quotes.
    while let (Some(_), Some(axis)) = (pieces.next(), pieces.next()) {
        if !axes.contains(&axis) {
            return Err(format!("names axis `{}`, which its mesh does not have", shortened(axis)));
        }
    }
    Ok(())
}

/// The text between two quotes.
fn quoted(text: &str) -> Option<&str> {
    let inside = text.strip_prefix(['"', '\''])?.strip_suffix(['"', '\''])?;
    (!inside.is_empty()).then_some(inside)
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
    // -1 stands for the host in XLA's domains.
    match device.map(str::parse::<i64>) {
        Some(Ok(_)) => Ok(()),
        _ => Err("is maximal, but does not name one device".into()),
    }
}

/// What stands behind `devices=[`: `2,2]0,1,2,3` or `2,2]<=[4]`, each device in its place.
fn tiles(text: &str) -> Verdict {
    let Some((dims, devices)) = text.split_once(']') else { return Err("has no end of its tile dimensions".into()) };
    let Some(tiles) = product(dims) else { return Err(format!("has tile dimensions [{}]", shortened(dims))) };
    let iota = devices.strip_prefix("<=[").and_then(|rest| rest.split_once(']'));
    let count = iota.map_or_else(|| Some(leading_numbers(devices)), |(reshape, _)| product(reshape));
    match count {
        Some(1) if !devices.starts_with("<=") => Err("lists one device, which is no tiling".into()),
        Some(count) if count == tiles => Ok(()),
        Some(count) => Err(format!("has {tiles} tiles for {count} devices")),
        None => Err("has no number of devices".into()),
    }
}

/// How many numbers stand at the start of a list; blanks may stand around its commas.
fn leading_numbers(list: &str) -> u64 {
    let words = list.split([',', ' ', '\n', '\r', '\t']).filter(|word| !word.is_empty());
    words.take_while(|word| word.starts_with(|first: char| first.is_ascii_digit())).count() as u64
}

/// The product of a list of sizes, each at least 1.
fn product(list: &str) -> Option<u64> {
    let sizes = list.split(',').map(|size| size.trim().parse::<u64>().ok().filter(|&size| size > 0));
    sizes.into_iter().try_fold(1_u64, |product, size| product.checked_mul(size?))
}
