//! Message to module, by way of the text that XLA prints for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prost::Message as _;

use super::buffers::BufferAssignment;
use super::instruction::{self, Names};
use super::message::{module as pb, shape as pb_shape};
use super::scan::{Fit, braces, joined};
use super::{Decoded, metadata, shape, unknown};
use crate::{Diagnostic, text};

/// Reads either of the two messages that hold a module.
pub(super) fn read(bytes: &[u8]) -> Result<Decoded, Vec<Diagnostic>> {
    let (module, buffers, unknown) = message(bytes)?;
    let mut reader = Reader { out: String::new(), problems: Vec::new(), dropped: unknown };
    reader.module(&module);
    if !reader.problems.is_empty() {
        return Err(reader.problems);
    }
    let parsed =
        text::parse(&reader.out).map_err(|problems| problems.into_iter().map(without_place).collect::<Vec<_>>())?;
    let buffers = buffers.map(|buffers| BufferAssignment::from_message(buffers, &module));
    Ok(Decoded { module: parsed, buffers, dropped: reader.dropped })
}

/// Offsets in a text the user never saw help nobody.
fn without_place(problem: Diagnostic) -> Diagnostic {
    Diagnostic { span: None, labels: Vec::new(), ..problem }
}

const INFALLIBLE: &str = "writing to a string cannot fail";

/// The module, the buffer assignment if there is one, and a remark about each field this version does not know.
type Messages = (pb::HloModule, Option<super::message::buffers::BufferAssignment>, Vec<Diagnostic>);

fn message(bytes: &[u8]) -> Result<Messages, Vec<Diagnostic>> {
    if let Ok(proto) = pb::HloProto::decode(bytes)
        && is_module(proto.hlo_module.as_ref())
    {
        let mut unknown = unknown::fields(bytes, &proto.encode_to_vec());
        // A snapshot from before the optimizations (`HloUnoptimizedSnapshot`) is a module with arrays behind it.
        let arrays = unknown.iter().position(|path| path == "2").map(|at| unknown.remove(at));
        let arrays = arrays.map(|_| Diagnostic::new("the snapshot's arrays have no place in HLO text"));
        let unknown = unknown.iter().map(|path| unknown_field("HloProto", path)).chain(arrays).collect();
        return Ok((proto.hlo_module.unwrap_or_default(), proto.buffer_assignment, unknown));
    }
    if let Ok(snapshot) = pb::HloSnapshot::decode(bytes)
        && is_module(snapshot.hlo.as_ref().and_then(|hlo| hlo.hlo_module.as_ref()))
    {
        let remarks = snapshot_remarks(bytes, &snapshot);
        let hlo = snapshot.hlo.unwrap_or_default();
        return Ok((hlo.hlo_module.unwrap_or_default(), hlo.buffer_assignment, remarks));
    }
    match pb::HloModule::decode(bytes) {
        Ok(module) if is_module(Some(&module)) => {
            let unknown = unknown_fields("HloModuleProto", bytes, &module);
            Ok((module, None, unknown))
        }
        Ok(_) => Err(vec![Diagnostic::new("the proto holds no module with computations")]),
        Err(error) => {
            let diagnostic = Diagnostic::new("neither a serialized HloProto, HloModuleProto nor HloSnapshot");
            Err(vec![diagnostic.note(error.to_string())])
        }
    }
}

/// Whether a module is one: bytes of one message may decode as another, but then hold no instruction.
fn is_module(module: Option<&pb::HloModule>) -> bool {
    module.is_some_and(|module| {
        module
            .computations
            .iter()
            .any(|computation| computation.instructions.iter().any(|inst| !inst.opcode.is_empty()))
    })
}

/// What a snapshot has beside its module, and each field that the structs of this version have no member for.
fn snapshot_remarks(bytes: &[u8], snapshot: &pb::HloSnapshot) -> Vec<Diagnostic> {
    let literals = snapshot.arguments.len() + usize::from(snapshot.result.is_some());
    let arrays = format!("the snapshot's arrays, {literals} arguments and results, have no place in HLO text");
    let unknown = unknown::fields(bytes, &snapshot.encode_to_vec());
    // Fields of the arrays are all skipped.
    let unknown = unknown.iter().filter(|path| !path.starts_with("2.") && !path.starts_with("3."));
    let remarks = unknown.map(|path| unknown_field("HloSnapshot", path));
    (literals > 0).then(|| Diagnostic::new(arrays)).into_iter().chain(remarks).collect()
}

/// A remark about each field that the structs of this version have no member for.
fn unknown_fields(name: &str, bytes: &[u8], message: &impl prost::Message) -> Vec<Diagnostic> {
    unknown::fields(bytes, &message.encode_to_vec()).iter().map(|path| unknown_field(name, path)).collect()
}

fn unknown_field(name: &str, path: &str) -> Diagnostic {
    Diagnostic::new(format!("field {path} of the {name} is not known to this version"))
}

struct Reader {
    out: String,
    problems: Vec<Diagnostic>,
    dropped: Vec<Diagnostic>,
}

impl Reader {
    fn keep<T>(&mut self, what: &str, value: Fit<T>) -> Option<T> {
        value
            .map_err(|problem| {
                self.problems.push(Diagnostic::new(format!("{what} of the proto cannot be read: {problem}")));
            })
            .ok()
    }
    fn drop_field(&mut self, field: &str, present: bool) {
        if present {
            self.dropped.push(Diagnostic::new(format!("field `{field}` of the proto has no place in HLO text")));
        }
    }

    fn module(&mut self, module: &pb::HloModule) {
        let names = Names::of(module);
        let Some(names) = self.keep("the module", names) else { return };
        if let Some(name) = self.keep("the module's name", instruction::checked_name(&module.name)) {
            self.out.push_str("HloModule ");
            self.out.push_str(name);
        }
        self.header(module);
        self.out.push('\n');
        if let Some(index) = module.stack_frame_index.as_ref().filter(|index| !index.stack_frames.is_empty()) {
            self.out.push_str(&metadata::tables_text(index));
        }
        let entry = module.entry_computation_id;
        let known = module.computations.iter().any(|computation| computation.id == entry);
        for (index, computation) in module.computations.iter().enumerate() {
            let is_entry = if known { computation.id == entry } else { index + 1 == module.computations.len() };
            let written = self.computation(computation, module, &names, is_entry);
            self.keep(&format!("computation `{}`", computation.name), written);
        }
        self.unsaid(module);
    }

    /// Fields that text has no place for.
    fn unsaid(&mut self, module: &pb::HloModule) {
        self.drop_field("cross_program_prefetches", !module.cross_program_prefetches.is_empty());
        self.drop_field("is_dynamic", module.is_dynamic);
        self.drop_field("spmd_output_sharding", module.spmd_output_sharding.is_some());
        self.drop_field("spmd_parameters_shardings", !module.spmd_parameters_shardings.is_empty());
        self.drop_field("use_auto_spmd_partitioning", module.use_auto_spmd_partitioning);
        self.drop_field("profile_info", !module.profile_info.is_empty());
        if module.original_value_recovery_table.is_some() {
            let message = "field `original_value_recovery_table` of the proto is not read by this version";
            self.dropped.push(Diagnostic::new(message));
        }
        self.drop_field("payloads", !module.payloads.is_empty());
        self.drop_field("device_type", !module.device_type.is_empty());
    }

    fn header(&mut self, module: &pb::HloModule) {
        if module.schedule.is_some() {
            self.out.push_str(", is_scheduled=true");
        }
        if let Some(table) = module.input_output_alias.as_ref().filter(|table| !table.entries.is_empty()) {
            let entries = table.entries.iter().map(|entry| {
                let kind = if entry.kind == 2 { "must-alias" } else { "may-alias" };
                let (output, index) = (braces(&entry.output_shape_index), braces(&entry.parameter_shape_index));
                format!("{output}: ({}, {index}, {kind})", entry.parameter_number)
            });
            write!(self.out, ", input_output_alias={{ {} }}", joined(entries, ", ")).expect(INFALLIBLE);
        }
        if let Some(table) = module.buffer_donor.as_ref().filter(|table| !table.entries.is_empty()) {
            let entries = table
                .entries
                .iter()
                .map(|donor| format!("({}, {})", donor.parameter_number, braces(&donor.parameter_shape_index)));
            write!(self.out, ", buffer_donor={{ {} }}", joined(entries, ", ")).expect(INFALLIBLE);
        }
        if let Some(program) = &module.host_program_shape
            && let Some(layout) = self.keep("`host_program_shape`", program_layout(program))
        {
            write!(self.out, ", entry_computation_layout={layout}").expect(INFALLIBLE);
        }
        if let Some(assignment) = &module.device_assignment {
            for (key, count) in
                [("replica_count", assignment.replica_count), ("num_partitions", assignment.computation_count)]
            {
                if count != 1 {
                    write!(self.out, ", {key}={count}").expect(INFALLIBLE);
                }
            }
        }
        if let Some(map) = module.frontend_attributes.as_ref().filter(|attributes| !attributes.map.is_empty())
            && let Some(text) = self.keep("`frontend_attributes`", metadata::frontend_text(map))
        {
            write!(self.out, ", frontend_attributes={text}").expect(INFALLIBLE);
        }
    }

    fn computation(
        &mut self,
        computation: &pb::HloComputation,
        module: &pb::HloModule,
        names: &Names<'_>,
        is_entry: bool,
    ) -> Fit<()> {
        let name = instruction::checked_name(&computation.name)?;
        self.out.push_str(if is_entry { "\nENTRY %" } else { "\n%" });
        self.out.push_str(name);
        self.out.push_str(&program_shape(computation)?);
        self.out.push_str(" {\n");
        let local = |id: i64| id & 0xffff_ffff;
        let by_id: BTreeMap<i64, &pb::HloInstruction> =
            computation.instructions.iter().map(|inst| (local(inst.id), inst)).collect();
        if by_id.len() != computation.instructions.len() {
            return Err("two instructions have one id".to_owned());
        }
        let scheduled = module.schedule.as_ref().and_then(|schedule| schedule.sequences.get(&computation.id));
        let order = match scheduled {
            Some(sequence) => {
                let found = sequence.instruction_ids.iter().map(|&id| by_id.get(&local(id)).copied());
                let order = found.collect::<Option<Vec<_>>>().ok_or("its schedule names an unknown instruction")?;
                if order.len() != by_id.len() {
                    return Err("its schedule has another number of instructions".to_owned());
                }
                order
            }
            None => computation.instructions.iter().collect(),
        };
        for inst in order {
            let root = if local(inst.id) == local(computation.root_id) { "  ROOT %" } else { "  %" };
            self.out.push_str(root);
            let written = instruction::read(inst, &by_id, names, &mut self.out);
            written.map_err(|problem| format!("instruction `{}`: {problem}", inst.name))?;
            self.out.push('\n');
        }
        self.out.push('}');
        if !computation.execution_thread.is_empty() {
            self.out.push_str(", execution_thread=");
            super::scan::quote(&mut self.out, computation.execution_thread.as_bytes());
        }
        self.out.push('\n');
        Ok(())
    }
}

/// `{(f32[4]{0})->f32[4]{0}}`.
fn program_layout(program: &pb_shape::ProgramShape) -> Fit<String> {
    let parameters = program.parameters.iter().map(shape::read).collect::<Fit<Vec<_>>>()?;
    let result = shape::required(program.result.as_ref())?;
    // As in tuple shapes, every fifth is counted.
    let mut inside = String::new();
    for (index, parameter) in parameters.iter().enumerate() {
        inside.push_str(if index == 0 { "" } else { ", " });
        if index > 0 && index % 5 == 0 {
            write!(inside, "/*index={index}*/").expect(INFALLIBLE);
        }
        inside.push_str(&parameter.to_string());
    }
    Ok(format!("{{({inside})->{result}}}"))
}

/// ` (x: f32[4]) -> f32[4]`, of the parameters themselves: the message's own program shape may be stale.
fn program_shape(computation: &pb::HloComputation) -> Fit<String> {
    let mut parameters: Vec<&pb::HloInstruction> =
        computation.instructions.iter().filter(|inst| inst.opcode == "parameter").collect();
    parameters.sort_by_key(|inst| inst.parameter_number);
    let mut parts = Vec::new();
    for parameter in parameters {
        let name = instruction::checked_name(&parameter.name)?;
        parts.push(format!("{name}: {}", shape::required(parameter.shape.as_ref())?.without_layout()));
    }
    let root = computation.instructions.iter().find(|inst| inst.id & 0xffff_ffff == computation.root_id & 0xffff_ffff);
    let result = shape::required(root.ok_or("the root is missing")?.shape.as_ref())?;
    Ok(format!(" ({}) -> {}", parts.join(", "), result.without_layout()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    /// A sum over the devices of these groups.
    fn sum(groups: &str) -> String {
        format!(
            "HloModule m, entry_computation_layout={{(f32[8]{{0}})->f32[8]{{0}}}}

%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}}

ENTRY %e (x: f32[8]) -> f32[8] {{
  %x = f32[8]{{0}} parameter(0)
  ROOT %s = f32[8]{{0}} all-reduce(%x), channel_id=1, replica_groups={groups}, use_global_device_ids=true, to_apply=%add
}}
"
        )
    }

    fn message_of(text: &str) -> pb::HloProto {
        let module = text::parse(text).expect("it is legal");
        let written = super::super::write(&module).expect("it has a proto");
        pb::HloProto::decode(&written.bytes[..]).expect("it is one")
    }

    fn sums(proto: &mut pb::HloProto) -> Vec<&mut pb::HloInstruction> {
        let module = proto.hlo_module.as_mut().expect("it holds a module");
        let all = module.computations.iter_mut().flat_map(|computation| &mut computation.instructions);
        all.filter(|inst| inst.opcode == "all-reduce").collect()
    }

    #[test]
    fn groups_stand_where_xla_before_jaxlib_0_9_has_them_too() {
        let source = sum("[2,2]<=[4]");
        let mut older = message_of(&source);
        for inst in sums(&mut older) {
            let iota_replica_group_list = inst.iota_collective_device_list.take();
            let list = super::super::message::common::CollectiveDeviceList {
                replica_groups: Vec::new(),
                iota_replica_group_list,
            };
            inst.collective_device_list = Some(list);
        }
        let read = read(&older.encode_to_vec()).expect("it is a module");
        assert_eq!(text::print(&read.module), source);
        let mut listed = message_of(&sum("{{0,1},{2,3}}"));
        assert!(
            sums(&mut listed).into_iter().all(|inst| inst.replica_groups.len() == 2),
            "older readers see no others"
        );
    }
}
