//! What the cost model asks of each instruction again and again: found out once for all kernels of a computation.

// Tests: `memory/tests/devices.rs`.

use hlo_ir::arena::SideTable;
use hlo_ir::{InstructionId, Opcode};

use super::super::super::graph::Graph;
use super::super::super::traffic::bytes;
use super::super::super::traits;
use super::{cycles, places, reduction};

/// An instruction as the cost model sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fact {
    /// Operations for all elements of its result.
    pub(super) operations: f64,
    /// Bytes of its result.
    pub(super) bytes: f64,
    /// Bytes of one element of it.
    pub(super) element: f64,
    /// Elements of its result, one at least.
    pub(super) elements: f64,
    /// Whether its elements are computed from those of its operands at the same places.
    pub(super) keeps_places: bool,
    /// Whether it reduces more than a few elements each time.
    pub(super) is_long: bool,
    /// Whether it reads neighbours from places far from each other that do not hold the same anyway.
    pub(super) is_scattered: bool,
}

/// The facts of all instructions of a computation.
pub(super) type Facts = SideTable<InstructionId, Fact>;

pub(super) fn of(graph: &Graph, order: &[InstructionId]) -> Facts {
    let mut facts = SideTable::new(Fact::default());
    for &id in order {
        facts.set(id, fact(graph, id));
    }
    facts
}

fn fact(graph: &Graph, id: InstructionId) -> Fact {
    Fact {
        operations: cycles::operations(graph, id),
        bytes: bytes(graph, id) as f64,
        element: f64::from(traits::element_type(graph, id).map_or(4, |kind| kind.storage_bits().div_ceil(8))),
        elements: traits::elements(graph, id).max(1) as f64,
        keeps_places: traits::is_elementwise_alone(graph, id) || is_same_array(graph, id),
        is_long: reduction::is_long(graph, id),
        is_scattered: places::moves_rows(graph, id) && !places::is_repeated(graph, id),
    }
}

/// A bitcast between arrays of the same dimensions.
fn is_same_array(graph: &Graph, id: InstructionId) -> bool {
    let dims = |id| graph.array(id).map(|array| &array.dims);
    graph.opcode(id) == Opcode::Bitcast && dims(id) == dims(graph.operand(id, 0))
}
