//! The command line's thread of work: arguments, input, the library call, output, exit code.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};

use anstream::ColorChoice;
use clap::Parser as _;
use hlo_passes::{Pass, PassKind};

use crate::args::{Action, Args, Color, Job, RawArgs, Rewriting};
use crate::guard::guard;
use crate::input::{self, InputError, Source};
use crate::output::{OutputError, Outputs, Sink};
use crate::progress::Progress;
use crate::report::Report;
use crate::watcher::{self, DumpError, Watcher};
use crate::{Exit, Failure, Optimized, Pipeline, analyze, api, diff, pipeline, render, summary, why_not};

/// Runs the command line `arguments` (the program's name first) and answers the exit code. Everything it has to say was said.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    guard(|| {
        let raw = match RawArgs::try_parse_from(arguments) {
            Ok(raw) => raw,
            // Help and version are products, everything else is a usage error; clap knows which and where they go.
            Err(error) => {
                let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
                let _ = error.print();
                return exit;
            }
        };
        let color = raw.color();
        let result = raw.resolve().map_err(Problem::from).and_then(|args| act(&args));
        result.unwrap_or_else(|problem| problem.report(use_color(color, &io::stderr())))
    })
}

/// Whether to use colors on a stream.
fn use_color(color: Color, stream: &impl anstream::stream::RawStream) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => anstream::AutoStream::choice(stream) != ColorChoice::Never,
    }
}

/// Why a run did not do its work.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Usage(#[from] crate::args::UsageError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    Dump(#[from] DumpError),
    #[error("{failure}")]
    Failure { failure: Failure, origin: Source, text: String },
}

impl Problem {
    /// Says what is wrong on standard error.
    fn report(self, color: bool) -> Exit {
        let (text, exit) = match &self {
            Self::Usage(_) => (render::error(&self.to_string(), color) + "\n", Exit::Usage),
            Self::Failure { failure: Failure::Illegal(problems), origin, text } => {
                (render::diagnostics(problems, &origin.to_string(), text, color), Exit::Input)
            }
            Self::Failure { failure: Failure::Internal(message), .. } => {
                (render::error(&format!("internal error: {message}"), color) + "\n", Exit::Internal)
            }
            _ => (render::error(&self.to_string(), color) + "\n", Exit::Input),
        };
        say(&text);
        exit
    }
}

/// Prints on standard error; when even that fails there is nobody left to tell.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Does what the command line asks for.
fn act(args: &Args) -> Result<Exit, Problem> {
    match &args.action {
        Action::ListPasses => print(list_passes()),
        Action::Explain(pass) => print(format!("{}\n", pass.explanation().trim_end())),
        Action::Analyze(job) => analyze_job(job, args),
        Action::Rewrite(job, rewriting) => rewrite_job(job, rewriting, args),
    }
}

/// Prints a product and is done.
fn print(text: String) -> Result<Exit, Problem> {
    let mut outputs = Outputs::default();
    outputs.prepare(&Sink::Stdout, text)?;
    outputs.commit()?;
    Ok(Exit::Done)
}

/// Name, kind and summary of every pass.
fn list_passes() -> String {
    let passes = hlo_passes::all();
    let width = passes.iter().map(|pass| pass.name().len()).max().unwrap_or(0);
    let line = |pass: &dyn Pass| {
        let kind = match pass.kind() {
            PassKind::Rewrite => "rewrite ",
            PassKind::CleanUp => "clean-up",
            PassKind::Enabling => "enabling",
        };
        format!("{:width$}  {kind}  {}", pass.name(), pass.summary())
    };
    passes.iter().map(|pass| line(pass.as_ref()) + "\n").collect()
}

/// Reads the input; a person who typed no file name is told what the tool waits for.
fn read(source: &Source, quiet: bool) -> Result<String, InputError> {
    if *source == Source::Stdin && !quiet && io::stdin().is_terminal() {
        say("hlo-opt: reading HLO text from standard input\n");
    }
    input::read(source)
}

/// `--analyze`.
fn analyze_job(job: &Job, args: &Args) -> Result<Exit, Problem> {
    let text = read(&job.source, args.quiet)?;
    let progress = Progress::start(args.quiet);
    progress.stage("estimating memory");
    let analysis = api::analyze(&text, job.options.target).map_err(|failure| Problem::Failure {
        failure,
        origin: job.source.clone(),
        text,
    })?;
    drop(progress);
    let mut outputs = Outputs::default();
    prepare_report(&mut outputs, job, &Report::of_analysis(&analysis, job.options.target))?;
    outputs.prepare(&Sink::Stdout, analyze::text(&analysis, job.options.target))?;
    outputs.commit()?;
    Ok(Exit::Done)
}

/// The main job.
fn rewrite_job(job: &Job, rewriting: &Rewriting, args: &Args) -> Result<Exit, Problem> {
    let text = read(&job.source, args.quiet)?;
    let mut watcher = Watcher::new(&rewriting.watch, args.quiet);
    let optimized = api::optimize_observed(&text, &rewriting.pipeline, &job.options, &mut watcher)
        .map_err(|failure| Problem::Failure { failure, origin: job.source.clone(), text })?;
    watcher.finish()?;
    let (exit, lines) = verdict(&optimized, job, rewriting);
    let tables = watcher::tables(&rewriting.watch, &optimized.report.statistics);
    write_results(optimized, job, rewriting, args)?;
    // A missed budget is an error, and errors are said even to the quiet.
    if !args.quiet || exit == Exit::OverBudget {
        say(&lines);
    }
    say(&tables);
    Ok(exit)
}

/// The exit code of a run and its summary.
fn verdict(optimized: &Optimized, job: &Job, rewriting: &Rewriting) -> (Exit, String) {
    let mut lines = summary::text(&optimized.module, &optimized.report);
    if !optimized.fits(&job.options) {
        let budget = job.options.budget.unwrap_or_default();
        let peak = optimized.report.after.total;
        lines.extend(["  over budget: the peak of ", &peak.to_string(), " does not fit ", &budget.to_string(), "\n"]);
        return (Exit::OverBudget, lines);
    }
    let found = rewriting.check && optimized.helped();
    (if found { Exit::Found } else { Exit::Done }, lines)
}

/// Writes everything that was asked for, or nothing; a module that misses its budget stays unwritten, its report does not.
fn write_results(optimized: Optimized, job: &Job, rewriting: &Rewriting, args: &Args) -> Result<(), Problem> {
    let mut outputs = Outputs::default();
    if job.report.is_some() {
        let explain = |failure| Problem::Failure { failure, origin: job.source.clone(), text: String::new() };
        let details = optimized.details(job.options.target).map_err(explain)?;
        let report = Report::of_run(&optimized.module, job.options.target, &optimized.report, &details);
        prepare_report(&mut outputs, job, &report)?;
    }
    if rewriting.diff {
        let color = use_color(args.color, &io::stdout());
        let name = job.source.to_string();
        outputs.prepare(&Sink::Stdout, diff::unified(&name, &optimized.input, &optimized.text, color))?;
    }
    if let Some(name) = rewriting.why_not {
        let pass = pipeline::find(name).expect("the name was taken from a pass");
        let alone = || {
            let pipeline = Pipeline::parse(name).ok()?;
            api::optimize(&optimized.input, &pipeline, &job.options).ok()
        };
        outputs.prepare(&Sink::Stdout, why_not::text(pass.as_ref(), &optimized, alone))?;
    }
    if let Some(sink) = rewriting.output.as_ref().filter(|_| optimized.fits(&job.options)) {
        outputs.prepare(sink, optimized.text)?;
    }
    Ok(outputs.commit()?)
}

/// Adds the report to what will be written, if one is wanted.
fn prepare_report(outputs: &mut Outputs, job: &Job, report: &Report<'_>) -> Result<(), OutputError> {
    match &job.report {
        Some((path, format)) => outputs.prepare(&Sink::File(path.clone()), report.write(*format)),
        None => Ok(()),
    }
}
