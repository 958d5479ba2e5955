//! A small interpreter of integer HLO, written from the operations' definitions and sharing no code with the analysis under test.

use hlo_ir::attribute::{PadDim, SliceDim};
use hlo_ir::{AttrKey, AttrValue, ComputationId, ElementType, Instruction, Module, Opcode};
use indexmap::IndexMap;

/// An array of integers, or a tuple.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Array(Array),
    Tuple(Vec<Data>),
}

/// Elements in row-major order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Array {
    pub(crate) element_type: ElementType,
    pub(crate) dims: Vec<i64>,
    pub(crate) elements: Vec<i128>,
}

impl Data {
    pub(crate) fn array(&self) -> &Array {
        match self {
            Data::Array(array) => array,
            Data::Tuple(_) => panic!("a tuple is not an array"),
        }
    }
}

impl Array {
    /// All index tuples of an array of these sizes in row-major order.
    pub(crate) fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
        dims.iter().fold(vec![Vec::new()], |prefixes, &size| {
            prefixes.iter().flat_map(|prefix| (0..size).map(|i| [&prefix[..], &[i]].concat())).collect()
        })
    }
    fn at(&self, index: &[i64]) -> i128 {
        let position = index.iter().zip(&self.dims).fold(0, |position, (i, size)| position * size + i);
        self.elements[position as usize]
    }
    /// An array of the given sizes whose elements are computed from their index.
    fn build(element_type: ElementType, dims: &[i64], element: impl Fn(&[i64]) -> i128) -> Self {
        let elements = Self::indices(dims).iter().map(|index| wrap(element(index), element_type)).collect();
        Self { element_type, dims: dims.to_vec(), elements }
    }
    fn scalar(element_type: ElementType, value: i128) -> Data {
        Data::Array(Self { element_type, dims: Vec::new(), elements: vec![value] })
    }
}

/// Two's complement: the value with the same low bits that the type can hold.
fn wrap(value: i128, element_type: ElementType) -> i128 {
    let (low, high) = element_type.integer_range().expect("an integer type");
    (value - low).rem_euclid(high - low + 1) + low
}

/// Values of all instructions of a computation.
pub(crate) fn run(module: &Module, id: ComputationId, arguments: &[Data]) -> IndexMap<hlo_ir::InstructionId, Data> {
    let mut values: IndexMap<hlo_ir::InstructionId, Data> = IndexMap::new();
    for (id, inst) in module.instructions_of(id) {
        let operands: Vec<&Data> = inst.operands.iter().map(|operand| &values[operand]).collect();
        let value = match inst.parameter_number() {
            Some(number) => arguments[number as usize].clone(),
            None => evaluate(module, inst, &operands),
        };
        values.insert(id, value);
    }
    values
}

/// The result of a computation.
fn call(module: &Module, id: ComputationId, arguments: &[Data]) -> Data {
    run(module, id, arguments).swap_remove(&module.computation(id).root).expect("the root has a value")
}

fn evaluate(module: &Module, inst: &Instruction, operands: &[&Data]) -> Data {
    let callee = |key| inst.computation(&key).expect("the computation is named");
    let owned = || operands.iter().map(|&operand| operand.clone()).collect::<Vec<_>>();
    match inst.opcode {
        Opcode::Tuple => Data::Tuple(owned()),
        Opcode::GetTupleElement => match operands[0] {
            Data::Tuple(elements) => elements[inst.int(&AttrKey::Index).expect("an index") as usize].clone(),
            Data::Array(_) => panic!("an array is not a tuple"),
        },
        Opcode::Call => call(module, callee(AttrKey::ToApply), &owned()),
        Opcode::While => {
            let mut state = operands[0].clone();
            for _ in 0..1000 {
                let goes_on = call(module, callee(AttrKey::Condition), std::slice::from_ref(&state));
                if goes_on.array().elements[0] == 0 {
                    return state;
                }
                state = call(module, callee(AttrKey::Body), std::slice::from_ref(&state));
            }
            panic!("the loop does not end")
        }
        Opcode::Conditional => {
            let branches = [callee(AttrKey::TrueComputation), callee(AttrKey::FalseComputation)];
            let which = usize::from(operands[0].array().elements[0] == 0);
            call(module, branches[which], &[operands[1 + which].clone()])
        }
        _ => Data::Array(array_operation(module, inst, operands)),
    }
}

fn array_operation(module: &Module, inst: &Instruction, operands: &[&Data]) -> Array {
    let shape = inst.array().expect("an array result");
    let (to, dims) = (shape.element_type, &shape.dims[..]);
    let operand = |k: usize| operands[k].array();
    let dimensions = inst.ints(&AttrKey::Dimensions);
    let build = |element: &dyn Fn(&[i64]) -> i128| Array::build(to, dims, element);
    match inst.opcode {
        Opcode::Constant => {
            let text = inst.literal().expect("a literal").replace(['{', '}', ','], " ");
            let number = |word: &str| match word {
                "true" => 1,
                "false" => 0,
                number => number.parse().expect("an integer"),
            };
            Array { element_type: to, dims: dims.to_vec(), elements: text.split_whitespace().map(number).collect() }
        }
        Opcode::Iota => {
            let dim = inst.int(&AttrKey::IotaDimension).expect("a dimension") as usize;
            build(&|index| index[dim].into())
        }
        Opcode::Reshape => Array { element_type: to, dims: dims.to_vec(), elements: operand(0).elements.clone() },
        Opcode::Transpose => build(&|index| {
            let mut source = vec![0; index.len()];
            dimensions.iter().zip(index).for_each(|(&dim, &i)| source[dim as usize] = i);
            operand(0).at(&source)
        }),
        Opcode::Broadcast => {
            build(&|index| operand(0).at(&dimensions.iter().map(|&dim| index[dim as usize]).collect::<Vec<_>>()))
        }
        Opcode::Reverse => build(&|index| {
            let turned =
                |(dim, &i): (usize, &i64)| if dimensions.contains(&(dim as i64)) { dims[dim] - 1 - i } else { i };
            operand(0).at(&index.iter().enumerate().map(turned).collect::<Vec<_>>())
        }),
        Opcode::Slice => {
            let Some(AttrValue::Slice(slices)) = inst.attribute(&AttrKey::Slice) else { panic!("bounds") };
            let source = |(i, slice): (&i64, &SliceDim)| slice.start + i * slice.stride;
            build(&|index| operand(0).at(&index.iter().zip(slices).map(source).collect::<Vec<_>>()))
        }
        Opcode::Concatenate => build(&|index| concatenated(operands, dimensions[0] as usize, index)),
        Opcode::Pad => {
            let Some(AttrValue::Padding(padding)) = inst.attribute(&AttrKey::Padding) else { panic!("padding") };
            build(&|index| padded(operand(0), operand(1).elements[0], padding, index))
        }
        Opcode::DynamicSlice => {
            let starts: Vec<i64> =
                (0..dims.len()).map(|d| start(operand(1 + d), operand(0).dims[d] - dims[d])).collect();
            build(&|index| operand(0).at(&index.iter().zip(&starts).map(|(i, s)| i + s).collect::<Vec<_>>()))
        }
        Opcode::DynamicUpdateSlice => {
            let update = operand(1);
            let starts: Vec<i64> = (0..dims.len()).map(|d| start(operand(2 + d), dims[d] - update.dims[d])).collect();
            build(&|index| {
                let inner: Vec<i64> = index.iter().zip(&starts).map(|(i, s)| i - s).collect();
                let inside = inner.iter().zip(&update.dims).all(|(i, size)| (0..*size).contains(i));
                if inside { update.at(&inner) } else { operand(0).at(index) }
            })
        }
        Opcode::Reduce => {
            let reducer = inst.computation(&AttrKey::ToApply).expect("a reducer");
            build(&|index| reduced(module, reducer, operand(0), operand(1), dimensions, index))
        }
        Opcode::Sort => sorted(operand(0), dimensions[0] as usize),
        _ => build(&|index| {
            let element = |array: &&Data| array.array().at(if array.array().dims.is_empty() { &[] } else { index });
            let from = operand(0).element_type;
            elementwise(inst, from, &operands.iter().map(element).collect::<Vec<_>>())
        }),
    }
}

fn start(array: &Array, most: i64) -> i64 {
    (array.elements[0].clamp(0, most.into())) as i64
}

fn concatenated(operands: &[&Data], dim: usize, index: &[i64]) -> i128 {
    let mut source = index.to_vec();
    for array in operands.iter().map(|operand| operand.array()) {
        if source[dim] < array.dims[dim] {
            return array.at(&source);
        }
        source[dim] -= array.dims[dim];
    }
    panic!("the index lies in no operand")
}

fn padded(array: &Array, filler: i128, padding: &[PadDim], index: &[i64]) -> i128 {
    let mut source = Vec::new();
    for ((i, pad), size) in index.iter().zip(padding).zip(&array.dims) {
        let (at, step) = (i - pad.low, pad.interior + 1);
        if at < 0 || at % step != 0 || at / step >= *size {
            return filler;
        }
        source.push(at / step);
    }
    array.at(&source)
}

fn reduced(
    module: &Module,
    reducer: ComputationId,
    array: &Array,
    init: &Array,
    dimensions: &[i64],
    index: &[i64],
) -> i128 {
    let mut total = init.elements[0];
    for source in Array::indices(&array.dims) {
        let kept: Vec<i64> =
            (0..source.len()).filter(|d| !dimensions.contains(&(*d as i64))).map(|d| source[d]).collect();
        if kept == index {
            let arguments = [total, array.at(&source)].map(|value| Array::scalar(array.element_type, value));
            total = call(module, reducer, &arguments).array().elements[0];
        }
    }
    total
}

/// Ascending along `dim`; the generator writes no other comparator.
fn sorted(array: &Array, dim: usize) -> Array {
    Array::build(array.element_type, &array.dims, |index| {
        let mut line: Vec<i128> = (0..array.dims[dim])
            .map(|i| {
                let mut at = index.to_vec();
                at[dim] = i;
                array.at(&at)
            })
            .collect();
        line.sort_unstable();
        line[index[dim] as usize]
    })
}

fn elementwise(inst: &Instruction, from: ElementType, x: &[i128]) -> i128 {
    let bits = from.bits();
    let unsigned = |value: i128| value & ((1_i128 << bits) - 1);
    let signed = |value: i128| (unsigned(value) << (128 - bits)) >> (128 - bits);
    match inst.opcode {
        Opcode::Add => x[0] + x[1],
        Opcode::Subtract => x[0] - x[1],
        Opcode::Multiply => x[0] * x[1],
        Opcode::Divide if x[1] == 0 => -1,
        Opcode::Divide => x[0] / x[1],
        Opcode::Remainder if x[1] == 0 => x[0],
        Opcode::Remainder => x[0] % x[1],
        Opcode::Minimum => x[0].min(x[1]),
        Opcode::Maximum => x[0].max(x[1]),
        Opcode::And => x[0] & x[1],
        Opcode::Or => x[0] | x[1],
        Opcode::Xor => x[0] ^ x[1],
        Opcode::Not if from == ElementType::Pred => 1 - x[0],
        Opcode::Not => !x[0],
        Opcode::Negate => -x[0],
        Opcode::Abs => x[0].abs(),
        Opcode::Sign => x[0].signum(),
        Opcode::Popcnt => unsigned(x[0]).count_ones().into(),
        Opcode::CountLeadingZeros => i128::from(unsigned(x[0]).leading_zeros()) - (128 - i128::from(bits)),
        Opcode::ShiftLeft | Opcode::ShiftRightLogical if unsigned(x[1]) >= bits.into() => 0,
        Opcode::ShiftLeft => x[0] << x[1],
        Opcode::ShiftRightLogical => unsigned(x[0]) >> x[1],
        Opcode::ShiftRightArithmetic => signed(x[0]) >> unsigned(x[1]).min(i128::from(bits) - 1),
        Opcode::Clamp => x[1].max(x[0]).min(x[2]),
        Opcode::Select => {
            if x[0] == 1 {
                x[1]
            } else {
                x[2]
            }
        }
        Opcode::Convert if inst.array().is_some_and(|to| to.element_type == ElementType::Pred) => i128::from(x[0] != 0),
        Opcode::Convert | Opcode::BitcastConvert | Opcode::Copy => x[0],
        Opcode::Compare => i128::from(match inst.word(&AttrKey::Direction).expect("a direction") {
            "LT" => x[0] < x[1],
            "LE" => x[0] <= x[1],
            "GT" => x[0] > x[1],
            "GE" => x[0] >= x[1],
            "EQ" => x[0] == x[1],
            _ => x[0] != x[1],
        }),
        other => panic!("the interpreter does not know `{}`", other.name()),
    }
}
