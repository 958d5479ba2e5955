//! Legal modules made odd: what a compiler takes and programs seldom hold. Control dependencies between any two instructions, results alone in a
//! tuple, side effects in the bodies of fusions, opcodes that nobody knows.

use hlo_ir::edit::Patch;
use hlo_ir::module::{Payload, UnknownOpcode};
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode, Shape};

/// A small random generator (SplitMix64); a seed gives the same numbers everywhere.
struct Random(u64);

impl Random {
    /// Seeded by all of some bytes (FNV-1a).
    fn of(bytes: &[u8]) -> Self {
        Self(
            bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            }),
        )
    }
    /// A number below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Oddities put into one module, at most.
const MOST: usize = 6;

/// Puts a few oddities, chosen by `bytes`, into a module that is legal and stays so.
pub(crate) fn make_odd(module: &mut Module, bytes: &[u8]) {
    const KINDS: [fn(&Module, &mut Random) -> Option<Patch>; 5] =
        [control, tuple_of_one, reduce_to_tuple, effect_in_fusion, unknown_opcode];
    let mut random = Random::of(bytes);
    for _ in 0..=random.below(MOST) {
        let kind = KINDS[random.below(KINDS.len())];
        let Some(patch) = kind(module, &mut random) else { continue };
        let Ok(undo) = patch.apply(module) else { continue };
        if !hlo_ir::verify::verify(module).is_empty() {
            undo.revert(module);
        }
    }
}

/// Any live instruction that passes a test.
fn any(module: &Module, random: &mut Random, test: impl Fn(&Instruction) -> bool) -> Option<InstructionId> {
    let found: Vec<InstructionId> =
        module.live_instructions().filter(|(_, inst)| test(inst)).map(|(id, _)| id).collect();
    (!found.is_empty()).then(|| found[random.below(found.len())])
}

/// An instruction waits for another one that stands before it.
fn control(module: &Module, random: &mut Random) -> Option<Patch> {
    let id = any(module, random, |_| true)?;
    let list = &module.computation(module.instruction(id).parent).instructions;
    let place = list.iter().position(|&other| other == id).filter(|&place| place > 0)?;
    let mut before = module.instruction(id).control_predecessors().to_vec();
    let new = list[random.below(place)];
    if !before.contains(&new) {
        before.push(new);
    }
    let mut inst = module.instruction(id).clone();
    inst.set_attribute(AttrKey::ControlPredecessors, AttrValue::Instructions(before.into()));
    let mut patch = Patch::new(module);
    patch.rewrite(id, inst);
    Some(patch)
}

/// A value goes into a tuple of one and out again; or the tuple is what the program gives.
fn tuple_of_one(module: &Module, random: &mut Random) -> Option<Patch> {
    let id = any(module, random, |inst| inst.array().is_some())?;
    let inst = module.instruction(id);
    let mut patch = Patch::new(module);
    let tuple = tuple(&mut patch, inst.parent, inst, id);
    let is_result = module.computation(module.entry()).root == id;
    let new = if is_result && random.below(2) == 0 { tuple } else { element(&mut patch, inst.parent, inst, tuple) };
    patch.replace(id, new);
    let plain = |attribute: &Attribute| attribute.key != AttrKey::EntryComputationLayout;
    patch.set_header(module.attributes.iter().filter(|attribute| plain(attribute)).cloned().collect());
    Some(patch)
}

fn tuple(patch: &mut Patch, into: ComputationId, like: &Instruction, id: InstructionId) -> InstructionId {
    patch.add(into, Instruction::new("alone", Shape::tuple([like.shape.clone()]), Opcode::Tuple, [id]))
}

fn element(patch: &mut Patch, into: ComputationId, like: &Instruction, tuple: InstructionId) -> InstructionId {
    let taken = Instruction::new("taken", like.shape.clone(), Opcode::GetTupleElement, [tuple]);
    patch.add(into, taken.with(Attribute::int(AttrKey::Index, 0)))
}

/// A reduction of one array gives a tuple of it, and so does what it applies.
fn reduce_to_tuple(module: &Module, random: &mut Random) -> Option<Patch> {
    let is_one =
        |inst: &Instruction| matches!(inst.opcode, Opcode::Reduce | Opcode::ReduceWindow) && inst.array().is_some();
    let id = any(module, random, is_one)?;
    let inst = module.instruction(id);
    let applied = inst.computation(&AttrKey::ToApply)?;
    let users = module.live_instructions().flat_map(|(_, inst)| inst.called_computations());
    if users.filter(|&callee| callee == applied).count() > 1 {
        return None;
    }
    let mut patch = Patch::new(module);
    let root = module.computation(applied).root;
    let inner = tuple(&mut patch, applied, module.instruction(root), root);
    patch.replace(root, inner);
    let whole = Instruction { shape: Shape::tuple([inst.shape.clone()]), span: None, ..inst.clone() };
    let whole = patch.add(inst.parent, whole);
    let taken = element(&mut patch, inst.parent, inst, whole);
    patch.replace(id, taken);
    Some(patch)
}

/// The body of a fusion sends a number to the host.
fn effect_in_fusion(module: &Module, random: &mut Random) -> Option<Patch> {
    let id = any(module, random, |inst| inst.opcode == Opcode::Fusion)?;
    let body = module.instruction(id).computation(&AttrKey::Calls)?;
    let mut patch = Patch::new(module);
    let token = || std::sync::Arc::new(Shape::Token);
    let after = patch.add(body, Instruction::new("start", token(), Opcode::AfterAll, []));
    let number = Instruction::new("number", Shape::array(hlo_ir::ElementType::S32, []), Opcode::Constant, []);
    let number = patch.add(body, number.with_payload(Payload::Literal("7".into())));
    let sent = Instruction::new("sent", token(), Opcode::Outfeed, [number, after]);
    let shape = Attribute::new(AttrKey::unknown("outfeed_shape"), AttrValue::Raw("s32[]".into()));
    patch.add(body, sent.with(shape));
    Some(patch)
}

/// A value goes through an operation of which nothing is known.
fn unknown_opcode(module: &Module, random: &mut Random) -> Option<Patch> {
    let id = any(module, random, |inst| inst.array().is_some())?;
    let inst = module.instruction(id);
    let mut patch = Patch::new(module);
    let unknown = Payload::Unknown(Box::new(UnknownOpcode { opcode: "melt".into(), operands: None }));
    let new = Instruction::new("molten", inst.shape.clone(), Opcode::Unknown, [id]).with_payload(unknown);
    let new = patch.add(inst.parent, new);
    patch.replace(id, new);
    Some(patch)
}
