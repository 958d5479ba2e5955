//! What donating arguments would save. JAX gives a donated argument's memory to an output of the same type and dimensions, so only such
//! pairs are tried; the figure is a new estimate of the module with the pair in its aliasing table.

use std::sync::Arc;

use hlo_ir::attribute::Alias;
use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, Attribute, InstructionId, Module, Shape};

use super::{Change, WhatIf};
use crate::{Bytes, Estimate, Target, assignment, size};

/// An argument and the output that could take over its memory.
struct Pair {
    parameter: i64,
    id: InstructionId,
    alias: Alias,
    bytes: u64,
}

/// Answers at most `questions` questions, about the largest arguments first.
pub(super) fn answers(
    module: &Module,
    target: Target,
    before: &Estimate,
    questions: usize,
    again: &dyn Fn(&Module) -> Option<Estimate>,
) -> Vec<WhatIf> {
    let mut pairs = pairs(module);
    pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.bytes), pair.parameter));
    if module.is_scheduled() {
        // A finished schedule may read the argument after the output is written; the compiler would have to copy, and nothing is won.
        let Ok(assignment) = assignment::assign_for(module, target) else { return Vec::new() };
        pairs.retain(|pair| assignment.could_hand_over(pair.id, &pair.alias.operand_index, &pair.alias.output));
    }
    let saved = |pairs: &[Pair]| {
        let aliases = pairs.iter().map(|pair| pair.alias.clone());
        let after = again(&with_aliases(module, aliases))?;
        Some(before.total - after.total)
    };
    let mut answers = Vec::new();
    if pairs.len() > 1 {
        let all = saved(&pairs).map(|saved| WhatIf { change: Change::DonateAll { count: pairs.len() }, saved });
        answers.extend(all);
    }
    let single = questions - answers.len();
    for pair in pairs.iter().take(single) {
        let inst = module.instruction(pair.id);
        let shape = inst.shape.at(&pair.alias.operand_index).map(ToString::to_string).unwrap_or_default();
        let change = Change::Donate { parameter: pair.parameter, name: inst.name.clone(), shape };
        answers.extend(saved(std::slice::from_ref(pair)).map(|saved| WhatIf { change, saved }));
    }
    answers
}

/// Every argument that is not donated with the first free output of its type and dimensions. No output is named twice.
fn pairs(module: &Module) -> Vec<Pair> {
    let entry = module.entry();
    let mut outputs = leaves(module.shape(module.computation(entry).root));
    outputs.retain(|(index, _)| module.input_output_aliases().iter().all(|alias| alias.output != *index));
    let mut pairs = Vec::new();
    for (id, number) in module.parameters(entry).into_iter().zip(0_i64..) {
        for (operand_index, shape) in leaves(module.shape(id)) {
            if is_donated(module, number, &operand_index) {
                continue;
            }
            let Some(at) = outputs.iter().position(|(_, output)| output.compatible(shape)) else { continue };
            let (output, _) = outputs.remove(at);
            let bytes = size::shape_size(shape).map_or(0, Bytes::get);
            let alias = Alias { output, operand: number, operand_index, kind: "may-alias".into() };
            pairs.push(Pair { parameter: number, id, alias, bytes });
        }
    }
    pairs
}

fn is_donated(module: &Module, number: i64, index: &Dims) -> bool {
    let aliased = |alias: &Alias| alias.operand == number && alias.operand_index == *index;
    let donors = match module.attribute(&AttrKey::BufferDonor) {
        Some(AttrValue::Donors(donors)) => donors.as_slice(),
        _ => &[],
    };
    module.input_output_aliases().iter().any(aliased)
        || donors.iter().any(|(donor, at)| *donor == number && at == index)
}

/// The arrays of a shape with their tuple indices.
fn leaves(shape: &Shape) -> Vec<(Dims, &Shape)> {
    let mut found = Vec::new();
    let mut stack = vec![(Dims::new(), shape)];
    while let Some((index, shape)) = stack.pop() {
        match shape {
            Shape::Tuple(elements) => {
                let inner = |(k, element)| {
                    let mut index = index.clone();
                    index.push(k as i64);
                    (index, std::sync::Arc::<Shape>::as_ref(element))
                };
                stack.extend(elements.iter().enumerate().rev().map(inner));
            }
            Shape::Array(_) => found.push((index, shape)),
            _ => {}
        }
    }
    found
}

/// The module with more entries in its aliasing table.
fn with_aliases(module: &Module, more: impl Iterator<Item = Alias>) -> Module {
    let aliases: Vec<Alias> = module.input_output_aliases().iter().cloned().chain(more).collect();
    let mut changed = module.clone();
    changed.attributes.retain(|attribute| attribute.key != AttrKey::InputOutputAlias);
    changed.attributes.push(Attribute::new(AttrKey::InputOutputAlias, AttrValue::Aliases(Arc::new(aliases))));
    changed
}
