//! Lets a loop write the array that it fills over the one that it reads.
//!
//! Waste: a loop that takes a row of one array in each step and writes a row of another holds both whole, although row `t` of the first is not needed any more
//! when row `t` of the second is there. A scan over layers does so with the keys and values of all tokens before: the cache stands in memory twice.
//!
//! ```text
//! while(tuple(%i, %zeros, %cache)):                            while(tuple(%i, %cache, 0)):
//!   %row = dynamic-slice(%cache, %i)                  =>         %row = dynamic-slice(%filled, %i)
//!   %new = f(%row)                                               %new = f(%row)
//!   dynamic-update-slice(%filled, %new, %i)                      dynamic-update-slice(%filled, %new, %i)
//! ```
//!
//! Sound because the loop counts, and in each step reads and writes the row of that number alone: what it reads was not written before. All rows are written, so
//! nothing shows what the filled array began with. Grade: bitwise.
//!
//! XLA's copy insertion leaves the array in place if each row that is written is computed from the row that is read, and nothing else reads the array once the loop has begun. The
//! estimate says whether it does.
//!
//! Stays away from
//!
//! - scheduled modules, and arrays of less than a hundredth of all memory;
//! - arguments of the program that are not donated, and arrays that something else reads which may run later: XLA would copy them;
//! - loops of which steps read other rows than they write, and loops that share their bodies or carry shardings.

// Tests: `passes/tests/in_place_stacks.rs`.

use hlo_ir::arena::SideTable;
use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, ElementType, InstructionId, Module, Opcode, Shape, graph};
use hlo_memory::{Bytes, size};

use crate::loops::row_slices::{Loops, RowReader, in_each_loop};
use crate::loops::{Stack, Stacks, replace_state};
use crate::objective::least_saving;
use crate::recompute::insertion_point::number;
use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct InPlaceStacks;

impl Pass for InPlaceStacks {
    fn name(&self) -> &'static str {
        "in-place-stacks"
    }
    fn summary(&self) -> &'static str {
        "let a loop write the array that it fills over the one that it reads"
    }
    crate::explanation!("in_place_stacks.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        in_each_loop(context, of_loop)
    }
}

/// An array that a loop reads, and the one that it can write over it.
struct Pair {
    reader: RowReader,
    /// The element of the state that is filled.
    filled: usize,
    /// That element inside of the body.
    taken: InstructionId,
    bytes: Bytes,
}

/// One finding for all pairs of a loop, and one for each.
fn of_loop(context: &Context<'_>, loops: &Loops<'_>, site: InstructionId) -> Vec<Finding> {
    let pairs = pairs(context, loops, site);
    let each = pairs.chunks(1).filter(|_| pairs.len() > 1);
    [&pairs[..]].into_iter().chain(each).filter_map(|pairs| finding(context.module, pairs)).collect()
}

fn pairs(context: &Context<'_>, loops: &Loops<'_>, site: InstructionId) -> Vec<Pair> {
    let module = context.module;
    let Some(mut stacks) = Stacks::of(module, site) else { return Vec::new() };
    let least = least_saving(context);
    let mut pairs: Vec<Pair> = Vec::new();
    for number in 0..stacks.list.len() {
        let Stack { element: filled, ref array, .. } = stacks.list[number];
        let is_alike = |&at: &usize| at != filled && module.instruction(stacks.initial[at]).array() == Some(array);
        let alike: Vec<usize> = (0..stacks.initial.len()).filter(is_alike).collect();
        let Some(bytes) = size::array_size(array).filter(|&bytes| bytes >= least && !alike.is_empty()) else {
            continue;
        };
        let Some(write) = sole_write(loops, &stacks, filled) else { continue };
        let feeds = graph::cone(module, [module.instruction(write).operands[1]]);
        let reader = alike.into_iter().find_map(|at| {
            let is_free = pairs.iter().all(|pair| pair.reader.element != at);
            let reader = loops.reader(site, at).filter(|_| is_free)?;
            let fits =
                can_be_overwritten(context, &stacks, at) && reads_what_it_writes(module, &mut stacks, &reader, &feeds);
            fits.then_some(reader)
        });
        pairs.extend(reader.map(|reader| Pair { reader, filled, taken: module.instruction(write).operands[0], bytes }));
    }
    pairs
}

/// The `dynamic-update-slice` that writes rows of a stack, if nothing else in the loop sees the array.
fn sole_write(loops: &Loops<'_>, stacks: &Stacks, element: usize) -> Option<InstructionId> {
    let module = loops.module;
    let looping = module.instruction(stacks.site);
    let (body, condition) = (looping.computation(&AttrKey::Body)?, looping.computation(&AttrKey::Condition)?);
    let ([state], [asked]) = (&module.parameters(body)[..], &module.parameters(condition)[..]) else { return None };
    let root = module.computation(body).root;
    let write = *module.instruction(root).operands.get(element)?;
    let inst = module.instruction(write);
    let taken = loops.elements(*state, element)?;
    let alone = inst.opcode == Opcode::DynamicUpdateSlice
        && inst.control_predecessors().is_empty()
        && taken[..] == inst.operands[..1]
        && loops.users.get(taken[0]) == [write]
        && loops.users.get(write) == [root]
        && module.instruction(root).operands.iter().filter(|&&operand| operand == write).count() == 1;
    (alone && loops.is_unused_behind(*asked, element)).then_some(write)
}

/// Whether a loop may write over what an element begins with: it stands in memory of its own, and what else reads it runs before the loop.
fn can_be_overwritten(context: &Context<'_>, stacks: &Stacks, element: usize) -> bool {
    let module = context.module;
    let value = stacks.initial[element];
    let inst = module.instruction(value);
    let is_donated = |number: i64| module.input_output_aliases().iter().any(|alias| alias.operand == number);
    let is_kept = inst.parent == module.entry() && inst.parameter_number().is_some_and(|number| !is_donated(number));
    let before = graph::cone(module, [module.instruction(stacks.site).operands[0]]);
    !is_kept && context.users.get(value).iter().all(|&user| before[user])
}

/// Whether a loop reads of an array only the row that it writes, and computes from it what it writes.
fn reads_what_it_writes(
    module: &Module,
    stacks: &mut Stacks,
    reader: &RowReader,
    feeds: &SideTable<InstructionId, bool>,
) -> bool {
    let is_row_of_step = |stacks: &mut Stacks, slice: InstructionId| {
        let value = stacks.body.top(module, slice);
        let start = stacks.body.row_start(module, value, 1);
        let order = start.and_then(|start| stacks.body.order(module, start, stacks.rows));
        value.inst == slice && order == Some(stacks.order)
    };
    reader.inner.is_empty()
        && reader
            .taken
            .iter()
            .all(|taken| taken.dim == 0 && taken.rows == 1 && feeds[taken.slice] && is_row_of_step(stacks, taken.slice))
}

fn finding(module: &Module, pairs: &[Pair]) -> Option<Finding> {
    let first = &pairs.first()?.reader;
    let name = &module.instruction(first.site).name;
    let initial = &module.instruction(first.initial).operands;
    let values: Vec<&str> =
        pairs.iter().map(|pair| module.instruction(initial[pair.reader.element]).name.as_str()).collect();
    let note = format!("`{name}` writes what it fills over {}", listed(&values));
    let condition = |text: &str| Condition { text: text.to_owned(), discharged_by: "structure" };
    let conditions = vec![
        condition("each step reads the row that it writes, before it writes it, and no other"),
        condition("all rows are written"),
    ];
    let patch = patch(module, pairs)?;
    let wasted = pairs.iter().map(|pair| pair.bytes).sum();
    let outcome = Outcome::Rewrite { patch, note, conditions };
    Some(Finding { instruction: initial[pairs[0].filled], grade: Grade::Bitwise, wasted, outcome })
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("`{one}`, which it reads"),
        [one, _] => format!("`{one}` and 1 more array that it reads"),
        [one, others @ ..] => format!("`{one}` and {} more arrays that it reads", others.len()),
    }
}

/// Lets the loop begin with what it reads in the place of what it fills, and with a number in the place of the former.
fn patch(module: &Module, pairs: &[Pair]) -> Option<Patch> {
    let reader = &pairs.first()?.reader;
    let mut patch = Patch::new(module);
    let initial = module.instruction(reader.initial);
    let mut operands = initial.operands.to_vec();
    let mut shapes = initial.shape.as_tuple()?.to_vec();
    for Pair { reader, filled, .. } in pairs {
        operands[*filled] = operands[reader.element];
        operands[reader.element] = patch.add(initial.parent, number("row_constant", ElementType::S32, 0));
        shapes[reader.element] = Shape::array(ElementType::S32, []);
    }
    let results = module.instruction(module.computation(reader.body).root).operands.to_vec();
    replace_state(module, &mut patch, reader.site, (&shapes, &operands, &results));
    for Pair { reader, taken, .. } in pairs {
        for slice in &reader.taken {
            let mut inst = module.instruction(slice.slice).clone();
            inst.operands[0] = *taken;
            patch.rewrite(slice.slice, inst);
        }
    }
    Some(patch)
}
