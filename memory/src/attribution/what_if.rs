//! What changes of a program's interface would save, without compiling it again: giving an argument's memory to an output, and narrower
//! types for arguments that are only used as indices.

mod donation;
mod index_width;

use hlo_ir::{ElementType, Module};
use smol_str::SmolStr;

use crate::{Bytes, Estimate, Target, size};

/// A change of the interface and what it would save.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WhatIf {
    /// The change.
    pub change: Change,
    /// How far the total would fall.
    pub saved: Bytes,
}

/// A change of a program's interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Donate an argument, so that an output of the same shape takes over its memory.
    Donate {
        /// Parameter number.
        parameter: i64,
        /// Name of the parameter.
        name: SmolStr,
        /// Its shape as text.
        shape: String,
    },
    /// Donate every argument that an output could take over.
    DonateAll {
        /// How many they are.
        count: usize,
    },
    /// Pass indices in a narrower type: all they are used for is to select among at most `bound` places.
    NarrowIndex {
        /// Parameter number.
        parameter: i64,
        /// Name of the parameter.
        name: SmolStr,
        /// Its element type.
        from: ElementType,
        /// The narrowest type that holds every index that is in bounds and not negative.
        to: ElementType,
        /// Size of the largest dimension that is indexed.
        bound: i64,
    },
}

/// Most instructions that are estimated anew for all questions about one module together: large modules get fewer answers, not slow ones.
const WORK: usize = 60_000;

/// Which integer arguments could be passed in a narrower type: what is told without any estimate.
pub(crate) fn narrower(module: &Module) -> Vec<Change> {
    index_width::answers(module)
}

/// Bytes of each argument of `compiled`, the program of one device.
pub(crate) fn arguments(compiled: &Module) -> Vec<Bytes> {
    let parameters = compiled.parameters(compiled.entry()).into_iter();
    parameters.map(|id| size::shape_size(compiled.shape(id)).unwrap_or_default()).collect()
}

/// What could be changed about `module`, of which `estimate` is the memory, besides those `narrower` arguments; largest saving first. Changes
/// that save nothing are left out. `again` estimates a changed module.
pub(crate) fn all(
    module: &Module,
    target: Target,
    estimate: &Estimate,
    narrower: Vec<Change>,
    arguments: &[Bytes],
    again: &dyn Fn(&Module) -> Option<Estimate>,
) -> Vec<WhatIf> {
    let questions = (WORK / module.instruction_count().max(1)).min(9);
    let mut answers: Vec<WhatIf> = narrower.into_iter().filter_map(|change| narrowed(change, arguments)).collect();
    if questions > 0 {
        answers.extend(donation::answers(module, target, estimate, questions, again));
    }
    answers.retain(|answer| answer.saved > Bytes::ZERO);
    answers.sort_by_key(|answer| std::cmp::Reverse(answer.saved));
    answers
}

/// What a narrower argument saves: as much of its bytes as of each element's.
fn narrowed(change: Change, arguments: &[Bytes]) -> Option<WhatIf> {
    let Change::NarrowIndex { parameter, from, to, .. } = &change else { return None };
    let whole = arguments.get(usize::try_from(*parameter).ok()?)?.get();
    let (from, to) = (u64::from(from.storage_bits()), u64::from(to.storage_bits()));
    Some(WhatIf { saved: Bytes(whole / from * (from - to)), change })
}
