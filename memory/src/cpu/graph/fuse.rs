//! Making fusions: the two graph operations behind every fusion pass.
//!
//! Source: `HloFusionInstruction` and `HloCallableInstruction::CloneAndAppendInstructionIntoCalledComputation`
//! (xla/hlo/ir/hlo_instructions.cc).

use hlo_ir::module::Operands;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Opcode, Payload, Shape};
use smol_str::SmolStr;

use super::Graph;

impl Graph {
    /// Replaces `root` by a fusion of `kind` that contains only a copy of it. Operands of the fusion are those of `root`, each once, in
    /// order of first use; the fusion takes the place of `root` in their user lists.
    pub(crate) fn fuse_alone(&mut self, root: InstructionId, kind: &str, name: SmolStr) -> InstructionId {
        let fusion = self.add_fusion(root, kind, name);
        if self.has_control(root) || self.opcode(root) == Opcode::Parameter {
            let copy = self.copied(root);
            let copy = self.put_into(fusion, copy);
            self.stems_from(copy, root);
            self.set_root(copy);
            self.replace(root, fusion);
            return fusion;
        }
        self.pass_metadata(root, fusion);
        self.move_into(fusion, root);
        self.take_place(root, fusion);
        fusion
    }

    /// An empty fusion for `root` beside it.
    fn add_fusion(&mut self, root: InstructionId, kind: &str, name: SmolStr) -> InstructionId {
        let body = self.add_computation("fused_computation");
        let shape = self.shape(root).clone();
        let mut fusion = Instruction::new(name, shape, Opcode::Fusion, []);
        // One more will be the metadata.
        fusion.attributes.reserve_exact(3);
        fusion.attributes.push(Attribute::new(AttrKey::Kind, self.word(kind)));
        fusion.attributes.push(Attribute::new(AttrKey::Calls, AttrValue::Computation(body)));
        self.add(self.parent(root), fusion)
    }

    /// Copies `producer`, an operand of `fusion`, into it. The copy takes the place of the parameter; operands of `producer` that the fusion
    /// lacks become operands of the fusion, at the end. The producer itself stays, without the fusion among its users.
    pub(crate) fn fuse_into(&mut self, fusion: InstructionId, producer: InstructionId) -> InstructionId {
        let copy = self.copied(producer);
        self.put_for(fusion, producer, copy)
    }

    /// The same where the producer will be removed because nothing else uses it: what it says moves.
    pub(crate) fn fuse_away(&mut self, fusion: InstructionId, producer: InstructionId) -> InstructionId {
        let moved = self.moved(producer);
        self.put_for(fusion, producer, moved)
    }

    /// Puts a copy of an operand of a fusion in the place of the parameter that stands for it.
    fn put_for(&mut self, fusion: InstructionId, producer: InstructionId, copy: Instruction) -> InstructionId {
        let number = self.operands(fusion).iter().position(|&operand| operand == producer);
        let number = number.expect("only operands of a fusion are fused into it");
        let body = self.fused(fusion).expect("a fusion has a body");
        let parameter = self.parameter(body, number);
        // The parameter keeps standing for the producer until the copy is there.
        let copy = self.put_into(fusion, copy);
        self.stems_from(copy, producer);
        self.replace_all_uses(parameter, copy);
        self.remove_fusion_operand(fusion, number);
        copy
    }

    /// Makes `consumer`, a user of `fusion`, its new root; the fusion takes the place of the consumer.
    ///
    /// Source: `FuseConsumerInstruction` (xla/backends/cpu/transforms/library_rewriter.cc).
    pub(crate) fn fuse_consumer(&mut self, fusion: InstructionId, consumer: InstructionId) {
        let body = self.fused(fusion).expect("a fusion has a body");
        let old_root = self.root(body);
        let mut copy = self.copied(consumer);
        for operand in &mut copy.operands {
            *operand = if *operand == fusion { old_root } else { self.parameter_for(fusion, *operand) };
        }
        let root = self.add(body, copy);
        self.stems_from(root, consumer);
        self.set_root(root);
        let shape = self.shape(consumer).clone();
        self.set_shape(fusion, shape);
        self.stems_from(fusion, consumer);
        self.replace(consumer, fusion);
    }

    /// Moves the contents of the fusion `merged` into its user `kept`. `merged` stays without `kept` among its users.
    ///
    /// Source: `HloFusionInstruction::MergeFusionInstruction` (xla/hlo/ir/hlo_instructions.cc).
    pub(crate) fn merge_fusion(&mut self, kept: InstructionId, merged: InstructionId) {
        let body = self.fused(merged).expect("a fusion has a body");
        let parent = self.parent(kept);
        // What stands outside for each inner instruction, by slot.
        let mut outside: Vec<Option<InstructionId>> = vec![None; self.slots(body)];
        let mut unfused = Vec::new();
        for id in self.post_order(body) {
            if let Some(number) = self.inst(id).parameter_number() {
                outside[self.slot(id)] = Some(self.operand(merged, number as usize));
                continue;
            }
            let mut copy = self.copied(id);
            for operand in &mut copy.operands {
                *operand = outside[self.slot(*operand)].expect("operands come first");
            }
            let copy = self.add(parent, copy);
            self.stems_from(copy, id);
            outside[self.slot(id)] = Some(copy);
            unfused.push(copy);
        }
        let root = outside[self.slot(self.root(body))].expect("the root was copied");
        self.replace_use(merged, kept, root);
        for id in unfused.into_iter().rev() {
            self.fuse_into(kept, id);
            self.remove(id);
        }
    }

    /// Lets the fusion `kept` also make what `other` makes, a fusion beside it or one that it reads; readers take both results from a tuple.
    ///
    /// Source: `HloFusionInstruction::MergeFusionInstructionIntoMultiOutput` (xla/hlo/ir/hlo_instructions.cc).
    pub(crate) fn merge_beside(&mut self, kept: InstructionId, other: InstructionId) {
        self.make_several(kept);
        let body = self.fused(kept).expect("a fusion has a body");
        let inner = self.copy_inside(kept, other);
        let results: Vec<InstructionId> = match self.opcode(inner) {
            Opcode::Tuple => self.operands(inner).to_vec(),
            _ => vec![inner],
        };
        if self.opcode(inner) == Opcode::Tuple {
            self.remove(inner);
        }
        let first = self.operands(self.root(body)).len();
        for &result in &results {
            self.append_operand(self.root(body), result);
        }
        if let Some(number) = self.operands(kept).iter().position(|&operand| operand == other) {
            self.replace_all_uses(self.parameter(body, number), results[0]);
            self.remove_fusion_operand(kept, number);
        }
        self.set_shape_of_results(kept);
        if results.len() == 1 && self.array(other).is_some() {
            let element = self.element_of(kept, first, other);
            self.replace(other, element);
            return;
        }
        for user in self.users(other) {
            let index = self.inst(user).int(&AttrKey::Index).unwrap_or(0) as usize;
            let element = self.element_of(kept, first + index, user);
            self.replace(user, element);
        }
        if self.is_alive(other) {
            self.remove(other);
        }
    }

    /// Lets a fusion also write what `copy`, a copy of its only result or its first, would copy.
    ///
    /// Source: `CopyFusion::DoCopyFusion` (xla/service/gpu/transforms/copy_fusion.cc).
    pub(crate) fn copy_beside(&mut self, fusion: InstructionId, copy: InstructionId) {
        self.make_several(fusion);
        let body = self.fused(fusion).expect("a fusion has a body");
        let root = self.root(body);
        let mut inner = self.copied(copy);
        inner.operands = [self.operand(root, 0)].into_iter().collect();
        let inner = self.add(body, inner);
        self.stems_from(inner, copy);
        let number = self.operands(root).len();
        self.append_operand(root, inner);
        self.set_shape_of_results(fusion);
        let element = self.element_of(fusion, number, copy);
        self.replace(copy, element);
    }

    /// Lets a fusion of several results make only those that somebody reads.
    ///
    /// Source: `RemoveMultiOutputFusionsUnusedOutputs` (xla/hlo/transforms/simplifiers/hlo_dce.cc).
    pub(crate) fn keep_read_results(&mut self, fusion: InstructionId) {
        let Some(body) = self.fused(fusion).filter(|&body| self.opcode(self.root(body)) == Opcode::Tuple) else {
            return;
        };
        let is_unread = |id| self.opcode(id) == Opcode::GetTupleElement && self.is_dead(id) && !self.has_control(id);
        let (unread, readers): (Vec<InstructionId>, Vec<InstructionId>) =
            self.users(fusion).iter().partition(|&&id| is_unread(id));
        for id in unread {
            self.remove(id);
        }
        let root = self.root(body);
        let index =
            |graph: &Self, id| graph.inst(id).int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok());
        let is_element = |&id: &InstructionId| self.opcode(id) == Opcode::GetTupleElement;
        if self.is_root(fusion) || self.has_control(fusion) || !readers.iter().all(is_element) {
            return;
        }
        let mut read: Vec<usize> = readers.iter().filter_map(|&id| index(self, id)).collect();
        read.sort_unstable();
        read.dedup();
        if read.is_empty() || read.len() == self.operands(root).len() {
            return;
        }
        let kept: Vec<InstructionId> = read.iter().map(|&index| self.operand(root, index)).collect();
        if let [only] = kept[..] {
            self.set_root(only);
            self.set_shape(fusion, self.shape(only).clone());
            for reader in readers {
                self.replace(reader, fusion);
            }
        } else {
            let shape = Shape::tuple(kept.iter().map(|&result| self.shape(result).clone()));
            let tuple = self.add(body, Instruction::new("tuple", shape, Opcode::Tuple, kept));
            self.set_root(tuple);
            self.set_shape_of_results(fusion);
            for reader in readers {
                let place = index(self, reader).and_then(|index| read.binary_search(&index).ok()).unwrap_or_default();
                self.set_attribute(reader, AttrKey::Index, AttrValue::Int(place as i64));
            }
        }
        self.remove_with_operands(root);
        for number in (0..self.operands(fusion).len()).rev() {
            if self.is_dead(self.parameter(body, number)) {
                self.remove_fusion_operand(fusion, number);
            }
        }
    }

    /// Lets a fusion return a tuple of one result, unless it returns several.
    fn make_several(&mut self, fusion: InstructionId) {
        let body = self.fused(fusion).expect("a fusion has a body");
        let root = self.root(body);
        if self.opcode(root) == Opcode::Tuple {
            return;
        }
        let shape = Shape::tuple([self.shape(root).clone()]);
        let tuple = self.add(body, Instruction::new("tuple", shape, Opcode::Tuple, [root]));
        self.set_root(tuple);
        let element = self.element_of(fusion, 0, fusion);
        let is_root = self.is_root(fusion);
        self.replace_all_uses(fusion, element);
        if is_root {
            self.set_root(element);
        }
        self.set_shape_of_results(fusion);
    }

    /// An element of what a fusion returns, which stands for `old`.
    fn element_of(&mut self, fusion: InstructionId, index: usize, old: InstructionId) -> InstructionId {
        let shape = self.shape(old).clone();
        let mut element = Instruction::new("get-tuple-element", shape, Opcode::GetTupleElement, [fusion]);
        element.attributes = vec![Attribute::int(AttrKey::Index, index as i64)];
        let element = self.add(self.parent(fusion), element);
        self.stems_from(element, old);
        element
    }

    fn set_shape_of_results(&mut self, fusion: InstructionId) {
        let Some(body) = self.fused(fusion) else { return };
        let root = self.root(body);
        let shape = Shape::tuple(self.operands(root).iter().map(|&result| self.shape(result).clone()));
        self.set_shape(root, shape.clone());
        self.set_shape(fusion, shape);
    }

    /// Copies what `other` does into the body of a fusion; returns the copy of its result.
    fn copy_inside(&mut self, fusion: InstructionId, other: InstructionId) -> InstructionId {
        let body = self.fused(fusion).expect("a fusion has a body");
        let Some(inside) = self.fused(other) else {
            let mut copy = self.copied(other);
            for operand in &mut copy.operands {
                *operand = self.parameter_for(fusion, *operand);
            }
            let copy = self.add(body, copy);
            self.stems_from(copy, other);
            return copy;
        };
        let mut copies: Vec<Option<InstructionId>> = vec![None; self.slots(inside)];
        for id in self.post_order(inside) {
            let slot = self.slot(id);
            if let Some(number) = self.inst(id).parameter_number() {
                copies[slot] = Some(self.parameter_for(fusion, self.operand(other, number as usize)));
                continue;
            }
            let mut copy = self.copied(id);
            for operand in &mut copy.operands {
                *operand = copies[self.slot(*operand)].expect("operands come first");
            }
            let copy = self.add(body, copy);
            self.stems_from(copy, id);
            copies[slot] = Some(copy);
        }
        copies[self.slot(self.root(inside))].expect("the root was copied")
    }

    /// The parameter of `fusion` that stands for `operand`, which becomes an operand if it is none yet.
    fn parameter_for(&mut self, fusion: InstructionId, operand: InstructionId) -> InstructionId {
        let body = self.fused(fusion).expect("a fusion has a body");
        if let Some(number) = self.operands(fusion).iter().position(|&other| other == operand) {
            return self.parameter(body, number);
        }
        self.append_operand(fusion, operand);
        self.add_parameter(body, operand)
    }

    /// Adds the next parameter of a fused computation, of the shape of `operand`.
    fn add_parameter(&mut self, body: ComputationId, operand: InstructionId) -> InstructionId {
        let number = Payload::Parameter(self.bodies[body].parameters.len() as i64);
        let parameter = Instruction::new("param", self.shape(operand).clone(), Opcode::Parameter, []);
        self.add(body, parameter.with_payload(number))
    }

    /// Adds a copy to the body of `fusion`, with parameters in place of its operands.
    fn put_into(&mut self, fusion: InstructionId, mut copy: Instruction) -> InstructionId {
        let body = self.fused(fusion).expect("a fusion has a body");
        for operand in &mut copy.operands {
            *operand = self.parameter_for(fusion, *operand);
        }
        self.add(body, copy)
    }

    /// Moves what `root` says into the empty `fusion` beside it, as its root. The fusion reads what `root` reads, but is not yet among the users
    /// of its operands.
    fn move_into(&mut self, fusion: InstructionId, root: InstructionId) {
        let body = self.fused(fusion).expect("a fusion has a body");
        let mut copy = self.moved(root);
        for operand in &mut copy.operands {
            let known = self.operands(fusion).iter().position(|other| other == operand);
            *operand = if let Some(number) = known {
                self.parameter(body, number)
            } else {
                self.inputs[fusion].push(*operand);
                self.add_parameter(body, *operand)
            };
        }
        let copy = self.add(body, copy);
        self.stems_from(copy, root);
        self.set_root(copy);
        // The root reads all that is there.
        self.note_settled(body);
    }

    /// An instruction that is about to go, operands included: what it says is taken from it.
    fn moved(&mut self, id: InstructionId) -> Instruction {
        let inst = &mut self.insts[id];
        let attributes = std::mem::take(&mut inst.attributes);
        let (name, shape, payload) = (inst.name.clone(), inst.shape.clone(), inst.payload.clone());
        let operands = Operands::from_slice(&self.inputs[id]);
        Instruction { name, shape, payload, attributes, operands, ..*inst }
    }
}
