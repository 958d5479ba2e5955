//! Which integers an element of an array can be.
//!
//! [`Ranges`] answers for any value of a module, or for a [`Region`] of it such as one column, with a [`Range`]: a few disjoint intervals
//! in wide integers. The answer is sound: an element may take fewer values, never others. Where nothing is known the answer is the whole
//! element type, and an operation that may wrap around yields the whole type too. Elements of other types than integers and `pred` are
//! never followed: a float can be NaN, and converting it gives anything.
//!
//! How it works, one file each:
//! - [`arithmetic`]: elementwise operations on ranges;
//! - [`movement`]: operations that move elements map the region asked for to regions of their operands, so columns stay apart;
//! - [`refine`]: in `select(i < 0, i + d, i)` each branch is evaluated under what the condition says;
//! - [`calls`]: values flow into and out of calls, fusions, conditionals, reducers, comparators and combiners;
//! - [`loops`]: invariants of `while` states: carried values, counters, and sets that the body does not leave.
//!
//! Evaluation runs from the question to its sources, remembers what it found, and is bounded: a question that would take too many steps
//! or nest too deeply is answered with the whole type.

// Tests: `passes/tests/range.rs`, `passes/tests/range_property.rs`.

mod arithmetic;
mod calls;
mod literal;
mod loops;
mod movement;
mod refine;
mod region;
mod set;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::graph::Callers;
use hlo_ir::{ArrayShape, ComputationId, InstructionId, Module, Opcode, graph};
use smallvec::SmallVec;

pub use region::Region;
pub use set::Range;

use crate::bounds;

/// Position of an array in a nested tuple.
type Path = SmallVec<[i64; 2]>;

/// What is asked about: the elements in a region of one array of an instruction's result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Value {
    id: InstructionId,
    path: Path,
    region: Region,
}

/// Where the parameters of a computation get their values from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Frame {
    /// From everybody who calls it.
    Anywhere,
    /// From the operands of `site`, beginning with operand `first`, evaluated in `parent`.
    Call { callee: ComputationId, site: InstructionId, first: usize, parent: FrameId },
    /// From assumptions: parameter number, path and range.
    Assume { callee: ComputationId, known: Vec<(i64, Path, Range)> },
    /// From the state of a loop whose operand is evaluated in `parent`; assumptions come first.
    Loop { callee: ComputationId, site: InstructionId, parent: FrameId, known: Option<(Path, Range)> },
}

/// Index of a frame in [`Ranges::frames`].
type FrameId = usize;
/// The frame that every question starts in.
const ANYWHERE: FrameId = 0;

/// Answers questions about the values of one module.
#[derive(Debug)]
pub struct Ranges<'m> {
    module: &'m Module,
    callers: Callers,
    frames: IndexSet<Frame>,
    known: IndexMap<(FrameId, Value), Range>,
    steps_left: usize,
    level: usize,
}

impl<'m> Ranges<'m> {
    /// Nothing asked yet.
    pub fn new(module: &'m Module) -> Self {
        Self {
            module,
            callers: graph::callers(module),
            frames: IndexSet::from_iter([Frame::Anywhere]),
            known: IndexMap::default(),
            steps_left: bounds::CONE,
            level: 0,
        }
    }
    /// Values that elements of an array instruction can have. Everything for tuples and for floats.
    pub fn of(&mut self, id: InstructionId) -> Range {
        self.module
            .instruction(id)
            .array()
            .map_or_else(Range::all, |array| self.of_region(id, Region::full(&array.dims)))
    }
    /// Values that the elements in `region` of an array instruction can have.
    pub fn of_region(&mut self, id: InstructionId, region: Region) -> Range {
        self.steps_left = bounds::CONE;
        self.evaluate(ANYWHERE, Value { id, path: Path::new(), region })
    }

    /// The array that a value is a region of.
    fn array(&self, id: InstructionId, path: &[i64]) -> Option<&'m ArrayShape> {
        self.module.shape(id).at(path)?.as_array()
    }
    /// The whole of an array; `None` for tuples.
    fn whole(&self, id: InstructionId, path: &[i64]) -> Option<Value> {
        let region = Region::full(&self.array(id, path)?.dims);
        Some(Value { id, path: Path::from_slice(path), region })
    }
    /// Range of a whole array result.
    fn evaluate_whole(&mut self, frame: FrameId, id: InstructionId, path: &[i64]) -> Range {
        self.whole(id, path).map_or_else(Range::all, |value| self.evaluate(frame, value))
    }

    /// Range of a value, from memory if it was asked before.
    fn evaluate(&mut self, frame: FrameId, value: Value) -> Range {
        let Some(array) = self.array(value.id, &value.path) else { return Range::all() };
        let full = Range::full(array.element_type);
        if full == Range::all() {
            return full;
        }
        if self.steps_left == 0 || self.level == bounds::LEVELS {
            return self.constant(&value).unwrap_or(full);
        }
        let key = (frame, value);
        if let Some(range) = self.known.get(&key) {
            return range.clone();
        }
        self.steps_left -= 1;
        self.level += 1;
        let range = self.step(frame, &key.1).unwrap_or_else(|| full.clone()).intersect(&full);
        self.level -= 1;
        if self.steps_left > 0 {
            self.known.insert(key, range.clone());
        }
        range
    }

    /// Range of a constant, or of a broadcast one: what is still looked at where evaluation is cut off, so that the bounds that stop a
    /// long chain from growing are not lost with it.
    fn constant(&self, value: &Value) -> Option<Range> {
        let inst = self.module.instruction(value.id);
        let (inst, whole) = match (inst.opcode, &inst.operands[..]) {
            (Opcode::Broadcast, &[operand]) => (self.module.instruction(operand), true),
            _ => (inst, false),
        };
        let region = if whole { Region::full(&inst.array()?.dims) } else { value.region.clone() };
        literal::range(inst, &region)
    }

    /// One instruction's rule; `None` where nothing is known.
    fn step(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        use Opcode as O;
        let inst = self.module.instruction(value.id);
        match inst.opcode {
            O::Select => self.select(frame, value, &[]),
            opcode if opcode.is_elementwise() => {
                self.elementwise(frame, value, &mut |ranges, operand| ranges.same_place(frame, value, operand))
            }
            O::Parameter => self.parameter(frame, value),
            O::Call | O::Fusion | O::Conditional | O::Map => self.called(frame, value),
            O::Reduce | O::ReduceWindow => self.reduced(frame, value),
            O::Scatter => self.scattered(frame, value),
            O::Sort | O::TopK | O::CustomCall => self.sorted(frame, value),
            O::While => self.loop_result(frame, value),
            _ => self.moved(frame, value),
        }
    }

    /// Range of an elementwise operand at the place of `value`; of the whole operand if that is a scalar.
    fn same_place(&mut self, frame: FrameId, value: &Value, operand: InstructionId) -> Range {
        let Some(array) = self.array(operand, &[]) else { return Range::all() };
        let same = self.array(value.id, &value.path).is_some_and(|result| result.dims == array.dims);
        let region = if same { value.region.clone() } else { Region::full(&array.dims) };
        self.evaluate(frame, Value { id: operand, path: Path::new(), region })
    }

    /// An elementwise operation other than `select`; `range` gives the range of an operand.
    fn elementwise(
        &mut self,
        _frame: FrameId,
        value: &Value,
        range: &mut dyn FnMut(&mut Self, InstructionId) -> Range,
    ) -> Option<Range> {
        let inst = self.module.instruction(value.id);
        let to = self.array(value.id, &value.path)?.element_type;
        match (inst.opcode, &inst.operands[..]) {
            (Opcode::Compare, &[a, b]) => {
                let direction = inst.word(&hlo_ir::AttrKey::Direction)?;
                let (a, b) = (range(self, a), range(self, b));
                Some(arithmetic::compare(direction, &a, &b))
            }
            (Opcode::Clamp, &[low, x, high]) => {
                let (low, x, high) = (range(self, low), range(self, x), range(self, high));
                Some(arithmetic::clamp(to, &low, &x, &high))
            }
            (opcode, &[x]) => {
                let from = self.array(x, &[])?.element_type;
                let x = range(self, x);
                Some(arithmetic::unary(opcode, from, to, &x))
            }
            (opcode, &[a, b]) => {
                let (a, b) = (range(self, a), range(self, b));
                Some(arithmetic::binary(opcode, to, &a, &b))
            }
            _ => None,
        }
    }

    /// The id of a frame, which is new or was used before.
    fn frame(&mut self, frame: Frame) -> FrameId {
        self.frames.insert_full(frame).0
    }
}
