//! Making fusions: the two graph operations behind every fusion pass.
//!
//! Source: `HloFusionInstruction` and `HloCallableInstruction::CloneAndAppendInstructionIntoCalledComputation`
//! (xla/hlo/ir/hlo_instructions.cc).

use hlo_ir::{AttrKey, AttrValue, Attribute, Instruction, InstructionId, Opcode, Payload};
use smol_str::SmolStr;

use super::Graph;

impl Graph {
    /// Replaces `root` by a fusion of `kind` that contains only a copy of it. Operands of the fusion are those of `root`, each once, in
    /// order of first use; the fusion takes the place of `root` in their user lists.
    pub(crate) fn fuse_alone(&mut self, root: InstructionId, kind: &str, name: SmolStr) -> InstructionId {
        let fusion = self.add_fusion(root, kind, name);
        self.replace(root, fusion);
        fusion
    }

    /// The fusion of [`Graph::fuse_alone`] beside `root`, which stays.
    fn add_fusion(&mut self, root: InstructionId, kind: &str, name: SmolStr) -> InstructionId {
        let body = self.add_computation("fused_computation");
        let shape = self.shape(root).clone();
        let mut fusion = Instruction::new(name, shape, Opcode::Fusion, []);
        fusion.attributes.push(Attribute::word(AttrKey::Kind, kind));
        fusion.attributes.push(Attribute::new(AttrKey::Calls, AttrValue::Computation(body)));
        let fusion = self.add(self.parent(root), fusion);
        let copy = self.copy_into(fusion, root);
        self.set_root(copy);
        fusion
    }

    /// Copies `producer`, an operand of `fusion`, into it. The copy takes the place of the parameter; operands of `producer` that the fusion
    /// lacks become operands of the fusion, at the end. The producer itself stays, without the fusion among its users.
    pub(crate) fn fuse_into(&mut self, fusion: InstructionId, producer: InstructionId) -> InstructionId {
        let number = self.operands(fusion).iter().position(|&operand| operand == producer);
        let number = number.expect("only operands of a fusion are fused into it");
        let body = self.fused(fusion).expect("a fusion has a body");
        let parameter = self.parameters(body)[number];
        // The parameter keeps standing for the producer until the copy is there.
        let copy = self.copy_into(fusion, producer);
        self.replace_all_uses(parameter, copy);
        self.remove_fusion_operand(fusion, number);
        copy
    }

    /// Adds a copy of `inst` to the body of `fusion`, with parameters in place of its operands.
    fn copy_into(&mut self, fusion: InstructionId, inst: InstructionId) -> InstructionId {
        let body = self.fused(fusion).expect("a fusion has a body");
        let mut parameters = self.parameters(body);
        let mut copy = self.inst(inst).clone();
        for operand in &mut copy.operands {
            let known = self.operands(fusion).iter().position(|other| other == operand);
            let number = known.unwrap_or(parameters.len());
            if known.is_none() {
                let parameter = Instruction::new("param", self.shape(*operand).clone(), Opcode::Parameter, [])
                    .with_payload(Payload::Parameter(number as i64));
                parameters.push(self.add(body, parameter));
                self.append_operand(fusion, *operand);
            }
            *operand = parameters[number];
        }
        self.add(body, copy)
    }
}
