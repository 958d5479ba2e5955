//! A last touch on loops that passes made: the columns of a block are read from memory one by one.
//!
//! ```text
//! %rows = s32[4096,3] dynamic-slice(%i, %start, %zero)      %x = s32[4096,1] dynamic-slice(%i, %start, %zero)
//! %x = s32[4096,1] slice(%rows), [0:4096], [0:1]       =>   %y = s32[4096,1] dynamic-slice(%i, %start, %one)
//! %y = s32[4096,1] slice(%rows), [0:4096], [1:2]
//! ```
//!
//! It saves no memory but time. XLA:CPU makes what several slices of a fusion read, a block, a function of its own. LLVM hands it the number of the
//! block as a number, and forgets meanwhile that no store changes the memory it comes from: it is loaded again for every element, and the
//! kernel is not vectorized. A fusion that gathers by three columns of indices ran at a quarter of its speed. A column read for itself stays
//! in the kernel.
//!
//! Sound where each dimension is either whole in the slice, or whole in the block: its start is then 0 in either case, as `dynamic-slice` moves
//! a start that is out of bounds. Stays away from instructions of the input, from slices with gaps, from blocks that someone reads whole or that
//! wait for anything but their operands, and from modules to be partitioned, where the columns could be on several devices.
//!
//! Source: the code of the kernels in XLA's dumps (`*.ir-with-opt.ll`).

use hlo_ir::attribute::SliceDim;
use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::module::Payload;
use hlo_ir::{AttrKey, AttrValue, Attribute, Instruction, InstructionId, Module, Opcode};

/// What reads each column of a block for itself, of blocks whose instructions are `new`; empty if there is none.
pub(crate) fn patch(module: &Module, new: impl Fn(InstructionId) -> bool) -> Patch {
    let mut patch = Patch::new(module);
    if module.is_partitioned() {
        return patch;
    }
    let users = Users::of(module);
    for (block, inst) in module.live_instructions() {
        if !new(block) || !is_plain(module, inst) || module.computation(inst.parent).root == block {
            continue;
        }
        let slices = users.get(block);
        let columns: Option<Vec<Column>> = slices.iter().map(|&slice| Column::of(module, inst, slice)).collect();
        if let (Some(columns), true) = (columns, slices.len() > 1) {
            for column in columns {
                column.read(module, inst, &mut patch);
            }
            patch.remove(block);
        }
    }
    patch
}

/// Whether an instruction is a block with a start of its own for each dimension (there may be a vector of them) that waits for nothing else.
fn is_plain(module: &Module, inst: &Instruction) -> bool {
    let scalar = |&id: &InstructionId| module.instruction(id).array().is_some_and(|array| array.rank() == 0);
    inst.opcode == Opcode::DynamicSlice
        && inst.array().is_some_and(|array| !array.is_dynamic())
        && inst.operands[1..].iter().all(scalar)
        && inst.control_predecessors().is_empty()
}

/// A slice of a block.
struct Column {
    slice: InstructionId,
    /// Where it begins in the dimensions that it cuts, which the block holds whole.
    starts: Vec<Option<i64>>,
}

impl Column {
    /// `None` if `user` is no slice of `block` that can be read for itself.
    fn of(module: &Module, block: &Instruction, user: InstructionId) -> Option<Self> {
        let slice = module.instruction(user);
        let (Opcode::Slice, AttrValue::Slice(bounds)) = (slice.opcode, slice.attribute(&AttrKey::Slice)?) else {
            return None;
        };
        let all = &module.instruction(*block.operands.first()?).array()?.dims;
        let held = &block.array()?.dims;
        let start = |(dim, bound): (usize, &SliceDim)| {
            if *bound == SliceDim::full(held[dim]) {
                return Some(None);
            }
            let counted = module.instruction(block.operands[dim + 1]).array()?.element_type.integer_range()?;
            let known = bound.stride == 1 && held[dim] == all[dim] && i128::from(bound.start) <= counted.1;
            known.then_some(Some(bound.start))
        };
        let starts = bounds.iter().enumerate().map(start).collect::<Option<_>>()?;
        Some(Self { slice: user, starts })
    }

    /// Makes the slice read the memory that the block is read from.
    fn read(self, module: &Module, block: &Instruction, patch: &mut Patch) {
        let slice = module.instruction(self.slice);
        let mut operands = block.operands.clone();
        for (dim, start) in self.starts.into_iter().enumerate() {
            let Some(start) = start else { continue };
            let of = module.instruction(block.operands[dim + 1]).shape.clone();
            let constant = Instruction::new("column", of, Opcode::Constant, []);
            operands[dim + 1] =
                patch.add(slice.parent, constant.with_payload(Payload::Literal(start.to_string().into())));
        }
        let sizes = slice.array().map(|array| array.dims.clone()).unwrap_or_default();
        let mut read = slice.clone();
        read.opcode = Opcode::DynamicSlice;
        read.operands = operands;
        read.attributes.retain(|attribute| attribute.key != AttrKey::Slice);
        read.attributes.insert(0, Attribute::ints(AttrKey::DynamicSliceSizes, sizes));
        patch.rewrite(self.slice, read);
    }
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
        patch(&module, |_| true).apply(&mut module).expect("it fits");
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
        assert!(patch(&module, |_| true).is_empty(), "the start of the columns could be moved");
        let wide = BLOCK
            .replace(",3]", ",300]")
            .replace("{10,3}", "{10,300}")
            .replace("10,2]", "10,1]")
            .replace("[1:3]", "[200:201]");
        let module = text::parse(&wide).expect("legal text");
        assert!(patch(&module, |_| true).is_empty(), "column 200 is no s8");
        let vector = BLOCK
            .replace("%start = s8[] parameter", "%start = s8[2] parameter")
            .replace("dynamic-slice(%i, %start, %zero)", "dynamic-slice(%i, %start)");
        let module = text::parse(&vector).expect("legal text");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        assert!(patch(&module, |_| true).is_empty(), "a vector of starts");
        let waiting = BLOCK.replace("sizes={10,3}", "sizes={10,3}, control-predecessors={%i}");
        let module = text::parse(&waiting).expect("legal text");
        assert!(patch(&module, |_| true).is_empty(), "the block waits for something else");
        let module = text::parse(&BLOCK.replace("HloModule m", "HloModule m, num_partitions=2")).expect("legal text");
        assert!(patch(&module, |_| true).is_empty(), "columns may lie on several devices");
        let module = text::parse(BLOCK).expect("legal text");
        assert!(patch(&module, |_| false).is_empty(), "the input stays as it is");
    }
}
