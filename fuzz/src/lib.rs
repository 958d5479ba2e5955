//! The laws that hold for any input whatever, one function each. The fuzz targets run them on made-up inputs, and `tests/finds.rs` on the inputs
//! that once broke them.
//!
//! A law panics when it is broken; it answers nothing, since refusing an input is as good as taking it.

mod odd;

use hlo_ir::{Diagnostic, Module, proto, text, verify};
use hlo_opt::{Bytes, Failure, Grade, Options, Pipeline};

/// A check of one input, which panics when the input breaks it.
pub type Law = fn(&[u8]);

/// The law of each fuzz target under the target's name.
pub const LAWS: [(&str, Law); 6] = [
    ("parse", parse),
    ("parse_print_parse", parse_print_parse),
    ("verify", verify),
    ("proto", proto),
    ("optimize", optimize),
    ("odd", odd),
];

/// Any text is read or refused with problems that lie in it.
pub fn parse(bytes: &[u8]) {
    let _ = module_of(bytes);
}

/// What is printed is read again, as the same text.
pub fn parse_print_parse(bytes: &[u8]) {
    if let Some(module) = module_of(bytes) {
        let printed = text::print(&module);
        assert_eq!(text::print(&reread(&printed)), printed, "printing is no fixed point");
    }
}

/// The verifier judges any module that was read, and judges its print the same.
pub fn verify(bytes: &[u8]) {
    let Some(module) = module_of(bytes) else { return };
    let problems = verify::verify(&module);
    let source = std::str::from_utf8(bytes).expect("a module was read from it");
    check_spans(source, &problems);
    let again = verify::verify(&reread(&text::print(&module)));
    assert_eq!(messages(&problems), messages(&again), "the print is judged differently");
}

/// Any bytes are read as a message or refused. A legal module that the messages have fields for comes back from them as it was, but for
/// the names, which are unique in the whole module then.
pub fn proto(bytes: &[u8]) {
    if proto::looks_like_proto(bytes) {
        if let Ok(decoded) = proto::read(bytes) {
            through_bytes(&decoded.module);
        }
    } else if let Some(module) = legal_module_of(bytes) {
        through_bytes(&module);
    }
}

/// A legal module is rewritten into a legal module, or refused for what it is; every pass leaves a legal module behind.
pub fn optimize(bytes: &[u8]) {
    if legal_module_of(bytes).is_none() {
        return;
    }
    let source = std::str::from_utf8(bytes).expect("a module was read from it");
    match hlo_opt::optimize(source, &Pipeline::standard(), &options(bytes)) {
        Ok(outcome) => {
            let problems = verify::verify(&reread(&outcome.text));
            assert!(problems.is_empty(), "the result is not legal: {problems:#?}\n{}", outcome.text);
        }
        Err(Failure::Estimate(_)) => {}
        Err(failure) => panic!("{failure}"),
    }
}

/// A legal module in which odd things stand ([`odd`](mod@odd)) is estimated, rewritten, taken apart and printed like any other.
pub fn odd(bytes: &[u8]) {
    let Some(text) = made_odd(bytes) else { return };
    let legal = |text: &str| {
        let problems = verify::verify(&reread(text));
        assert!(problems.is_empty(), "not legal: {problems:#?}\n{text}");
    };
    legal(&text);
    for target in [hlo_opt::Target::Cpu, hlo_opt::Target::Gpu, hlo_opt::Target::Tpu] {
        if let Err(failure) = hlo_opt::analyze(&text, target) {
            check_refusal(&failure, &text);
        }
    }
    for passes in ["", "unfuse"] {
        let pipeline = Pipeline::parse(passes).expect("passes that there are");
        rewrite(&text, &pipeline, &options(bytes), legal);
    }
    rewrite(&text, &Pipeline::standard(), &options(bytes), legal);
}

/// The module in `bytes` with odd things in it, if they hold a legal one.
pub fn made_odd(bytes: &[u8]) -> Option<String> {
    let mut module = legal_module_of(bytes)?;
    odd::make_odd(&mut module, bytes);
    Some(text::print(&module))
}

fn rewrite(text: &str, pipeline: &Pipeline, options: &Options, legal: impl Fn(&str)) {
    match hlo_opt::optimize(text, pipeline, options) {
        Ok(outcome) => legal(&outcome.text),
        Err(failure) => check_refusal(&failure, text),
    }
}

/// The only reason to refuse a legal module is a size beyond all numbers.
fn check_refusal(failure: &Failure, text: &str) {
    let Failure::Estimate(error) = failure else { panic!("{failure}\n{text}") };
    assert!(error.to_string().contains("exceeds 2^64"), "{error}\n{text}");
}

/// Options under which most rewrites fire even on tiny programs; what else varies hangs on the length of the input.
fn options(bytes: &[u8]) -> Options {
    let grades = [Grade::HloExact, Grade::Reassociate];
    let blocks = [None, Some(Bytes(1)), Some(Bytes(4096))];
    Options {
        exactness: grades[bytes.len() % grades.len()],
        chunk_bytes: blocks[bytes.len() % blocks.len()],
        min_saving: Bytes::ZERO,
        verify_each: true,
        advise: false,
        ..Options::default()
    }
}

/// The module in `bytes`, if they hold one.
fn module_of(bytes: &[u8]) -> Option<Module> {
    let source = std::str::from_utf8(bytes).ok()?;
    match text::parse(source) {
        Ok(module) => Some(module),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            assert!(problems.iter().all(|problem| problem.span.is_some()), "a problem without a place: {problems:#?}");
            check_spans(source, &problems);
            None
        }
    }
}

fn legal_module_of(bytes: &[u8]) -> Option<Module> {
    module_of(bytes).filter(|module| verify::verify(module).is_empty())
}

/// Reads what was printed.
fn reread(printed: &str) -> Module {
    text::parse(printed).unwrap_or_else(|problems| panic!("the print cannot be read: {problems:#?}\n{printed}"))
}

/// Every place lies in the text, between characters, and every message says something.
fn check_spans(source: &str, problems: &[Diagnostic]) {
    for problem in problems {
        assert!(!problem.message.is_empty() && !problem.message.contains('\n'), "{problem:#?}");
        for span in problem.span.into_iter().chain(problem.labels.iter().map(|(span, _)| *span)) {
            assert!(source.get(span.start as usize..span.end as usize).is_some(), "{problem:#?}");
        }
    }
}

fn messages(problems: &[Diagnostic]) -> Vec<&str> {
    problems.iter().map(|problem| problem.message.as_str()).collect()
}

/// Writes a module as a message and reads it: a second trip changes nothing.
fn through_bytes(module: &Module) {
    let Ok(encoded) = proto::write(module) else { return };
    let decoded = proto::read(&encoded.bytes)
        .unwrap_or_else(|problems| panic!("what was written cannot be read: {problems:#?}\n{}", text::print(module)));
    let again = proto::write(&decoded.module)
        .unwrap_or_else(|problems| panic!("what was read cannot be written: {problems:#?}\n{}", text::print(module)));
    let twice = proto::read(&again.bytes).expect("the second trip is like the first");
    assert_eq!(text::print(&twice.module), text::print(&decoded.module), "{}", text::print(module));
    assert_eq!(module.instruction_count(), decoded.module.instruction_count(), "{}", text::print(module));
}
