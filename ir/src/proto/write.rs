//! Module to message. Instruction ids are what XLA gives them: the computation's number in the upper half, the place in the lower.

use indexmap::{IndexMap, IndexSet};
use prost::Message as _;
use rustc_hash::FxBuildHasher;
use smol_str::{SmolStr, format_smolstr};

use super::message::{common, module as pb, shape as pb_shape};
use super::scan::{Cursor, Fit};
use super::{Encoded, attributes, literal, metadata, shape};
use crate::arena::Id as _;
use crate::attribute::Alias;
use crate::module::{Computation, Payload};
use crate::{
    AttrKey, AttrValue, Attribute, ComputationId, Diagnostic, Instruction, InstructionId, Module, Opcode, text,
};

/// Writes a module as a serialized `HloProto` without buffer assignment.
pub(super) fn write(module: &Module) -> Result<Encoded, Vec<Diagnostic>> {
    let module = super::asynchronous::expanded(module);
    let mut writer = Writer::new(&module);
    let message = writer.module();
    if !writer.problems.is_empty() {
        return Err(writer.problems);
    }
    let proto = pb::HloProto { hlo_module: Some(message), buffer_assignment: None };
    Ok(Encoded { bytes: proto.encode_to_vec(), dropped: writer.dropped })
}

struct Writer<'m> {
    module: &'m Module,
    /// Number of each computation, by index.
    numbers: Vec<i64>,
    /// Id of each instruction, by index.
    ids: Vec<i64>,
    /// Name of each instruction, by index.
    names: Vec<SmolStr>,
    /// Name of each computation, by index.
    computation_names: Vec<SmolStr>,
    problems: Vec<Diagnostic>,
    dropped: Vec<Diagnostic>,
}

impl<'m> Writer<'m> {
    fn new(module: &'m Module) -> Self {
        let mut numbers = vec![-1; module.computation_count()];
        let mut ids = vec![-1; module.instruction_count()];
        for (number, &computation) in module.computation_ids().iter().enumerate() {
            numbers[computation.index()] = number as i64;
            for (local, &id) in module.computation(computation).instructions.iter().enumerate() {
                ids[id.index()] = (number as i64) << 32 | local as i64;
            }
        }
        Self {
            module,
            numbers,
            ids,
            names: unique_names(module),
            computation_names: unique_computation_names(module),
            problems: Vec::new(),
            dropped: Vec::new(),
        }
    }

    fn number(&self, id: ComputationId) -> i64 {
        self.numbers[id.index()]
    }

    fn module(&mut self) -> pb::HloModule {
        let entry = self.module.entry();
        let mut message = pb::HloModule {
            name: self.module.name.to_string(),
            entry_computation_name: self.computation_names[entry.index()].to_string(),
            entry_computation_id: self.number(entry),
            input_output_alias: Some(pb::InputOutputAlias::default()),
            buffer_donor: Some(pb::BufferDonors::default()),
            ..pb::HloModule::default()
        };
        message.host_program_shape = self.entry_layout();
        let fused = self.fusion_computations();
        for &id in self.module.computation_ids() {
            let computation = self.computation(id, fused[id.index()]);
            message.computations.push(computation);
        }
        self.header(&mut message, &fused);
        if !self.module.stack_tables.text.is_empty() {
            let tables = metadata::tables(&self.module.stack_tables.text);
            message.stack_frame_index = self.keep("the stack-frame tables", None, tables);
        }
        message
    }

    /// Notes the problem, if there is one.
    fn keep<T>(&mut self, what: &str, at: Option<&Instruction>, value: Fit<T>) -> Option<T> {
        value
            .map_err(|problem| {
                let place = at.map_or(String::new(), |inst| format!(" of `{}`", inst.name));
                let mut diagnostic = Diagnostic::new(format!("{what}{place} cannot be written as proto: {problem}"));
                diagnostic.span = at.and_then(|inst| inst.span);
                self.problems.push(diagnostic);
            })
            .ok()
    }

    /// Which computations a fusion calls, by index.
    fn fusion_computations(&self) -> Vec<bool> {
        let mut fused = vec![false; self.module.computation_count()];
        for (_, inst) in self.module.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::Fusion) {
            inst.called_computations().for_each(|callee| fused[callee.index()] = true);
        }
        fused
    }

    /// The header's layout, or the shapes of the entry.
    fn entry_layout(&mut self) -> Option<pb_shape::ProgramShape> {
        let written = crate::attribute::find(&self.module.attributes, &AttrKey::EntryComputationLayout);
        let Some(AttrValue::Raw(layout)) = written else {
            let mut program = self.program_shape(self.module.entry())?;
            program.parameter_names = (0..program.parameters.len()).map(|number| format!("p{number}")).collect();
            return Some(program);
        };
        let program = text::program_layout(layout).ok_or_else(|| format!("`{layout}` is no program shape"));
        let (parameters, result) = self.keep("entry_computation_layout", None, program)?;
        let message = parameters.iter().map(|parameter| shape::write(parameter)).collect::<Fit<Vec<_>>>().and_then(
            |parameters| {
                let parameter_names = (0..parameters.len()).map(|number| format!("p{number}")).collect();
                Ok(pb_shape::ProgramShape { parameters, result: Some(shape::write(&result)?), parameter_names })
            },
        );
        self.keep("entry_computation_layout", None, message)
    }

    fn program_shape(&mut self, id: ComputationId) -> Option<pb_shape::ProgramShape> {
        let mut program = pb_shape::ProgramShape::default();
        for parameter in self.module.parameters(id) {
            let name = self.names[parameter.index()].to_string();
            let parameter = self.module.instruction(parameter);
            program.parameters.push(self.keep("the shape", Some(parameter), shape::write(&parameter.shape))?);
            program.parameter_names.push(name);
        }
        let root = self.module.instruction(self.module.computation(id).root);
        program.result = self.keep("the shape", Some(root), shape::write(&root.shape));
        Some(program)
    }

    fn computation(&mut self, id: ComputationId, is_fusion_computation: bool) -> pb::HloComputation {
        let computation = self.module.computation(id);
        let instructions = self.module.instructions_of(id).map(|(id, inst)| self.instruction(id, inst)).collect();
        pb::HloComputation {
            name: self.computation_names[id.index()].to_string(),
            instructions,
            program_shape: self.program_shape(id),
            id: self.number(id),
            root_id: self.ids[computation.root.index()],
            is_fusion_computation,
            execution_thread: self.execution_thread(computation),
        }
    }

    fn execution_thread(&mut self, computation: &Computation) -> String {
        let mut thread = String::new();
        for attribute in &computation.attributes {
            let what = format!("`{}` of computation `{}`", attribute.key.name(), computation.name);
            let value = match (&attribute.key, &attribute.value) {
                (AttrKey::ExecutionThread, AttrValue::Raw(text)) => Cursor::new(text).string(),
                _ => Err("it has no field".to_owned()),
            };
            thread = self.keep(&what, None, value).unwrap_or_default();
        }
        if thread == "main" { String::new() } else { thread }
    }

    fn instruction(&mut self, id: InstructionId, inst: &Instruction) -> pb::HloInstruction {
        let mut message = pb::HloInstruction {
            name: self.names[id.index()].to_string(),
            opcode: inst.opcode_name().to_owned(),
            id: self.ids[id.index()],
            operand_ids: inst.operands.iter().map(|operand| self.ids[operand.index()]).collect(),
            control_predecessor_ids: inst.control_predecessors().iter().map(|id| self.ids[id.index()]).collect(),
            called_computation_ids: self.called(inst),
            metadata: Some(common::OpMetadata::default()),
            frontend_attributes: Some(common::FrontendAttributes::default()),
            statistics_viz: Some(super::message::dims::StatisticsViz::default()),
            ..pb::HloInstruction::default()
        };
        message.shape = self.keep("the shape", Some(inst), shape::write(&inst.shape));
        self.payload(inst, &mut message);
        attributes::defaults(self.module, inst, &mut message);
        for attribute in &inst.attributes {
            let set = attributes::set(inst, attribute, &mut message);
            self.keep(&format!("`{}`", attribute.key.name()), Some(inst), set);
        }
        message
    }

    fn drop_attribute(&mut self, attribute: &Attribute, place: &str) {
        let reason = match attribute.key.name() {
            // The field is there, with modules inside of it.
            "origin_recovery_table" => "this version leaves it out of protos",
            _ => "the proto has no field for it",
        };
        let message = format!("`{}`{place} is not written: {reason}", attribute.key.name());
        self.dropped.push(Diagnostic::new(message));
    }

    /// Called computations in XLA's order: the body of a loop comes before its condition.
    fn called(&self, inst: &Instruction) -> Vec<i64> {
        match (inst.computation(&AttrKey::Body), inst.computation(&AttrKey::Condition)) {
            (Some(body), Some(condition)) => vec![self.number(body), self.number(condition)],
            _ => match (inst.computation(&AttrKey::TrueComputation), inst.computation(&AttrKey::FalseComputation)) {
                (Some(then), Some(other)) => vec![self.number(then), self.number(other)],
                _ => match (inst.computation(&AttrKey::Select), inst.computation(&AttrKey::ScatterComputation)) {
                    (Some(select), Some(scatter)) => vec![self.number(select), self.number(scatter)],
                    _ => inst.called_computations().map(|id| self.number(id)).collect(),
                },
            },
        }
    }

    fn payload(&mut self, inst: &Instruction, message: &mut pb::HloInstruction) {
        match &inst.payload {
            Payload::None => {}
            Payload::Parameter(number) => message.parameter_number = *number,
            Payload::Literal(text) => {
                let written = literal::write(&inst.shape, text);
                message.literal = self.keep("the literal", Some(inst), written).flatten();
                if message.literal.is_none() && self.problems.is_empty() {
                    let remark = format!("the values of `{}` are left out of the text and so of the proto", inst.name);
                    self.dropped.push(Diagnostic::new(remark).note("XLA refuses constants without values"));
                }
            }
            Payload::Unknown(unknown) => {
                let opcode = &unknown.opcode;
                let refused: Fit<()> = Err("its fields are not known".to_owned());
                self.keep(&format!("opcode `{opcode}`"), Some(inst), refused);
            }
        }
    }

    fn header(&mut self, message: &mut pb::HloModule, fused: &[bool]) {
        let mut counts = (1, 1);
        for attribute in &self.module.attributes {
            let set = match (&attribute.key, &attribute.value) {
                (AttrKey::IsScheduled, AttrValue::Bool(scheduled)) => {
                    message.schedule = scheduled.then(|| self.schedule(fused));
                    Ok(())
                }
                (AttrKey::InputOutputAlias, AttrValue::Aliases(entries)) => aliases(entries).map(|entries| {
                    message.input_output_alias = Some(pb::InputOutputAlias { entries });
                }),
                (AttrKey::BufferDonor, AttrValue::Donors(entries)) => {
                    let donor = |(parameter, index): &(i64, crate::shape::Dims)| pb::DonorEntry {
                        parameter_number: *parameter,
                        parameter_shape_index: index.to_vec(),
                    };
                    message.buffer_donor = Some(pb::BufferDonors { entries: entries.iter().map(donor).collect() });
                    Ok(())
                }
                (AttrKey::EntryComputationLayout, _) => Ok(()),
                (AttrKey::FrontendAttributes, AttrValue::Raw(text)) => {
                    metadata::frontend(text).map(|map| message.frontend_attributes = Some(map))
                }
                (AttrKey::ReplicaCount, AttrValue::Int(count)) => {
                    counts.0 = *count;
                    Ok(())
                }
                (AttrKey::NumPartitions, AttrValue::Int(count)) => {
                    counts.1 = *count;
                    Ok(())
                }
                _ => {
                    self.drop_attribute(attribute, " of the module");
                    Ok(())
                }
            };
            self.keep(&format!("`{}`", attribute.key.name()), None, set);
        }
        message.frontend_attributes.get_or_insert_default();
        if counts != (1, 1) {
            let assignment = devices(counts);
            message.device_assignment = self.keep("the number of devices", None, assignment);
        }
    }

    fn schedule(&self, fused: &[bool]) -> pb::HloSchedule {
        let unfused = self.module.computation_ids().iter().filter(|id| !fused[id.index()]);
        let sequences = unfused.map(|&id| {
            let list = &self.module.computation(id).instructions;
            let instruction_ids = list.iter().map(|inst| self.ids[inst.index()]).collect();
            (self.number(id), pb::InstructionSequence { instruction_ids })
        });
        pb::HloSchedule { sequences: sequences.collect() }
    }
}

/// Names by index, each once: text names instructions per computation, messages in the whole module. A name that is taken gets another
/// number, as XLA gives it when it reads the text (source: xla/service/name_uniquer.cc).
fn unique_names(module: &Module) -> Vec<SmolStr> {
    let mut names = vec![SmolStr::default(); module.instruction_count()];
    let mut uniquer = Uniquer::default();
    for (id, inst) in module.live_instructions() {
        names[id.index()] = uniquer.name(&inst.name);
    }
    names
}

/// The same for computations: `f` behind `f.0` becomes `f.1`.
fn unique_computation_names(module: &Module) -> Vec<SmolStr> {
    let mut names = vec![SmolStr::default(); module.computation_count()];
    let mut uniquer = Uniquer::default();
    for &id in module.computation_ids() {
        names[id.index()] = uniquer.name(&module.computation(id).name);
    }
    names
}

/// Hands out each name once.
#[derive(Default)]
struct Uniquer<'m> {
    numbers: IndexMap<&'m str, Numbers, FxBuildHasher>,
}

impl<'m> Uniquer<'m> {
    /// The name if it is free, else its stem with another number.
    fn name(&mut self, wanted: &'m SmolStr) -> SmolStr {
        let (stem, number) = stem(wanted);
        let given = self.numbers.entry(stem).or_default().take(number.unwrap_or(0));
        let kept = number.is_none() && given == 0;
        if kept { wanted.clone() } else { format_smolstr!("{stem}.{given}") }
    }
}

/// The numbers behind one stem; 0 is no number.
#[derive(Default)]
struct Numbers {
    taken: IndexSet<u64, FxBuildHasher>,
    next: u64,
}

impl Numbers {
    /// The wanted number if it is free, else the lowest one that was never tried.
    fn take(&mut self, wanted: u64) -> u64 {
        if self.taken.insert(wanted) {
            return wanted;
        }
        while !self.taken.insert(self.next) {
            self.next += 1;
        }
        self.next
    }
}

/// `add` and 11 of `add.11`.
fn stem(name: &str) -> (&str, Option<u64>) {
    let parts = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
    let number = parts.and_then(|(stem, digits)| Some((stem, digits.parse().ok()?)));
    number.map_or((name, None), |(stem, number)| (stem, Some(number)))
}

/// The table of aliases between parameters and results.
fn aliases(entries: &[Alias]) -> Fit<Vec<pb::AliasEntry>> {
    let entry = |alias: &Alias| {
        let kind = match alias.kind.as_str() {
            "" | "may-alias" => 1,
            "must-alias" => 2,
            other => return Err(format!("kind `{other}` is not known")),
        };
        Ok(pb::AliasEntry {
            output_shape_index: alias.output.to_vec(),
            parameter_number: alias.operand,
            parameter_shape_index: alias.operand_index.to_vec(),
            kind,
        })
    };
    entries.iter().map(entry).collect()
}

/// XLA's messages say how many replicas and partitions there are only in a device assignment; this is the plain one.
fn devices((replicas, partitions): (i64, i64)) -> Fit<common::DeviceAssignment> {
    let total = replicas.checked_mul(partitions).filter(|total| (1..=1 << 20).contains(total));
    total.filter(|_| replicas > 0).ok_or_else(|| format!("{replicas} replicas of {partitions} partitions"))?;
    let partition = |partition: i64| common::ComputationDevice {
        replica_device_ids: (0..replicas).map(|replica| replica * partitions + partition).collect(),
    };
    Ok(common::DeviceAssignment {
        replica_count: replicas as i32,
        computation_count: partitions as i32,
        computation_devices: (0..partitions).map(partition).collect(),
    })
}
