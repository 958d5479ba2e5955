//! The peak by call stack as a gzipped pprof profile: one sample per buffer, its location the user's stack.
//!
//! Source: profile.proto of pprof, of which only the fields used here are declared.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use hlo_memory::attribution::Holder;
use indexmap::IndexSet;
use prost::Message;

use super::Report;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// Collects samples; equal strings, functions and locations become one.
struct Builder {
    strings: IndexSet<String>,
    functions: IndexSet<(String, String)>,
    locations: IndexSet<(u64, i64)>,
    samples: Vec<Sample>,
}

/// The profile. With a rewrite there are two sample types, the peak before and after; otherwise one.
pub(super) fn write(report: &Report<'_>) -> Vec<u8> {
    gzip(&profile(report).encode_to_vec())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a Vec takes every write")
}

fn profile(report: &Report<'_>) -> Profile {
    let sides = report.sides();
    // The format wants the empty string first.
    let mut builder = Builder {
        strings: IndexSet::from([String::new()]),
        functions: IndexSet::new(),
        locations: IndexSet::new(),
        samples: Vec::new(),
    };
    let kinds: Vec<String> =
        sides.iter().map(|(side, _)| side.map_or_else(|| "peak".to_owned(), |side| format!("peak_{side}"))).collect();
    for (column, (_, details)) in sides.iter().enumerate() {
        let told = &details.attribution;
        let value = |bytes: u64| {
            let mut values = vec![0; sides.len()];
            values[column] = i64::try_from(bytes).unwrap_or(i64::MAX);
            values
        };
        for holder in &told.holders {
            builder.holder(holder, value(holder.buffer.bytes.get()));
        }
        if told.unlisted > 0 {
            let location_id = vec![builder.location("(smaller buffers)", "", 0)];
            builder.samples.push(Sample { location_id, value: value(told.unlisted_bytes.get()), label: Vec::new() });
        }
    }
    builder.finish(&kinds, report.module)
}

impl Builder {
    fn string(&mut self, text: &str) -> i64 {
        self.strings.insert_full(text.to_owned()).0 as i64
    }
    fn location(&mut self, function: &str, file: &str, line: i64) -> u64 {
        let function = self.functions.insert_full((function.to_owned(), file.to_owned())).0 as u64 + 1;
        self.locations.insert_full((function, line)).0 as u64 + 1
    }
    fn holder(&mut self, holder: &Holder, value: Vec<i64>) {
        let mut stack = Vec::new();
        for frame in &holder.stack {
            let (file, line) = (frame.line.file.as_str(), frame.line.line);
            // Without function names the line itself is what a reader looks for.
            let name = if frame.function.is_empty() { format!("{file}:{line}") } else { frame.function.to_string() };
            stack.push(self.location(&name, file, line));
        }
        if stack.is_empty() {
            stack.push(self.location(&format!("({})", holder.role.name()), "", 0));
        }
        let pairs = [
            ("instruction", holder.buffer.instruction.as_str()),
            ("shape", holder.buffer.shape.as_str()),
            ("role", holder.role.name()),
        ];
        let label = pairs.map(|(key, text)| Label { key: self.string(key), str: self.string(text) }).into();
        self.samples.push(Sample { location_id: stack, value, label });
    }
    fn finish(mut self, kinds: &[String], module: &str) -> Profile {
        let unit = self.string("bytes");
        let sample_type = kinds.iter().map(|kind| ValueType { kind: self.string(kind), unit }).collect();
        let default_sample_type = kinds.last().map_or(0, |kind| self.string(kind));
        let comment = vec![self.string(&format!("{}: memory of {module} at its peak", super::TOOL))];
        let functions = std::mem::take(&mut self.functions);
        let function = functions.iter().zip(1..).map(|((name, file), id)| {
            let (name, filename) = (self.string(name), self.string(file));
            Function { id, name, system_name: name, filename }
        });
        let function = function.collect();
        let location = self
            .locations
            .iter()
            .zip(1..)
            .map(|(&(function_id, line), id)| Location { id, line: vec![Line { function_id, line }] });
        let location = location.collect();
        let string_table = self.strings.into_iter().collect();
        Profile { sample_type, sample: self.samples, location, function, string_table, comment, default_sample_type }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const TEXT: &str = "HloModule two_lines, is_scheduled=true

FileNames
1 \"model.py\"
2 \"main.py\"

FunctionNames
1 \"layer\"
2 \"main\"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}
2 {file_name_id=2 function_name_id=2 line=20 end_line=20 column=1 end_column=2}

StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}


ENTRY e {
  x = f32[256]{0} parameter(0)
  s = f32[256]{0} sine(x), metadata={op_name=\"jit(f)/sin\" stack_frame_id=2}
  ROOT r = f32[256]{0} reverse(s), dimensions={0}, metadata={op_name=\"jit(f)/rev\" stack_frame_id=1}
}
";

    #[test]
    fn the_profile_reads_back_with_stacks_and_bytes() {
        let analysis = crate::analyze(TEXT, crate::Target::Cpu).unwrap();
        let packed = write(&Report::of_analysis(&analysis, crate::Target::Cpu));
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
        let profile = Profile::decode(bytes.as_slice()).unwrap();
        let text = |at: i64| profile.string_table[usize::try_from(at).unwrap()].as_str();
        assert_eq!(text(0), "");
        assert_eq!((text(profile.sample_type[0].kind), text(profile.sample_type[0].unit)), ("peak", "bytes"));
        let total: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
        assert_eq!(total, analysis.estimate.peak.bytes.get() as i64);
        let frames = |sample: &Sample| -> Vec<String> {
            let line = |id: &u64| {
                let line = &profile.location[*id as usize - 1].line[0];
                let function = &profile.function[line.function_id as usize - 1];
                format!("{} {}:{}", text(function.name), text(function.filename), line.line)
            };
            sample.location_id.iter().map(line).collect()
        };
        let stacks: Vec<Vec<String>> = profile.sample.iter().map(frames).collect();
        assert!(stacks.contains(&vec!["layer model.py:7".to_owned(), "main main.py:20".to_owned()]), "{stacks:?}");
        assert!(stacks.contains(&vec!["(argument) :0".to_owned()]), "{stacks:?}");
    }
}
