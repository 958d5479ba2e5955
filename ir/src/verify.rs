//! Whether a module is legal.

use crate::{Diagnostic, Module};

/// Every violated invariant; empty for a legal module.
pub fn verify(module: &Module) -> Vec<Diagnostic> {
    let _ = module;
    Vec::new()
}
