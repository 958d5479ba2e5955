//! What a run leaves behind: files, products on standard output, a summary, and the exit code.

// Tests: `tests/cli.rs`, `tests/forms.rs`.

use std::borrow::Cow;

use hlo_ir::text::{self, Style};
use hlo_ir::{Module, proto};
use hlo_memory::{Bytes, Model};

use crate::args::{Job, Product, Rewriting};
use crate::messages::{Level, Messages};
use crate::output::{OutputError, Outputs, Sink};
use crate::problem::Problem;
use crate::report::Report;
use crate::usage_error::UsageError;
use crate::{Exit, Optimized, Pipeline, api, curve_point, diff, pipeline, summary, verdict, why_not};

/// A finished run over the modules of an input.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// One result for each module.
    pub(crate) results: &'a [Optimized],
    /// What messages call the input.
    pub(crate) name: &'a str,
    pub(crate) job: &'a Job,
    pub(crate) rewriting: &'a Rewriting,
}

/// How to write on the standard streams.
#[derive(Clone, Copy)]
pub(crate) struct Streams {
    /// Whether standard output takes colors.
    pub(crate) color: bool,
    /// Standard error.
    pub(crate) messages: Messages,
}

impl Run<'_> {
    /// How the run ended: the gravest end of its modules.
    pub(crate) fn exit(self) -> Exit {
        let end = |result: &Optimized| match result.fits(&self.job.options) {
            false => Exit::OverBudget,
            true if self.rewriting.check && result.helped() => Exit::Found,
            true => Exit::Done,
        };
        self.results.iter().map(end).fold(Exit::Done, Exit::or)
    }

    /// Writes everything that was asked for, or nothing; when a module misses its budget, modules stay unwritten, reports do not.
    pub(crate) fn write(self, exit: Exit, streams: Streams) -> Result<(), Problem> {
        let mut outputs = Outputs::default();
        self.reports(&mut outputs)?;
        if self.rewriting.diff {
            outputs.prepare(&Sink::Stdout, self.changes(streams.color))?;
        }
        if let Some(name) = self.rewriting.why_not {
            outputs.prepare(&Sink::Stdout, self.why_not(name))?;
        }
        if let Some(sink) = self.rewriting.output.as_ref().filter(|_| exit != Exit::OverBudget) {
            match self.rewriting.product {
                Product::Text(style) => outputs.prepare(sink, self.text(style))?,
                Product::Proto => outputs.prepare(sink, self.binary(streams.messages)?)?,
            }
        }
        Ok(outputs.commit()?)
    }

    /// Says how it went. A missed budget is an error, and errors are said even to the quiet.
    pub(crate) fn say(self, quiet: bool, messages: Messages) {
        for result in self.results {
            let fits = result.fits(&self.job.options);
            if !quiet || !fits {
                let machine = self.job.options.machine.as_ref();
                messages.remark(&summary::text(&result.module, &result.report, result.peak(), machine));
                let judged = result.verdict.as_ref().map(|verdict| verdict::lines(verdict));
                messages.remark(&judged.unwrap_or_default());
                if let Some(points) = &result.curve {
                    messages.remark(&format!("  memory against time:\n{}", curve_point::table(points)));
                }
            }
            if fits && !quiet && self.job.options.budget.is_some() && is_rough(result) {
                messages.remark(&roughly(result.report.after.error_margin));
            }
            if !fits {
                let line = missed(result, self.job.options.budget.unwrap_or_default());
                messages.remark(&format!("  {line}\n"));
                if messages == Messages::Json {
                    messages.plain(Level::Error, "budget", &format!("{}: {line}", result.module), Some(self.name));
                }
            }
        }
    }

    fn reports(self, outputs: &mut Outputs) -> Result<(), Problem> {
        let target = self.job.options.target;
        for (number, result) in self.results.iter().enumerate().filter(|_| self.job.report.is_some()) {
            let details = result.details(target).map_err(|failure| Problem::of_one(failure, self.name))?;
            let report = Report::of_run(&result.module, target, &result.report, &details)
                .within(self.job.options.budget)
                .judged(result.verdict.as_deref())
                .with_curve(result.curve.as_deref());
            prepare_report(outputs, self.job, (number, self.results.len()), &report)?;
        }
        Ok(())
    }

    /// The results as one text.
    fn text(self, style: Style) -> String {
        let texts: Vec<_> = self.results.iter().map(|result| styled(result.after(), &result.text, style)).collect();
        text::join(texts.iter().map(AsRef::as_ref))
    }

    /// What changed, in the style of the result.
    fn changes(self, color: bool) -> String {
        let style = match self.rewriting.product {
            Product::Text(style) => style,
            Product::Proto => Style::Long,
        };
        let inputs: Vec<_> = self.results.iter().map(|result| styled(result.before(), &result.input, style)).collect();
        diff::unified(self.name, &text::join(inputs.iter().map(AsRef::as_ref)), &self.text(style), color)
    }

    /// What a pass did, for each module.
    fn why_not(self, name: &str) -> String {
        let pass = pipeline::find(name).expect("the name was taken from a pass");
        let of = |result: &Optimized| {
            let alone =
                || api::optimize_module(result.before().clone(), &Pipeline::parse(name).ok()?, &self.job.options).ok();
            why_not::text(pass.as_ref(), result, alone)
        };
        self.results.iter().map(of).collect::<Vec<_>>().join("\n")
    }

    /// The module in binary form, which has room for one; says what it lacks.
    fn binary(self, messages: Messages) -> Result<Vec<u8>, Problem> {
        let [result] = self.results else {
            let message = format!("a binary dump holds one module, but the input has {}", self.results.len());
            return Err(Problem::Usage(UsageError(message)));
        };
        let encoded = proto::write(result.after()).map_err(|problems| Problem::no_field(&problems, self.name))?;
        messages.dropped(&encoded.dropped, self.name);
        Ok(encoded.bytes)
    }
}

/// A module in a style; its long text is there already.
fn styled<'t>(module: &Module, long: &'t str, style: Style) -> Cow<'t, str> {
    match style {
        Style::Long => Cow::Borrowed(long),
        Style::Short | Style::Canonical => Cow::Owned(text::print_as(module, style)),
    }
}

/// Adds the report of module `index` of `count` to what will be written, if one is wanted; with several modules, the number stands before the
/// extension.
pub(crate) fn prepare_report(
    outputs: &mut Outputs,
    job: &Job,
    (index, count): (usize, usize),
    report: &Report<'_>,
) -> Result<(), OutputError> {
    let Some((path, format)) = &job.report else { return Ok(()) };
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let numbered = || path.with_extension(format!("{}.{extension}", index + 1));
    outputs.prepare(&Sink::File(if count > 1 { numbered() } else { path.clone() }), report.write(*format))
}

/// What is said of a budget that is missed.
fn missed(result: &Optimized, budget: Bytes) -> String {
    let after = &result.report.after;
    let (estimate, slack) = (after.total, after.slack + after.error_margin);
    let peak = match &result.verdict {
        Some(verdict) => match verdict.after.figures() {
            Some(figures) => figures.total.to_string(),
            None => return format!("over budget: the compiler takes no form, and the budget is {budget}"),
        },
        None if slack == Bytes::ZERO => estimate.to_string(),
        None if slack == Bytes(u64::MAX) => return format!("whether the budget of {budget} is met is not known"),
        None => format!("{estimate}, and up to {slack} more,"),
    };
    let asked =
        if is_rough(result) && after.likely() <= budget { ": the model is rough, --judge xla asks XLA" } else { "" };
    format!("over budget: the peak of {peak} does not fit {budget}{asked}")
}

/// Whether a rough model of a compiler is all that says how much memory a result needs.
fn is_rough(result: &Optimized) -> bool {
    result.verdict.is_none() && result.report.after.model == Model::Rough
}

/// What is said of a budget that is met by a rough model of a compiler.
fn roughly(margin: Bytes) -> String {
    format!("  rough: the budget is met with an error margin of {margin}; --judge xla asks XLA\n")
}
