//! Arguments that the caller gives away without saying for which result: each is paired with a result of the same size.
//!
//! Source: `OptimizeInputOutputBufferAlias` (xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.cc).

// Tests: `memory/tests/stages.rs`.

use std::cmp::Ordering;
use std::sync::Arc;

use hlo_ir::attribute::{self, Alias};
use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, AttrValue, Attribute, Shape};

use super::graph::Graph;
use crate::size::array_size;

/// A donated array, or a result that could take one over.
struct Candidate {
    parameter: i64,
    index: Dims,
    bytes: u64,
}

/// Turns `buffer_donor` entries of the header into aliases of results, largest first.
pub(crate) fn run(graph: &mut Graph) {
    let Some(AttrValue::Donors(donors)) = attribute::find(&graph.attributes, &AttrKey::BufferDonor).cloned() else {
        return;
    };
    let mut aliases = match attribute::find(&graph.attributes, &AttrKey::InputOutputAlias) {
        Some(AttrValue::Aliases(aliases)) => aliases.to_vec(),
        _ => Vec::new(),
    };
    let entry = graph.entry();
    let mut given = Vec::new();
    for (number, parameter) in graph.parameters(entry).into_iter().enumerate() {
        collect(graph.shape(parameter), number as i64, &mut Dims::new(), &mut given);
    }
    given.retain(|given: &Candidate| {
        let taken = |alias: &Alias| alias.operand == given.parameter && alias.operand_index == given.index;
        donors.contains(&(given.parameter, given.index.clone())) && !aliases.iter().any(taken)
    });
    let mut results = Vec::new();
    collect(graph.shape(graph.root(entry)), 0, &mut Dims::new(), &mut results);
    results.retain(|result: &Candidate| !aliases.iter().any(|alias| alias.output == result.index));
    given.sort_by_key(|candidate| std::cmp::Reverse(candidate.bytes));
    results.sort_by_key(|candidate| std::cmp::Reverse(candidate.bytes));
    aliases.extend(pair(given, results));
    if !aliases.is_empty() {
        graph.attributes.retain(|attribute| attribute.key != AttrKey::InputOutputAlias);
        graph.attributes.push(Attribute::new(AttrKey::InputOutputAlias, AttrValue::Aliases(Arc::new(aliases))));
    }
}

/// All static arrays of a shape.
fn collect(shape: &Shape, parameter: i64, index: &mut Dims, found: &mut Vec<Candidate>) {
    match shape {
        Shape::Array(array) if !array.is_dynamic() => {
            if let Some(bytes) = array_size(array) {
                found.push(Candidate { parameter, index: index.clone(), bytes: bytes.get() });
            }
        }
        Shape::Tuple(elements) => {
            for (position, element) in elements.iter().enumerate() {
                index.push(position as i64);
                collect(element, parameter, index, found);
                index.pop();
            }
        }
        _ => {}
    }
}

/// Walks both lists from the largest to the smallest and pairs equal sizes.
fn pair(given: Vec<Candidate>, results: Vec<Candidate>) -> Vec<Alias> {
    let (mut given, mut results) = (given.into_iter().peekable(), results.into_iter().peekable());
    let mut aliases = Vec::new();
    while let (Some(from), Some(to)) = (given.peek(), results.peek()) {
        match from.bytes.cmp(&to.bytes) {
            Ordering::Greater => drop(given.next()),
            Ordering::Less => drop(results.next()),
            Ordering::Equal => {
                aliases.push(Alias {
                    output: to.index.clone(),
                    operand: from.parameter,
                    operand_index: from.index.clone(),
                    kind: "may-alias".into(),
                });
                given.next();
                results.next();
            }
        }
    }
    aliases
}
