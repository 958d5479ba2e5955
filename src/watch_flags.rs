//! The flags that bound a run or show what goes on in it.

// Tests: `tests/cli_watch.rs`.

use std::path::PathBuf;

use clap::Args;
use hlo_memory::Bytes;

use crate::{Pipeline, size};

/// What was typed.
#[derive(Args, Debug)]
pub(crate) struct WatchFlags {
    /// Stop rewriting as soon as the peak fits; if it never does, write no module and exit with code 4
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "analyze")]
    budget: Option<Bytes>,
    /// Print what a pass did with the module and what kept it from more (the module only with --output)
    #[arg(long, value_name = "PASS", conflicts_with_all = ["analyze", "diff", "check", "list_passes", "explain"])]
    why_not: Option<String>,
    /// Print the module to standard error after each rewrite of a pass, or of all
    #[arg(long, value_name = "PASS|all", value_delimiter = ',', conflicts_with = "analyze")]
    print_after: Vec<String>,
    /// Write the input and the module after each rewrite into a folder, as NUMBER.PASS.INSTRUCTION.hlo
    #[arg(long, value_name = "DIR", conflicts_with = "analyze")]
    dump_dir: Option<PathBuf>,
    /// Print how long each pass, the estimates and the checks took
    #[arg(long, conflicts_with = "analyze")]
    time_passes: bool,
    /// Print how much each pass found, tried, made and put back
    #[arg(long, conflicts_with = "analyze")]
    stats: bool,
    /// Say what memory costs in time, from the program as written to the smallest form, at most ten points (searches twice more)
    #[arg(long, conflicts_with = "analyze")]
    curve: bool,
    /// Keep only the first N rewrites that a run without this flag makes
    #[arg(long, value_name = "N", conflicts_with = "analyze")]
    opt_bisect_limit: Option<usize>,
}

/// What to show of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Watch {
    /// After whose rewrites the module is printed.
    pub(crate) print_after: Printed,
    /// Where the module goes after each rewrite.
    pub(crate) dump_dir: Option<PathBuf>,
    /// Whether to say how long everything took.
    pub(crate) time_passes: bool,
    /// Whether to say what was counted.
    pub(crate) stats: bool,
    /// Whether to say what memory costs in time.
    pub(crate) curve: bool,
}

impl Watch {
    /// The watch over module `number` of several: its dumps have a folder of their own.
    pub(crate) fn of_module(&self, number: Option<usize>) -> Self {
        let folder = |dumps: &PathBuf| number.map_or(dumps.clone(), |number| dumps.join(number.to_string()));
        Self { dump_dir: self.dump_dir.as_ref().map(folder), ..self.clone() }
    }
}

/// The passes of `--print-after`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Printed {
    /// Every pass.
    All,
    /// These.
    Some(Vec<&'static str>),
}

impl Default for Printed {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

impl Printed {
    /// Whether the module is printed after a rewrite of `pass`.
    pub(crate) fn includes(&self, pass: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(names) => names.contains(&pass),
        }
    }
}

impl WatchFlags {
    /// `--budget`.
    pub(crate) const fn budget(&self) -> Option<Bytes> {
        self.budget
    }
    /// `--opt-bisect-limit`.
    pub(crate) const fn bisect_limit(&self) -> Option<usize> {
        self.opt_bisect_limit
    }
    /// `--why-not`: the pass, which must run.
    pub(crate) fn why_not(&self, pipeline: &Pipeline) -> Result<Option<&'static str>, String> {
        self.why_not.as_deref().map(|name| running(name, pipeline, "--why-not")).transpose()
    }
    /// What was typed, checked and given its meaning.
    pub(crate) fn resolve(&self, pipeline: &Pipeline) -> Result<Watch, String> {
        Ok(Watch {
            print_after: self.printed(pipeline)?,
            dump_dir: self.dump_dir.clone(),
            time_passes: self.time_passes,
            stats: self.stats,
            curve: self.curve,
        })
    }
    fn printed(&self, pipeline: &Pipeline) -> Result<Printed, String> {
        if self.print_after.iter().any(|name| name == "all") {
            return Ok(Printed::All);
        }
        let names = self.print_after.iter().map(|name| running(name, pipeline, "--print-after"));
        Ok(Printed::Some(names.collect::<Result<_, _>>()?))
    }
}

/// The pass called `name`, if it exists and runs.
fn running(name: &str, pipeline: &Pipeline, flag: &str) -> Result<&'static str, String> {
    let known = crate::pipeline::find(name).map_err(|error| error.to_string())?;
    let runs = pipeline.passes().iter().any(|pass| pass.name() == known.name());
    runs.then(|| known.name()).ok_or_else(|| format!("{flag}={name}: --passes leaves this pass out"))
}
