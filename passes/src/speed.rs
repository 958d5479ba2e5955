//! What passes of kind `speed` have in common: they change what the run itself made, and all places of a module in one finding.
//!
//! One finding, because what the changes of all places take together is held against the peak.

use hlo_ir::edit::Patch;
use hlo_ir::{Instruction, InstructionId, Module, Opcode};
use hlo_memory::{Bytes, Target};

use crate::{Condition, Context, Finding, Grade, Outcome};

/// Blocks that stand in memory for themselves may take a twenty-fifth of the peak. A kernel that reads one too is not vectorized and takes up to four
/// times as long; one that writes it too runs on one thread, however many there are.
pub(crate) const SHARE_OF_PEAK: u64 = 25;

/// Whether there is anything to look at: kernels of other compilers are others.
pub(crate) fn applies(context: &Context<'_>) -> bool {
    context.options.target == Target::Cpu && context.origins.is_some()
}

/// A change for speed as it grows.
pub(crate) struct Change {
    pub(crate) patch: Patch,
    /// What is changed, in order.
    sites: Vec<InstructionId>,
}

impl Change {
    /// Nothing yet.
    pub(crate) fn new(module: &Module) -> Self {
        Self { patch: Patch::new(module), sites: Vec::new() }
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
    /// The finding, if anything is changed: how many of `[one, several]` are `changed`, and why the results stay as equal as `grade` says.
    pub(crate) fn finding(
        self,
        grade: Grade,
        [one, several]: [&str; 2],
        changed: &str,
        because: &str,
    ) -> Option<Finding> {
        let &instruction = self.sites.first().filter(|_| !self.patch.is_empty())?;
        let note = match self.sites.len() {
            1 => format!("{one} {changed}"),
            count => format!("{count} {several} {changed}"),
        };
        let conditions = vec![Condition { text: because.to_owned(), discharged_by: "structure" }];
        let outcome = Outcome::Rewrite { patch: self.patch, note, conditions };
        Some(Finding { instruction, grade, wasted: Bytes::ZERO, outcome })
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
