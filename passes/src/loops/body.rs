//! One side of a loop: what its values are as functions of the number of the step.

use std::collections::BTreeMap;

use hlo_ir::literal::scalar_integer;
use hlo_ir::{AttrKey, ComputationId, ElementType, InstructionId, Module, Opcode};

use crate::flow::{Frames, Value};

/// What an element of the state is in step `t`: `start + step * t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counter {
    /// 1 or -1.
    pub(crate) step: i64,
    /// Its initial value.
    pub(crate) start: i64,
}

/// The order in which the steps of a loop go through rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Step `t` looks at row `t`.
    Forward,
    /// Step `t` looks at the row that is `t` before the last.
    Backward,
}

/// Numbers below this, and sums of them with counters of as many steps, fit an `s32`.
pub(crate) const LARGEST_COUNT: i64 = 1 << 30;

/// One side of a loop, calls looked through.
pub(crate) struct Body {
    pub(crate) frames: Frames,
    pub(crate) parameter: InstructionId,
    /// Operands of the root tuple; empty for a condition.
    pub(crate) results: Vec<InstructionId>,
    /// Elements that follow from the number of the step.
    pub(crate) counters: BTreeMap<usize, Counter>,
    /// How many steps there are, if that is known.
    pub(crate) steps: Option<i64>,
}

impl Body {
    /// The body or condition `computation`, without its counters.
    pub(crate) fn new(module: &Module, computation: ComputationId) -> Option<Self> {
        let [parameter] = module.parameters(computation)[..] else { return None };
        let root = module.instruction(module.computation(computation).root);
        let results = if root.opcode == Opcode::Tuple { root.operands.to_vec() } else { Vec::new() };
        Some(Self { frames: Frames::new(Vec::new()), parameter, results, counters: BTreeMap::new(), steps: None })
    }
    /// The value an instruction of `value`'s chain of calls stands for.
    pub(crate) fn resolve(&mut self, module: &Module, inst: InstructionId, like: Value) -> Value {
        self.frames.resolve(module, inst, like.frame)
    }
    /// The value of an instruction of the computation itself.
    pub(crate) fn top(&mut self, module: &Module, inst: InstructionId) -> Value {
        self.frames.resolve(module, inst, 0)
    }
    /// The element of the state that a value is, as it was when the step began.
    pub(crate) fn element(&self, module: &Module, value: Value) -> Option<usize> {
        let inst = module.instruction(value.inst);
        let state = value.frame == 0 && inst.opcode == Opcode::GetTupleElement && inst.operands[0] == self.parameter;
        state.then(|| inst.int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok())).flatten()
    }
    /// Whether a step forwards an element unchanged.
    pub(crate) fn forwards(&mut self, module: &Module, element: usize) -> bool {
        let Some(&result) = self.results.get(element) else { return false };
        let value = self.top(module, result);
        self.element(module, value) == Some(element)
    }
    /// What a step makes of an element, if it is an array.
    pub(crate) fn next(&mut self, module: &Module, element: usize) -> Option<Value> {
        let value = self.top(module, *self.results.get(element)?);
        module.instruction(value.inst).array().is_some().then_some(value)
    }
    /// Behind any number of reshapes.
    pub(crate) fn strip(&mut self, module: &Module, mut value: Value) -> Value {
        while module.instruction(value.inst).opcode == Opcode::Reshape {
            value = self.resolve(module, module.instruction(value.inst).operands[0], value);
        }
        value
    }
    fn is_integer(&mut self, module: &Module, id: InstructionId, like: Value, wanted: i64) -> bool {
        let value = self.resolve(module, id, like);
        scalar_integer(module.instruction(value.inst)) == Some(i128::from(wanted))
    }
    /// The start of a row: what stands before only zeros in the operands of a `dynamic-slice` or `dynamic-update-slice`.
    pub(crate) fn row_start(&mut self, module: &Module, value: Value, first: usize) -> Option<Value> {
        let starts = module.instruction(value.inst).operands.get(first..)?;
        let (&row, others) = starts.split_first()?;
        let zeros = others.iter().all(|&start| self.is_integer(module, start, value, 0));
        zeros.then(|| self.resolve(module, row, value))
    }
    /// Whether an element is the number of the step.
    pub(crate) fn counts(&self, element: usize) -> bool {
        self.counters.get(&element) == Some(&Counter { step: 1, start: 0 })
    }
    /// The number of a row that a step looks at, if it goes through all rows.
    pub(crate) fn order(&mut self, module: &Module, number: Value, rows: i64) -> Option<Order> {
        match self.affine(module, number)? {
            (1, 0) => Some(Order::Forward),
            (-1, last) if last == rows - 1 => Some(Order::Backward),
            _ => None,
        }
    }
    /// A value as a multiple of the number of the step and a constant, where nothing can overflow.
    pub(crate) fn affine(&mut self, module: &Module, value: Value) -> Option<(i64, i64)> {
        let value = self.strip(module, value);
        let inst = module.instruction(value.inst);
        if let Some(element) = self.element(module, value) {
            return self.counters.get(&element).map(|counter| (counter.step, counter.start));
        }
        if let Some(constant) = scalar_integer(inst) {
            return i32::try_from(constant).ok().map(|constant| (0, constant.into()));
        }
        let signed =
            inst.array().is_some_and(|array| matches!(array.element_type, ElementType::S32 | ElementType::S64));
        let sign = match inst.opcode {
            Opcode::Add => 1,
            Opcode::Subtract => -1,
            Opcode::Select => {
                let holds = self.always(module, value)?;
                let chosen = self.resolve(module, inst.operands[if holds { 1 } else { 2 }], value);
                return self.affine(module, chosen);
            }
            _ => return None,
        };
        let left = self.resolve(module, inst.operands[0], value);
        let right = self.resolve(module, inst.operands[1], value);
        let (left, right) = (self.affine(module, left)?, self.affine(module, right)?);
        let sum = (left.0 + sign * right.0, left.1 + sign * right.1);
        (signed && sum.0.abs() <= 1 && sum.1.abs() <= LARGEST_COUNT).then_some(sum)
    }
    /// Whether the predicate of a `select` holds in every step, or in none.
    fn always(&mut self, module: &Module, select: Value) -> Option<bool> {
        let last = self.steps.filter(|steps| (1..=LARGEST_COUNT).contains(steps))? - 1;
        let predicate = self.resolve(module, module.instruction(select.inst).operands[0], select);
        let predicate = self.strip(module, predicate);
        let compare = module.instruction(predicate.inst);
        let direction = compare.word(&AttrKey::Direction).filter(|_| compare.opcode == Opcode::Compare)?;
        let left = self.resolve(module, compare.operands[0], predicate);
        let right = self.resolve(module, compare.operands[1], predicate);
        let (left, right) = (self.affine(module, left)?, self.affine(module, right)?);
        // The difference is a straight line: what holds at both ends holds between them.
        let holds = [0, last].map(|t| {
            let difference = (left.0 - right.0) * t + left.1 - right.1;
            match direction {
                "LT" => Some(difference < 0),
                "LE" => Some(difference <= 0),
                "GT" => Some(difference > 0),
                "GE" => Some(difference >= 0),
                _ => None,
            }
        });
        holds[0].filter(|_| holds[0] == holds[1])
    }
}
