//! Where the components of an index come from: which element of which array, and what was done to it on the way.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::literal::Literal;
use hlo_ir::{AttrKey, AttrValue, ElementType, InstructionId, Module, Opcode};

use super::affine::{self, Affine};
use super::piecewise::{Image, Piecewise};
use crate::bounds;

/// One element of an index array as a function of one element of a source array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    /// Row-major position of the element in the source, for every row.
    pub(super) at: Affine,
    /// What was done to it.
    pub(super) function: Piecewise,
    /// Whether the element is what the program gave as an index: only the last wrap-around of negative indices, and a clamp behind it,
    /// lie between. Other arithmetic is the program's own, and a promise about indices does not speak of what comes before it.
    pub(super) as_given: bool,
}

/// An element found on the way from the index to the source.
#[derive(Clone, Debug)]
enum Element {
    /// The same for every row.
    Constant(i128),
    /// A function of an element of the source.
    Of(Origin),
}

/// Follows elements of an index array back to one source array.
pub(super) struct Tracer<'m> {
    module: &'m Module,
    source: InstructionId,
    /// Sizes of the row dimensions.
    rows: &'m [i64],
    known: IndexMap<(InstructionId, Affine), Option<Element>>,
    level: usize,
}

impl<'m> Tracer<'m> {
    /// Follows to `source`, for rows of these sizes.
    pub(super) fn new(module: &'m Module, source: InstructionId, rows: &'m [i64]) -> Self {
        Self { module, source, rows, known: IndexMap::default(), level: 0 }
    }
    /// The element of `id` at this position as a function of one element of the source. `size` is that of the dimension it points into.
    pub(super) fn trace(&mut self, id: InstructionId, at: &Affine, size: i128) -> Option<Origin> {
        match self.element(id, at)? {
            Element::Of(origin) => Some(Origin { as_given: self.is_given(id, at, size), ..origin }),
            Element::Constant(_) => None,
        }
    }

    /// Whether the last `select` on the way to the element chooses between a value of the source and another one.
    fn is_given(&mut self, mut id: InstructionId, at: &Affine, size: i128) -> bool {
        let mut at = at.clone();
        for _ in 0..bounds::LEVELS {
            let inst = self.module.instruction(id);
            if inst.opcode == Opcode::Select {
                let near = |piece: &&(i128, i128, Image)| piece.0 < size && piece.1 >= -4 * size;
                return inst.operands[1..].iter().any(|&branch| match self.element(branch, &at) {
                    Some(Element::Of(origin)) => {
                        origin.function.pieces().iter().filter(near).all(|piece| piece.2 == Image::Shift(0))
                    }
                    _ => false,
                });
            }
            match self.before_select(id, &at) {
                Some(before) => (id, at) = before,
                None => return false,
            }
        }
        false
    }

    /// One step back over moves, converts and bounds by constants.
    fn before_select(&mut self, id: InstructionId, at: &Affine) -> Option<(InstructionId, Affine)> {
        let inst = self.module.instruction(id);
        let same_place = |id: &InstructionId| Some((*id, at.clone()));
        match inst.opcode {
            Opcode::Concatenate => self.concatenated(id, at),
            Opcode::GetTupleElement => same_place(&element_of_tuple(self.module, id)?),
            Opcode::Convert | Opcode::Copy => same_place(inst.operands.first()?),
            Opcode::Clamp => same_place(inst.operands.get(1)?),
            Opcode::Minimum | Opcode::Maximum => {
                let mut varying =
                    inst.operands.iter().filter(|&&id| !matches!(self.element(id, at), Some(Element::Constant(_))));
                same_place(varying.next()?)
            }
            opcode if opcode.is_elementwise() => None,
            _ => Some((*inst.operands.first()?, self.moved(id, at)?)),
        }
    }

    fn element(&mut self, id: InstructionId, at: &Affine) -> Option<Element> {
        if id == self.source {
            let function = Piecewise::identity(self.element_type(id)?)?;
            return Some(Element::Of(Origin { at: at.clone(), function, as_given: false }));
        }
        if self.level == bounds::LEVELS || self.known.len() == bounds::CONE {
            return None;
        }
        let key = (id, at.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        self.level += 1;
        let element = self.step(id, at);
        self.level -= 1;
        self.known.insert(key, element.clone());
        element
    }

    fn step(&mut self, id: InstructionId, at: &Affine) -> Option<Element> {
        let inst = self.module.instruction(id);
        match inst.opcode {
            Opcode::Constant => constant(self.module, id, at),
            Opcode::Concatenate => {
                let (operand, at) = self.concatenated(id, at)?;
                self.element(operand, &at)
            }
            Opcode::GetTupleElement => self.element(element_of_tuple(self.module, id)?, at),
            opcode if opcode.is_elementwise() => self.computed(id, at),
            _ => {
                let at = self.moved(id, at)?;
                self.element(*inst.operands.first()?, &at)
            }
        }
    }

    /// Position in the operand of an operation that only moves elements.
    fn moved(&self, id: InstructionId, at: &Affine) -> Option<Affine> {
        let inst = self.module.instruction(id);
        if inst.opcode == Opcode::Reshape {
            return Some(at.clone());
        }
        let from = &self.module.instruction(*inst.operands.first()?).array()?.dims;
        let at = affine::coordinates(at, &inst.array()?.dims, self.rows)?;
        let dimensions = inst.ints(&AttrKey::Dimensions);
        let moved: Option<Vec<Affine>> = match inst.opcode {
            Opcode::Slice => {
                let AttrValue::Slice(slices) = inst.attribute(&AttrKey::Slice)? else { return None };
                at.iter().zip(slices).map(|(at, s)| at.times(s.stride)?.plus(&Affine::constant(s.start))).collect()
            }
            Opcode::Transpose => {
                let mut moved = vec![Affine::default(); at.len()];
                for (&dim, at) in dimensions.iter().zip(at) {
                    moved[usize::try_from(dim).ok()?] = at;
                }
                Some(moved)
            }
            Opcode::Broadcast => dimensions.iter().map(|&dim| at.get(usize::try_from(dim).ok()?).cloned()).collect(),
            Opcode::Reverse => {
                let turned = |(dim, at): (usize, &Affine)| {
                    if !dimensions.contains(&(dim as i64)) {
                        return Some(at.clone());
                    }
                    at.times(-1)?.plus(&Affine::constant(from[dim] - 1))
                };
                at.iter().enumerate().map(turned).collect()
            }
            _ => None,
        };
        affine::position(&moved?, from)
    }

    /// The operand that an element of a concatenation comes from, for all rows alike, and its position there.
    fn concatenated(&self, id: InstructionId, at: &Affine) -> Option<(InstructionId, Affine)> {
        let inst = self.module.instruction(id);
        let dim = usize::try_from(*inst.ints(&AttrKey::Dimensions).first()?).ok()?;
        let mut at = affine::coordinates(at, &inst.array()?.dims, self.rows)?;
        let (low, high) = at.get(dim)?.bounds(self.rows)?;
        let mut start = 0;
        for &operand in &inst.operands {
            let sizes = &self.module.instruction(operand).array()?.dims;
            let end = start + *sizes.get(dim)?;
            if start <= low && high < end {
                at[dim] = at[dim].plus(&Affine::constant(-start))?;
                return Some((operand, affine::position(&at, sizes)?));
            }
            start = end;
        }
        None
    }

    /// An elementwise operation whose operands are constants and functions of one and the same source element.
    fn computed(&mut self, id: InstructionId, at: &Affine) -> Option<Element> {
        let inst = self.module.instruction(id);
        let first = Affine::default();
        let mut place = None;
        let mut domain = Piecewise::identity(ElementType::Pred)?;
        let mut elements = Vec::new();
        for &operand in &inst.operands {
            let scalar = self.module.instruction(operand).array()?.is_scalar();
            let element = self.element(operand, if scalar { &first } else { at })?;
            if let Element::Of(origin) = &element {
                if place.as_ref().is_some_and(|place| *place != origin.at) {
                    return None;
                }
                (place, domain) = (Some(origin.at.clone()), origin.function.clone());
            }
            elements.push(element);
        }
        let function = |element| match element {
            Element::Constant(value) => Piecewise::constant(value, &domain),
            Element::Of(origin) => origin.function,
        };
        let operands: Vec<Piecewise> = elements.into_iter().map(function).collect();
        let function = self.apply(id, &operands)?;
        match place {
            Some(at) => Some(Element::Of(Origin { at, function, as_given: false })),
            None => function.as_constant().map(Element::Constant),
        }
    }

    fn apply(&self, id: InstructionId, operands: &[Piecewise]) -> Option<Piecewise> {
        let inst = self.module.instruction(id);
        let to = self.element_type(id)?;
        Some(match (inst.opcode, operands) {
            (Opcode::Select, [condition, on_true, on_false]) => condition.select(on_true, on_false),
            (Opcode::Compare, [a, b]) => a.compare(b, inst.word(&AttrKey::Direction)?),
            (Opcode::Clamp, [low, x, high]) => x.binary(low, Opcode::Maximum, to).binary(high, Opcode::Minimum, to),
            (opcode, [x]) => x.unary(opcode, self.element_type(*inst.operands.first()?)?, to),
            (opcode, [a, b]) => a.binary(b, opcode, to),
            _ => return None,
        })
    }

    fn element_type(&self, id: InstructionId) -> Option<ElementType> {
        Some(self.module.instruction(id).array()?.element_type).filter(|ty| ty.integer_range().is_some())
    }
}

/// The value of a constant at a position that is the same for every row, or of one whose elements are all the same.
fn constant(module: &Module, id: InstructionId, at: &Affine) -> Option<Element> {
    let inst = module.instruction(id);
    let small = inst.array()?.elements()? <= bounds::ELEMENTS;
    let values = Literal::of(inst).filter(|_| small)?.integers()?;
    let first = *values.first()?;
    if values.iter().all(|value| *value == first) {
        return Some(Element::Constant(first));
    }
    values.get(usize::try_from(at.as_constant()?).ok()?).map(|&value| Element::Constant(value))
}

/// What a `get-tuple-element` takes out of a tuple that stands right before it, or before a barrier.
fn element_of_tuple(module: &Module, id: InstructionId) -> Option<InstructionId> {
    let inst = module.instruction(id);
    let mut tuple = *inst.operands.first()?;
    while module.instruction(tuple).opcode == Opcode::OptBarrier {
        tuple = *module.instruction(tuple).operands.first()?;
    }
    let index = usize::try_from(inst.int(&AttrKey::Index)?).ok()?;
    let tuple = module.instruction(tuple);
    (tuple.opcode == Opcode::Tuple).then(|| tuple.operands.get(index).copied())?
}

/// Integer arrays that an index is computed from without mixing rows, sources before results; the index itself is not among them.
pub(super) fn sources(module: &Module, index: InstructionId) -> Vec<InstructionId> {
    let mut seen = IndexSet::default();
    let mut work = vec![index];
    while let Some(id) = work.pop() {
        if seen.len() == bounds::CONE || !seen.insert(id) {
            continue;
        }
        let inst = module.instruction(id);
        let transparent = matches!(
            inst.opcode,
            Opcode::Slice
                | Opcode::Reshape
                | Opcode::Transpose
                | Opcode::Broadcast
                | Opcode::Reverse
                | Opcode::Concatenate
        );
        if inst.opcode == Opcode::GetTupleElement {
            work.extend(element_of_tuple(module, id));
        } else if transparent || inst.opcode.is_elementwise() {
            work.extend(inst.operands.iter().copied());
        }
    }
    seen.shift_remove(&index);
    let order = &module.computation(module.instruction(index).parent).instructions;
    let integer =
        |id: &InstructionId| module.instruction(*id).array().is_some_and(|array| array.element_type.is_integer());
    order.iter().copied().filter(|id| seen.contains(id) && integer(id)).collect()
}
