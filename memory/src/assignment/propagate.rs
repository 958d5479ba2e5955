//! How values spread: what each instruction defines and what it forwards, until nothing changes.
//!
//! Source: `HloDataflowAnalysis::Propagate`, `UpdateInstructionValueSet` and `Phi` (xla/hlo/analysis/hlo_dataflow_analysis.cc).

use hlo_ir::arena::Id;
use hlo_ir::{AttrKey, ComputationId, Instruction, InstructionId, Module, Opcode, Shape};
use smallvec::SmallVec;

use super::classes::{Classes, is_control_flow, sequential_callees};
use super::order::{Step, Users, walk};
use super::phis::Phi;
use super::shape_positions::{ShapePosition, ShapePositions};
use super::values::ValueId;
use super::worklist::Worklist;

/// Half of an asynchronous operation that TPU and GPU texts spell in one word, such as `slice-start`: the start's result holds the operands,
/// then the result to come, then flags; the end hands the result on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Start,
    Done,
}

impl Half {
    /// Which half an instruction is, if it is one.
    pub(super) fn of(inst: &Instruction) -> Option<Self> {
        match inst.opcode {
            Opcode::AllGatherStart | Opcode::CollectivePermuteStart => Some(Self::Start),
            Opcode::AllGatherDone | Opcode::CollectivePermuteDone => Some(Self::Done),
            Opcode::Unknown if inst.opcode_name().ends_with("-start") => {
                let holds_operands = |shape: &Shape| shape.as_tuple()?.first().map(|first| first.as_tuple().is_some());
                holds_operands(&inst.shape).unwrap_or(false).then_some(Self::Start)
            }
            Opcode::Unknown if inst.opcode_name().ends_with("-done") => Some(Self::Done),
            _ => None,
        }
    }
}

/// Which places of its result an instruction defines itself; the others it forwards.
pub(super) fn defines(inst: &Instruction, embedded: bool, shape: &Shape, index: &[i64]) -> bool {
    use Opcode as O;
    match inst.opcode {
        O::Parameter => embedded,
        O::Bitcast
        | O::OptBarrier
        | O::Domain
        | O::AddDependency
        | O::AllReduceDone
        | O::GetTupleElement
        | O::Call
        | O::While
        | O::Conditional
        | O::CopyDone => false,
        O::Tuple | O::Copy => index.is_empty(),
        O::AsyncStart => matches!(shape, Shape::Tuple(_)) || index.first().is_some_and(|&k| k >= 2),
        O::AsyncUpdate | O::AsyncDone => matches!(shape, Shape::Tuple(_)),
        O::CopyStart => !matches!(index, [1, ..]),
        _ if Half::of(inst) == Some(Half::Start) => !matches!(index, [0, ..]) || matches!(shape, Shape::Tuple(_)),
        _ if Half::of(inst) == Some(Half::Done) => matches!(shape, Shape::Tuple(_)),
        O::Send | O::RecvDone => !matches!(index, [0, ..]),
        _ => true,
    }
}

/// The analysis under way.
pub(crate) struct Propagation<'a, 'm> {
    module: &'m Module,
    classes: &'a Classes,
    users: &'a Users,
    places: &'a ShapePositions<'m>,
    at: Vec<ValueId>,
    phis: Vec<Phi>,
    work: Worklist,
    /// Instructions by priority, and the priority of each.
    sequence: Vec<InstructionId>,
    priority: Vec<u32>,
    parameters: Vec<Vec<InstructionId>>,
}

impl<'a, 'm> Propagation<'a, 'm> {
    /// The values that instructions define, and all instructions still to be worked on.
    pub(crate) fn new(
        module: &'m Module,
        classes: &'a Classes,
        users: &'a Users,
        places: &'a ShapePositions<'m>,
    ) -> Self {
        let (sequence, priority) = priorities(module, places);
        let mut flow = Self {
            module,
            classes,
            users,
            places,
            at: vec![ValueId::NONE; places.len()],
            phis: Vec::new(),
            work: Worklist::full(sequence.len()),
            sequence,
            priority,
            parameters: vec![Vec::new(); module.computation_count()],
        };
        for &computation in module.computation_ids() {
            if classes.caller(computation).is_some() {
                flow.parameters[computation.index()] = module.parameters(computation);
            }
        }
        for &id in places.order() {
            flow.define(id);
        }
        flow
    }
    fn define(&mut self, id: InstructionId) {
        let inst = self.module.instruction(id);
        let embedded = self.classes.caller(inst.parent).is_none();
        for place in self.places.of_instruction(id) {
            let shape = self.places.shape(place);
            if defines(inst, embedded, shape, &self.places.tuple_index(place)) {
                self.at[place.index()] = ValueId(place.0);
            }
        }
    }
    /// Works until nothing changes; returns the value at each place, and the phis.
    pub(crate) fn run(mut self) -> (Vec<ValueId>, Vec<Phi>) {
        while let Some(next) = self.work.pop() {
            let id = self.sequence[next as usize];
            if self.update(id) {
                self.push_users(id);
                self.push_callers(id);
            }
        }
        (self.at, self.phis)
    }
    fn push(&mut self, id: InstructionId) {
        let priority = self.priority[id.index()];
        if priority != u32::MAX {
            self.work.push(priority);
        }
    }
    fn push_users(&mut self, id: InstructionId) {
        let users = self.users;
        for user in users.get(id) {
            self.push(user);
            let inst = self.module.instruction(user);
            if !is_control_flow(inst.opcode) {
                continue;
            }
            for (branch, callee) in sequential_callees(inst).into_iter().enumerate() {
                let operands: SmallVec<[usize; 4]> = match inst.opcode {
                    Opcode::Conditional if inst.operands.get(branch + 1) == Some(&id) => SmallVec::from_slice(&[0]),
                    Opcode::Conditional => SmallVec::new(),
                    Opcode::AsyncUpdate | Opcode::AsyncDone => (0..self.parameters[callee.index()].len()).collect(),
                    _ => (0..inst.operands.len()).filter(|&k| inst.operands[k] == id).collect(),
                };
                for operand in operands {
                    if let Some(&parameter) = self.parameters[callee.index()].get(operand) {
                        self.push(parameter);
                    }
                }
            }
        }
    }
    fn push_callers(&mut self, id: InstructionId) {
        let parent = self.module.instruction(id).parent;
        if self.module.computation(parent).root != id {
            return;
        }
        let Some(caller) = self.classes.caller(parent) else { return };
        self.push(caller);
        let inst = self.module.instruction(caller);
        if inst.opcode == Opcode::While {
            for callee in sequential_callees(inst) {
                if let Some(&parameter) = self.parameters[callee.index()].first() {
                    self.push(parameter);
                }
            }
        }
    }

    /// Recomputes what an instruction forwards; whether anything changed.
    fn update(&mut self, id: InstructionId) -> bool {
        use Opcode as O;
        let inst = self.module.instruction(id);
        let Some(root) = self.places.root(id) else { return false };
        let operand = inst.operands.first().and_then(|&operand| self.places.root(operand));
        let operand_child = |k| operand.and_then(|place| self.places.child(place, k));
        match inst.opcode {
            O::Parameter => self.update_parameter(id, root),
            O::Bitcast | O::OptBarrier | O::Domain | O::AddDependency | O::AllReduceDone => {
                self.forward(operand, Some(root))
            }
            O::GetTupleElement => {
                let k = inst.int(&AttrKey::Index).and_then(|k| usize::try_from(k).ok());
                self.forward(k.and_then(operand_child), Some(root))
            }
            O::Tuple => self.forward_operands(inst, root),
            O::Copy => self.forward_below(operand, root),
            O::Call => self.forward(self.callee_root(inst, 0), Some(root)),
            O::While => {
                let body = inst.computation(&AttrKey::Body).and_then(|body| self.root_of(body));
                self.merge(root, &[body, operand])
            }
            O::Conditional => {
                let branches: SmallVec<[_; 2]> =
                    inst.called_computations().map(|branch| self.root_of(branch)).collect();
                self.merge(root, &branches)
            }
            O::AsyncStart => {
                let into = self.places.child(root, 0).unwrap_or(root);
                let inputs = self.forward_operands(inst, into);
                self.forward_arrays(self.callee_root(inst, 0), self.places.child(root, 1)) | inputs
            }
            O::AsyncUpdate => self.forward_arrays(operand, Some(root)),
            O::AsyncDone => self.forward_arrays(operand_child(1), Some(root)),
            O::CopyStart => self.forward(operand, self.places.child(root, 1)),
            O::CopyDone => self.forward(operand_child(0), Some(root)),
            O::Send => self.forward(operand, self.places.child(root, 0)),
            O::RecvDone => self.forward(operand_child(0), self.places.child(root, 0)),
            _ => self.update_half(inst, root, operand_child(1)),
        }
    }
    /// Half of an asynchronous operation that the text spells in one word.
    fn update_half(&mut self, inst: &Instruction, root: ShapePosition, result: Option<ShapePosition>) -> bool {
        let into = self.places.child(root, 0);
        match (Half::of(inst), into.map(|place| self.places.shape(place)), &inst.operands[..]) {
            (Some(Half::Start), Some(Shape::Tuple(_)), _) => self.forward_operands(inst, into.unwrap_or(root)),
            (Some(Half::Start), Some(_), &[operand, ..]) => self.forward(self.places.root(operand), into),
            (Some(Half::Done), ..) => self.forward_arrays(result, Some(root)),
            _ => false,
        }
    }
    fn root_of(&self, computation: ComputationId) -> Option<ShapePosition> {
        self.places.root(self.module.computation(computation).root)
    }
    fn callee_root(&self, inst: &Instruction, k: usize) -> Option<ShapePosition> {
        self.root_of(inst.called_computations().nth(k)?)
    }
    fn set(&mut self, to: ShapePosition, value: ValueId) -> bool {
        value != ValueId::NONE && std::mem::replace(&mut self.at[to.index()], value) != value
    }
    /// Forwards the values of a whole tree, index by index.
    fn forward(&mut self, from: Option<ShapePosition>, to: Option<ShapePosition>) -> bool {
        let (Some(from), Some(to)) = (from, to) else { return false };
        let count = self.places.tree_len(from).min(self.places.tree_len(to));
        (0..count).fold(false, |changed, k| self.set(to.plus(k), self.at[from.plus(k).index()]) | changed)
    }
    fn forward_below(&mut self, from: Option<ShapePosition>, to: ShapePosition) -> bool {
        let Some(from) = from else { return false };
        let count = self.places.tree_len(from).min(self.places.tree_len(to));
        (1..count).fold(false, |changed, k| self.set(to.plus(k), self.at[from.plus(k).index()]) | changed)
    }
    /// Like [`Self::forward`], but tuple tables are not forwarded: the receiver defines its own.
    fn forward_arrays(&mut self, from: Option<ShapePosition>, to: Option<ShapePosition>) -> bool {
        let (Some(from), Some(to)) = (from, to) else { return false };
        let count = self.places.tree_len(from).min(self.places.tree_len(to));
        let arrays = (0..count).filter(|&k| !matches!(self.places.shape(to.plus(k)), Shape::Tuple(_)));
        let arrays: SmallVec<[u32; 8]> = arrays.collect();
        arrays.into_iter().fold(false, |changed, k| self.set(to.plus(k), self.at[from.plus(k).index()]) | changed)
    }
    /// Forwards operand `k` to tuple element `k` below `to`.
    fn forward_operands(&mut self, inst: &Instruction, to: ShapePosition) -> bool {
        let mut changed = false;
        for (k, &operand) in inst.operands.iter().enumerate() {
            changed |= self.forward(self.places.root(operand), self.places.child(to, k));
        }
        changed
    }
    /// A parameter of a computation that runs in sequence takes what its caller passes.
    fn update_parameter(&mut self, id: InstructionId, root: ShapePosition) -> bool {
        let inst = self.module.instruction(id);
        let Some(caller) = self.classes.caller(inst.parent) else { return false };
        let call = self.module.instruction(caller);
        let number = inst.parameter_number().and_then(|number| usize::try_from(number).ok()).unwrap_or(usize::MAX);
        let operand = |k: usize| call.operands.get(k).and_then(|&operand| self.places.root(operand));
        match call.opcode {
            Opcode::While => {
                let back = call.computation(&AttrKey::Body).map(|body| self.module.computation(body).root);
                let back = back.filter(|&back| back != id).and_then(|back| self.places.root(back));
                self.merge(root, &[operand(0), back])
            }
            Opcode::Conditional => {
                let branch = call.called_computations().position(|branch| branch == inst.parent);
                self.merge(root, &[branch.and_then(|branch| operand(branch + 1))])
            }
            Opcode::AsyncUpdate | Opcode::AsyncDone => {
                let inputs = operand(0).and_then(|start| self.places.child(start, 0));
                self.forward(inputs.and_then(|inputs| self.places.child(inputs, number)), Some(root))
            }
            _ => self.forward(operand(number), Some(root)),
        }
    }
    /// Merges the trees of `inputs` into the tree at `root`, creating phis where more than one value arrives.
    fn merge(&mut self, root: ShapePosition, inputs: &[Option<ShapePosition>]) -> bool {
        let count = self.places.tree_len(root);
        let mut changed = false;
        for k in 0..count {
            let arriving = inputs.iter().flatten().filter(|from| from.index() + (k as usize) < self.at.len());
            let arriving = arriving.map(|from| self.at[from.plus(k).index()]).filter(|&value| value != ValueId::NONE);
            let arriving: SmallVec<[ValueId; 3]> = arriving.collect();
            changed |= match arriving[..] {
                [] => false,
                [only] => self.set(root.plus(k), only),
                _ => self.phi(root.plus(k), arriving),
            };
        }
        changed
    }
    /// Makes or updates the phi at a place.
    fn phi(&mut self, place: ShapePosition, inputs: SmallVec<[ValueId; 3]>) -> bool {
        let here = self.at[place.index()].index().checked_sub(self.places.len());
        if let Some(phi) = here.and_then(|phi| self.phis.get_mut(phi)).filter(|phi| phi.place == place) {
            let same =
                phi.inputs.iter().all(|old| inputs.contains(old)) && inputs.iter().all(|new| phi.inputs.contains(new));
            if !same {
                phi.inputs = inputs;
            }
            return !same;
        }
        self.at[place.index()] = ValueId((self.places.len() + self.phis.len()) as u32);
        self.phis.push(Phi { place, inputs });
        true
    }
}

/// The order in which instructions are worked on: first what no sequential walk reaches, then callees before callers.
fn priorities(module: &Module, places: &ShapePositions<'_>) -> (Vec<InstructionId>, Vec<u32>) {
    let mut reached = Vec::with_capacity(places.order().len());
    walk(
        module,
        |computation| places.post_order(computation),
        |step| {
            if let Step::Visit(id) = step {
                reached.push(id);
            }
        },
    );
    let mut priority = vec![u32::MAX; module.instruction_count()];
    for &id in &reached {
        priority[id.index()] = 0;
    }
    let embedded = places.order().iter().copied().filter(|id| priority[id.index()] == u32::MAX);
    let sequence: Vec<InstructionId> = embedded.chain(reached.iter().copied()).collect();
    for (at, &id) in sequence.iter().enumerate() {
        priority[id.index()] = at as u32;
    }
    (sequence, priority)
}
