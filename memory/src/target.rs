//! Which compiler a scheduled module comes from, read off what only that compiler writes.

// Tests: `memory/tests/live_range.rs`.

use hlo_ir::{AttrKey, Instruction, Module, Shape};

use crate::Target;

/// The target of a scheduled module; an unscheduled one can go to any, and [`Target::Cpu`] has a model of what happens to it.
pub fn target_of(module: &Module) -> Target {
    if !module.is_scheduled() {
        return Target::Cpu;
    }
    let mut gpu = false;
    for (_, inst) in module.live_instructions() {
        if is_tiled(&inst.shape) {
            return Target::Tpu;
        }
        gpu |= is_of_gpu(inst);
    }
    if gpu { Target::Gpu } else { Target::Cpu }
}

/// Only TPUs have tiles.
fn is_tiled(shape: &Shape) -> bool {
    match shape {
        Shape::Array(array) => array.layout.as_ref().is_some_and(|layout| layout.suffix.starts_with("T(")),
        Shape::Tuple(elements) => elements.iter().any(|element| is_tiled(element)),
        Shape::Buffer(inner) => is_tiled(inner),
        Shape::Token | Shape::Opaque => false,
    }
}

/// Calls of GPU libraries, and configurations of GPU kernels.
fn is_of_gpu(inst: &Instruction) -> bool {
    let target = inst.raw(&AttrKey::CustomCallTarget).unwrap_or_default();
    let library =
        ["__cublas", "__cudnn", "__cusolver", "__triton", "__gpu", "__nccl"].iter().any(|name| target.contains(name));
    let config = || inst.raw(&AttrKey::BackendConfig).unwrap_or_default();
    library
        || ["gpu_backend_config", "fusion_backend_config", "force_earliest_schedule", "wait_on_operation_queues"]
            .iter()
            .any(|key| config().contains(key))
}
