//! The algebraic simplifier: one small function per rule, tried in XLA's order.
//!
//! A rule looks at one instruction and returns what may stand for it; the driver replaces it and removes what only it needed. A rule
//! that changed the instruction in place, or something around it, returns the instruction itself. Each computation is visited again until
//! nothing changes. Only rules that XLA:CPU enables are here.
//!
//! Source: `AlgebraicSimplifier` (xla/hlo/transforms/simplifiers/algebraic_simplifier.cc).

mod add;
mod bits;
mod broadcast;
mod compare;
mod concat;
mod constant;
mod convolution;
mod divide;
pub(crate) mod dot;
mod dynamic;
mod gather;
mod layout;
mod multiply;
mod pad;
mod reduce;
mod reshape;
mod select;
mod sign;
mod slice;
mod transpose;
mod unary;
mod window;

use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, Opcode};

pub(crate) use gather::map;
pub(crate) use window::window_of;

use super::cx::{Cx, Id};
use super::visit::walk;

/// Visits per computation after which the simplifier gives up.
const MOST_VISITS: usize = 50;

/// Simplifies every computation until it is stable; returns whether anything changed.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    let mut changed = false;
    let mut versions = Versions(SideTable::new(0));
    let outside = cx.outside_fusions();
    let mut rest = outside.iter().copied().peekable();
    // Bodies of fusions come before those that call them: rules ask whether they are elementwise.
    for computation in cx.computation_order() {
        if rest.next_if_eq(&computation).is_some() {
            changed |= simplify_all(cx, computation, &versions);
        }
        versions.enter(cx, computation);
    }
    changed
}

/// Simplifies a computation until it is stable, unless it is known to be. Rules change no other one, but may look at what it calls.
fn simplify_all(cx: &mut Cx<'_>, computation: ComputationId, versions: &Versions) -> bool {
    let mut changed = false;
    for _ in 0..MOST_VISITS {
        let version = versions.of(cx, computation);
        if cx.simple[computation] == Some(version) {
            break;
        }
        if !visit(cx, computation) {
            let is_same = versions.of(cx, computation) == version;
            cx.simple.set(computation, is_same.then_some(version));
            break;
        }
        changed = true;
    }
    changed
}

/// The last version of each computation with all that it calls, of those that were asked about in their order.
struct Versions(SideTable<ComputationId, u64>);

impl Versions {
    fn of(&self, cx: &Cx<'_>, computation: ComputationId) -> u64 {
        let called = cx.calling(computation).flat_map(|id| cx.callees(id));
        called.map(|callee| cx.version_of(callee).max(self.0[callee])).fold(cx.version_of(computation), u64::max)
    }

    fn enter(&mut self, cx: &Cx<'_>, computation: ComputationId) {
        let version = self.of(cx, computation);
        self.0.set(computation, version);
    }
}

fn visit(cx: &mut Cx<'_>, computation: ComputationId) -> bool {
    walk(cx, computation, |cx, id| {
        let Some(replacement) = simplify(cx, id) else { return false };
        if replacement != id {
            cx.replace(id, replacement);
        }
        true
    })
}

/// What may stand for an instruction, by the first rule that fits.
fn simplify(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    use Opcode as O;
    match cx.opcode(id) {
        O::Abs => sign::abs(cx, id),
        O::Add => add::add(cx, id),
        O::And => bits::and(cx, id),
        O::Bitcast => layout::bitcast(cx, id),
        O::BitcastConvert => layout::bitcast_convert(cx, id),
        O::Broadcast => broadcast::broadcast(cx, id),
        O::Clamp => select::clamp(cx, id),
        O::Compare => compare::compare(cx, id),
        O::Complex => unary::complex(cx, id),
        O::Concatenate => concat::concatenate(cx, id),
        O::Constant => constant::constant(cx, id),
        O::Convert => unary::convert(cx, id),
        O::Convolution if !cx.calls_convolutions => convolution::convolution(cx, id),
        O::Copy => layout::copy(cx, id),
        O::Divide => divide::divide(cx, id),
        O::Dot => dot::dot(cx, id),
        O::DynamicSlice => dynamic::dynamic_slice(cx, id),
        O::DynamicUpdateSlice => dynamic::dynamic_update_slice(cx, id),
        O::Exponential => unary::exp(cx, id),
        O::Gather => gather::gather(cx, id),
        O::GetTupleElement => unary::get_tuple_element(cx, id),
        O::Imag => unary::part_of_complex(cx, id, 1),
        O::Iota => constant::iota(cx, id),
        O::Log => unary::log(cx, id),
        O::Map => gather::map(cx, id),
        O::Maximum => select::maximum(cx, id),
        O::Minimum => select::minimum(cx, id),
        O::Multiply => multiply::multiply(cx, id),
        O::Negate | O::Not => sign::twice(cx, id),
        O::OptBarrier => constant::opt_barrier(cx, id),
        O::Or => bits::or(cx, id),
        O::Pad => pad::pad(cx, id),
        O::Power => unary::power(cx, id),
        O::Real => unary::part_of_complex(cx, id, 0),
        O::Reduce => reduce::reduce(cx, id),
        O::ReduceWindow => window::reduce_window(cx, id),
        O::Remainder => divide::remainder(cx, id),
        O::Reshape => reshape::reshape(cx, id),
        O::Reverse => concat::reverse(cx, id),
        O::Rsqrt => unary::rsqrt(cx, id),
        O::Scatter => gather::scatter(cx, id),
        O::Select => select::select(cx, id),
        O::Slice => slice::slice(cx, id),
        O::Sort => gather::sort(cx, id),
        O::Sqrt => unary::sqrt(cx, id),
        O::Subtract => add::subtract(cx, id),
        O::Transpose => transpose::transpose(cx, id),
        _ => None,
    }
}
