//! Whether a module is legal: [`verify`] reports every violation of the invariants below, with the place of the instruction
//! if it was read from text. It runs on every input, after every rewrite and before every output, so a rule is as strict as every
//! module that XLA accepts allows. Rules that need a legal structure are only checked if V1 to V7 hold.
//!
//! Structure
//! - **V1** There is an entry, every computation is listed once and has a root that is one of its instructions.
//! - **V2** Every instruction stands in one computation, the one it names as its parent.
//! - **V3** Names are unique: of computations in the module, of instructions in their computation.
//! - **V4** XLA can read every name back.
//! - **V5** Operands and control predecessors stand in the same computation, before their user.
//! - **V6** A called computation stands before its caller, so that no computation calls itself.
//! - **V7** The parameters of a computation are numbered 0, 1, 2, ... without gaps.
//!
//! Instructions
//! - **V8** The number of operands fits the opcode.
//! - **V9** The attributes an opcode needs are there and well-formed.
//! - **V10** The result has the shape that operands and attributes imply.
//! - **V11** A called computation takes what it is given and returns what the caller expects.
//! - **V12** Sizes are not negative, layouts are permutations.
//! - **V13** A literal has as many elements as its shape, and each is a value of its type.
//! - **V14** Output aliases of fusions and custom calls name existing parts of result and operands.
//!
//! Header
//! - **V15** Attributes are well-formed; `input_output_alias` and `buffer_donor` name existing arrays, each once, of the same size.
//! - **V16** `entry_computation_layout` has the shapes of the entry's parameters and root.

// Tests: `ir/tests/corpus.rs`, `ir/tests/external.rs`, `ir/tests/generated.rs`, `ir/tests/messages.rs`, `ir/tests/probes.rs`.

mod asynchronous;
mod attributes;
mod calls;
mod exchange;
mod header;
mod layout;
mod mixed;
mod shapes;
mod sharding;
mod structure;
mod values;

use crate::arena::SideTable;
use crate::attribute::KEYS;
use crate::{AttrKey, ComputationId, Diagnostic, Instruction, InstructionId, Module, text};

/// Every violated invariant; empty for a legal module. Each message ends with the number of its invariant.
pub fn verify(module: &Module) -> Vec<Diagnostic> {
    let (problems, parameters) = (Vec::new(), SideTable::new(Vec::new()));
    let mut verifier = Verifier { module, problems, parameters, mixes_floats: mixed::is_allowed(module) };
    structure::check(&mut verifier);
    if verifier.problems.is_empty() {
        verifier.instructions();
        header::check(&mut verifier);
    }
    verifier.problems
}

/// At most this many operands of a wrong instruction are pointed at.
const LABELS: usize = 3;

/// A verification under way.
struct Verifier<'m> {
    module: &'m Module,
    problems: Vec<Diagnostic>,
    /// Parameters of every computation, by number.
    parameters: SideTable<ComputationId, Vec<InstructionId>>,
    /// Whether instructions may widen and round floats on the way.
    mixes_floats: bool,
}

/// A violated rule: its number and what is wrong.
type Violation = (&'static str, String);

impl<'m> Verifier<'m> {
    /// V8 to V14 of every instruction. Later rules of an instruction rely on the earlier ones.
    fn instructions(&mut self) {
        let module = self.module;
        let mut layouts = layout::Layouts::default();
        for (_, inst) in module.live_instructions() {
            if let Err((rule, message)) = self.check(inst, &mut layouts) {
                self.report(rule, inst, &message);
            }
        }
    }

    fn check(&self, inst: &'m Instruction, layouts: &mut layout::Layouts) -> Result<(), Violation> {
        attributes::check_arity(inst).map_err(|message| ("V8", message))?;
        attributes::check(inst).map_err(|message| ("V9", message))?;
        values::check(self.module, inst).map_err(|message| ("V9", message))?;
        layouts.check(&inst.shape).map_err(|message| ("V12", message))?;
        let mixes = self.mixes_floats && mixed::mixes(self.module, inst);
        shapes::check(self.module, inst, mixes).map_err(|message| ("V10", message))?;
        asynchronous::check(self.module, inst).map_err(|message| ("V10", message))?;
        calls::check(self, inst).or_else(|message| if mixes { Ok(()) } else { Err(("V11", message)) })?;
        shapes::check_literal(inst).map_err(|message| ("V13", message))?;
        header::check_output_aliases(self.module, inst).map_err(|message| ("V14", message))
    }

    /// Writes down a violation by an instruction, with the places of its operands.
    fn report(&mut self, rule: &'static str, inst: &Instruction, message: &str) {
        let mut report = Diagnostic::new(format!("`{}`: {message} [{rule}]", inst.name));
        report.span = inst.span;
        report.notes.extend(misspelled(inst));
        report.notes.extend(inst.array().filter(|_| rule == "V13").and_then(|array| shapes::lone_value(array, inst)));
        if rule == "V10" {
            for (index, &id) in inst.operands.iter().enumerate().take(LABELS) {
                let operand = self.module.instruction(id);
                if let (Some(span), false) = (operand.span, inst.operands[..index].contains(&id)) {
                    report = report.label(span, format!("`{}` has shape {}", operand.name, operand.shape));
                }
            }
        }
        self.problems.push(report);
    }

    /// Writes down a violation that belongs to a computation.
    fn report_computation(&mut self, rule: &'static str, id: ComputationId, message: &str) {
        let (name, span) = match self.module.computations.get(id) {
            Some(computation) => (computation.name.as_str(), computation.span),
            None => ("?", None),
        };
        let mut report = Diagnostic::new(format!("computation `{name}`: {message} [{rule}]"));
        report.span = span;
        self.problems.push(report);
    }

    /// Writes down a violation that belongs to the header.
    fn report_header(&mut self, rule: &'static str, message: &str) {
        let report = Diagnostic::new(format!("{message} [{rule}]"));
        self.problems.push(Diagnostic { span: self.module.span, ..report });
    }
}

/// Help for an instruction with attributes that are not known, but nearly: they are kept as they are, and what they were meant to say is missing.
fn misspelled(inst: &Instruction) -> impl Iterator<Item = String> + '_ {
    let known = || KEYS.iter().map(|row| row.1);
    let unknown = inst.attributes.iter().filter_map(|attribute| match &attribute.key {
        AttrKey::Unknown(name) => Some(name.as_str()),
        _ => None,
    });
    unknown.filter_map(move |name| {
        let meant =
            text::closest(name, known()).filter(|&meant| inst.attribute(&AttrKey::from_name(meant).0).is_none())?;
        Some(format!("attribute `{name}` is not known; did you mean `{meant}`?"))
    })
}
