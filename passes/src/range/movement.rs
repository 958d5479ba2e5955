//! Operations that move elements: the region asked for is mapped to regions of the operands.

// Tests: `passes/tests/range.rs`.

use hlo_ir::{AttrKey, AttrValue, InstructionId, Opcode};

use super::{FrameId, Path, Range, Ranges, Region, Value, literal};

impl Ranges<'_> {
    /// Rules for constants, iota and data movement.
    pub(super) fn moved(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        let inst = self.module.instruction(value.id);
        let first = inst.operands.first().copied();
        match inst.opcode {
            Opcode::Tuple => self.element(frame, value),
            Opcode::GetTupleElement => {
                let mut path = Path::from_slice(&[inst.int(&AttrKey::Index)?]);
                path.extend_from_slice(&value.path);
                Some(self.evaluate(frame, Value { id: first?, path, region: value.region.clone() }))
            }
            Opcode::OptBarrier => Some(self.evaluate(frame, Value { id: first?, ..value.clone() })),
            Opcode::Constant => literal::range(inst, &value.region),
            Opcode::Iota => {
                let dim = usize::try_from(inst.int(&AttrKey::IotaDimension)?).ok()?;
                let (low, high) = *value.region.bounds().get(dim)?;
                let full = Range::full(inst.array()?.element_type);
                Some(Range::new(low.into(), i128::from(high) - 1)).filter(|range| range.is_subset(&full))
            }
            Opcode::GetDimensionSize => {
                let dim = *inst.ints(&AttrKey::Dimensions).first()?;
                let bound = *self.array(first?, &[])?.dims.get(usize::try_from(dim).ok()?)?;
                (bound >= 0).then(|| Range::new(0, bound.into()))
            }
            Opcode::Concatenate => self.concatenated(frame, value),
            Opcode::Pad => {
                // An element is one of the operand's or the padding value.
                let [operand, padding] = inst.operands[..] else { return None };
                Some(self.evaluate_whole(frame, operand, &[]).union(&self.evaluate_whole(frame, padding, &[])))
            }
            Opcode::DynamicUpdateSlice => {
                let [operand, update, ..] = inst.operands[..] else { return None };
                let kept = self.evaluate(frame, Value { id: operand, ..value.clone() });
                Some(kept.union(&self.evaluate_whole(frame, update, &[])))
            }
            // Start indices are clamped, so every element comes from the operand.
            Opcode::Gather => Some(self.evaluate_whole(frame, first?, &[])),
            _ => {
                let (operand, region) = self.source(value)?;
                Some(self.evaluate(frame, Value { id: operand, path: Path::new(), region }))
            }
        }
    }

    /// The region of the only operand that elements come from.
    fn source(&self, value: &Value) -> Option<(InstructionId, Region)> {
        let inst = self.module.instruction(value.id);
        let (operand, region) = (*inst.operands.first()?, &value.region);
        let (from, to) = (self.array(operand, &[])?, inst.array()?);
        let dimensions = inst.ints(&AttrKey::Dimensions);
        let region = match inst.opcode {
            Opcode::Slice => {
                let AttrValue::Slice(slices) = inst.attribute(&AttrKey::Slice)? else { return None };
                region.through_slice(slices)
            }
            Opcode::DynamicSlice => {
                let sizes = from.dims.iter().zip(&to.dims).enumerate().filter(|(_, (from, to))| from != to);
                sizes.fold(region.clone(), |region, (dim, (&from, _))| region.with(dim, 0, from))
            }
            Opcode::Transpose => region.through_transpose(dimensions),
            Opcode::Broadcast => region.through_broadcast(dimensions),
            Opcode::Reverse => region.through_reverse(dimensions, &from.dims),
            Opcode::Reshape => region.through_reshape(&to.dims, &from.dims),
            Opcode::Bitcast if from.element_type == to.element_type => Region::full(&from.dims),
            _ => return None,
        };
        Some((operand, region))
    }

    fn element(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        let (&index, rest) = value.path.split_first()?;
        let id = *self.module.instruction(value.id).operands.get(usize::try_from(index).ok()?)?;
        Some(self.evaluate(frame, Value { id, path: Path::from_slice(rest), region: value.region.clone() }))
    }

    fn concatenated(&mut self, frame: FrameId, value: &Value) -> Option<Range> {
        let inst = self.module.instruction(value.id);
        let dim = usize::try_from(*inst.ints(&AttrKey::Dimensions).first()?).ok()?;
        let sizes: Option<Vec<i64>> =
            inst.operands.iter().map(|&operand| self.array(operand, &[])?.dims.get(dim).copied()).collect();
        let mut range = Range::empty();
        for (operand, region) in value.region.through_concatenate(dim, &sizes?) {
            let id = inst.operands[operand];
            range = range.union(&self.evaluate(frame, Value { id, path: Path::new(), region }));
        }
        Some(range)
    }
}
