//! Values that cross the border of a computation: calls, fusions, branches, mapped functions, reducers, comparators and combiners.

// Tests: `passes/tests/range.rs`.

use hlo_ir::{AttrKey, ComputationId, Instruction, InstructionId, Opcode};

use super::{ANYWHERE, Frame, FrameId, Path, Range, Ranges, Region, Value};

impl Ranges<'_> {
    /// A parameter has the values its computation is called with.
    pub(super) fn parameter(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        let inst = self.module.instruction(value.id);
        let number = inst.parameter_number()?;
        let (at, frame) = (frame, self.frames.get_index(frame)?.clone());
        match frame {
            Frame::Call { callee, site, first, parent } if callee == inst.parent => {
                let operand = first.checked_add(usize::try_from(number).ok()?)?;
                let id = *self.module.instruction(site).operands.get(operand)?;
                Some(self.evaluate(parent, Value { id, ..value.clone() }))
            }
            Frame::Assume { callee, known } if callee == inst.parent => {
                known.into_iter().find(|(n, path, _)| *n == number && *path == value.path).map(|(_, _, range)| range)
            }
            Frame::Loop { callee, .. } if callee == inst.parent => self.loop_state(at, value),
            _ => self.parameter_of_any_caller(value, number),
        }
    }

    /// The union over everybody who calls the computation of a parameter; nothing is known of the entry and of applied functions.
    fn parameter_of_any_caller(&mut self, value: &Value, number: i64) -> Option<Range> {
        let callee = self.module.instruction(value.id).parent;
        let sites = self.callers[callee].clone();
        if callee == self.module.entry() || sites.is_empty() {
            return None;
        }
        let mut range = Range::empty();
        for site in sites {
            range = range.union(&self.argument(site, callee, number, value)?);
        }
        Some(range)
    }

    /// What one caller gives to a parameter.
    fn argument(&mut self, site: InstructionId, callee: ComputationId, number: i64, value: &Value) -> Option<Range> {
        let inst = self.module.instruction(site);
        let number = usize::try_from(number).ok()?;
        match inst.opcode {
            Opcode::Call | Opcode::Fusion => {
                let id = *inst.operands.get(number)?;
                Some(self.evaluate(ANYWHERE, Value { id, ..value.clone() }))
            }
            Opcode::Conditional => {
                let mut range = Range::empty();
                for (branch, computation) in bodies(inst).into_iter().enumerate() {
                    if computation == callee {
                        let id = *inst.operands.get(branch + 1)?;
                        range = range.union(&self.evaluate(ANYWHERE, Value { id, ..value.clone() }));
                    }
                }
                Some(range)
            }
            Opcode::While => {
                let frame = self.frame(Frame::Loop { callee, site, parent: ANYWHERE, known: None });
                self.loop_argument(frame, value)
            }
            _ => None,
        }
    }

    /// The result of a call, fusion, conditional or map.
    pub(super) fn called(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        let inst = self.module.instruction(value.id);
        let mut range = Range::empty();
        for (branch, callee) in bodies(inst).into_iter().enumerate() {
            let inner = match inst.opcode {
                Opcode::Map => {
                    let ranges = inst.operands.iter().map(|&operand| self.same_place(frame, value, operand));
                    let known = ranges.enumerate().map(|(number, range)| (number as i64, Path::new(), range)).collect();
                    Frame::Assume { callee, known }
                }
                Opcode::Conditional => Frame::Call { callee, site: value.id, first: branch + 1, parent: frame },
                _ => Frame::Call { callee, site: value.id, first: 0, parent: frame },
            };
            let inner = self.frame(inner);
            let root = self.module.computation(callee).root;
            let region = self.region_of_root(root, value)?;
            let path = value.path.clone();
            range = range.union(&self.evaluate(inner, Value { id: root, path, region }));
        }
        (!range.is_empty()).then_some(range)
    }

    /// The region asked for, if the root has the shape of the result; the root of a mapped function is a scalar.
    fn region_of_root(&self, root: InstructionId, value: &Value) -> Option<Region> {
        let dims = &self.array(root, &value.path)?.dims;
        let same = self.array(value.id, &value.path).is_some_and(|result| result.dims == *dims);
        Some(if same { value.region.clone() } else { Region::full(dims) })
    }

    /// A reduction: operands, initial values and partial results stay inside a set that the reducer does not leave.
    pub(super) fn reduced(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        let inst = self.module.instruction(value.id);
        let count = inst.operands.len() / 2;
        let which = value.path.first().map_or(0, |&index| index as usize);
        let (operand, initial) = (*inst.operands.get(which)?, *inst.operands.get(count + which)?);
        let sizes = &self.array(operand, &[])?.dims;
        let reduced = inst.ints(&AttrKey::Dimensions);
        let region = match inst.opcode {
            Opcode::Reduce => value.region.through_reduce(reduced, sizes),
            _ => Region::full(sizes),
        };
        let elements = self.evaluate(frame, Value { id: operand, path: Path::new(), region });
        let initial = self.evaluate_whole(frame, initial, &[]);
        let callee = inst.computation(&AttrKey::ToApply)?;
        let all = elements.union(&initial);
        if self.is_closed(callee, count, which, &value.path, &all) {
            return Some(all);
        }
        let terms = reduced.iter().try_fold(1_i128, |product, &dim| product.checked_mul(sizes[dim as usize].into()))?;
        let sums = inst.opcode == Opcode::Reduce && count == 1 && initial == Range::point(0) && self.adds(callee);
        if !sums {
            return None;
        }
        let full = Range::full(self.array(value.id, &value.path)?.element_type);
        let (low, high) = elements.hull()?;
        let sum = Range::new(low.checked_mul(terms)?.min(0), high.checked_mul(terms)?.max(0));
        // No partial sum lies outside either, so nothing wrapped on the way.
        sum.is_subset(&full).then_some(sum)
    }

    /// Whether a function of `2 * count` parameters, applied to elements of `range`, gives elements of `range` again.
    fn is_closed(&mut self, callee: ComputationId, count: usize, which: usize, path: &Path, range: &Range) -> bool {
        let numbers = [which, count + which];
        let known = numbers.map(|number| (number as i64, Path::new(), range.clone())).to_vec();
        let frame = self.frame(Frame::Assume { callee, known });
        let root = self.module.computation(callee).root;
        self.evaluate_whole(frame, root, path).is_subset(range)
    }

    /// Whether a function adds its two parameters.
    fn adds(&self, callee: ComputationId) -> bool {
        let root = self.module.instruction(self.module.computation(callee).root);
        let mut numbers: Vec<_> =
            root.operands.iter().map(|&operand| self.module.instruction(operand).parameter_number()).collect();
        numbers.sort_unstable();
        root.opcode == Opcode::Add && numbers == [Some(0), Some(1)]
    }

    /// A scatter: elements of the operand and the updates, combined by a function that does not leave their union.
    pub(super) fn scattered(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        let inst = self.module.instruction(value.id);
        let count = inst.operands.len() / 2;
        let which = value.path.first().map_or(0, |&index| index as usize);
        let (operand, update) = (*inst.operands.get(which)?, *inst.operands.get(count + 1 + which)?);
        let kept = self.evaluate(frame, Value { id: operand, path: Path::new(), region: value.region.clone() });
        let all = kept.union(&self.evaluate_whole(frame, update, &[]));
        let callee = inst.computation(&AttrKey::ToApply)?;
        self.is_closed(callee, count, which, &value.path, &all).then_some(all)
    }

    /// Sorting permutes along one dimension; the second result of a top-k are positions in its last dimension.
    pub(super) fn sorted(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        let inst = self.module.instruction(value.id);
        let which = value.path.first().map_or(0, |&index| index as usize);
        let is_top_k = inst.opcode == Opcode::TopK
            || inst.raw(&AttrKey::CustomCallTarget).is_some_and(|target| target.trim_matches('"') == "TopK");
        if inst.opcode == Opcode::Sort {
            let dim = usize::try_from(*inst.ints(&AttrKey::Dimensions).first()?).ok()?;
            let id = *inst.operands.get(which)?;
            let size = *self.array(id, &[])?.dims.get(dim)?;
            let region = value.region.clone().with(dim, 0, size);
            return Some(self.evaluate(frame, Value { id, path: Path::new(), region }));
        }
        let operand = *inst.operands.first()?;
        match (is_top_k, which) {
            (true, 0) => Some(self.evaluate_whole(frame, operand, &[])),
            (true, 1) => Some(Range::new(0, i128::from(*self.array(operand, &[])?.dims.last()?) - 1)),
            _ => None,
        }
    }
}

/// The computations whose results an instruction returns; branches in the order of their operands, whatever the order of the text.
fn bodies(inst: &Instruction) -> Vec<ComputationId> {
    let two = [&AttrKey::TrueComputation, &AttrKey::FalseComputation].map(|key| inst.computation(key));
    match two {
        [Some(on_true), Some(on_false)] => vec![on_true, on_false],
        _ => inst.called_computations().collect(),
    }
}
