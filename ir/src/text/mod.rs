//! HLO text: [`parse`] reads it, [`print`] writes it. The two meet only in the IR.

use crate::{Diagnostic, Module};

/// Reads one module. Several problems may be reported at once; there is at least one when it fails.
pub fn parse(text: &str) -> Result<Module, Vec<Diagnostic>> {
    let _ = text;
    Err(vec![Diagnostic::new("not written yet")])
}

/// Writes `module` the way XLA's dumps are written, in the style it was read in.
pub fn print(module: &Module) -> String {
    module.name.to_string()
}
