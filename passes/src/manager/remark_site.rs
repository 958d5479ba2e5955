//! Where remarks and rewrites stand: source lines, and the module as a whole.

use hlo_ir::{InstructionId, MadeAt, Module, SourceLine};
use hlo_memory::Bytes;

use super::{Remark, RemarkKind, Source};
use crate::origins::Origins;

/// `file:line` of an instruction, or else of the one it derives from, and what is to be said beside it.
pub(super) fn source(module: &Module, id: InstructionId, origin: InstructionId) -> Source {
    let at = module.made_at(id);
    let id = if at == MadeAt::default() { origin } else { id };
    let MadeAt { line, library } = module.made_at(id);
    let text = |line: SourceLine| format!("{}:{}", line.file, line.line);
    let detail = match (&line, library) {
        (Some(_), library) => library.map(text),
        // A library's line alone says less than the name that the operation has in the model.
        (None, Some(library)) => module.instruction(id).metadata("op_name").map(str::to_owned).or(Some(text(library))),
        (None, None) => None,
    };
    Source { line: line.map(text), detail }
}

/// A remark about the module as a whole, which stands at its root.
pub(super) fn of_module(
    module: &Module,
    origins: &Origins,
    pass: &'static str,
    code: &'static str,
    message: &str,
) -> Remark {
    let root = origins.of(module.computation(module.entry()).root);
    Remark {
        kind: RemarkKind::Analysis,
        pass,
        instruction: module.instruction(root).name.clone(),
        id: root,
        code,
        message: message.to_owned(),
        bytes: Bytes::ZERO,
        source: Source::default(),
    }
}
