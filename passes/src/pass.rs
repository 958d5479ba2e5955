//! The interface of a pass: what it is given and what it answers.

// Tests: `passes/tests/manager.rs`.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::hash::IndexSet;
use hlo_ir::edit::Patch;
use hlo_ir::graph::Users;
use hlo_ir::{ElementType, InstructionId, Module, Opcode};
use hlo_memory::excess::Libraries;
use hlo_memory::{Bytes, Estimate, ModelEstimator, Stored, Target};

use crate::loops::RowLoops;
use crate::run_time::stored;
use crate::{Machine, Objective, Origins};

/// How equal the results of a rewritten program are; each grade includes the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Grade {
    /// The same bits.
    Bitwise,
    /// The same HLO operations on the same elements; last bits can differ as between two XLA versions.
    HloExact,
    /// A float sum is split across blocks.
    Reassociate,
    /// Exact only under a promise of the user.
    Assume,
}

impl Grade {
    /// Whether results keep less than every bit, other than by a promise about the data: that rounds nothing.
    pub(crate) const fn is_inexact(self) -> bool {
        matches!(self, Self::HloExact | Self::Reassociate)
    }
    /// The spelling in flags and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bitwise => "bitwise",
            Self::HloExact => "hlo-exact",
            Self::Reassociate => "reassociate",
            Self::Assume => "assume",
        }
    }
}

/// A promise of the user about the run-time data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Assumption {
    /// Every index lies in `[0, size of the dimension)`.
    IndicesInBounds,
}

impl Assumption {
    /// The spelling in `--assume`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IndicesInBounds => "indices-in-bounds",
        }
    }
}

/// What the user asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The compiler that will run the result.
    pub target: Target,
    /// The machine that runs the result; `None` for the one that the target means alone.
    pub machine: Option<Machine>,
    /// The weakest grade allowed (never [`Grade::Assume`], which needs `assumptions`).
    pub exactness: Grade,
    /// Promises of the user.
    pub assumptions: Vec<Assumption>,
    /// Most bytes of block temporaries per loop; `None` lets each loop decide by rule.
    pub chunk_bytes: Option<Bytes>,
    /// The smallest saving for which a rewrite is made.
    pub min_saving: Bytes,
    /// Verify the module after every pass.
    pub verify_each: bool,
    /// The peak to reach; the search stops there. Passes see it only after rewrites that cost little run time have not reached it, and may then make costlier ones.
    pub budget: Option<Bytes>,
    /// How much run time rewrites may cost. Passes see [`Objective::Memory`] only after rewrites that cost little run time have been made.
    pub objective: Objective,
    /// Whether a compiler judges the result: the budget then need not leave room for the error margin of a rough model.
    pub is_judged: bool,
    /// Memory of the host that the program may use, for each device.
    pub host_memory: Bytes,
    /// Keep only the first so many rewrites.
    pub bisect_limit: Option<usize>,
    /// Whether to search with other flags too, if the result stays far above the floor, and to report what they would save.
    pub advise: bool,
    /// Folder of the user's own files: reports name lines of those. `None` takes everything outside of installed packages for theirs.
    pub source_root: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            target: Target::Cpu,
            machine: None,
            exactness: Grade::HloExact,
            assumptions: Vec::new(),
            chunk_bytes: None,
            min_saving: Bytes(1 << 20),
            verify_each: false,
            budget: None,
            objective: Objective::Balanced,
            is_judged: false,
            host_memory: Bytes::ZERO,
            bisect_limit: None,
            advise: true,
            source_root: None,
        }
    }
}

impl Options {
    /// The peak that is wanted even at the cost of run time: the budget, or zero for [`Objective::Memory`].
    pub(crate) fn goal(&self) -> Option<Bytes> {
        if self.objective == Objective::Memory { Some(Bytes::ZERO) } else { self.budget }
    }
    /// The figure that is compared with a budget.
    pub fn peak(&self, estimate: &Estimate) -> Bytes {
        if self.is_judged { estimate.likely() } else { estimate.certain() }
    }
    /// What runs the result.
    pub fn machine(&self) -> &Machine {
        self.machine
            .as_ref()
            .filter(|machine| machine.target == self.target)
            .unwrap_or_else(|| Machine::of(self.target))
    }
}

/// What a pass may look at.
#[derive(Debug)]
pub struct Context<'a> {
    /// The module as it is now.
    pub module: &'a Module,
    /// The users of each instruction.
    pub users: &'a Users,
    /// The estimate of its memory.
    pub estimate: &'a Estimate,
    /// Bytes of the input, before any rewrite.
    pub before: Bytes,
    /// Whether rewrites may recompute large values: all rewrites that do not were found.
    pub recompute_large: bool,
    /// What the user asked for.
    pub options: &'a Options,
    /// The instructions that the run has made so far; `None` for the input.
    pub origins: Option<&'a Origins>,
    /// What the compiler's library computes, once it was asked for.
    pub libraries: OnceCell<Libraries>,
    /// Whether the module will be partitioned, once it was asked for.
    pub partitioned: OnceCell<bool>,
    /// What XLA:GPU writes to memory, once it was asked for.
    pub stored: OnceCell<Arc<Stored>>,
    /// Its loops over independent rows that were asked for.
    pub row_loops: RowLoops,
}

impl<'a> Context<'a> {
    /// The context of the input, in which all kinds of rewrites are allowed.
    pub fn of_input(module: &'a Module, users: &'a Users, estimate: &'a Estimate, options: &'a Options) -> Self {
        Self {
            module,
            users,
            estimate,
            before: estimate.total_with_scratch(),
            recompute_large: true,
            options,
            origins: None,
            libraries: OnceCell::new(),
            partitioned: OnceCell::new(),
            stored: OnceCell::new(),
            row_loops: RowLoops::default(),
        }
    }
    /// Whether the run itself made an instruction: passes of kind [`PassKind::Speed`] leave those of the input as they are.
    pub fn is_new(&self, id: InstructionId) -> bool {
        self.origins.is_some_and(|origins| origins.is_new(id))
    }
    /// Whether an instruction is a loop of the input, or was made in place of one.
    pub(crate) fn stands_for_loop(&self, id: InstructionId) -> bool {
        let origin = self.origins.map_or(id, |origins| origins.of(id));
        self.module.instruction(origin).opcode == Opcode::While
    }
    /// Whether an instruction stands in a loop that was made and keeps less than every bit, so that a change of what it computes may round otherwise.
    pub fn is_in_inexact_loop(&self, id: InstructionId) -> bool {
        let mut parameters = self.module.parameters(self.module.instruction(id).parent).into_iter();
        self.origins.is_some_and(|origins| parameters.all(|parameter| origins.is_inexact(parameter)))
    }
    /// Whether the module will be partitioned ([`Module::is_partitioned`], which looks at every instruction).
    pub fn is_partitioned(&self) -> bool {
        *self.partitioned.get_or_init(|| self.module.is_partitioned())
    }
    /// What the compiler writes to memory, where it decides that by kernels: on GPU.
    pub(crate) fn stored(&self) -> Option<&Stored> {
        let model = ModelEstimator { target: self.options.target };
        // Where the model stops, nobody knows: all may be written.
        let asked = || stored(self.module, &model).unwrap_or_else(|| Stored::new(true));
        (self.options.target == Target::Gpu).then(|| &**self.stored.get_or_init(|| Arc::new(asked())))
    }
    /// What the compiler leaves to a library of its own.
    fn libraries(&self) -> &Libraries {
        self.libraries.get_or_init(|| Libraries::of(self.module, self.options.target))
    }
    /// Instructions that the compiler leaves to a library of its own together with what reads them.
    pub fn in_libraries(&self) -> &IndexSet<InstructionId> {
        &self.libraries().inside
    }
    /// Whether an instruction of 16 bits is computed in 32 and not rounded before others read it.
    pub fn is_kept_wide(&self, id: InstructionId) -> bool {
        self.is_16_bit(id) && self.in_libraries().contains(&id)
    }
    /// Whether an instruction of 16 bits is computed in 32 from operands that are not rounded, and rounded once.
    pub fn is_rounded_once(&self, id: InstructionId) -> bool {
        self.is_16_bit(id) && self.libraries().results.contains(&id)
    }
    fn is_16_bit(&self, id: InstructionId) -> bool {
        self.module.instruction(id).array().is_some_and(|array| array.element_type == ElementType::Bf16)
    }
    /// Whether the peak is above the goal. Passes see a goal only after rewrites that cost little run time have not reached it.
    pub(crate) fn misses_goal(&self) -> bool {
        self.options.goal().is_some_and(|goal| self.options.peak(self.estimate) > goal)
    }
}

/// A side condition of a rewrite and how it was proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// The condition, in one sentence.
    pub text: String,
    /// `range`, `shape`, `structure` or `assumption`.
    pub discharged_by: &'static str,
}

/// Why a chance was missed: a stable code and one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    /// Stable code such as `range-unknown`.
    pub code: &'static str,
    /// The obstacle, and what would remove it.
    pub message: String,
}

/// What can be done about a finding.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "few findings exist at a time, and most carry a patch")]
pub enum Outcome {
    /// The waste can be removed.
    Rewrite {
        /// The change.
        patch: Patch,
        /// The change in a few words, such as `2048 blocks of 4194304 rows`.
        note: String,
        /// Side conditions, each proven.
        conditions: Vec<Condition>,
    },
    /// The waste could be removed, but the change is not proven or not allowed. The manager measures what it would save, and
    /// reports it only if that is something.
    Withheld {
        /// The change.
        patch: Patch,
        /// What stood in the way.
        reason: Reason,
    },
    /// There is waste that cannot be removed.
    Missed(Reason),
}

/// Waste found at one instruction.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The instruction that owns the waste, such as the scatter.
    pub instruction: InstructionId,
    /// How equal the results stay.
    pub grade: Grade,
    /// Bytes that the rewrite should save, as the pass estimates.
    pub wasted: Bytes,
    /// What can be done about it.
    pub outcome: Outcome,
}

/// What a pass is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassKind {
    /// Kept only when the estimated peak falls.
    Rewrite,
    /// Where the user names it, kept when the module stays legal and the peak does not rise; in the default pipeline as [`PassKind::Enabling`].
    CleanUp,
    /// Saves nothing by itself; kept only when a rewrite gains because of it. No pass says this of itself: the default pipeline says it of every clean-up and form.
    Enabling,
    /// Changes nothing: its findings are remarks.
    Analysis,
    /// Writes the module in another form. Where the user names it, kept, before anything else is done, whatever the form needs; in the default pipeline as
    /// [`PassKind::Enabling`].
    Form,
    /// Lets what the other passes made run faster; made once nothing is left to save, and kept where it takes little memory.
    Speed,
}

impl PassKind {
    /// The spelling in lists and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rewrite => "rewrite",
            Self::CleanUp => "clean-up",
            Self::Enabling => "enabling",
            Self::Analysis => "analysis",
            Self::Form => "form",
            Self::Speed => "speed",
        }
    }
}

/// One kind of waste and its cure.
pub trait Pass {
    /// The name in `--passes`, in reports, and of the corpus folder; in snake case that of the file.
    fn name(&self) -> &'static str;
    /// One line for `--list-passes`.
    fn summary(&self) -> &'static str;
    /// The header of the pass's file, which `--explain` prints.
    fn explanation(&self) -> &'static str;
    /// Its kind, which decides when its changes are kept.
    fn kind(&self) -> PassKind;
    /// Whether an enabling change of this pass is also tried together with those of others.
    fn accompanies(&self) -> bool {
        false
    }
    /// Whether the compiler makes the same change before all others, so that nothing has to be looked at without it.
    fn comes_first(&self, _module: &Module) -> bool {
        false
    }
    /// Whether rewrites may cost run time, so that small programs do without them (`small_programs.rs`). Not those of passes that never do, or that
    /// go by that rule themselves.
    fn may_cost_time(&self) -> bool {
        true
    }
    /// Whether it computes values again outside of loops. It is asked when all others are done, or before them where that ends lower. Its findings in one
    /// computation are ways to do the same, the one that takes least time first: of those that meet a budget the first is taken.
    fn recomputes(&self) -> bool {
        false
    }
    /// Whether it keeps values in the memory of the host. It is asked when all others are done, or beside them where that meets a budget in less time.
    fn offloads(&self) -> bool {
        false
    }
    /// Whether it is asked when all others are done: what it makes keeps them from seeing what they look for. Nearly every program has something for it to try,
    /// so what would bring nothing leaves no remark.
    fn comes_last(&self) -> bool {
        false
    }
    /// Whether the search asks for the time of what it makes, since it computes values again.
    fn is_timed(&self) -> bool {
        self.recomputes()
    }
    /// Whether it computes arrays in blocks of the size that `--chunk-bytes` limits.
    fn makes_blocks(&self) -> bool {
        false
    }
    /// Whether its changes, of kind [`PassKind::Speed`], save what the model does not see: where a compiler judges fewer rewrites, they are made for those again.
    fn is_unseen(&self) -> bool {
        false
    }
    /// The part of the peak that changes of kind [`PassKind::Speed`] may take, as a divisor; `None` where they may take nothing.
    fn share_of_peak(&self) -> Option<u64> {
        None
    }
    /// Looks for waste. Findings come in a deterministic order.
    fn find(&self, context: &Context<'_>) -> Vec<Finding>;
    /// Whether its rewrites have [parts](Self::find_parts).
    fn has_parts(&self) -> bool {
        false
    }
    /// What [`find`](Self::find) offers, done in part: for each rewrite its parts, each of which does more than the one before it, saves more and takes longer. The search
    /// takes the least that meets a budget.
    fn find_parts(&self, _context: &Context<'_>) -> Vec<Vec<Finding>> {
        Vec::new()
    }
    /// The same in the default pipeline, where a clean-up is kept only if a rewrite gains because of it: what cannot help one may be left out.
    fn find_where_needed(&self, context: &Context<'_>) -> Vec<Finding> {
        self.find(context)
    }
}
