//! What the user should know besides the rewrites: chances missed in the final module, and bounds that were hit.

use hlo_ir::{InstructionId, Module};
use hlo_memory::Bytes;
use indexmap::IndexMap;

use super::search::{Candidate, Search, allowed};
use super::{Remark, RemarkKind};
use crate::{Grade, Outcome, PassKind};

/// A rewrite that was tried, and the total it led to or why there is none.
pub(super) struct Tried {
    pub(super) pass: &'static str,
    pub(super) instruction: InstructionId,
    pub(super) note: String,
    pub(super) outcome: Result<Bytes, String>,
}

/// Every chance that the final module still holds, one remark for each pass, instruction and code, in the order found.
pub(super) fn collect(search: &mut Search<'_>) -> Vec<Remark> {
    let mut remarks: IndexMap<(&'static str, InstructionId, &'static str), Remark> = IndexMap::new();
    for candidate in search.findings(PassKind::Rewrite).into_iter().chain(refused_clean_ups(search)) {
        let remark = missed(search, &candidate);
        remarks.entry((remark.pass, remark.id, remark.code)).or_insert(remark);
    }
    let mut remarks: Vec<Remark> = remarks.into_values().collect();
    remarks.extend(search.limited.then(|| limit(search)));
    remarks
}

/// What clean-up passes would not touch.
fn refused_clean_ups(search: &Search<'_>) -> impl Iterator<Item = Candidate> + use<> {
    let findings = search.findings(PassKind::CleanUp).into_iter();
    findings.filter(|candidate| matches!(candidate.finding.outcome, Outcome::Missed(_)))
}

/// `file:line` of an instruction, or else of the one it stems from.
pub(super) fn source(module: &Module, id: InstructionId, origin: InstructionId) -> Option<String> {
    let line = module.source_line(id).or_else(|| module.source_line(origin))?;
    Some(format!("{}:{}", line.file, line.line))
}

fn missed(search: &Search<'_>, candidate: &Candidate) -> Remark {
    let finding = &candidate.finding;
    let pass = search.passes[candidate.pass].name();
    let (code, message) = match &finding.outcome {
        Outcome::Missed(reason) => (reason.code, reason.message.clone()),
        Outcome::Rewrite { .. } if !allowed(finding.grade, search.options) => ("grade", grade_message(finding.grade)),
        Outcome::Rewrite { note, .. } => untaken(search, pass, finding.instruction, note),
    };
    let origin = search.origins.of(finding.instruction);
    Remark {
        kind: RemarkKind::Missed,
        pass,
        instruction: search.module.instruction(origin).name.clone(),
        id: origin,
        code,
        message,
        bytes: finding.wasted,
        source: source(search.module, finding.instruction, origin),
    }
}

fn grade_message(grade: Grade) -> String {
    match grade {
        Grade::Assume => "holds only under a promise about the data; --assume would give it".to_owned(),
        grade => format!("results would only be equal to grade `{0}`; --exactness={0} would allow it", grade.name()),
    }
}

/// Why a rewrite that was allowed is not in the result.
fn untaken(search: &Search<'_>, pass: &str, at: InstructionId, note: &str) -> (&'static str, String) {
    let found = search.tried.iter().find(|tried| tried.pass == pass && tried.instruction == at && tried.note == note);
    let now = search.now.total;
    match found.map(|tried| &tried.outcome) {
        None => ("limit", format!("was not tried: the limit on trials was reached ({note})")),
        Some(Err(message)) => ("no-estimate", format!("its memory cannot be estimated: {message}")),
        Some(Ok(total)) if *total > now => ("no-gain", format!("would raise the peak from {now} to {total} ({note})")),
        Some(Ok(total)) if *total == now => ("no-gain", format!("would not lower the peak of {now} ({note})")),
        Some(Ok(total)) => {
            let least = search.options.min_saving;
            ("no-gain", format!("would save {}, less than --min-saving {least} ({note})", now - *total))
        }
    }
}

fn limit(search: &Search<'_>) -> Remark {
    let module = &*search.module;
    let root = search.origins.of(module.computation(module.entry()).root);
    Remark {
        kind: RemarkKind::Analysis,
        pass: "manager",
        instruction: module.instruction(root).name.clone(),
        id: root,
        code: "limit",
        message: "the search stopped at its limit; another run on the result may find more".to_owned(),
        bytes: Bytes::ZERO,
        source: None,
    }
}
