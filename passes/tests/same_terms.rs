//! A checker of rewritten programs that shares no code with the passes: every element of every result must be built by the same operations
//! from the same elements of the arguments, in the same order. Floats are terms here, not numbers; integers are computed.
//!
//! Pins `passes/src/chunk.rs`, `passes/src/roll.rs`, `passes/src/tie.rs`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::interpreter::random::Random;
use crate::interpreter::tensor::Tensor;
use crate::interpreter::{self, Data, free};
use hlo_ir::edit::Patch;
use hlo_ir::{ArrayShape, AttrKey, ElementType, Instruction, InstructionId, Module, Opcode, text, verify};
use hlo_memory::{Bytes, ModelEstimator};
use hlo_passes::manager::{default_pipeline, run};
use hlo_passes::{Grade, Machine, Options};

/// Arrays with more elements than this make the interpreter too slow for an ordinary test.
const MOST_ELEMENTS: u64 = 4000;

/// Programs in which a sum that starts from zeros is added to another: the loop goes on from the other instead, as XLA itself does.
const MERGED: [&str; 1] = ["loop-residuals-small/fires-index-stack.before.hlo"];

/// Programs of the corpus that are small enough to be interpreted.
fn programs() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus");
    let read = |folder: &Path| {
        fs::read_dir(folder).expect("the corpus is readable").map(|entry| entry.expect("its entries too").path())
    };
    let folders = read(&corpus).filter(|path| path.to_str().is_some_and(|path| path.ends_with("-small")));
    let files = folders.flat_map(|folder| fs::read_dir(folder).expect("the corpus is readable"));
    let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("its entries too").path()).collect();
    files.retain(|path| path.to_str().is_some_and(|path| path.ends_with(".before.hlo")));
    files.sort();
    files
}

fn is_small(module: &Module) -> bool {
    module.live_instructions().all(|(_, inst)| {
        inst.array().is_none_or(|array| array.elements().is_some_and(|elements| elements <= MOST_ELEMENTS))
    })
}

/// Arguments: integers around the bounds of the dimensions, floats each a term of its own.
fn arguments(module: &Module, random: &mut Random) -> Vec<Data> {
    let parameters = module.parameters(module.entry()).into_iter();
    parameters.map(|id| Data::Array(argument(module.instruction(id).array().expect("arrays only"), random))).collect()
}

fn argument(shape: &ArrayShape, random: &mut Random) -> Tensor {
    Tensor::build(shape, |_| match shape.element_type {
        ElementType::Pred => random.range(0, 2),
        integer if integer.is_integer() => random.range(-4, 20),
        float => {
            let spare = 64 - float.bits();
            ((random.next() << spare) as i64) >> spare
        }
    })
}

/// The program as the default pipeline rewrites it in blocks of about so many bytes; `None` if it stays or a sum is regrouped.
fn rewritten(module: &Module, chunk_bytes: u64) -> Option<Module> {
    let mut module = text::parse(&text::print(module)).expect("our own print");
    let options = Options {
        min_saving: Bytes(1),
        machine: Some(Machine::without_malloc_cache()),
        chunk_bytes: Some(Bytes(chunk_bytes)),
        advise: false,
        ..Options::default()
    };
    let report =
        run(&mut module, &default_pipeline(), &options, &ModelEstimator::default()).expect("it has an estimate");
    let grade = report.rewrites.iter().map(|rewrite| rewrite.grade).max()?;
    (grade <= Grade::HloExact).then_some(module)
}

/// Whether both programs build the same terms; `None` if the interpreter lacks an operation of one of them.
fn same_terms(before: &Module, after: &Module, seed: u64, sums_are_bags: bool) -> Option<bool> {
    let arguments = arguments(before, &mut Random(seed));
    let results = |module: &Module| {
        catch_unwind(AssertUnwindSafe(|| free::with(sums_are_bags, || interpreter::run(module, &arguments)))).ok()
    };
    Some(results(before)? == results(after)?)
}

/// A program of the corpus with a prime number of rows that is soon interpreted.
fn read(path: &Path) -> Module {
    let source = fs::read_to_string(path).expect("a corpus file");
    let short = text::parse(&source.replace("5003", "211")).expect("legal text");
    assert_eq!(verify::verify(&short), [], "{}", path.display());
    short
}

#[test]
fn every_element_of_the_corpus_is_built_the_same_way() {
    let (mut compared, mut unknown) = (0, Vec::new());
    for path in programs() {
        let before = read(&path);
        // The interpreter is one device.
        if !is_small(&before) || before.num_partitions() > 1 {
            continue;
        }
        let merged = MERGED.iter().any(|name| path.ends_with(name));
        for chunk_bytes in [200, 3000] {
            let Some(after) = rewritten(&before, chunk_bytes) else { continue };
            match same_terms(&before, &after, chunk_bytes, merged) {
                Some(same) => assert!(same, "{} in blocks of {chunk_bytes} bytes", path.display()),
                None => unknown.push(path.file_name().expect("a file").to_owned()),
            }
            compared += 1;
        }
    }
    assert!(unknown.is_empty(), "the interpreter lacks an operation of {unknown:?}");
    assert!(compared > 200, "only {compared} rewritten programs were compared");
}

/// A program in which the body of a loop hands something else of the same shape on in one place; `None` if nothing has that shape.
fn handing_on_otherwise(module: &Module, random: &mut Random) -> Option<Module> {
    let mut module = text::parse(&text::print(module)).expect("our own print");
    let bodies: Vec<_> = module.live_instructions().filter_map(|(_, inst)| inst.computation(&AttrKey::Body)).collect();
    let body = random.pick(&bodies);
    let root = module.computation(body).root;
    let mut changed = module.instruction(root).clone();
    if changed.opcode != Opcode::Tuple {
        return None;
    }
    let place = random.pick(&(0..changed.operands.len()).collect::<Vec<_>>());
    let shape = &module.instruction(changed.operands[place]).shape;
    let alike = |(id, inst): (InstructionId, &Instruction)| (inst.shape == *shape && id != root).then_some(id);
    let mut others: Vec<_> = module.instructions_of(body).filter_map(alike).collect();
    others.retain(|&id| id != changed.operands[place] && !module.instruction(id).operands.contains(&root));
    // Loops must end: what they count with stays.
    if others.is_empty() || shape.as_array().is_none_or(|array| array.dims.is_empty()) {
        return None;
    }
    changed.operands[place] = random.pick(&others);
    let mut patch = Patch::new(&module);
    patch.rewrite(root, changed);
    patch.apply(&mut module).expect("it fits");
    assert_eq!(verify::verify(&module), []);
    Some(module)
}

#[test]
fn loops_that_forward_their_elements_otherwise_are_built_the_same_way() {
    let (mut compared, mut random) = (0, Random(1));
    for path in programs() {
        let before = read(&path);
        let loops = before.live_instructions().any(|(_, inst)| inst.opcode == Opcode::While);
        if !loops || !is_small(&before) || before.num_partitions() > 1 {
            continue;
        }
        for seed in 0..12 {
            let Some(otherwise) = handing_on_otherwise(&before, &mut random) else { continue };
            let Some(after) = rewritten(&otherwise, 200) else { continue };
            let same = same_terms(&otherwise, &after, seed, true);
            assert_ne!(same, Some(false), "{}:\n{}", path.display(), text::print(&otherwise));
            compared += usize::from(same.is_some());
        }
    }
    assert!(compared > 20, "only {compared} rewritten programs were compared");
}

/// Two loops, of which the one over columns computes the scores again.
#[test]
fn gradients_of_attention_are_built_the_same_way() {
    let before = text::parse(include_str!("budget_programs/attention_gradient_small.hlo")).expect("legal text");
    for chunk_bytes in [200, 3000] {
        let after = rewritten(&before, chunk_bytes).expect("it fires");
        let loops = after.live_instructions().filter(|(_, inst)| inst.opcode == Opcode::While);
        assert!(loops.count() >= 2, "in blocks of {chunk_bytes} bytes");
        assert_eq!(same_terms(&before, &after, chunk_bytes, false), Some(true), "in blocks of {chunk_bytes} bytes");
    }
}

#[test]
fn planted_errors_are_seen() {
    let path = programs().into_iter().find(|path| path.ends_with("chunk-small/fires-grad-sin.before.hlo"));
    let before = read(&path.expect("it is there"));
    let after = text::print(&rewritten(&before, 200).expect("it fires"));
    let planted = |old: &str, new: &str| {
        assert!(after.contains(old), "{old} is not in the rewritten program:\n{after}");
        let wrong = text::parse(&after.replacen(old, new, 1)).expect("still legal text");
        same_terms(&before, &wrong, 1, false)
    };
    assert_eq!(planted("HloModule", "HloModule"), Some(true));
    assert_eq!(planted("s32[] multiply(", "s32[] add("), Some(false), "blocks start at the wrong row");
    assert_eq!(planted("cosine(", "sine("), Some(false), "another function");
}
