//! V1 to V7: ids, lists, names, definition before use, parameters.

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;

use super::Verifier;
use crate::arena::SideTable;
use crate::module::Payload;
use crate::{Computation, ComputationId, Instruction, InstructionId, Opcode, Span};

/// Checks V1 to V7.
pub(super) fn check(verifier: &mut Verifier<'_>) {
    check_lists(verifier);
    if verifier.problems.is_empty() {
        check_names(verifier);
        check_order(verifier);
        check_parameters(verifier);
    }
}

/// V1, V2: what is listed exists, once, and belongs together.
fn check_lists(verifier: &mut Verifier<'_>) {
    let module = verifier.module;
    let mut owner = SideTable::<InstructionId, Option<ComputationId>>::new(None);
    let mut listed = SideTable::new(false);
    if !module.entry.is_some_and(|entry| module.order.contains(&entry)) {
        verifier.report_header("V1", "the module has no entry computation");
    }
    for &id in &module.order {
        let Some(computation) = module.computations.get(id) else {
            verifier.report_computation("V1", id, "it is listed but does not exist");
            continue;
        };
        if std::mem::replace(&mut listed[id], true) {
            verifier.report_computation("V1", id, "it is listed twice");
            continue;
        }
        for &inst in &computation.instructions {
            match module.instructions.get(inst) {
                None => verifier.report_computation("V2", id, &format!("it lists {inst:?}, which does not exist")),
                Some(found) if found.parent != id => verifier.report("V2", found, "its parent is another computation"),
                Some(found) if owner[inst].is_some() => verifier.report("V2", found, "it is listed twice"),
                Some(_) => owner.set(inst, Some(id)),
            }
        }
        if owner[computation.root] != Some(id) {
            verifier.report_computation("V1", id, "its root is not one of its instructions");
        }
    }
}

/// V3, V4.
fn check_names(verifier: &mut Verifier<'_>) {
    let module = verifier.module;
    let mut computations: IndexSet<&str, FxBuildHasher> = IndexSet::default();
    let mut names: IndexMap<&str, Option<Span>, FxBuildHasher> = IndexMap::default();
    for &id in &module.order {
        let computation: &Computation = &module.computations[id];
        if !computations.insert(&computation.name) {
            verifier.report_computation("V3", id, "another computation has the same name");
        }
        if let Some(message) = name_problem(&computation.name) {
            verifier.report_computation("V4", id, message);
        }
        names.clear();
        for (_, inst) in module.instructions_of(id) {
            if let Some(Some(previous)) = names.insert(&inst.name, inst.span).map(|span| span.or(inst.span)) {
                let problem = "another instruction of the computation has the same name";
                verifier.report("V3", inst, problem);
                if let Some(report) = verifier.problems.last_mut() {
                    report.labels.push((previous, "previously defined here".into()));
                }
            }
            if let Some(message) = name_problem(&inst.name) {
                verifier.report("V4", inst, message);
            }
        }
    }
}

/// What keeps XLA from reading a name back.
fn name_problem(name: &str) -> Option<&'static str> {
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if !starts || !bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')) {
        return Some("the name must be made of letters, digits, `_`, `.` and `-`, and start with a letter or `_`");
    }
    if crate::ElementType::from_name(name).is_some() {
        return Some("the name is the name of an element type");
    }
    (name.starts_with("__") && !name.starts_with("__xla_")).then_some("names that start with `__` are reserved")
}

/// V5, V6.
fn check_order(verifier: &mut Verifier<'_>) {
    let module = verifier.module;
    let mut seen_instructions = SideTable::new(false);
    let mut seen_computations = SideTable::new(false);
    for &id in &module.order {
        for (inst_id, inst) in module.instructions_of(id) {
            for before in inst.operands.iter().chain(inst.control_predecessors()) {
                let problem = match module.instructions.get(*before) {
                    None => "does not exist",
                    Some(operand) if operand.parent != id => "stands in another computation",
                    Some(_) if !seen_instructions[*before] => "does not stand before it",
                    Some(_) => continue,
                };
                let name = module.instructions.get(*before).map_or("?", |operand| operand.name.as_str());
                verifier.report("V5", inst, &format!("its operand or control predecessor `{name}` {problem}"));
            }
            for callee in inst.called_computations().filter(|&callee| !seen_computations[callee]) {
                let name = module.computations.get(callee).map_or("?", |computation| computation.name.as_str());
                verifier.report("V6", inst, &format!("it calls `{name}`, which does not stand before its computation"));
            }
            seen_instructions.set(inst_id, true);
        }
        seen_computations.set(id, true);
    }
}

/// V7; fills the table of parameters.
fn check_parameters(verifier: &mut Verifier<'_>) {
    let module = verifier.module;
    for &id in &module.order {
        let parameters = module.parameters(id);
        for (number, &parameter) in parameters.iter().enumerate() {
            let inst = module.instruction(parameter);
            if inst.parameter_number() != Some(number as i64) {
                verifier.report(
                    "V7",
                    inst,
                    &format!("its number must be {number}: parameters are numbered without gaps"),
                );
                break;
            }
        }
        for (_, inst) in module.instructions_of(id).filter(|(_, inst)| !payload_fits(inst)) {
            verifier.report("V7", inst, "what stands between its parentheses does not fit its opcode");
        }
        verifier.parameters.set(id, parameters);
    }
}

/// Whether an instruction has the payload of its opcode.
fn payload_fits(inst: &Instruction) -> bool {
    match inst.payload {
        Payload::None => !matches!(inst.opcode, Opcode::Parameter | Opcode::Constant | Opcode::Unknown),
        Payload::Parameter(_) => inst.opcode == Opcode::Parameter,
        Payload::Literal(_) => inst.opcode == Opcode::Constant,
        Payload::Unknown(_) => inst.opcode == Opcode::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Id as _;
    use crate::verify::verify;
    use crate::{Module, text};

    const TEXT: &str = "HloModule m

f { a = f32[] parameter(0) ROOT b = f32[] negate(a) }

ENTRY main { x = f32[] parameter(0) y = f32[] call(x), to_apply=f ROOT z = f32[] add(x, y) }
";

    /// The rules that a changed module breaks.
    fn broken(change: impl FnOnce(&mut Module)) -> Vec<String> {
        let mut module = text::parse(TEXT).expect("a legal text");
        assert_eq!(verify(&module), []);
        change(&mut module);
        let rule = |message: String| message.rsplit_once('[').expect("a rule").1.trim_end_matches(']').to_owned();
        let mut rules: Vec<_> = verify(&module).into_iter().map(|problem| rule(problem.message)).collect();
        rules.dedup();
        rules
    }
    fn entry(module: &mut Module) -> &mut Computation {
        let id = module.entry();
        &mut module.computations[id]
    }

    #[test]
    fn v1_lists_and_roots() {
        assert_eq!(broken(|module| module.entry = None), ["V1"]);
        assert_eq!(broken(|module| module.order.push(ComputationId::new(9))), ["V1"]);
        assert_eq!(broken(|module| module.order.push(module.entry())), ["V1"]);
        assert_eq!(broken(|module| entry(module).root = InstructionId::new(0)), ["V1"]);
        assert_eq!(broken(|module| entry(module).root = InstructionId::new(99)), ["V1"]);
    }
    #[test]
    fn v2_membership() {
        assert_eq!(broken(|module| entry(module).instructions.push(InstructionId::new(99))), ["V2"]);
        assert_eq!(broken(|module| entry(module).instructions.push(InstructionId::new(0))), ["V2"]);
        let root = |module: &mut Module| entry(module).root;
        assert_eq!(
            broken(|module| {
                let root = root(module);
                entry(module).instructions.push(root);
            }),
            ["V2"]
        );
    }
    #[test]
    fn v3_names() {
        assert_eq!(broken(|module| module.instructions[InstructionId::new(3)].name = "x".into()), ["V3"]);
        assert_eq!(broken(|module| entry(module).name = "f".into()), ["V3"]);
    }
    #[test]
    fn v5_definition_before_use() {
        let operand = |id: usize| {
            broken(|module| module.instructions[InstructionId::new(4)].operands[0] = InstructionId::new(id))
        };
        assert_eq!(operand(99), ["V5"]);
        assert_eq!(operand(0), ["V5"]);
        assert_eq!(operand(4), ["V5"]);
        assert_eq!(broken(|module| entry(module).instructions.swap(0, 2)), ["V5"]);
    }
    #[test]
    fn v6_callees_before_callers() {
        assert_eq!(broken(|module| module.order.swap(0, 1)), ["V6"]);
        assert_eq!(broken(|module| module.order.retain(|&id| id != ComputationId::new(0))), ["V6"]);
    }
    #[test]
    fn v7_payloads() {
        assert_eq!(broken(|module| module.instructions[InstructionId::new(4)].payload = Payload::Parameter(1)), ["V7"]);
        assert_eq!(broken(|module| module.instructions[InstructionId::new(0)].payload = Payload::None), ["V7"]);
    }
}
