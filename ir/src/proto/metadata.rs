//! Metadata, frontend attributes, statistics, accuracy, origins and stack-frame tables to messages and back.

use std::fmt::Write as _;

use super::float::general;
use super::message::{common as pb, dims, module};
use super::names;
use super::scan::{Cursor, Fit, dict_or_quote, grouped, joined, quote};

const INFALLIBLE: &str = "writing to a string cannot fail";

/// Reads `{op_name="..." source_line=3}`.
pub(super) fn write(cursor: &mut Cursor<'_>) -> Fit<pb::OpMetadata> {
    let mut metadata = pb::OpMetadata::default();
    cursor.expect("{")?;
    while !cursor.eat("}") {
        let key = cursor.word()?;
        cursor.expect("=")?;
        match key {
            "op_type" => metadata.op_type = cursor.string()?,
            "op_name" => metadata.op_name = cursor.string()?,
            "source_file" => metadata.source_file = cursor.string()?,
            "source_line" => metadata.source_line = cursor.small()?,
            "source_end_line" => metadata.source_end_line = cursor.small()?,
            "source_column" => metadata.source_column = cursor.small()?,
            "source_end_column" => metadata.source_end_column = cursor.small()?,
            "profile_type" => metadata.profile_type = cursor.list(("{", "}"), Cursor::small)?,
            "deduplicated_name" => metadata.deduplicated_name = cursor.string()?,
            "scheduling_name" => metadata.scheduling_name = cursor.string()?,
            "stack_frame_id" => metadata.stack_frame_id = cursor.small()?,
            "size_of_generated_code_in_bytes" => metadata.size_of_generated_code_in_bytes = cursor.int()?,
            "size_of_memory_working_set_in_bytes" => metadata.size_of_memory_working_set_in_bytes = cursor.int()?,
            _ => return Err(format!("key `{key}` has no field")),
        }
        cursor.eat(",");
    }
    Ok(metadata)
}

/// The text of metadata; empty if nothing is set.
pub(super) fn read(metadata: &pb::OpMetadata) -> Fit<String> {
    if metadata.metadata_payload.is_some() || metadata.profile_info.is_some() {
        return Err("fields `metadata_payload` and `profile_info` cannot be written as text".to_owned());
    }
    let mut parts = Vec::new();
    let mut text = |key: &str, value: &str| {
        if !value.is_empty() {
            let mut part = format!("{key}=");
            quote(&mut part, value.as_bytes());
            parts.push(part);
        }
    };
    text("op_type", &metadata.op_type);
    text("op_name", &metadata.op_name);
    text("source_file", &metadata.source_file);
    let number = |parts: &mut Vec<String>, key: &str, value: i64| {
        if value != 0 {
            parts.push(format!("{key}={value}"));
        }
    };
    number(&mut parts, "source_line", metadata.source_line.into());
    number(&mut parts, "source_end_line", metadata.source_end_line.into());
    number(&mut parts, "source_column", metadata.source_column.into());
    number(&mut parts, "source_end_column", metadata.source_end_column.into());
    if !metadata.profile_type.is_empty() {
        parts.push(format!("profile_type={{{}}}", joined(&metadata.profile_type, ",")));
    }
    for (key, value) in
        [("deduplicated_name", &metadata.deduplicated_name), ("scheduling_name", &metadata.scheduling_name)]
    {
        if !value.is_empty() {
            let mut part = format!("{key}=");
            quote(&mut part, value.as_bytes());
            parts.push(part);
        }
    }
    number(&mut parts, "stack_frame_id", metadata.stack_frame_id.into());
    number(&mut parts, "size_of_generated_code_in_bytes", metadata.size_of_generated_code_in_bytes);
    number(&mut parts, "size_of_memory_working_set_in_bytes", metadata.size_of_memory_working_set_in_bytes);
    Ok(if parts.is_empty() { String::new() } else { grouped(parts, " ") })
}

/// `{..}` or `{{..}, {..}}`, in a sharding.
pub(super) fn list(cursor: &mut Cursor<'_>) -> Fit<Vec<pb::OpMetadata>> {
    let mut inside = *cursor;
    inside.expect("{")?;
    if inside.peek() == Some(b'{') { cursor.list(("{", "}"), write) } else { Ok(vec![write(cursor)?]) }
}

pub(super) fn list_text(list: &[pb::OpMetadata]) -> Fit<String> {
    let texts = list.iter().map(|one| read(one).map(|text| if text.is_empty() { "{}".to_owned() } else { text }));
    let texts = texts.collect::<Fit<Vec<_>>>()?;
    Ok(if texts.len() == 1 { texts.concat() } else { grouped(texts, ", ") })
}

/// Reads `{a="x",b={...}}`.
pub(super) fn frontend(text: &str) -> Fit<pb::FrontendAttributes> {
    let mut cursor = Cursor::new(text);
    let mut map: Vec<pb::MapEntry> = cursor.list(("{", "}"), |cursor| {
        let key = cursor.word()?.to_owned();
        cursor.expect("=")?;
        let value = if cursor.peek() == Some(b'{') { cursor.dict()?.to_owned() } else { cursor.string()? };
        Ok(pb::MapEntry { key, value })
    })?;
    cursor.end()?;
    map.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(pb::FrontendAttributes { map })
}

pub(super) fn frontend_text(attributes: &pb::FrontendAttributes) -> Fit<String> {
    let mut entries: Vec<_> = attributes.map.iter().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let mut parts = Vec::new();
    for entry in entries {
        if entry.key.is_empty() || !entry.key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b)) {
            return Err(format!("the key `{}` cannot be written as text", entry.key));
        }
        let mut part = format!("{}=", entry.key);
        dict_or_quote(&mut part, entry.value.as_bytes());
        parts.push(part);
    }
    Ok(grouped(parts, ","))
}

/// Reads `{visualizing_index=0,a=1,b=2.5}`.
pub(super) fn statistics(text: &str) -> Fit<dims::StatisticsViz> {
    let mut cursor = Cursor::new(text);
    let mut viz = dims::StatisticsViz::default();
    cursor.list(("{", "}"), |cursor| {
        let stat_name = cursor.word()?.to_owned();
        cursor.expect("=")?;
        if stat_name == "visualizing_index" {
            viz.stat_index_to_visualize = cursor.int()?;
        } else {
            viz.statistics.push(dims::Statistic { stat_name, stat_val: cursor.float()? });
        }
        Ok(())
    })?;
    cursor.end()?;
    Ok(viz)
}

pub(super) fn statistics_text(viz: &dims::StatisticsViz) -> String {
    let mut out = format!("{{visualizing_index={}", viz.stat_index_to_visualize);
    for statistic in &viz.statistics {
        write!(out, ",{}={}", statistic.stat_name, general(statistic.stat_val, 6)).expect(INFALLIBLE);
    }
    out + "}"
}

/// Reads `{mode=highest}` or `{tolerance={atol=1e-05,rtol=0,ulps=1}}`.
pub(super) fn accuracy(text: &str) -> Fit<dims::ResultAccuracy> {
    let mut cursor = Cursor::new(text);
    let mut accuracy = dims::ResultAccuracy::default();
    cursor.expect("{")?;
    if cursor.eat("mode=") {
        accuracy.mode = Some(names::number(names::ACCURACY_MODE, cursor.word()?)?);
    } else {
        cursor.expect("tolerance=")?;
        let mut tolerance = dims::ResultAccuracyTolerance::default();
        cursor.list(("{", "}"), |cursor| {
            let key = cursor.word()?;
            cursor.expect("=")?;
            match key {
                "atol" => tolerance.atol = cursor.float()?,
                "rtol" => tolerance.rtol = cursor.float()?,
                "ulps" => tolerance.ulps = cursor.int()?,
                _ => return Err(format!("key `{key}` has no field")),
            }
            Ok(())
        })?;
        accuracy.tolerance = Some(tolerance);
    }
    cursor.expect("}")?;
    cursor.end()?;
    Ok(accuracy)
}

pub(super) fn accuracy_text(accuracy: &dims::ResultAccuracy) -> Fit<String> {
    Ok(match (accuracy.mode, &accuracy.tolerance) {
        (_, Some(t)) => {
            format!("{{tolerance={{atol={},rtol={},ulps={}}}}}", general(t.atol, 6), general(t.rtol, 6), t.ulps)
        }
        (Some(mode), _) => format!("{{mode={}}}", names::spelling(names::ACCURACY_MODE, mode)?),
        (None, None) => String::new(),
    })
}

/// Reads the text of the four tables.
pub(super) fn tables(text: &str) -> Fit<module::StackFrameIndex> {
    let mut cursor = Cursor::new(text);
    let mut index = module::StackFrameIndex::default();
    cursor.expect("FileNames")?;
    index.file_names = numbered(&mut cursor, Cursor::string)?;
    cursor.expect("FunctionNames")?;
    index.function_names = numbered(&mut cursor, Cursor::string)?;
    cursor.expect("FileLocations")?;
    index.file_locations = numbered(&mut cursor, |cursor| {
        let mut location = module::FileLocation::default();
        fields(cursor, |key, value| {
            *match key {
                "file_name_id" => &mut location.file_name_id,
                "function_name_id" => &mut location.function_name_id,
                "line" => &mut location.line,
                "end_line" => &mut location.end_line,
                "column" => &mut location.column,
                "end_column" => &mut location.end_column,
                _ => return false,
            } = value;
            true
        })?;
        Ok(location)
    })?;
    cursor.expect("StackFrames")?;
    index.stack_frames = numbered(&mut cursor, |cursor| {
        let mut frame = module::StackFrame::default();
        fields(cursor, |key, value| {
            match key {
                "file_location_id" => frame.file_location_id = value,
                // Text counts parents from 2, so that 1 can mean none.
                "parent_frame_id" => frame.parent_frame_id = value.saturating_sub(1),
                _ => return false,
            }
            true
        })?;
        Ok(frame)
    })?;
    cursor.end()?;
    Ok(index)
}

/// `1 item 2 item`; the numbers mean nothing.
fn numbered<'a, T>(cursor: &mut Cursor<'a>, item: impl Fn(&mut Cursor<'a>) -> Fit<T>) -> Fit<Vec<T>> {
    let mut items = Vec::new();
    while cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        cursor.int()?;
        items.push(item(cursor)?);
    }
    Ok(items)
}

/// `{a=1 b=2}`.
fn fields(cursor: &mut Cursor<'_>, mut set: impl FnMut(&str, i32) -> bool) -> Fit<()> {
    cursor.expect("{")?;
    while !cursor.eat("}") {
        let key = cursor.word()?;
        cursor.expect("=")?;
        if !set(key, cursor.small()?) {
            return Err(format!("key `{key}` has no field"));
        }
    }
    Ok(())
}

/// The text of the four tables, with the blank line before it.
pub(super) fn tables_text(index: &module::StackFrameIndex) -> String {
    let mut out = String::new();
    for (head, names) in [("FileNames", &index.file_names), ("FunctionNames", &index.function_names)] {
        writeln!(out, "\n{head}").expect(INFALLIBLE);
        for (position, name) in names.iter().enumerate() {
            write!(out, "{} ", position + 1).expect(INFALLIBLE);
            quote(&mut out, name.as_bytes());
            out.push('\n');
        }
    }
    out.push_str("\nFileLocations\n");
    for (position, l) in index.file_locations.iter().enumerate() {
        write!(out, "{} {{file_name_id={} ", position + 1, l.file_name_id).expect(INFALLIBLE);
        write!(out, "function_name_id={} line={} end_line={} ", l.function_name_id, l.line, l.end_line)
            .expect(INFALLIBLE);
        writeln!(out, "column={} end_column={}}}", l.column, l.end_column).expect(INFALLIBLE);
    }
    out.push_str("\nStackFrames\n");
    for (position, frame) in index.stack_frames.iter().enumerate() {
        let parent = frame.parent_frame_id.saturating_add(1);
        writeln!(out, "{} {{file_location_id={} parent_frame_id={parent}}}", position + 1, frame.file_location_id)
            .expect(INFALLIBLE);
    }
    out + "\n"
}
