//! An assignment in the formats of XLA's own dumps, so that a diff against them shows where we differ: the list of allocations
//! (`*-buffer-assignment.txt`) and the memory-usage report.
//!
//! Source: `BufferAllocation::ToString` and `BufferAllocation::MemoryUsageReport` (xla/service/buffer_assignment.cc).

// Tests: `tests/dumps.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hlo_ir::Module;
use hlo_memory::Bytes;
use hlo_memory::assignment::{Allocation, AllocationKind, Assignment, StoredValue};

/// Writing into a `String` cannot fail.
const INFALLIBLE: &str = "a String takes every write";

/// Tables that a memory-usage report and rows that a table always has, as far as there are so many.
const ROWS: usize = 50;

/// Percent of the sum below which the rest is left out behind those.
const REST: u64 = 5;

/// `*-buffer-assignment.txt`.
pub(crate) fn allocations(module: &Module, assignment: &Assignment<'_>) -> String {
    let mut out = "BufferAssignment:\n".to_owned();
    for (index, allocation) in assignment.allocations().enumerate() {
        writeln!(out, "allocation {index}: size {}{}:", allocation.size.get(), flags(module, &allocation))
            .expect(INFALLIBLE);
        for stored in by_number(&allocation) {
            let (name, size, offset) = (name(module, stored), stored.size.get(), stored.offset.get());
            let shape = module.shape(stored.value.instruction).at(&stored.value.index);
            let shape = shape.map(ToString::to_string).unwrap_or_default();
            writeln!(out, " value: <{name} @0> (size={size},offset={offset}): {shape}").expect(INFALLIBLE);
        }
    }
    out
}

/// `, parameter 0, shape |f32[8]| at ShapeIndex {}` and the like.
fn flags(module: &Module, allocation: &Allocation) -> String {
    let mut out = String::new();
    let entry = module.entry();
    if let AllocationKind::Parameter { number, index, .. } = &allocation.kind {
        let id = usize::try_from(*number).ok().and_then(|number| module.parameters(entry).get(number).copied());
        let shape = id.and_then(|id| module.shape(id).at(index)).map(|shape| shape.without_layout().to_string());
        let (shape, index) = (shape.unwrap_or_default(), braced(index));
        write!(out, ", parameter {number}, shape |{shape}| at ShapeIndex {index}").expect(INFALLIBLE);
    }
    if allocation.holds_root {
        let shape = module.shape(module.computation(entry).root).without_layout();
        write!(out, ", output shape is |{shape}|").expect(INFALLIBLE);
    }
    match allocation.kind {
        AllocationKind::Constant => out += ", constant",
        AllocationKind::ThreadLocal => out += ", thread-local",
        _ => {}
    }
    if allocation.live_out {
        out += ", maybe-live-out";
    }
    if allocation.kind == AllocationKind::Temporary {
        out += ", preallocated-temp";
    }
    out
}

/// `31 name{0} (phi)`; the tuple index only where there is a tuple.
fn name(module: &Module, stored: &StoredValue) -> String {
    let value = &stored.value;
    let index = if module.shape(value.instruction).as_tuple().is_some() { braced(&value.index) } else { String::new() };
    let phi = if value.phi { " (phi)" } else { "" };
    format!("{} {}{index}{phi}", stored.number, module.instruction(value.instruction).name)
}

/// `{0,1}`.
fn braced(index: &[i64]) -> String {
    format!("{{{}}}", index.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

fn by_number(allocation: &Allocation) -> Vec<&StoredValue> {
    let mut values: Vec<&StoredValue> = allocation.values.iter().collect();
    values.sort_by_key(|stored| stored.number);
    values
}

/// `*-memory-usage-report.txt`.
pub(crate) fn memory_usage(module: &Module, assignment: &Assignment<'_>) -> String {
    let mut allocations: Vec<Allocation> = assignment.allocations().collect();
    let total: Bytes = allocations.iter().map(|allocation| allocation.size).sum();
    let mut out = format!("Memory Space: default (color=0)\nTotal bytes: {} ({})\n", total.get(), human(total.get()));
    allocations.sort_by_key(|allocation| std::cmp::Reverse(allocation.size));
    let mut shown = 0_u64;
    for (row, allocation) in allocations.iter().enumerate() {
        table(&mut out, module, allocation);
        shown = shown.saturating_add(allocation.size.get());
        if row + 1 > ROWS && is_small(total.get() - shown, total.get()) {
            break;
        }
    }
    out + "\n"
}

/// Whether what is left of a sum is not worth showing.
fn is_small(left: u64, sum: u64) -> bool {
    u128::from(left) * 100 < u128::from(sum) * u128::from(REST)
}

/// The values of an allocation that stand at one offset.
#[derive(Default)]
struct Group {
    offset: u64,
    size: u64,
    last: u64,
    count: usize,
    shapes: BTreeMap<String, usize>,
}

fn table(out: &mut String, module: &Module, allocation: &Allocation) {
    let groups = groups(module, allocation);
    let sum: u64 = groups.iter().map(|group| group.size).fold(0, u64::saturating_add);
    *out += "  cumulative_size;       size;       offset; used_by_n_values; shapes_list\n";
    *out += "  ------------------------------------------------------------\n";
    let mut shown = 0_u64;
    for (row, group) in groups.iter().enumerate() {
        shown = shown.saturating_add(group.size);
        let percent = 100.0 * shown as f64 / sum as f64;
        let percent = if percent.is_nan() { "-nan".to_owned() } else { format!("{percent:.0}") };
        let (cumulative, size) = (human(shown), human(group.size));
        writeln!(
            out,
            "  {cumulative:>9}({percent:>3}%); {size:>10}; {:>12}; {:>16}; {}",
            group.offset,
            group.count,
            shapes(group)
        )
        .expect(INFALLIBLE);
        if row + 1 > ROWS && is_small(sum - shown, sum) {
            let rest = groups.len() - row - 1;
            writeln!(out, "  The rest {rest} values are less than {REST}% of the total size and not shown.")
                .expect(INFALLIBLE);
            break;
        }
    }
    *out += "\n";
}

/// Groups by size, largest first, equal ones by their last value.
fn groups(module: &Module, allocation: &Allocation) -> Vec<Group> {
    let mut by_offset: BTreeMap<u64, Group> = BTreeMap::new();
    for stored in by_number(allocation) {
        let group = by_offset.entry(stored.offset.get()).or_default();
        group.offset = stored.offset.get();
        group.size = group.size.max(stored.size.get());
        group.last = stored.number;
        group.count += 1;
        let shape = module.shape(stored.value.instruction).at(&stored.value.index);
        *group.shapes.entry(shape.map(|shape| shape.without_layout().to_string()).unwrap_or_default()).or_default() +=
            1;
    }
    let mut groups: Vec<Group> = by_offset.into_values().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.size), group.last));
    groups
}

/// `f32[8], 2×f32[4]`: rare shapes first.
fn shapes(group: &Group) -> String {
    let mut counted: Vec<(usize, &str)> = group.shapes.iter().map(|(shape, &count)| (count, shape.as_str())).collect();
    counted.sort_unstable();
    let written = counted.into_iter().map(|(count, shape)| match count {
        1 => shape.to_owned(),
        _ => format!("{count}×{shape}"),
    });
    written.collect::<Vec<_>>().join(", ")
}

/// `456.00MiB`, `1.5KiB`, `4B`, with XLA's rounding: whole units are divided away before the last one.
fn human(bytes: u64) -> String {
    const UNITS: &str = "KMGTPE";
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let (mut bytes, mut units) = (bytes, UNITS.chars());
    let mut unit = units.next();
    while bytes >= 1 << 20 {
        bytes /= 1024;
        unit = units.next();
    }
    let (unit, value) = (unit.unwrap_or('E'), bytes as f64 / 1024.0);
    if unit == 'K' { format!("{value:.1}KiB") } else { format!("{value:.2}{unit}iB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_xla_writes_them() {
        let cases = [
            (0, "0B"),
            (1023, "1023B"),
            (1536, "1.5KiB"),
            (1 << 20, "1.00MiB"),
            (478_150_676, "456.00MiB"),
            (240_526_557_204, "224.01GiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text);
        }
    }
}
