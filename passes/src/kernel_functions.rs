//! What a kernel of XLA:CPU computes at several places.
//!
//! XLA:CPU fuses what a value is computed from into one kernel and cuts it into functions: a value gets a function of its own where it is read
//! from several functions, or at several places by one (the operands of a concatenation stand at different places of its result). Called more
//! than once, such a function is not always inlined. A place is told here by the path of reshapes, slices and the like that leads to it, which
//! finds at least the places that XLA tells apart by their formulas.
//!
//! Source: `xla/codegen/emitters/computation_partitioner.cc`.

use std::collections::BTreeMap;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::arena::{Id as _, SideTable};
use hlo_ir::attribute::SliceDim;
use hlo_ir::graph::{self, Users};
use hlo_ir::{AttrKey, AttrValue, ComputationId, Instruction, InstructionId, Module, Opcode};

use crate::flow::{is_expensive, is_fusible};

/// Instructions outside of the entry that are `wanted` and that some kernel computes in a function that it calls more than once.
pub(crate) fn several_in_loops(
    module: &Module,
    users: &Users,
    wanted: impl Fn(InstructionId, &Instruction) -> bool,
) -> Vec<InstructionId> {
    let mut computations: IndexMap<_, SideTable<InstructionId, bool>> = IndexMap::default();
    let candidates = module.live_instructions().filter(|&(id, inst)| inst.parent != module.entry() && wanted(id, inst));
    let several = candidates.filter(|&(id, inst)| {
        computations.entry(inst.parent).or_insert_with(|| computed_several_times(module, users, inst.parent))[id]
    });
    several.map(|(id, _)| id).collect()
}

/// Instructions of `computation` that some kernel computes in a function that it calls more than once.
fn computed_several_times(
    module: &Module,
    users: &Users,
    computation: ComputationId,
) -> SideTable<InstructionId, bool> {
    let order = graph::post_order(module, computation);
    let mut places = SideTable::new(0);
    for (place, &id) in order.iter().enumerate() {
        places.set(id, place);
    }
    let mut several = SideTable::new(false);
    for &root in order.iter().filter(|&&id| is_result(module, users, id)) {
        Kernel::new(module, users, &places).note(root, &mut several);
    }
    several
}

/// Whether a kernel ends with this instruction: someone needs it in memory.
fn is_result(module: &Module, users: &Users, id: InstructionId) -> bool {
    let fused = |&user: &InstructionId| is_fusible(module.instruction(user).opcode);
    let inst = module.instruction(id);
    is_fusible(inst.opcode)
        && (module.computation(inst.parent).root == id
            || is_kept(module, users, id)
            || !users.get(id).iter().all(fused))
}

/// Whether no kernel computes this on the way to something else: it adds up elements, or takes long and is read more than once.
fn is_kept(module: &Module, users: &Users, id: InstructionId) -> bool {
    let several = users.get(id).len() > 1;
    module.instruction(id).opcode == Opcode::Reduce || (several && is_expensive(module, id))
}

/// A step on the way from a result to what it is computed from, where places change.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Step {
    /// Number of the path so far.
    path: usize,
    opcode: Opcode,
    /// What tells this step from another one of its opcode.
    how: Vec<i64>,
}

/// How an instruction is reached within one kernel.
#[derive(Default)]
struct Reached {
    /// Functions that read it.
    functions: IndexSet<usize>,
    /// Paths on which they do.
    paths: IndexSet<usize>,
    /// Whether one of these functions, or one that calls it, is called more than once.
    several: bool,
}

/// One kernel cut into functions.
struct Kernel<'a> {
    module: &'a Module,
    users: &'a Users,
    /// Where instructions stand in an order that has operands first.
    places: &'a SideTable<InstructionId, usize>,
    paths: IndexMap<Step, usize>,
    /// What is still to be noted, by place.
    reached: BTreeMap<usize, (InstructionId, Reached)>,
    functions: usize,
}

impl<'a> Kernel<'a> {
    fn new(module: &'a Module, users: &'a Users, places: &'a SideTable<InstructionId, usize>) -> Self {
        Self { module, users, places, paths: IndexMap::default(), reached: BTreeMap::new(), functions: 0 }
    }
    /// Marks what the kernel of `root` computes several times. The work is that of the kernel, not of the computation around it.
    fn note(mut self, root: InstructionId, several: &mut SideTable<InstructionId, bool>) {
        self.reached.insert(self.places[root], (root, Reached::default()));
        while let Some((_, (id, reached))) = self.reached.pop_last() {
            let own = id == root || reached.functions.len() > 1 || reached.paths.len() > 1;
            let shared = reached.several || (own && id != root);
            if shared {
                several.set(id, true);
            }
            self.functions += usize::from(own);
            let function = if own { self.functions } else { reached.functions.first().copied().unwrap_or_default() };
            let path = if own { 0 } else { reached.paths.first().copied().unwrap_or_default() };
            self.read(self.module.instruction(id), function, path, shared);
        }
    }
    /// Notes that `inst` reads its operands.
    fn read(&mut self, inst: &Instruction, function: usize, path: usize, shared: bool) {
        for (k, &operand) in inst.operands.iter().enumerate() {
            let of = self.module.instruction(operand);
            let fused = is_fusible(of.opcode) && !is_kept(self.module, self.users, operand);
            if of.parent != inst.parent || !fused || of.array().is_none_or(|array| array.rank() == 0) {
                continue;
            }
            let path = match place(self.module, inst, k) {
                None => path,
                Some(how) => {
                    let next = self.paths.len() + 1;
                    *self.paths.entry(Step { path, opcode: inst.opcode, how }).or_insert(next)
                }
            };
            let (_, reached) =
                self.reached.entry(self.places[operand]).or_insert_with(|| (operand, Reached::default()));
            reached.functions.insert(function);
            reached.paths.insert(path);
            reached.several |= shared;
        }
    }
}

/// What tells the place where operand `k` is read from the place of the result; `None` if it is the same.
fn place(module: &Module, inst: &Instruction, k: usize) -> Option<Vec<i64>> {
    let dims = |id: InstructionId| module.instruction(id).array().map(|array| array.dims.to_vec()).unwrap_or_default();
    let own = inst.array().map(|array| array.dims.to_vec()).unwrap_or_default();
    let operand = inst.operands[k];
    match inst.opcode {
        opcode if opcode.is_elementwise() => None,
        Opcode::BitcastConvert if own == dims(operand) => None,
        Opcode::Reshape | Opcode::Bitcast => {
            let wide = |dims: &[i64]| dims.iter().copied().filter(|&size| size != 1).collect::<Vec<_>>();
            let (from, to) = (dims(operand), own);
            (wide(&from) != wide(&to)).then(|| [from, vec![-1], to].concat())
        }
        Opcode::Concatenate => {
            let along =
                inst.ints(&AttrKey::Dimensions).first().and_then(|&dim| usize::try_from(dim).ok()).unwrap_or_default();
            Some(vec![inst.operands[..k].iter().map(|&before| dims(before)[along]).sum()])
        }
        Opcode::Slice => {
            let AttrValue::Slice(bounds) = inst.attribute(&AttrKey::Slice)? else { return None };
            Some(bounds.iter().flat_map(|&SliceDim { start, limit, stride }| [start, limit, stride]).collect())
        }
        Opcode::Broadcast | Opcode::Transpose | Opcode::Reverse => Some(inst.ints(&AttrKey::Dimensions).to_vec()),
        // Whatever else moves elements: a place of its own.
        _ => Some([inst.operands.iter().map(|id| id.index() as i64).collect(), vec![k as i64]].concat()),
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;

    use super::*;

    /// Names of what the kernels of a computation compute several times.
    fn several(lines: &str) -> Vec<String> {
        let source = format!(
            "HloModule m
%add (a: s32[], b: s32[]) -> s32[] {{
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %c = s32[] add(%a, %b)
}}
ENTRY %main {{
  %p = s32[100] parameter(0)
  %start = s32[] parameter(1)
  %x = s32[10] dynamic-slice(%p, %start), dynamic_slice_sizes={{10}}
{lines}
}}
"
        );
        let module = text::parse(&source).expect("legal text");
        assert_eq!(hlo_ir::verify::verify(&module), []);
        let found = computed_several_times(&module, &Users::of(&module), module.entry());
        module.live_instructions().filter(|(id, _)| found[*id]).map(|(_, inst)| inst.name.to_string()).collect()
    }

    #[test]
    fn operands_of_a_concatenation_stand_at_places_of_their_own() {
        let found = several(
            "  %n = s32[10] negate(%x)
  %q = s32[10] abs(%n)
  %r = s32[10] sign(%n)
  ROOT %all = s32[20] concatenate(%q, %r), dimensions={0}",
        );
        assert_eq!(found, ["x", "n"], "read for both halves");
        let twice = several("  ROOT %all = s32[20] concatenate(%x, %x), dimensions={0}");
        assert_eq!(twice, ["x"]);
        let behind = several(
            "  %h = s32[5] slice(%x), slice={[0:5]}
  %t = s32[5] slice(%x), slice={[5:10]}
  ROOT %s = s32[5] add(%h, %t)",
        );
        assert_eq!(behind, ["x"]);
    }

    #[test]
    fn what_is_read_at_one_place_or_by_kernels_of_their_own_is_computed_once() {
        let wrapped = several(
            "  %n = s32[10] negate(%x)
  %c = pred[10] compare(%x, %n), direction=LT
  %s = s32[10] select(%c, %n, %x)
  ROOT %r = s32[10,1] reshape(%s)",
        );
        assert!(wrapped.is_empty(), "{wrapped:?}");
        let apart = several(
            "  %n = s32[10] negate(%x)
  %zero = s32[] constant(0)
  %s = s32[] reduce(%x, %zero), dimensions={0}, to_apply=%add
  %all = s32[10] broadcast(%s), dimensions={}
  ROOT %d = s32[10] subtract(%n, %all)",
        );
        assert!(apart.is_empty(), "a sum is in memory: {apart:?}");
    }
}
