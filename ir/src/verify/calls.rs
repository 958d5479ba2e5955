//! V11: parameters and results of called computations.

use super::Verifier;
use crate::{AttrKey, ComputationId, ElementType, Instruction, Opcode, Shape};

/// V11.
pub(super) fn check(verifier: &Verifier<'_>, inst: &Instruction) -> Result<(), String> {
    use Opcode as O;
    let calls = Calls { verifier, inst };
    match inst.opcode {
        O::While => calls.while_loop(),
        O::Conditional => calls.conditional(),
        O::Call => calls.whole(&AttrKey::ToApply, &inst.shape),
        O::Fusion => calls.whole(&AttrKey::Calls, &inst.shape),
        O::AsyncStart => calls.async_start(),
        O::Reduce | O::ReduceWindow => calls.reduction(),
        O::Sort => calls.comparator(),
        O::Map => calls.scalars(&AttrKey::ToApply, &calls.element_types(0..inst.operands.len())),
        O::Scatter => calls.scatter_combiner(),
        O::SelectAndScatter => calls.select_and_scatter(),
        O::AllReduce | O::AllReduceStart | O::ReduceScatter => calls.takes(&AttrKey::ToApply, 2),
        _ => Ok(()),
    }
}

struct Calls<'v, 'm> {
    verifier: &'v Verifier<'m>,
    inst: &'v Instruction,
}

impl Calls<'_, '_> {
    fn operand(&self, index: usize) -> &Shape {
        self.verifier.module.shape(self.inst.operands[index])
    }
    fn result(&self, callee: ComputationId) -> &Shape {
        self.verifier.module.shape(self.verifier.module.computation(callee).root)
    }
    fn name(&self, callee: ComputationId) -> &str {
        &self.verifier.module.computation(callee).name
    }
    fn callee(&self, key: &AttrKey) -> Result<ComputationId, String> {
        self.inst.computation(key).ok_or_else(|| format!("attribute {} is missing", key.name()))
    }
    /// Element types of operands; `None` for one that is no array.
    fn element_types(&self, operands: std::ops::Range<usize>) -> Vec<Option<ElementType>> {
        operands.map(|index| self.operand(index).as_array().map(|array| array.element_type)).collect()
    }

    /// The computation takes `count` parameters.
    fn takes(&self, key: &AttrKey, count: usize) -> Result<(), String> {
        let callee = self.callee(key)?;
        let parameters = self.verifier.parameters[callee].len();
        if parameters == count {
            return Ok(());
        }
        Err(format!("`{}` takes {parameters} parameters, not {count}", self.name(callee)))
    }
    /// The computation takes parameters of exactly these shapes.
    fn takes_shapes<'s>(
        &self,
        callee: ComputationId,
        shapes: impl ExactSizeIterator<Item = &'s Shape>,
    ) -> Result<(), String> {
        let parameters = &self.verifier.parameters[callee];
        if parameters.len() != shapes.len() {
            let (has, needs) = (parameters.len(), shapes.len());
            return Err(format!("`{}` takes {has} parameters, but is given {needs}", self.name(callee)));
        }
        for (index, (&parameter, given)) in parameters.iter().zip(shapes).enumerate() {
            let taken = self.verifier.module.shape(parameter);
            if !taken.compatible(given) {
                let (taken, given) = (taken.without_layout(), given.without_layout());
                return Err(format!("parameter {index} of `{}` is {taken}, but is given {given}", self.name(callee)));
            }
        }
        Ok(())
    }
    /// The computation returns this shape.
    fn returns(&self, callee: ComputationId, wanted: &Shape) -> Result<(), String> {
        let result = self.result(callee);
        if result.compatible(wanted) {
            return Ok(());
        }
        let (result, wanted) = (result.without_layout(), wanted.without_layout());
        Err(format!("`{}` returns {result}, not {wanted}", self.name(callee)))
    }

    /// A computation that takes all operands and returns `result`.
    fn whole(&self, key: &AttrKey, result: &Shape) -> Result<(), String> {
        let callee = self.callee(key)?;
        self.takes_shapes(callee, (0..self.inst.operands.len()).map(|index| self.operand(index)))?;
        self.returns(callee, result)
    }

    /// The start returns operands, result and whatever state there is.
    fn async_start(&self) -> Result<(), String> {
        match (self.inst.computation(&AttrKey::Calls), self.inst.shape.at(&[1])) {
            (None, _) => Ok(()),
            (Some(_), Some(result)) => self.whole(&AttrKey::Calls, result),
            (Some(_), None) => Err(format!("the shape {} has no element for the result", self.inst.shape)),
        }
    }

    fn while_loop(&self) -> Result<(), String> {
        let (condition, body) = (self.callee(&AttrKey::Condition)?, self.callee(&AttrKey::Body)?);
        let state = self.operand(0);
        self.takes_shapes(condition, std::iter::once(state))?;
        self.takes_shapes(body, std::iter::once(state))?;
        self.returns(condition, &Shape::array(ElementType::Pred, []))?;
        self.returns(body, state)
    }

    fn conditional(&self) -> Result<(), String> {
        let branches: Vec<ComputationId> = self.inst.called_computations().collect();
        let by_index = self.inst.attribute(&AttrKey::BranchComputations).is_some();
        let index_type = if by_index { ElementType::S32 } else { ElementType::Pred };
        if !self.operand(0).compatible(&Shape::array(index_type, [])) {
            return Err(format!("operand 0 has shape {}, but must be {}[]", self.operand(0), index_type.name()));
        }
        if self.inst.operands.len() != branches.len() + 1 {
            let operands = self.inst.operands.len();
            return Err(format!("{} branches need {} operands, not {operands}", branches.len(), branches.len() + 1));
        }
        for (index, &branch) in branches.iter().enumerate() {
            self.takes_shapes(branch, std::iter::once(self.operand(index + 1)))?;
            self.returns(branch, &self.inst.shape)?;
        }
        Ok(())
    }

    /// The computation takes scalars of these types (`None`: any).
    fn scalars(&self, key: &AttrKey, types: &[Option<ElementType>]) -> Result<(), String> {
        self.takes(key, types.len())?;
        let callee = self.callee(key)?;
        for (index, (&parameter, &wanted)) in self.verifier.parameters[callee].iter().zip(types).enumerate() {
            let shape = self.verifier.module.shape(parameter);
            let scalar = shape.as_array().filter(|array| array.is_scalar()).map(|array| array.element_type);
            if scalar.is_none() || wanted.is_some() && scalar != wanted {
                let wanted = wanted.map_or("a scalar", ElementType::name);
                let name = self.name(callee);
                return Err(format!("parameter {index} of `{name}` is {shape}, but is given {wanted}"));
            }
        }
        Ok(())
    }
    /// The computation returns a scalar of this type, or a tuple of scalars if there are several.
    fn returns_scalars(&self, key: &AttrKey, types: &[Option<ElementType>]) -> Result<(), String> {
        let callee = self.callee(key)?;
        let result = self.result(callee);
        let is = |shape: &Shape, wanted: Option<ElementType>| {
            let scalar = shape.as_array().filter(|array| array.is_scalar());
            scalar.is_some_and(|array| wanted.is_none_or(|wanted| array.element_type == wanted))
        };
        let fits = match (result.as_tuple(), types) {
            (None, &[wanted]) => is(result, wanted),
            (Some(elements), _) => {
                elements.len() == types.len() && elements.iter().zip(types).all(|(shape, &wanted)| is(shape, wanted))
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(format!("`{}` returns {result}, which does not fit", self.name(callee))) }
    }

    /// Accumulators first, then elements; the result is accumulators.
    fn reduction(&self) -> Result<(), String> {
        let count = self.inst.operands.len() / 2;
        let accumulators = self.element_types(count..2 * count);
        let both: Vec<_> = accumulators.iter().copied().chain(self.element_types(0..count)).collect();
        self.scalars(&AttrKey::ToApply, &both)?;
        self.returns_scalars(&AttrKey::ToApply, &accumulators)
    }

    /// Two elements of each operand; the result is whether the first goes first.
    fn comparator(&self) -> Result<(), String> {
        let types = self.element_types(0..self.inst.operands.len());
        let pairs: Vec<_> = types.into_iter().flat_map(|element_type| [element_type, element_type]).collect();
        self.scalars(&AttrKey::ToApply, &pairs)?;
        self.returns_scalars(&AttrKey::ToApply, &[Some(ElementType::Pred)])
    }

    /// Old elements first, then updates; the result is new elements.
    fn scatter_combiner(&self) -> Result<(), String> {
        let types = self.element_types(0..self.inst.operands.len() / 2);
        let both: Vec<_> = types.iter().chain(&types).copied().collect();
        self.scalars(&AttrKey::ToApply, &both)?;
        self.returns_scalars(&AttrKey::ToApply, &types)
    }

    fn select_and_scatter(&self) -> Result<(), String> {
        let element = self.element_types(0..1)[0];
        self.scalars(&AttrKey::Select, &[element, element])?;
        self.returns_scalars(&AttrKey::Select, &[Some(ElementType::Pred)])?;
        self.scalars(&AttrKey::ScatterComputation, &[element, element])?;
        self.returns_scalars(&AttrKey::ScatterComputation, &[element])
    }
}
