//! Why the buffers that hold the peak of the result are still there.
//!
//! Arguments and results are the floor: nothing is said about them. For every other buffer of more than 1 % of the total there is
//! one remark, also where a pass has said why it left that instruction alone.

// Tests: `passes/tests/peak_remarks.rs`, `tests/silence.rs`.

use hlo_ir::{Instruction, InstructionId, Module, Opcode};
use hlo_memory::attribution::{Holder, Role};
use hlo_memory::{Bytes, Estimator, LiveBuffer};

use super::search::Search;
use super::{Remark, RemarkKind, Source, remark_site};
use crate::flow::{self, OperandFlow};
use crate::roll::local;
use crate::sharding_remover::PER_DEVICE;
use crate::{Grade, Pass, PassKind};

/// A code and a sentence with what would help.
type Reason = (&'static str, String);

/// One remark per buffer of the result that is large and no part of the floor.
pub(super) fn collect(search: &Search<'_>, estimator: &dyn Estimator) -> Vec<Remark> {
    let large = |bytes: Bytes| u128::from(bytes.get()) * 100 > u128::from(search.now.total.get());
    let mut found: Vec<Remark> = Vec::new();
    for (holder, id) in estimator.holders(search.module) {
        let floor = matches!(holder.role, Role::Argument { .. } | Role::Output);
        if floor || !large(holder.buffer.bytes) {
            continue;
        }
        let remark = remark(search, &holder, id);
        if !found.contains(&remark) {
            found.push(remark);
        }
    }
    found
}

fn remark(search: &Search<'_>, holder: &Holder, id: Option<InstructionId>) -> Remark {
    let module = &*search.module;
    let id = id.or_else(|| locate(module, holder));
    let (code, message) = reason(search, holder, id);
    let id = id.unwrap_or(module.computation(module.entry()).root);
    let origin = search.origins.of(id);
    Remark {
        kind: RemarkKind::Analysis,
        pass: "manager",
        instruction: module.instruction(origin).name.clone(),
        id: origin,
        code,
        message: search.origins.in_input_names(module, &message),
        bytes: holder.buffer.bytes,
        source: source(holder, remark_site::source(module, id, origin)),
    }
}

/// Where a buffer was made: what the memory model says of it, and beside it what is known of its instruction.
fn source(holder: &Holder, of_instruction: Source) -> Source {
    match &holder.buffer.source {
        Some(line) if of_instruction.line.as_ref() != Some(line) => Source { line: Some(line.clone()), detail: None },
        _ => of_instruction,
    }
}

/// The instruction of the module that a buffer of the compiled program probably comes from, where the compiler lost it: the one of that name, or else the last
/// with the same operation name, or else the only one of that shape.
fn locate(module: &Module, holder: &Holder) -> Option<InstructionId> {
    let Holder { buffer: LiveBuffer { instruction, shape, op_name, .. }, .. } = holder;
    let live = || module.live_instructions();
    let by_name = live().find(|(_, inst)| inst.name == *instruction);
    let by_operation =
        || op_name.as_deref().and_then(|name| live().filter(|(_, inst)| inst.metadata("op_name") == Some(name)).last());
    let by_shape = || {
        let mut same = live().filter(|(_, inst)| inst.parameter_number().is_none() && inst.shape.to_string() == *shape);
        same.next().filter(|_| same.next().is_none())
    };
    by_name.or_else(by_operation).or_else(by_shape).map(|(id, _)| id)
}

/// Why the buffer is there, the strongest reason first.
fn reason(search: &Search<'_>, holder: &Holder, id: Option<InstructionId>) -> Reason {
    let shape = &holder.buffer.shape;
    let Some(id) = id else {
        return (
            "compiler-made",
            format!("the compiler makes a buffer {shape} that stands for no single instruction of the input"),
        );
    };
    if holder.role == Role::Constant {
        let text = format!(
            "holds a constant {shape}; an argument can be donated, and what is computed can be computed in blocks"
        );
        return ("constant", text);
    }
    // An inlined call is the user's own computation.
    if let Some(pass) = search.maker(id).filter(|pass| pass.kind() != PassKind::Enabling) {
        let inst = search.module.instruction(id);
        // Behind the loop nothing carries its result any more.
        let is_of_loop = holder.carried_by.is_some() || inst.opcode == Opcode::While;
        return ("made-by-rewrite", made_by(pass, shape, is_of_loop));
    }
    if let Some(carrier) = &holder.carried_by {
        let text = format!(
            "{shape} is carried by the loop `{carrier}` from one iteration to the next; it can go only if the loop can do without it"
        );
        return ("loop-carried", text);
    }
    if holder.buffer.bytes < search.options.min_saving {
        return ("small", format!("{shape} is smaller than --min-saving {}", search.options.min_saving));
    }
    if let Some(user) = whole_user(search.module, id) {
        let inst = search.module.instruction(user);
        let (name, opcode) = (&inst.name, inst.opcode_name());
        return (
            "needed-whole",
            format!("`{name}` ({opcode}) needs all of {shape} at once; only another algorithm there would help"),
        );
    }
    if may_lie_across_devices(search.module, id) {
        let text = format!("rows of {shape} may lie across devices, where blocks of them would take collectives");
        return ("sharded", format!("{text}; {PER_DEVICE}"));
    }
    unexplained(search, id, shape)
}

/// Whether the module is yet to be divided among devices, and the shape of an instruction is that of all of them.
fn may_lie_across_devices(module: &Module, id: InstructionId) -> bool {
    module.is_partitioned() && !local(module).contains(&module.instruction(id).parent)
}

/// What a buffer of a rewrite is for; what its loop carries gathers or sums up what its blocks make.
fn made_by(pass: &dyn Pass, shape: &str, is_of_loop: bool) -> String {
    let name = pass.name();
    match (pass.makes_blocks(), is_of_loop) {
        (false, _) => format!("holds {shape}, which {name} made; --explain {name} says what for"),
        (true, false) => format!("holds {shape}, a block of {name}; a smaller --chunk-bytes makes blocks smaller"),
        (true, true) => {
            format!(
                "holds {shape}, in which a loop of {name} gathers or sums up its blocks: what reads it takes all of it at once, however small blocks are"
            )
        }
    }
}

/// What there is to say where no pass said anything.
fn unexplained(search: &Search<'_>, id: InstructionId, shape: &str) -> Reason {
    if search.is_cut_short() {
        return ("no-rewrite", format!("no rewrite within --opt-bisect-limit makes {shape} smaller"));
    }
    if !search.taken_back.is_empty() {
        let text = "saves a larger part of the memory than it takes of the time; --objective=memory or a --budget asks for what was taken back";
        return ("no-rewrite", format!("nothing that was found to make {shape} smaller {text}"));
    }
    // Loops make products again only where memory is short.
    let again = flow::exactness(search.module, search.module.instruction(id)) != Grade::Bitwise;
    let hint = if again && search.options.goal().is_none() {
        "with --objective=memory or a --budget, loops may compute it again; "
    } else {
        ""
    };
    let text = "though all who use it could do with rows of it; ";
    let found =
        format!("no pass found a way to make {shape} smaller, {text}{hint}--why-not PASS says what a pass looks for");
    ("no-rewrite", found)
}

/// A user of `id` that needs the whole value, whatever part of its own result is wanted.
fn whole_user(module: &Module, id: InstructionId) -> Option<InstructionId> {
    let users = module.instructions_of(module.instruction(id).parent).filter(|(_, inst)| inst.operands.contains(&id));
    users.map(|(user, _)| user).find(|&user| !takes_blocks(module, user, id))
}

/// Whether `user` can read `operand` in blocks: some block of its result can do with a block of it, or it adds up or writes what it reads.
fn takes_blocks(module: &Module, user: InstructionId, operand: InstructionId) -> bool {
    let inst = module.instruction(user);
    match inst.opcode {
        Opcode::Tuple | Opcode::GetTupleElement | Opcode::OptBarrier | Opcode::Reduce | Opcode::Dot => return true,
        Opcode::Scatter | Opcode::DynamicUpdateSlice if inst.operands.first() != Some(&operand) => return true,
        Opcode::Call if flow::is_transparent(module, user) => return called_takes_blocks(module, inst, operand),
        _ => {}
    }
    let rank = inst.array().map_or(0, hlo_ir::ArrayShape::rank);
    let blocks = |dim: usize| {
        let flows = flow::pull(module, user, dim).unwrap_or_default();
        inst.operands.iter().zip(flows).any(|(&id, flow)| id == operand && matches!(flow, OperandFlow::Block { .. }))
    };
    (0..rank).any(blocks)
}

/// Whether the computation that a call runs can read an operand in blocks.
fn called_takes_blocks(module: &Module, call: &Instruction, operand: InstructionId) -> bool {
    let parameters = call.called_computations().flat_map(|called| module.parameters(called));
    let mut given = call.operands.iter().zip(parameters).filter(|(given, _)| **given == operand);
    given.all(|(_, parameter)| whole_user(module, parameter).is_none())
}
