//! The command line's thread of work: arguments, input, the library call, output, exit code.

// Tests: `tests/cli.rs`.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};

use anstream::ColorChoice;
use clap::Parser as _;
use hlo_ir::text;
use hlo_passes::Pass;

use crate::args::{Action, Args, Color, ErrorForm, Job, RawArgs, Rewriting, Stage};
use crate::folder::{self, Wanted};
use crate::guard::guard;
use crate::input::{self, Input, InputError, Source};
use crate::messages::Messages;
use crate::output::{Outputs, Sink};
use crate::problem::{Failed, Problem};
use crate::progress::Progress;
use crate::report::Report;
use crate::results::{self, Run};
use crate::usage_error::UsageError;
use crate::verify_xla::{self, XlaError};
use crate::watcher::{self, Watcher};
use crate::{Exit, Failure, Optimized, analyze, api, curve, judge_xla, shell};

/// Runs the command line `arguments` (the program's name first) and answers the exit code. Everything it has to say was said.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(problem) = of_the_package(&arguments) {
        return problem.report(Messages::Human { color: use_color(Color::Auto, &io::stderr()) });
    }
    let raw = match RawArgs::try_parse_from(arguments) {
        Ok(raw) => raw,
        // Help and version are products, everything else is a usage error; clap knows which and where they go.
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print();
            return exit;
        }
    };
    let messages = match raw.error_form() {
        ErrorForm::Json => Messages::Json,
        ErrorForm::Human => Messages::Human { color: use_color(raw.color(), &io::stderr()) },
    };
    guard(messages, || {
        let result = raw.resolve().map_err(Problem::from).and_then(|args| act(&args, messages));
        result.unwrap_or_else(|problem| problem.report(messages))
    })
}

/// What is to be said where a command is meant that only the Python package has.
fn of_the_package(arguments: &[OsString]) -> Option<Problem> {
    let first = arguments.get(1)?.to_str()?;
    let how = match first {
        "fleet" => "`pip install .` brings a `hlo-opt` that has it (docs/fleets.md)",
        "run" => "`pip install .`, then `python -m hlo_opt run SCRIPT` (docs/python.md)",
        _ => return None,
    };
    let is_file = std::path::Path::new(first).exists();
    (!is_file).then(|| UsageError(format!("`{first}` is a command of the Python package: {how}")).into())
}

/// Whether to use colors on a stream.
fn use_color(color: Color, stream: &impl anstream::stream::RawStream) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => anstream::AutoStream::choice(stream) != ColorChoice::Never,
    }
}

/// Does what the command line asks for.
fn act(args: &Args, messages: Messages) -> Result<Exit, Problem> {
    match &args.action {
        Action::ListPasses => print(list_passes()),
        Action::Explain(page) => print(page.clone()),
        Action::Completions(shell) => print(shell::completions(*shell)),
        Action::Manual => print(shell::manual().expect("a page in memory can always be written")),
        Action::Analyze(job) => analyze_job(job, args, messages),
        Action::Rewrite(job, rewriting) => rewrite_job(job, rewriting, args, messages),
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
    let line = |pass: &dyn Pass| format!("{:width$}  {:8}  {}", pass.name(), pass.kind().name(), pass.summary());
    passes.iter().map(|pass| line(pass.as_ref()) + "\n").collect()
}

/// The file to read: the input itself, or of a dump folder the text of the module that was asked for.
fn choose(job: &Job, wanted: Wanted, args: &Args, messages: Messages) -> Result<Source, Problem> {
    match &job.source {
        Source::File(path) if path.is_dir() => {
            let picked = folder::pick(path, job.module.as_ref(), wanted)?;
            if !picked.is_wanted && !args.quiet {
                let (path, ending) = (picked.path.display(), wanted.ending());
                messages.remark(&format!("hlo-opt: reading `{path}`: {ending} is not in the folder\n"));
            }
            Ok(Source::File(picked.path))
        }
        source if job.module.is_some() => {
            Err(UsageError(format!("--module picks from a folder, but INPUT is `{source}`")).into())
        }
        source => Ok(source.clone()),
    }
}

/// Reads the input; a person who typed no file name is told what the tool waits for.
fn read(source: &Source, args: &Args, messages: Messages) -> Result<Input, InputError> {
    if *source == Source::Stdin && !args.quiet && io::stdin().is_terminal() {
        messages.remark("hlo-opt: reading HLO text from standard input\n");
    }
    let input = input::read(source)?;
    messages.dropped(&input.dropped, &input.name);
    Ok(input)
}

/// The answers for all modules of the input, or everything that is wrong with any of them. `work` learns which module it is given if there are
/// several.
fn each<T>(
    input: Input,
    job: &Job,
    work: impl Fn(&str, Option<usize>) -> Result<T, Failure>,
) -> Result<Vec<T>, Problem> {
    let whole = vec![text::Piece { text: &input.text, offset: 0 }];
    let pieces = if job.split { text::pieces(&input.text) } else { whole };
    let line = |offset: usize| text::line_column(&input.text, offset as u32).0;
    let (mut done, mut failures) = (Vec::new(), Vec::new());
    let several = pieces.len() > 1;
    for (index, piece) in pieces.iter().enumerate() {
        match work(piece.text, several.then_some(index + 1)) {
            Ok(answer) => done.push(answer),
            Err(failure) => failures
                .push(Failed { failure: failure.shifted(piece.offset), line: several.then(|| line(piece.offset)) }),
        }
    }
    let Input { name, text, .. } = input;
    if failures.is_empty() { Ok(done) } else { Err(Problem::Modules { failures, name, text }) }
}

/// `--analyze`.
fn analyze_job(job: &Job, args: &Args, messages: Messages) -> Result<Exit, Problem> {
    let source = choose(job, Wanted::Scheduled, args, messages)?;
    let mut input = read(&source, args, messages)?;
    let given = input.buffers.take();
    let progress = Progress::start(args.quiet || messages == Messages::Json);
    progress.stage("estimating memory");
    if job.stage == Some(Stage::BufferAssignment) {
        let texts = each(input, job, |text, _| api::assignment_text(text, given.as_ref()))?;
        drop(progress);
        return print(texts.join("\n"));
    }
    let wanted =
        api::Wanted { target: job.target, given: given.as_ref(), source_root: job.options.source_root.as_deref() };
    let analyses = each(input, job, |text, _| api::analyze_as(text, &wanted))?;
    drop(progress);
    let xla_total = match &source {
        Source::File(path) => folder::own_total(path).filter(|_| analyses.len() == 1),
        Source::Stdin => None,
    };
    let mut outputs = Outputs::default();
    for (number, analysis) in analyses.iter().enumerate() {
        let report = Report::of_analysis(analysis, analysis.target).beside(xla_total);
        results::prepare_report(&mut outputs, job, (number, analyses.len()), &report)?;
    }
    let texts: Vec<_> = analyses.iter().map(|analysis| analyze::text(analysis, xla_total)).collect();
    outputs.prepare(&Sink::Stdout, texts.join("\n"))?;
    outputs.commit()?;
    Ok(Exit::Done)
}

/// The main job.
fn rewrite_job(job: &Job, rewriting: &Rewriting, args: &Args, messages: Messages) -> Result<Exit, Problem> {
    let input = read(&choose(job, Wanted::Program, args, messages)?, args, messages)?;
    let (name, silent) = (input.name.clone(), args.quiet || messages == Messages::Json);
    let watched = each(input, job, |text, number| {
        let watch = rewriting.watch.of_module(number);
        let mut watcher = Watcher::new(&watch, silent);
        let result = api::optimize_observed(text, &rewriting.pipeline, &job.options, &mut watcher)?;
        Ok((result, watcher.finish()))
    })?;
    let results = watched.into_iter().map(|(result, dumped)| dumped.map(|()| result)).collect::<Result<Vec<_>, _>>()?;
    let results = judge_xla::decide(results, rewriting, &job.options, silent)?;
    let results = with_curves(results, job, rewriting).map_err(|failure| Problem::of_one(failure, &name))?;
    let verified = verified(&results, rewriting)?;
    let run = Run { results: &results, name: &name, job, rewriting };
    let exit = run.exit();
    run.write(exit, results::Streams { color: use_color(args.color, &io::stdout()), messages })?;
    run.say(args.quiet, messages);
    for sentence in verified.iter().filter(|_| !args.quiet) {
        messages.remark(&format!("  verified with XLA: {sentence}\n"));
    }
    for result in &results {
        watcher::say(&watcher::tables(&rewriting.watch, &result.report.statistics));
    }
    Ok(exit)
}

/// The same results with their curves, if those are wanted.
fn with_curves(results: Vec<Optimized>, job: &Job, rewriting: &Rewriting) -> Result<Vec<Optimized>, Failure> {
    if !rewriting.watch.curve {
        return Ok(results);
    }
    let with = |result: Optimized| {
        let points = curve::curve_of(result.before(), &rewriting.pipeline, &job.options)?;
        Ok(Optimized { curve: Some(points), ..result })
    };
    results.into_iter().map(with).collect()
}

/// What XLA says about the results of each module, if it is asked.
fn verified(results: &[Optimized], rewriting: &Rewriting) -> Result<Vec<String>, XlaError> {
    results.iter().filter(|_| rewriting.verify_with_xla).map(verify_xla::verify).collect()
}
