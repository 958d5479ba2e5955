//! Dumps as protocol buffers: every file of the corpus goes through bytes and comes back, and damaged bytes are refused or read.
//!
//! Pins `ir/src/proto/mod.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use arbtest::arbtest;
use hlo_ir::{Module, proto, text};

/// HLO files below the corpus folder; `programs` holds templates, which are no HLO yet.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the corpus is a folder of this repository") {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "programs") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "hlo") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The module without the header attributes that the messages have no field for, in the style of a dump.
fn representable(mut module: Module) -> Module {
    module.attributes.retain(|attribute| !attribute.key.name().starts_with("allow_spmd_sharding_propagation"));
    module.style = text_style(&module);
    module
}

/// Whether a blank line ended the text is the one thing about its style that bytes do not say.
fn text_style(module: &Module) -> hlo_ir::module::TextStyle {
    hlo_ir::module::TextStyle { final_blank_line: false, ..module.style }
}

fn through_bytes(module: &Module, what: &str) -> Module {
    let encoded = proto::write(module).unwrap_or_else(|problems| panic!("{what}: {problems:#?}"));
    assert!(proto::looks_like_proto(&encoded.bytes), "{what}");
    let decoded = proto::read(&encoded.bytes).unwrap_or_else(|problems| panic!("{what}: {problems:#?}"));
    assert!(decoded.dropped.is_empty() && decoded.buffers.is_none(), "{what}: {:?}", decoded.dropped);
    decoded.module
}

#[test]
fn every_file_of_the_corpus_survives_the_trip_through_bytes() {
    let files = files();
    assert!(files.len() > 10, "the corpus is not where this test looks for it");
    for path in files {
        let source = fs::read_to_string(&path).expect("a readable file");
        let module = text::parse(&source).unwrap_or_else(|problems| panic!("{}: {problems:#?}", path.display()));
        let again = through_bytes(&module, &path.display().to_string());
        assert_eq!(text::print(&representable(again)), text::print(&representable(module)), "{}", path.display());
    }
}

#[test]
fn names_are_unique_in_the_whole_module() {
    let source = "HloModule m\nf { ROOT p = f32[] parameter(0) }\ng { ROOT a.7 = f32[] parameter(0) }\nENTRY e { p = f32[] parameter(0)\n p.1 = f32[] negate(p)\n a.7 = f32[] abs(p.1)\n ROOT c.007 = f32[] call(a.7), to_apply=f }";
    let again = through_bytes(&text::parse(source).expect("a legal text"), source);
    let names: Vec<_> = again.live_instructions().map(|(_, inst)| inst.name.as_str()).collect();
    // What jaxlib 0.10.2 makes of the same text.
    assert_eq!(names, ["p", "a.7", "p.1", "p.2", "a.0", "c.7"]);
}

/// One of everything the messages have a field for.
const EVERYTHING: &str = include_str!("proto/everything.hlo");

#[test]
fn every_kind_of_attribute_survives_the_trip_through_bytes() {
    let module = text::parse(EVERYTHING).expect("a legal text");
    let again = through_bytes(&module, "everything.hlo");
    assert_eq!(text::print(&again), text::print(&module));
}

#[test]
fn what_has_no_field_is_named() {
    let source =
        "HloModule m, allow_spmd_sharding_propagation_to_output={true}\nENTRY e { ROOT p = f32[] parameter(0), new=1 }";
    let mut module = text::parse(source).expect("a legal text");
    let problems = proto::write(&module).expect_err("`new` is no field");
    assert!(problems[0].message.contains("`new` of `p`"), "{}", problems[0].message);
    module = text::parse(&source.replace(", new=1", "")).expect("a legal text");
    let encoded = proto::write(&module).expect("nothing else is unknown");
    assert_eq!(encoded.dropped.len(), 1);
    assert!(encoded.dropped[0].message.contains("allow_spmd_sharding_propagation_to_output"));
}

#[test]
fn fields_of_later_versions_are_named() {
    let module = text::parse("ENTRY e { ROOT p = f32[] parameter(0) }").expect("a legal text");
    let mut bytes = proto::write(&module).expect("every field has a place").bytes;
    assert_eq!(proto::read(&bytes).expect("what was just written").dropped, []);
    // Field 200, a varint.
    bytes.extend([0xc0, 0x0c, 7]);
    let dropped = proto::read(&bytes).expect("a field more changes nothing else").dropped;
    assert_eq!(dropped.len(), 1);
    assert_eq!(dropped[0].message, "field 200 of the HloProto is not known to this version");
}

#[test]
fn damaged_bytes_are_read_or_refused_but_never_break_anything() {
    let whole = proto::write(&text::parse(EVERYTHING).expect("a legal text")).expect("every field has a place").bytes;
    arbtest(|u| {
        let mut bytes = whole.clone();
        for _ in 0..u.int_in_range(1..=6)? {
            let at = u.int_in_range(0..=bytes.len() - 1)?;
            match u.int_in_range(0..=3)? {
                0 => bytes.truncate(at.max(1)),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, u.arbitrary()?),
                _ => bytes[at] = u.arbitrary()?,
            }
            if bytes.is_empty() {
                break;
            }
        }
        if let Ok(decoded) = proto::read(&bytes) {
            let _ = text::print(&decoded.module);
        }
        Ok(())
    })
    .budget_ms(2000);
}

/// The length of a name is a byte that can be a line feed, a tab or a space.
#[test]
fn a_name_of_any_length_is_known_for_a_proto() {
    for length in 1..=40 {
        let name = "n".repeat(length);
        let text = format!("HloModule {name}\n\nENTRY main {{\n  ROOT x = f32[8] parameter(0)\n}}\n");
        let module = hlo_ir::text::parse(&text).expect("a small module is legal");
        assert!(proto::looks_like_proto(&proto::write(&module).expect("it has a proto").bytes), "{length}");
        assert!(!proto::looks_like_proto(format!("\n{text}").as_bytes()), "{length}");
    }
}
