//! What passes of kind `speed` have in common: they change what the run itself made, and all places of a module in one finding.
//!
//! One finding, because what the changes of all places take together is held against the peak.

// Tests: `passes/tests/speed.rs`.

use hlo_ir::edit::Patch;
use hlo_ir::{Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target};

use crate::{Condition, Context, Finding, Grade, Outcome};

/// Blocks that stand in memory for themselves may take a twenty-fifth of the peak. A kernel that reads one too is not vectorized and takes up to four
/// times as long; one that writes it too runs on one thread, however many there are.
pub(crate) const SHARE_OF_PEAK: u64 = 25;

/// Tells instructions that a pass may change.
pub(crate) type New<'a> = &'a dyn Fn(InstructionId) -> bool;

/// What the finding of a pass says.
#[derive(Clone, Copy)]
pub(crate) struct FindingText {
    /// How equal the results stay, which decides what may be changed: everything that the run made, or only loops that keep less than every bit anyway.
    pub(crate) grade: Grade,
    /// What is changed: one of them, and several.
    pub(crate) places: [&'static str; 2],
    /// What becomes of it.
    pub(crate) changed: &'static str,
    /// Why the results stay as equal as the grade says.
    pub(crate) because: &'static str,
}

/// The finding of a pass that makes this change, if it changes anything. On CPU only: kernels of other compilers are others.
pub(crate) fn find(
    context: &Context<'_>,
    text: &FindingText,
    patch: impl FnOnce(&Module, New<'_>) -> Change,
) -> Option<Finding> {
    if context.options.target != Target::Cpu || context.origins.is_none() {
        return None;
    }
    let change = match text.grade {
        Grade::Bitwise => patch(context.module, &|id| context.is_new(id)),
        _ => patch(context.module, &|id| context.is_in_inexact_loop(id)),
    };
    change.finding(text)
}

/// A change for speed as it grows.
pub(crate) struct Change {
    pub(crate) patch: Patch,
    /// What is changed, in order.
    sites: Vec<InstructionId>,
}

impl Change {
    /// What `fill` adds to nothing. Modules to be partitioned stay as they are.
    pub(crate) fn of(module: &Module, fill: impl FnOnce(&mut Self)) -> Self {
        let mut change = Self { patch: Patch::new(module), sites: Vec::new() };
        if !module.is_partitioned() {
            fill(&mut change);
        }
        change
    }
    /// What `add` adds for each of the instructions that are `new`, but for those of the entry, which run once.
    pub(crate) fn in_loops(
        module: &Module,
        new: New<'_>,
        mut add: impl FnMut(&mut Self, InstructionId, &Instruction),
    ) -> Self {
        let ours = |&(id, inst): &(InstructionId, &Instruction)| inst.parent != module.entry() && new(id);
        Self::of(module, |change| module.live_instructions().filter(ours).for_each(|(id, inst)| add(change, id, inst)))
    }
    /// Whether nothing is changed.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.patch.is_empty()
    }
    /// Notes that `site` is changed; the finding stands at the first one.
    pub(crate) fn at(&mut self, site: InstructionId) {
        self.sites.push(site);
    }
    /// The finding, if anything is changed.
    fn finding(self, text: &FindingText) -> Option<Finding> {
        let &instruction = self.sites.first().filter(|_| !self.patch.is_empty())?;
        let ([one, several], changed) = (text.places, text.changed);
        let note = match self.sites.len() {
            1 => format!("{one} {changed}"),
            count => format!("{count} {several} {changed}"),
        };
        let conditions = vec![Condition { text: text.because.to_owned(), discharged_by: "structure" }];
        let outcome = Outcome::Rewrite { patch: self.patch, note, conditions };
        Some(Finding { instruction, grade: text.grade, wasted: Bytes::ZERO, outcome })
    }
    /// Makes the change.
    #[cfg(test)]
    pub(crate) fn apply(self, module: &mut Module) -> Result<hlo_ir::edit::Undo, hlo_ir::edit::PatchError> {
        self.patch.apply(module)
    }
}

/// Whether an instruction is a block with a start of its own for each dimension (there may be a vector of them) that waits for nothing else.
pub(crate) fn is_plain_block(module: &Module, inst: &Instruction) -> bool {
    let scalar = |&id: &InstructionId| module.instruction(id).array().is_some_and(|array| array.rank() == 0);
    inst.opcode == Opcode::DynamicSlice
        && inst.array().is_some_and(|array| !array.is_dynamic())
        && inst.operands[1..].iter().all(scalar)
        && inst.control_predecessors().is_empty()
}
