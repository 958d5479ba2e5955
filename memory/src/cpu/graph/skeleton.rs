//! The part of the graph that decides who shares memory with whom, as a module: for the analyses that copy insertion asks.
//!
//! Most instructions of a large graph stand in bodies of fusions and have no memory. Of such a body only three things count: on which paths its
//! parameters reach the root, what it updates in place, and whom it calls. Where it updates nothing in place, the paths are read off the graph, and
//! of the body the module keeps the calls alone.

use hlo_ir::arena::{Id as _, SideTable};
use hlo_ir::module::{Operands, Payload, StackTables};
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode};
use smol_str::SmolStr;

use super::convert::Snapshot;
use super::export::{Export, Source};
use super::{Graph, Order};
use crate::assignment::elementwise::{BodyPaths, KnownPaths, Paths};
use crate::opcode_set::OpcodeSet;
use crate::parallel::{drop_in_background, join};

/// A snapshot, and what it leaves out.
pub(crate) struct Skeleton {
    /// The module and the correspondence of its instructions.
    pub(crate) snapshot: Snapshot,
    /// Paths through the bodies of which the module keeps only the calls.
    pub(crate) paths: KnownPaths,
    bodies: Bodies,
    /// The computations, in the order of the module.
    order: Order<ComputationId>,
    /// The version of the graph.
    version: u64,
}

impl Skeleton {
    /// Follows the graph after nothing but operands and control predecessors of these instructions, and roots, changed. Where more did, the
    /// skeleton stays that of an earlier graph.
    pub(crate) fn follow(&mut self, graph: &Graph, changed: &[InstructionId]) {
        let Snapshot { module, to_module, .. } = &mut self.snapshot;
        let mapped = |id: &InstructionId| to_module[id.index()].expect("what is left was there before");
        let known = |id: &InstructionId| to_module[id.index()];
        let as_before = |&(id, place): &(InstructionId, InstructionId)| {
            // A fusion that reads the same twice has lost a parameter.
            graph.operands(id).len() == module.instruction(place).operands.len()
        };
        let places: Vec<_> = changed.iter().filter_map(|id| Some((*id, known(id)?))).collect();
        if !places.iter().all(as_before) {
            return;
        }
        let mut parts = std::mem::take(module).into_parts();
        for (id, place) in places {
            let inst = &mut parts.instructions[place];
            inst.operands = graph.operands(id).iter().map(mapped).collect();
            let before: Vec<InstructionId> = graph.control_predecessors(id).iter().map(mapped).collect();
            inst.attributes.retain(|attribute| attribute.key != AttrKey::ControlPredecessors);
            if !before.is_empty() {
                inst.set_attribute(AttrKey::ControlPredecessors, AttrValue::Instructions(before.into()));
            }
        }
        for (number, &id) in self.order.iter().enumerate().filter(|&(_, &id)| !self.bodies.plain[id]) {
            parts.computations[ComputationId::new(number)].root = mapped(&graph.root(id));
        }
        *module = Module::from_parts(parts);
        self.version = graph.version();
    }
}

/// Which computations are bodies of fusions.
struct Bodies {
    /// Those that can be left out.
    plain: SideTable<ComputationId, bool>,
    /// All of them.
    fused: SideTable<ComputationId, bool>,
}

/// The instructions of an earlier skeleton, to be used again.
#[derive(Default)]
struct Old {
    instructions: Vec<Instruction>,
    /// By instruction of the graph.
    map: Vec<Option<InstructionId>>,
}

impl Old {
    /// What an earlier skeleton says of an instruction: operands and control predecessors are left out, and callees are those of its module.
    fn get(&self, id: InstructionId) -> Option<Instruction> {
        let place = (*self.map.get(id.index())?)?;
        let inst = &self.instructions[place.index()];
        let lasts = |attribute: &&Attribute| attribute.key != AttrKey::ControlPredecessors;
        Some(Instruction {
            attributes: inst.attributes.iter().filter(lasts).cloned().collect(),
            name: SmolStr::default(),
            shape: inst.shape.clone(),
            operands: Operands::new(),
            payload: inst.payload.clone(),
            ..*inst
        })
    }
}

/// Opcodes with which a body is kept as it is: those that work in place, that are elementwise for some operands only, or that hold a body of
/// their own.
const KEPT: OpcodeSet = OpcodeSet::of(&[
    Opcode::AllReduceStart,
    Opcode::AsyncDone,
    Opcode::AsyncStart,
    Opcode::AsyncUpdate,
    Opcode::BitcastConvert,
    Opcode::Call,
    Opcode::CollectivePermute,
    Opcode::CollectivePermuteStart,
    Opcode::Conditional,
    Opcode::CustomCall,
    Opcode::DynamicUpdateSlice,
    Opcode::Fusion,
    Opcode::Map,
    Opcode::RaggedAllToAll,
    Opcode::Rng,
    Opcode::Scatter,
    Opcode::SetDimensionSize,
    Opcode::Unknown,
    Opcode::While,
]);

impl Snapshot {
    fn into_old(self) -> Old {
        Old { instructions: self.module.into_parts().instructions.into_items(), map: self.to_module }
    }
}

impl Graph {
    /// The unscheduled module together with the correspondence of its instructions: without names, literals, and the attributes and bodies that
    /// an analysis of shared memory does not ask for. `earlier` is a skeleton of the same graph, since when instructions outside fusions came and
    /// went and got other operands, but did not change otherwise.
    pub(crate) fn skeleton(&self, earlier: Option<Skeleton>) -> Skeleton {
        let earlier = match earlier {
            Some(earlier) if earlier.version == self.version => return earlier,
            earlier => earlier,
        };
        let order = self.computation_order();
        let (bodies, known, old) = match earlier {
            Some(earlier) if *earlier.order == *order => {
                (earlier.bodies, Some(earlier.paths), earlier.snapshot.into_old())
            }
            _ => (self.bodies_of_fusions(&order), None, Old::default()),
        };
        let Bodies { plain, fused } = &bodies;
        let is_known = known.is_some();
        let count = |&id: &ComputationId| if plain[id] { self.bodies[id].calling.len() } else { self.len(id) };
        let mut export = Export::new(self, &order, order.iter().map(count).sum());
        let fill = || {
            for &id in order.iter() {
                if plain[id] {
                    export.calls(self.calling(id));
                } else {
                    export.body(id, &self.post_order(id), SmolStr::default(), Vec::new());
                }
            }
        };
        let paths = || known.unwrap_or_else(|| self.paths_through_all(&order, plain));
        let (paths, ()) = join(self.is_large() && !is_known, paths, fill);
        let known = |id: InstructionId| if fused[self.parent(id)] { None } else { old.get(id) };
        let source = |id: InstructionId| match known(id) {
            Some(inst) => Source { inst, names_ours: false, alone: false },
            None => Source::ours(for_aliases(self.inst(id))),
        };
        let instructions = export.make(export.room(), source);
        drop_in_background(self.is_large(), old);
        let snapshot = export.finish(self.header(false), StackTables::default(), instructions);
        Skeleton { snapshot, paths, bodies, order, version: self.version }
    }

    fn bodies_of_fusions(&self, order: &[ComputationId]) -> Bodies {
        let (mut plain, mut fused) = (SideTable::new(false), SideTable::new(false));
        let mut kept = SideTable::new(false);
        for &computation in order {
            for id in self.calling(computation) {
                // What an output fusion adds to is read off its body.
                let omits = self.opcode(id) == Opcode::Fusion && self.inst(id).word(&AttrKey::Kind) != Some("kOutput");
                for callee in self.callees(id) {
                    if self.opcode(id) == Opcode::Fusion {
                        fused.set(callee, true);
                    }
                    if omits && !self.bodies[callee].seen.meets(KEPT) {
                        plain.set(callee, true);
                    } else {
                        kept.set(callee, true);
                    }
                }
            }
        }
        order.iter().filter(|&&id| kept[id]).for_each(|&id| plain.set(id, false));
        Bodies { plain, fused }
    }

    /// The paths through the `plain` ones of these computations, by their number.
    fn paths_through_all(&self, order: &[ComputationId], plain: &SideTable<ComputationId, bool>) -> KnownPaths {
        let (mut paths, mut state) = (KnownPaths::new(None), Vec::new());
        for (number, &id) in order.iter().enumerate().filter(|&(_, &id)| plain[id]) {
            paths.set(ComputationId::new(number), Some(self.paths_through(id, &mut state)));
        }
        paths
    }

    /// The paths from the parameters of a body without any of the [`KEPT`] opcodes.
    fn paths_through(&self, body: ComputationId, state: &mut Vec<Paths>) -> BodyPaths {
        state.clear();
        state.resize(self.slots(body), Paths::ALL);
        for id in self.post_order(body).into_iter().rev() {
            let opcode = self.opcode(id);
            let after = state[self.slot(id)].through(opcode.is_elementwise(), opcode == Opcode::Tuple);
            for &operand in self.operands(id) {
                state[self.slot(operand)].meet(after);
            }
        }
        self.bodies[body].parameters.iter().map(|&parameter| state[self.slot(parameter)]).collect()
    }
}

/// A copy of an instruction with what decides whose memory it uses: shape, operands, callees, and what it says about places.
pub(super) fn for_aliases(inst: &Instruction) -> Instruction {
    let decides = |attribute: &&Attribute| {
        matches!(attribute.value, AttrValue::Computation(_) | AttrValue::Computations(_))
            || matches!(
                attribute.key,
                AttrKey::Index
                    | AttrKey::Dimensions
                    | AttrKey::Kind
                    | AttrKey::BackendConfig
                    | AttrKey::OutputToOperandAliasing
            )
    };
    let payload = match &inst.payload {
        Payload::Literal(_) => Payload::None,
        payload => payload.clone(),
    };
    Instruction {
        attributes: inst.attributes.iter().filter(decides).cloned().collect(),
        name: SmolStr::default(),
        shape: inst.shape.clone(),
        operands: Operands::new(),
        payload,
        ..*inst
    }
}
