//! What an instruction takes on a machine, as bytes of memory traffic that take as long.

mod multiplications;

use std::cell::RefCell;

use crate::hash::IndexMap;
use hlo_ir::{ArrayShape, AttrKey, ComputationId, InstructionId, Module, Opcode};
use hlo_memory::size;

use crate::Machine;
use crate::flow::is_transcendental;
pub(crate) use multiplications::multiplications;

/// Operations for a random number: Threefry makes two of them in twenty rounds of an addition, two shifts and two logical operations.
pub(crate) const RANDOM: f64 = 20.0 * 5.0 / 2.0;

/// Costs of the instructions of a module.
pub(crate) struct Costs<'a> {
    module: &'a Module,
    machine: &'a Machine,
    /// What computations take that were asked about.
    known: RefCell<IndexMap<ComputationId, Option<f64>>>,
    /// The same of what they take at least.
    least: RefCell<IndexMap<ComputationId, f64>>,
}

impl<'a> Costs<'a> {
    pub(crate) fn new(module: &'a Module, machine: &'a Machine) -> Self {
        Self { module, machine, known: RefCell::default(), least: RefCell::default() }
    }
    /// Traffic that takes as long as computing a value once more where its operands stand in memory and its result does not have to: a kernel that needs it
    /// computes it. `None` for what is never computed twice: loops that run nobody knows how often, calls of libraries, exchanges between devices.
    pub(crate) fn of(&self, id: InstructionId) -> Option<f64> {
        use Opcode as O;
        let inst = self.module.instruction(id);
        let elements = inst.array().and_then(ArrayShape::elements).unwrap_or(0) as f64;
        Some(match inst.opcode {
            O::Constant | O::Iota | O::Broadcast | O::Reshape | O::Bitcast | O::GetTupleElement | O::Tuple => 0.0,
            O::Dot | O::Convolution => {
                multiplications(self.module, id, self.machine.target)? as f64
                    * self.machine.product_traffic(inst.array()?.element_type)
            }
            O::Reduce | O::ReduceWindow => inst.operands.iter().map(|&operand| self.bytes(operand)).sum(),
            // Read and written.
            O::Transpose | O::Concatenate | O::Slice | O::Pad | O::Reverse | O::DynamicSlice | O::Gather => {
                2.0 * self.bytes(id)
            }
            O::RngBitGenerator => self.elements_of_all(id) * RANDOM * self.machine.arithmetic_traffic(),
            O::Call => self.of_computation(inst.called_computations().next()?)?,
            O::While => self.of_loop(id)?,
            opcode if is_transcendental(opcode) => elements * self.machine.transcendental_traffic(),
            opcode if opcode.is_elementwise() => elements * self.machine.arithmetic_traffic(),
            _ => return None,
        })
    }
    fn bytes(&self, id: InstructionId) -> f64 {
        size::shape_size(self.module.shape(id)).map_or(f64::INFINITY, |bytes| bytes.get() as f64)
    }
    /// Elements of an array, or of all arrays of a tuple.
    fn elements_of_all(&self, id: InstructionId) -> f64 {
        let shape = self.module.shape(id);
        let elements = |shape: &hlo_ir::Shape| shape.as_array().and_then(ArrayShape::elements).unwrap_or(0) as f64;
        match shape {
            hlo_ir::Shape::Tuple(parts) => parts.iter().map(|part| elements(part)).sum(),
            other => elements(other),
        }
    }
    /// The same of a loop that counts to a number.
    fn of_loop(&self, id: InstructionId) -> Option<f64> {
        let called = |key| self.module.instruction(id).computation(&key);
        let (body, condition) = (called(AttrKey::Body)?, called(AttrKey::Condition)?);
        let (_, trips) = crate::loops::bound(self.module, condition)?;
        Some(self.of_computation(body)? * trips.max(0) as f64)
    }
    /// What a computation takes at least: what its instructions take that have a cost.
    pub(crate) fn at_least(&self, computation: ComputationId) -> f64 {
        if let Some(&least) = self.least.borrow().get(&computation) {
            return least;
        }
        let one = |(id, inst): (InstructionId, &hlo_ir::Instruction)| {
            let inside = || inst.called_computations().map(|called| self.at_least(called)).sum();
            self.of(id).unwrap_or_else(inside)
        };
        let all = self.module.instructions_of(computation).map(one).sum();
        self.least.borrow_mut().insert(computation, all);
        all
    }
    /// The same of all that a computation does.
    fn of_computation(&self, computation: ComputationId) -> Option<f64> {
        if let Some(&known) = self.known.borrow().get(&computation) {
            return known;
        }
        let inside = self.module.instructions_of(computation).filter(|(_, inst)| inst.parameter_number().is_none());
        let all = inside.map(|(id, _)| self.of(id)).sum();
        self.known.borrow_mut().insert(computation, all);
        all
    }
}

#[cfg(test)]
mod tests {
    use hlo_ir::text;
    use hlo_memory::Target;

    use super::*;

    fn costs(text: &str, names: &[&str]) -> Vec<Option<u64>> {
        let module = text::parse(text).expect("a module");
        let costs = Costs::new(&module, Machine::of(Target::Cpu));
        let find = |name: &&str| module.live_instructions().find(|(_, inst)| inst.name == **name).expect("a name").0;
        names.iter().map(find).map(|id| costs.of(id).map(|bytes| bytes as u64)).collect()
    }

    #[test]
    fn costs_are_traffic() {
        let text = "HloModule m

double {
  x = f32[8,64] parameter(0)
  ROOT y = f32[8,64] add(x, x)
}

twice {
  x = f32[8,64] parameter(0)
  once = f32[8,64] call(x), to_apply=double
  ROOT y = f32[8,64] call(once), to_apply=double
}

less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}

ENTRY main {
  x = f32[8,64] parameter(0)
  w = f32[64,16] parameter(1)
  image = f32[1,5,5,4] parameter(2)
  kernel = f32[3,3,4,16] parameter(3)
  product = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  layer = f32[1,5,5,16] convolution(image, kernel), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  turned = f32[64,8] transpose(x), dimensions={1,0}
  exp = f32[8,64] exponential(x)
  called = f32[8,64] call(x), to_apply=twice
  sorted = f32[8,64] sort(x), dimensions={1}, to_apply=less
  ROOT all = (f32[8,16], f32[1,5,5,16], f32[64,8], f32[8,64], f32[8,64], f32[8,64]) tuple(product, layer, turned, exp, called, sorted)
}
";
        // A fifth of a byte for each multiplication, a quarter for each addition, four for each exponential.
        let found = costs(text, &["product", "layer", "turned", "exp", "called", "sorted"]);
        assert_eq!(found, [Some(1638), Some(2880), Some(4096), Some(2048), Some(256), None]);
    }

    #[test]
    fn calls_of_calls_are_looked_at_once() {
        let level = |n: usize| {
            format!(
                "f{n} {{\n  x = f32[8] parameter(0)\n  a = f32[8] call(x), to_apply=f{m}\n  ROOT b = f32[8] call(a), to_apply=f{m}\n}}\n\n",
                m = n - 1
            )
        };
        let levels: String = (1..40).map(level).collect();
        let doubled = |first: &str| {
            format!(
                "HloModule m

less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}}

f0 {{
  x = f32[8] parameter(0)
  ROOT y = f32[8] {first}
}}

{levels}ENTRY main {{
  x = f32[8] parameter(0)
  ROOT y = f32[8] call(x), to_apply=f39
}}
"
            )
        };
        assert_eq!(costs(&doubled("add(x, x)"), &["y"]).len(), 1);
        let module = text::parse(&doubled("sort(x), dimensions={0}, to_apply=less")).expect("a module");
        let costs = Costs::new(&module, Machine::of(Target::Cpu));
        assert_eq!(costs.of(module.computation(module.entry()).root), None, "nobody knows what a sort takes");
        // A comparison in each of 2^39 sorts.
        assert_eq!(costs.at_least(module.entry()) as u64, 1 << 37);
    }
}
