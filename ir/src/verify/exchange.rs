//! V10 for instructions that exchange data with other devices or with the host, and for random numbers: their shape has to be written, and is
//! held against operands and attributes.
//!
//! Source: `ShapeVerifier` (xla/service/hlo_verifier.cc).

use crate::infer::same_dims;
use crate::{ArrayShape, AttrKey, ElementType, Instruction, Module, Opcode, Shape};

/// Checks the written shape; nothing to say about other opcodes.
pub(super) fn check(module: &Module, inst: &Instruction) -> Result<(), String> {
    use Opcode as O;
    let written = Written { module, inst };
    match inst.opcode {
        O::AllGather => written.gathered(&inst.shape),
        O::AllGatherStart => written.gather_start(),
        O::ReduceScatter => written.scattered(),
        O::AllToAll => written.all_to_all(),
        O::CollectivePermuteStart => written.permute_start(),
        O::AsyncStart => written.async_start(),
        O::Recv => written.recv(),
        O::Infeed => written.infeed(),
        O::Rng => written.rng(),
        O::RngBitGenerator => written.rng_bits(),
        O::DynamicReshape => written.dynamic_reshape(),
        O::Scan => written.scan(),
        _ => Ok(()),
    }
}

/// An instruction with its operands at hand.
struct Written<'m> {
    module: &'m Module,
    inst: &'m Instruction,
}

impl<'m> Written<'m> {
    fn operand(&self, index: usize) -> &'m Shape {
        self.module.shape(self.inst.operands[index])
    }
    fn operands(&self) -> impl ExactSizeIterator<Item = &'m Shape> {
        self.inst.operands.iter().map(|&id| self.module.shape(id))
    }
    fn wrong(&self, must: &str) -> Result<(), String> {
        Err(format!("the shape is written as {}, but must be {must}", self.inst.shape.without_layout()))
    }
    fn token(&self, index: usize) -> Result<(), String> {
        let shape = self.operand(index);
        if *shape == Shape::Token {
            Ok(())
        } else {
            Err(format!("operand {index} has shape {shape}, but must be a token"))
        }
    }

    /// Each operand with its part of `result`: the whole for a single operand, else an element of a tuple.
    fn pairs(&self, result: &'m Shape) -> Result<Vec<(&'m ArrayShape, &'m ArrayShape)>, String> {
        let parts: Vec<&Shape> = match result.as_tuple() {
            Some(elements) => elements.iter().map(AsRef::as_ref).collect(),
            None => vec![result],
        };
        let arrays = |(operand, part): (&'m Shape, &'m Shape)| Some((operand.as_array()?, part.as_array()?));
        let pairs: Option<Vec<_>> = self.operands().zip(parts.iter().copied()).map(arrays).collect();
        match pairs.filter(|_| parts.len() == self.inst.operands.len()) {
            Some(pairs) => Ok(pairs),
            None => Err(format!("{} does not have one array for each operand", result.without_layout())),
        }
    }
    /// Every small array is the large one's `count`th part along the dimension of `dimensions`, with one count for all.
    fn shards<'a>(&self, pairs: impl Iterator<Item = (&'a ArrayShape, &'a ArrayShape)>) -> Result<(), String> {
        let &[along] = self.inst.ints(&AttrKey::Dimensions) else {
            return Err("dimensions names one dimension".into());
        };
        let mut count = None;
        for (small, large) in pairs {
            let Some(along) = usize::try_from(along).ok().filter(|&dim| dim < small.rank()) else {
                return Err(format!("{small} has no dimension {along}"));
            };
            let (part, whole) = (small.dims[along], large.dims.get(along).copied().unwrap_or(0));
            let is_dynamic = part < 0 || whole < 0;
            let divides = is_dynamic || (part == 0 && whole == 0) || (part > 0 && whole > 0 && whole % part == 0);
            let rest = same_dims(&small.with_dim(along, 0), &ArrayShape { dims: with(large, along), ..small.clone() });
            let as_before = part <= 0 || is_dynamic || *count.get_or_insert(whole / part) == whole / part;
            if !(divides && rest && as_before && large.rank() == small.rank() && alike(small, large)) {
                return Err(format!("{large} is not made of shards {small} along dimension {along}"));
            }
        }
        self.check_group(count)
    }
    /// As many shards as devices in a group, where the groups are listed and the text says what they number.
    fn check_group(&self, count: Option<i64>) -> Result<(), String> {
        let (Some(count), Some(size)) = (count, self.group_size()) else { return Ok(()) };
        let partitions = self.module.num_partitions();
        if size == 1 || count == size || Some(count) == size.checked_mul(partitions) {
            return Ok(());
        }
        Err(format!("there are {count} shards for groups of {size} devices"))
    }
    /// The number of devices in the first replica group, if groups are given as lists.
    fn group_size(&self) -> Option<i64> {
        let groups = self.inst.raw(&AttrKey::ReplicaGroups)?;
        let first = groups.trim().strip_prefix('{')?.trim_start().strip_prefix('{')?;
        Some(first.split('}').next()?.split(',').filter(|id| !id.trim().is_empty()).count() as i64)
            .filter(|&size| size > 0)
    }

    fn gathered(&self, result: &'m Shape) -> Result<(), String> {
        self.shards(self.pairs(result)?.into_iter())
    }
    /// Operand (or a tuple of all), gathered result and, on some targets, contexts.
    fn gather_start(&self) -> Result<(), String> {
        match self.inst.shape.as_tuple() {
            Some([before, after, ..]) if self.is_operands(before) => self.gathered(after),
            _ => self.wrong("a tuple of the operands and the result"),
        }
    }
    fn scattered(&self) -> Result<(), String> {
        self.shards(self.pairs(&self.inst.shape)?.into_iter().map(|(operand, result)| (result, operand)))
    }
    /// The same sizes; without a dimension to split, an array for each operand, all of one shape.
    fn all_to_all(&self) -> Result<(), String> {
        let pairs = self.pairs(&self.inst.shape)?;
        for (operand, result) in &pairs {
            if !same_dims(operand, result) || !alike(operand, result) || !same_dims(operand, pairs[0].0) {
                return Err(format!("{operand} becomes {result}, but the shapes of all must be the same"));
            }
        }
        match (self.inst.ints(&AttrKey::Dimensions), pairs.first()) {
            (&[dim], Some((operand, _))) if !(0..operand.rank() as i64).contains(&dim) => {
                Err(format!("{operand} has no dimension {dim}"))
            }
            _ => Ok(()),
        }
    }
    /// What is sent, what is received, and any number of contexts.
    fn permute_start(&self) -> Result<(), String> {
        let Some([sent, received, ..]) = self.inst.shape.as_tuple() else {
            return self.wrong("a tuple of what is sent and what is received");
        };
        let into_place = self.inst.operands.len() == 4 && sent.compatible(self.operand(0));
        let fits =
            self.is_operands(sent) && self.is_operands(received) || into_place && received.compatible(self.operand(1));
        if fits { Ok(()) } else { self.wrong("a tuple of what is sent and what is received") }
    }
    /// Whether a shape is the operand, or a tuple of all operands.
    fn is_operands(&self, shape: &Shape) -> bool {
        let whole = |elements: &[crate::shape::ShapeRef]| {
            elements.len() == self.inst.operands.len()
                && elements.iter().zip(self.operands()).all(|(element, operand)| element.compatible(operand))
        };
        match self.inst.operands.as_slice() {
            &[operand] if shape.compatible(self.module.shape(operand)) => true,
            _ => shape.as_tuple().is_some_and(whole),
        }
    }

    /// A tuple of the operands, the result, and any state.
    fn async_start(&self) -> Result<(), String> {
        let tuple = |shape: &Shape| shape.as_tuple().is_some_and(|elements| elements.len() == self.inst.operands.len());
        match self.inst.shape.as_tuple() {
            Some([operands, _, ..]) if tuple(operands) && self.is_operands(operands) => Ok(()),
            _ => self.wrong("a tuple of the operands (as a tuple), the result, and any state"),
        }
    }

    fn recv(&self) -> Result<(), String> {
        match self.inst.shape.as_tuple() {
            Some([_, context, token]) if is_scalar(context, ElementType::U32) && **token == Shape::Token => Ok(()),
            _ => self.wrong("data, u32[] and a token"),
        }
    }
    fn infeed(&self) -> Result<(), String> {
        self.token(0)?;
        match self.inst.shape.as_tuple() {
            Some([_, token]) if **token == Shape::Token => Ok(()),
            _ => self.wrong("data and a token"),
        }
    }

    /// Two parameters of the distribution, scalars of the result's type; a third operand, as in old texts, means nothing.
    fn rng(&self) -> Result<(), String> {
        let Some(result) = self.inst.array() else { return self.wrong("an array") };
        for index in 0..2 {
            let shape = self.operand(index);
            let is_close = |array: &ArrayShape| array.is_scalar() && alike(array, result);
            if !shape.as_array().is_some_and(is_close) {
                let wanted = result.element_type.name();
                return Err(format!("operand {index} has shape {shape}, but must be {wanted}[]"));
            }
        }
        Ok(())
    }
    /// The new state, as large as the old one, and the bits; or the bits alone.
    fn rng_bits(&self) -> Result<(), String> {
        match (self.inst.shape.as_tuple(), self.inst.array()) {
            (Some([state, bits]), _) if state.compatible(self.operand(0)) && bits.as_array().is_some() => Ok(()),
            (None, Some(_)) => Ok(()),
            _ => self.wrong("the state and the bits"),
        }
    }

    /// As many elements as before; one size for each dimension of the result.
    fn dynamic_reshape(&self) -> Result<(), String> {
        let (Some(before), Some(after)) = (self.operand(0).as_array(), self.inst.array()) else {
            return self.wrong("an array");
        };
        let same = match (before.elements(), after.elements()) {
            (Some(from), Some(to)) => from == to,
            _ => true,
        };
        let is_size = |shape: &Shape| is_scalar(shape, ElementType::S32);
        let sizes = self.inst.operands.len() == after.rank() + 1 && self.operands().skip(1).all(is_size);
        if same && sizes && before.element_type == after.element_type {
            return Ok(());
        }
        self.wrong(&format!("the elements of {before}, with one operand s32[] for each dimension"))
    }

    /// Stacked results first, the carried values last; a single result stands without a tuple around it.
    fn scan(&self) -> Result<(), String> {
        let elements = self.inst.shape.as_tuple().unwrap_or(std::slice::from_ref(&self.inst.shape));
        let number = self.inst.raw(&AttrKey::unknown("num_carries")).and_then(|text| text.parse::<usize>().ok());
        let count = number.filter(|&count| count <= elements.len().min(self.inst.operands.len()));
        let Some(count) = count else { return Err("num_carries is not the number of carried values".into()) };
        let carried = self.operands().skip(self.inst.operands.len() - count);
        if elements[elements.len() - count..].iter().zip(carried).all(|(element, operand)| element.compatible(operand))
        {
            return Ok(());
        }
        self.wrong("the carried values behind the stacked ones")
    }
}

/// The sizes of an array with none along a dimension.
fn with(array: &ArrayShape, along: usize) -> crate::shape::Dims {
    array.dims.iter().enumerate().map(|(dim, &size)| if dim == along { 0 } else { size }).collect()
}

/// The same element type; floats may have been rounded or widened on the way.
fn alike(a: &ArrayShape, b: &ArrayShape) -> bool {
    a.element_type == b.element_type || a.element_type.is_float() && b.element_type.is_float()
}

fn is_scalar(shape: &Shape, element_type: ElementType) -> bool {
    shape.as_array().is_some_and(|array| array.is_scalar() && array.element_type == element_type)
}

/// V9 of `source_target_pairs`: no device sends twice or receives twice, unless operands are sent from several places.
pub(super) fn check_routes(inst: &Instruction) -> Result<(), String> {
    let Some(text) = inst.raw(&AttrKey::unknown("source_target_pairs")) else {
        return Err(format!("`{}` needs attribute source_target_pairs", inst.opcode_name()));
    };
    let digits = text.split(|symbol: char| !symbol.is_ascii_digit() && symbol != '-').filter(|part| !part.is_empty());
    let numbers: Option<Vec<i64>> = digits.map(|part| part.parse().ok()).collect();
    let Some(numbers) = numbers.filter(|numbers| numbers.len() % 2 == 0 && numbers.iter().all(|&id| id >= 0)) else {
        return Err(format!("attribute source_target_pairs cannot be {text}"));
    };
    for (side, word) in [(0, "sends"), (1, "receives")] {
        let mut devices: Vec<i64> = numbers.iter().skip(side).step_by(2).copied().collect();
        devices.sort_unstable();
        let repeated = (1..devices.len()).find(|&at| devices[at - 1] == devices[at]);
        if let Some(at) = repeated.filter(|_| inst.operands.len() < 4) {
            return Err(format!("device {} {word} twice", devices[at]));
        }
    }
    Ok(())
}
