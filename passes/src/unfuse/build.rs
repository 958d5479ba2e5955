//! Builds the plain module as one patch: every computation that is not inlined keeps its place, and its instructions keep theirs.

use crate::hash::{IndexMap, IndexSet};
use hlo_ir::edit::Patch;
use hlo_ir::{AttrKey, AttrValue, Attribute, ComputationId, Instruction, InstructionId, Module, Opcode};

use super::{bitcast, refuse, shapes};

/// The patch for a module without obstacle, and what it does, in a few words.
pub(super) fn plain(module: &Module) -> (Patch, String) {
    let mut builder = Builder {
        module,
        patch: Patch::new(module),
        kept: IndexSet::from_iter([module.entry()]),
        counts: Counts::default(),
    };
    // Keeping a computation finds those it calls.
    let mut next = 0;
    while let Some(&computation) = builder.kept.get_index(next) {
        builder.keep(computation);
        next += 1;
    }
    for &id in module.computation_ids().iter().filter(|id| !builder.kept.contains(*id)) {
        builder.patch.remove_computation(id);
    }
    builder.patch.set_header(shapes::plain_header(&module.attributes));
    (builder.patch, builder.counts.note())
}

/// What was taken apart.
#[derive(Default)]
struct Counts {
    fusions: usize,
    calls: usize,
    bitcasts: usize,
    copies: usize,
}

impl Counts {
    /// `3 fusions, 1 call, 5 bitcasts taken apart`.
    fn note(&self) -> String {
        let count = |count: usize, one: &str, many: &str| {
            (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
        };
        let parts = [
            count(self.fusions, "fusion", "fusions"),
            count(self.calls, "call", "calls"),
            count(self.bitcasts, "bitcast", "bitcasts"),
            count(self.copies, "copy", "copies"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "schedule dropped".to_owned() } else { format!("{} taken apart", parts.join(", ")) }
    }
}

/// What stands for an instruction in the plain module: an instruction, or the parts of a tuple that nobody needs as a whole.
#[derive(Clone, Debug)]
enum Value {
    One(InstructionId),
    Parts(Vec<Value>),
}

/// The instructions of one body, in the computation they go to.
struct Frame {
    into: ComputationId,
    /// 0 where the body stays what it is.
    level: usize,
    values: IndexMap<InstructionId, Value>,
}

impl Frame {
    fn value(&self, id: InstructionId) -> Value {
        self.values.get(&id).cloned().expect("definitions come before uses")
    }
}

struct Builder<'a> {
    module: &'a Module,
    patch: Patch,
    kept: IndexSet<ComputationId>,
    counts: Counts,
}

impl Builder<'_> {
    /// Translates a computation that stays.
    fn keep(&mut self, computation: ComputationId) {
        let mut frame = Frame { into: computation, level: 0, values: IndexMap::default() };
        for &id in &self.module.computation(computation).instructions {
            let value = self.translate(id, &frame);
            if !matches!(value, Value::One(new) if new == id) {
                // A copy of its body acts in its place.
                self.patch.remove_moved(id);
            }
            frame.values.insert(id, value);
        }
        let root = self.module.computation(computation).root;
        let new = self.whole(frame.value(root), root, &frame);
        if new != root {
            self.patch.replace(root, new);
        }
    }

    /// What stands for a fusion or call: a copy of the body it calls.
    fn inline(&mut self, id: InstructionId, key: &AttrKey, outer: &Frame) -> Value {
        let inst = self.module.instruction(id);
        let callee = inst.computation(key).expect("a fusion without a body is refused");
        let mut frame = Frame { into: outer.into, level: outer.level + 1, values: IndexMap::default() };
        for &inner in &self.module.computation(callee).instructions {
            let number = self.module.instruction(inner).parameter_number();
            let value = match number.and_then(|number| usize::try_from(number).ok()) {
                Some(number) => outer.value(inst.operands[number]),
                None => self.translate(inner, &frame),
            };
            frame.values.insert(inner, value);
        }
        frame.value(self.module.computation(callee).root)
    }

    fn translate(&mut self, id: InstructionId, frame: &Frame) -> Value {
        let inst = self.module.instruction(id);
        match inst.opcode {
            Opcode::Fusion => {
                self.counts.fusions += 1;
                self.inline(id, &AttrKey::Calls, frame)
            }
            Opcode::Call if refuse::is_inlined(self.module, id) => {
                self.counts.calls += 1;
                self.inline(id, &AttrKey::ToApply, frame)
            }
            Opcode::Copy => {
                self.counts.copies += 1;
                frame.value(inst.operands[0])
            }
            Opcode::Bitcast => {
                self.counts.bitcasts += 1;
                self.bitcast(id, frame)
            }
            Opcode::Tuple if frame.level > 0 => {
                Value::Parts(inst.operands.iter().map(|&operand| frame.value(operand)).collect())
            }
            Opcode::GetTupleElement => self.element(id, frame),
            _ => self.emit(id, frame),
        }
    }

    fn element(&mut self, id: InstructionId, frame: &Frame) -> Value {
        let inst = self.module.instruction(id);
        let index = inst.int(&AttrKey::Index).and_then(|index| usize::try_from(index).ok());
        match (frame.value(inst.operands[0]), index) {
            (Value::Parts(parts), Some(index)) => parts[index].clone(),
            _ => self.emit(id, frame),
        }
    }

    /// The operations that a bitcast amounts to.
    fn bitcast(&mut self, id: InstructionId, frame: &Frame) -> Value {
        let inst = self.module.instruction(id);
        let operand = inst.operands[0];
        let shapes = self.module.shape(operand).as_array().zip(inst.array());
        let chain = shapes.and_then(|(from, to)| bitcast::steps(from, to)).expect("other bitcasts are refused");
        let mut value = frame.value(operand);
        for (place, step) in chain.iter().enumerate() {
            let from = self.whole(value, operand, frame);
            let mut new = Instruction { opcode: step.opcode, operands: [from].into_iter().collect(), ..inst.clone() };
            new.shape = hlo_ir::Shape::array(step.shape.element_type, step.shape.dims.iter().copied());
            new.attributes.retain(is_plain);
            if step.opcode == Opcode::Transpose {
                new.attributes.insert(0, Attribute::ints(AttrKey::Dimensions, step.dimensions.iter().copied()));
            }
            let is_last = place + 1 == chain.len();
            value = Value::One(if is_last { self.place(id, new, frame) } else { self.add(id, new, frame) });
        }
        value
    }

    /// The instruction itself, on plain operands and with a plain shape.
    fn emit(&mut self, id: InstructionId, frame: &Frame) -> Value {
        let inst = self.module.instruction(id);
        let mut new = inst.clone();
        for operand in &mut new.operands {
            *operand = self.whole(frame.value(*operand), *operand, frame);
        }
        // A call of foreign code is told in which layouts it gets its operands, and its config is part of what it does.
        if inst.opcode == Opcode::CustomCall {
            new.attributes.retain(|attribute| attribute.key != AttrKey::ControlPredecessors);
        } else {
            new.shape = shapes::plain(&inst.shape);
            new.attributes.retain(is_plain);
        }
        self.kept.extend(inst.called_computations());
        Value::One(self.place(id, new, frame))
    }

    /// Puts `new` where `id` stands, or a copy of it where the body of `id` goes.
    fn place(&mut self, id: InstructionId, new: Instruction, frame: &Frame) -> InstructionId {
        if frame.level > 0 {
            return self.add(id, new, frame);
        }
        if new != *self.module.instruction(id) {
            self.patch.rewrite(id, new);
        }
        id
    }

    fn add(&mut self, origin: InstructionId, new: Instruction, frame: &Frame) -> InstructionId {
        let id = self.patch.add(frame.into, Instruction { span: None, ..new });
        self.patch.set_origin(id, origin);
        id
    }

    /// One instruction for a value that stands for `old`: a tuple of its parts is made where somebody wants it whole.
    fn whole(&mut self, value: Value, old: InstructionId, frame: &Frame) -> InstructionId {
        let parts = match value {
            Value::One(id) => return id,
            Value::Parts(parts) => parts,
        };
        let operands: Vec<_> = parts.into_iter().map(|part| self.whole(part, old, frame)).collect();
        let elements = operands.iter().map(|&id| self.patch.instruction(self.module, id).shape.clone());
        let shape = hlo_ir::Shape::tuple(elements.map(|shape| shapes::plain(&shape)));
        let name = self.module.instruction(old).name.clone();
        self.add(old, Instruction::new(name, shape, Opcode::Tuple, operands), frame)
    }
}

/// Whether an attribute says what an instruction computes, rather than how the compiler does it.
fn is_plain(attribute: &Attribute) -> bool {
    !matches!(attribute.key, AttrKey::BackendConfig | AttrKey::ControlPredecessors)
        && !matches!((&attribute.key, &attribute.value), (AttrKey::FrontendAttributes, AttrValue::Raw(text)) if text.contains("xla_cpu_small_call"))
}
