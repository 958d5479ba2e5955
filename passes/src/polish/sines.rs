//! Sines, cosines and tangents of a block are computed once for all kernels that read them.
//!
//! ```text
//! %c = f32[256,1024] cosine(%x)                      =>   %c = f32[256,1024] cosine(%x)
//!                                                         %kept = f32[256,1024] call(%c), to_apply=%hand_on
//! %p = f32[256,1024] multiply(%c, %y)                     %p = f32[256,1024] multiply(%kept, %y)
//! %r = f32[256] reduce(%p, %zero), dimensions={1}         %r = f32[256] reduce(%p, %zero), dimensions={1}
//! %q = f32[256,1024] divide(%c, %z)                       %q = f32[256,1024] divide(%kept, %z)
//! ```
//!
//! It takes memory for the block and saves time. XLA:CPU thinks these functions cheap and makes them anew in every kernel that reads one, though each
//! takes as long as reading ten numbers. The gradient of a normalized layer under a sine computed a cosine five times for each number, where
//! the program without loop did once, and ran at 0.39 of its speed.
//!
//! Sound because a call computes what its body computes. Calls marked `inlineable="false"` are not inlined by XLA. Stays away from
//! instructions of the input, from the entry computation, from what one kernel reads, from floats that memory rounds, and from modules
//! to be partitioned. What a sum is made of is only touched in loops that do not keep every bit: a library that sums computes functions by
//! code of its own. The manager undoes it where the blocks are dear.
//!
//! Source: `CpuInstructionFusion::IsExpensive` (xla/service/cpu/cpu_instruction_fusion.cc).

use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::{ElementType, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use super::call_that_hands_on;
use crate::flow::is_fusible;
use crate::roll::contract::reaches_reduce;

/// Bytes of the smallest block that is worth a kernel of its own: less is computed in the time that starting one takes.
const LEAST: Bytes = Bytes(64 << 10);

/// What computes once the sines that are `new` and read by several kernels; those that a sum is made of only where bits may change.
pub(crate) fn patch(module: &Module, new: impl Fn(InstructionId) -> bool, summed: bool) -> Patch {
    let mut patch = Patch::new(module);
    if module.is_partitioned() {
        return patch;
    }
    let users = Users::of(module);
    for (sine, inst) in module.live_instructions() {
        let wanted = inst.parent != module.entry() && is_large_sine(module, sine) && new(sine);
        if wanted && is_read_by_several(module, &users, sine) && (summed || !reaches_reduce(module, &users, sine)) {
            keep(module, sine, &mut patch);
        }
    }
    patch
}

fn is_large_sine(module: &Module, id: InstructionId) -> bool {
    let inst = module.instruction(id);
    let wide = |element: ElementType| matches!(element, ElementType::F32 | ElementType::F64);
    matches!(inst.opcode, Opcode::Sine | Opcode::Cosine | Opcode::Tan)
        && inst.array().is_some_and(|array| wide(array.element_type))
        && size::shape_size(module.shape(id)).is_some_and(|bytes| bytes >= LEAST)
}

/// Whether several instructions read a value, or what alone is made of it on the fly.
fn is_read_by_several(module: &Module, users: &Users, id: InstructionId) -> bool {
    let mut at = id;
    while let [user] = *users.get(at) {
        let opcode = module.instruction(user).opcode;
        if !opcode.is_elementwise() || !is_fusible(opcode) {
            return false;
        }
        at = user;
    }
    users.get(at).len() > 1
}

/// Lets all readers of a value take it from a call.
fn keep(module: &Module, id: InstructionId, patch: &mut Patch) {
    let mut block = module.instruction(id).clone();
    block.operands = [id].into_iter().collect();
    let kept = call_that_hands_on(patch, block.parent, &block);
    patch.replace(id, kept);
}
