//! Sums blocks of one row without the dimension that has one element.
//!
//! Waste, of run time: XLA:CPU hands a sum to a library together with what is summed. The library takes many times as long for what is computed when
//! any dimension has one element, such as `f32[1,64,512,64]` instead of `f32[64,512,64]`. A sum of an array in memory takes as long either way.
//!
//! ```text
//! %x = f32[512,64,1] get-tuple-element(%s)              =>   %x = f32[512,64,1] get-tuple-element(%s)
//!                                                            %kept = f32[512,64] call(%x), to_apply=%reshape
//! %w = f32[512,64,1] multiply(%x, %x)                        %w.1 = f32[512,64] multiply(%kept, %kept)
//! %r = f32[64,1] reduce(%w, %zero), dimensions={0}           %r.1 = f32[64] reduce(%w.1, %zero), dimensions={0}
//!                                                            %r = f32[64,1] reshape(%r.1)
//! ```
//!
//! What is read from memory is reshaped in a call, because XLA would move the reshapes down to the sum. The call takes memory for the block, a
//! twenty-fifth of the peak and a third of what was saved at most.
//!
//! Sound because each number is the sum of the same products of the same numbers. Grade: hlo-exact, since they may be added in another order; only
//! loops that keep less than every bit anyway are changed.
//!
//! Stays away from other targets than CPU, from instructions of the input (only loops that this run made are changed), from the entry computation, from
//! what is small or not row-major, and from modules to be partitioned.
//!
//! Source: `xla/backends/cpu/ynn_support.cc`, `xla/hlo/transforms/simplifiers/reshape_mover.cc`; the times are measured.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::Patch;
use hlo_ir::graph;
use hlo_ir::module::Payload;
use hlo_ir::{ArrayShape, AttrKey, AttrValue, ElementType, Instruction, InstructionId, Module, Opcode, Shape};
use hlo_memory::{Bytes, size};

use crate::fusion_barrier::attributes_of_call;
use crate::speed::{self, Change, FindingText, New, SHARE_OF_PEAK};
use crate::{Context, Finding, Grade, Pass, PassKind};

/// Bytes of the smallest block that is worth it: twice what is summed while a call starts (docs/measured/log.md, "Figures behind constants").
const LEAST: Bytes = Bytes(8 << 10);

const TEXT: FindingText = FindingText {
    grade: Grade::HloExact,
    places: ["a sum", "sums"],
    changed: "taken without dimensions of one element",
    because: "each number is the sum of the same terms",
};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct DegenerateDims;

impl Pass for DegenerateDims {
    fn name(&self) -> &'static str {
        "degenerate-dims"
    }
    fn summary(&self) -> &'static str {
        "sum without dimensions of one element, for which the library takes many times as long"
    }
    crate::explanation!("degenerate_dims.rs");
    fn kind(&self) -> PassKind {
        PassKind::Speed
    }
    fn share_of_peak(&self) -> Option<u64> {
        Some(SHARE_OF_PEAK)
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        speed::find(context, &TEXT, patch).into_iter().collect()
    }
}

/// Lets reductions that are `new` run over arrays without dimensions of one element; empty if there is none.
fn patch(module: &Module, new: New<'_>) -> Change {
    Change::of(module, |change| {
        let in_loops = module.live_instructions().filter(|(_, inst)| inst.parent != module.entry());
        let sums: Vec<InstructionId> =
            in_loops.filter(|&(id, inst)| new(id) && is_slow(module, inst)).map(|(id, _)| id).collect();
        let cones = cones(module, &sums, new);
        let mut squeezed = Squeezed { module, patch: &mut change.patch, made: IndexMap::default() };
        squeezed.compute(&cones);
        let changed: Vec<InstructionId> = sums.into_iter().filter(|&sum| squeezed.sum(sum)).collect();
        squeezed.keep(&cones);
        for sum in changed {
            change.at(sum);
        }
    })
}

/// Whether an instruction adds up floats, or takes the largest or smallest one, of a large array with a dimension of one element.
fn is_slow(module: &Module, inst: &Instruction) -> bool {
    let [terms, _] = inst.operands[..] else { return false };
    let Some(array) = module.instruction(terms).array() else { return false };
    let combiner = inst.computation(&AttrKey::ToApply).map(|id| module.instruction(module.computation(id).root).opcode);
    inst.opcode == Opcode::Reduce
        && matches!(array.element_type, ElementType::F32 | ElementType::Bf16)
        && matches!(combiner, Some(Opcode::Add | Opcode::Maximum | Opcode::Minimum))
        && inst.ints(&AttrKey::Dimensions).iter().any(|&dim| array.dims[dim as usize] > 1)
        && inst.array().is_some_and(is_plain)
        && inst.control_predecessors().is_empty()
        && array.dims.contains(&1)
        && size::array_size(array) >= Some(LEAST)
}

/// Whether an array lies in memory row after row.
fn is_plain(array: &ArrayShape) -> bool {
    !array.is_dynamic()
        && array.minor_to_major() == ArrayShape::new(array.element_type, array.dims.iter().copied()).minor_to_major()
}

/// What is computed place by place on the way to `sums`, `new` all of it.
fn cones(module: &Module, sums: &[InstructionId], new: New<'_>) -> IndexSet<InstructionId> {
    let place_by_place = |id: InstructionId| {
        let inst = module.instruction(id);
        let Some(own) = inst.array().filter(|array| is_plain(array)) else { return false };
        let fits = |array: &ArrayShape| is_plain(array) && (array.rank() == 0 || array.dims == own.dims);
        new(id)
            && inst.opcode.is_elementwise()
            && inst.operands.iter().all(|&operand| module.instruction(operand).array().is_some_and(fits))
            && inst.control_predecessors().is_empty()
    };
    let mut cones = IndexSet::default();
    let mut work: Vec<InstructionId> = sums.iter().map(|&sum| module.instruction(sum).operands[0]).collect();
    while let Some(id) = work.pop() {
        if place_by_place(id) && cones.insert(id) {
            work.extend(&module.instruction(id).operands);
        }
    }
    cones
}

/// The patch as it grows.
struct Squeezed<'a> {
    module: &'a Module,
    patch: &'a mut Patch,
    /// Values without dimensions of one element.
    made: IndexMap<InstructionId, InstructionId>,
}

impl Squeezed<'_> {
    /// Computes the values of cones without dimensions of one element.
    fn compute(&mut self, cones: &IndexSet<InstructionId>) {
        let computations: IndexSet<_> = cones.iter().map(|&id| self.module.instruction(id).parent).collect();
        for id in computations.into_iter().flat_map(|computation| graph::post_order(self.module, computation)) {
            if cones.contains(&id) {
                let mut inst = self.module.instruction(id).clone();
                for operand in &mut inst.operands {
                    *operand = self.read(*operand);
                }
                self.add(id, inst);
            }
        }
    }
    /// A value without dimensions of one element, made from what it is read from if there is none yet.
    fn read(&mut self, id: InstructionId) -> InstructionId {
        let inst = self.module.instruction(id);
        if inst.array().is_none_or(|array| array.rank() == 0) {
            return id;
        }
        if let Some(&made) = self.made.get(&id) {
            return made;
        }
        let read = match inst.opcode {
            Opcode::Broadcast => self.broadcast(inst),
            Opcode::Constant => reshape(id, inst),
            _ => self.reshape_in_call(id, inst),
        };
        self.add(id, read)
    }
    /// The same broadcast into fewer dimensions.
    fn broadcast(&mut self, inst: &Instruction) -> Instruction {
        let of = inst.operands[0];
        let dims = &inst.array().expect("it is an array").dims;
        let kept: Vec<i64> =
            inst.ints(&AttrKey::Dimensions).iter().copied().filter(|&dim| dims[dim as usize] != 1).collect();
        let mut changed = inst.clone();
        changed.set_attribute(AttrKey::Dimensions, AttrValue::ints(kept.iter().map(|&dim| renumbered(dims, dim))));
        let array = self.module.instruction(of).array().expect("it is an array");
        if array.dims.contains(&1) {
            let operand = reshape(of, self.module.instruction(of));
            changed.operands[0] = self.patch.add(inst.parent, Instruction { shape: squeezed(array).into(), ..operand });
        }
        changed
    }
    /// A call that reshapes a value: XLA does not move it.
    fn reshape_in_call(&mut self, id: InstructionId, inst: &Instruction) -> Instruction {
        let body = self.patch.add_computation(format!("{}.reshape", inst.name));
        let block = Instruction::new("block", inst.shape.clone(), Opcode::Parameter, []);
        let block = self.patch.add(body, block.with_payload(Payload::Parameter(0)));
        let shape = squeezed(inst.array().expect("it is an array"));
        self.patch.add(body, Instruction::new("row", shape.clone().into(), Opcode::Reshape, [block]));
        let mut call = Instruction::new("kept", shape.into(), Opcode::Call, [id]);
        call.attributes = attributes_of_call(body, inst);
        call
    }
    /// Adds `inst`, which is `id` without dimensions of one element.
    fn add(&mut self, id: InstructionId, mut inst: Instruction) -> InstructionId {
        let old = self.module.instruction(id);
        inst.shape = squeezed(old.array().expect("it is an array")).into();
        let made = self.patch.add(old.parent, inst);
        self.patch.set_origin(made, id);
        self.made.insert(id, made);
        made
    }
    /// Lets a reduction read what was made, if it reads anything of the kind; whether it does.
    fn sum(&mut self, sum: InstructionId) -> bool {
        let inst = self.module.instruction(sum);
        let Some(&terms) = self.made.get(&inst.operands[0]) else { return false };
        let dims = &self.module.instruction(inst.operands[0]).array().expect("it is reduced").dims;
        let mut changed = inst.clone();
        changed.operands[0] = terms;
        let kept = inst.ints(&AttrKey::Dimensions).iter().filter(|&&dim| dims[dim as usize] != 1);
        let kept: Vec<i64> = kept.map(|&dim| renumbered(dims, dim)).collect();
        changed.set_attribute(AttrKey::Dimensions, AttrValue::ints(kept));
        let result = inst.array().expect("it reduces one array");
        if !result.dims.contains(&1) {
            self.patch.rewrite(sum, changed);
            return true;
        }
        changed.shape = squeezed(result).into();
        let made = self.patch.add(inst.parent, changed);
        self.patch.rewrite(sum, reshape(made, inst));
        true
    }
    /// Values that others read too are reshaped for them. Of masks that are converted the masks: XLA sees in a product with a converted mask that
    /// it only selects (`HandleMultiply` in `algebraic_simplifier.cc`), and behind a reshape the product would let through NaN.
    fn keep(&mut self, cones: &IndexSet<InstructionId>) {
        for &id in cones {
            if !self.is_converted_mask(id) {
                self.patch.rewrite(id, reshape(self.made[&id], self.module.instruction(id)));
            }
            self.patch.remove(id);
        }
    }
    fn is_converted_mask(&self, id: InstructionId) -> bool {
        let inst = self.module.instruction(id);
        let masked = |&operand: &InstructionId| {
            self.module.instruction(operand).array().is_some_and(|array| array.element_type == ElementType::Pred)
        };
        inst.opcode == Opcode::Convert && inst.operands.iter().any(masked)
    }
}

/// What has the shape, name and source of `inst` and is read from `of`.
fn reshape(of: InstructionId, inst: &Instruction) -> Instruction {
    let mut reshape = Instruction::new(inst.name.clone(), inst.shape.clone(), Opcode::Reshape, [of]);
    reshape.attributes.extend(inst.attributes.iter().filter(|attribute| attribute.key == AttrKey::Metadata).cloned());
    reshape
}

/// An array without its dimensions of one element.
fn squeezed(array: &ArrayShape) -> Shape {
    let sizes = array.dims.iter().copied().filter(|&size| size != 1);
    let squeezed = ArrayShape::new(array.element_type, sizes);
    // No layout is written where none was.
    let layout = array.layout.as_ref().and(squeezed.layout.clone());
    Shape::Array(ArrayShape { layout, ..squeezed })
}

/// The number of a dimension once those of one element are left out.
fn renumbered(dims: &[i64], dim: i64) -> i64 {
    dims[..dim as usize].iter().filter(|&&size| size != 1).count() as i64
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// A loop that sums rows of what `lines` make of the block `%x`, called `%p`.
    fn program(lines: &str) -> String {
        program_of(["f32[512,64,1]", "f32[512,1]", "f32[64,1]"], "0", lines)
    }

    /// The same with other shapes of the block, of its weights and of its sums, along other dimensions.
    fn program_of([block, weights, sums]: [&str; 3], along: &str, lines: &str) -> String {
        let state = format!("(s32[], {sums}, {block}, {weights})");
        format!(
            "HloModule m
%add (a: f32[], b: f32[]) -> f32[] {{ %a = f32[] parameter(0) %b = f32[] parameter(1) ROOT %c = f32[] add(%a, %b) }}
%body (s: {state}) -> {state} {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %so_far = {sums} get-tuple-element(%s), index=1
  %x = {block} get-tuple-element(%s), index=2
  %w = {weights} get-tuple-element(%s), index=3
  %one = s32[] constant(1)
  %next = s32[] add(%k, %one)
  %zero = f32[] constant(0)
{lines}
  %r = {sums} reduce(%p, %zero), dimensions={{{along}}}, to_apply=%add
  %more = {sums} add(%so_far, %r)
  ROOT %t = {state} tuple(%next, %more, %x, %w)
}}
%less (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %k = s32[] get-tuple-element(%s), index=0
  %end = s32[] constant(10)
  ROOT %c = pred[] compare(%k, %end), direction=LT
}}
ENTRY %main {{
  %x = {block} parameter(0)
  %w = {weights} parameter(1)
  %first = {sums} parameter(2)
  %zero = s32[] constant(0)
  %init = {state} tuple(%zero, %first, %x, %w)
  ROOT %l = {state} while(%init), condition=%less, body=%body
}}
"
        )
    }

    const WEIGHTED: &str =
        "  %v = f32[512,64,1] broadcast(%w), dimensions={0,2}\n  %p = f32[512,64,1] multiply(%x, %v)";

    /// What becomes of a program.
    fn changed(source: &str, is_new: bool) -> Option<String> {
        let mut module = text::parse(source).expect("the test's module is legal");
        assert_eq!(hlo_ir::verify::verify(&module), [], "{source}");
        let change = patch(&module, &|_| is_new);
        (!change.is_empty()).then(|| {
            change.apply(&mut module).expect("the patch fits");
            assert_eq!(hlo_ir::verify::verify(&module), [], "{}", text::print(&module));
            assert!(patch(&module, &|_| true).is_empty(), "once is enough: {}", text::print(&module));
            text::print(&module)
        })
    }

    #[test]
    fn sums_lose_dimensions_of_one_element() {
        let text = changed(&program(WEIGHTED), true).expect("it is slow");
        for line in [
            "%kept = f32[512,64] call(%x), to_apply=%x.reshape",
            "= f32[512] reshape(%w)",
            "= f32[512,64] multiply(%kept, %v",
            "%r = f32[64,1] reshape(%r.1)",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!(text.matches("f32[512,64,1] multiply").count(), 0, "{text}");
        assert!(text.contains("= f32[64] reduce(") && text.contains("dimensions={0}, to_apply=%add"), "{text}");
    }

    #[test]
    fn dimensions_in_front_are_left_out_too() {
        let (block, weights) = ("f32[1,512,64]", "f32[512,1]");
        let weighted = "  %v = f32[1,512,64] broadcast(%w), dimensions={1,0}\n  %p = f32[1,512,64] multiply(%x, %v)";
        let text = changed(&program_of([block, weights, "f32[1,64]"], "1", weighted), true).expect("it is slow");
        assert!(text.contains("= f32[512,64] multiply(%kept, %v"), "{text}");
        assert!(text.contains("= f32[64] reduce(") && text.contains("dimensions={0}, to_apply=%add"), "{text}");
        // The dimension of one element can be summed too.
        let text = changed(&program_of([block, weights, "f32[64]"], "0,1", weighted), true).expect("it is slow");
        assert!(text.contains("%r = f32[64] reduce(%p"), "{text}");
    }

    #[test]
    fn others_read_the_values_as_they_were() {
        let lines = format!("{WEIGHTED}\n  %q = f32[512,64,1] negate(%p)");
        let source = program(&lines).replace("tuple(%next, %more, %x, %w)", "tuple(%next, %more, %q, %w)");
        let text = changed(&source, true).expect("it is slow");
        assert!(text.contains("%p = f32[512,64,1] reshape(%p.1)"), "{text}");
        assert!(text.contains("%q = f32[512,64,1] negate(%p)"), "{text}");
    }

    #[test]
    fn products_with_masks_still_only_select() {
        let lines = "  %m = pred[512,64,1] compare(%x, %x), direction=EQ\n  %p = f32[512,64,1] convert(%m)\n  %q = f32[512,64,1] multiply(%x, %p)";
        let source = program(lines).replace("tuple(%next, %more, %x, %w)", "tuple(%next, %more, %q, %w)");
        let text = changed(&source, true).expect("it is slow");
        assert!(text.contains("%m = pred[512,64,1] reshape(%m.1)"), "{text}");
        assert!(text.contains("%p = f32[512,64,1] convert(%m)"), "{text}");
    }

    #[test]
    fn what_is_fast_or_not_ours_stays() {
        let source = program(WEIGHTED);
        let stays = |source: &str, why| assert_eq!(changed(source, true), None, "{why}");
        assert_eq!(changed(&source, false), None, "the input's own");
        stays(&program("  %p = f32[512,64,1] get-tuple-element(%s), index=2"), "read from memory");
        stays(&source.replace("512", "31"), "a small block");
        assert!(changed(&source.replace("512", "32"), true).is_some(), "as small as that is worth it");
        let pairs = "  %v = f32[512,64,2] broadcast(%w), dimensions={0,2}\n  %p = f32[512,64,2] multiply(%x, %v)";
        let pairs = program_of(["f32[512,64,2]", "f32[512,2]", "f32[64,2]"], "0", pairs);
        stays(&pairs, "no dimension of one element");
        stays(&source.replacen("m\n", "m, num_partitions=2\n", 1), "to be partitioned");
        stays(&source.replacen("add(%a, %b)", "multiply(%a, %b)", 1), "no sum");
        stays(&source.replace("f32[", "f64["), "no numbers for the library");
        let columns = source.replace("f32[512,64,1]", "f32[512,64,1]{0,1,2}");
        stays(&columns, "columns lie together");
    }
}
