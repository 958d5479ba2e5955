//! What the user should know besides the rewrites: chances missed in the final module, and bounds that were hit.

use crate::hash::IndexMap;
use hlo_ir::InstructionId;
use hlo_memory::Bytes;

use super::candidate::{Candidate, allowed};
use super::remark_site::{of_module, source};
use super::search::{LeftOut, Search, TakenBack};
use super::trial_record::Trial;
use super::{Remark, RemarkKind, Rewrite, peak_remarks};
use crate::{Grade, Outcome, PassKind};

/// Every chance that the final module still holds, one remark for each pass, instruction and code, in the order found.
pub(super) fn collect(search: &mut Search<'_>) -> Vec<Remark> {
    let mut remarks: IndexMap<(&'static str, InstructionId, &'static str), Remark> = IndexMap::default();
    let findings = [PassKind::Rewrite, PassKind::Analysis].into_iter().flat_map(|kind| search.findings(kind));
    let findings: Vec<Candidate> = findings.collect();
    let refused: Vec<Candidate> = [PassKind::CleanUp, PassKind::Enabling, PassKind::Form]
        .iter()
        .flat_map(|&kind| refused(search, kind))
        .collect();
    let not_again = search.refused_recomputation();
    for candidate in findings.into_iter().chain(not_again).chain(refused) {
        if let Some(remark) = missed(search, &candidate) {
            remarks.entry((remark.pass, remark.id, remark.code)).or_insert(remark);
        }
    }
    let mut remarks: Vec<Remark> = remarks.into_values().collect();
    let silent = remarks.iter().all(|remark| remark.pass != "unfuse");
    if search.module.is_scheduled() && !search.passes.is_empty() && silent {
        remarks.push(scheduled(search));
    }
    remarks.extend(search.left_out.iter().map(|left| left_out(left, search.options.bisect_limit)));
    remarks.extend(search.taken_back.iter().map(taken_back));
    remarks.extend(search.limited.then(|| limit(search)));
    let holders = peak_remarks::collect(search, search.estimator);
    remarks.extend(holders);
    remarks
}

/// What passes of a kind would not touch, or not under these options.
fn refused(search: &mut Search<'_>, kind: PassKind) -> Vec<Candidate> {
    let findings = search.findings(kind);
    let stays = |candidate: &Candidate| {
        let forbidden = kind != PassKind::CleanUp && !allowed(candidate.finding.grade, search.options);
        forbidden || matches!(candidate.finding.outcome, Outcome::Missed(_))
    };
    findings.into_iter().filter(stays).collect()
}

/// Findings on the compiler's own form of a module, in which no pass can do anything.
fn scheduled(search: &Search<'_>) -> Remark {
    let message = "the module is the compiler's own form, which XLA does not take back; --passes=unfuse writes a plain form of it";
    of_module(search.module, &search.origins, "unfuse", "scheduled", message)
}

/// The remark about a finding that is not in the result; `None` if nothing is lost without it.
fn missed(search: &Search<'_>, candidate: &Candidate) -> Option<Remark> {
    let finding = &candidate.finding;
    let (pass, origin) = (search.passes[candidate.pass].name(), search.origins.of(finding.instruction));
    if search.taken_back.iter().any(|taken| (taken.rewrite.pass, taken.origin) == (pass, origin)) {
        // It was made; what became of it is a remark of its own.
        return None;
    }
    let (code, message, bytes) = match &finding.outcome {
        Outcome::Missed(reason) => (reason.code, reason.message.clone(), finding.wasted),
        Outcome::Withheld { reason, .. } => (reason.code, reason.message.clone(), would_save(search, candidate)?),
        Outcome::Rewrite { .. } if !allowed(finding.grade, search.options) => {
            ("grade", grade_message(finding.grade), would_save(search, candidate)?)
        }
        Outcome::Rewrite { .. } if finding.wasted < search.options.min_saving => return None,
        // What the limit keeps away has a remark of its own, with its number; nothing else that is found in front of it was tried.
        Outcome::Rewrite { .. } if search.is_cut_short() => return None,
        Outcome::Rewrite { note, .. } => {
            let (code, message) = untaken(search, candidate, note);
            let pass = &search.passes[candidate.pass];
            if code == "no-gain" && (pass.recomputes() || pass.comes_last()) {
                // There is something for these passes to try in nearly every program. Who holds what is left is said for each buffer.
                return None;
            }
            (code, message, finding.wasted)
        }
    };
    Some(Remark {
        kind: RemarkKind::Missed,
        pass,
        instruction: search.module.instruction(origin).name.clone(),
        id: origin,
        code,
        message: search.origins.in_input_names(search.module, &message),
        bytes,
        source: source(search.module, finding.instruction, origin),
    })
}

fn grade_message(grade: Grade) -> String {
    match grade {
        Grade::Assume => "holds only under a promise about the data; --assume would give it".to_owned(),
        grade => format!("results would only be equal to grade `{0}`; --exactness={0} would allow it", grade.name()),
    }
}

/// Bytes that a change would save that is not allowed, as measured, or as the pass reckons if the trials ran out; `None` if they are
/// less than the user cares for.
fn would_save(search: &Search<'_>, candidate: &Candidate) -> Option<Bytes> {
    let saved = match search.trial(candidate) {
        Some(Trial::Total(total)) => search.now.total_with_scratch() - *total,
        Some(Trial::Failed(_) | Trial::Rises(_) | Trial::Slower(_) | Trial::SlowerUntried(_)) => return None,
        Some(Trial::PassedOver(most)) => candidate.finding.wasted.min(*most),
        Some(Trial::TriedAt(_)) | None => candidate.finding.wasted,
    };
    (saved > Bytes::ZERO && saved >= search.options.min_saving).then_some(saved)
}

/// Why a rewrite that was allowed is not in the result.
fn untaken(search: &Search<'_>, candidate: &Candidate, note: &str) -> (&'static str, String) {
    let now = search.now.total_with_scratch();
    if let Some(budget) = search.options.budget.filter(|_| search.fits()) {
        let now = search.now.total;
        return ("budget", format!("was not needed: the peak of {now} fits into the budget of {budget} ({note})"));
    }
    match search.trial(candidate) {
        None => ("limit", format!("was not tried: the limit on trials was reached ({note})")),
        Some(Trial::PassedOver(most)) => {
            ("no-gain", format!("was not tried: it could lower the peak of {now} by {most} at most ({note})"))
        }
        Some(Trial::Rises(total)) => {
            let before = search.input_total();
            let message = format!(
                "would save memory inside library calls, but raise XLA's own figure from {before} to {total} ({note})"
            );
            ("no-gain", message)
        }
        Some(Trial::Slower(times)) => (
            "slower",
            format!(
                "would lower the peak, but take {times:.2} times as long as the input; --objective=memory or a --budget asks for it ({note})"
            ),
        ),
        Some(Trial::SlowerUntried(times)) => (
            "slower",
            format!(
                "was not tried: by what it computes again it would take {times:.2} times as long as the input or more; --objective=memory or a --budget asks for it ({note})"
            ),
        ),
        Some(Trial::TriedAt(id)) => {
            let name = &search.module.instruction(*id).name;
            ("no-gain", format!("was not tried: the same at {name} was, and is not in the result ({note})"))
        }
        Some(Trial::Failed(message)) => ("no-estimate", format!("its memory cannot be estimated: {message}")),
        Some(Trial::Total(total)) if *total > now => {
            ("no-gain", format!("would raise the peak of {now} by {} ({note})", *total - now))
        }
        Some(Trial::Total(total)) if *total == now => {
            ("no-gain", format!("would not lower the peak of {now} ({note})"))
        }
        Some(Trial::Total(total)) => {
            let (least, saved) = (search.min_step_saving(), now - *total);
            let message = if saved >= least {
                format!("would save {saved}, which is less than the estimate may be off ({note})")
            } else if least == search.options.min_saving {
                format!("would save {saved}, less than --min-saving {least} ({note})")
            } else {
                format!("would save {saved}, less than a hundredth of the peak ({note})")
            };
            ("no-gain", message)
        }
    }
}

/// A rewrite that only the user's limit keeps away.
fn left_out(left: &LeftOut, limit: Option<usize>) -> Remark {
    let Rewrite { pass, instruction, note, saved, source, .. } = left.rewrite.clone();
    let limit = limit.unwrap_or_default();
    Remark {
        kind: RemarkKind::Missed,
        pass,
        instruction,
        id: left.origin,
        code: "bisect-limit",
        message: format!("rewrite {} of this run is behind the limit of {limit} rewrites ({note})", left.number),
        bytes: saved,
        source,
    }
}

fn taken_back(rewrite: &TakenBack) -> Remark {
    let TakenBack { rewrite: Rewrite { pass, instruction, note, saved, source, .. }, origin, slowdown } =
        rewrite.clone();
    let message = format!(
        "would lower the peak by {saved}, but take more of the time than that is of the memory: {slowdown:.2} times as long as the input; --objective=memory or a --budget asks for it ({note})"
    );
    Remark { kind: RemarkKind::Missed, pass, instruction, id: origin, code: "slower", message, bytes: saved, source }
}

fn limit(search: &Search<'_>) -> Remark {
    of_module(
        search.module,
        &search.origins,
        "manager",
        "limit",
        "the search stopped at its limit; another run on the result may find more",
    )
}
