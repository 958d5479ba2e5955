//! Reads the columns of a block from memory one by one.
//!
//! Waste, of run time: XLA:CPU makes what several slices of a fusion read, a block, a function of its own. LLVM hands it the number of the
//! block as a number, and forgets meanwhile that no store changes the memory it comes from: it is loaded again for every element, and the
//! kernel is not vectorized. Fusions that gather by three columns of indices are examples. A column read for itself stays
//! in the kernel.
//!
//! ```text
//! %rows = s32[4096,3] dynamic-slice(%i, %start, %zero)      %x = s32[4096,1] dynamic-slice(%i, %start, %zero)
//! %n = s32[4096,3] negate(%rows)                            %nx = s32[4096,1] negate(%x)
//! %nx = s32[4096,1] slice(%n), [0:4096], [0:1]         =>   %y = s32[4096,1] dynamic-slice(%i, %start, %one)
//! %ny = s32[4096,1] slice(%n), [0:4096], [1:2]              %ny = s32[4096,1] negate(%y)
//! ```
//!
//! It takes no memory: where it would, it is not made.
//!
//! Sound where each dimension is either whole in the slice, or whole in the block: its start is then 0 in either case, as `dynamic-slice` moves
//! a start that is out of bounds. What lies between block and slices computes each element from those at its place (or at a transposed one), so
//! it computes the same of each column: integers, or floats that are chosen or moved, never rounded. Grade: bitwise.
//!
//! Stays away from
//!
//! - other targets than CPU, and modules to be partitioned, where the columns could be on several devices;
//! - instructions of the input (only loops that this run made are changed);
//! - slices with gaps, and neighbours that are put side by side again (XLA reads the block for these);
//! - blocks that someone reads whole or that wait for anything but their operands;
//! - floats that are rounded (their bits may depend on the function they stand in).
//!
//! Source: the code of the kernels in XLA's dumps (`*.ir-with-opt.ll`).

use std::sync::Arc;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::attribute::SliceDim;
use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::module::Payload;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, AttrValue, Attribute, Instruction, InstructionId, Module, Opcode, Shape};

use crate::bounds;
use crate::flow::{is_real, is_rounded, is_slow, picks, reduces};
use crate::speed::{self, Change, FindingText, New, is_plain_block};
use crate::{Context, Finding, Grade, Pass, PassKind};

const TEXT: FindingText = FindingText {
    grade: Grade::Bitwise,
    places: ["a block", "blocks"],
    changed: "read column by column",
    because: "each element of a column is computed from those at its place",
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnSlices;

impl Pass for ColumnSlices {
    fn name(&self) -> &'static str {
        "column-slices"
    }
    fn summary(&self) -> &'static str {
        "read the columns of a block one by one, so that the kernel is vectorized"
    }
    crate::explanation!("column_slices.rs");
    fn kind(&self) -> PassKind {
        PassKind::Speed
    }
    fn share_of_peak(&self) -> Option<u64> {
        None
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        speed::find(context, &TEXT, patch).into_iter().collect()
    }
}

/// What reads each column of a block for itself, of blocks whose instructions are `new`; empty if there is none.
fn patch(module: &Module, new: New<'_>) -> Change {
    let users = Users::of(module);
    let mut done = IndexSet::default();
    let ours = |&(id, inst): &(InstructionId, &Instruction)| new(id) && is_plain_block(module, inst);
    Change::of(module, |change| {
        for (block, _) in module.live_instructions().filter(ours) {
            // Slices of what is computed of two blocks are done with the first of them.
            let Some(columns) = Columns::of(module, &users, block, new) else { continue };
            if columns.slices.len() > 1 && columns.slices.iter().all(|slice| !done.contains(slice)) {
                done.extend(columns.slices.iter().copied());
                change.at(block);
                columns.read(&mut change.patch);
            }
        }
    })
}

/// A block of which only slices are needed.
struct Columns<'a> {
    module: &'a Module,
    /// The block, and others that something between reads too.
    blocks: IndexSet<InstructionId>,
    /// What is computed of the whole block, place by place.
    between: IndexSet<InstructionId>,
    slices: Vec<InstructionId>,
    /// What was made for a value and a part of it.
    made: IndexMap<(InstructionId, Bounds), InstructionId>,
}

/// A part of an array, dimension by dimension.
type Bounds = Vec<SliceDim>;

impl<'a> Columns<'a> {
    /// `None` if anything but slices needs what is computed of the block, or if a slice cannot be read for itself.
    fn of(module: &'a Module, users: &Users, block: InstructionId, new: New<'_>) -> Option<Self> {
        let (blocks, between, made) = (IndexSet::from_iter([block]), IndexSet::default(), IndexMap::default());
        let mut columns = Self { module, blocks, between, slices: Vec::new(), made };
        let mut work = vec![block];
        while let Some(value) = work.pop() {
            if module.computation(module.instruction(value).parent).root == value {
                return None;
            }
            for &user in users.get(value) {
                let reader = module.instruction(user);
                match reader.opcode {
                    _ if !new(user) => return None,
                    Opcode::Slice if reader.control_predecessors().is_empty() => columns.slices.push(user),
                    _ if !columns.is_place_by_place(user) => return None,
                    _ if columns.between.insert(user) => work.push(user),
                    _ => {}
                }
            }
        }
        let operands = columns.between.iter().flat_map(|&value| &module.instruction(value).operands);
        let others = operands.filter(|&&id| new(id) && is_plain_block(module, module.instruction(id)));
        columns.blocks.extend(others.copied());
        let mut seen = IndexSet::default();
        let apart = |&slice: &InstructionId| columns.is_known(slice, &mut seen) && !is_joined(module, users, slice);
        let all = columns.slices.iter().all(apart);
        (all && columns.between.len() <= bounds::CONE).then_some(columns)
    }
    /// Whether each element of `id` is computed from the elements at its place, or moved from a transposed one.
    fn is_place_by_place(&self, id: InstructionId) -> bool {
        let inst = self.module.instruction(id);
        let Some(own) = inst.array().filter(|array| !array.is_dynamic()) else { return false };
        let same = |&operand: &InstructionId| {
            self.module.instruction(operand).array().is_some_and(|array| array.rank() == 0 || array.dims == own.dims)
        };
        let fits = inst.opcode == Opcode::Transpose || (inst.opcode.is_elementwise() && inst.operands.iter().all(same));
        fits && own.rank() > 0
            && inst.control_predecessors().is_empty()
            && !is_slow(self.module, id)
            && is_exact(self.module, id)
    }
    /// Whether the parts of the block that a slice is computed from can be read for themselves.
    fn is_known(&self, slice: InstructionId, seen: &mut IndexSet<(InstructionId, Bounds)>) -> bool {
        let Some(part) = bounds(self.module, slice) else { return false };
        let mut work = vec![(self.module.instruction(slice).operands[0], part)];
        while let Some((value, part)) = work.pop() {
            if self.blocks.contains(&value) && self.starts(value, &part).is_none() {
                return false;
            }
            if self.between.contains(&value) && seen.insert((value, part.clone())) {
                let inst = self.module.instruction(value);
                work.extend(inst.operands.iter().map(|&operand| (operand, below(inst, &part))));
            }
        }
        true
    }
    /// Where a part of the block begins in the dimensions that it cuts, which the block holds whole.
    fn starts(&self, block: InstructionId, part: &[SliceDim]) -> Option<Vec<Option<i64>>> {
        let block = self.module.instruction(block);
        let all = &self.module.instruction(*block.operands.first()?).array()?.dims;
        let held = &block.array()?.dims;
        let start = |(dim, bound): (usize, &SliceDim)| {
            if *bound == SliceDim::full(held[dim]) {
                return Some(None);
            }
            let counted = self.module.instruction(block.operands[dim + 1]).array()?.element_type.integer_range()?;
            let known = bound.stride == 1 && held[dim] == all[dim] && i128::from(bound.start) <= counted.1;
            known.then_some(Some(bound.start))
        };
        part.iter().enumerate().map(start).collect()
    }
    /// Makes each slice compute what it needs from the memory that the block is read from.
    fn read(mut self, patch: &mut Patch) {
        for slice in std::mem::take(&mut self.slices) {
            let Some(part) = bounds(self.module, slice) else { continue };
            let inst = self.module.instruction(slice);
            let mut column = self.column(patch, inst.operands[0], &part);
            column.name = inst.name.clone();
            column.shape = inst.shape.clone();
            // Its result is the slice's, in the source too.
            column.attributes.retain(|attribute| attribute.key != AttrKey::Metadata);
            column
                .attributes
                .extend(inst.attributes.iter().filter(|attribute| attribute.key == AttrKey::Metadata).cloned());
            patch.rewrite(slice, column);
        }
        for &value in self.between.iter().rev().chain(&self.blocks) {
            patch.remove(value);
        }
    }
    /// What computes a part of the block or of a value between.
    fn column(&mut self, patch: &mut Patch, value: InstructionId, part: &[SliceDim]) -> Instruction {
        let mut inst = self.module.instruction(value).clone();
        inst.shape = part_of(&inst, part);
        if self.blocks.contains(&value) {
            self.cut(patch, value, &mut inst, part);
            return inst;
        }
        let below = below(&inst, part);
        for k in 0..inst.operands.len() {
            inst.operands[k] = self.operand(patch, inst.operands[k], &below);
        }
        inst
    }
    /// A part of an operand: computed, or cut from it if it does not come from the block.
    fn operand(&mut self, patch: &mut Patch, operand: InstructionId, part: &[SliceDim]) -> InstructionId {
        let of = self.module.instruction(operand);
        if of.array().is_none_or(|array| array.rank() == 0) {
            return operand;
        }
        let key = (operand, part.to_vec());
        if let Some(&made) = self.made.get(&key) {
            return made;
        }
        let scalar = |&id: &InstructionId| self.module.instruction(id).array().is_some_and(|array| array.rank() == 0);
        let inst = if self.blocks.contains(&operand) || self.between.contains(&operand) {
            self.column(patch, operand, part)
        } else if of.opcode == Opcode::Broadcast && of.operands.iter().all(scalar) {
            let mut broadcast = of.clone();
            broadcast.shape = part_of(of, part);
            broadcast
        } else {
            let cut = Instruction::new("column", part_of(of, part), Opcode::Slice, [operand]);
            cut.with(Attribute::new(AttrKey::Slice, AttrValue::Slice(part.into())))
        };
        let made = patch.add(of.parent, inst);
        patch.set_origin(made, operand);
        self.made.insert(key, made);
        made
    }
    /// Makes `read`, which reads the block, read `part` of it only.
    fn cut(&self, patch: &mut Patch, block: InstructionId, read: &mut Instruction, part: &[SliceDim]) {
        for (dim, start) in self.starts(block, part).into_iter().flatten().enumerate() {
            let Some(start) = start else { continue };
            let of = self.module.instruction(read.operands[dim + 1]).shape.clone();
            let constant = Instruction::new("column", of, Opcode::Constant, []);
            let literal = Payload::Literal(start.to_string().into());
            read.operands[dim + 1] = patch.add(read.parent, constant.with_payload(literal));
        }
        let sizes = part.iter().map(|bound| bound.limit - bound.start);
        read.set_attribute(AttrKey::DynamicSliceSizes, AttrValue::ints(sizes));
    }
}

/// Whether the bits never depend on what else a function computes. XLA:CPU contracts floats with what they are computed from, or leaves out a
/// rounding between two steps, where both stand in one function: a slice that stood between them may have kept them apart, or a maximum from a reduction.
fn is_exact(module: &Module, id: InstructionId) -> bool {
    use Opcode as O;
    let chosen =
        [O::Abs, O::Ceil, O::Clamp, O::Copy, O::Floor, O::Maximum, O::Minimum, O::Negate, O::Select, O::Transpose];
    let inst = module.instruction(id);
    let for_library = || picks(inst) && reduces(module, inst.parent);
    !is_real(module, id) || (chosen.contains(&inst.opcode) && !is_rounded(module, id) && !for_library())
}

/// Whether a slice is put back beside its neighbour: XLA makes one slice of both, and the block itself of all.
fn is_joined(module: &Module, users: &Users, slice: InstructionId) -> bool {
    let mut work = vec![slice];
    while let Some(value) = work.pop() {
        for &user in users.get(value) {
            let reader = module.instruction(user);
            match reader.opcode {
                Opcode::Reshape => work.push(user),
                Opcode::Concatenate if reader.operands.windows(2).any(|pair| are_neighbours(module, reader, pair)) => {
                    return true;
                }
                _ => {}
            }
        }
    }
    false
}

/// Whether two operands of a concatenation are slices that lie side by side in one array, in the dimension that it joins.
fn are_neighbours(module: &Module, concatenation: &Instruction, pair: &[InstructionId]) -> bool {
    let cut = |mut id: InstructionId| {
        let dims = &module.instruction(id).array()?.dims;
        while module.instruction(id).opcode == Opcode::Reshape {
            id = module.instruction(id).operands[0];
        }
        let slice = module.instruction(id);
        (slice.array()?.dims == *dims).then_some((slice.operands.first().copied()?, bounds(module, id)?))
    };
    let Some(&along) = concatenation.ints(&AttrKey::Dimensions).first() else { return false };
    match (cut(pair[0]), cut(pair[1])) {
        (Some((of, left)), Some((other, right))) => {
            let meets = |(dim, (one, next)): (usize, (&SliceDim, &SliceDim))| {
                if dim as i64 == along { one.limit == next.start } else { one == next }
            };
            of == other && left.iter().zip(&right).enumerate().all(meets)
        }
        _ => false,
    }
}

/// What a slice takes.
fn bounds(module: &Module, slice: InstructionId) -> Option<Bounds> {
    match module.instruction(slice).attribute(&AttrKey::Slice)? {
        AttrValue::Slice(bounds) => Some(bounds.to_vec()),
        _ => None,
    }
}

/// The part of the operands that a part of the result is computed from.
fn below(inst: &Instruction, part: &[SliceDim]) -> Bounds {
    let mut below = part.to_vec();
    if inst.opcode == Opcode::Transpose {
        for (&bound, &dim) in part.iter().zip(inst.ints(&AttrKey::Dimensions)) {
            below[dim as usize] = bound;
        }
    }
    below
}

/// The shape of a part of what an instruction computes.
fn part_of(inst: &Instruction, part: &[SliceDim]) -> ShapeRef {
    let mut array = inst.array().expect("an array is cut").clone();
    for (dim, bound) in part.iter().enumerate() {
        array = array.with_dim(dim, bound.limit - bound.start);
    }
    Arc::new(Shape::Array(array))
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    const BLOCK: &str = "HloModule m

ENTRY %main {
  %i = s32[100,3] parameter(0)
  %start = s8[] parameter(1)
  %zero = s8[] constant(0)
  %rows = s32[10,3] dynamic-slice(%i, %start, %zero), dynamic_slice_sizes={10,3}
  %x = s32[10,1] slice(%rows), slice={[0:10], [0:1]}
  %y = s32[10,2] slice(%rows), slice={[0:10], [1:3]}
  ROOT %both = (s32[10,1], s32[10,2]) tuple(%x, %y)
}
";

    /// The module with each column read for itself, where the source has `new` in place of `old`.
    fn read(old: &str, new: &str) -> String {
        let source = BLOCK.replacen(old, new, 1);
        assert!(source.contains(new), "{old} is not there");
        let mut module = text::parse(&source).expect("legal text");
        patch(&module, &|_| true).apply(&mut module).expect("it fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        text::print(&module)
    }

    #[test]
    fn columns_are_read_where_the_block_is_whole() {
        let text = read("%x", "%x");
        assert!(!text.contains(" slice(") && !text.contains("%rows"), "{text}");
        let counts = ["constant(0)", "constant(1)", "dynamic_slice_sizes={10,1}", "dynamic_slice_sizes={10,2}"];
        assert!(counts.iter().all(|part| text.contains(part)), "{text}");
        assert!(text.contains("dynamic-slice(%i, %start, %column"), "rows start where they started: {text}");
    }

    #[test]
    fn what_is_cut_in_parts_or_with_gaps_or_read_whole_stays() {
        for (old, new) in [
            ("slice={[0:10], [1:3]}", "slice={[0:10], [0:3:2]}"),
            ("s32[10,2] slice(%rows), slice={[0:10], [1:3]}", "s32[10,2] slice(%rows), slice={[0:10], [0:2]}"),
            ("%y = s32[10,2] slice(%rows), slice={[0:10], [1:3]}", "%y = s32[10,2] slice(%i), slice={[0:10], [1:3]}"),
        ] {
            let kept = read(old, new).contains("dynamic-slice(%i, %start, %zero)");
            assert_eq!(kept, !new.contains("[0:2]"), "{new}");
        }
        let part = BLOCK.replace("s32[100,3]", "s32[100,4]");
        let module = text::parse(&part).expect("legal text");
        assert!(patch(&module, &|_| true).is_empty(), "the start of the columns could be moved");
        let wide = "HloModule m

ENTRY %main {
  %i = s32[100,300] parameter(0)
  %start = s8[] parameter(1)
  %zero = s8[] constant(0)
  %rows = s32[10,300] dynamic-slice(%i, %start, %zero), dynamic_slice_sizes={10,300}
  %x = s32[10,1] slice(%rows), slice={[0:10], [0:1]}
  %y = s32[10,1] slice(%rows), slice={[0:10], [200:201]}
  ROOT %both = (s32[10,1], s32[10,1]) tuple(%x, %y)
}
";
        let module = text::parse(wide).expect("legal text");
        assert!(patch(&module, &|_| true).is_empty(), "column 200 is no s8");
        let vector = "HloModule m

ENTRY %main {
  %i = s32[100,3] parameter(0)
  %start = s8[2] parameter(1)
  %zero = s8[] constant(0)
  %rows = s32[10,3] dynamic-slice(%i, %start), dynamic_slice_sizes={10,3}
  %x = s32[10,1] slice(%rows), slice={[0:10], [0:1]}
  %y = s32[10,2] slice(%rows), slice={[0:10], [1:3]}
  ROOT %both = (s32[10,1], s32[10,2]) tuple(%x, %y)
}
";
        let module = text::parse(vector).expect("legal text");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        assert!(patch(&module, &|_| true).is_empty(), "a vector of starts");
        let waiting = BLOCK.replace("sizes={10,3}", "sizes={10,3}, control-predecessors={%i}");
        let module = text::parse(&waiting).expect("legal text");
        assert!(patch(&module, &|_| true).is_empty(), "the block waits for something else");
        let module = text::parse(&BLOCK.replace("HloModule m", "HloModule m, num_partitions=2")).expect("legal text");
        assert!(patch(&module, &|_| true).is_empty(), "columns may lie on several devices");
        let module = text::parse(BLOCK).expect("legal text");
        assert!(patch(&module, &|_| false).is_empty(), "the input stays as it is");
    }

    #[test]
    fn neighbours_that_are_put_side_by_side_stay() {
        let joined = |x: &str, y: &str, dim: usize| {
            let source = BLOCK.replace(
                "  ROOT %both = (s32[10,1], s32[10,2]) tuple(%x, %y)",
                &format!(
                    "  %flat = s32[10] reshape(%x)
  %again = s32[10,1] reshape(%flat)
  %last = s32[10,1] slice(%rows), slice={{[0:10], [1:2]}}
  ROOT %both = s32[{}] concatenate({x}, {y}), dimensions={{{dim}}}",
                    if dim == 0 {
                        "20,1"
                    } else if y == "%y" || x == "%y" {
                        "10,3"
                    } else {
                        "10,2"
                    }
                ),
            );
            let module = text::parse(&source).expect("legal text");
            assert_eq!(hlo_ir::verify::verify(&module), []);
            patch(&module, &|_| true).is_empty()
        };
        assert!(joined("%x", "%y", 1) && joined("%again", "%last", 1));
        assert!(!joined("%y", "%x", 1), "the other way round");
        assert!(!joined("%x", "%last", 0), "one below the other");
    }

    /// Columns of what is computed of a transposed block and of a block of another array: `%sum` by `join` and of that `%rest` by `last`.
    fn computed(element_type: &str, join: &str, last: &str) -> String {
        format!(
            "HloModule m

ENTRY %main {{
  %i = {element_type}[100,3] parameter(0)
  %j = {element_type}[3,100] parameter(1)
  %start = s32[] parameter(2)
  %zero = s32[] constant(0)
  %rows = {element_type}[10,3] dynamic-slice(%i, %start, %zero), dynamic_slice_sizes={{10,3}}
  %other = {element_type}[3,10] dynamic-slice(%j, %zero, %start), dynamic_slice_sizes={{3,10}}
  %turned = {element_type}[3,10] transpose(%rows), dimensions={{1,0}}
  %sum = {element_type}[3,10] {join}(%turned, %other)
  %seven = {element_type}[] constant(7)
  %sevens = {element_type}[3,10] broadcast(%seven), dimensions={{}}
  %rest = {element_type}[3,10] {last}(%sum, %sevens)
  %x = {element_type}[1,10] slice(%rest), slice={{[0:1], [0:10]}}
  %y = {element_type}[1,10] slice(%rest), slice={{[2:3], [0:10]}}
  ROOT %both = ({element_type}[1,10], {element_type}[1,10]) tuple(%x, %y)
}}
"
        )
    }

    #[test]
    fn columns_of_what_is_computed_place_by_place_are_read_too() {
        let mut module = text::parse(&computed("s32", "add", "remainder")).expect("legal text");
        patch(&module, &|_| true).apply(&mut module).expect("it fits");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let text = text::print(&module);
        for part in ["s32[10,1] dynamic-slice(%i, %start, ", "s32[1,10] dynamic-slice(%j, ", "s32[1,10] transpose("] {
            assert_eq!(text.matches(part).count(), 2, "{part}: {text}");
        }
        assert!(
            !text.contains(" slice(") && !text.contains("s32[3,10] ") && text.contains("%x = s32[1,10] remainder("),
            "{text}"
        );
        assert!(patch(&module, &|_| true).is_empty(), "once is enough");
    }

    #[test]
    fn what_is_needed_whole_or_takes_long_or_is_the_programs_own_stays() {
        let program = computed("s32", "add", "remainder");
        for (old, new) in [
            (
                "ROOT %both = (s32[1,10], s32[1,10]) tuple(%x, %y)",
                "ROOT %both = (s32[1,10], s32[3,10]) tuple(%x, %sum)",
            ),
            ("s32[3,10] transpose(%rows), dimensions={1,0}", "s32[3,10] reshape(%rows)"),
            ("slice={[2:3], [0:10]}", "slice={[2:3], [0:10]}, control-predecessors={%zero}"),
            ("remainder(%sum, %sevens)", "remainder(%sum, %sevens), control-predecessors={%zero}"),
            (
                "ROOT %both = (s32[1,10], s32[1,10]) tuple(%x, %y)",
                "ROOT %both = (s32[1,10], s32[10,3]) tuple(%x, %rows)",
            ),
        ] {
            let source = program.replacen(old, new, 1);
            assert_ne!(source, program);
            let mut module = text::parse(&source).expect("legal text");
            patch(&module, &|_| true).apply(&mut module).expect("it fits");
            assert!(text::print(&module).contains("s32[10,3] dynamic-slice(%i"), "{new}");
        }
        let module = text::parse(&program).expect("legal text");
        let own = |name: &'static str| {
            let module = &module;
            patch(module, &move |id| module.instruction(id).name != name).is_empty()
        };
        assert!(own("rest") && !own("seven"));
    }

    #[test]
    fn floats_that_are_chosen_move_and_floats_that_are_rounded_stay() {
        let stays = |last: &str, element_type: &str| {
            let module = text::parse(&computed(element_type, "maximum", last)).expect("legal text");
            assert_eq!(hlo_ir::verify::verify(&module), []);
            patch(&module, &|_| true).is_empty()
        };
        assert!(!stays("minimum", "f32"));
        for rounded in ["add", "subtract", "multiply", "divide", "remainder"] {
            assert!(stays(rounded, "f32"), "{rounded}");
        }
        assert!(stays("minimum", "bf16"), "computed as f32, and the rounding may be left out");
    }
}
