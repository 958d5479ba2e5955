//! Puts the body of a called computation in the place of the `call`.
//!
//! Waste: none by itself, because XLA inlines calls too, before anything else. But JAX wraps `take`, `clip`, `divmod`, `where` and nested
//! `jit`s in calls, and a call hides which rows of which buffer a scatter reads.
//!
//! ```text
//! %clip (a: s32[8], b: s32[]) -> s32[8] {        %c = s32[8] broadcast(%zero), dimensions={}
//!   %a = s32[8] parameter(0)                     ROOT %r = s32[8] maximum(%i, %c)
//!   %b = s32[] parameter(1)                  =>
//!   %c = s32[8] broadcast(%b), dimensions={}
//!   ROOT %m = s32[8] maximum(%a, %c)
//! }
//! ROOT %r = s32[8] call(%i, %zero), to_apply=%clip
//! ```
//!
//! Sound because a call computes what its body computes on the operands, once, at that place. Calls inside the body are inlined with it.
//! Grade: bitwise.
//!
//! In the default pipeline a call is inlined in the operands of a large scatter or gather, or around one. It is also inlined if such calls together
//! take or make a twentieth of all temporaries, or on the way from one large value to another. In large modules all calls are inlined at once, as
//! XLA does, because a search behind each takes long. All of this is kept only if a rewrite then gains.
//! Named in `--passes`, it inlines every call it may.
//!
//! Stays away from scheduled modules (the call is then a decision of the compiler) and from calls that
//!
//! - say `inlineable="false"` (bodies of manually sharded code), are composites, or run on another thread;
//! - carry a sharding or control predecessors;
//! - hold a side effect (collectives are none, if what holds them is called at one place);
//! - would grow the module by more than 100,000 instructions.

// Tests: `passes/tests/inline_calls.rs`.

mod body;
mod targets;

pub(crate) use body::obstacle_to_copying as obstacle_to_inlining;

use crate::hash::IndexMap;
use hlo_ir::edit::Patch;
use hlo_ir::{InstructionId, Module, Opcode};
use hlo_memory::{Bytes, size};

use crate::{Context, Finding, Grade, Outcome, Pass, PassKind, Reason, bounds};

/// Which calls are inlined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Scope {
    /// Every call that may be.
    #[default]
    Everywhere,
    /// Only calls that hide something from a scatter or gather.
    WhereNeeded,
}

/// The pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct InlineCalls {
    scope: Scope,
}

impl InlineCalls {
    /// Inlines only what stands between a large scatter or gather and its producers, all of it in one change.
    pub const fn where_needed() -> Self {
        Self { scope: Scope::WhereNeeded }
    }
}

impl Pass for InlineCalls {
    fn name(&self) -> &'static str {
        "inline-calls"
    }
    fn summary(&self) -> &'static str {
        "put the bodies of called computations in the place of the calls"
    }
    crate::explanation!("inline_calls.rs");
    fn kind(&self) -> PassKind {
        PassKind::CleanUp
    }
    fn comes_first(&self, module: &Module) -> bool {
        inlines_at_once(module)
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        let module = context.module;
        if module.is_scheduled() {
            return Vec::new();
        }
        match self.scope {
            Scope::Everywhere => {
                let calls = module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Call);
                calls.map(|(id, _)| inline_one(module, id)).collect()
            }
            Scope::WhereNeeded => {
                let all = targets::everywhere(module).filter(|_| inlines_at_once(module));
                match all.and_then(|all| all.finding(module)) {
                    Some(all) => vec![all],
                    None => targets::around_sinks(context).into_iter().filter_map(|t| t.finding(module)).collect(),
                }
            }
        }
    }
    fn find_where_needed(&self, context: &Context<'_>) -> Vec<Finding> {
        Self::where_needed().find(context)
    }
}

/// Whether all calls are inlined in one change, because the module is too large to look behind each of them.
fn inlines_at_once(module: &Module) -> bool {
    module.live_instructions().count() > bounds::SMALL
}

fn inline_one(module: &Module, call: InstructionId) -> Finding {
    let outcome = match body::obstacle(module, call).map_or_else(|| inline(module, &[call]), Err) {
        Ok(patch) => Outcome::Rewrite { patch, note: note(module, &[call]), conditions: Vec::new() },
        Err(reason) => Outcome::Missed(reason),
    };
    let wasted = size::shape_size(module.shape(call)).unwrap_or(Bytes::ZERO);
    Finding { instruction: call, grade: Grade::Bitwise, wasted, outcome }
}

/// One patch that inlines all of `calls`, which must stand in text order.
fn inline(module: &Module, calls: &[InstructionId]) -> Result<Patch, Reason> {
    let mut patch = Patch::new(module);
    let mut inliner = body::Inliner::new(module, &mut patch);
    for &call in calls {
        inliner.inline(call)?;
    }
    Ok(patch)
}

/// `inlined clip.1, divmod.2 (3 times)`; where there are many, some are only counted.
fn note(module: &Module, calls: &[InstructionId]) -> String {
    const NAMED: usize = 16;
    let mut times: IndexMap<&str, usize> = IndexMap::default();
    for callee in calls.iter().flat_map(|&call| module.instruction(call).called_computations()) {
        *times.entry(module.computation(callee).name.as_str()).or_insert(0) += 1;
    }
    let name = |(name, &times): (&&str, &usize)| {
        if times > 1 { format!("{name} ({times} times)") } else { (*name).to_owned() }
    };
    let names: Vec<String> = times.iter().take(NAMED).map(name).collect();
    let others = times.len().saturating_sub(NAMED);
    let others = if others > 0 { format!(" and {others} others") } else { String::new() };
    format!("inlined {}{others}", names.join(", "))
}
