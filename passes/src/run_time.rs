//! How long a run of a module takes: a roofline over the kernels that the model of its compiler makes.
//!
//! A kernel takes as long as its memory traffic or its operations, whichever is longer, and a start. Arrays that fit a cache are taken to be found there.
//! Of what is sliced or gathered a kernel reads the slice, of what is updated in place it writes the update. Loops take their iterations, branches the
//! longest of them. Rates are those of the machine's description. Which loop runs how often nobody may know: such a loop counts as one iteration, in
//! the original as in the rewritten module, and the answer says so.

use hlo_ir::graph::Users;
use hlo_ir::{ArrayShape, AttrKey, ComputationId, ElementType, InstructionId, Module, Opcode, Shape};
use hlo_memory::{EstimateError, Target, size};
use indexmap::IndexMap;

use crate::Machine;
use crate::cost::{RANDOM, multiplications};
use crate::flow::is_transcendental;
use crate::loop_residuals::bound;

/// The time of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunTime {
    /// Seconds on the machine that was described.
    pub seconds: f64,
    /// Whether the iterations of all loops are known.
    pub is_certain: bool,
}

/// Estimates the time of a run of `module`.
pub fn run_time(module: &Module, target: Target, machine: &Machine) -> Result<RunTime, EstimateError> {
    if module.is_scheduled() {
        return Ok(of_kernels(module, machine, |id| trips(module, id)));
    }
    let compiled = hlo_memory::compiled(module, target)?;
    Ok(of_kernels(&compiled.module, machine, |id| compiled.origin(id).and_then(|id| trips(module, id))))
}

/// Iterations of a loop that counts to a number.
fn trips(module: &Module, id: InstructionId) -> Option<i64> {
    let inst = module.instruction(id);
    if inst.opcode != Opcode::While {
        return None;
    }
    bound(module, inst.computation(&AttrKey::Condition)?).map(|(_, trips)| trips.max(0))
}

fn of_kernels(module: &Module, machine: &Machine, trips: impl Fn(InstructionId) -> Option<i64>) -> RunTime {
    let users = Users::of(module);
    let mut clock = Clock { module, machine, users: &users, trips: &trips, known: IndexMap::new(), is_certain: true };
    let seconds = clock.computation(module.entry());
    RunTime { seconds, is_certain: clock.is_certain }
}

struct Clock<'a> {
    module: &'a Module,
    machine: &'a Machine,
    users: &'a Users,
    trips: &'a dyn Fn(InstructionId) -> Option<i64>,
    known: IndexMap<ComputationId, f64>,
    is_certain: bool,
}

impl Clock<'_> {
    fn computation(&mut self, id: ComputationId) -> f64 {
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        let steps: Vec<InstructionId> = self.module.instructions_of(id).map(|(id, _)| id).collect();
        let seconds = steps.into_iter().map(|id| self.step(id)).sum();
        self.known.insert(id, seconds);
        seconds
    }

    /// One instruction of a computation that runs step by step.
    fn step(&mut self, id: InstructionId) -> f64 {
        use Opcode as O;
        let inst = self.module.instruction(id);
        match inst.opcode {
            O::Parameter | O::Constant | O::Tuple | O::GetTupleElement | O::Bitcast | O::OptBarrier | O::AfterAll => 0.0,
            O::Call => self.called(id, f64::max),
            O::Conditional => self.called(id, f64::max),
            O::While => {
                let trips = (self.trips)(id);
                self.is_certain &= trips.is_some();
                let iteration = self.called(id, |all, one| all + one) + self.machine.iteration as f64 * 1e-9;
                iteration * trips.unwrap_or(1) as f64
            }
            _ => self.kernel(id),
        }
    }

    /// What the computations that an instruction calls take, folded.
    fn called(&mut self, id: InstructionId, fold: fn(f64, f64) -> f64) -> f64 {
        let called: Vec<ComputationId> = self.module.instruction(id).called_computations().collect();
        called.into_iter().map(|called| self.computation(called)).fold(0.0, fold)
    }

    fn kernel(&self, id: InstructionId) -> f64 {
        let inst = self.module.instruction(id);
        let fused = (inst.opcode == Opcode::Fusion).then(|| inst.called_computations().next()).flatten();
        let (traffic, operations) = match fused {
            Some(fused) => {
                let parameters = self.module.parameters(fused);
                let read: f64 = parameters.iter().map(|&parameter| self.read(parameter)).sum();
                let inside = self.module.instructions_of(fused).map(|(id, _)| self.operations(id)).sum::<f64>();
                (read + self.written(self.module.computation(fused).root), inside)
            }
            None => {
                let read: f64 = inst.operands.iter().map(|&operand| self.read_by(operand, id)).sum();
                (read + self.written(id), self.operations(id))
            }
        };
        let busy = (traffic / self.machine.bytes_per_second as f64).max(operations);
        busy + self.start(busy)
    }

    /// What starting a kernel takes. On CPU that is waiting for threads, over which nobody divides work that takes less.
    fn start(&self, busy: f64) -> f64 {
        let start = self.machine.kernel as f64 * 1e-9;
        if self.machine.target == Target::Cpu { start.min(busy) } else { start }
    }

    /// Bytes read of an operand of a fusion.
    fn read(&self, parameter: InstructionId) -> f64 {
        let whole = self.traffic(parameter, parameter);
        self.users.get(parameter).iter().map(|&user| self.read_by(parameter, user)).sum::<f64>().min(whole)
    }

    /// Bytes that `user` reads of `operand`.
    fn read_by(&self, operand: InstructionId, user: InstructionId) -> f64 {
        use Opcode as O;
        let inst = self.module.instruction(user);
        let is_first = inst.operands.first() == Some(&operand);
        match inst.opcode {
            O::Slice | O::DynamicSlice | O::Gather if is_first => self.traffic(operand, user),
            O::DynamicUpdateSlice | O::Scatter if is_first => 0.0,
            O::Bitcast | O::Reshape => {
                let through = self.users.get(user).iter().map(|&next| self.read_by(user, next)).sum::<f64>();
                let whole = self.traffic(operand, operand);
                if self.users.get(user).is_empty() { whole } else { through.min(whole) }
            }
            _ => self.traffic(operand, operand),
        }
    }

    /// Bytes that a kernel writes whose result is `root`.
    fn written(&self, root: InstructionId) -> f64 {
        use Opcode as O;
        let inst = self.module.instruction(root);
        let operand = |index: usize| inst.operands.get(index).copied();
        match inst.opcode {
            O::Tuple => inst.operands.iter().map(|&part| self.written(part)).sum(),
            O::Bitcast => operand(0).map_or(0.0, |inner| self.written(inner)),
            O::DynamicUpdateSlice => operand(1).map_or(0.0, |update| self.traffic(root, update)),
            // Rows are read, added to and written.
            O::Scatter => 2.0 * inst.operands.last().map_or(0.0, |&updates| self.traffic(root, updates)),
            O::Parameter => 0.0,
            _ => self.traffic(root, root),
        }
    }

    /// Traffic of the elements of `part` where they stand in `whole`: none if that fits a cache.
    fn traffic(&self, whole: InstructionId, part: InstructionId) -> f64 {
        let bytes = |id| size::shape_size(self.module.shape(id)).map_or(0.0, |bytes| bytes.get() as f64);
        if bytes(whole) <= self.machine.cache.get() as f64 { 0.0 } else { bytes(part) }
    }

    /// Seconds that the operations of an instruction take.
    fn operations(&self, id: InstructionId) -> f64 {
        use Opcode as O;
        let inst = self.module.instruction(id);
        let elements = |id: InstructionId| elements(self.module.shape(id));
        let simple = 1.0 / self.machine.arithmetic as f64;
        match inst.opcode {
            O::Dot | O::Convolution => self.product(id).unwrap_or(0.0),
            O::Reduce | O::ReduceWindow => inst.operands.first().map_or(0.0, |&operand| elements(operand) * simple),
            O::Sort => elements(id) * elements(id).max(2.0).log2() * simple,
            O::RngBitGenerator => elements(id) * RANDOM * simple,
            opcode if is_transcendental(opcode) => elements(id) / self.machine.transcendentals as f64,
            opcode if opcode.is_elementwise() => elements(id) * simple,
            _ => 0.0,
        }
    }

    /// The same of a product.
    fn product(&self, id: InstructionId) -> Option<f64> {
        let inst = self.module.instruction(id);
        let (array, count) = (inst.array()?, multiplications(self.module, id)? as f64);
        let traffic = count * self.machine.product_traffic(array.element_type);
        let shared = self.module.instruction(*inst.operands.get(1)?).array().and_then(ArrayShape::elements)? as f64;
        // Rows of the first operand that meet each element of the second.
        let rows = (count / shared).max(1.0);
        let waiting = 1.0 + self.machine.few_rows as f64 / rows;
        let wide = if matches!(array.element_type, ElementType::C64 | ElementType::C128) { 4.0 } else { 1.0 };
        Some(traffic * waiting * wide / self.machine.bytes_per_second as f64)
    }
}

/// Elements of an array, or of all arrays of a tuple.
fn elements(shape: &Shape) -> f64 {
    match shape {
        Shape::Tuple(parts) => parts.iter().map(|part| elements(part)).sum(),
        other => other.as_array().and_then(ArrayShape::elements).unwrap_or(0) as f64,
    }
}
