//! Sends the dumps of a folder through everything this crate has, for a judge to compare: each `NAME.hlo` is parsed, verified, printed to
//! `NAME.print` and written to `NAME.pb`; each `NAME.xla-pb` is read and printed to `NAME.read`. A line of JSON per file says what was found.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use hlo_ir::{Diagnostic, Module, proto, text, verify};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("the name of a folder expected")?;
    let mut out = io::stdout().lock();
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.sort();
    for file in files {
        let found = match file.extension().and_then(|extension| extension.to_str()) {
            Some("hlo") => from_text(&file)?,
            Some("xla-pb") => from_proto(&file)?,
            _ => continue,
        };
        writeln!(out, "{}", json!({"file": file, "found": found}))?;
    }
    Ok(())
}

/// Messages with their places.
fn said(source: &str, problems: &[Diagnostic]) -> Vec<String> {
    let place = |span: hlo_ir::Span| {
        let (line, column) = text::line_column(source, span.start);
        format!("{line}:{column}: ")
    };
    problems.iter().map(|problem| problem.span.map_or_else(String::new, place) + &problem.message).collect()
}

fn from_text(file: &Path) -> Result<Value, Box<dyn Error>> {
    let bytes = fs::read(file)?;
    let source = String::from_utf8_lossy(&bytes);
    let module = match text::parse(&source) {
        Ok(module) => module,
        Err(problems) => return Ok(json!({"parse": said(&source, &problems)})),
    };
    let printed = text::print(&module);
    let again = text::parse(&printed).map(|again| text::print(&again));
    fs::write(file.with_extension("print"), &printed)?;
    let fixed = again.is_ok_and(|again| again == printed);
    let illegal = said(&source, &verify::verify(&module));
    Ok(json!({"parse": [], "verify": illegal, "fixed_point": fixed, "proto": to_proto(file, &module)?}))
}

/// What keeps the module from becoming a message, or what is lost on the way.
fn to_proto(file: &Path, module: &Module) -> io::Result<Value> {
    Ok(match proto::write(module) {
        Err(problems) => json!({"problems": said("", &problems)}),
        Ok(encoded) => {
            fs::write(file.with_extension("pb"), &encoded.bytes)?;
            json!({"dropped": said("", &encoded.dropped)})
        }
    })
}

fn from_proto(file: &Path) -> io::Result<Value> {
    Ok(match proto::read(&fs::read(file)?) {
        Err(problems) => json!({"problems": said("", &problems)}),
        Ok(decoded) => {
            fs::write(file.with_extension("read"), text::print(&decoded.module))?;
            let illegal = said("", &verify::verify(&decoded.module));
            let allocated = decoded.buffers.map(|buffers| buffers.total_bytes());
            json!({"dropped": said("", &decoded.dropped), "verify": illegal, "allocated": allocated})
        }
    })
}
