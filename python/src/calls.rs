//! The library's calls on bytes that are HLO text or a serialized proto.

use std::panic::{self, AssertUnwindSafe};

use hlo_ir::{Diagnostic, Module, per_device, proto, text};
use hlo_opt::{Grade, JudgeError, Optimized, Point, Request};
use pyo3::prelude::*;

use crate::failure::Stop;
use crate::judge::Callable;
use crate::options::{self, Settings};

/// Rewrites a module: its text, its proto, the report as JSON. A judge, if there is one, decides which form is kept.
pub(crate) fn optimize(
    data: &[u8],
    settings: &Settings<'_>,
    judge: Option<Py<PyAny>>,
    max_slowdown: Option<f64>,
) -> Result<(String, Vec<u8>, String), Stop> {
    let options = settings.options()?;
    let pipeline = settings.pipeline()?;
    let request = Request { pipeline: &pipeline, options: &options, max_slowdown };
    guarded(|| rewritten(source(data)?, request, judge.map(Callable)))
}

fn rewritten(
    source: Source<'_>,
    request: Request<'_>,
    judge: Option<Callable>,
) -> Result<(String, Vec<u8>, String), Stop> {
    let Request { pipeline, options, .. } = request;
    let (found, source) = match source {
        Source::Text(text) => (hlo_opt::optimize(text, pipeline, options), text),
        Source::Module(module) => (hlo_opt::optimize_module(*module, pipeline, options), ""),
    };
    let mut optimized = found.map_err(|failure| Stop::of(failure, source))?;
    if let Some(mut judge) = judge {
        optimized = hlo_opt::decide(optimized, request, &mut judge).map_err(|error| match error {
            JudgeError::Unasked(reason) => Stop::Unasked(reason),
            JudgeError::Run(failure) => Stop::of(failure, source),
        })?;
    }
    let report = optimized.report_json(options.target).map_err(|failure| Stop::of(failure, source))?;
    let proto = encode(&optimized)?;
    Ok((optimized.text, proto, report))
}

/// A point of the curve of memory against time: bytes, seconds, whether all loops have known iterations, number of rewrites, their weakest grade, what the last one does.
pub(crate) type CurvePoint = (u64, f64, bool, usize, Option<&'static str>, String);

/// The curve of memory against time.
pub(crate) fn curve(data: &[u8], settings: &Settings<'_>) -> Result<Vec<CurvePoint>, Stop> {
    let (options, pipeline) = (settings.options()?, settings.pipeline()?);
    let point = |point: Point| {
        (point.total.get(), point.seconds, point.is_certain, point.rewrites, point.grade.map(Grade::name), point.step)
    };
    guarded(|| {
        let points = match source(data)? {
            Source::Text(text) => {
                hlo_opt::curve(text, &pipeline, &options).map_err(|failure| Stop::of(failure, text))?
            }
            Source::Module(module) => {
                hlo_opt::curve_of(&module, &pipeline, &options).map_err(|failure| Stop::of(failure, ""))?
            }
        };
        Ok(points.into_iter().map(point).collect())
    })
}

/// Says how much memory a module needs: the report as JSON.
pub(crate) fn analyze(data: &[u8], target: &str) -> Result<String, Stop> {
    let target = options::target(target)?;
    guarded(|| {
        let analysis = match source(data)? {
            Source::Text(text) => hlo_opt::analyze(text, target).map_err(|failure| Stop::of(failure, text))?,
            Source::Module(module) => {
                hlo_opt::analyze_module(*module, target).map_err(|failure| Stop::of(failure, ""))?
            }
        };
        Ok(analysis.report_json(target))
    })
}

/// The serialized HloModuleProto of what each of several devices runs, as the program of one; `None` for a module that is not known as such, unless it
/// `is_certain` where it comes from, and for one with collectives whose devices cannot be listed.
pub(crate) fn one_device(data: &[u8], is_certain: bool) -> Result<Option<Vec<u8>>, Stop> {
    guarded(|| {
        let mut module = match source(data)? {
            Source::Text(source) => text::parse(source).map_err(|problems| Stop::illegal(&problems, source))?,
            Source::Module(module) => *module,
        };
        if !is_certain && !per_device::is_per_device(&module) {
            return Ok(None);
        }
        let Some(patch) = per_device::for_one_device(&module) else { return Ok(None) };
        patch.apply(&mut module).map_err(|error| Stop::Internal(error.to_string()))?;
        module_proto(&module).map(Some).map_err(|problems| Stop::illegal(&problems, ""))
    })
}

/// A module as it came.
enum Source<'a> {
    Text(&'a str),
    /// A serialized proto, decoded.
    Module(Box<Module>),
}

fn source(data: &[u8]) -> Result<Source<'_>, Stop> {
    if proto::looks_like_proto(data) {
        let decoded = proto::read(data).map_err(|problems| Stop::illegal(&problems, ""))?;
        return Ok(Source::Module(Box::new(decoded.module)));
    }
    let text = std::str::from_utf8(data).map_err(|error| Stop::not_text(data, error.valid_up_to()))?;
    Ok(Source::Text(text))
}

/// The proto of the rewritten module.
fn encode(optimized: &Optimized) -> Result<Vec<u8>, Stop> {
    let encoded = module_proto(optimized.after()).map_err(|problems| Stop::illegal(&problems, &optimized.text))?;
    if encoded.is_empty() {
        return Err(Stop::Internal("the proto does not begin with its module".to_owned()));
    }
    Ok(encoded)
}

/// The serialized HloModuleProto of a module; empty if there is none, or what the binary form has no place for.
pub(crate) fn module_proto(module: &Module) -> Result<Vec<u8>, Vec<Diagnostic>> {
    Ok(module_of(&proto::write(module)?.bytes).unwrap_or_default())
}

/// The `HloModuleProto` in a serialized `HloProto`: its first field, a message. It is what Python's XLA takes and gives.
fn module_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let (&0x0a, mut rest) = bytes.split_first()? else { return None };
    let mut length = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return rest.get(..length).map(<[u8]>::to_vec);
        }
    }
    None
}

/// Runs `work`; a panic becomes an internal error, since Python must never see the process end.
fn guarded<T>(work: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Err(Stop::Internal(text.unwrap_or_else(|| "no message".to_owned())))
    })
}
