//! The command line: [`RawArgs`] is what was typed, [`Args`] what it means.

// Tests: `tests/cli.rs`.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueEnum};
use hlo_ir::text::Style;
use hlo_memory::{Bytes, Target};
use hlo_passes::MAX_SLOWDOWN;
use hlo_passes::{Assumption, Grade, Machine, Objective, Options};
use regex::Regex;

use crate::input::Source;
use crate::output::{self, Sink};
use crate::report::Format;
use crate::usage_error::UsageError;
use crate::watch_flags::{Watch, WatchFlags};
use crate::{Pipeline, explain, machine_flags, size, unpack};

/// Lower the peak memory of an XLA program: HLO text in, HLO text with the same results out.
///
/// Reads the text of a module before optimization (XLA_FLAGS=--xla_dump_to=DIR --xla_dump_hlo_as_text), rewrites what wastes memory, and
/// writes the module back for XLA. This is not XLA's own tool of the same name.
#[derive(Parser, Debug)]
#[command(name = "hlo-opt", version, max_term_width = 100, after_help = AFTER_HELP)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct RawArgs {
    /// HLO to read, text or binary (HloProto, HloSnapshot), also compressed (gzip, zstd), or a dump folder; - is standard input
    #[arg(value_name = "INPUT")]
    input: Option<PathBuf>,
    /// Write the result there, only on success and all at once; - is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Passes to run instead of the standard ones, separated by commas; '' runs none
    #[arg(long, value_name = "LIST")]
    passes: Option<String>,
    /// List the passes and exit
    #[arg(long, conflicts_with_all = ["input", "output", "passes", "analyze", "check", "diff", "report", "explain"])]
    list_passes: bool,
    /// Say what a pass does, when it is sound and when it does nothing, or what a grade, the code of a remark, a term or the rule of an opcode means, and exit
    #[arg(long, value_name = "NAME", conflicts_with_all = ["input", "output", "passes", "analyze", "check", "diff", "report"])]
    explain: Option<String>,
    /// Print the completions of a shell and exit
    #[arg(long, value_enum, value_name = "SHELL", exclusive = true)]
    completions: Option<clap_complete::Shell>,
    /// Print the manual page and exit
    #[arg(long, exclusive = true)]
    manual: bool,
    /// Rewrite nothing: print how much memory the module needs and who holds it
    #[arg(long, conflicts_with_all = ["output", "passes", "check", "diff"])]
    analyze: bool,
    /// The module of an XLA dump folder given as INPUT: the one whose name matches
    #[arg(long, value_name = "REGEX")]
    module: Option<Regex>,
    /// With --analyze: print this stage as XLA's own dumps do instead of our report
    #[arg(long, value_enum, value_name = "STAGE", requires = "analyze", conflicts_with = "report")]
    stage: Option<Stage>,
    /// Write a full report; the end of the name picks its form: .json, .txt, .html, .sarif, .perfetto.json or .pprof.pb.gz
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Folder of your own files: reports name their lines; without it, all lines outside of installed packages
    #[arg(long, value_name = "FOLDER")]
    source_root: Option<String>,
    /// How equal the results must stay
    #[arg(long, value_enum, value_name = "GRADE", default_value_t = Exactness::HloExact)]
    exactness: Exactness,
    /// What rewrites may cost where no --budget says it
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = ObjectiveName::Balanced)]
    objective: ObjectiveName,
    /// Promises about the run-time data that rewrites may rely on
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    assume: Vec<Promise>,
    /// The compiler that will run the result, perhaps with the machine, whose memory and speed then count [default: cpu; gpu is gpu:h100, tpu is tpu:v5e; --analyze reads
    /// the compiler off a scheduled module]
    #[arg(long, value_name = "TARGET", value_parser = PossibleValuesParser::new(machine_flags::targets()))]
    target: Option<String>,
    /// A file that describes the machine, as `python -m hlo_opt.xla calibrate` prints it
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Most bytes of block temporaries per loop [default: chosen for each loop]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    chunk_bytes: Option<Bytes>,
    /// Leave smaller savings alone
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "1MiB")]
    min_saving: Bytes,
    /// Memory of the host that the program may use on a GPU or TPU, for each device: stacks of loops may stand there until they are read
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "0")]
    host_memory: Bytes,
    #[command(flatten)]
    watch: WatchFlags,
    /// Write no module; exit with code 5 if a rewrite would lower the peak
    #[arg(long, conflicts_with = "output")]
    check: bool,
    /// Form of the result: text, binary (HloProto), or as the extension of --output says; the input's form is seen from its content
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Form::Auto, conflicts_with = "analyze")]
    format: Form,
    /// How much of the module to print as text
    #[arg(long, value_enum, value_name = "STYLE", default_value_t = PrintStyle::Long, conflicts_with_all = ["analyze", "check"])]
    print_style: PrintStyle,
    /// Take the modules of the input one by one; lines of // ----- or HloModule headers divide them
    #[arg(long)]
    split_input_file: bool,
    /// Print what changed as a unified diff on standard output (the module too only with --output)
    #[arg(long)]
    diff: bool,
    /// Verify the module after every pass
    #[arg(long)]
    verify_each: bool,
    /// Who decides in the end which form is kept: the model of the compiler, or the compiler itself, by bytes and estimated time (needs the Python package, no device)
    #[arg(long, value_enum, value_name = "WHO", default_value_t = JudgeName::Model, conflicts_with = "analyze")]
    judge: JudgeName,
    /// Keep no form that is more than so many times as slow by estimate [default with --judge xla and without --budget or --objective=memory: 1.05]
    #[arg(long, value_name = "FACTOR", value_parser = factor, conflicts_with = "analyze")]
    max_slowdown: Option<f64>,
    /// Run both modules with XLA on the same data and write nothing if the results differ (needs the Python package)
    #[arg(long, conflicts_with_all = ["analyze", "check"])]
    verify_with_xla: bool,
    /// Write errors for people, or for programs as one line of JSON each (and no summary)
    #[arg(long, value_enum, value_name = "FORM", default_value_t = ErrorForm::Human)]
    error_format: ErrorForm,
    /// Use colors on a terminal, always or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    color: Color,
    /// Print no summary
    #[arg(short, long)]
    quiet: bool,
}

/// What stands below the list of options.
const AFTER_HELP: &str = "\
SIZE is a number of bytes such as 123, 64KiB or 1.5GiB.

Exit codes: 0 done, 1 bad input or failed output, 2 bad command line, 3 internal error, 4 the peak exceeds --budget, \
5 --check found something.";

/// `--exactness`.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Exactness {
    /// The same bits
    Bitwise,
    /// The same HLO operations on the same elements
    HloExact,
    /// Float sums may be split across blocks
    Reassociate,
}

/// `--objective`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum ObjectiveName {
    /// As little memory as can be had, whatever it costs in time
    Memory,
    /// Memory that costs little time
    Balanced,
    /// Memory that costs no time, by estimate
    Time,
}

/// `--assume`.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Promise {
    /// Every index lies in its dimension: none is negative, none too large
    IndicesInBounds,
}

/// `--judge`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JudgeName {
    /// The model of the compiler
    Model,
    /// The compiler of the target
    Xla,
}

/// `--stage`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The list of allocations and the memory-usage report
    BufferAssignment,
}

/// `--format`.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Form {
    /// Binary if the name of the output ends in .pb, else text
    Auto,
    /// HLO text
    Text,
    /// A serialized HloProto
    Pb,
}

/// `--print-style`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum PrintStyle {
    /// Everything, as in the input
    Long,
    /// Without metadata, backend configs, % and program shapes
    Short,
    /// As short, with operand shapes and with numbers for names: for comparing modules
    Canonical,
}

/// `--error-format`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorForm {
    /// With the line of the input and a mark
    Human,
    /// One JSON object per line, see docs/messages.md
    Json,
}

/// `--color`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Also into files and pipes
    Always,
    /// Nowhere
    Never,
}

/// What a command line asks for.
#[derive(Debug)]
pub(crate) struct Args {
    /// What to do.
    pub(crate) action: Action,
    /// When to use colors.
    pub(crate) color: Color,
    /// Whether to leave out the summary.
    pub(crate) quiet: bool,
}

/// The things this tool does.
pub(crate) enum Action {
    /// Print the list of passes.
    ListPasses,
    /// Print what a name means.
    Explain(String),
    /// Print the manual page.
    Manual,
    /// Print the completions of a shell.
    Completions(clap_complete::Shell),
    /// Print the memory of a module.
    Analyze(Job),
    /// Rewrite a module.
    Rewrite(Job, Rewriting),
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ListPasses => f.write_str("ListPasses"),
            Self::Manual => f.write_str("Manual"),
            Self::Completions(shell) => f.debug_tuple("Completions").field(shell).finish(),
            Self::Explain(page) => f.debug_tuple("Explain").field(page).finish(),
            Self::Analyze(job) => f.debug_tuple("Analyze").field(job).finish(),
            Self::Rewrite(job, rewriting) => f.debug_tuple("Rewrite").field(job).field(rewriting).finish(),
        }
    }
}

/// What analyzing and rewriting have in common.
#[derive(Debug)]
pub(crate) struct Job {
    /// The module.
    pub(crate) source: Source,
    /// Whether the source may hold several modules.
    pub(crate) split: bool,
    /// Where a report goes, if one is wanted.
    pub(crate) report: Option<(PathBuf, Format)>,
    /// The module of a dump folder.
    pub(crate) module: Option<Regex>,
    /// The stage to print instead of a report.
    pub(crate) stage: Option<Stage>,
    /// The target that was named, if one was.
    pub(crate) target: Option<Target>,
    /// Target, exactness and limits.
    pub(crate) options: Options,
}

/// How to rewrite and what to write.
#[derive(Debug)]
pub(crate) struct Rewriting {
    /// The passes.
    pub(crate) pipeline: Pipeline,
    /// Where the module goes; `None` when it is not wanted.
    pub(crate) output: Option<Sink>,
    /// What it is written as.
    pub(crate) product: Product,
    /// Whether to print the diff.
    pub(crate) diff: bool,
    /// Whether to only say if a rewrite would help.
    pub(crate) check: bool,
    /// What to explain instead of printing the module.
    pub(crate) why_not: Option<&'static str>,
    /// What to show of the run.
    pub(crate) watch: Watch,
    /// Whether XLA must find the results equal before anything is written.
    pub(crate) verify_with_xla: bool,
    /// Who decides which form is kept, and by what.
    pub(crate) judging: Judging,
}

/// Who decides which form is kept.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Judging {
    /// The judge.
    pub(crate) judge: JudgeName,
    /// How many times as slow a form may be by the judge's estimate, if that counts.
    pub(crate) max_slowdown: Option<f64>,
}

/// What a module is written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Product {
    /// HLO text.
    Text(Style),
    /// A serialized `HloProto`.
    Proto,
}

impl RawArgs {
    /// When to use colors, known before anything can go wrong.
    pub(crate) const fn color(&self) -> Color {
        self.color
    }

    /// How to write errors, known as early.
    pub(crate) const fn error_form(&self) -> ErrorForm {
        self.error_format
    }

    /// What was typed, checked and given its meaning.
    pub(crate) fn resolve(self) -> Result<Args, UsageError> {
        let (color, quiet) = (self.color, self.quiet);
        let action = match &self.explain {
            Some(name) => Action::Explain(explain::page(name).map_err(|error| UsageError(error.to_string()))?),
            None if self.list_passes => Action::ListPasses,
            None if self.manual => Action::Manual,
            None if self.completions.is_some() => Action::Completions(self.completions.expect("it was just seen")),
            None if self.analyze => Action::Analyze(self.job()?),
            None => Action::Rewrite(self.job()?, self.rewriting()?),
        };
        Ok(Args { action, color, quiet })
    }

    fn job(&self) -> Result<Job, UsageError> {
        let report = self.report.clone().map(|path| report_file(path, self.output.as_ref())).transpose()?;
        let source = Source::new(self.input.clone());
        let (split, options) = (self.split_input_file, self.options()?);
        let target = (self.target.is_some() || self.machine.is_some()).then_some(options.target);
        let (module, stage) = (self.module.clone(), self.stage);
        Ok(Job { source, split, report, module, stage, target, options })
    }

    fn options(&self) -> Result<Options, UsageError> {
        if self.chunk_bytes == Some(Bytes::ZERO) {
            return Err(UsageError("--chunk-bytes must be more than 0".to_owned()));
        }
        let (target, machine) = self.target_and_machine()?;
        Ok(Options {
            target,
            machine,
            exactness: self.grade(),
            assumptions: self.assumptions(),
            chunk_bytes: self.chunk_bytes,
            min_saving: self.min_saving,
            verify_each: self.verify_each,
            budget: self.watch.budget(),
            objective: self.objective(),
            is_judged: self.judge == JudgeName::Xla,
            host_memory: self.host_memory,
            bisect_limit: self.watch.bisect_limit(),
            // Nobody would read it.
            advise: !self.quiet || self.report.is_some(),
            source_root: self.source_root.clone(),
        })
    }

    /// The compiler, and what runs its result if that was said.
    fn target_and_machine(&self) -> Result<(Target, Option<Machine>), UsageError> {
        let named = self.target.as_deref().map(machine_flags::target);
        let Some(path) = &self.machine else { return Ok(named.unwrap_or((Target::Cpu, None))) };
        let machine = machine_flags::read(path)?;
        match named {
            Some((target, _)) if target != machine.target => {
                let (file, own, other) =
                    (path.display(), machine_flags::name(machine.target), machine_flags::name(target));
                Err(UsageError(format!("--machine {file} describes a machine for {own}, and --target is {other}")))
            }
            _ => Ok((machine.target, Some(machine))),
        }
    }

    const fn objective(&self) -> Objective {
        match self.objective {
            ObjectiveName::Memory => Objective::Memory,
            ObjectiveName::Balanced => Objective::Balanced,
            ObjectiveName::Time => Objective::Time,
        }
    }

    const fn grade(&self) -> Grade {
        match self.exactness {
            Exactness::Bitwise => Grade::Bitwise,
            Exactness::HloExact => Grade::HloExact,
            Exactness::Reassociate => Grade::Reassociate,
        }
    }

    fn assumptions(&self) -> Vec<Assumption> {
        let mut assumptions: Vec<_> =
            self.assume.iter().map(|Promise::IndicesInBounds| Assumption::IndicesInBounds).collect();
        assumptions.dedup();
        assumptions
    }

    fn product(&self) -> Result<Product, UsageError> {
        let binary = match self.format {
            Form::Auto => self.output.as_deref().is_some_and(is_proto),
            Form::Text => false,
            Form::Pb => true,
        };
        match (binary, self.print_style) {
            (false, PrintStyle::Long) => Ok(Product::Text(Style::Long)),
            (false, PrintStyle::Short) => Ok(Product::Text(Style::Short)),
            (false, PrintStyle::Canonical) => Ok(Product::Text(Style::Canonical)),
            (true, PrintStyle::Long) => Ok(Product::Proto),
            (true, _) => Err(UsageError("--print-style is about text, but the result is binary".to_owned())),
        }
    }

    fn rewriting(&self) -> Result<Rewriting, UsageError> {
        let pipeline = match &self.passes {
            Some(list) => Pipeline::parse(list).map_err(|error| UsageError(error.to_string()))?,
            None => Pipeline::standard(),
        };
        let why_not = self.watch.why_not(&pipeline).map_err(UsageError)?;
        let watch = self.watch.resolve(&pipeline).map_err(UsageError)?;
        // A diff or an explanation takes the module's place on standard output.
        let printed = self.diff || why_not.is_some();
        let wanted = !self.check && (self.output.is_some() || !printed);
        let output = wanted.then(|| Sink::new(self.output.clone()));
        if let Some(Sink::File(path)) = &output {
            output::obstacle(path).or_else(|| packed(path)).map_or(Ok(()), |message| Err(UsageError(message)))?;
        }
        if printed && output == Some(Sink::Stdout) {
            let flag = if self.diff { "--diff" } else { "--why-not" };
            return Err(UsageError(format!("{flag} and the module cannot both go to standard output")));
        }
        let product = self.product()?;
        let (diff, check, verify_with_xla) = (self.diff, self.check, self.verify_with_xla);
        let judging = self.judging();
        Ok(Rewriting { pipeline, output, product, diff, check, why_not, watch, verify_with_xla, judging })
    }

    /// `--judge` and `--max-slowdown`.
    fn judging(&self) -> Judging {
        let bounded = self.watch.budget().is_none() && self.objective != ObjectiveName::Memory;
        let usual = self.judge == JudgeName::Xla && bounded;
        Judging { judge: self.judge, max_slowdown: self.max_slowdown.or(usual.then_some(MAX_SLOWDOWN)) }
    }
}

/// How many times as slow a program may become.
fn factor(typed: &str) -> Result<f64, String> {
    let value = typed.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 1.0);
    value.ok_or_else(|| "not a number from 1 on, such as 1.2".to_owned())
}

/// Why a result does not go to a file whose name says that it is compressed: it would not be.
fn packed(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let plain = unpack::without_ending(name);
    (plain != name).then(|| format!("cannot write `{}`: results are not compressed; write `{plain}`", path.display()))
}

/// Whether a file name asks for the binary form.
fn is_proto(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("pb"))
}

/// The report's file and form.
fn report_file(path: PathBuf, output: Option<&PathBuf>) -> Result<(PathBuf, Format), UsageError> {
    let Some(format) = Format::of(&path) else {
        return Err(UsageError(format!(
            "--report `{}`: the file name must end in .json, .txt, .html, .sarif, .perfetto.json or .pprof.pb.gz",
            path.display()
        )));
    };
    if output == Some(&path) {
        return Err(UsageError(format!("the module and the report cannot both go to `{}`", path.display())));
    }
    output::obstacle(&path).map_or(Ok((path, format)), |message| Err(UsageError(message)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        RawArgs::command().debug_assert();
    }

    #[test]
    fn defaults_of_flags_and_of_the_library_agree() {
        let args = RawArgs::parse_from(["hlo-opt"]).resolve().unwrap();
        let Action::Rewrite(job, rewriting) = args.action else { panic!("rewriting is what the tool does") };
        assert_eq!(job.options, Options::default());
        assert_eq!(job.source, Source::Stdin);
        assert_eq!(rewriting.output, Some(Sink::Stdout));
    }
}
