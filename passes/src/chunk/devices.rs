//! What stands between a loop and compilers of other devices.

use hlo_memory::Target;

use super::region::Region;
use super::sink::{Kind, Sink};
use crate::{Context, Reason};

/// Why the loop of `sinks` is no use to the target; `None` if nothing speaks against it.
pub(super) fn unfit(context: &Context<'_>, sinks: &[&Sink], region: &Region) -> Option<Reason> {
    if context.options.target != Target::Tpu {
        return None;
    }
    let name = &context.module.instruction(sinks[0].inst).name;
    let extents = region.blocks.keys().filter_map(|block| {
        let array = context.module.instruction(block.value.inst).array()?;
        array.dims.get(block.dim).copied()
    });
    let longest = extents.chain(sinks.iter().map(|sink| sink.rows)).max().unwrap_or(0);
    if i32::try_from(longest).is_err() {
        let message = format!(
            "XLA:TPU cannot slice at row {longest}, of which `{name}` has some: it has start indices of 32 bits only"
        );
        return Some(Reason { code: "wide-rows", message });
    }
    let short = |sink: &&&Sink| matches!(sink.kind, Kind::Scatter { .. }) && sink.rows < LANES && sink.inner >= LANES;
    let sink = sinks.iter().find(short)?;
    let message = format!(
        "`{}` has only {} rows of {} updates: XLA:TPU would copy all of its indices to cut them there",
        context.module.instruction(sink.inst).name,
        sink.rows,
        sink.inner
    );
    Some(Reason { code: "short-rows", message })
}

/// A dimension shorter than this shares tiles with another one.
const LANES: i64 = 128;
