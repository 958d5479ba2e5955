//! Runs one pass on HLO text and prints the result: `run_pass PASS INPUT [CHUNK_BYTES]`, text on standard output, findings on standard
//! error. Every finding of the pass is applied, whether it lowers the estimate or not.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line example")]

use hlo_ir::Module;
use hlo_ir::graph::Users;
use hlo_memory::{Bytes, Estimate, Model, Peak};
use hlo_passes::{Context, Finding, Options, Outcome, Pass};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("usage: run_pass PASS INPUT [CHUNK_BYTES]".into());
    };
    let chunk_bytes = arguments.next().map(|text| text.parse().map(Bytes)).transpose()?;
    let passes = hlo_passes::all();
    let pass = passes.iter().find(|pass| pass.name() == name).ok_or("no such pass")?;
    let text = std::fs::read_to_string(path)?;
    let mut module = hlo_ir::text::parse(&text).map_err(|errors| errors[0].message.clone())?;
    let options = Options { chunk_bytes, min_saving: Bytes::ZERO, ..Options::default() };
    let mut told = Vec::new();
    while let Some(rewrite) = next_rewrite(&module, pass.as_ref(), &options, &mut told) {
        rewrite.apply(&mut module)?;
    }
    print!("{}", hlo_ir::text::print(&module));
    Ok(())
}

/// Reports the findings that were not reported before and returns the first patch among all of them.
fn next_rewrite(
    module: &Module,
    pass: &dyn Pass,
    options: &Options,
    told: &mut Vec<String>,
) -> Option<hlo_ir::edit::Patch> {
    let users = Users::of(module);
    let estimate = interface_only(module);
    let context = Context::of_input(module, &users, &estimate, options);
    let mut patch = None;
    for finding in pass.find(&context) {
        let line = describe(module, &finding);
        if !told.contains(&line) {
            eprintln!("{line}");
            told.push(line);
        }
        if let (None, Outcome::Rewrite { patch: found, .. }) = (&patch, finding.outcome) {
            patch = Some(found);
        }
    }
    patch
}

fn describe(module: &Module, finding: &Finding) -> String {
    let name = &module.instruction(finding.instruction).name;
    match &finding.outcome {
        Outcome::Rewrite { note, .. } => {
            format!("rewrite {name}: {note}, {} [{}]", finding.wasted, finding.grade.name())
        }
        Outcome::Missed(reason) | Outcome::Withheld { reason, .. } => {
            format!("missed {name}: {} {} [{}]", finding.wasted, reason.message, reason.code)
        }
    }
}

/// An estimate that knows arguments and outputs only: passes read the floor from it.
fn interface_only(module: &Module) -> Estimate {
    let size = |id| sum(module.shape(id));
    let entry = module.entry();
    let arguments: Bytes = module.parameters(entry).into_iter().map(size).sum();
    let outputs = size(module.computation(entry).root);
    Estimate {
        model: Model::Predicted,
        total: arguments + outputs,
        arguments,
        outputs,
        aliased: Bytes::ZERO,
        constants: Bytes::ZERO,
        temporaries: Bytes::ZERO,
        thread_local: Bytes::ZERO,
        hidden_scratch: Bytes::ZERO,
        floor: arguments + outputs,
        host: Bytes::ZERO,
        peak: Peak::default(),
        largest: Vec::new(),
        timeline: Vec::new(),
        slack: Bytes::ZERO,
        error_margin: Bytes::ZERO,
        of_all_devices: false,
        caveats: Vec::new(),
    }
}

fn sum(shape: &hlo_ir::Shape) -> Bytes {
    match shape {
        hlo_ir::Shape::Tuple(elements) => elements.iter().map(|element| sum(element)).sum(),
        array => hlo_memory::size::shape_size(array).unwrap_or_default(),
    }
}
