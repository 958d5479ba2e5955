//! Builds the loop: a `while` that carries a counter, what the copies carry and collect, and the values that all of them read.

use hlo_ir::edit::Patch;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{
    AttrKey, AttrValue, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
};
use smol_str::format_smolstr;

use super::Rolled;
use super::body::Body;
use super::live_outs::{Stack, UsedCopies};
use super::lockstep::Role;
use super::places::Places;
use super::sequence::{constant, neutral};
use super::state::State;

/// The patch that puts a loop in the place of the copies.
pub(super) fn patch(module: &Module, rolled: &Rolled) -> Patch {
    let owner = rolled.live_outs.owner(&rolled.copies);
    let metadata = module.instruction(owner).attributes.iter().find(|attribute| attribute.key == AttrKey::Metadata);
    let mut builder = Builder {
        module,
        rolled,
        patch: Patch::new(module),
        state: State::default(),
        places: Places::default(),
        parent: module.instruction(owner).parent,
        owner,
        metadata: metadata.cloned(),
    };
    builder.enter();
    let body = builder.body();
    let results = builder.run(body);
    builder.replace(results);
    builder.patch
}

struct Builder<'a> {
    module: &'a Module,
    rolled: &'a Rolled,
    patch: Patch,
    state: State,
    places: Places,
    parent: ComputationId,
    owner: InstructionId,
    metadata: Option<Attribute>,
}

impl Builder<'_> {
    /// Adds an instruction beside the copies.
    fn add(&mut self, mut inst: Instruction) -> InstructionId {
        inst.attributes.extend(self.metadata.clone());
        self.patch.add(self.parent, inst)
    }
    fn name(&self, id: InstructionId) -> String {
        self.module.instruction(id).name.to_string()
    }
    fn shape(&self, id: InstructionId) -> ShapeRef {
        self.module.instruction(id).shape.clone()
    }
    /// A value of any shape in which nothing matters.
    fn blank(&mut self, shape: &ShapeRef) -> InstructionId {
        let element = shape.as_array().map_or(ElementType::Pred, |array| array.element_type);
        self.filled(shape, element.zero())
    }
    fn filled(&mut self, shape: &ShapeRef, text: &str) -> InstructionId {
        let element = shape.as_array().map_or(ElementType::Pred, |array| array.element_type);
        let scalar = self.add(constant(Shape::array(element, []), text));
        if shape.as_array().is_some_and(hlo_ir::ArrayShape::is_scalar) {
            return scalar;
        }
        let fill = Instruction::new("roll_start", shape.clone(), Opcode::Broadcast, [scalar]);
        self.add(fill.with(Attribute::ints(AttrKey::Dimensions, [])))
    }

    /// Collects the parts of the state with their first values.
    fn enter(&mut self) {
        let rolled = self.rolled;
        let counter = Shape::array(ElementType::S32, []);
        let zero = self.add(constant(counter.clone(), "0"));
        self.state.push("step", counter, zero);
        for (number, column) in rolled.copies.columns.iter().enumerate() {
            if matches!(column.role, Role::Carried(_)) {
                let first = column.ids[0];
                let name = format!("{}.carried", self.name(column.ids[1]));
                let place = self.state.push(name, self.shape(first), first);
                self.places.carried.insert(number, place);
            }
        }
        for (_, accumulation) in &rolled.live_outs.accumulations {
            let result = accumulation.links[accumulation.links.len() - 1];
            let shape = self.shape(result);
            let first = accumulation.start.unwrap_or_else(|| {
                let element = shape.as_array().map_or(ElementType::Pred, |array| array.element_type);
                let text = neutral(accumulation.opcode, element).expect("the chain was accepted because it has one");
                self.filled(&shape, &text)
            });
            let place = self.state.push(format!("{}.so_far", self.name(result)), shape, first);
            self.places.accumulated.push(place);
        }
        self.enter_collections();
        let shared: Vec<InstructionId> = super::body::carried_inputs(self.module, &rolled.copies);
        for id in shared {
            let place = self.state.push(format!("{}.carried", self.name(id)), self.shape(id), id);
            self.places.shared.insert(id, place);
        }
    }

    fn enter_collections(&mut self) {
        let rolled = self.rolled;
        for stack in &rolled.live_outs.stacks {
            let shape = self.stack_shape(stack);
            let first = self.blank(&shape);
            let place = self.state.push(format!("{}.so_far", self.name(stack.result)), shape, first);
            self.places.stacked.push(place);
        }
        for each in &rolled.live_outs.each {
            let id = rolled.copies.columns[each.column].ids[0];
            let shape = self.every(id);
            let first = self.blank(&shape);
            let place = self.state.push(format!("{}.all", self.name(id)), shape, first);
            self.places.each.push(place);
        }
        for &column in &rolled.live_outs.last_copies {
            let id = rolled.copies.columns[column].ids[rolled.copies.len - 1];
            let shape = self.shape(id);
            let first = self.blank(&shape);
            let place = self.state.push(format!("{}.last", self.name(id)), shape, first);
            self.places.last_copies.push(place);
        }
    }

    /// The part of a `concatenate` that comes from the copies.
    fn stack_shape(&self, stack: &Stack) -> ShapeRef {
        let result = self.module.instruction(stack.result);
        let dim = result.ints(&AttrKey::Dimensions).first().copied().unwrap_or(0) as usize;
        let piece = self.module.instruction(self.rolled.copies.columns[stack.column].ids[0]);
        let len = piece.array().map_or(0, |array| array.dims[dim]) * self.rolled.copies.len as i64;
        let whole = result.array().map(|array| array.with_dim(dim, len));
        whole.map_or_else(|| result.shape.clone(), |shape| Shape::Array(shape).into())
    }
    /// An array with one value of each copy, stacked along a new first dimension.
    fn every(&self, id: InstructionId) -> ShapeRef {
        let inst = self.module.instruction(id);
        let (element, dims) =
            inst.array().map_or((ElementType::Pred, Vec::new()), |array| (array.element_type, array.dims.to_vec()));
        Shape::array(element, [self.rolled.copies.len as i64].into_iter().chain(dims))
    }

    fn body(&mut self) -> ComputationId {
        let name = format_smolstr!("{}.body", self.name(self.owner));
        let computation = self.patch.add_computation(name);
        let mut body = Body::new(
            self.module,
            self.rolled,
            &mut self.patch,
            &self.state,
            &self.places,
            computation,
            self.metadata.as_ref(),
        );
        body.build();
        computation
    }

    fn condition(&mut self) -> ComputationId {
        let condition = self.patch.add_computation(format_smolstr!("{}.condition", self.name(self.owner)));
        let state = self.state.parameter(&mut self.patch, condition, self.metadata.as_ref());
        let counter = self.state.get(&mut self.patch, condition, state, 0, self.metadata.as_ref());
        let count = constant(Shape::array(ElementType::S32, []), &self.rolled.copies.len.to_string());
        let count = self.patch.add(condition, count);
        let less =
            Instruction::new("more_steps", Shape::array(ElementType::Pred, []), Opcode::Compare, [counter, count])
                .with(Attribute::word(AttrKey::Direction, "LT"));
        self.patch.add(condition, less);
        condition
    }

    /// Emits the `while`; returns it.
    fn run(&mut self, body: ComputationId) -> InstructionId {
        let condition = self.condition();
        let name = self.name(self.owner);
        let first: Vec<InstructionId> = self.state.parts.iter().map(|part| part.first).collect();
        let shape = self.state.shape();
        let start = self.add(Instruction::new(format!("{name}.init"), shape.clone(), Opcode::Tuple, first));
        let looping = Instruction::new(format!("{name}.while"), shape, Opcode::While, [start])
            .with(Attribute::new(AttrKey::Condition, AttrValue::Computation(condition)))
            .with(Attribute::new(AttrKey::Body, AttrValue::Computation(body)));
        let looping = self.add(looping);
        self.patch.set_origin(looping, self.owner);
        looping
    }

    fn part(&mut self, looping: InstructionId, place: usize) -> InstructionId {
        self.state.get(&mut self.patch, self.parent, looping, place, self.metadata.as_ref())
    }

    /// Lets later work use what the loop leaves.
    fn replace(&mut self, looping: InstructionId) {
        let (rolled, places) = (self.rolled, self.places.clone());
        for ((_, accumulation), &place) in rolled.live_outs.accumulations.iter().zip(&places.accumulated) {
            let result = self.part(looping, place);
            self.patch.replace(accumulation.links[accumulation.links.len() - 1], result);
        }
        for (stack, &place) in rolled.live_outs.stacks.iter().zip(&places.stacked) {
            let result = self.part(looping, place);
            self.replace_stack(stack, result);
        }
        for (each, &place) in rolled.live_outs.each.iter().zip(&places.each) {
            let all = self.part(looping, place);
            self.replace_each(each, all);
        }
        for (&column, &place) in rolled.live_outs.last_copies.iter().zip(&places.last_copies) {
            let result = self.part(looping, place);
            self.patch.replace(rolled.copies.columns[column].ids[rolled.copies.len - 1], result);
        }
    }

    fn replace_stack(&mut self, stack: &Stack, result: InstructionId) {
        let old = self.module.instruction(stack.result);
        let copies = self.rolled.copies.len;
        if old.operands.len() == copies {
            self.patch.replace(stack.result, result);
            return;
        }
        let (before, rest) = old.operands.split_at(stack.at);
        let operands = before.iter().chain([&result]).chain(&rest[copies..]).copied().collect();
        let joined = self.patch.add(self.parent, Instruction { operands, span: None, ..old.clone() });
        self.patch.replace(stack.result, joined);
    }

    fn replace_each(&mut self, each: &UsedCopies, all: InstructionId) {
        for &copy in &each.copies {
            let old = self.rolled.copies.columns[each.column].ids[copy];
            let every = self.every(old);
            let Some(array) = every.as_array() else { continue };
            let sizes = array.with_dim(0, 1);
            let mut bounds: Vec<_> = array.dims.iter().map(|&size| hlo_ir::attribute::SliceDim::full(size)).collect();
            bounds[0] = hlo_ir::attribute::SliceDim { start: copy as i64, limit: copy as i64 + 1, stride: 1 };
            let name = self.name(old);
            let slice = Instruction::new(format!("{name}.row"), Shape::Array(sizes).into(), Opcode::Slice, [all])
                .with(Attribute::new(AttrKey::Slice, AttrValue::Slice(bounds.into())));
            let slice = self.add(slice);
            let value = self.add(Instruction::new(name, self.shape(old), Opcode::Reshape, [slice]));
            self.patch.replace(old, value);
        }
    }
}
