//! What the products of a module take at least: a bound on its run time that needs no compiler.
//!
//! Whatever a compiler fuses, it makes each product that a result needs. A rewrite that makes products once more therefore adds at least their operations.

use hlo_ir::arena::SideTable;
use hlo_ir::{ComputationId, InstructionId, Module, Opcode};

use super::trips;
use crate::Machine;
use crate::cost::multiplications;
use crate::flow::first_array;

/// Seconds that the products of a module take at the machine's highest rate, those of a loop once for each of its iterations (once, where nobody knows how many).
pub(crate) fn of_products(module: &Module, machine: &Machine) -> f64 {
    let mut known: SideTable<ComputationId, f64> = SideTable::new(0.0);
    let mut needed = SideTable::new(false);
    // Callees stand before their callers.
    for &computation in module.computation_ids() {
        let seconds = of_computation(module, computation, machine, &known, &mut needed);
        known.set(computation, seconds);
    }
    known[module.entry()]
}

fn of_computation(
    module: &Module,
    computation: ComputationId,
    machine: &Machine,
    known: &SideTable<ComputationId, f64>,
    needed: &mut SideTable<InstructionId, bool>,
) -> f64 {
    let all = module.computation(computation);
    needed.set(all.root, true);
    let mut seconds = 0.0;
    for &id in all.instructions.iter().rev() {
        if !needed[id] {
            continue;
        }
        let inst = module.instruction(id);
        for &operand in &inst.operands {
            needed.set(operand, true);
        }
        let called = inst.called_computations().map(|callee| known[callee]);
        seconds += match inst.opcode {
            Opcode::Dot | Opcode::Convolution => of_product(module, id, machine),
            Opcode::Call => called.sum(),
            Opcode::Conditional => called.fold(f64::INFINITY, f64::min),
            Opcode::While => called.sum::<f64>() * trips(module, id).unwrap_or(1) as f64,
            _ => 0.0,
        };
    }
    seconds
}

fn of_product(module: &Module, id: InstructionId, machine: &Machine) -> f64 {
    let element = first_array(module.shape(id)).map(|array| array.element_type);
    let count = multiplications(module, id, machine.target).unwrap_or(0);
    element.map_or(0.0, |element| count as f64 * machine.product_traffic(element) / machine.bytes_per_second as f64)
}

#[cfg(test)]
mod tests {
    use hlo_memory::Target;

    use super::*;

    #[test]
    fn needed_products_count_as_often_as_they_run() {
        let text = "HloModule m\n\nmore {\n  s = (s32[], f32[64,64]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(10)\n  \
                    ROOT c = pred[] compare(i, n), direction=LT\n}\n\nbody {\n  s = (s32[], f32[64,64]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  \
                    one = s32[] constant(1)\n  j = s32[] add(i, one)\n  x = f32[64,64] get-tuple-element(s), index=1\n  \
                    y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT t = (s32[], f32[64,64]) tuple(j, y)\n}\n\n\
                    ENTRY main {\n  z = s32[] constant(0)\n  x = f32[64,64] parameter(0)\n  \
                    unused = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  t = (s32[], f32[64,64]) tuple(z, x)\n  \
                    w = (s32[], f32[64,64]) while(t), condition=more, body=body\n  y = f32[64,64] get-tuple-element(w), index=1\n  \
                    ROOT d = f32[64,64] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
        let module = hlo_ir::text::parse(text).expect("a module");
        let machine = Machine::of(Target::Gpu);
        let one = 64.0 * 64.0 * 64.0 * 2.0 / machine.operations.f32 as f64;
        let all = of_products(&module, machine);
        assert!((all / one - 11.0).abs() < 1e-9, "{}", all / one);
    }
}
