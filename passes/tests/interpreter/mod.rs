//! A small interpreter of HLO on integers: the meaning of the opcodes that dimension flow has rules for, written for clarity.
//!
//! Every element is an `i64`, wrapped to its type after each operation; float types count in integers too, which is enough to see where
//! data goes; with [`free`] they are terms instead. Transforms and factorisations are stood in for by a mixing function of the elements they may read.
#![allow(dead_code, reason = "each test binary uses a part of it")]

mod contract;
mod elementwise;
pub(crate) mod free;
mod indexed;
mod movement;
pub(crate) mod random;
pub(crate) mod tensor;
mod windowed;

use hlo_ir::{AttrKey, ComputationId, Instruction, InstructionId, Module, Opcode};
use indexmap::IndexMap;

use tensor::Tensor;

/// What an instruction produces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Data {
    Array(Tensor),
    Tuple(Vec<Data>),
}

impl Data {
    pub(crate) fn array(&self) -> &Tensor {
        match self {
            Self::Array(tensor) => tensor,
            Self::Tuple(_) => panic!("an array was expected"),
        }
    }
    /// The arrays of a tuple, or the one array.
    pub(crate) fn arrays(&self) -> Vec<&Tensor> {
        match self {
            Self::Array(tensor) => vec![tensor],
            Self::Tuple(elements) => elements.iter().flat_map(Data::arrays).collect(),
        }
    }
}

/// Runs the entry computation.
pub(crate) fn run(module: &Module, arguments: &[Data]) -> Data {
    call(module, module.entry(), arguments)
}

/// Runs a computation.
pub(crate) fn call(module: &Module, computation: ComputationId, arguments: &[Data]) -> Data {
    let mut values: IndexMap<InstructionId, Data> = IndexMap::new();
    for (id, inst) in module.instructions_of(computation) {
        let value = if let Some(number) = inst.parameter_number() {
            arguments[usize::try_from(number).expect("numbers are small")].clone()
        } else {
            let operands: Vec<&Data> = inst.operands.iter().map(|operand| &values[operand]).collect();
            apply(module, inst, &operands)
        };
        values.insert(id, value);
    }
    values[&module.computation(computation).root].clone()
}

/// Calls a scalar computation with one result.
fn scalar(module: &Module, inst: &Instruction, key: &AttrKey, arguments: &[i64]) -> Vec<i64> {
    let computation = inst.computation(key).expect("the attribute names a computation");
    let parameters = module.parameters(computation);
    let wrap = |(&id, &value): (&InstructionId, &i64)| Data::Array(Tensor::scalar(module.shape(id), value));
    let arguments: Vec<Data> = parameters.iter().zip(arguments).map(wrap).collect();
    call(module, computation, &arguments).arrays().iter().map(|array| array.data[0]).collect()
}

/// Computes one instruction.
pub(crate) fn apply(module: &Module, inst: &Instruction, operands: &[&Data]) -> Data {
    match inst.opcode {
        Opcode::Tuple => Data::Tuple(operands.iter().copied().cloned().collect()),
        Opcode::GetTupleElement => match operands[0] {
            Data::Tuple(elements) => elements[inst.int(&AttrKey::Index).expect("it has an index") as usize].clone(),
            Data::Array(_) => panic!("a tuple was expected"),
        },
        Opcode::OptBarrier => operands[0].clone(),
        Opcode::Call => {
            let arguments: Vec<Data> = operands.iter().copied().cloned().collect();
            call(module, inst.computation(&AttrKey::ToApply).expect("a call names a computation"), &arguments)
        }
        Opcode::While => run_while(module, inst, operands[0]),
        Opcode::Conditional => run_conditional(module, inst, operands),
        _ => {
            let arrays: Vec<&Tensor> = operands.iter().map(|data| data.array()).collect();
            let mut results = compute(module, inst, &arrays);
            if inst.shape.as_tuple().is_some() {
                Data::Tuple(results.into_iter().map(Data::Array).collect())
            } else {
                Data::Array(results.swap_remove(0))
            }
        }
    }
}

fn run_while(module: &Module, inst: &Instruction, state: &Data) -> Data {
    let [body, condition] =
        [AttrKey::Body, AttrKey::Condition].map(|key| inst.computation(&key).expect("a while has both"));
    let mut state = [state.clone()];
    while call(module, condition, &state).array().data[0] != 0 {
        state = [call(module, body, &state)];
    }
    let [state] = state;
    state
}

fn run_conditional(module: &Module, inst: &Instruction, operands: &[&Data]) -> Data {
    let chosen = operands[0].array().data[0];
    let branches: Vec<ComputationId> = inst.called_computations().collect();
    let is_flag = inst.attribute(&AttrKey::TrueComputation).is_some();
    let branch = if is_flag { usize::from(chosen == 0) } else { (chosen as usize).min(branches.len() - 1) };
    call(module, branches[branch], &[operands[branch + 1].clone()])
}

/// Computes an instruction on arrays.
fn compute(module: &Module, inst: &Instruction, arrays: &[&Tensor]) -> Vec<Tensor> {
    if let Some(result) = elementwise::compute(module, inst, arrays) {
        return vec![result];
    }
    match inst.opcode {
        Opcode::Reduce => windowed::reduce(module, inst, arrays),
        Opcode::ReduceWindow => windowed::reduce_window(module, inst, arrays),
        Opcode::SelectAndScatter => vec![windowed::select_and_scatter(module, inst, arrays)],
        Opcode::Scatter => indexed::scatter(module, inst, arrays),
        Opcode::Gather => vec![indexed::gather(inst, arrays)],
        Opcode::DynamicSlice => vec![indexed::dynamic_slice(inst, arrays)],
        Opcode::DynamicUpdateSlice => vec![indexed::dynamic_update_slice(arrays)],
        Opcode::Sort => contract::sort(module, inst, arrays),
        Opcode::TopK => contract::top_k(inst, arrays),
        Opcode::Dot => vec![contract::dot(inst, arrays)],
        Opcode::Convolution => vec![contract::convolution(inst, arrays)],
        Opcode::Fft | Opcode::Cholesky => vec![contract::mix_minor(inst, arrays)],
        Opcode::TriangularSolve => vec![contract::mix_system(inst, arrays)],
        _ => vec![movement::compute(inst, arrays)],
    }
}
