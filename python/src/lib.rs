//! The native half of the Python package: five functions that take and return plain values; everything else is Python in `python/hlo_opt`.

mod calls;
mod failure;
mod judge;
mod options;

use pyo3::prelude::*;

use options::Settings;

/// Rewrites a module given as HLO text or as a serialized proto; gives the text, the proto and the report as JSON.
#[pyfunction]
#[pyo3(signature = (data, *, target, exactness, assume, passes, chunk_bytes, min_saving, verify_each, budget, objective, host_memory, is_judged, bisect_limit, judge, max_slowdown, advise))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword of the Python call")]
fn optimize(
    py: Python<'_>,
    data: &[u8],
    target: &str,
    exactness: &str,
    assume: Vec<String>,
    passes: Option<&str>,
    chunk_bytes: Option<u64>,
    min_saving: u64,
    verify_each: bool,
    budget: Option<u64>,
    objective: &str,
    host_memory: u64,
    is_judged: bool,
    bisect_limit: Option<usize>,
    judge: Option<Py<PyAny>>,
    max_slowdown: Option<f64>,
    advise: bool,
) -> PyResult<(String, Vec<u8>, String)> {
    let settings = Settings {
        target,
        exactness,
        assume,
        passes,
        chunk_bytes,
        min_saving,
        verify_each,
        budget,
        objective,
        host_memory,
        is_judged,
        bisect_limit,
        advise,
    };
    // Other threads of Python run while this one works.
    py.detach(|| calls::optimize(data, &settings, judge, max_slowdown)).map_err(|stop| stop.raise(py))
}

/// Says how much memory a module needs; gives the report as JSON.
#[pyfunction]
#[pyo3(signature = (data, *, target))]
fn analyze(py: Python<'_>, data: &[u8], target: &str) -> PyResult<String> {
    py.detach(|| calls::analyze(data, target)).map_err(|stop| stop.raise(py))
}

/// Forms of a module that no other known form beats in memory and time, see `CurvePoint`.
#[pyfunction]
#[pyo3(signature = (data, *, target, exactness, assume, passes, chunk_bytes, min_saving, host_memory))]
#[expect(clippy::too_many_arguments, reason = "each is a keyword of the Python call")]
fn curve(
    py: Python<'_>,
    data: &[u8],
    target: &str,
    exactness: &str,
    assume: Vec<String>,
    passes: Option<&str>,
    chunk_bytes: Option<u64>,
    min_saving: u64,
    host_memory: u64,
) -> PyResult<Vec<calls::CurvePoint>> {
    let settings =
        Settings { target, exactness, assume, passes, chunk_bytes, min_saving, host_memory, ..Settings::default() };
    py.detach(|| calls::curve(data, &settings)).map_err(|stop| stop.raise(py))
}

/// What each of several devices runs (a module from behind XLA's partitioner), as a serialized HloModuleProto of a program for one; None for other
/// modules, unless it `is_certain` that it is such a module, and where devices of a collective are unknown.
#[pyfunction]
#[pyo3(signature = (data, *, is_certain=false))]
fn one_device(py: Python<'_>, data: &[u8], is_certain: bool) -> PyResult<Option<Vec<u8>>> {
    py.detach(|| calls::one_device(data, is_certain)).map_err(|stop| stop.raise(py))
}

/// Runs the command line `arguments` (the program's name first) and gives its exit code.
#[pyfunction]
fn run(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| hlo_opt::run(arguments).code())
}

/// The module `hlo_opt._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(optimize, module)?)?;
    module.add_function(wrap_pyfunction!(analyze, module)?)?;
    module.add_function(wrap_pyfunction!(curve, module)?)?;
    module.add_function(wrap_pyfunction!(one_device, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)
}
