//! Memory that XLA:CPU's report leaves out: what a library fusion computes for itself while it runs.
//!
//! The library works through elementwise operations and reductions in small tiles. The result of a dot or convolution inside a fusion it
//! writes down whole, unless [`tiles`] finds that it is reduced tile by tile as well. When it is freed is up to the library.

use crate::hash::IndexMap;
use hlo_ir::{AttrKey, ComputationId, InstructionId, Module, Opcode};

use super::Hidden;
use crate::Bytes;
use crate::assignment::Assignment;
use crate::names::Called;
use crate::size::shape_size;

mod tiles;

/// Most fusions that are listed.
const LISTED: usize = 10;

/// What the library fusion with most scratch of its own takes. Fusions run one after the other, or wait for each other's threads. Tiles do not
/// count: the library decides how large they are, and no rewrite is worth its while for them. Nor do convolutions of what was convolved, which
/// took anything between nothing and all of it: a rewrite that takes them out of the library would raise XLA's own total for sure.
pub(crate) fn most_hidden(assignment: &Assignment<'_>) -> Bytes {
    let module = assignment.module();
    let bodies = assignment.schedule().iter().filter_map(|&id| library_body(module, id));
    let convolves = |&id: &InstructionId| module.instruction(id).opcode == Opcode::Convolution;
    let certain = bodies.filter(|&body| !module.computation(body).instructions.iter().any(convolves));
    let whole = certain.filter(|&body| tiles::of_only_product(module, body).is_none());
    whole.map(|body| scratch(module, body)).max().unwrap_or_default()
}

/// The library fusions with scratch of their own, most first.
pub(super) fn hidden(assignment: &Assignment<'_>) -> Vec<(InstructionId, Bytes)> {
    let module = assignment.module();
    let body = |&id: &InstructionId| Some((id, library_body(module, id)?));
    let scratched = assignment.schedule().iter().filter_map(body).map(|(id, body)| (id, scratch(module, body)));
    let mut found: Vec<_> = scratched.filter(|&(_, bytes)| bytes > Bytes::ZERO).collect();
    // Equal amounts stay in the order in which they run.
    found.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    found.truncate(LISTED);
    found
}

/// One of them with its name.
pub(super) fn in_words(
    assignment: &Assignment<'_>,
    &(id, bytes): &(InstructionId, Bytes),
    called: &dyn Called,
) -> Hidden {
    let (instruction, computation) = assignment.names(id, called);
    Hidden { instruction, computation, source: assignment.source(id), bytes }
}

fn library_body(module: &Module, id: InstructionId) -> Option<ComputationId> {
    let inst = module.instruction(id);
    let is_library = inst.opcode == Opcode::Fusion && inst.word(&AttrKey::Kind) == Some("kCustom");
    if is_library { inst.computation(&AttrKey::Calls) } else { None }
}

/// Most bytes of products alive at once. A product is alive until the last reader that sees its elements, through whatever is done in tiles.
fn scratch(module: &Module, body: ComputationId) -> Bytes {
    let root = module.computation(body).root;
    let order = &module.computation(body).instructions;
    // For every value, the products whose elements it is made of tile by tile; and the last position at which each is needed.
    let mut from: IndexMap<InstructionId, Vec<InstructionId>> = IndexMap::default();
    let mut last: IndexMap<InstructionId, (usize, usize)> = IndexMap::default();
    for (position, &id) in order.iter().enumerate() {
        let operands = module.instruction(id).operands.iter();
        let mut products: Vec<InstructionId> =
            operands.flat_map(|operand| from.get(operand).cloned().unwrap_or_default()).collect();
        products.sort_unstable();
        products.dedup();
        for product in &products {
            last.entry(*product).and_modify(|(_, end)| *end = position);
        }
        if is_product(module, id) && id != root {
            last.insert(id, (position, position));
            products = vec![id];
        } else if is_product(module, id) {
            products.clear();
        }
        from.insert(id, products);
    }
    let tile = tiles::of_only_product(module, body);
    let alive = |position: usize| -> Bytes {
        let here = last.iter().filter(|(_, (start, end))| *start <= position && position <= *end);
        here.filter_map(|(&id, _)| tile.or_else(|| shape_size(module.shape(id)))).sum()
    };
    (0..order.len()).map(alive).max().unwrap_or_default()
}

/// Whether the library multiplies and sums here.
fn is_product(module: &Module, id: InstructionId) -> bool {
    matches!(module.instruction(id).opcode, Opcode::Dot | Opcode::Convolution)
}
