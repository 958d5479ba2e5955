//! Custom calls that move values between the memory of a device and that of its host, as `jax.device_put` to `pinned_host` and offloading policies of `jax.checkpoint`
//! lower them.
//!
//! Source: xla/service/memory_annotations.h, and `Layout::kHostMemorySpace` (xla/layout.h).

// Tests: `passes/tests/host_offload.rs`.

use crate::arena::InstructionId;
use crate::attribute::{AttrKey, AttrValue, Attribute};
use crate::module::Instruction;
use crate::opcode::Opcode;
use crate::shape::ShapeRef;

/// A move between the memories of a device and of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostMove {
    /// What it gives stands in the memory of the host.
    ToHost,
    /// What it gives stands in the memory of the device.
    ToDevice,
}

/// The memory space of the host in layouts, `S(5)`.
pub const HOST_SPACE: i64 = 5;

impl HostMove {
    const fn target(self) -> &'static str {
        match self {
            Self::ToHost => "\"MoveToHost\"",
            Self::ToDevice => "\"MoveToDevice\"",
        }
    }
    /// The move that an instruction makes.
    pub fn of(inst: &Instruction) -> Option<Self> {
        let target = inst.raw(&AttrKey::CustomCallTarget).filter(|_| inst.opcode == Opcode::CustomCall)?;
        [Self::ToHost, Self::ToDevice].into_iter().find(|each| each.target() == target)
    }
    /// The instruction that moves a value of this shape.
    pub fn instruction(self, operand: InstructionId, shape: ShapeRef) -> Instruction {
        let name = match self {
            Self::ToHost => "move_to_host",
            Self::ToDevice => "move_to_device",
        };
        let mut inst = Instruction::new(name, shape, Opcode::CustomCall, [operand]);
        inst.attributes.push(Attribute::new(AttrKey::CustomCallTarget, AttrValue::Raw(self.target().into())));
        inst
    }
}
