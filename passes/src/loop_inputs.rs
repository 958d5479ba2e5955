//! Computes the rows of a loop's input in the loop that reads them, instead of all rows before it.
//!
//! Waste: a loop that takes one row after the other, or one block after the other, of something computed (a wider type, a normalised index, a mask)
//! needs all of it in memory first.
//!
//! ```text
//! %wide = s32[N,3] convert(%narrow)                      loop (.., %narrow):
//! loop (.., %wide):                                 =>     %part = s8[B,3] dynamic-slice(%narrow, %i, 0)
//!   %rows = s32[B,3] dynamic-slice(%wide, %i, 0)           %rows = s32[B,3] convert(%part)
//! ```
//!
//! The loop gets what the value is computed from in its place, and so does every loop inside it that the value is handed to. All such values of a
//! loop are offered as one change, beside each of them alone.
//!
//! Sound because the loops hand the value on untouched and read nothing of it but such rows, and because each row is computed by the same operations
//! from the same rows of what stands in memory (dimension flow), at the start that `dynamic-slice` clamps. XLA cannot move it back in front of the
//! loop: the row depends on a number that the loop changes.
//!
//! Grade: bitwise, or hlo-exact where floats come out of what is computed anew and a compiler may join that with what the loop does with them. That
//! holds for products, sums and conversions, for floats that are spread out, joined, padded, counted, reshaped or transposed, and for any
//! computation that a reduction or product of floats reads.
//!
//! Rows may be read more than once (a block loop in a training loop). So only movement of data and elementwise operations without polynomials or
//! roots are computed anew, no more of them than take as long as writing a number and reading it. They must read no more bytes for a row than the
//! row has, but for a hundredth: the loop then moves no more memory than before. Rows that are taken once, as often as they are made in front of the loop, are neither written nor read
//! any more, and less than twice their bytes may be read for them.
//!
//! A gather moves data, too: an epoch that shuffles its examples, and a loop over its batches, need no copy of all examples in the new order. In an epoch that is a step of another
//! loop, what follows from values that this loop changes is made in each epoch. XLA moves the rest out of it, and only long rows of that are read again and again.
//!
//! A row may be taken once, in one place, and be large, made of much or beside products or loops of the step. Then sums, products of many rows and
//! costly functions are computed there too, if nothing else reads them: each of them is made once as before. Rows that lie scattered in memory, less
//! than 256 bytes in a piece, are read by one loop once and by no loop again and again.
//!
//! Stays away from
//!
//! - scheduled modules, and programs so small that memory costs them no time (see `chunk`);
//! - floats of less than 32 bits that are computed (memory rounds them, a fusion need not);
//! - values of less than a hundredth of all memory;
//! - loops whose value anything else reads, and loops that share their bodies or carry shardings.

// Tests: `passes/tests/loop_inputs.rs`, `passes/tests/loop_inputs_gathered.rs`, `passes/tests/loop_inputs_once.rs`.

mod cone;
mod emit;
mod grade;

use std::collections::BTreeMap;

use hlo_ir::{ComputationId, Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target, size};

use crate::loops::row_slices::{Loops, RowReader, in_each_loop};
use crate::objective::least_saving;
use crate::{Condition, Context, Finding, Grade, Machine, Outcome, Pass, PassKind};
use cone::{Cone, Recomputable};
use emit::Input;

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopInputs;

impl Pass for LoopInputs {
    fn name(&self) -> &'static str {
        "loop-inputs"
    }
    fn summary(&self) -> &'static str {
        "compute rows of a loop's input where the loop reads them"
    }
    crate::explanation!("loop_inputs.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        in_each_loop(context, of_loop)
    }
}

/// One finding for each large element of the state, and one for all of them.
fn of_loop(context: &Context<'_>, loops: &Loops<'_>, site: InstructionId) -> Vec<Finding> {
    let module = context.module;
    let Some(initial) = module.instruction(site).operands.first().map(|&initial| module.instruction(initial)) else {
        return Vec::new();
    };
    if initial.opcode != Opcode::Tuple {
        return Vec::new();
    }
    // Real models hand a loop dozens of small arrays, and each would be a step of the search of its own.
    let least = least_saving(context);
    let worth = |bytes: &Bytes| *bytes >= least;
    let elements = initial.operands.iter().enumerate();
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for (element, &value) in elements {
        let bytes = module.instruction(value).array().and_then(size::array_size).filter(worth);
        let ways = bytes.map_or_else(Vec::new, |wasted| ways(context, loops, (site, element), value, wasted));
        let mut ways = ways.into_iter();
        found.extend(ways.next());
        others.extend(ways);
    }
    let mut groups: Vec<Vec<&Found>> = found.iter().map(|found| vec![found]).collect();
    // All at once is one step of the search instead of one for each; those that keep every bit are also offered without the others.
    let exact: Vec<&Found> = found.iter().filter(|found| found.grade == Grade::Bitwise).collect();
    if exact.len() > 1 && exact.len() < found.len() {
        groups.push(exact);
    }
    if found.len() > 1 {
        groups.push(found.iter().collect());
    }
    groups.extend(others.iter().map(|other| vec![other]));
    groups.iter().filter_map(|group| finding(module, group)).collect()
}

/// An element of the state that can be computed in the loop.
struct Found {
    input: Input,
    grade: Grade,
    wasted: Bytes,
}

/// The ways to compute an element, the cheapest first: from what is costly, or that too.
fn ways(
    context: &Context<'_>,
    loops: &Loops<'_>,
    (site, element): (InstructionId, usize),
    value: InstructionId,
    wasted: Bytes,
) -> Vec<Found> {
    let module = context.module;
    let Some(reader) = loops.reader(site, element) else { return Vec::new() };
    let cheap = cheap(context, loops, &reader, value);
    let anew = |cones: &BTreeMap<usize, Cone>| cones.values().map(|cone| cone.anew().count()).sum::<usize>();
    let same = |once: &BTreeMap<usize, Cone>| cheap.as_ref().is_some_and(|cheap| anew(cheap) == anew(once));
    let once = once(context, loops, &reader, value).filter(|once| !same(once));
    let found = |cones| {
        let reader = loops.reader(site, element)?;
        let grade = grade::grade(module, context.users, value, (&cones, &reader.all_slices()));
        Some(Found { input: Input { value, reader, cones }, grade, wasted })
    };
    [cheap, once].into_iter().flatten().filter_map(found).collect()
}

/// How rows are computed that cost no more than to read them, by the dimension that is cut.
fn cheap(
    context: &Context<'_>,
    loops: &Loops<'_>,
    reader: &RowReader,
    value: InstructionId,
) -> Option<BTreeMap<usize, Cone>> {
    let (module, most) = (context.module, context.options.machine().operations_of_a_float());
    let mut cones: BTreeMap<usize, Cone> = BTreeMap::new();
    for taken in reader.all_slices() {
        if let std::collections::btree_map::Entry::Vacant(place) = cones.entry(taken.dim) {
            place.insert(Cone::of(Recomputable { module, once: None }, value, taken.dim)?);
        }
        let cone = &cones[&taken.dim];
        // What changes from one iteration of an enclosing loop to the next is computed in each of them, as the rows are.
        let is_read_once = reader.takes_each_once(module, value, taken);
        let is_made_as_often = |id| is_read_once && (reader.once || loops.changes(id));
        let quick = cone.reads_in_runs(module, value, taken, is_made_as_often);
        // Rows that are read again and again are computed as often.
        let few = cone.operations(module, value, taken).is_some_and(|operations| operations <= most as f64);
        if !quick || !few || !cone.reads_no_more(module, value, taken, is_made_as_often(value)) {
            return None;
        }
    }
    Some(cones)
}

/// How rows are computed that cost more, if each is taken once, in one place of a loop whose steps take long, by what they do or for the row alone.
fn once(
    context: &Context<'_>,
    loops: &Loops<'_>,
    reader: &RowReader,
    value: InstructionId,
) -> Option<BTreeMap<usize, Cone>> {
    let module = context.module;
    let [taken] = reader.all_slices()[..] else { return None };
    let row = size::shape_size(module.shape(taken.slice))?;
    let is_made_as_often = |id| reader.once || loops.changes(id);
    let alone =
        context.users.get(value).len() == 1 && reader.takes_each_once(module, value, taken) && is_made_as_often(value);
    // Kernels that compute it alone are started for each row; steps that take long anyway hide most of that. What a row is summed up from takes twice as much to hide it.
    // Measured on one machine only: docs/measured/log.md, "Figures behind constants".
    let machine = Machine::of(Target::Cpu);
    let least = if takes_long(module, reader.body) { machine.least_kernel() } else { machine.moved_while_starting() };
    if !alone {
        return None;
    }
    let cone = Cone::once(context, value, taken.dim, is_made_as_often)?;
    let large = row >= least
        || cone.largest_part(module, taken) >= machine.moved_while_starting() + machine.moved_while_starting();
    (large && cone.has_small_wholes(context, taken)).then(|| BTreeMap::from([(taken.dim, cone)]))
}

/// Whether a step has a loop of its own, or a product.
fn takes_long(module: &Module, body: ComputationId) -> bool {
    let long = |inst: &Instruction| matches!(inst.opcode, Opcode::While | Opcode::Dot | Opcode::Convolution);
    let inside = |inst: &Instruction| inst.called_computations().any(|called| takes_long(module, called));
    module.instructions_of(body).any(|(_, inst)| long(inst) || inside(inst))
}

/// The finding for elements of one loop; it stands at the first of them.
fn finding(module: &Module, group: &[&Found]) -> Option<Finding> {
    let inputs: Vec<&Input> = group.iter().map(|found| &found.input).collect();
    let patch = emit::patch(module, &inputs)?;
    let first = inputs.first()?;
    let name = &module.instruction(first.reader.site).name;
    let others = match inputs.len() - 1 {
        0 => String::new(),
        1 => " and 1 more input".to_owned(),
        more => format!(" and {more} more inputs"),
    };
    let anew = inputs.iter().flat_map(|input| input.cones.values()).map(|cone| cone.anew().count());
    let note = format!(
        "`{name}` computes the rows of `{}`{others} that it reads, {} operations at most",
        module.instruction(first.value).name,
        anew.max().unwrap_or(0)
    );
    let condition = |text: String, discharged_by| Condition { text, discharged_by };
    let conditions = vec![
        condition(format!("`{name}` hands the value on and reads nothing of it but blocks of rows"), "structure"),
        condition("each row follows from the same rows of what stands in memory".to_owned(), "shape"),
    ];
    let grade = group.iter().map(|found| found.grade).max()?;
    let wasted = group.iter().map(|found| found.wasted).sum();
    Some(Finding { instruction: first.value, grade, wasted, outcome: Outcome::Rewrite { patch, note, conditions } })
}
