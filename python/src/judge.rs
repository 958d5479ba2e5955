//! A callable of Python as judge: it is given a serialized HloModuleProto and says what its compiler makes of it.

use hlo_ir::Module;
use hlo_opt::{Answer, Bytes, Figures, Judge};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::calls;

/// `hlo_opt.calls.Answer`: bytes in all (if it compiles) and donated, seconds, why it does not compile, whether because it does not fit the device.
type Said = (Option<u64>, u64, Option<f64>, String, bool);

/// The callable.
pub(crate) struct Callable(pub(crate) Py<PyAny>);

impl Judge for Callable {
    fn name(&self) -> &'static str {
        "the compiler"
    }
    fn ask(&mut self, module: &Module) -> Result<Answer, String> {
        let proto = calls::module_proto(module).map_err(|_| "the module has no binary form".to_owned())?;
        answer(|py| self.0.call1(py, (PyBytes::new(py, &proto),))?.extract(py))
    }
    fn ask_original(&mut self, module: &Module) -> Result<Answer, String> {
        // It may have the original itself.
        let has_it = Python::attach(|py| self.0.bind(py).hasattr("original")).unwrap_or_default();
        if has_it { answer(|py| self.0.call_method0(py, "original")?.extract(py)) } else { self.ask(module) }
    }
    fn trusts_the_model(&self) -> bool {
        Python::attach(|py| self.0.getattr(py, "trusts_the_model")?.extract(py)).unwrap_or_default()
    }
}

/// What Python says.
fn answer(ask: impl for<'py> FnOnce(Python<'py>) -> PyResult<Said>) -> Result<Answer, String> {
    let said = Python::attach(ask);
    let (total, aliased, seconds, refusal, too_large) = said.map_err(|error: PyErr| error.to_string())?;
    Ok(match total {
        Some(total) => Answer::Compiled(Figures { total: Bytes(total), aliased: Bytes(aliased), seconds }),
        None if too_large => Answer::TooLarge(refusal),
        None => Answer::Failed(refusal),
    })
}
