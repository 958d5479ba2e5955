//! Builds the change: loops that carry what rows are computed from, and the operations on these rows.

use std::collections::BTreeMap;

use hlo_ir::edit::Patch;
use hlo_ir::module::Payload;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{
    ArrayShape, AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape,
};
use indexmap::{IndexMap, IndexSet};

use super::cone::{Cone, Form, Node};
use super::readers::{Reader, Taken};
use crate::flow::{add_anew, block_shape, restrict};

/// What a computation calls each leaf.
type Carried = IndexMap<InstructionId, InstructionId>;

/// A value whose rows are computed in the loops that read it.
pub(super) struct Input {
    /// An element of the outermost loop.
    pub(super) value: InstructionId,
    pub(super) reader: Reader,
    /// By the dimension that is cut.
    pub(super) cones: BTreeMap<usize, Cone>,
}

impl Input {
    fn leaves(&self) -> impl Iterator<Item = InstructionId> {
        self.cones.values().flat_map(Cone::leaves).map(|(leaf, _)| leaf)
    }
}

/// An input, and how one of the loops reads it.
type Read<'a> = (&'a Input, &'a Reader);

/// The change for some elements of one loop.
pub(super) fn patch(module: &Module, inputs: &[&Input]) -> Option<Patch> {
    let mut writer = Writer { module, patch: Patch::new(module) };
    let leaves = inputs.iter().flat_map(|input| input.leaves()).map(|leaf| (leaf, leaf)).collect();
    let reads: Vec<Read<'_>> = inputs.iter().map(|&input| (input, &input.reader)).collect();
    writer.change(&reads, &leaves)?;
    Some(writer.patch)
}

struct Writer<'a> {
    module: &'a Module,
    patch: Patch,
}

/// The new state of one loop.
struct State {
    operands: Vec<InstructionId>,
    shapes: Vec<ShapeRef>,
    /// The element that holds each leaf.
    places: IndexMap<InstructionId, usize>,
}

impl Writer<'_> {
    /// Changes a loop, which all `reads` are of, and those in it; `outside` are the leaves where the loop stands.
    fn change(&mut self, reads: &[Read<'_>], outside: &Carried) -> Option<()> {
        let state = self.state(reads, outside)?;
        let carried = self.replace_state(reads, &state)?;
        let mut inner: IndexMap<InstructionId, Vec<Read<'_>>> = IndexMap::new();
        for &(input, reader) in reads {
            for &taken in &reader.taken {
                self.compute(reader.body, taken, input, &carried)?;
            }
            for reader in &reader.inner {
                inner.entry(reader.site).or_default().push((input, reader));
            }
        }
        inner.values().try_for_each(|reads| self.change(reads, &carried))
    }

    /// Leaves that the loop forwards already stay where they are, the first of the others take the places of the values.
    fn state(&mut self, reads: &[Read<'_>], outside: &Carried) -> Option<State> {
        let module = self.module;
        let reader = reads.first()?.1;
        let initial = module.instruction(reader.initial);
        let replaced: Vec<usize> = reads.iter().map(|(_, reader)| reader.element).collect();
        let needed: IndexSet<InstructionId> = reads.iter().flat_map(|(input, _)| input.leaves()).collect();
        let mut state = State {
            operands: initial.operands.to_vec(),
            shapes: initial.shape.as_tuple()?.to_vec(),
            places: IndexMap::new(),
        };
        let mut free = replaced.iter().copied();
        for leaf in needed {
            let here = outside[&leaf];
            let known = (0..initial.operands.len()).find(|place| {
                !replaced.contains(place) && initial.operands[*place] == here && self.hands_on(reader, *place)
            });
            let place = known.or_else(|| free.next()).unwrap_or(state.operands.len());
            if place == state.operands.len() {
                state.operands.push(here);
                state.shapes.push(module.instruction(leaf).shape.clone());
            } else if known.is_none() {
                state.operands[place] = here;
                state.shapes[place] = module.instruction(leaf).shape.clone();
            }
            state.places.insert(leaf, place);
        }
        for place in free {
            state.operands[place] = self.constant(initial.parent, ElementType::S32, 0);
            state.shapes[place] = Shape::array(ElementType::S32, []);
        }
        Some(state)
    }

    fn hands_on(&self, reader: &Reader, place: usize) -> bool {
        let module = self.module;
        let root = module.instruction(module.computation(reader.body).root);
        let handed = module.instruction(root.operands[place]);
        handed.opcode == Opcode::GetTupleElement
            && module.parameters(reader.body).contains(&handed.operands[0])
            && handed.int(&AttrKey::Index) == i64::try_from(place).ok()
    }

    /// Gives a loop its new state, everywhere it stands; returns what the body calls each leaf.
    fn replace_state(&mut self, reads: &[Read<'_>], state: &State) -> Option<Carried> {
        let module = self.module;
        let reader = reads.first()?.1;
        let (body, condition) = (module.parameters(reader.body), module.parameters(reader.condition));
        let root = module.computation(reader.body).root;
        let whole = Shape::tuple(state.shapes.iter().cloned());
        let mut results = module.instruction(root).operands.to_vec();
        for place in results.len()..state.operands.len() {
            let taken = Instruction::new("carried", state.shapes[place].clone(), Opcode::GetTupleElement, [body[0]]);
            let taken = taken.with(Attribute::int(AttrKey::Index, i64::try_from(place).ok()?));
            results.push(self.patch.add(reader.body, taken));
        }
        let places = state.places.iter().map(|(&leaf, &place)| (leaf, results[place]));
        let carried = places.collect();
        for (id, operands) in [
            (reader.initial, Some(&state.operands)),
            (root, Some(&results)),
            (reader.site, None),
            (body[0], None),
            (condition[0], None),
        ] {
            let mut inst = Instruction { shape: whole.clone(), ..module.instruction(id).clone() };
            if let Some(operands) = operands {
                inst.operands = operands.iter().copied().collect();
            }
            self.patch.rewrite(id, inst);
        }
        for (_, reader) in reads {
            self.retype(reader, &state.shapes[reader.element]);
        }
        Some(carried)
    }

    /// What takes the element out of the state gets its new shape too.
    fn retype(&mut self, reader: &Reader, shape: &ShapeRef) {
        let module = self.module;
        let mut states = vec![reader.site];
        states.extend(module.parameters(reader.body));
        states.extend(module.parameters(reader.condition));
        for state in states {
            for (id, inst) in module.instructions_of(module.instruction(state).parent) {
                let taken = inst.opcode == Opcode::GetTupleElement && inst.operands[0] == state;
                if taken && inst.int(&AttrKey::Index) == i64::try_from(reader.element).ok() {
                    self.patch.rewrite(id, Instruction { shape: shape.clone(), ..inst.clone() });
                }
            }
        }
    }

    /// Computes the rows that a slice takes and puts them in its place.
    fn compute(&mut self, body: ComputationId, taken: Taken, input: &Input, carried: &Carried) -> Option<()> {
        let module = self.module;
        let slice = module.instruction(taken.slice);
        let start = slice.operands[1 + taken.dim];
        let element = module.instruction(start).array()?.element_type;
        let extent = module.instruction(input.value).array()?.dims[taken.dim];
        let limits = [self.constant(body, element, 0), self.constant(body, element, extent - taken.rows)];
        let scalar = Shape::array(element, []);
        let clamp = Instruction::new("first_row", scalar, Opcode::Clamp, [limits[0], start, limits[1]]);
        let first = self.patch.add(body, clamp);
        let mut rows = Rebuilt { body, taken, input, carried, first, element, done: BTreeMap::new() };
        let new = self.build(&mut rows, input.value, Form::Part(taken.dim, crate::flow::Rows::IDENTITY))?;
        self.patch.replace(taken.slice, new);
        self.patch.stems_from(new, input.value);
        Some(())
    }

    /// Recursion is as deep as the cone, which is bounded.
    fn build(&mut self, rows: &mut Rebuilt<'_>, id: InstructionId, form: Form) -> Option<InstructionId> {
        if let Some(&done) = rows.done.get(&(id, form)) {
            return Some(done);
        }
        let inst = self.module.instruction(id);
        let node = rows.input.cones[&rows.taken.dim].nodes.get(&(id, form))?;
        let new = match (node, form) {
            (Node::Leaf, Form::Whole) => rows.carried[&id],
            (Node::Leaf, Form::Part(dim, part)) => {
                let first = self.offset(rows, part.start(0, 1));
                self.read(rows, rows.carried[&id], inst.array()?, dim, first)
            }
            (Node::Operation(forms), _) => {
                let mut operands = Vec::new();
                for (&operand, &form) in inst.operands.iter().zip(forms) {
                    operands.push(self.build(rows, operand, form)?);
                }
                let again = match form {
                    Form::Part(dim, _) => restrict(inst, dim, rows.taken.rows, operands),
                    Form::Whole => Instruction { operands: operands.into(), span: None, ..inst.clone() },
                };
                self.add(rows.body, again, id)
            }
            (Node::Counted, Form::Part(dim, part)) => {
                let first = self.offset(rows, part.start(0, 1));
                self.count(rows, id, dim, first)
            }
            (Node::Counted, Form::Whole) => return None,
        };
        rows.done.insert((id, form), new);
        Some(new)
    }

    fn add(&mut self, body: ComputationId, inst: Instruction, from: InstructionId) -> InstructionId {
        let new = add_anew(self.module, &mut self.patch, body, inst);
        self.patch.stems_from(new, from);
        new
    }

    /// The first row, so many rows further on.
    fn offset(&mut self, rows: &Rebuilt<'_>, offset: i64) -> InstructionId {
        if offset == 0 {
            return rows.first;
        }
        let offset = self.constant(rows.body, rows.element, offset);
        let scalar = Shape::array(rows.element, []);
        self.patch.add(rows.body, Instruction::new("first_row", scalar, Opcode::Add, [rows.first, offset]))
    }

    /// Rows of a leaf.
    fn read(
        &mut self,
        rows: &Rebuilt<'_>,
        leaf: InstructionId,
        array: &ArrayShape,
        dim: usize,
        first: InstructionId,
    ) -> InstructionId {
        let part = array.with_dim(dim, rows.taken.rows);
        let zero = self.constant(rows.body, rows.element, 0);
        let starts = (0..part.rank()).map(|other| if other == dim { first } else { zero });
        let operands: Vec<InstructionId> = [leaf].into_iter().chain(starts).collect();
        let sizes = Attribute::ints(AttrKey::DynamicSliceSizes, part.dims.iter().copied());
        let read = Instruction::new("rows", Shape::Array(part).into(), Opcode::DynamicSlice, operands).with(sizes);
        self.patch.add(rows.body, read)
    }

    /// Rows of an `iota` along them: their numbers.
    fn count(&mut self, rows: &Rebuilt<'_>, id: InstructionId, dim: usize, first: InstructionId) -> InstructionId {
        let inst = self.module.instruction(id);
        let shape = block_shape(&inst.shape, dim, rows.taken.rows);
        let from_zero = self.add(rows.body, restrict(inst, dim, rows.taken.rows, Vec::new()), id);
        let scalar = Shape::array(ElementType::S32, []);
        let first = match rows.element {
            ElementType::S32 => first,
            _ => self.patch.add(rows.body, Instruction::new("first_row", scalar, Opcode::Convert, [first])),
        };
        let spread = Instruction::new("first_row", shape.clone(), Opcode::Broadcast, [first])
            .with(Attribute::ints(AttrKey::Dimensions, []));
        let spread = self.patch.add(rows.body, spread);
        self.add(rows.body, Instruction::new("row_numbers", shape, Opcode::Add, [from_zero, spread]), id)
    }

    fn constant(&mut self, computation: ComputationId, element: ElementType, value: i64) -> InstructionId {
        let constant = Instruction::new("row_constant", Shape::array(element, []), Opcode::Constant, []);
        self.patch.add(computation, constant.with_payload(Payload::Literal(value.to_string().into())))
    }
}

/// The rows that one slice takes.
struct Rebuilt<'a> {
    body: ComputationId,
    taken: Taken,
    input: &'a Input,
    carried: &'a Carried,
    /// The first row, as `dynamic-slice` clamps it.
    first: InstructionId,
    /// Its type.
    element: ElementType,
    done: BTreeMap<(InstructionId, Form), InstructionId>,
}
