//! Random bits by Philox: the generator is written out as arithmetic on counters, four words of 32 bits from each counter of 128 bits.
//!
//! Source: `RngBitGeneratorExpander` (xla/hlo/transforms/expanders/rng_bit_generator_expander.cc), `PhiloxBitGenerator`
//! (xla/hlo/builder/lib/prng.cc).

use hlo_ir::attribute::SliceDim;
use hlo_ir::shape::Shape;
use hlo_ir::{AttrKey, Attribute, ElementType, Instruction, Opcode, Payload};

use super::super::build::{apply, dimensions, row_major};
use super::super::cx::{Cx, Id};
use super::super::value::Scalar;
use super::super::visit::each;

/// Words that are added to the key after each round.
const KEY_STEPS: [i128; 2] = [0x9E37_79B9, 0xBB67_AE85];
/// Words that the first and the third word of a counter are multiplied by.
const FACTORS: [i128; 2] = [0xD251_1F53, 0xCD9E_8D57];
const ROUNDS: usize = 10;

const U32: ElementType = ElementType::U32;
const U64: ElementType = ElementType::U64;

/// Writes out every generator of random bits that uses Philox; returns whether there was one.
pub(crate) fn run(cx: &mut Cx<'_>) -> bool {
    each(cx, Opcode::RngBitGenerator, expand)
}

/// Whether XLA:CPU computes the bits of a `rng-bit-generator` by Philox, as it does unless it is told otherwise, and this model follows it.
pub(crate) fn is_philox(inst: &Instruction) -> bool {
    let algorithm = inst.word(&AttrKey::Algorithm).unwrap_or("rng_default");
    let known =
        |bits: &Shape| bits.as_array().is_some_and(|array| is_unsigned(array.element_type) && !array.is_dynamic());
    let Some([state, bits]) = inst.shape.as_tuple() else { return false };
    let keyed = state
        .as_array()
        .is_some_and(|state| state.element_type == U64 && state.rank() == 1 && (2..=3).contains(&state.dims[0]));
    matches!(algorithm, "rng_default" | "rng_philox") && keyed && known(bits)
}

fn is_unsigned(element_type: ElementType) -> bool {
    use ElementType as T;
    matches!(element_type, T::U8 | T::U16 | T::U32 | T::U64)
}

fn expand(cx: &mut Cx<'_>, id: Id) -> Option<Id> {
    if !is_philox(cx.inst(id)) {
        return None;
    }
    let (shape, state) = (cx.shape(id).clone(), cx.operand(id, 0));
    let body = cx.add_computation("rng");
    let mut parameter = Instruction::new("state", cx.shape(state).clone(), Opcode::Parameter, []);
    parameter
        .attributes
        .extend(cx.inst(id).attribute(&AttrKey::Metadata).map(|said| Attribute::new(AttrKey::Metadata, said.clone())));
    let parameter = cx.add(body, parameter.with_payload(Payload::Parameter(0)));
    let result = Writer { cx, at: parameter }.generator(&shape)?;
    cx.set_root(result);
    Some(cx.make(id, shape, Opcode::Call, &[state], [apply(body)]))
}

/// A number of 128 bits: its low and its high half.
type Wide = [Id; 2];

/// Writes one generator.
struct Writer<'c, 'g> {
    cx: &'c mut Cx<'g>,
    /// The state, in whose computation everything is written.
    at: Id,
}

impl Writer<'_, '_> {
    /// New state and bits.
    fn generator(&mut self, result: &Shape) -> Option<Id> {
        let bits = result.as_tuple()?.get(1)?.clone();
        let array = bits.as_array()?;
        let words = match array.element_type {
            U64 => i64::try_from(array.elements()?).ok()?.checked_mul(2)?,
            _ => i64::try_from(array.elements()?).ok()?,
        };
        let first = self.part(self.at, 0);
        let first = self.scalar(first);
        let long = self.cx.dims(self.at)[0] >= 3;
        let counter = if long { self.slice(self.at, 1, 3) } else { self.reversed() };
        let key = self.halves(first);
        let low = self.part(counter, 0);
        let low = self.scalar(low);
        let high = self.part(counter, 1);
        let high = self.scalar(high);
        let (low, high) = (self.halves(low), self.halves(high));
        let count = (words + 3) / 4;
        let (inputs, next) = self.counters(low, high, count);
        let outputs = self.rounds(inputs, key);
        let numbers = self.in_turn(&outputs, array.element_type, count, i64::try_from(array.elements()?).ok()?);
        let numbers = self.cx.reshape_to(self.at, numbers, array.dims.iter().copied());
        let numbers = if array.element_type.bits() < 32 {
            self.cx.convert(self.at, numbers, array.element_type)
        } else {
            numbers
        };
        let next = if long { next } else { self.slice(next, 0, 1) };
        let key = self.vector(first);
        let length = self.cx.dims(self.at)[0];
        let state = self.cx.concatenate(self.at, row_major(U64, [length]), &[key, next], 0);
        Some(self.cx.tuple(self.at, &[state, numbers]))
    }

    /// The words of the counters from a state on, and the state behind them.
    fn counters(&mut self, low: [Id; 2], high: [Id; 2], count: i64) -> ([Id; 4], Id) {
        let iota = self.cx.iota(self.at, row_major(U64, [count]), 0);
        let start = [self.joined(low), self.joined(high)];
        let [low, high] = self.advanced(start, iota);
        let (low, high) = (self.halves(low), self.halves(high));
        let count = self.cx.constant(self.at, U64, Scalar::Int(i128::from(count)));
        let [next_low, next_high] = self.advanced(start, count);
        let next = [self.vector(next_low), self.vector(next_high)];
        let next = self.cx.concatenate(self.at, row_major(U64, [2]), &next, 0);
        ([low[0], low[1], high[0], high[1]], next)
    }

    /// A number of 128 bits plus one or many of 64.
    fn advanced(&mut self, [low, high]: Wide, by: Id) -> Wide {
        let new_low = self.binary(Opcode::Add, by, low, true);
        let one = self.cx.constant(self.at, U64, Scalar::Int(1));
        let start = self.spread(low, new_low);
        let carries = self.cx.compare(self.at, new_low, start, "LT");
        let more = self.cx.binary(self.at, Opcode::Add, high, one);
        let shape = self.cx.shape(new_low).clone();
        let more = self.cx.broadcast(self.at, shape.clone(), more, &[]);
        let same = self.cx.broadcast(self.at, shape.clone(), high, &[]);
        [new_low, self.cx.elementwise(self.at, shape, Opcode::Select, &[carries, more, same])]
    }

    /// All rounds.
    fn rounds(&mut self, mut words: [Id; 4], mut key: [Id; 2]) -> [Id; 4] {
        for _ in 0..ROUNDS {
            let [low_a, high_a] = self.product(words[0], FACTORS[0]);
            let [low_b, high_b] = self.product(words[2], FACTORS[1]);
            words = [self.mixed(high_b, words[1], key[0]), low_b, self.mixed(high_a, words[3], key[1]), low_a];
            for (key, step) in key.iter_mut().zip(KEY_STEPS) {
                let step = self.cx.constant(self.at, U32, Scalar::Int(step));
                *key = self.cx.binary(self.at, Opcode::Add, *key, step);
            }
        }
        words
    }

    /// Low and high half of a product of words.
    fn product(&mut self, word: Id, factor: i128) -> [Id; 2] {
        let word = self.cx.convert(self.at, word, U64);
        let factor = self.cx.constant(self.at, U64, Scalar::Int(factor));
        let product = self.binary(Opcode::Multiply, word, factor, false);
        let low = self.cx.convert(self.at, product, U32);
        let high = self.shifted(Opcode::ShiftRightLogical, product);
        [low, self.cx.convert(self.at, high, U32)]
    }

    fn mixed(&mut self, a: Id, b: Id, key: Id) -> Id {
        let both = self.cx.binary(self.at, Opcode::Xor, a, b);
        self.binary(Opcode::Xor, both, key, false)
    }

    /// Words in turn, as numbers of the type that is asked for, as many as are asked for.
    fn in_turn(&mut self, words: &[Id; 4], element_type: ElementType, count: i64, wanted: i64) -> Id {
        let (columns, kind) = match (element_type, words) {
            (U64, &[a, b, c, d]) => (vec![self.joined([a, b]), self.joined([c, d])], U64),
            _ => (words.to_vec(), U32),
        };
        let width = columns.len() as i64;
        let columns: Vec<Id> =
            columns.into_iter().map(|column| self.cx.reshape_to(self.at, column, [count, 1])).collect();
        let table = self.cx.concatenate(self.at, row_major(kind, [count, width]), &columns, 1);
        let row = self.cx.reshape_to(self.at, table, [count * width]);
        self.slice(row, 0, wanted)
    }

    /// The two words of numbers of 64 bits, the low one first.
    fn halves(&mut self, number: Id) -> [Id; 2] {
        let low = self.cx.convert(self.at, number, U32);
        let high = self.shifted(Opcode::ShiftRightLogical, number);
        [low, self.cx.convert(self.at, high, U32)]
    }

    /// Numbers of 64 bits made of two words.
    fn joined(&mut self, [low, high]: [Id; 2]) -> Id {
        let low = self.cx.convert(self.at, low, U64);
        let high = self.cx.convert(self.at, high, U64);
        let high = self.shifted(Opcode::ShiftLeft, high);
        self.cx.binary(self.at, Opcode::Or, low, high)
    }

    /// By half the bits of a number.
    fn shifted(&mut self, opcode: Opcode, number: Id) -> Id {
        let distance = self.cx.constant(self.at, U64, Scalar::Int(32));
        self.binary(opcode, number, distance, false)
    }

    /// An operation on numbers and a scalar, or the other way round.
    fn binary(&mut self, opcode: Opcode, many: Id, scalar: Id, swapped: bool) -> Id {
        let spread = self.spread(scalar, many);
        let (a, b) = if swapped { (spread, many) } else { (many, spread) };
        self.cx.binary(self.at, opcode, a, b)
    }

    /// A scalar in the shape of other numbers.
    fn spread(&mut self, scalar: Id, like: Id) -> Id {
        if self.cx.is_scalar(like) {
            return scalar;
        }
        let shape = row_major(self.cx.element_type(scalar), self.cx.dims(like));
        self.cx.broadcast(self.at, shape, scalar, &[])
    }

    fn scalar(&mut self, vector: Id) -> Id {
        self.cx.reshape_to(self.at, vector, [])
    }

    fn vector(&mut self, scalar: Id) -> Id {
        self.cx.reshape_to(self.at, scalar, [1])
    }

    fn part(&mut self, vector: Id, index: i64) -> Id {
        self.slice(vector, index, index + 1)
    }

    fn slice(&mut self, vector: Id, start: i64, limit: i64) -> Id {
        let shape = row_major(self.cx.element_type(vector), [limit - start]);
        self.cx.slice(self.at, shape, vector, vec![SliceDim { start, limit, stride: 1 }])
    }

    fn reversed(&mut self) -> Id {
        let shape = self.cx.shape(self.at).clone();
        self.cx.make(self.at, shape, Opcode::Reverse, &[self.at], [dimensions([0])])
    }
}
