//! Writes loops whose state holds tuples with a flat state.
//!
//! Waste: none by itself. But TensorFlow keeps every list that a loop writes as a pair of a stack and a counter, hands the whole state to a call in
//! the condition, and puts the result of the loop together again behind it. Passes that look at elements of a loop's state see none of the stacks.
//!
//! ```text
//! %s = (s32[], (f32[9,4], s32[])) tuple(%i, %pair)            %s = (s32[], f32[9,4], s32[]) tuple(%i, %a, %n)
//! %w = (s32[], (f32[9,4], s32[])) while(%s), ...          =>  %w = (s32[], f32[9,4], s32[]) while(%s), ...
//! %p = (f32[9,4], s32[]) get-tuple-element(%w), index=1
//! %r = f32[9,4] get-tuple-element(%p), index=0                %r = f32[9,4] get-tuple-element(%w), index=1
//! ```
//!
//! The elements of inner tuples become elements of the state, in their order: in the tuple that the loop begins with, in the parameters of body and
//! condition, in the root of the body, and where the result is read. There, and inside the loops, an element of a tuple that stands in the same
//! computation is that operand. Calls that take a tuple of the state are inlined, and operations that change nothing (a reshape to the same shape, a
//! concatenation of one operand) are looked through. What needs a tuple as a whole gets one built of the elements. A loop without inner tuples is
//! written this way too where a call takes its whole state, or where its result is put together and taken apart again.
//!
//! Sound because a tuple is nothing but its elements, and because a call computes what its body computes on the operands. Parameters and results of
//! the program keep their shapes, so donated buffers keep their places. Grade: bitwise.
//!
//! In the default pipeline all loops are changed together, and only if a rewrite then gains; named in `--passes`, they always are.
//!
//! Stays away from scheduled modules, and from loops
//!
//! - with a sharding on a tuple (`sharded`) or control edges at tuples or elements of them (`control`);
//! - whose body or condition has other callers (`shared-body`);
//! - whose compiler's settings name elements by number (`backend-config`);
//! - whose body also reads the tuple that it returns (`whole-state`).

// Tests: `passes/tests/flat_state.rs`.

mod loops;
mod rewrite;
mod tree;

use hlo_ir::edit::Patch;
use hlo_ir::{InstructionId, Module};
use hlo_memory::Bytes;

use crate::{Condition, Context, Finding, Grade, Outcome, Pass, PassKind, Reason};
use loops::Loops;

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlatState;

impl Pass for FlatState {
    fn name(&self) -> &'static str {
        "flat-state"
    }
    fn summary(&self) -> &'static str {
        "write loops whose state holds tuples with a flat state"
    }
    crate::explanation!("flat_state.rs");
    fn kind(&self) -> PassKind {
        PassKind::CleanUp
    }
    fn accompanies(&self) -> bool {
        true
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        if module.is_scheduled() {
            return Vec::new();
        }
        let loops = Loops::of(module);
        let mut findings: Vec<Finding> = finding(module, &loops).into_iter().collect();
        findings.extend(loops.refused.iter().map(|&(id, code, message)| missed(module, id, code, message)));
        findings.retain(|finding| finding.wasted >= context.options.min_saving && finding.wasted > Bytes::ZERO);
        findings
    }
}

/// One change for all loops.
fn finding(module: &Module, loops: &Loops) -> Option<Finding> {
    let bytes = |id: InstructionId| loops::bytes(module, id);
    let &instruction = loops.flat.iter().max_by_key(|&&id| (bytes(id), std::cmp::Reverse(id)))?;
    let mut patch = Patch::new(module);
    let outcome = match rewrite::flatten(module, &mut patch, loops) {
        Ok(()) => {
            let note = match loops.flat.len() {
                1 => "a loop with a flat state".to_owned(),
                count => format!("{count} loops with a flat state"),
            };
            let text = "a tuple is nothing but its elements".to_owned();
            Outcome::Rewrite { patch, note, conditions: vec![Condition { text, discharged_by: "structure" }] }
        }
        Err(reason) => Outcome::Missed(reason),
    };
    let wasted = loops.flat.iter().map(|&id| bytes(id)).sum();
    Some(Finding { instruction, grade: Grade::Bitwise, wasted, outcome })
}

fn missed(module: &Module, id: InstructionId, code: &'static str, message: &str) -> Finding {
    let reason = Reason { code, message: message.to_owned() };
    let outcome = Outcome::Missed(reason);
    Finding { instruction: id, grade: Grade::Bitwise, wasted: loops::bytes(module, id), outcome }
}
