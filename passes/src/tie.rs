//! Forces an order that XLA's scheduler would not take, so that large temporaries do not wait side by side for their turn.
//!
//! Waste: XLA:CPU schedules for concurrency: whatever can be computed early is. A hundred histograms first make a hundred index arrays;
//! weights in bf16 or int8 are all widened before the first product; sharded weights are all gathered at once; what `jax.checkpoint`
//! wants computed again late is merged with its first computation, or computed at once.
//!
//! ```text
//! %w = bf16[8,8] parameter(1)                %t = s32[] bitcast-convert(one element of %x)
//!                                            %z = s32[] clamp(0, %t, 0)
//!                                      =>    %never = pred[8,8] broadcast(compare(%z, 0), direction=NE)
//!                                            %late = bf16[8,8] select(%never, zeros, %w)
//! ROOT %d = dot(%x, %w)                      ROOT %d = dot(%x, %late)
//! ```
//!
//! The `select` waits for `%x` and forwards `%w` untouched: `clamp(0, t, 0)` is zero for every `t`, but no pass of XLA looks through it, and
//! control dependencies and barriers are gone before XLA:CPU schedules. The tie stands at an input of the region it delays, where it is
//! fused into the first user and needs no memory of its own. XLA:GPU and XLA:TPU schedule with barriers, so an `opt-barrier` of `%w` and `%x` stands in its
//! place there, which moves nothing.
//!
//! Three places are looked at, each as one change. *Weights*: an operand of a `dot` that is widened, computed from parameters, or sharded
//! waits for the other operand. *Recomputation*, on XLA:CPU: the large value behind an `opt-barrier` waits for the latest value in it. *Copies*: of
//! independent pieces of the same work, each waits for the one before.
//!
//! Sound because a `select` or a barrier forwards every bit, and because a value is never tied to something computed from it. Grade: bitwise. It is
//! hlo-exact where the tie comes between a float product and a sum, or reads a product or a scatter into zeros that a sum takes in: there the
//! compiler may decide anew whether to make one operation of the two. It is hlo-exact, too, where a reduction follows on what is waited for.
//!
//! Stays away from scheduled modules, and from equal pieces, which XLA computes once (`repeated`). Every change is kept only if the estimate
//! of the default schedule falls. On XLA:TPU pieces with products are left alone, which it runs one after the other by itself.

// Tests: `passes/tests/same_terms.rs`, `passes/tests/tie.rs`.

mod copies;
mod recompute;
mod weights;

use hlo_memory::Bytes;

use crate::{Context, Finding, Pass, PassKind};

/// The pass; see the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tie;

impl Pass for Tie {
    fn name(&self) -> &'static str {
        "tie"
    }
    fn summary(&self) -> &'static str {
        "let large temporaries wait until they are needed"
    }
    crate::explanation!("tie.rs");
    fn kind(&self) -> PassKind {
        PassKind::Rewrite
    }
    fn find(&self, context: &Context<'_>) -> Vec<Finding> {
        if context.module.is_scheduled() {
            return Vec::new();
        }
        let computations = crate::roll::running(context.module);
        let isomorphism = crate::roll::Isomorphism::new(context.module);
        let all = computations.into_iter().flat_map(|computation| {
            let found = [weights::find(context, computation), recompute::find(context, computation)];
            found.into_iter().flatten().chain(copies::find(context, &isomorphism, computation))
        });
        all.filter(|finding| finding.wasted >= context.options.min_saving && finding.wasted > Bytes::ZERO).collect()
    }
}
