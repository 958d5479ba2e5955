//! Builds the change: loops that carry what rows are computed from, and the operations on these rows.

use std::collections::BTreeMap;

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::Patch;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, Attribute, ComputationId, ElementType, Instruction, InstructionId, Module, Opcode, Shape};

use super::cone::{Cone, Form, Node};
use crate::flow::{Rows, add_anew, restrict};
use crate::loops::replace_state;
use crate::loops::row_slices::{RowReader, RowSlice};
use crate::recompute::emit::Emit;
use crate::recompute::insertion_point::{InsertionPoint, number};

/// What a computation calls each leaf.
type Carried = IndexMap<InstructionId, InstructionId>;

/// A value whose rows are computed in the loops that read it.
pub(super) struct Input {
    /// An element of the outermost loop.
    pub(super) value: InstructionId,
    pub(super) reader: RowReader,
    /// By the dimension that is cut.
    pub(super) cones: BTreeMap<usize, Cone>,
}

impl Input {
    fn leaves(&self) -> impl Iterator<Item = InstructionId> {
        self.cones.values().flat_map(Cone::leaves).map(|(leaf, _)| leaf)
    }
}

/// An input, and how one of the loops reads it.
type Read<'a> = (&'a Input, &'a RowReader);

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
        let mut inner: IndexMap<InstructionId, Vec<Read<'_>>> = IndexMap::default();
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
            places: IndexMap::default(),
        };
        let mut free = replaced.iter().copied();
        for leaf in needed {
            let here = outside[&leaf];
            let known = (0..initial.operands.len()).find(|place| {
                !replaced.contains(place) && initial.operands[*place] == here && self.forwards(reader, *place)
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
            state.operands[place] = self.patch.add(initial.parent, number("row_constant", ElementType::S32, 0));
            state.shapes[place] = Shape::array(ElementType::S32, []);
        }
        Some(state)
    }

    fn forwards(&self, reader: &RowReader, place: usize) -> bool {
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
        let (body, root) = (module.parameters(reader.body), module.computation(reader.body).root);
        let mut results = module.instruction(root).operands.to_vec();
        for place in results.len()..state.operands.len() {
            let taken = Instruction::new("carried", state.shapes[place].clone(), Opcode::GetTupleElement, [body[0]]);
            let taken = taken.with(Attribute::int(AttrKey::Index, i64::try_from(place).ok()?));
            results.push(self.patch.add(reader.body, taken));
        }
        let places = state.places.iter().map(|(&leaf, &place)| (leaf, results[place]));
        let carried = places.collect();
        replace_state(module, &mut self.patch, reader.site, (&state.shapes, &state.operands, &results));
        Some(carried)
    }

    /// Computes the rows that a slice takes and puts them in its place.
    fn compute(&mut self, body: ComputationId, taken: RowSlice, input: &Input, carried: &Carried) -> Option<()> {
        let module = self.module;
        let slice = module.instruction(taken.slice);
        let start = slice.operands[1 + taken.dim];
        let point = InsertionPoint::new(body, module.instruction(start).array()?.element_type, "first_row");
        let extent = module.instruction(input.value).array()?.dims[taken.dim];
        let first = point.clamped(&mut self.patch, start, extent - taken.rows);
        let cone = input.cones.get(&taken.dim)?;
        let (patch, rows) = (&mut self.patch, taken.rows);
        let mut part = Rebuilt { module, patch, point, cone, carried, first, rows, emitted: BTreeMap::new() };
        let new = part.emit((input.value, Form::Part(taken.dim, Rows::IDENTITY)))?;
        self.patch.replace(taken.slice, new);
        self.patch.set_origin(new, input.value);
        Some(())
    }
}

/// The rows that one slice takes.
struct Rebuilt<'a> {
    module: &'a Module,
    patch: &'a mut Patch,
    point: InsertionPoint,
    cone: &'a Cone,
    carried: &'a Carried,
    /// The first row, as `dynamic-slice` clamps it.
    first: InstructionId,
    rows: i64,
    emitted: BTreeMap<(InstructionId, Form), InstructionId>,
}

impl Emit for Rebuilt<'_> {
    type Key = (InstructionId, Form);

    fn emitted(&mut self) -> &mut BTreeMap<Self::Key, InstructionId> {
        &mut self.emitted
    }

    fn needs(&self, (id, form): Self::Key) -> Option<Vec<Self::Key>> {
        let Node::Operation(forms) = self.cone.nodes.get(&(id, form))? else { return Some(Vec::new()) };
        Some(self.module.instruction(id).operands.iter().copied().zip(forms.iter().copied()).collect())
    }

    fn emit_one(&mut self, (id, form): Self::Key, operands: &[InstructionId]) -> Option<InstructionId> {
        let inst = self.module.instruction(id);
        match (self.cone.nodes.get(&(id, form))?, form) {
            (Node::Leaf, Form::Whole) => Some(self.carried[&id]),
            (Node::Leaf, Form::Part(dim, part)) => {
                let first = self.first_of(part);
                let leaf = (self.carried[&id], inst.array()?);
                Some(self.point.rows(self.patch, "rows", leaf, (dim, first, part.len(self.rows))))
            }
            (Node::Operation(_), _) => {
                let again = match form {
                    Form::Part(dim, part) => restrict(inst, dim, part.len(self.rows), operands.to_vec()),
                    Form::Whole => {
                        Instruction { operands: operands.iter().copied().collect(), span: None, ..inst.clone() }
                    }
                };
                let new = add_anew(self.module, self.patch, self.point.to, again);
                self.patch.set_origin(new, id);
                Some(new)
            }
            (Node::Counted, Form::Part(dim, part)) => {
                let first = self.first_of(part);
                let new = self.point.counted(self.patch, inst, (dim, first, part.len(self.rows)))?;
                self.patch.set_origin(new, id);
                Some(new)
            }
            (Node::Counted, Form::Whole) => None,
        }
    }
}

impl Rebuilt<'_> {
    /// The first of the rows that belong to the rows of the value, as many for each and so many rows further on.
    fn first_of(&mut self, rows: Rows) -> InstructionId {
        let (offset, each) = rows.stride(1);
        let mut first = self.first;
        for (opcode, number, neutral) in [(Opcode::Multiply, each, 1), (Opcode::Add, offset, 0)] {
            if number != neutral {
                let number = self.point.constant(self.patch, number);
                first = self.point.scalar(self.patch, opcode, [first, number]);
            }
        }
        first
    }
}
