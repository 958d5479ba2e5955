//! Keeps the stacks of a loop in the memory of the host until they are read.
//!
//! Waste: the gradient of a `scan` reads the rows of its stacks long after they were written, and until then all of them stand in the memory of the device. The host has
//! many times as much.
//!
//! ```text
//! first loop:   %s = f32[T,N] dynamic-update-slice(%stack, %row, %t)       %h = f32[1,N] custom-call(%row), custom_call_target="MoveToHost"
//!                                                                          %s = f32[T,N] dynamic-update-slice(%stack, %h, %t)
//! second loop:  %r = f32[1,N] dynamic-slice(%stack, %t)                =>  %r = f32[1,N] dynamic-slice(%stack, %t)
//!               use(%r)                                                    %d = f32[1,N] custom-call(%r), custom_call_target="MoveToDevice"
//!                                                                          use(%d)
//! ```
//!
//! XLA:GPU and XLA:TPU make the stack a buffer of the host then, and copy each row there and back beside the kernels. The search charges both copies at the rate of the
//! link between device and host (`machine.rs`), and takes nothing with which a program takes longer than `--max-slowdown` promises, unless a budget is missed.
//!
//! Values of straight code, such as those that the gradients of unrolled layers read, go the same way where a compiler judges the result (`--judge xla`): when XLA copies them decides what
//! that saves, and the model does not know it. What comes back waits for the gradient that meets it, and what is computed next waits for what goes.
//!
//! Sound because a move changes no bit. Grade: bitwise, or hlo-exact where a product meets a sum behind a row, or a short float is computed: a compiler may compute them in other
//! kernels then (see `tie`). Nothing but rows of the stack is read, by loops that forward it, and each is moved back before anything computes with
//! it, which is what XLA asks for (`HostOffloader`, xla/hlo/transforms/host_offloader.cc). Where a program is yet to be divided among devices, a move is divided as what it moves
//! (`HandleCustomCall`, xla/service/spmd/custom_call_handler.cc), so that no device asks another for anything.
//!
//! Stays away from
//!
//! - XLA:CPU, whose memory is the host's, and scheduled modules;
//! - stacks beyond what `--host-memory` allows (`host-memory`);
//! - stacks that anything else reads, that a step reads too, or that do not start from an array of one value;
//! - loops whose state is annotated for several devices, where rows may lie on different ones, or that others run too;
//! - what stands in a computation that is called at several places;
//! - of programs that are yet to be divided, values of straight code that may lie across devices;
//! - values of which something is computed that does not stand in memory, and that late instructions read.

// Tests: `passes/tests/host_offload.rs`.

mod stacks;
mod values;

use hlo_ir::edit::Patch;
use hlo_ir::graph::Callers;
use hlo_ir::host::HostMove;
use hlo_ir::{AttrKey, Instruction, InstructionId, Module, graph};
use hlo_memory::{Bytes, Target};

use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind, Reason};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostOffload;

impl Pass for HostOffload {
    fn name(&self) -> &'static str {
        "host-offload"
    }
    fn summary(&self) -> &'static str {
        "keep the stacks of a loop in the memory of the host until they are read"
    }
    crate::explanation!("host_offload.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn offloads(&self) -> bool {
        true
    }
    fn is_timed(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        if context.module.is_scheduled() || context.options.target == Target::Cpu {
            return Vec::new();
        }
        let mut found = stacks::find(context);
        if context.options.is_judged && context.options.host_memory > Bytes::ZERO {
            found.extend(values::find(context));
        }
        let callers = graph::callers(context.module);
        found.retain(|finding| runs_at_one_place(context.module, &callers, finding.instruction));
        found
    }
}

/// Whether calls lead to an instruction on one way: each call would take the memory of the host anew.
fn runs_at_one_place(module: &Module, callers: &Callers, id: InstructionId) -> bool {
    let computation = module.instruction(id).parent;
    computation == module.entry()
        || matches!(callers[computation][..], [caller] if runs_at_one_place(module, callers, caller))
}

/// What is kept in the memory of the host instead.
struct Offloaded {
    patch: Patch,
    /// The instruction that owns the memory.
    owner: InstructionId,
    grade: Grade,
    /// Bytes that stand in the memory of the host.
    bytes: Bytes,
    note: String,
    conditions: Vec<Condition>,
}

impl Offloaded {
    /// The finding, as far as the host may be used.
    fn finding(self, context: &Context<'_>) -> Finding {
        let Self { patch, owner, grade, bytes, note, conditions } = self;
        let needed = context.estimate.host + bytes;
        let outcome = if needed > context.options.host_memory {
            Outcome::Withheld { patch, reason: beyond(bytes, needed) }
        } else {
            Outcome::Rewrite { patch, note, conditions }
        };
        Finding { instruction: owner, grade, wasted: bytes, outcome }
    }
}

/// Why values stay on the device.
fn beyond(bytes: Bytes, needed: Bytes) -> Reason {
    let needed = needed.get().div_ceil(1 << 20);
    let message = format!("{bytes} could stand in the memory of the host; --host-memory={needed}MiB allows it");
    Reason { code: "host-memory", message }
}

fn condition(text: String) -> Condition {
    Condition { text, discharged_by: "structure" }
}

/// The instruction that moves a value, with what is said of that value.
fn moved(module: &Module, value: InstructionId, from: InstructionId, kind: HostMove) -> Instruction {
    let inst = module.instruction(value);
    let mut there = kind.instruction(from, inst.shape.clone());
    there.parent = inst.parent;
    there.attributes.extend(inst.attributes.iter().filter(|attribute| attribute.key == AttrKey::Metadata).cloned());
    there
}
