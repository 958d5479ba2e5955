//! The model as judge: its own bytes and its own time, where a user bounds the time (`--max-slowdown` without `--judge xla`).

// Tests: `tests/judge.rs`.

use hlo_ir::Module;
use hlo_memory::ModelEstimator;
use hlo_passes::{Options, estimate_and_time};

use crate::answer::{Answer, Figures};
use crate::judge::Judge;

/// The model of the target's compiler, on the machine of the options.
pub(crate) struct ByModel<'a>(pub(crate) &'a Options);

impl Judge for ByModel<'_> {
    fn name(&self) -> &'static str {
        "the model"
    }
    fn ask(&mut self, module: &Module) -> Result<Answer, String> {
        let options = self.0;
        let model = ModelEstimator { target: options.target };
        let (estimate, time) = estimate_and_time(module, &model, options.machine());
        let estimate = match estimate {
            Ok(estimate) => estimate,
            Err(error) => return Ok(Answer::Failed(error.to_string())),
        };
        let seconds = time.map(|time| time.seconds);
        Ok(Answer::Compiled(Figures { total: estimate.certain(), aliased: estimate.aliased, seconds }))
    }
}
