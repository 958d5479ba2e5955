//! A loop that is ready to be built, with its sinks, region and block size, and its grade and note in the report.

use super::fp_contraction::may_contract;
use super::region::Region;
use super::sink::{Kind, Sink};
use super::size::BlockSize;
use crate::{Context, Grade};

/// A loop ready to be built.
pub(super) struct Planned<'s> {
    pub(super) sinks: Vec<&'s Sink>,
    pub(super) region: Region,
    pub(super) size: BlockSize,
    pub(super) row_bytes: u64,
}

impl<'s> Planned<'s> {
    /// A loop whose size is settled.
    pub(super) const fn new(sinks: Vec<&'s Sink>, region: Region, size: BlockSize) -> Self {
        Self { sinks, region, size, row_bytes: 0 }
    }
    pub(super) fn grade(&self, context: &Context<'_>) -> Grade {
        let own = self.sinks.iter().map(|sink| sink.grade(context.module, &self.sinks));
        let grade = own.fold(self.region.grade, Grade::max);
        let contracts = grade == Grade::Bitwise && may_contract(context, &self.sinks, &self.region);
        if contracts { Grade::HloExact } else { grade }
    }
    pub(super) fn note(&self) -> String {
        let BlockSize { rows, count, rest } = self.size;
        let rest = if rest > 0 { format!(", then {rest} rows") } else { String::new() };
        let sinks = self.sinks.len();
        let scatters = self.sinks.iter().filter(|sink| matches!(sink.kind, Kind::Scatter { .. })).count();
        let shared = if sinks > 1 {
            format!(", {sinks} {} in one loop", if scatters == sinks { "scatters" } else { "results" })
        } else {
            String::new()
        };
        format!("{count} blocks of {rows} rows{rest}{shared}")
    }
}
