//! Turns what XLA made of a program back into plain HLO that XLA takes.
//!
//! Waste: none by itself. But a scheduled module, the text behind the compiler's optimizations, is the compiler's own form: nothing can be
//! rewritten in it, because every fusion, layout and place in the schedule is a decision already made, and XLA does not take it back. This
//! pass serves users who have only that dump.
//!
//! ```text
//! %fused (p: f32[4,6]) -> f32[24] {
//!   %p = f32[4,6]{0,1} parameter(0)
//!   %e = f32[4,6]{0,1} exponential(%p)               %e = f32[4,6]{1,0} exponential(%x)
//!   ROOT %b = f32[24]{0} bitcast(%e)           =>    %t = f32[6,4]{1,0} transpose(%e), dimensions={1,0}
//! }                                                  ROOT %b = f32[24]{0} reshape(%t)
//! ROOT %r = f32[24]{0} fusion(%x), kind=kLoop, calls=%fused
//! ```
//!
//! Bodies take the place of fusions (those given to a library too: what they compute is their body) and of the calls that wrap parallel
//! loops. A bitcast becomes the reshape, transpose and bitcast-convert that its two layouts amount to; then all layouts are row-major again,
//! as the header's entry layout stays. Copies, which only move between layouts or buffers, go; so do schedule, control edges and backend
//! configs.
//!
//! Sound because a fusion computes what its body computes, and because a layout says where elements stand, not what they are. XLA fuses anew
//! afterwards: a product and a sum that stood in one kernel may stand in two, and float sums choose their order again. Grade: bitwise if the
//! module holds no float product, sum or the like, else hlo-exact.
//!
//! In the default pipeline a module is unfused only if a rewrite of its plain form then needs fewer bytes than the compiler's own form;
//! named in `--passes`, it always is.
//!
//! Stays away from modules without schedule and fusions, which are plain already, and refuses whole modules that hold what has no plain form:
//!
//! - custom calls that are not typed FFI calls (`custom-call`), and opcodes it does not know (`unknown-opcode`);
//! - operations split in a start and an end (`async`), and control edges between side effects (`control`);
//! - programs of several devices (`partitioned`), and dynamic sizes (`dynamic-shape`);
//! - bitcasts within a byte (`sub-byte`) or between arrays of different sizes (`padded-bitcast`);
//! - fusions without a body (`no-callee`), and bodies that would grow beyond two million instructions (`too-large`).

// Tests: `passes/tests/unfuse.rs`, `tests/unfuse.rs`.

mod bitcast;
mod build;
mod refuse;
mod shapes;

use hlo_ir::{ElementType, Instruction, Module, Opcode};

use crate::{Context, Finding, Grade, Outcome, Pass, PassKind, flow};

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unfuse;

impl Pass for Unfuse {
    fn name(&self) -> &'static str {
        "unfuse"
    }
    fn summary(&self) -> &'static str {
        "turn a module behind XLA's optimizations back into plain HLO that XLA takes"
    }
    crate::explanation!("unfuse.rs");
    fn kind(&self) -> PassKind {
        PassKind::Form
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        if !is_compiled(module) {
            return Vec::new();
        }
        let outcome = refuse::obstacle(module).map_or_else(
            || {
                let (patch, note) = build::plain(module);
                Outcome::Rewrite { patch, note, conditions: Vec::new() }
            },
            Outcome::Missed,
        );
        let instruction = module.computation(module.entry()).root;
        vec![Finding { instruction, grade: grade(module), wasted: context.estimate.temporaries, outcome }]
    }
}

/// Whether the module carries decisions of the compiler.
fn is_compiled(module: &Module) -> bool {
    module.is_scheduled() || module.live_instructions().any(|(_, inst)| inst.opcode == Opcode::Fusion)
}

/// Bitwise only where nothing depends on which kernel it stands in.
fn grade(module: &Module) -> Grade {
    // Updates of a scatter are added in the order of the indices, whichever kernel does it; bodies of loops and calls are looked at themselves.
    let stays = |opcode| matches!(opcode, Opcode::Scatter | Opcode::While | Opcode::Call);
    let depends = |inst: &Instruction| {
        is_float_product(inst) || (!stays(inst.opcode) && flow::exactness(module, inst) > Grade::Bitwise)
    };
    if module.live_instructions().any(|(_, inst)| depends(inst)) { Grade::HloExact } else { Grade::Bitwise }
}

/// Whether the compiler may contract the instruction with a sum that stands in the same kernel.
fn is_float_product(inst: &Instruction) -> bool {
    let inexact = |element: ElementType| element.is_float() || element.is_complex();
    inst.opcode == Opcode::Multiply && inst.array().is_some_and(|array| inexact(array.element_type))
}
