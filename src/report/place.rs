//! Where a buffer or an instruction was made, in words.

use hlo_memory::LiveBuffer;

/// One buffer alive at the peak.
pub(crate) fn holder(buffer: &LiveBuffer) -> String {
    let origin = match (&buffer.source, &buffer.op_name) {
        (Some(source), Some(op_name)) => format!("  {source} {op_name}"),
        (Some(only), None) => format!("  {only}"),
        (None, Some(only)) => format!("  {only}"),
        (None, None) => String::new(),
    };
    format!("{:>12}  {} {}{origin}", buffer.bytes.to_string(), buffer.instruction, buffer.shape)
}

/// ` at FILE:LINE` when the place is known.
pub(crate) fn place(source: Option<&str>) -> String {
    source.map(|source| format!(" at {source}")).unwrap_or_default()
}
