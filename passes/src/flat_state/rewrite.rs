//! Rewrites the computations around and inside the loops, each from its first instruction to its last.

use std::collections::BTreeMap;

use hlo_ir::edit::Patch;
use hlo_ir::shape::ShapeRef;
use hlo_ir::{AttrKey, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode, Shape};

use super::loops::{Loops, may_inline};
use super::tree::{Tree, flat};
use crate::{Reason, bounds};

/// Writes every loop with a flat state.
pub(super) fn flatten(module: &Module, patch: &mut Patch, loops: &Loops) -> Result<(), Reason> {
    let mut added = 0;
    for computation in loops.touched(module) {
        let mut rewriter = Rewriter {
            module,
            patch,
            loops,
            computation,
            root: module.computation(computation).root,
            trees: BTreeMap::new(),
            taken: BTreeMap::new(),
            added,
        };
        rewriter.run()?;
        added = rewriter.added;
    }
    Ok(())
}

/// One computation.
struct Rewriter<'a> {
    module: &'a Module,
    patch: &'a mut Patch,
    loops: &'a Loops,
    computation: ComputationId,
    root: InstructionId,
    /// What stands for each instruction so far.
    trees: BTreeMap<InstructionId, Tree>,
    /// The elements that were taken of tuples.
    taken: BTreeMap<(InstructionId, usize), InstructionId>,
    /// Instructions copied from called computations.
    added: usize,
}

impl Rewriter<'_> {
    fn run(&mut self) -> Result<(), Reason> {
        let module = self.module;
        for (id, inst) in module.instructions_of(self.computation) {
            let tree = self.tree(id, inst)?;
            self.trees.insert(id, tree);
        }
        let tree = self.trees[&self.root].clone();
        let is_state = module.instruction(self.root).shape.as_tuple().is_some();
        if is_state && self.loops.inner.contains(&self.computation) {
            self.flatten_root(&tree);
        } else {
            let new = self.whole(&tree);
            if new != self.root {
                self.patch.replace(self.root, new);
            }
        }
        Ok(())
    }

    /// The root of a body.
    fn flatten_root(&mut self, tree: &Tree) {
        let root = self.module.instruction(self.root);
        let leaves = self.leaves(tree);
        let shape = self.tuple_shape(&leaves);
        if root.opcode == Opcode::Tuple {
            let changed = Instruction { shape, operands: leaves.into(), ..without_origin(root) };
            self.patch.rewrite(self.root, changed);
        } else {
            let flat = Instruction::new(format!("{}.flat", root.name), shape, Opcode::Tuple, leaves);
            let flat = self.patch.add(self.computation, flat);
            self.patch.replace(self.root, flat);
        }
    }

    /// What stands for an instruction of the computation, which is changed where it stands.
    fn tree(&mut self, id: InstructionId, inst: &Instruction) -> Result<Tree, Reason> {
        if inst.opcode == Opcode::Parameter {
            return Ok(if self.loops.inner.contains(&self.computation) {
                self.state(id, inst, None)
            } else {
                Tree::Leaf(id)
            });
        }
        if self.loops.flat.contains(&id) {
            let begin = self.trees[&inst.operands[0]].clone();
            let leaves = self.leaves(&begin);
            let name = format!("{}.state", inst.name);
            let begin = Instruction::new(name, self.tuple_shape(&leaves), Opcode::Tuple, leaves);
            let begin = self.patch.add(self.computation, begin);
            return Ok(self.state(id, inst, Some(begin)));
        }
        if inst.opcode == Opcode::GetTupleElement {
            return Ok(self.element(id, inst));
        }
        let operands: Vec<Tree> = inst.operands.iter().map(|operand| self.trees[operand].clone()).collect();
        if let Some(same) = self.unchanged(inst, &operands) {
            self.patch.remove(id);
            return Ok(same);
        }
        let of_tuple = operands.iter().any(|operand| !matches!(operand, Tree::Leaf(_)));
        if inst.opcode == Opcode::Call && of_tuple && may_inline(self.module, id) {
            self.patch.remove(id);
            return self.inline(inst, &operands, inst.raw(&AttrKey::Metadata));
        }
        let is_root_of_body = id == self.root && self.loops.inner.contains(&self.computation);
        if !(is_root_of_body && inst.opcode == Opcode::Tuple) {
            self.redirect(id, inst, &operands);
        }
        Ok(if inst.opcode == Opcode::Tuple { Tree::Node(operands.into(), Some(id)) } else { Tree::Leaf(id) })
    }

    /// Gives an instruction its new operands.
    fn redirect(&mut self, id: InstructionId, inst: &Instruction, operands: &[Tree]) {
        let operands: Vec<InstructionId> = operands.iter().map(|operand| self.whole(operand)).collect();
        if operands[..] != inst.operands[..] {
            self.patch.rewrite(id, Instruction { operands: operands.into(), ..inst.clone() });
        }
    }

    /// A loop or a parameter with a flat shape.
    fn state(&mut self, id: InstructionId, inst: &Instruction, begin: Option<InstructionId>) -> Tree {
        let mut changed = without_origin(inst);
        changed.shape = flat(&inst.shape);
        changed.operands = begin.into_iter().collect();
        self.patch.rewrite(id, changed);
        Tree::Part { of: id, first: 0, shape: inst.shape.clone() }
    }

    /// An element of a tuple.
    fn element(&mut self, id: InstructionId, inst: &Instruction) -> Tree {
        let tuple = self.trees[&inst.operands[0]].clone();
        let index = inst.int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
        match tuple.child(index) {
            None => {
                self.redirect(id, inst, &[tuple]);
                Tree::Leaf(id)
            }
            // Where the loop is the root, a tuple is built for the root, and what reads the loop by name would read that.
            Some(Tree::Part { of, first, shape }) if shape.as_tuple().is_none() && of != self.root => {
                self.patch.rewrite(id, taken(inst.clone(), of, first));
                self.taken.entry((of, first)).or_insert(id);
                Tree::Leaf(id)
            }
            Some(part) => {
                self.patch.remove(id);
                self.looked_into(part)
            }
        }
    }

    /// The value, as an instruction if it is an array.
    fn looked_into(&mut self, tree: Tree) -> Tree {
        match &tree {
            Tree::Part { shape, .. } if shape.as_tuple().is_none() => Tree::Leaf(self.whole(&tree)),
            _ => tree,
        }
    }

    /// What an operation forwards that changes nothing.
    fn unchanged(&self, inst: &Instruction, operands: &[Tree]) -> Option<Tree> {
        let [Tree::Leaf(operand)] = operands else { return None };
        let plain = inst.attribute(&AttrKey::Sharding).is_none() && inst.control_predecessors().is_empty();
        let before = self.patch.instruction(self.module, *operand);
        if !plain || inst.array().is_none_or(hlo_ir::ArrayShape::is_dynamic) {
            return None;
        }
        let same = before.shape == inst.shape;
        let in_place = match inst.opcode {
            Opcode::Reshape | Opcode::Convert | Opcode::Slice | Opcode::Concatenate => same,
            Opcode::Transpose => same && inst.ints(&AttrKey::Dimensions).is_sorted(),
            _ => false,
        };
        if in_place {
            return Some(Tree::Leaf(*operand));
        }
        let both = inst.opcode == Opcode::Reshape && before.opcode == Opcode::Reshape;
        let first = *before.operands.first().filter(|_| both)?;
        let known = self.trees.get(&first).cloned().unwrap_or(Tree::Leaf(first));
        let Tree::Leaf(known) = known else { return None };
        (self.patch.instruction(self.module, known).shape == inst.shape).then_some(Tree::Leaf(known))
    }

    /// Copies the computation that a call runs.
    fn inline(&mut self, call: &Instruction, operands: &[Tree], said: Option<&str>) -> Result<Tree, Reason> {
        let module = self.module;
        let callee = call.computation(&AttrKey::ToApply).expect("calls without a callee are not inlined");
        let mut trees: BTreeMap<InstructionId, Tree> = BTreeMap::new();
        for (id, inst) in module.instructions_of(callee) {
            let inputs: Vec<Tree> = inst.operands.iter().map(|operand| trees[operand].clone()).collect();
            let tree = if let Some(number) = inst.parameter_number() {
                operands[usize::try_from(number).expect("the verifier checks parameter numbers")].clone()
            } else if let Some(element) = element_of(inst, &inputs) {
                self.looked_into(element)
            } else if let Some(same) = self.unchanged(inst, &inputs) {
                same
            } else if inst.opcode == Opcode::Tuple {
                Tree::Node(inputs.into(), None)
            } else if inst.opcode == Opcode::Call && may_inline(module, id) {
                self.inline(inst, &inputs, said)?
            } else {
                Tree::Leaf(self.copy(id, inst, &inputs, said)?)
            };
            trees.insert(id, tree);
        }
        Ok(trees[&module.computation(callee).root].clone())
    }

    fn copy(
        &mut self,
        id: InstructionId,
        inst: &Instruction,
        inputs: &[Tree],
        said: Option<&str>,
    ) -> Result<InstructionId, Reason> {
        self.added += 1;
        if self.added > bounds::ADDED {
            let message = format!("calls inlined would add more than {} instructions", bounds::ADDED);
            return Err(Reason { code: "too-large", message });
        }
        let operands: Vec<InstructionId> = inputs.iter().map(|input| self.whole(input)).collect();
        let mut copy = Instruction { operands: operands.into(), span: None, ..inst.clone() };
        copy.stand_in_place_of(said);
        let new = self.patch.add(self.computation, copy);
        self.patch.set_origin(new, id);
        Ok(new)
    }

    /// The instruction that holds all of a value.
    fn whole(&mut self, tree: &Tree) -> InstructionId {
        match tree {
            Tree::Leaf(id) | Tree::Node(_, Some(id)) => *id,
            Tree::Node(children, None) => {
                let parts: Vec<InstructionId> = children.iter().map(|child| self.whole(child)).collect();
                self.tuple(parts)
            }
            Tree::Part { of, first, shape } => match shape.as_tuple() {
                None => self.take(*of, *first, shape),
                Some(elements) => {
                    let children = (0..elements.len()).filter_map(|index| tree.child(index));
                    let parts: Vec<InstructionId> =
                        children.collect::<Vec<_>>().iter().map(|child| self.whole(child)).collect();
                    self.tuple(parts)
                }
            },
        }
    }

    /// The arrays of a value, in order.
    fn leaves(&mut self, tree: &Tree) -> Vec<InstructionId> {
        let elements = match tree {
            Tree::Node(children, _) => children.len(),
            Tree::Part { shape, .. } => shape.as_tuple().map_or(0, <[ShapeRef]>::len),
            Tree::Leaf(id) => return self.leaves_of(*id),
        };
        if matches!(tree, Tree::Part { shape, .. } if shape.as_tuple().is_none()) {
            return vec![self.whole(tree)];
        }
        let children: Vec<Tree> = (0..elements).filter_map(|index| tree.child(index)).collect();
        children.iter().flat_map(|child| self.leaves(child)).collect()
    }

    fn leaves_of(&mut self, id: InstructionId) -> Vec<InstructionId> {
        let shape = self.patch.instruction(self.module, id).shape.clone();
        let Some(elements) = shape.as_tuple() else { return vec![id] };
        let taken: Vec<InstructionId> =
            elements.iter().enumerate().map(|(index, shape)| self.take(id, index, shape)).collect();
        taken.into_iter().flat_map(|id| self.leaves_of(id)).collect()
    }

    fn take(&mut self, of: InstructionId, index: usize, shape: &ShapeRef) -> InstructionId {
        if let Some(&known) = self.taken.get(&(of, index)) {
            return known;
        }
        let name = format!("{}.element", self.patch.instruction(self.module, of).name);
        let new = taken(Instruction::new(name, shape.clone(), Opcode::GetTupleElement, [of]), of, index);
        let new = self.patch.add(self.computation, new);
        // Not every tuple that is built is read.
        self.patch.remove(new);
        self.taken.insert((of, index), new);
        new
    }

    fn tuple(&mut self, parts: Vec<InstructionId>) -> InstructionId {
        let shape = self.tuple_shape(&parts);
        let new = self.patch.add(self.computation, Instruction::new("whole", shape, Opcode::Tuple, parts));
        self.patch.remove(new);
        new
    }

    fn tuple_shape(&self, parts: &[InstructionId]) -> ShapeRef {
        Shape::tuple(parts.iter().map(|&id| self.patch.instruction(self.module, id).shape.clone()).collect::<Vec<_>>())
    }
}

/// The element that a `get-tuple-element` takes, if its tuple is looked into.
fn element_of(inst: &Instruction, inputs: &[Tree]) -> Option<Tree> {
    let index = inst.int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok());
    let takes = inst.opcode == Opcode::GetTupleElement;
    inputs.first().filter(|_| takes)?.child(index?)
}

/// A `get-tuple-element` of another element.
fn taken(mut inst: Instruction, of: InstructionId, index: usize) -> Instruction {
    inst.operands = [of].into_iter().collect();
    let index = i64::try_from(index).expect("a tuple has fewer elements");
    inst.attributes.retain(|attribute| attribute.key != AttrKey::Index);
    inst.with(Attribute::int(AttrKey::Index, index))
}

/// The instruction without the record of the values that its old shape held.
fn without_origin(inst: &Instruction) -> Instruction {
    let mut inst = inst.clone();
    inst.attributes.retain(|attribute| attribute.key != AttrKey::Origin);
    inst
}
