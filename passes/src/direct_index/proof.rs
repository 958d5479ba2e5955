//! Whether an array can be read instead of an index, and what must hold for it.

use hlo_ir::shape::Dims;
use hlo_ir::{AttrKey, ElementType, InstructionId, Module, Opcode};
use hlo_memory::Target;

use super::Index;
use super::affine::{self, Affine};
use super::piecewise::{Image, Piecewise};
use super::provenance::{Origin, Tracer};
use super::sink::Sink;
use crate::range::{Range, Ranges, Region};
use crate::{Condition, Context, Grade, Reason};

/// Rank of a refusal for values alone; reasons of shape have lower ranks.
pub(super) const VALUES_ALONE: u8 = 9;

/// What came of looking at one array.
pub(super) enum Verdict {
    /// It can be read instead, for all data.
    Proven(Plan),
    /// It can be read instead if all indices are in bounds; otherwise this is why not.
    Promised(Plan, Reason),
    /// It cannot; the higher the rank, the closer it came.
    Refused(u8, Reason),
    /// It has nothing to do with the index.
    Unrelated,
}

/// How to read an array instead of an index.
pub(super) struct Plan {
    /// The array.
    pub(super) source: InstructionId,
    /// For each component of the index the column of the array that it is.
    pub(super) columns: Vec<usize>,
    /// Sizes of the row dimensions.
    pub(super) rows: Dims,
    /// The type the array must be converted to, if any.
    pub(super) convert: Option<ElementType>,
    /// Whether every index keeps its value; if not, some values outside of the bounds change to others outside.
    pub(super) keeps_values: bool,
    /// For each column the values that the old and the new index do not treat alike, and those that occur.
    columns_at_risk: Vec<Risk>,
    name: String,
}

/// One column of the array.
struct Risk {
    column: usize,
    /// Values of the column's type for which old and new index do different things.
    forbidden: Range,
    /// Those of them that the column may hold, as far as is known.
    possible: Range,
}

/// Looks at one array.
pub(super) fn assess(context: &Context<'_>, ranges: &mut Ranges<'_>, index: &Index, source: InstructionId) -> Verdict {
    let module = context.module;
    let Some(rows) = row_sizes(module, index) else { return Verdict::Unrelated };
    // XLA:CPU widens indices, except for a single row, which it turns into a slice update and whose bounds it checks in the type of the
    // index: dimension 129 would wrap around in s8. There is nothing to gain in a single row either.
    if rows.iter().all(|&rows| rows == 1) {
        return Verdict::Unrelated;
    }
    let count = index.sinks[0].bounds.len();
    let elements = |dims: &[i64]| dims.iter().try_fold(1_i64, |product, &dim| product.checked_mul(dim));
    let (Some(array), Some(row_count)) = (module.instruction(source).array(), elements(&rows)) else {
        return Verdict::Unrelated;
    };
    let Some(size) = elements(&array.dims).filter(|&size| size >= row_count && !array.is_dynamic()) else {
        return Verdict::Unrelated;
    };
    let name = &module.instruction(source).name;
    let refused = |rank, code, message: String| Verdict::Refused(rank, Reason { code, message });
    let Some(origins) = origins(module, index, source, &rows) else {
        return refused(
            1,
            "several-sources",
            format!("the index is not made of `{name}` alone, so it cannot be read instead"),
        );
    };
    if Some(size) != row_count.checked_mul(count as i64) {
        return refused(
            3,
            "column-subset",
            format!("`{name}` holds more than the indices, so they must be copied out of it"),
        );
    }
    let descending = array.layout.as_ref().is_none_or(hlo_ir::Layout::is_descending);
    let columns: Option<Vec<usize>> = origins.iter().map(|origin| column(origin, &rows, count)).collect();
    let Some(columns) = columns.filter(|_| descending) else {
        let message =
            format!("`{name}` does not hold the components of one index side by side, so they must be copied");
        return refused(2, "index-layout", message);
    };
    if (0..count).any(|column| !columns.contains(&column)) {
        return refused(
            4,
            "repeated-column",
            format!("the index uses a column of `{name}` twice, so it must be copied"),
        );
    }
    judge(context, ranges, index, Plan::new(context, index, source, columns, rows), &origins)
}

/// Sizes of the dimensions of an index that are not the components.
fn row_sizes(module: &Module, index: &Index) -> Option<Dims> {
    let dims = &module.instruction(index.id).array()?.dims;
    Some(dims.iter().enumerate().filter(|(dim, _)| *dim != index.vector_dim).map(|(_, &size)| size).collect())
}

/// Where each component of the index comes from.
fn origins(module: &Module, index: &Index, source: InstructionId, rows: &[i64]) -> Option<Vec<Origin>> {
    let dims = &module.instruction(index.id).array()?.dims;
    let mut tracer = Tracer::new(module, source, rows);
    let component = |component: usize| {
        let at = affine::of_component(component, index.vector_dim, dims)?;
        tracer.trace(index.id, &at, index.sinks.iter().map(|sink| sink.bounds[component].0).max()?)
    };
    (0..index.sinks[0].bounds.len()).map(component).collect()
}

/// The column `p` if the element of row `r` is element `(r, p)` of an array with `count` columns.
fn column(origin: &Origin, rows: &[i64], count: usize) -> Option<usize> {
    let rows_in_order: Vec<Affine> = rows.iter().enumerate().map(|(row, &size)| Affine::row(row, size)).collect();
    let start = affine::position(&rows_in_order, rows)?.times(count as i64)?;
    let column = usize::try_from(origin.at.offset()).ok().filter(|&column| column < count)?;
    (origin.at == start.plus(&Affine::constant(column as i64))?).then_some(column)
}

/// Decides by the values that each column can hold.
fn judge(context: &Context<'_>, ranges: &mut Ranges<'_>, index: &Index, mut plan: Plan, origins: &[Origin]) -> Verdict {
    let Some(new) = plan.new_value(context.module) else { return Verdict::Unrelated };
    let mut worst = Doubt::None;
    for (component, origin) in origins.iter().enumerate() {
        let Some(region) = region(context.module, &plan, origin) else { return Verdict::Unrelated };
        let occurring = ranges.of_region(plan.source, region);
        let (forbidden, changed) = differences(&index.sinks, component, &origin.function, &new);
        let possible = forbidden.intersect(&occurring);
        let size = index.sinks.iter().map(|sink| sink.bounds[component].0).max().unwrap_or(0);
        worst = worst.max(doubt(&possible, size, origin.as_given));
        plan.keeps_values &= changed.is_disjoint(&occurring);
        plan.columns_at_risk.push(Risk { column: plan.columns[component], forbidden, possible });
    }
    plan.columns_at_risk.sort_by_key(|risk| risk.column);
    match worst {
        Doubt::None => Verdict::Proven(plan),
        Doubt::Wrapped | Doubt::Clamped => {
            let reason = worst.reason(&plan.doubts());
            Verdict::Promised(plan, reason)
        }
        Doubt::Computed => Verdict::Refused(VALUES_ALONE - 1, worst.reason(&plan.doubts())),
    }
}

/// The part of the array that holds one component: a box around it.
fn region(module: &Module, plan: &Plan, origin: &Origin) -> Option<Region> {
    let dims = &module.instruction(plan.source).array()?.dims;
    let Some(at) = affine::coordinates(&origin.at, dims, &plan.rows) else { return Some(Region::full(dims)) };
    let bounds = at.iter().map(|at| at.bounds(&plan.rows).map(|(low, high)| (low, high + 1)));
    Some(Region::from_bounds(bounds.collect::<Option<Vec<_>>>()?))
}

/// What the program does to values for which the array and the index differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    /// There are none.
    None,
    /// Negative indices count from the end.
    Wrapped,
    /// Indices out of bounds are moved inside.
    Clamped,
    /// Anything, also to indices in bounds.
    Computed,
}

/// Why a column with these `possible` values cannot be read instead of an index into a dimension of `size` elements. A promise about
/// indices covers the column only if its values are the indices `as_given`.
fn doubt(possible: &Range, size: i128, as_given: bool) -> Doubt {
    if possible.is_empty() {
        Doubt::None
    } else if !as_given || !possible.is_disjoint(&Range::new(0, size - 1)) {
        Doubt::Computed
    } else if possible.is_subset(&Range::new(-size, -1)) {
        Doubt::Wrapped
    } else {
        Doubt::Clamped
    }
}

impl Doubt {
    /// What to tell the user about the values in `where_they_are`.
    fn reason(self, where_they_are: &str) -> Reason {
        let (code, what) = match self {
            Self::Computed => {
                return Reason {
                    code: "computed",
                    message: format!("{where_they_are}, which the program changes before it uses them as indices"),
                };
            }
            Self::Clamped => ("clamped", "moves into the bounds"),
            Self::None | Self::Wrapped => ("range-unknown", "wraps around"),
        };
        let message = format!(
            "{where_they_are}, which the program {what}; an unsigned index type, a clip, a mask or a remainder may prove that there \
             are none, --assume=indices-in-bounds promises it"
        );
        Reason { code, message }
    }
}

/// Values for which the old and the new index do different things in some sink, and those for which they merely differ.
fn differences(sinks: &[Sink], component: usize, old: &Piecewise, new: &Piecewise) -> (Range, Range) {
    let (mut forbidden, mut changed) = (Range::empty(), Range::empty());
    for (low, high, old, new) in old.zip(new) {
        if old != new || old == Image::Unknown {
            changed = changed.union(&Range::new(low, high));
        }
        for sink in sinks {
            forbidden = forbidden.union(&sink.difference(component, (low, high), old, new));
        }
    }
    (forbidden, changed)
}

impl Plan {
    fn new(context: &Context<'_>, index: &Index, source: InstructionId, columns: Vec<usize>, rows: Dims) -> Self {
        let module = context.module;
        let (from, to) = (super::element_type(module, source), super::element_type(module, index.id));
        // XLA:TPU computes addresses in the type of the indices.
        let convert = to.filter(|_| from != to && context.options.target != Target::Cpu);
        let name = module.instruction(source).name.to_string();
        Self { source, columns, rows, convert, keeps_values: true, columns_at_risk: Vec::new(), name }
    }
    /// What becomes of a value of the array before the sink sees it.
    fn new_value(&self, module: &Module) -> Option<Piecewise> {
        let from = super::element_type(module, self.source)?;
        let value = Piecewise::identity(from)?;
        Some(self.convert.map_or(value.clone(), |to| value.unary(Opcode::Convert, from, to)))
    }
    /// Whether the columns are in another order.
    pub(super) fn is_permuted(&self) -> bool {
        self.columns.iter().enumerate().any(|(component, &column)| component != column)
    }

    /// Whether a sink of `index` reads the array like the index it read before: as far as XLA asks before it joins two scatters.
    pub(super) fn is_alike(&self, module: &Module, index: &Index) -> bool {
        let converted = self.convert.or_else(|| super::element_type(module, self.source));
        let sorted = |sink: &super::Sink| module.instruction(sink.id).flag(&AttrKey::IndicesAreSorted);
        converted == super::element_type(module, index.id)
            && !self.is_permuted()
            && index.vector_dim == self.rows.len()
            && (self.keeps_values || !index.sinks.iter().any(sorted))
    }
    /// The rewrite in a few words.
    pub(super) fn note(&self, module: &Module) -> String {
        let name = &module.instruction(self.source).name;
        let columns: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
        let order = if self.is_permuted() { format!(", columns {}", columns.join(", ")) } else { String::new() };
        let convert = self.convert.map_or_else(String::new, |to| format!(", converted to {}", to.name()));
        format!("reads `{name}`{order}{convert}")
    }
    /// What must hold, and why it does.
    pub(super) fn conditions(&self, module: &Module, grade: Grade) -> Vec<Condition> {
        let rows = Condition {
            text: format!("row r of the indices is row r of `{}`, element by element", self.name),
            discharged_by: "structure",
        };
        let shape = Condition {
            text: format!("`{}` holds its rows one after the other, so reading it needs no copy", self.name),
            discharged_by: "shape",
        };
        let values = self.columns_at_risk.iter().map(|risk| {
            let column = self.column_name(risk.column);
            let (text, by_assumption) = if risk.forbidden.is_empty() {
                let kind = super::element_type(module, self.source).map_or("integer", ElementType::name);
                (format!("every {kind} in {column} means the same index before and after"), false)
            } else {
                (format!("no value of {column} lies in {}", risk.forbidden), !risk.possible.is_empty())
            };
            let discharged_by = if by_assumption && grade == Grade::Assume { "assumption" } else { "range" };
            Condition { text, discharged_by }
        });
        [rows, shape].into_iter().chain(values).collect()
    }
    fn doubts(&self) -> String {
        let doubtful: Vec<&Risk> = self.columns_at_risk.iter().filter(|risk| !risk.possible.is_empty()).collect();
        let Some(first) = doubtful.first() else { return String::new() };
        let columns: Vec<String> = doubtful.iter().map(|risk| risk.column.to_string()).collect();
        match &columns[..] {
            [_] => format!("{} may hold values in {}", self.column_name(first.column), first.possible),
            [others @ .., last] => format!(
                "columns {} and {last} of `{}` may hold values such as {}",
                others.join(", "),
                self.name,
                first.possible
            ),
            [] => String::new(),
        }
    }
    fn column_name(&self, column: usize) -> String {
        if self.columns.len() == 1 { format!("`{}`", self.name) } else { format!("column {column} of `{}`", self.name) }
    }
}
